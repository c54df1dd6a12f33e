"""Reading replicas: questions and rows a second against two bare ways, and staleness.

Bare are a loop in one process, and a plain actor without any of what replicas promise; both call
the function that replicas call. All ways of one size are timed by turns.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import ray

from benchmarks.results_io import write_table
from benchmarks.runtime.stall import grown
from benchmarks.speed.timing import Budget, Task, Timed, by_turns
from scstream.distributed.replicas import Replicas
from scstream.preprocess import Steps
from scstream.stream.checkpoint_log import CheckpointLog
from scstream.stream.follower import Follower
from scstream.stream.processor import OneModel
from scstream.stream.progress import Progress
from scstream.stream.store import FolderStore
from tests.on_ray.cluster import Cluster

MODEL = (30, 10)  # clusters, features
SIZES = {1: 200, 100: 200, 10_000: 16}  # rows of a question: questions of a sample
MODELS = {"small": MODEL, "large": (1000, 64)}
N_VERSIONS = 10
_MOST = 8
IN_PROCESS, PLAIN = "in process", f"plain actor, {_MOST} under way"
_ASKED_ONLY = 3600.0  # seconds between two looks: replicas look when they are asked for news
_BUDGET = Budget(10.0, 5)

Figures = list[dict[str, Any]]
News = Callable[[Replicas, int], None]  # returns when a version is there


def run() -> Figures:
    """Rates by the size of a question, then the time until news are everywhere."""
    with Cluster(n_cpus=4) as cluster:
        cluster.connect()
        return [*rates(), *staleness()]


def rates() -> Figures:
    """Questions and rows a second, each way against the bare ones of the same run."""
    rows: Figures = []
    with written(*MODEL) as checkpoint_log, ExitStack() as stack:
        one, two = (stack.enter_context(served(checkpoint_log, n=n)) for n in (1, 2))
        plain = stack.enter_context(plain_actor(checkpoint_log))
        alone = Follower(checkpoint_log.store, n_jobs=1)
        for n_rows, n_questions in SIZES.items():
            X = asked(n_rows)
            ways = {
                IN_PROCESS: in_turn(alone.predict, X, n_questions),
                "plain actor, one by one": in_turn(plain.predict, X, n_questions),
                PLAIN: plain.at_once(X, n_questions),
                "1 replica, one by one": in_turn(one.predict, X, n_questions),
                f"1 replica, {_MOST} under way": at_once(one, X, n_questions),
                f"2 replicas, {_MOST} under way at each": at_once(two, X, n_questions),
            }
            times = by_turns(ways, _BUDGET, clock=time.perf_counter)
            rows += [rate(way, n_rows, n_questions, times) for way in ways]
    return rows


def rate(way: str, n_rows: int, n_questions: int, times: Mapping[str, Timed]) -> dict[str, Any]:
    seconds = times[way].median
    return {
        "what": "rate",
        "way": way,
        "rows": n_rows,
        "questions_per_s": round(n_questions / seconds),
        "rows_per_s": round(n_questions * n_rows / seconds),
        "against_in_process": round(times[IN_PROCESS].median / seconds, 3),
        "against_plain_actor": round(times[PLAIN].median / seconds, 3),
        "rounds": len(times[way].samples),
    }


class Bare:
    """An actor that answers, and a window of calls: what Ray can do at most."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def predict(self, X: np.ndarray) -> Any:
        return ray.get(self._actor.predict.remote(X))

    def at_once(self, X: np.ndarray, n_questions: int) -> Task:
        def ask() -> None:
            window: list[Any] = []
            for _ in range(n_questions):
                if len(window) >= _MOST:
                    ray.get(window.pop(0))
                window.append(self._actor.predict.remote(X))
            ray.get(window)

        return ask


@contextmanager
def plain_actor(checkpoint_log: CheckpointLog) -> Iterator[Bare]:
    actor = ray.remote(Follower).options(num_cpus=0).remote(checkpoint_log.store, n_jobs=1)
    ray.get(actor.predict.remote(asked(1)))
    yield Bare(actor)
    ray.kill(actor)


