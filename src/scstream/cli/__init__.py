"""The command line: one command for each thing that a person does with streams and models."""

from __future__ import annotations

import sys

from scstream.errors import MissingExtra


def main() -> None:
    """Run the command line; its libraries are loaded only now."""
    try:
        from scstream.cli.main import run_app
    except MissingExtra as error:
        sys.stderr.write(f"scstream: {error}\n")
        sys.exit(2)
    run_app()
