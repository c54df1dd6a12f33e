"""Things that happen to workers while a model learns, and what must not be left behind."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import ray
from ray._private.state import actors

from tests.on_ray.cluster import Cluster


def rows_of(batch: int, *, n_rows: int = 6000, n_features: int = 8) -> np.ndarray:
    """Rows of some clusters that move."""
    rng = np.random.default_rng(batch)
    centres = np.random.default_rng(0).normal(scale=8.0, size=(6, n_features)) + 0.1 * batch
    return centres[rng.integers(6, size=n_rows)] + rng.normal(size=(n_rows, n_features))


def worker_processes(cluster: Cluster) -> list[int]:
    """Processes of this cluster that are workers of an executor."""
    parents = {}
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            parents[int(folder.name)] = int((folder / "stat").read_text().rsplit(")")[1].split()[1])
    ours = {node.process.pid for node in cluster.nodes}
    found = []
    for pid in parents:
        above = pid
        while above in parents and above not in ours:
            above = parents[above]
        with suppress(OSError):
            title = Path(f"/proc/{pid}/cmdline").read_bytes()
            if above in ours and title.startswith(b"ray::Worker"):
                found.append(pid)
    return found


@dataclass
class Trouble:
    """Does something to a random worker at random moments, from a thread of its own.

    Only where as many as there should be are up: else a slow machine would never see one finish.
    """

    cluster: Cluster
    strike: Callable[[int], None]
    pause: tuple[float, float]  # seconds between two strikes, the least and the most
    n_workers: int = 2
    seed: int = 0
    n_strikes: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)

    def _run(self) -> None:
        chance = random.Random(self.seed)
        while not self._stop.wait(chance.uniform(*self.pause)):
            workers = worker_processes(self.cluster)
            if len(workers) >= self.n_workers:
                with suppress(ProcessLookupError):
                    self.strike(chance.choice(workers))
                    self.n_strikes += 1

    def __enter__(self) -> Trouble:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def freeze(pid: int) -> None:
    """Stop a process for some seconds: it is not dead, only slow."""
    os.kill(pid, signal.SIGSTOP)
    threading.Timer(4.0, _wake, [pid]).start()


def _wake(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def n_actors() -> int:
    """Workers of executors that the cluster has not buried."""
    return sum(
        actor["State"] != "DEAD" and actor["ActorClassName"] == "Worker"
        for actor in actors().values()
    )


def n_references() -> int:
    """Objects of the store that this process knows of."""
    return len(ray._private.worker.global_worker.core_worker.get_all_reference_counts())


def bytes_in_store() -> float:
    """Bytes of the object store that are taken, as the cluster reports it every second or so."""
    whole = ray.cluster_resources()["object_store_memory"]
    return float(whole - ray.available_resources().get("object_store_memory", 0.0))


def eventually(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True
