"""How a batch becomes final, in five steps whose order is the whole promise.

Labels are made to last, then the checkpoint that knows of them, and only then is the source told
that it may forget. A crash between two steps repeats work; it never loses or doubles a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from scstream.stream.batcher import Offsets, offsets_to_dict
from scstream.stream.checkpoint_log import CheckpointLog
from scstream.stream.clock import Clock, Stopwatch
from scstream.stream.sink import Sink, SinkPosition
from scstream.stream.source import Source


@dataclass(frozen=True)
class PendingCommit:
    """Everything that a checkpoint needs, as it was after one batch.

    Parameters
    ----------
    write : callable
        Takes the progress and returns the content of the checkpoint; see `Processor.freeze`.
    batch : int
        Number of the next batch.
    mark : mapping
        Where its rows are, by partition.
    progress : mapping
        What else the pipeline must know to go on: digest, watermark, schema, counts.
    at : float
        When, in seconds since 1970.
    """

    write: Callable[[Mapping[str, Any]], bytes]
    batch: int
    mark: Offsets
    progress: Mapping[str, Any]
    at: float


def commit(
    work: PendingCommit,
    *,
    sinks: Mapping[str, Sink],
    checkpoint_log: CheckpointLog,
    source: Source,
    emit: Callable[..., None],
    clock: Clock,
) -> None:
    """Make everything up to a batch final."""
    watch = Stopwatch(clock)
    ends = flush(sinks)
    watch.lap("flush")
    n_bytes = publish(work, ends, checkpoint_log)
    watch.lap("publish")
    acknowledge(work, source)
    prune(work, checkpoint_log)
    watch.lap("prune")
    emit(
        "checkpoint",
        batch=work.batch,
        version=checkpoint_log.version,
        at=work.at,
        bytes=n_bytes,
        seconds=watch.laps,
    )


def flush(sinks: Mapping[str, Sink]) -> dict[str, SinkPosition]:
    """Make all labels last; return where each sink ends."""
    return {name: sink.flush() for name, sink in sinks.items()}


def publish(
    work: PendingCommit, ends: Mapping[str, SinkPosition], checkpoint_log: CheckpointLog
) -> int:
    """Write the checkpoint as the next version, or find that another instance has; its size."""
    progress = {
        **work.progress,
        "batch": work.batch,
        "mark": offsets_to_dict(work.mark),
        "sinks": dict(ends),
        "epoch": checkpoint_log.epoch,
        "at": work.at,
    }
    content = work.write(progress)
    checkpoint_log.publish(content, at=work.at, batch=work.batch)
    return len(content)


def acknowledge(work: PendingCommit, source: Source) -> None:
    """Tell the source what it may forget: messages whose every row is in the checkpoint."""
    source.acknowledge({partition: place.position for partition, place in work.mark.items()})


def prune(work: PendingCommit, checkpoint_log: CheckpointLog) -> None:
    """Delete checkpoints that nobody will go back to."""
    checkpoint_log.prune(at=work.at)
