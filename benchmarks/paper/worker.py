"""A child process that runs methods: JSON lines in, JSON lines out, ``-m benchmarks.paper.worker``.

It needs numpy, scipy for sparse rows, and the package of the method; Python from 3.8. What a
package prints goes to the standard error. A request is::

    {"method", "params", "seed", "data": path, "kind", "batch", "k", "first", "limit", "out": path}

with `first` the number of batches or null, and `limit` CPU seconds or null; the answer is::

    {"batches": reached, "rows", "version", "python", "error": null or a sentence}

`data` is a ``.npy`` file, or an ``.npz`` file with `data`, `indices`, `indptr` and `shape` of a CSR
matrix. The file `out` holds `labels` of all rows reached (those of the first batch mean nothing),
and by batch `k`, `predict_seconds` and `learn_seconds`, which are CPU seconds of all threads.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import random
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from importlib import metadata
from typing import Any, TextIO

import numpy as np

from benchmarks.paper.method import METHODS, Method

MEMORY = 8 << 30  # bytes; a covariance of thousands of words would take the machine down


class OutOfTime(BaseException):
    """The CPU seconds of a run are used up; no package catches it by mistake."""


class Limit:
    """Ends a block with `OutOfTime`, once, after so many CPU seconds of this process.

    A thread looks at the clock: a CPU timer of the system would make the clock itself coarse.
    """

    def __init__(self, seconds: float | None) -> None:
        self._end = time.process_time() + (float("inf") if seconds is None else seconds)
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._wait, daemon=True)

    def __enter__(self) -> None:
        signal.signal(signal.SIGUSR1, self._stop)
        self._watch.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _wait(self) -> None:
        while not self._over.wait(0.01):
            if time.process_time() > self._end:
                signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

    def _stop(self, *_: object) -> None:
        if not self._over.is_set() and time.process_time() > self._end:
            self._over.set()
            raise OutOfTime


class Record:
    """What a run has found so far, batch by batch."""

    def __init__(self) -> None:
        self.labels: list[np.ndarray] = []
        self.k: list[float] = []
        self.predict_seconds: list[float] = []
        self.learn_seconds: list[float] = []

    def add(self, labels: np.ndarray, k: float, predict: float, learn: float) -> None:
        """Keep a batch that is done."""
        self.labels.append(labels)
        self.k.append(k)
        self.predict_seconds.append(predict)
        self.learn_seconds.append(learn)

    def save(self, path: str) -> None:
        """Write the file that the parent reads."""
        labels = np.concatenate([np.empty(0, np.int64), *self.labels])
        np.savez(
            path,
            labels=labels,
            k=np.array(self.k, dtype=np.float64),
            predict_seconds=np.array(self.predict_seconds),
            learn_seconds=np.array(self.learn_seconds),
        )


def open_rows(path: str) -> Any:
    """Open a set: a memory-mapped array, or a CSR matrix."""
    if path.endswith(".npy"):
        return np.load(path, mmap_mode="r")
    from scipy.sparse import csr_matrix

    with np.load(path) as file:
        parts = (file["data"], file["indices"], file["indptr"])
        return csr_matrix(parts, shape=tuple(file["shape"]))


def present(X: Any, rows: str, *, sparse: bool) -> Any:
    """A batch as the method wants it: float64, dense unless it takes CSR, raw or of unit length."""
    dense = isinstance(X, np.ndarray)
    if not dense and not sparse:
        X, dense = X.toarray(), True
    X = np.array(X, dtype=np.float64) if dense else X.astype(np.float64)
    if rows == "raw":
        return X
    length = np.sqrt(np.asarray(X.sum(axis=1)).ravel())  # of the square roots
    length[length == 0.0] = 1.0
    if dense:
        return np.sqrt(X) / length[:, None]
    X.data = np.sqrt(X.data) / np.repeat(length, np.diff(X.indptr))
    return X


def batches(request: dict[str, Any], method: Method, rows: str) -> Iterator[Any]:
    """The batches of the set of a request."""
    X, size = open_rows(request["data"]), request["batch"]
    n_batches = -(-X.shape[0] // size)
    for b in range(min(n_batches, request["first"] or n_batches)):
        yield present(X[b * size : (b + 1) * size], rows, sparse=method.sparse)


def run(method: Method, request: dict[str, Any], record: Record) -> None:
    """Predict each batch but the first, then learn it."""
    params = dict(request["params"])
    rows = params.pop("rows", "raw")
    random.seed(request["seed"])
    np.random.seed(request["seed"])  # noqa: NPY002 - some packages draw from it
    model: Any = None
    for X in batches(request, method, rows):
        start = time.process_time()
        if model is None:
            labels = np.full(X.shape[0], -1, dtype=np.int64)
            model = made(method, request, X.shape[1], params)
            middle = start  # construction counts as learning
        else:
            labels = np.asarray(model.predict(X)).astype(np.int64)
            middle = time.process_time()
        if labels.shape != (X.shape[0],):
            raise ValueError(f"{X.shape[0]} rows got labels of shape {labels.shape}")
        model.learn(X)
        end = time.process_time()
        record.add(labels, float(model.n_clusters), middle - start, end - middle)


def made(method: Method, request: dict[str, Any], n_features: int, params: dict[str, Any]) -> Any:
    """Build the adapter of a method."""
    module = importlib.import_module(f"benchmarks.paper.methods.{method.module}")
    factory = getattr(module, method.factory)
    told = {"k": request["k"], "kind": request["kind"], "seed": request["seed"]}
    return factory(n_features=n_features, **told, **params)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Run one request, whatever becomes of it, and keep what was reached."""
    method, record, error = METHODS[request["method"]], Record(), None
    try:
        importlib.import_module(f"benchmarks.paper.methods.{method.module}")
        with Limit(request["limit"]):
            run(method, request, record)
    except OutOfTime:
        pass
    except Exception as cause:
        traceback.print_exc()
        error = f"{type(cause).__name__}: {cause}".splitlines()[0]
    record.save(request["out"])
    return {
        "batches": len(record.k),
        "rows": sum(map(len, record.labels)),
        "version": f"{method.package} {version(method.package)}",
        "python": platform.python_version(),
        "error": error,
    }


def version(package: str) -> str:
    """Version of a package, or that it is not there."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def private_output() -> TextIO:
    """Keep the standard output for answers; whatever else is printed goes to the standard error."""
    own = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return own


def main() -> None:
    """Answer requests until there are no more."""
    answers = private_output()
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main()
