"""What is timed, as tasks without arguments: scstream and what it is compared with."""

from __future__ import annotations

import time
from itertools import cycle
from typing import Any

import numpy as np

from benchmarks.speed.timing import Task
from benchmarks.speed.workloads import Workload
from scstream import Config
from scstream.compute.threads import ThreadExecutor
from scstream.core.assign import AssignmentParams
from scstream.core.forgetting import unfaded
from scstream.core.state import Batch
from scstream.core.sweep import mean_params, sampled_params

_BLOCK = 1 << 23  # numbers that the output of one matrix product may hold
_WARM_UP = 30  # batches


def precisions() -> tuple[str, ...]:
    """The precisions of likelihoods that can be chosen."""
    return ("float64", "float32") if hasattr(Config(), "precision") else ("float64",)


def chosen(precision: str) -> dict[str, Any]:
    """The choice of a precision, as keyword arguments of `Config`."""
    return {} if len(precisions()) == 1 else {"precision": precision}


def gemm(n: int, inner: int, outer: int, precision: str) -> Task:
    """Bare product (n x inner) @ (inner x outer) into memory that is there.

    A large product is cut into blocks whose output is used again, which is kind to the engine.
    """
    rng = np.random.default_rng(0)
    left = rng.standard_normal((n, inner)).astype(precision)
    right = rng.standard_normal((inner, outer)).astype(precision)
    columns = min(outer, max(1, _BLOCK // min(n, 4096)))
    rows = min(n, max(1, _BLOCK // columns))
    output = np.empty(rows * columns, precision)
    parts = [np.ascontiguousarray(right[:, c : c + columns]) for c in range(0, outer, columns)]
    blocks = [
        (a, b, output[: len(a) * b.shape[1]].reshape(len(a), b.shape[1]))
        for b in parts
        for a in (left[r : r + rows] for r in range(0, n, rows))
    ]

    def run() -> None:
        for a, b, out in blocks:
            np.matmul(a, b, out=out)

    return run


def expansion(work: Workload, precision: str) -> Task:
    """The product with as many multiplications as triangular whitening; of counts the plain one."""
    d, k = work.n_features, work.n_clusters
    inner = d * (d + 3) // 2 if work.kind == "gaussian" else d
    return gemm(work.n_rows, inner, k, precision)


def whitening(work: Workload, precision: str) -> Task:
    """The product with square whitening matrices: twice the multiplications."""
    return gemm(work.n_rows, work.n_features, work.n_clusters * work.n_features, precision)


def one_pass(work: Workload, params: AssignmentParams, *, n_threads: int = 1) -> Task:
    """One complete pass: labels, sub-labels, statistics."""
    executor = ThreadExecutor(n_threads)
    batch = Batch(work.batches[0], time=0.0)
    return lambda: executor.load(work.family, batch).assign(params)


def sampling(work: Workload, precision: str) -> AssignmentParams:
    """The parameters of a sampling sweep."""
    config, state = work.config(**chosen(precision)), work.state
    shapes = unfaded(state)
    return sampled_params(work.family, config, state, shapes, sweep=1, births=True)


def predicting(work: Workload, precision: str) -> AssignmentParams:
    """The parameters of the last sweep: labels are drawn; the most probable ones are reported."""
    config, state = work.config(**chosen(precision)), work.state
    shapes = unfaded(state)
    return mean_params(work.family, config, state, shapes, births=True, key=1)


class Learner:
    """Calls `partial_fit` with one batch after the other, and watches the number of clusters.

    The first batches, or the seconds of `warm_up`, do not count.
    """

    def __init__(self, model: Any, work: Workload, *, warm_up: float = 10.0) -> None:
        self.model = model
        self._batches = cycle(work.batches)
        self._given = work.n_clusters
        self._seen: list[int] = []
        began = time.monotonic()
        for n in range(_WARM_UP):
            if n and time.monotonic() - began > warm_up:
                break
            self()
        self._seen.clear()

    def __call__(self) -> None:
        self.model.partial_fit(next(self._batches))
        self._seen.append(getattr(self.model, "n_clusters_", self._given))

    @property
    def n_clusters(self) -> float:
        """Mean number of clusters over the batches."""
        return float(np.mean(self._seen))

    @property
    def steady(self) -> bool:
        """Whether that is within a twentieth of what it should be."""
        return abs(self.n_clusters / self._given - 1.0) <= 0.05


class Reader:
    """Predicts one batch after the other with the model of a learner.

    If each call follows one of the learner, no table that a model keeps is used twice.
    """

    def __init__(self, learner: Learner, work: Workload) -> None:
        self._learner, self._batches = learner, cycle(work.batches)

    def __call__(self) -> None:
        self._learner.model.predict(next(self._batches))


def kmeans(work: Workload) -> Any:
    """`MiniBatchKMeans` that knows the clusters."""
    from sklearn.cluster import MiniBatchKMeans

    places = work.places
    model = MiniBatchKMeans(len(places), init=places, batch_size=work.n_rows, random_state=0)
    return model.partial_fit(places)
