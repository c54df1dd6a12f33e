"""Rows with many columns, such as embeddings: the families made for them."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.speed.alone import Job
from benchmarks.speed.timing import Row
from benchmarks.speed.workloads import Workload

_FIRST_BAR = 1.0  # seconds of a first batch
_BARS = {  # by number of columns and family
    (384, "direction"): 2.0,
    (384, "subspace"): 4.0,
    (768, "direction"): 3.0,
    (768, "subspace"): 3.0,
    (1536, "direction"): 3.0,
    (1536, "subspace"): 3.0,
}


def jobs() -> list[Job]:
    """All cases; a first batch where it has a bar."""
    return [
        Job(
            f"D={d} K=200, {family}",
            Workload(1000, d, 200, family, n_batches=20),
            bar,
            _FIRST_BAR if d == 384 else None,
        )
        for (d, family), bar in _BARS.items()
    ]


def run(*, quick: bool, only: str) -> Iterator[Row]:
    """Time against k-means, memory, and seconds of the first batch."""
    small = Job("D=40 K=3, direction", Workload(100, 40, 3, "direction", n_batches=10), 2.0, 1.0)
    for job in [small] if quick else jobs():
        if only in job.case:
            yield from job.rows(quick=quick)
