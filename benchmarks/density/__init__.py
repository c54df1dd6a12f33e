"""Two experiments without classes: ``python -m benchmarks density``.

How probable the rows of a stream were before they were learned, and how well improbable rows
point to anomalies.
"""

from __future__ import annotations


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    from benchmarks.density.cli import main as command

    command(arguments)
