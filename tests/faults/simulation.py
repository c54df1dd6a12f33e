"""A whole pipeline on a simulated disk: cheap to start, to crash and to start again.

The model is a running hash: its labels depend on every row so far, on their order, and on where
batches were cut, so that a row lost, doubled or learned in another batch changes all that follows.
"""

from __future__ import annotations

import errno
import json
import pickle
from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np

from scstream.core.state import Event
from scstream.errors import DiskFull, SourceGap
from scstream.io.model_file import pack_pipeline, unpack_pipeline
from scstream.observe.events import CheckpointWritten, RunEvent, Started
from scstream.preprocess.block import Block, Reject
from scstream.stream.batcher import Batching, SourceBatch
from scstream.stream.checkpoint_log import CheckpointLog
from scstream.stream.clock import ManualClock
from scstream.stream.connectors.files import FileSink
from scstream.stream.edit_queue import EditRequest
from scstream.stream.processor import Learned
from scstream.stream.progress import Progress
from scstream.stream.runner import CheckpointPolicy, Pipeline
from scstream.stream.schema import Schema
from scstream.stream.source import Record
from scstream.stream.store import FolderStore
from tests.faults.simdisk import KILL, Crash, FastPath, Fault, Loss, SimulatedDisk

FOLDER = "/state"
LABELS, DEAD = FastPath("/out/labels.jsonl"), FastPath("/out/dead.jsonl")
_PRIME = (1 << 61) - 1


class HashModel:
    """A processor whose labels are a running hash of all rows, boundaries and times."""

    def __init__(self) -> None:
        self.state = 1

    def set_columns(self, names: Any) -> None:
        pass

    def learn(self, source_batch: SourceBatch) -> Learned:
        labels, time = [], source_batch.time or 0.0
        state = self.state * 31 + source_batch.batch + int(1000 * time)
        for x in source_batch.block.X[:, 0].tolist():
            state = (state * 1_000_003 + int(x) + 7) % _PRIME
            labels.append(state % 97)
        self.state = state % _PRIME
        return Learned(source_batch.block, np.array(labels, dtype=np.int64), 1)

    has_model = True

    def edit(self, request: EditRequest) -> tuple[Event, ...]:
        self.state = (self.state * 1_000_033 + (request.id or 0)) % _PRIME
        return ()

    def freeze(self) -> Callable[[Progress], bytes]:
        state = self.state
        return lambda progress: pack_pipeline({"progress": progress.to_dict(), "state": state})

    def restore(self, content: bytes, *, name: str) -> Progress:
        pipeline = unpack_pipeline(content, name=name)
        assert pipeline is not None
        self.state = pipeline["state"]
        return Progress.from_dict(pipeline["progress"])

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class Setup:
    """A small stream, how it is cut, and what defect is planted.

    Parameters
    ----------
    partitions : mapping of str to tuple of int
        Rows of every message, by partition.
    bad : bool
        Every seventh row is refused and goes to the dead letters.
    max_bytes : int, optional
        Size from which a file of dead letters is closed.
    folders : tuple of str
        Those that are there from the beginning.
    plant : callable
        Puts a defect into a pipeline.
    ignored : set of str
        Operations that the disk leaves out.
    """

    partitions: Mapping[str, tuple[int, ...]] = field(
        default_factory=lambda: {"": (3, 1, 5, 2, 1, 3)}
    )
    batching: Batching = field(default_factory=lambda: Batching(rows=4))
    checkpoint_policy: CheckpointPolicy = field(
        default_factory=lambda: CheckpointPolicy(batches=2, digests=2)
    )
    bad: bool = False
    max_bytes: int | None = None
    folders: tuple[str, ...] = ("/", "/out", FOLDER)
    plant: Callable[[Pipeline], None] | None = None
    ignored: frozenset[str] = frozenset()

    @property
    def n_rows(self) -> int:
        return sum(sum(sizes) for sizes in self.partitions.values())

    @property
    def is_settled(self) -> bool:
        """Whether cuts, and so labels, follow from the rows alone."""
        return not self.batching.records_boundaries(self.partitions)

    def messages(self) -> dict[str, list[Block]]:
        blocks: dict[str, list[Block]] = {}
        start = 0
        for partition, sizes in self.partitions.items():
            blocks[partition] = []
            for size in sizes:
                blocks[partition].append(self._block(start, start + size))
                start += size
        return blocks

    def _block(self, start: int, stop: int) -> Block:
        ids = np.arange(start, stop)
        # Times that go back and forth a little, with fractions that binary numbers do not have.
        block = Block.of(ids[:, None] + 0.0, id=ids, t=ids * 0.3 - (ids % 3) * 0.7)
        refused = [Reject(i - start, "seventh") for i in ids.tolist() if i % 7 == 6]
        return block.reject(refused) if self.bad else block


