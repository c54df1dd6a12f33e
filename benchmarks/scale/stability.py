"""What happens to plain actors and to a compiled graph when something goes wrong.

Every case runs in a process of its own, a driver of one cluster: it may hang or crash.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.scale.engine import Echo
from benchmarks.speed.fresh import reports
from tests.on_ray.cluster import Cluster

_LIMIT = 15.0  # seconds that a round may take before it counts as hanging
_PATIENCE = 150.0  # seconds for a case
_N_KILLS = 5
_SIZE = 425_000  # numbers: the statistics of K = 100, D = 64

Row = dict[str, Any]


class Slow(Echo):
    """Takes its time, so that it can be killed amid a round."""

    def round(self, plan: np.ndarray) -> np.ndarray:
        time.sleep(0.3)
        return super().round(plan)


def run() -> list[Row]:
    """Run all cases; one that does not end is a finding too."""
    rows: list[Row] = []
    with Cluster(n_cpus=16, store_mb=1024) as cluster:
        cluster.connect()
        second = cluster.add_node(n_cpus=2, store_mb=512)
        arguments = (cluster.address, second.process.pid)
        for case in CASES:
            found, why = reports("benchmarks.scale.stability", *arguments, case, seconds=_PATIENCE)
            rows += [{"case": case, **line} for line in found]
            if why:
                rows.append({"case": case, "what": "the driver", "outcome": why})
    return rows


def plain_kills() -> Iterator[Row]:
    """kill -9 amid a round: when it is noticed, and when all workers answer again."""
    workers = start(Slow, 2)
    for _ in range(_N_KILLS):
        kill_soon(workers[0])
        noticed, outcome = timed(lambda: get([w.round.remote(plan()) for w in workers]))
        back, answer = timed(lambda: until_answered(workers))
        yield line("kill -9 amid a round", outcome, noticed=noticed, back=back, then=answer)


def graph_kills() -> Iterator[Row]:
    """The same with a compiled graph, which must be torn down and made again."""
    workers = start(Slow, 2)
    for _ in range(_N_KILLS):
        graph = compiled(workers)
        get(graph.execute(plan()))
        kill_soon(workers[0])
        noticed, outcome = timed(lambda graph=graph: get(graph.execute(plan())))
        gone, torn = timed(lambda graph=graph: graph.teardown())
        back, answer = timed(lambda: until_answered(workers))
        again, round_ = timed(lambda: once_more(workers))
        yield line(
            "kill -9 amid a round",
            outcome,
            noticed=noticed,
            teardown=gone,
            back=back,
            again=again,
            then=f"teardown {torn}, workers {answer}, new graph {round_}",
        )


def graph_grows() -> Iterator[Row]:
    """A plan, and with it the results, that outgrow their buffers."""
    graph = compiled(start(Mirror, 2), n_bytes=1 << 20)
    for megabytes in (0.5, 3.4, 34.0, 100.0):
        sent = np.random.default_rng(0).random(int(megabytes * 1e6 / 8))

        def round_(sent: np.ndarray = sent) -> str:
            return verdict(get(graph.execute(sent)), sent)

        for turn in ("first", "second"):
            seconds, outcome = timed(round_)
            yield line(
                f"{megabytes:g} MB through 1 MB buffers, {turn} time", outcome, seconds=seconds
            )
    seconds, outcome = timed(graph.teardown)
    yield line("teardown", outcome, seconds=seconds)


def graph_held() -> Iterator[Row]:
    """Results that are still held when the next rounds begin, by a variable or a view."""
    graph = compiled(start(Echo, 2), n_bytes=9 * _SIZE)
    held = []
    for n in range(1, 13):
        seconds, outcome = timed(lambda: held.append(get(graph.execute(plan()))))
        if outcome != "done" or n == 12:
            break
    yield line(f"round {n} while all results before it are held", outcome, seconds=seconds)
    held.clear()
    seconds, outcome = timed(lambda: len(get(graph.execute(plan()))))
    yield line("a round after they were let go", outcome, seconds=seconds)
    seconds, outcome = timed(graph.teardown)
    yield line("teardown", outcome, seconds=seconds)


def graph_teardowns() -> Iterator[Row]:
    """Graphs with buffers of 100 MB made and ended, over a store of 1 GB."""
    workers = start(Echo, 2)
    for _ in range(6):
        made, graph = timed_value(lambda: compiled(workers, n_bytes=100 << 20))
        round_, outcome = timed(lambda graph=graph: get(graph.execute(plan())))
        gone, torn = timed(lambda graph=graph: graph.teardown())
        yield line("make, use, end", outcome, seconds=made, round=round_, teardown=gone, then=torn)
    seconds, outcome = timed(lambda: get([w.nothing.remote() for w in workers]))
    yield line("a plain call afterwards", outcome, seconds=seconds)


def graph_calls() -> Iterator[Row]:
    """A plain call, as for labels, to a worker that stands in a graph."""
    workers = start(Echo, 2)
    graph = compiled(workers, n_bytes=9 * _SIZE)
    get(graph.execute(plan()))
    seconds, outcome = timed(lambda: get([w.nothing.remote() for w in workers]))
    yield line("a plain call between rounds", outcome, seconds=seconds)
    seconds, outcome = timed(lambda: len(get(graph.execute(plan()))))
    yield line("the round after that", outcome, seconds=seconds)
    seconds, outcome = timed(lambda: compiled(workers))
    yield line("a second graph on the same workers", outcome, seconds=seconds)


def graph_nodes() -> Iterator[Row]:
    """One of the workers on another node; then the node dies."""
    near, far = start(Mirror, 1)[0], start(Mirror, 1, far=True)[0]
    for megabytes in (3.4, 34.0):
        sent = np.random.default_rng(0).random(int(megabytes * 1e6 / 8))
        graph = compiled([near, far], n_bytes=sent.nbytes + 2**16)
        ways = {
            "compiled graph": lambda graph=graph, sent=sent: get(graph.execute(sent)),
            "actors, put": lambda sent=sent: through_store([near, far], sent),
        }
        for way, task in ways.items():
            found = [timed(lambda task=task: verdict(task(), sent)) for _ in range(7)]  # noqa: B023
            seconds, outcomes = zip(*found, strict=True)
            outcome = ", ".join(sorted(set(outcomes)))
            yield line(f"{megabytes:g} MB, {way}", outcome, seconds=float(np.median(seconds[1:])))
        graph.teardown()
    graph = compiled([near, far])
    get(graph.execute(plan()))
    os.killpg(int(sys.argv[2]), signal.SIGKILL)
    seconds, outcome = timed(lambda: get(graph.execute(plan())))
    yield line("the other node is killed", outcome, seconds=seconds)
    seconds, outcome = timed(graph.teardown)
    yield line("teardown", outcome, seconds=seconds)


CASES: dict[str, Callable[[], Iterator[Row]]] = {
    "plain actors: kills": plain_kills,
    "compiled graph: kills": graph_kills,
    "compiled graph: growth": graph_grows,
    "compiled graph: held results": graph_held,
    "compiled graph: teardown": graph_teardowns,
    "compiled graph: other calls": graph_calls,
    "two nodes": graph_nodes,
}


class Mirror(Echo):
    """Returns what it was sent."""

    def round(self, plan: np.ndarray) -> np.ndarray:
        return plan.copy()


def verdict(results: list[np.ndarray], sent: np.ndarray) -> str:
    same = [np.array_equal(found, sent) for found in results]
    return "right" if all(same) else "wrong results"


def through_store(workers: list[Any], sent: np.ndarray) -> Any:
    import ray

    ref = ray.put(sent)
    return get([worker.round.remote(ref) for worker in workers])


def start(kind: type, n: int, *, far: bool = False) -> list[Any]:
    """Workers on the node of this driver, or on the other one."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

    here = ray.get_runtime_context().get_node_id()
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
    place = next(node for node in nodes if (node != here) == far)
    remote: Any = ray.remote(
        num_cpus=1,
        max_restarts=-1,
        max_task_retries=0,
        scheduling_strategy=On(place, soft=False),
    )(kind)
    workers = [remote.remote(_SIZE) for _ in range(n)]
    ray.get([worker.nothing.remote() for worker in workers], timeout=60)
    return workers


