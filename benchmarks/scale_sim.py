"""Simulate the communication of one batch on many workers, with measured costs.

``python -m benchmarks scale sim`` runs it; see `benchmarks.scale.tables`.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, replace

from scstream.core.row_ranges import RowRange

_MOST_ASKED = 1 << 14  # rows, as in `scstream.core.default`
_SHORT_IDS = 128  # ids that fit into one byte


@dataclass(frozen=True)
class Work:
    """What a batch asks of the processors: seconds of one thread, and bytes."""

    n_features: int
    n_clusters: int
    sampling: float  # a row in a sampling pass
    predictive: float  # a row in the last pass
    asked: float  # a row in the pass that asks
    sampling_step: float  # the plan of a sampling pass
    predictive_step: float  # that of a predictive one
    rest: float  # everything else in a batch, such as splits and merges, on one thread
    label: float  # the id of a row
    plan_bytes: int
    sums_bytes: int


@dataclass(frozen=True)
class Engine:
    """Prices of the engine, in seconds."""

    call: float = 0.0  # to submit a call and take its answer, on the driver
    latency: float = 0.0  # of a call, beyond that
    put: float = 0.0  # of an object
    reference: float = 0.0  # of a reference that is passed on, on the driver
    part: float = 0.0  # of the object behind it, where it is made and where it is taken
    copy: float = 0.0  # a byte into the store
    look: float = 0.0  # a byte of the store, seen for the first time
    add: float = 0.0  # a byte of two arrays that are added


@dataclass(frozen=True)
class Network:
    """A link at every node, of so many bytes a second in either direction."""

    bytes_per_s: float = math.inf
    latency: float = 0.0
    tree: bool = True  # who has received an object passes it on

    @classmethod
    def of(cls, gigabits: float, *, tree: bool = True) -> Network:
        return cls(gigabits * 1e9 / 8, 50e-6, tree)


@dataclass(frozen=True)
class Workers:
    """Workers with threads, each on a node of its own; the driver shares the first node."""

    n_workers: int = 1
    n_threads: int = 1
    driver_threads: int = 0  # as many as a worker has, if 0
    cores: int = 0  # all workers on one machine with so many processors; 0: on nodes of their own

    @property
    def slowness(self) -> float:
        """How much slower every thread is because there are more of them than processors."""
        return max(1.0, self.n_workers * self.n_threads / self.cores) if self.cores else 1.0


@dataclass(frozen=True)
class Job:
    """One batch."""

    n_rows: int
    n_sweeps: int = 0
    asked: bool = True
    resident: bool = True  # rows are in the stores of the nodes already
    scatter: bool = False  # sums are reduced in parts by the workers, not whole by the driver
    shared_step: bool = False  # each worker makes the plan of its share of the clusters
    aligned: bool = False  # rows so shared out that a worker has one subtree of the sums


def local(work: Work, job: Job, n_threads: int) -> float:
    """Seconds of a batch on the threads of one process, without an engine."""
    return sum(replay(work, replace(job, resident=True), Workers(1, n_threads)).values())


def efficiency(
    work: Work, job: Job, workers: Workers, *, engine: Engine, network: Network
) -> float:
    """How much of the processors' time is of use: one node alone against all of them."""
    together = sum(replay(work, job, workers, engine=engine, network=network).values())
    return local(work, job, workers.n_threads) / (workers.n_workers * together)


def overhead(work: Work, job: Job, workers: Workers, *, engine: Engine, network: Network) -> float:
    """Share of the batch that is spent on engine and network."""
    free = sum(replay(work, replace(job, resident=True), workers).values())
    return 1.0 - free / sum(replay(work, job, workers, engine=engine, network=network).values())


def replay(
    work: Work,
    job: Job,
    workers: Workers,
    *,
    engine: Engine = Engine(),  # noqa: B008
    network: Network = Network(),  # noqa: B008
) -> dict[str, float]:
    """Replay one batch; return the seconds on its critical path by what they were spent on."""
    clock = _Clock(work, job, workers, engine, network)
    clock.load()
    if job.asked:
        clock.ask()
    for _ in range(job.n_sweeps):
        clock.sweep(work.sampling, work.sampling_step)
    clock.sweep(work.predictive, work.predictive_step)
    clock.spend("moves", work.rest)
    clock.label()
    return clock.spent


