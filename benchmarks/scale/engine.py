"""The engine alone: one round of broadcast and return, without any work, in four ways.

Also what the simulator needs to know of it: the price of a call, of a reference and of a byte.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks.speed.timing import Budget, Task, Timed, by_turns
from tests.on_ray.cluster import Cluster

N_WORKERS = 2
SIZES = (1.0, 3.4, 16.0, 34.0)  # megabytes, each way
_PAGE = 512  # numbers in a page of memory
_STORE_MB = 5120  # Ray frees in batches, once a second; a small store would be full by then
_BUDGET = Budget(20.0, 12)

Figures = list[dict[str, Any]]


class Echo:
    """A worker without work: looks at every page of the plan, returns a result that it has."""

    def __init__(self, size: int) -> None:
        self._result = np.ones(size)

    def round(self, plan: np.ndarray) -> np.ndarray:
        plan[::_PAGE].sum()
        return self._result

    def look(self, plan: np.ndarray) -> None:
        plan[::_PAGE].sum()

    def give(self) -> np.ndarray:
        return self._result

    def nothing(self) -> None:
        pass

    def parts(self, n: int) -> Any:
        return [self._result[i :: max(n, 1)] for i in range(n)] if n > 1 else self._result

    def take(self, *parts: np.ndarray) -> None:
        pass

    def pid(self) -> int:
        import os

        return os.getpid()


def run() -> Figures:
    """Time all ways by turns, size by size; then the prices."""
    rows: Figures = []
    with Cluster(n_cpus=16, store_mb=_STORE_MB) as cluster:
        cluster.connect()
        warm_store()
        for size in SIZES:
            rows += rounds(size)
        rows += prices()
    return rows


def warm_store(megabytes: int = _STORE_MB) -> None:
    """Touch all memory of the store once; the first touch of a page is five times a copy."""
    import ray

    block = np.zeros(2**23)
    held = [ray.put(block) for _ in range(int(0.85 * megabytes / 64))]
    del held


def rounds(megabytes: float, budget: Budget = _BUDGET) -> Figures:
    """One round in each way: what it takes, and how much more than on threads."""
    plan = np.ones(int(megabytes * 1e6 / 8))
    with ThreadPoolExecutor(N_WORKERS) as pool, workers(len(plan), 2 * N_WORKERS) as found:
        plain, bound = found[:N_WORKERS], found[N_WORKERS:]
        with compiled(bound, plan.nbytes) as execute:
            tasks = {
                "threads": on_threads(pool, plan),
                "actors, put": on_actors(plain, plan, put=True),
                "actors, inline": on_actors(plain, plan, put=False),
                "compiled graph": lambda: add_all(execute(plan)),
            }
            times = by_turns(tasks, budget, clock=time.perf_counter)
    return [
        {
            "figure": "round",
            "way": way,
            "megabytes": megabytes,
            **summary(found),
            "over_threads": found.median / times["threads"].median,
            "over_actors": found.median / times["actors, put"].median,
        }
        for way, found in times.items()
    ]


def prices(budget: Budget = _BUDGET) -> Figures:
    """Parts of a round, for the simulator."""
    rows: Figures = []
    for megabytes in (0.001, *SIZES):
        plan = np.ones(max(1, int(megabytes * 1e6 / 8)))
        with workers(len(plan), 1) as (worker,):
            times = by_turns(single_tasks(worker, plan), budget, clock=time.perf_counter)
        rows += [price(name, megabytes, 1, found) for name, found in times.items()]
    with workers(1, 4) as found_workers:
        tasks: dict[str, Task] = {f"{n}": calls(found_workers[:n]) for n in (1, 2, 3, 4)}
        times = by_turns(tasks, budget, clock=time.perf_counter)
    rows += [price("calls", 0.0, int(n), found) for n, found in times.items()]
    with workers(64, 2) as pair:
        for n in (1, 8, 32):
            submitted, done = references(pair, n)
            rows += [price("submitted", 0.0, n, submitted), price("references", 0.0, n, done)]
    return rows


def single_tasks(worker: Any, plan: np.ndarray) -> dict[str, Task]:
    """One worker: the whole round, and its two ways alone; adding, in this process."""
    import ray

    total = np.ones(len(plan))

    def receive() -> None:
        ray.get(worker.give.remote())[::_PAGE].sum()

    return {
        "put": lambda: ray.put(plan),
        "broadcast": lambda: ray.get(worker.look.remote(ray.put(plan))),
        "return": receive,
        "add": lambda: np.add(total, plan),
    }


def calls(found: list[Any]) -> Task:
    import ray

    return lambda: ray.get([worker.nothing.remote() for worker in found])


def references(pair: list[Any], n: int, n_rounds: int = 200) -> tuple[Timed, Timed]:
    """One worker cuts its result into n objects, the other is called with all of them.

    Seconds until both calls are submitted, which is the driver's part, and until they are done.
    """
    import ray

    first, second = pair
    samples = np.empty((n_rounds, 2))
    for row in samples:
        start = time.perf_counter()
        cut = first.parts.options(num_returns=n).remote(n)
        taken = second.take.remote(*(cut if n > 1 else [cut]))
        row[0] = time.perf_counter() - start
        ray.get(taken)
        row[1] = time.perf_counter() - start
    return Timed(samples[10:, 0]), Timed(samples[10:, 1])


def price(name: str, megabytes: float, n: int, found: Timed) -> dict[str, Any]:
    return {"figure": name, "way": "actors, put", "megabytes": megabytes, "n": n, **summary(found)}


def summary(found: Timed) -> dict[str, Any]:
    return {
        "median_ms": 1e3 * found.median,
        "p90_ms": 1e3 * float(np.quantile(found.samples, 0.9)),
        "least_ms": 1e3 * found.minimum,
        "rounds": len(found.samples),
    }


@contextmanager
def workers(size: int, n: int) -> Iterator[list[Any]]:
    """Actors that are ready, and are ended afterwards."""
    import ray

    kind: Any = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(Echo)
    found = [kind.remote(size) for _ in range(n)]
    ray.get([worker.nothing.remote() for worker in found], timeout=60)
    try:
        yield found
    finally:
        for worker in found:
            ray.kill(worker)


@contextmanager
def compiled(found: list[Any], n_bytes: int) -> Iterator[Callable[[np.ndarray], list[np.ndarray]]]:
    """A compiled graph from this process to all workers and back."""
    import ray
    from ray.dag import InputNode, MultiOutputNode

    with InputNode() as plan:
        graph = MultiOutputNode([worker.round.bind(plan) for worker in found])
    running = graph.experimental_compile(_buffer_size_bytes=n_bytes + 2**16)
    try:
        yield lambda plan: ray.get(running.execute(plan))
    finally:
        running.teardown()


def on_threads(pool: ThreadPoolExecutor, plan: np.ndarray) -> Task:
    found = [Echo(len(plan)) for _ in range(N_WORKERS)]
    return lambda: add_all(list(pool.map(lambda worker: worker.round(plan), found)))


def on_actors(found: list[Any], plan: np.ndarray, *, put: bool) -> Task:
    import ray

    def run() -> None:
        sent = ray.put(plan) if put else plan
        add_all(ray.get([worker.round.remote(sent) for worker in found]))

    return run


def add_all(results: list[np.ndarray]) -> np.ndarray:
    """What the driver does with the results in every way."""
    total = results[0]
    for result in results[1:]:
        total = total + result
    return total