def compiled(workers: list[Any], n_bytes: int = 1 << 20) -> Any:
    from ray.dag import InputNode, MultiOutputNode

    with InputNode() as sent:
        graph = MultiOutputNode([worker.round.bind(sent) for worker in workers])
    return graph.experimental_compile(_buffer_size_bytes=n_bytes)


def once_more(workers: list[Any]) -> None:
    graph = compiled(workers)
    get(graph.execute(plan()))
    graph.teardown()


def plan() -> np.ndarray:
    return np.ones(_SIZE)


def get(refs: Any) -> Any:
    import ray

    return ray.get(refs, timeout=_LIMIT)


def kill_soon(worker: Any) -> None:
    pid = get(worker.pid.remote())
    threading.Timer(0.15, os.kill, (pid, signal.SIGKILL)).start()


def until_answered(workers: list[Any]) -> None:
    """Ask until every worker answers: a killed one is started again by the engine."""
    deadline = time.monotonic() + 2 * _LIMIT
    while True:
        try:
            get([worker.nothing.remote() for worker in workers])
            return
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def timed(task: Callable[[], Any]) -> tuple[float, str]:
    seconds, outcome = timed_value(task)
    return seconds, outcome if isinstance(outcome, str) else "done"


def timed_value(task: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and the result or the name of the error."""
    began = time.monotonic()
    try:
        outcome = task()
    except Exception as error:
        outcome = type(error).__name__
    return time.monotonic() - began, outcome


def line(what: str, outcome: str, *, then: str = "", **seconds: float) -> Row:
    shown = {f"{name}_s": round(value, 3) for name, value in seconds.items()}
    return {"what": what, "outcome": outcome, **shown, "then": then}


if __name__ == "__main__":
    import ray

    address, _, name = sys.argv[1:]
    findings = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Ray writes warnings to both
    os.environ["RAY_AUTH_MODE"] = "disabled"
    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    for row in CASES[name]():
        print(json.dumps(row), file=findings, flush=True)