def sweep_seconds(
    work: Work,
    job: Job,
    workers: Workers,
    *,
    engine: Engine = Engine(),  # noqa: B008
    network: Network = Network(),  # noqa: B008
) -> float:
    """Seconds of one sampling pass, from a plan that is made to sums that are added."""
    clock = _Clock(work, job, workers, engine, network)
    clock.sweep(work.sampling, 0.0)
    return sum(clock.spent.values())


class _Clock:
    """The time of one batch, by what it was spent on."""

    def __init__(
        self, work: Work, job: Job, workers: Workers, engine: Engine, network: Network
    ) -> None:
        self.work, self.job, self.engine, self.network = work, job, engine, network
        self.workers = workers
        self.n_threads, self.slowness = workers.n_threads, workers.slowness
        self.driver_threads = workers.driver_threads or workers.n_threads
        self.row_ranges = RowRange.full(job.n_rows).shards(workers.n_workers)
        self.n_workers = len(self.row_ranges)
        self.apart = not workers.cores  # nodes have a network between them
        self.n_trees = [1 if job.aligned else len(s.subtrees()) for s in self.row_ranges]
        self.spent: dict[str, float] = {}

    def spend(self, on: str, seconds: float) -> None:
        self.spent[on] = self.spent.get(on, 0.0) + seconds

    def load(self) -> None:
        """Rows go from the driver into the store and over its link."""
        if self.job.resident:
            return
        n_bytes = 8 * self.work.n_features * self.job.n_rows
        elsewhere = n_bytes * (1 - len(self.row_ranges[0].rows) / self.job.n_rows)
        self.spend("rows", self.engine.put * self.n_workers + self.engine.copy * n_bytes)
        self.spend("rows", self.sent(elsewhere))
        self.spend("rows", self.engine.look * n_bytes / self.n_workers)

    def ask(self) -> None:
        """Some rows are asked before all of them choose: where there are threads for them."""
        asked = RowRange.full(min(self.job.n_rows, _MOST_ASKED))
        if self.driver_threads < min(asked.stop, self.n_workers * self.n_threads):
            self.spend("asked pass", self.rounds())  # the workers put their rows aside
            sample = replace(self.job, n_rows=len(asked.rows))
            clock = _Clock(self.work, sample, self.workers, self.engine, self.network)
            clock.sweep(self.work.asked, self.work.predictive_step)
            self.spend("asked pass", sum(clock.spent.values()))
            return
        self.step(self.work.predictive_step)
        self.spend("asked pass", self.work.asked * makespan(asked, self.driver_threads))
        if self.job.resident and self.job.n_rows > _MOST_ASKED:
            n_bytes = 8 * self.work.n_features * len(asked.rows)
            moved = (self.engine.copy + self.engine.look) * n_bytes
            self.spend("asked pass", self.rounds() + moved)
            self.spend("asked pass", self.sent(n_bytes * (1 - 1 / self.n_workers)))

    def step(self, seconds: float) -> None:
        """Make a plan: K·D³ work."""
        if not self.job.shared_step or self.n_workers == 1:
            self.spend("parameters", seconds / self.driver_threads)
            return
        self.spend("parameters", seconds / (self.n_threads * self.n_workers))
        self.spend("parameters", self.rounds())  # a call to everybody
        part = (self.work.sums_bytes + self.work.plan_bytes) * (1 - 1 / self.n_workers)
        self.spend("parameters", self.sent(part) + self.engine.copy * part)

    def sweep(self, row_seconds: float, step_seconds: float) -> None:
        """One pass: plan out, rows choose, sums back."""
        work, engine = self.work, self.engine
        self.step(step_seconds)
        self.spend("serialisation", engine.put + engine.copy * work.plan_bytes)
        there = self.broadcast()
        submitted = [(i + 1) * engine.call / 2 + engine.latency / 2 for i in range(self.n_workers)]
        last_seen = [
            max(call, plan) + engine.look * work.plan_bytes
            for call, plan in zip(submitted, there, strict=True)
        ]
        passes = [
            row_seconds * self.slowness * makespan(row_range, self.n_threads)
            for row_range in self.row_ranges
        ]
        done = [start + seconds for start, seconds in zip(last_seen, passes, strict=True)]
        last = max(range(self.n_workers), key=done.__getitem__)
        self.spend("scheduling", submitted[last])
        self.spend("broadcast", last_seen[last] - submitted[last])
        self.spend("pass", passes[last])
        end = self.scattered(done) if self.scatters else self.star(done)
        self.spend("reduction", end - done[last])

    @property
    def scatters(self) -> bool:
        return self.job.scatter and self.n_workers > 1

    def broadcast(self) -> list[float]:
        """When the plan is at each worker: nodes that have it pass it on, or only the driver."""
        if not self.apart:
            return [0.0] * self.n_workers
        seconds = self.sent(self.work.plan_bytes)
        there, free = [0.0], [0.0]
        for _ in range(self.n_workers - 1):
            began = heapq.heappop(free)
            there.append(began + seconds)
            heapq.heappush(free, began + seconds)
            if self.network.tree:
                heapq.heappush(free, there[-1])
        return there

    def star(self, done: list[float]) -> float:
        """When the driver has added all sums: they come over one link, to one thread."""
        engine, sums = self.engine, self.work.sums_bytes
        link = busy = 0.0
        for i in sorted(range(self.n_workers), key=done.__getitem__):
            n_bytes = self.n_trees[i] * sums
            ready = done[i] + engine.put + engine.copy * n_bytes * self.slowness
            link = max(ready, link) + (self.sent(n_bytes) if i else 0.0)
            busy = max(link, busy) + engine.call / 2 + engine.look * n_bytes
        return busy + engine.latency / 2 + engine.add * sums * (sum(self.n_trees) - 1)

    def scattered(self, done: list[float]) -> float:
        """When the driver has all parts, each added by one worker."""
        engine, sums, n = self.engine, self.work.sums_bytes, self.n_workers
        cut = [
            done[i] + n * engine.part + engine.copy * self.n_trees[i] * sums * self.slowness
            for i in range(n)
        ]
        ready = max(cut) + engine.latency / 2 + n * engine.call / 2
        told = ready + n * engine.call / 2 + n * n * engine.reference + engine.latency / 2
        received = sum(self.n_trees) * sums / n
        crossed = self.sent(max(max(self.n_trees) * sums, received) * (1 - 1 / n))
        added = (engine.look + engine.add) * received * self.slowness
        back = engine.put + engine.copy * sums / n
        gathered = self.sent(sums * (1 - 1 / n)) + n * engine.call / 2
        return told + crossed + added + back + gathered + (engine.look + engine.add) * sums

    def label(self) -> None:
        """Every row gets its id; ids go to the driver, in as few bytes as they need."""
        longest = max(len(row_range.rows) for row_range in self.row_ranges)
        self.spend("labels", self.work.label * longest + self.rounds())
        if self.n_workers == 1 and self.engine == Engine():
            return  # no engine: the ids are there
        width = 1 if self.work.n_clusters <= _SHORT_IDS else 2
        n_bytes = width * self.job.n_rows
        elsewhere = n_bytes * (1 - len(self.row_ranges[0].rows) / self.job.n_rows)
        self.spend("labels", self.sent(elsewhere))
        moved = self.engine.copy / self.n_workers + self.engine.look
        self.spend("labels", moved * n_bytes + 8 * self.engine.add * self.job.n_rows)

    def rounds(self) -> float:
        """Seconds of a call to every worker that brings nothing and takes nothing."""
        return self.n_workers * self.engine.call + self.engine.latency

    def sent(self, n_bytes: float) -> float:
        """Seconds over one link."""
        if not self.apart or not n_bytes:
            return 0.0
        return self.network.latency + n_bytes / self.network.bytes_per_s


def makespan(row_range: RowRange, n_threads: int) -> float:
    """Rows that the busiest of some threads takes; slices are taken whole, in order."""
    n_rows, n_slices = len(row_range.rows), row_range.stop - row_range.first
    last = n_rows - (n_slices - 1) * row_range.length
    rounds, left = divmod(n_slices - 1, n_threads)
    return rounds * row_range.length + (row_range.length if left else last)
