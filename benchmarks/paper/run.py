"""One run of one method on one stream: a worker labels the batches, and the labels are scored."""

from __future__ import annotations

import json
import math
import platform
import select
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Any, NamedTuple, TextIO

import numpy as np
import numpy.typing as npt

from benchmarks.paper import environments
from benchmarks.paper.cache import Stored
from benchmarks.paper.method import Method
from benchmarks.paper.sets import DataSet, IntArray
from scstream import show_config
from scstream.metrics import PrequentialResult, prequential

Row = dict[str, Any]
FloatArray = npt.NDArray[np.float64]


class Died(RuntimeError):
    """A worker ended, or did not answer; the message says what it said last."""


class Stopped(RuntimeError):
    """The whole comparison is to end: what is under way is not a result."""


class Workers:
    """The processes that are at work, so that all of them can be ended."""

    def __init__(self) -> None:
        self.stopped = False
        self._children: set[Popen[str]] = set()

    def launch(self, environment: str, log: TextIO) -> Popen[str]:
        """Start one."""
        if self.stopped:
            raise Stopped
        child = environments.launch(environment, log)
        self._children.add(child)
        return child

    def end(self, child: Popen[str]) -> None:
        """End one, whatever it is doing."""
        self._children.discard(child)
        child.kill()
        with suppress(BrokenPipeError), child:
            pass

    def stop(self) -> None:
        """Let none start again, and end those at work."""
        self.stopped = True
        for child in list(self._children):
            child.kill()


WORKERS = Workers()


class Worker:
    """A process of the method's own interpreter; it is started again after it has died."""

    def __init__(self, environment: str, log: TextIO) -> None:
        self._environment, self._log = environment, log
        self._child: Popen[str] | None = None

    def ask(self, request: Mapping[str, Any], patience: float) -> dict[str, Any]:
        """Send a request and wait for its answer, so many seconds at most."""
        if self._child is None:
            self._child = WORKERS.launch(self._environment, self._log)
        requests, answers = self._child.stdin, self._child.stdout
        assert requests is not None and answers is not None
        with suppress(BrokenPipeError):
            print(json.dumps(request), file=requests, flush=True)
        ready, _, _ = select.select([answers], [], [], patience)
        line = answers.readline() if ready else ""
        if WORKERS.stopped:
            raise Stopped
        if not line:
            self.end()
            raise Died(self._last_words() if ready else f"no answer in {patience:.0f} s")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> None:
        """End the process."""
        child, self._child = self._child, None
        if child is not None:
            WORKERS.end(child)

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = [line.strip() for line in self._log if line.strip()]
        return f"the worker died: {lines[-1] if lines else 'without a word'}"[:300]


@contextmanager
def worker(environment: str) -> Iterator[Worker]:
    """A worker for some runs; its last words are kept, and it ends with the block."""
    with tempfile.TemporaryFile("w+", errors="replace") as log:
        started = Worker(environment, log)
        try:
            yield started
        finally:
            started.end()


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a worker gave back; shorter than the stream if it ran out of time or failed."""

    labels: IntArray
    k: FloatArray  # (reached,)
    seconds: FloatArray  # (reached,) CPU seconds to predict and learn
    elapsed: float  # wall seconds
    version: str = ""
    python: str = ""
    error: str = ""


def attempt(
    at: Worker,
    dataset: DataSet,
    stored: Stored,
    method: Method,
    params: Mapping[str, Any],
    *,
    seed: int,
    first: int,
    limit: float,
) -> Outcome:
    """Let a worker predict and learn the first batches with these parameters."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out.npz")
        request = {
            "method": method.name,
            "params": dict(params),
            "seed": seed,
            "data": str(stored.data),
            "kind": dataset.kind,
            "batch": stored.batch,
            "k": stored.k,
            "first": first,
            "limit": limit,
            "out": str(out),
        }
        begin = time.monotonic()
        try:
            answer = at.ask(request, patience=10.0 * limit + 120.0)
        except Died as trouble:
            nothing, elapsed = np.empty(0), time.monotonic() - begin
            return Outcome(nothing.astype(np.int64), nothing, nothing, elapsed, error=str(trouble))
        elapsed = time.monotonic() - begin
        with np.load(out) as found:
            seconds = found["predict_seconds"] + found["learn_seconds"]
            labels, k = found["labels"], found["k"]
    python = answer.get("python", platform.python_version())
    return Outcome(labels, k, seconds, elapsed, answer["version"], python, answer["error"] or "")


class _Batch(NamedTuple):
    X: slice
    y: IntArray
    time: float
    best: IntArray | None

    def oracle(self) -> IntArray | None:
        return self.best


class _Replay:
    """A model that says again what a worker said."""

    def __init__(self, outcome: Outcome) -> None:
        self._labels, self._k = outcome.labels, iter(outcome.k)
        self.n_clusters_ = math.nan

    def predict(self, X: slice) -> IntArray:
        return self._labels[X]

    def partial_fit(self, X: slice) -> None:
        self.n_clusters_ = next(self._k)


def _batches(stored: Stored, reached: int) -> Iterator[_Batch]:
    for b in range(reached):
        rows = slice(b * stored.batch, (b + 1) * stored.batch)
        best = None if stored.oracle is None else np.asarray(stored.oracle[rows])
        yield _Batch(rows, np.asarray(stored.y[rows]), float(b), best)


def scored(stored: Stored, outcome: Outcome) -> PrequentialResult:
    """Score what was reached."""
    batches = _batches(stored, len(outcome.k))
    return prequential(_Replay(outcome), batches, oracle=stored.oracle is not None)


def row(
    dataset: DataSet, stored: Stored, method: Method, outcome: Outcome, result: PrequentialResult
) -> Row:
    """The figures of a run, without its mode, seed and parameters."""
    means = result.summary()
    cpu_seconds = float(outcome.seconds.sum())
    n_rows = len(outcome.labels)
    return {
        "set": dataset.name,
        "group": dataset.group or dataset.name,
        "kind": dataset.kind,
        "method": method.name,
        "given_k": method.given_k,
        "batches": stored.n_batches,
        "reached": len(outcome.k),
        "rows": n_rows,
        **{name: means[name] for name in ("ari", "nmi", "purity", "f", "full_nmi")},
        "oracle_ari": means.get("oracle_ari", math.nan),
        "fraction_of_oracle": means.get("fraction_of_oracle", math.nan),
        "k_mean": means["k"],
        "k_true_mean": means["k_true"],
        "labels_used": len(np.unique(outcome.labels[stored.batch :])),
        "cpu_seconds": cpu_seconds,
        "rows_per_second": n_rows / cpu_seconds if cpu_seconds else math.nan,
        "version": outcome.version,
        "machine": machine(),
        "python": outcome.python,
        "error": outcome.error,
    }


def series(outcome: Outcome, result: PrequentialResult) -> dict[str, npt.NDArray[Any]]:
    """The columns of a run by batch, for all batches that were scored."""
    unknown = np.full(len(result.k), np.nan)
    return {
        "batch": result.time.astype(np.int32),
        **{name: result.scores[name] for name in ("ari", "nmi", "purity", "f")},
        "k": result.k,
        "k_true": result.k_true,
        "oracle_ari": result.oracle.get("ari", unknown),
        "seconds": outcome.seconds[1:],
    }


def machine() -> str:
    """Architecture, cores and the instruction set of our kernels."""
    config = show_config(as_dict=True)
    return f"{platform.machine()}, {config['cores']} cores, {config['isa'] or 'no kernels'}"
