"""One command for the evidence: ``python -m benchmarks PART [options]``."""

from __future__ import annotations

import sys
from importlib import import_module

PARTS = ("paper", "video", "density", "prepare", "runtime", "faults", "scale", "serve", "exact")


def main(arguments: list[str]) -> None:
    """Hand the options to the part that is named first."""
    if not arguments or arguments[0] not in PARTS:
        sys.exit(f"usage: python -m benchmarks {{{','.join(PARTS)}}} [options]")
    import_module(f"benchmarks.{arguments[0]}.cli").main(arguments[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
