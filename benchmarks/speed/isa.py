"""One pass with every set of kernels that this machine can run; as a module, with one of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

from threadpoolctl import threadpool_limits

from benchmarks.speed import engines, fresh
from benchmarks.speed.machine import kernels
from benchmarks.speed.rows import chosen_cases
from benchmarks.speed.timing import Budget, Row, by_turns, ratio
from scstream.kernels.native import available_isas

_CASES = ("D=2 K=20", "D=64 K=100", "multinomial sparse", "D=2 K=5")


def run(*, quick: bool, only: str) -> Iterator[Row]:
    """Pass over GEMM for each choice, as multiples of the best one."""
    found: dict[str, dict[str, Row]] = {}
    for environment in list(choices())[-1:] if quick else choices():
        reports, why = fresh.reports(
            "benchmarks.speed.isa", int(quick), only, environment=environment
        )
        if why:
            yield {"case": str(environment), "figure": "pass", "verdict": "cut off", "note": why}
        for report in reports:
            found.setdefault(report["case"], {})[report["kernels"]] = report
    for by_kernels in found.values():
        best = min(report["value"] for report in by_kernels.values())
        for name, report in by_kernels.items():
            yield {
                "case": report["case"],
                "figure": f"sampling pass with {name}, over the best",
                "value": report["value"] / best,
                "verdict": "report",
                "note": f"{report['value']:.3g} of the expansion GEMM",
            }


def choices() -> Iterator[dict[str, str]]:
    """Environments that choose kernels."""
    for isa in available_isas():
        yield {"SCSTREAM_KERNELS": "native", "SCSTREAM_ISA": isa}
    yield {"SCSTREAM_KERNELS": "numpy"}


def measure(*, quick: bool, only: str) -> Iterator[Row]:
    """Pass over GEMM of every case, with the kernels of this process."""
    budget = Budget(0.05, 2) if quick else Budget(2.0, 3)
    with threadpool_limits(1):
        for case in chosen_cases(quick=quick, only=only):
            if case.name not in _CASES:
                continue
            params = engines.sampling(case.work, "float64")
            tasks = {
                "pass": engines.one_pass(case.work, params),
                "gemm": engines.expansion(case.work, "float64"),
            }
            row = {"case": case.name, "kernels": kernels()}
            yield row | ratio(by_turns(tasks, budget), "pass", "gemm")


if __name__ == "__main__":
    for report in measure(quick=bool(int(sys.argv[1])), only=sys.argv[2]):
        print(json.dumps(report), flush=True)
