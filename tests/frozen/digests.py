"""What a model knows as digests, under names that do not change when its attributes do.

This is the only place that looks into a model: whoever renames or moves an attribute of it edits
`STATE`, `INFO` or one of the functions here, and neither the streams nor the table.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

# A stable name of everything in a state: where it is today.
STATE = {
    "past": "past",
    "current": "current",
    "history": "history",
    "history_times": "history_times",
    "history_unassigned": "history_unassigned",
    "ids": "ids",
    "age": "age",
    "born": "born",
    "last_seen": "last_seen",
    "peak": "peak",
    "velocity": "velocity",
    "velocity_noise": "velocity_noise",
    "split_evidence": "split_evidence",
    "merge_pairs": "merge_pairs",
    "merge_evidence": "merge_evidence",
    "unassigned_weight": "unassigned_weight",
    "unassigned_weight_now": "unassigned_now",
    "next_id": "next_id",
    "time": "time",
    "batch_interval": "batch_interval",
    "n_batches": "n_batches",
}
INFO = {"n_novel": "n_novel", "mean_log_density": "mean_log_density"}
CLUSTERS = ("id", "weight", "share", "age", "born", "last_seen", "mean", "std")
KERNELS = ("native", "numpy")


@contextmanager
def on_kernels(kernels: str) -> Iterator[None]:
    """Start models with the "native" or "numpy" kernels inside a ``with`` block."""
    before = os.environ.get("SCSTREAM_KERNELS")
    os.environ["SCSTREAM_KERNELS"] = kernels
    try:
        yield
    finally:
        del os.environ["SCSTREAM_KERNELS"]
        if before is not None:
            os.environ["SCSTREAM_KERNELS"] = before


def state_of(model: Any) -> dict[str, Any]:
    """The state under its stable names."""
    state = model.state_
    return {name: np.asarray(getattr(state, today)) for name, today in STATE.items()}


def prior_of(model: Any) -> list[Any]:
    """Numbers of the prior in the order of the constructor, part by part; names do not matter."""
    return list(_numbers(model.family_.hyperparameters()))


def _numbers(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for entry in value.values():
            yield from _numbers(entry)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for entry in value:
            yield from _numbers(entry)
    elif not isinstance(value, str):
        yield np.asarray(value, dtype=np.float64)


def events_of(model: Any) -> list[tuple[Any, ...]]:
    """Everything that happened."""
    return [(e.kind, e.id, e.other, float(e.time), float(e.weight)) for e in model.events_]


def sha(*arrays: Any) -> str:
    """Digest of the bits of arrays, all integers as int64, all numbers as float64."""
    digest = hashlib.sha256()
    for array in map(np.asarray, arrays):
        wide = np.int64 if array.dtype.kind in "iub" else np.float64
        digest.update(f"{np.dtype(wide).str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array, dtype=wide).tobytes())
    return digest.hexdigest()


class Trace:
    """Digest of what a model knew after each batch."""

    def __init__(self) -> None:
        self.digests: list[str] = []

    def add(self, model: Any) -> None:
        """Note all that the model knows now."""
        state, info, table = state_of(model), model.info_, model.clusters_
        self.digests.append(
            sha(
                *state.values(),
                *(getattr(info, today) for today in INFO.values()),
                *prior_of(model),
                *(getattr(table, column) for column in CLUSTERS),
                *(number for event in events_of(model) for number in event[3:]),
            )
        )


def row_of(run: Any) -> dict[str, Any]:
    """A row of the table: what a run of a stream must give again."""
    row = {
        "labels": sha(*run.labels),
        "events": None,
        "bits": None,
        "answers": sha(*run.answers),
        "summary": {"rows": sum(map(len, run.labels))},
    }
    if run.model is not None:
        events = events_of(run.model)
        row["events"] = hashlib.sha256(repr([event[:3] for event in events]).encode()).hexdigest()
        row["bits"] = hashlib.sha256("".join(run.trace.digests).encode()).hexdigest()
        row["summary"] |= _summary(run.model, events)
    return row


def _summary(model: Any, events: list[tuple[Any, ...]]) -> dict[str, Any]:
    state = state_of(model)
    lost = state["unassigned_weight"] + state["unassigned_weight_now"]
    weight = (state["past"] + state["current"])[..., 0].sum() + lost
    return {
        "clusters": len(state["ids"]),
        "n_batches": int(state["n_batches"]),
        "kinds": dict(sorted(Counter(event[0] for event in events).items())),
        "total_weight": _digits(weight),
        "prior": [_digits(np.linalg.norm(np.ravel(part))) for part in prior_of(model)],
        "norms": {name: _digits(np.linalg.norm(np.ravel(part))) for name, part in state.items()},
    }


def _digits(number: Any) -> float:
    return float(f"{float(number):.12g}")


def machine() -> dict[str, Any]:
    """What the last bits of a result depend on beside the code."""
    import scipy
    import scipy.linalg
    from threadpoolctl import threadpool_info

    from scstream.kernels.native import load_native

    kernels = load_native()
    native = None if kernels is None else kernels.name
    blas = {f"{b['internal_api']} {b['version']} {b.get('architecture')}" for b in threadpool_info()
            if b["user_api"] == "blas"}  # fmt: skip
    return {
        "native": native,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "blas": sorted(blas),
        "libc": "-".join(platform.libc_ver()),
        "processor": platform.machine(),
    }
