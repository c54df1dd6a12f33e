"""``python -m benchmarks runtime {throughput,stall,keys} [options]``."""

from __future__ import annotations

import sys
from importlib import import_module

PARTS = ("throughput", "stall", "keys")


def main(arguments: list[str]) -> None:
    """Run the part that is named first."""
    if not arguments or arguments[0] not in PARTS:
        sys.exit(f"usage: python -m benchmarks runtime {{{','.join(PARTS)}}} [options]")
    sys.argv = arguments
    import_module(f"benchmarks.runtime.{arguments[0]}").main()
