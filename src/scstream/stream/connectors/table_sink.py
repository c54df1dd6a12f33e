"""Labels for table formats: appended in transactions that record the number of the last batch."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow import types

from scstream.errors import InputError, SinkError
from scstream.stream.arrow import table_of
from scstream.stream.connectors.outage import Outage
from scstream.stream.sink import Delivery, SinkPosition

_REFUSED = set(" ,;{}()\n\t=")  # in names of columns of Parquet, by Spark
_T = TypeVar("_T")


class Conflict(Exception):
    """Another writer has changed the table since it was read."""


class Unavailable(Exception):
    """The server does not answer; the next attempt may succeed."""


class TableSink(ABC):
    """Append batches to a table, and with them the number of the last batch of the job.

    Batches come in order, so that number says which batches the table has. A replayed batch is
    skipped. A writer that has an old state of the table gets `Conflict`, reads it again, and skips
    what another instance has written.
    """

    def __init__(
        self,
        address: str,
        *,
        partition_by: Sequence[str],
        create: bool,
        buffer_rows: int,
        retry_timeout: float | None,
    ) -> None:
        if isinstance(partition_by, str):
            raise InputError(f"partition_by is {partition_by!r}; write [{partition_by!r}].")
        self.address = address
        self._partition_by = list(partition_by)
        self.create = create
        self._buffer_rows = buffer_rows
        self._retry_timeout = retry_timeout
        self._closing = threading.Event()
        self._outage: Outage | None = None  # of the last request
        self._reset(None)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address!r})"

    def open(self, position: SinkPosition | None) -> None:
        """Read the state of the table; check that it has what `position` says."""
        self._closing.clear()
        self._reset(position)
        self._retry(self._load)
        if self._job is not None:
            found = self._last_batch(self._job)
            if found is None or found < self._batch:
                raise SinkError(
                    f"{self!r} should have batch {self._batch} of job {self._job!r} according to "
                    f"the checkpoint, but its last batch is {found}: rows that were written are "
                    "gone. Restore the table, or start a new pipeline."
                )

    def write(self, delivery: Delivery) -> None:
        """Buffer a delivery until the next flush."""
        if delivery.n_rows:
            self._buffer.append(delivery)
            self._n_buffered += delivery.n_rows
        if self._n_buffered >= self._buffer_rows:
            self._write_buffer()

    def flush(self) -> SinkPosition:
        """Append the buffered rows; return the number of the last batch."""
        self._write_buffer()
        return None if self._job is None else {"job": self._job, "batch": self._batch}

    @property
    def connected(self) -> bool | None:
        """Whether the table could be used last time; None if it was never used."""
        return None if self._outage is None else not self._outage.is_active

    def close(self) -> None:
        """Forget the table; rows that were not flushed are not written."""
        self._closing.set()
        self._buffer.clear()

    @abstractmethod
    def _load(self) -> None:
        """Read the newest state of the table, if it exists."""

    @abstractmethod
    def _last_batch(self, job: str) -> int | None:
        """Return the last batch of a job that the table has."""

    @abstractmethod
    def _schema(self) -> pa.Schema | None:
        """Return the columns of the table; None if it does not exist."""

    @abstractmethod
    def _rows_of(self, job: str, batch: int) -> pa.Table:
        """Return the rows of a batch."""

    @abstractmethod
    def _create(self, schema: pa.Schema) -> None:
        """Create the table without rows, unless it exists."""

    @abstractmethod
    def _append(self, rows: pa.Table, *, job: str, batch: int) -> None:
        """Append rows and record the batch in one transaction; add missing columns."""

    @abstractmethod
    def _translate(self, error: Exception) -> Exception | None:
        """Return `Conflict`, `Unavailable` or `SinkError` for an error; None to leave it."""

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn errors of the library into those of this class."""
        try:
            yield
        except Exception as error:
            translated = self._translate(error)
            if translated is None:
                raise
            raise translated from None

    def _check_partitions(self, schema: pa.Schema) -> None:
        """Raise if the first rows do not have a column that a new table is partitioned by."""
        unknown = [name for name in self._partition_by if name not in schema.names]
        if unknown:
            raise SinkError(
                f"{self!r} cannot be partitioned by {unknown[0]!r}: the first rows have no values "
                f"of it. Columns are: {', '.join(schema.names)}."
            )

    def _reset(self, position: SinkPosition | None) -> None:
        self._job: str | None = position["job"] if position else None
        self._batch: int = position["batch"] if position else -1
        self._is_new = position is None
        self._buffer: list[Delivery] = []
        self._n_buffered = 0

    def _write_buffer(self) -> None:
        if self._buffer:
            self._retry(self._write_rows)
            self._job, self._batch = self._buffer[-1].job, self._buffer[-1].batch
        self._buffer.clear()
        self._n_buffered = 0

    def _write_rows(self) -> None:
        """Append the batches that the table does not have."""
        job, last = self._buffer[-1].job, self._buffer[-1].batch
        stored = self._last_batch(job)
        if stored is not None and self._is_new and self._buffer[0].batch <= stored:
            self._check_same(self._buffer[0])
        missing = [d for d in self._buffer if stored is None or d.batch > stored]
        if missing:
            rows = self._fitted(_rows(missing))
            if self._schema() is None:
                self._create(rows.schema)
                self._load()
                return self._write_rows()  # another instance may have created and filled it
            self._append(rows, job=job, batch=last)
        self._is_new = False
        return None

    def _check_same(self, delivery: Delivery) -> None:
        """Raise if the table has other rows of this batch: those of another pipeline."""
        stored = self._rows_of(delivery.job, delivery.batch)
        wanted = self._fitted(_rows([delivery]))
        names = [name for name in wanted.column_names if name in stored.column_names]
        found = stored.select(names).sort_by("index").to_pylist()
        if repr(found) != repr(wanted.select(names).to_pylist()):  # NaN is the same as NaN
            raise SinkError(
                f"{self!r} has other rows of batch {delivery.batch} of job {delivery.job!r}, and "
                "there is no checkpoint of this pipeline. Give it another name in job, or another "
                "table."
            )

    def _fitted(self, rows: pa.Table) -> pa.Table:
        """Return rows with the types of the table; raise if values do not fit."""
        schema = self._schema()
        if schema is None and not self.create:
            raise SinkError(f"{self!r} does not exist. Create the table, or set create.")
        columns = {}
        for name, column in zip(rows.column_names, rows.columns, strict=True):
            if schema is not None and name in schema.names:
                columns[name] = self._cast(name, column, schema.field(name).type)
            elif column.null_count < len(column):  # without values it would get a wrong type
                columns[name] = column
                if not self.create:
                    raise SinkError(
                        f"{self!r} has no column {name!r}, and the rows have one of type "
                        f"{column.type}. Add it, or set create."
                    )
        return pa.table(columns)

    def _cast(self, name: str, column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
        """Return a column in the type of the table, if that keeps every value."""
        if column.null_count == len(column):
            return pa.chunked_array([pa.nulls(len(column), kind)])
        try:
            if _may_become(column.type, kind):
                return column.cast(kind)
        except pa.ArrowException:
            pass
        raise SinkError(
            f"{self!r} has column {name!r} as {kind}, and the rows have values of type "
            f"{column.type} that do not fit. Give its type in schema.keep, or use another table."
        )

    def _retry(self, act: Callable[[], _T]) -> _T:
        """Do something; read the table again after a conflict or an outage, and repeat it."""
        self._outage = outage = Outage(self.address, self._retry_timeout)
        must_load = False
        while True:
            try:
                if must_load:
                    self._load()
                    must_load = False
                result = act()
                outage.ended()
                return result
            except Conflict:
                must_load = True
                reason = "another writer changed the table"
            except Unavailable as error:
                must_load = True
                reason = str(error)
            outage.failed(reason)
            outage.wait(self._closing)


def _may_become(kind: pa.DataType, other: pa.DataType) -> bool:
    """Whether values of a type mean the same in another type, if they fit."""
    if kind == other or types.is_string(other) or types.is_large_string(other):
        return True
    return _is_number(kind) and _is_number(other)


def _is_number(kind: pa.DataType) -> bool:
    return bool(types.is_integer(kind) or types.is_floating(kind))


def _rows(deliveries: Sequence[Delivery]) -> pa.Table:
    """Return the rows of deliveries with the name of their job."""
    names = list(dict.fromkeys(name for d in deliveries for name in d.columns))
    if len({name.lower() for name in names}) < len(names):
        raise SinkError(f"two of the columns {names} differ only in case. Rename one of them.")
    for name in names:
        if name == "job" or _REFUSED & set(name) or not name:
            raise SinkError(
                f"a column cannot be called {name!r} in a table: names have none of ' ,;{{}}()=' "
                "and job is the name of the pipeline. Rename it at the source."
            )
    rows = table_of([delivery.columns for delivery in deliveries])
    job = pa.array([deliveries[0].job] * rows.num_rows, pa.string())
    return rows.add_column(0, "job", job)
