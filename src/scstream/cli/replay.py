"""`scstream replay`: learn batches again from a checkpoint and compare the labels.

Checkpoints go to memory and nothing is acknowledged, so a running pipeline is not affected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Event

from scstream.cli.checkpoints import list_checkpoints
from scstream.cli.settings import Tables
from scstream.errors import InputError, NonDeterministicReplay
from scstream.io._packing import read_header
from scstream.stream.checkpoint_log import BOUNDARY, SAVEPOINT, VERSION, CheckpointLog
from scstream.stream.config import build
from scstream.stream.progress import Progress
from scstream.stream.runner import CheckpointPolicy, Pipeline
from scstream.stream.sink import NullSink
from scstream.stream.source import Positions, SourceWrapper
from scstream.stream.store import MemoryStore, Store, numbered_name

_START = "replay"  # name of the savepoint in memory
_CONSUMER_OPTIONS = ("durable", "group")  # the broker's state of the pipeline itself


@dataclass(frozen=True)
class ReplayResult:
    """Batches `first` to `stop - 1` were learned again; labels were compared after some of them."""

    first: int
    stop: int
    compared: int

    def __str__(self) -> str:
        return (
            f"batches {self.first} to {self.stop - 1} gave the same labels again "
            f"(compared after {self.compared} of them)"
        )


@dataclass
class _ComparingLog(CheckpointLog):
    """A checkpoint log that compares the digest of the labels with the known digests."""

    first_digests: Mapping[int, str] = field(default_factory=dict)
    agreed: list[int] = field(default_factory=list)
    last_batch: int = -1

    def record_digest(self, batch: int, digest: str) -> None:
        self.last_batch = batch
        if batch not in self.first_digests:
            return
        if self.first_digests[batch] != digest:
            before = "the first one that can be compared"
            if self.agreed:
                before = f"but were equal after batch {self.agreed[-1]}"
            raise NonDeterministicReplay(
                f"the labels differ after batch {batch}, {before}. The machine, the libraries or "
                "the rows have changed since the first run."
            )
        self.agreed.append(batch)


class _UnacknowledgedSource(SourceWrapper):
    """A source that never acknowledges."""

    def acknowledge(self, positions: Positions) -> None:
        pass


def replay_batches(
    settings: Tables,
    store: Store,
    *,
    start: str,
    to: int | None = None,
    stop: Event | None = None,
) -> ReplayResult:
    """Learn batches again from a version or savepoint; by default to the last known labels.

    Raises `NonDeterministicReplay` if labels differ. The store is only read.
    """
    content = _read_start(store, start)
    first = Progress.from_header(read_header(content)).batch
    first_digests = _known_digests(store, first, to)
    memory = MemoryStore(store, hidden=VERSION)
    memory.put(SAVEPOINT + _START, content)
    pipeline = _build(settings, memory)
    log = pipeline.checkpoint_log = _ComparingLog(memory, first_digests=first_digests)
    _check_boundaries(pipeline, store, first)
    end = max(first_digests) + 1
    pipeline.run(savepoint=_START, until=end, stop=stop)
    if log.last_batch + 1 < end and not (stop and stop.is_set()):
        raise NonDeterministicReplay(
            f"the source ends at batch {log.last_batch + 1}, but the labels of batch {end - 1} are "
            "known; the source has lost rows."
        )
    return ReplayResult(first, max(log.last_batch + 1, first), len(log.agreed))


def _read_start(store: Store, start: str) -> bytes:
    possible = [SAVEPOINT + start]
    if start.isdigit():
        possible.insert(0, numbered_name(VERSION, int(start)))
    for name in possible:
        if name in store.names(name):
            content = store.get(name)
            if content[:1] != b"{":
                return content
    kept = ", ".join(info.label for info in list_checkpoints(store))
    raise InputError(f"there is no checkpoint or savepoint {start!r}; there are: {kept or 'none'}.")


def _known_digests(store: Store, first: int, to: int | None) -> dict[int, str]:
    """Return the known digests of all labels up to and including a batch."""
    known = CheckpointLog(store).digests()
    for info in list_checkpoints(store):
        if info.progress is not None and info.progress.batch > 0:
            known[info.progress.batch - 1] = info.progress.digest
    later = {batch: digest for batch, digest in known.items() if batch >= first}
    if to is not None and later and to > max(later) + 1:
        raise InputError(
            f"labels are known up to batch {max(later)}, not up to batch {to - 1}; give a smaller "
            "--to, or none."
        )
    within = {batch: digest for batch, digest in later.items() if to is None or batch < to}
    if not within:
        raise InputError(
            f"there is nothing to compare with: no checkpoint or digest after batch {first} is kept"
            f"{'' if to is None else f' up to batch {to - 1}'}; start from an older checkpoint."
        )
    return within


def _build(settings: Tables, memory: MemoryStore) -> Pipeline:
    """Build the pipeline so that it changes nothing outside of memory."""
    if "source" not in settings:
        raise InputError("replay needs the source of the pipeline; give its file, or --source.")
    if settings["source"].get("kind") in ("http", "otlp", "stdin"):
        raise InputError(
            f"a source of kind {settings['source']['kind']!r} cannot be read twice, so it cannot "
            "be replayed."
        )
    source = {n: value for n, value in settings["source"].items() if n not in _CONSUMER_OPTIONS}
    pipeline = build({**settings, "source": source}, store=memory)
    pipeline.source = _UnacknowledgedSource(pipeline.source)
    pipeline.sink = pipeline.dead_letters = pipeline.alerts = NullSink()
    pipeline.checkpoint_policy = CheckpointPolicy(batches=1 << 62, seconds=float("inf"), digests=1)
    return pipeline


def _check_boundaries(pipeline: Pipeline, store: Store, first: int) -> None:
    """Raise if the batch boundaries were logged but are not kept any more."""
    partitions = {
        partition
        for info in list_checkpoints(store)
        if info.progress
        for partition in info.progress.offsets
    }
    recorded = pipeline.batching.records_boundaries(partitions)
    if recorded and not store.names(numbered_name(BOUNDARY, first)):
        raise InputError(
            f"batch {first} ended by the clock or spans several partitions, and its boundary is no "
            "longer kept; start from a newer checkpoint."
        )