class ForgetfulSource:
    """Messages in memory; one that was acknowledged is gone, as on a work queue."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._messages = world.setup.messages()
        self.first = dict.fromkeys(self._messages, 0)
        self._at: dict[str, int] = {}

    def connection(self) -> ForgetfulSource:
        """What a process reads with: it shares everything but its place."""
        return copy(self)

    def identity(self) -> dict[str, str]:
        return {"name": "memory"}

    def open(self, resume: Any, *, accept_gap: bool = False) -> None:
        positions = resume.positions if resume else {}
        self._at = {partition: positions.get(partition, 0) for partition in self._messages}
        for partition, at in self._at.items():
            if at < self.first[partition]:
                raise SourceGap(f"message {at} is gone, the first is {self.first[partition]}")

    def read(self, max_n: int, timeout: float) -> list[Record]:
        random = self._world.random
        self._world.clock.sleep(random.random())
        partition = random.choice([name for name in self._at if self._left(name)])
        at = self._at[partition]
        self._at[partition] = stop = at + min(random.randint(1, 3), self._left(partition))
        return [Record(i, i + 1, self._messages[partition][i], partition) for i in range(at, stop)]

    def acknowledge(self, positions: Mapping[str, Any]) -> None:
        self._world.disk.step("acknowledge")
        for partition, position in positions.items():
            self.first[partition] = max(self.first[partition], position)
        self._world.disk.done()

    @property
    def done(self) -> bool:
        return not any(map(self._left, self._at))

    def lag(self) -> int:
        return sum(map(self._left, self._at))

    def close(self) -> None:
        pass

    def _left(self, partition: str) -> int:
        return len(self._messages[partition]) - self._at[partition]


class NoReader:
    """Reads nothing: the source sends rows that are read already."""

    def __init__(self) -> None:
        self.schema = Schema(features=("x",), keep=("id",), time="t")

    def read(self, value: bytes) -> Block:
        raise AssertionError("the source sends blocks")


class UnlockedStore(FolderStore):
    """A store on a simulated disk, which has no locks: other instances are fenced off."""

    def lock(self, *, take_over: bool = False) -> AbstractContextManager[None]:
        return nullcontext()


class World:
    """What outlives a process: disk, source, clock, and what somebody has seen of the labels."""

    def __init__(self, setup: Setup, seed: int) -> None:
        self.setup = setup
        self.random = Random(seed)
        self.clock = ManualClock()
        self.disk = SimulatedDisk(self.random, setup.folders, short=0.1, ignored=setup.ignored)
        self.source = ForgetfulSource(self)
        self.seen = b""
        self.committed = 0
        self._is_cut_back = False  # after a power loss a file may end in rubbish until it is

    def save(self) -> bytes:
        """What `go_back` needs."""
        disk = {name: getattr(self.disk, name) for name in self.disk.CONTENT}
        own = {"seen": self.seen, "committed": self.committed}
        return pickle.dumps((disk, own, self.source.first, self.clock, self.random.getstate()))

    def go_back(self, saved: bytes) -> None:
        """Make everything as it was when it was saved."""
        disk, own, self.source.first, self.clock, random = pickle.loads(saved)
        vars(self.disk).update(disk)
        vars(self).update(own)
        self.random.setstate(random)

    def state(self) -> Hashable:
        """Everything that the next process, and who checks it, can find."""
        source = tuple(self.source.first.items())
        return self.disk.state(), source, self.seen, self.committed

    def pipeline(self, disk: Any = None) -> Pipeline:
        disk = disk or self.disk
        store = UnlockedStore(FOLDER, disk)
        store.folder = FastPath(FOLDER)  # type: ignore[assignment]
        pipeline = Pipeline(
            job="simulated",
            source=self.source.connection(),
            reader=NoReader(),
            processor=HashModel(),
            sink=_sink(LABELS, disk),
            checkpoint_log=CheckpointLog(store, hourly=0),
            batching=self.setup.batching,
            checkpoint_policy=self.setup.checkpoint_policy,
            clock=self.clock,
            emit=self.hear,
            threads=False,
        )
        if self.setup.bad:
            pipeline.dead_letters = _sink(DEAD, disk, max_bytes=self.setup.max_bytes)
        if self.setup.plant is not None:
            self.setup.plant(pipeline)
        return pipeline

    def hear(self, event: RunEvent) -> None:
        if isinstance(event, Started):
            self._is_cut_back = True
            assert event.batch >= self.committed, "a checkpoint that was announced is gone"
        if isinstance(event, CheckpointWritten):
            self.committed = event.batch

    def run(self, fault: Fault | None = None, *, loss: Loss = KILL) -> bool:
        """Start a process after a crash with that loss; tell whether it came to its end."""
        self.disk.boot(fault, loss=loss)
        self._is_cut_back = False
        try:
            self.pipeline().run(take_over=True)
        except Crash:
            self.look()
            return False
        except (OSError, DiskFull) as error:
            if fault is None or getattr(error, "errno", errno.ENOSPC) != fault.error:
                raise
            self.look()
            return False
        return True

    def look(self) -> None:
        """Read the labels as anybody may: what they see is never taken back or changed."""
        if not self._is_cut_back:
            return
        labels = self.disk.peek(LABELS)
        whole = labels[: labels.rfind(b"\n") + 1]
        shorter, longer = sorted((self.seen, whole), key=len)
        assert longer.startswith(shorter), "labels that somebody has seen are others now"
        self.seen = longer

    def outcome(self) -> tuple[bytes, Any]:
        """Labels and model that survive if the power fails now, with all that was not synced."""
        self.disk.boot(loss=Loss("all", "all"))
        checkpoint_log = CheckpointLog(FolderStore(FOLDER, self.disk))
        contents = [content for _, content in checkpoint_log.checkpoints()]
        assert contents, "there is no checkpoint"
        model = HashModel()
        progress = model.restore(contents[0], name="last").to_dict()
        del progress["epoch"], progress["time"]
        return self.disk.peek(LABELS), (model.state, json.dumps(progress, sort_keys=True))

    def check(self, expected: tuple[bytes, Any] | None) -> None:
        """Every row is there once; labels and model are those of an uninterrupted run."""
        labels, model = self.outcome()
        assert labels.startswith(self.seen), "labels that somebody has seen are others now"
        rows = labels.splitlines()
        for name in self.disk.names(DEAD.parent):
            if name.startswith("dead."):
                rows += self.disk.peek(DEAD.parent / name).splitlines()
        assert b"\0" not in labels, "labels are damaged"
        ids = sorted(self._id(json.loads(row)) for row in rows)
        assert ids == list(range(self.setup.n_rows)), f"rows lost or doubled: {ids}"
        if expected is not None:
            assert labels == expected[0], "the labels are others"
            assert model == expected[1], "the model is another"

    def _id(self, row: Mapping[str, Any]) -> int:
        if "id" in row:
            return int(row["id"])
        blocks = self.setup.messages()[row["partition"]]
        before = sum(block.n_rows for block in blocks[: int(row["position"])])
        return before + int(row["row"])


def _sink(path: FastPath, disk: Any, **options: Any) -> FileSink:
    sink = FileSink(path=path, disk=disk, **options)
    written: Any = sink._writer
    written._target = replace(written._target, path=path)
    return sink


def reference(setup: Setup) -> tuple[bytes, Any] | None:
    """Labels and model of a run that nothing interrupts; None if they depend on the clock."""
    world = World(setup, 0)
    assert world.run()
    outcome = world.outcome()
    return outcome if setup.is_settled else None


SETUPS = {
    "count": Setup(),
    "new folders": Setup(folders=("/",)),
    "long messages": Setup({"": (9, 7)}, checkpoint_policy=CheckpointPolicy(batches=1, digests=1)),
    "refused rows": Setup(bad=True, max_bytes=1),
    "timer": Setup(batching=Batching(rows=4, seconds=0.6, time="processing")),
    "event time": Setup(
        batching=Batching(rows=4, time="event", window=1.1, lateness=0.3),
        checkpoint_policy=CheckpointPolicy(3, digests=1),
    ),
    "partitions": Setup({"a": (3, 1, 2, 2), "b": (1, 4, 2)}),
}
