"""Defects planted into the pipeline: each is one that a careless program would have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from scstream.stream.batcher import BatchBoundary
from scstream.stream.commit import PendingCommit, flush, prune, publish
from scstream.stream.edit_queue import EditQueue
from scstream.stream.runner import CheckpointPolicy, Pipeline
from tests.faults.simulation import SETUPS, Setup

PLAIN = replace(SETUPS["count"], checkpoint_policy=CheckpointPolicy(batches=2, digests=0))
TIMER = replace(SETUPS["timer"], checkpoint_policy=CheckpointPolicy(batches=2, digests=0))


def acknowledge_before_checkpoint(pipeline: Pipeline) -> None:
    def finish(pending: PendingCommit) -> None:
        ends = flush(pipeline._sinks)
        pipeline.source.acknowledge(pending.progress.positions)
        publish(pending, ends, pipeline.checkpoint_log)
        prune(pending, pipeline.checkpoint_log)

    pipeline._finish = finish  # type: ignore[method-assign]


def checkpoint_before_flush(pipeline: Pipeline) -> None:
    """The checkpoint knows of labels that are not on the disk yet."""
    sync = pipeline.sink.flush
    lines: Any = pipeline.sink._writer  # type: ignore[attr-defined]

    def finish(pending: PendingCommit) -> None:
        ends = {"labels": lines._length, "dead_letters": None}
        publish(pending, ends, pipeline.checkpoint_log)
        sync()
        pipeline.source.acknowledge(pending.progress.positions)
        prune(pending, pipeline.checkpoint_log)

    pipeline._finish = finish  # type: ignore[method-assign]


def no_log_of_boundaries(pipeline: Pipeline) -> None:
    def record(boundary: BatchBoundary) -> BatchBoundary:
        return boundary

    pipeline.checkpoint_log.record_boundary = record  # type: ignore[method-assign]


def no_truncation(pipeline: Pipeline) -> None:
    """The sink goes on at the end of its file, whatever the checkpoint says."""
    lines: Any = pipeline.sink._writer  # type: ignore[attr-defined]
    opened = lines.open

    def open_at_end(position: Any) -> None:
        opened(None if position is None else max(position, lines._size()))

    lines.open = open_at_end


def one_write_is_enough(pipeline: Pipeline) -> None:
    """A short write is taken for a whole one."""
    disk: Any = pipeline.checkpoint_log.store._disk  # type: ignore[attr-defined]
    write = disk.write
    if not hasattr(disk, "is_careless"):
        disk.is_careless = True
        disk.write = lambda handle, content: write(handle, content) and len(content)


def sync_again(pipeline: Pipeline) -> None:
    """A sync that failed is tried again on the same file."""
    disk: Any = pipeline.checkpoint_log.store._disk  # type: ignore[attr-defined]
    sync = disk.sync

    def stubborn(handle: int) -> None:
        try:
            sync(handle)
        except OSError:
            sync(handle)

    if not hasattr(disk, "is_careless"):
        disk.is_careless = True
        disk.sync = stubborn


def stale_offsets(pipeline: Pipeline) -> None:
    """The checkpoint holds the offsets before its last batch."""
    last: list[Any] = [None]
    finish = pipeline._finish

    def late(pending: PendingCommit) -> None:
        before, last[0] = last[0], pending.progress.offsets
        progress = pending.progress if before is None else replace(pending.progress, offsets=before)
        finish(replace(pending, progress=progress))

    pipeline._finish = late  # type: ignore[method-assign]


def _planted(setup: Setup, plant: Callable[[Pipeline], None]) -> Setup:
    return replace(setup, plant=plant)


MUTANTS: Mapping[str, Setup] = {
    "no sync of files": replace(PLAIN, ignored=frozenset({"sync"})),
    "no sync of folders": replace(PLAIN, ignored=frozenset({"sync_folder"})),
    "acknowledge before the checkpoint": _planted(PLAIN, acknowledge_before_checkpoint),
    "checkpoint before the labels": _planted(PLAIN, checkpoint_before_flush),
    "cuts by the clock are not logged": _planted(TIMER, no_log_of_boundaries),
    "labels are not cut back": _planted(PLAIN, no_truncation),
    "a short write is taken for a whole one": _planted(PLAIN, one_write_is_enough),
    "a failed sync is tried again": _planted(PLAIN, sync_again),
}


def no_horizon(pipeline: Pipeline) -> None:
    """Nobody knows up to which batch labels may have been delivered before a crash."""

    def nothing(queue: EditQueue, batch: int) -> None:
        pass

    EditQueue.before_delivery = nothing  # type: ignore[method-assign]


def no_record(pipeline: Pipeline) -> None:
    """A sink of tables believes the checkpoint, and does not look which batches a table has."""
    sink: Any = pipeline.sink
    sink._last_batch = lambda job: sink._batch if sink._batch >= 0 else None


PLANTS: Mapping[str, Callable[[Pipeline], None]] = {
    "no truncation": no_truncation,
    "stale mark": stale_offsets,
    "no horizon": no_horizon,
    "no record": no_record,
}
