"""``python -m benchmarks scale PART``: measure a part, write its table, make the page again.

Parts that start Ray run in a network namespace of their own. ``sim`` measures the kernels and
replays the pattern of a batch for 1 to 1,000 workers; ``page`` only makes the page.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

from benchmarks.ledger import RESULTS, write_table
from benchmarks.scale.network import go_inside

ON_RAY = ("engine", "stability", "overhead", "kills", "memory", "pool", "replicas")
PARTS = (*ON_RAY, "sim", "page")


def main(arguments: list[str]) -> None:
    """Run the part that is named first."""
    if not arguments or arguments[0] not in PARTS:
        sys.exit(f"usage: python -m benchmarks scale {{{','.join(PARTS)}}} [options]")
    name, *options = arguments
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if name in ON_RAY:
        go_inside(arguments)
        write_table("scale", name, import_module(f"benchmarks.scale.{name}").run())
    if name == "sim":
        import_module("benchmarks.scale_sim").main(options)
    elif (RESULTS / "scale-sim.json").exists():
        import_module("benchmarks.scale.page").write()