def in_turn(predict: Callable[[np.ndarray], Any], X: np.ndarray, n_questions: int) -> Task:
    """Return a task that asks and waits, over and over."""
    return lambda: [predict(X) for _ in range(n_questions)]


def at_once(replicas: Replicas, X: np.ndarray, n_questions: int) -> Task:
    """Return a task that asks without waiting, as far as there is room."""

    def ask() -> None:
        for pending in [replicas.submit(X) for _ in range(n_questions)]:
            pending.result()

    return ask


def staleness() -> Figures:
    """Seconds from the publication of a version until every replica, or one asked, has it."""
    rows: Figures = []
    for name, size in MODELS.items():
        X = asked(1, size[1])
        with written(*size) as checkpoint_log:
            for every in (0.1, 1.0, _ASKED_ONLY):
                news = until_asked(X) if every == _ASKED_ONLY else until_all
                how = (
                    "asked for the version" if every == _ASKED_ONLY else f"a look every {every:g} s"
                )
                with served(checkpoint_log, n=2, every=every) as replicas:
                    times = [
                        after_publication(checkpoint_log, replicas, news) for _ in range(N_VERSIONS)
                    ]
                n_bytes = len(next(checkpoint_log.checkpoints())[1])
                rows.append(stale(f"{name} model, {how}", n_bytes, times))
    return rows


def after_publication(checkpoint_log: CheckpointLog, replicas: Replicas, news: News) -> float:
    """Publish a version at any moment; return the seconds that it takes to be news."""
    _, content = next(checkpoint_log.checkpoints())
    time.sleep(float(np.random.default_rng(checkpoint_log.version).uniform(0.0, 1.0)))
    version = checkpoint_log.publish(content, time=0.0, batch=1)
    began = time.perf_counter()
    news(replicas, version)
    seconds = time.perf_counter() - began
    checkpoint_log.prune(time=0.0)
    return seconds


def stale(way: str, n_bytes: int, seconds: list[float]) -> dict[str, Any]:
    return {
        "what": "staleness",
        "way": way,
        "megabytes": round(n_bytes / 1e6, 2),
        "median_ms": round(1e3 * float(np.median(seconds)), 1),
        "worst_ms": round(1e3 * max(seconds), 1),
        "rounds": len(seconds),
    }


def until_all(replicas: Replicas, version: int) -> None:
    while min(replicas.versions()) < version:
        time.sleep(0.002)


def until_asked(X: np.ndarray) -> News:
    def ask(replicas: Replicas, version: int) -> None:
        assert replicas.predict(X, at_least=version).version == version

    return ask


def asked(n_rows: int, n_features: int = MODEL[1]) -> np.ndarray:
    return np.random.default_rng(2).normal(0.0, 12.0, (n_rows, n_features))


@contextmanager
def written(n_clusters: int, n_features: int) -> Iterator[CheckpointLog]:
    """A store with a checkpoint of a model of this size."""
    centres = np.random.default_rng(0).normal(0.0, 12.0, (n_clusters, n_features))
    model = OneModel(grown(centres), Steps())
    progress = Progress(1)
    with tempfile.TemporaryDirectory() as folder:
        checkpoint_log = CheckpointLog(FolderStore(folder), hourly=0)
        checkpoint_log.claim(time=0.0)
        checkpoint_log.publish(model.freeze()(progress), time=0.0, batch=1)
        yield checkpoint_log


@contextmanager
def served(
    checkpoint_log: CheckpointLog, *, n: int, every: float = _ASKED_ONLY
) -> Iterator[Replicas]:
    """Replicas of it, all of them ready."""
    folder = str(checkpoint_log.store.folder)  # type: ignore[attr-defined]
    with Replicas(folder, n=n, interval=every, max_calls=_MOST, n_jobs=1) as replicas:
        until_all(replicas, checkpoint_log.version)
        yield replicas


if __name__ == "__main__":  # in a network namespace: python -m benchmarks scale replicas
    write_table("scale", "replicas", run())
