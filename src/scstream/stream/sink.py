"""The `Sink` protocol: where labels go. A sink may get the same batch twice; it stores it once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from scstream.preprocess.block import Columns

SinkPosition = Any  # plain JSON
PlainValue = bool | int | float | str | None


@dataclass(frozen=True)
class Delivery:
    """The rows of one batch for a sink, in columns.

    The idempotence key of a row is (job, batch, index). A batch that is learned again after a
    crash gives the same rows with the same keys.

    Parameters
    ----------
    job : str
        Name of the pipeline.
    batch : int
        Number of the batch, from 0.
    columns : mapping of str to array of shape (N,)
        Always "batch" and "index" (the row within the batch); labels also have "cluster" and the
        columns of `schema.keep`, dead letters "partition", "position", "row", "reason",
        "content" and "complete" (whether the content is the whole row as it came).
    types : mapping of str to str
        Types of kept columns that are known, such as "int"; see `stream.kept_types`.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.stream.sink import Delivery
    >>> Delivery("demo", 0, {"batch": np.zeros(2, int), "index": np.arange(2)}).n_rows
    2
    """

    job: str
    batch: int
    columns: Columns
    types: Mapping[str, str] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Number of rows N."""
        return len(self.columns["index"])


class Sink(Protocol):
    """A destination of deliveries, which come in order of batches; batches may be left out.

    Exactly-once delivery takes three things: `open` undoes or detects what was written after the
    position of the checkpoint, `write` skips what is stored already, and `flush` returns only when
    everything written is as durable as the system promises.

    A sink whose columns have fixed types also has a method `column_types`, which returns the types
    of the columns that exist, as `schema.keep` writes them, once the sink is open. The pipeline
    then rejects rows whose kept values do not fit, so that no row can stop it.
    """

    def open(self, position: SinkPosition | None) -> None:
        """Prepare to write after `position`, which `flush` returned; None for the beginning."""

    def write(self, delivery: Delivery) -> None:
        """Write one delivery, or skip it if it is stored already."""

    def flush(self) -> SinkPosition:
        """Make everything written so far durable; return the position after it."""

    def close(self) -> None:
        """Close connections and files."""


class NullSink:
    """A sink that discards everything.

    Examples
    --------
    >>> from scstream.stream.sink import NullSink
    >>> NullSink().flush()
    """

    def open(self, position: SinkPosition | None) -> None:
        """Do nothing."""

    def write(self, delivery: Delivery) -> None:
        """Do nothing."""

    def flush(self) -> SinkPosition:
        """Do nothing."""
        return None

    def close(self) -> None:
        """Do nothing."""


def column_types(sink: Sink) -> Mapping[str, str] | None:
    """Return the types of the columns of an open sink; None if it takes any value."""
    own = getattr(sink, "column_types", None)
    return None if own is None else own()


def plain_rows(delivery: Delivery) -> list[dict[str, PlainValue]]:
    """Return the rows of a delivery as dicts of plain Python values."""
    names = list(delivery.columns)
    columns = [delivery.columns[name].tolist() for name in names]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
