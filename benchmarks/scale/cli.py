"""``python -m benchmarks scale PART``: measure a part, write its table, and write the page.

Parts that start Ray run in a network namespace of their own. ``sim`` measures the kernels and
simulates a batch on 1 to 1,000 workers; with ``--replay`` it uses kernels as measured before, and
measures only new cases. ``page`` only writes the page.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

from benchmarks.results_io import RESULTS, write_table
from benchmarks.scale.network import go_inside

ON_RAY = ("engine", "stability", "overhead", "traffic", "kills", "memory", "pool", "replicas")
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
        import_module("benchmarks.scale.tables").write(measured_before="--replay" in options)
    if (RESULTS / "scale-sim.json").exists():
        import_module("benchmarks.scale.page").write()
