"""How a batch becomes final, in five steps. Exactly-once delivery follows from their order.

Labels are made durable first, then the checkpoint that covers them, and only then does the source
get its acknowledgement. A crash between two steps repeats work; it never loses or doubles a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from scstream.observe.events import CheckpointWritten, EventCallback
from scstream.stream.checkpoint_log import CheckpointLog
from scstream.stream.clock import Clock, Stopwatch
from scstream.stream.progress import Progress
from scstream.stream.sink import Sink, SinkPosition
from scstream.stream.source import Source


@dataclass(frozen=True)
class PendingCommit:
    """Everything that a checkpoint needs, as it was after one batch.

    `write` turns the progress into the content of the checkpoint; see `Processor.freeze`. The
    progress has no positions of sinks yet: they are known once the sinks are flushed.
    """

    write: Callable[[Progress], bytes]
    progress: Progress


def commit(
    pending: PendingCommit,
    *,
    sinks: Mapping[str, Sink],
    log: CheckpointLog,
    source: Source,
    emit: EventCallback,
    clock: Clock,
) -> None:
    """Make everything up to a batch final."""
    watch = Stopwatch(clock)
    positions = flush(sinks)
    watch.lap("flush")
    n_bytes = publish(pending, positions, log)
    watch.lap("publish")
    acknowledge(pending, source, log)
    prune(pending, log)
    watch.lap("prune")
    progress = pending.progress
    emit(CheckpointWritten(progress.batch, log.version, progress.time, n_bytes, watch.laps))


def flush(sinks: Mapping[str, Sink]) -> dict[str, SinkPosition]:
    """Make all labels durable; return the position of each sink."""
    return {name: sink.flush() for name, sink in sinks.items()}


def publish(
    pending: PendingCommit, positions: Mapping[str, SinkPosition], log: CheckpointLog
) -> int:
    """Write the checkpoint as the next version, unless another instance has; return its size."""
    progress = pending.progress.committed(positions, epoch=log.epoch)
    content = pending.write(progress)
    log.publish(content, time=progress.time, batch=progress.batch, resume=progress.resume)
    return len(content)


def acknowledge(pending: PendingCommit, source: Source, log: CheckpointLog) -> None:
    """Tell the source what it may delete: messages that no checkpoint in reserve needs."""
    source.acknowledge(log.oldest_positions(pending.progress.identity))


def prune(pending: PendingCommit, log: CheckpointLog) -> None:
    """Delete old checkpoints."""
    log.prune(time=pending.progress.time)
