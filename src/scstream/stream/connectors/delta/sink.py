"""Append labels to a Delta table; the number of the batch is the application transaction."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from scstream.errors import SinkError
from scstream.stream.connectors.table_sink import Conflict, TableSink, Unavailable
from scstream.stream.findings import Finding
from scstream.stream.secrets import masked

_STATUS = re.compile(r"status code\W+(\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_TEMPORARY = {"408", "409", "429"}
_COLOUR = re.compile(r"\x1b\[\d*m")


class DeltaSink(TableSink):
    """Append to a Delta table, in a folder or an object store.

    Rows are buffered until `flush`, which appends them in one commit of the table. The commit has
    the application transaction (job, last batch), so the table itself says which batches it has: a
    batch that is learned again after a crash is skipped. If two instances commit at once, Delta
    Lake rejects one of them because it has the same application id. Several jobs can share a table.

    Columns get their types from the first rows that have values: long, double, boolean or string.
    A value that does not fit a column stops the pipeline; it is never rounded.

    The sink does not compact. Each commit adds a file at least; run `OPTIMIZE` and `VACUUM` from
    time to time, as described in "Sources and sinks". Do not set
    `delta.setTransactionRetentionDuration`, which lets the table forget its batches.

    Parameters
    ----------
    path : str or Path
        Folder of the table, or an address such as "s3://bucket/labels".
    partition_by : sequence of str
        Columns that a new table is partitioned by.
    create : bool
        Whether to create the table and its columns.
    options : mapping, optional
        Options of the object store, such as `endpoint_url`; missing ones come from the environment,
        such as `AWS_ACCESS_KEY_ID`.
    buffer_rows : int
        Maximum number of buffered rows; more are written before the next flush.
    retry_timeout : float, optional
        Seconds to wait for an unavailable object store before stopping; by default there is no
        limit.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from deltalake import DeltaTable
    >>> from scstream.stream.connectors.delta import DeltaSink
    >>> from scstream.stream.sink import Delivery
    >>> rows = {"batch": np.zeros(2, int), "index": np.arange(2), "cluster": np.array([0, 1])}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sink = DeltaSink(f"{folder}/labels")
    ...     sink.open(None)
    ...     sink.write(Delivery("demo", 0, rows))
    ...     position = sink.flush()
    ...     sink.write(Delivery("demo", 0, rows))  # again
    ...     assert sink.flush() == position
    ...     DeltaTable(f"{folder}/labels").to_pyarrow_table().num_rows
    2
    """

    def __init__(
        self,
        path: str | Path,
        *,
        partition_by: Sequence[str] = (),
        create: bool = True,
        options: Mapping[str, Any] | None = None,
        buffer_rows: int = 100_000,
        retry_timeout: float | None = None,
    ) -> None:
        super().__init__(
            masked(str(path)),
            partition_by=partition_by,
            create=create,
            buffer_rows=buffer_rows,
            retry_timeout=retry_timeout,
        )
        self._path = str(path)
        self._options = {name: str(value) for name, value in (options or {}).items()}
        self._table: DeltaTable | None = None

    def doctor(self) -> list[Finding]:
        """Explain what a commit means in this place."""
        self._closing.clear()
        self._retry(self._load)
        version = "not created yet" if self._table is None else f"version {self._table.version()}"
        found = [Finding("ok", "table", f"{self.address}: {version}.")]
        if "://" not in self._path or self._path.startswith("file:"):
            text = "a folder: commits are not synced, so a power failure may lose confirmed rows. "
            text += "Use an object store if that must not happen."
            return [*found, Finding("warn", "durability", text)]
        return [*found, Finding("ok", "durability", "a commit is as durable as the object store.")]

    def _load(self) -> None:
        with self._translated():
            try:
                if self._table is None:
                    self._table = DeltaTable(self._path, storage_options=self._options)
                else:
                    self._table.update_incremental()
            except TableNotFoundError:
                self._table = None

    def _last_batch(self, job: str) -> int | None:
        if self._table is None:
            return None
        with self._translated():
            return self._table.transaction_version(job)

    def _schema(self) -> pa.Schema | None:
        return None if self._table is None else pa.schema(self._table.schema().to_arrow())

    def _rows_of(self, job: str, batch: int) -> pa.Table:
        assert self._table is not None
        with self._translated():
            return self._table.to_pyarrow_table(filters=[("job", "=", job), ("batch", "=", batch)])

    def _create(self, schema: pa.Schema) -> None:
        self._check_partitions(schema)
        with self._translated():
            DeltaTable.create(
                self._path,
                schema,
                mode="ignore",
                partition_by=self._partition_by,
                storage_options=self._options,
            )

    def _append(self, rows: pa.Table, *, job: str, batch: int) -> None:
        assert self._table is not None  # a path would stand for a newer state than the checked one
        with self._translated():
            write_deltalake(
                self._table,
                rows,
                mode="append",
                schema_mode="merge",
                commit_properties=CommitProperties(app_transactions=[Transaction(job, batch)]),
            )

    def close(self) -> None:
        """Forget the table; rows that were not flushed are not written."""
        super().close()
        self._table = None

    def _translate(self, error: Exception) -> Exception | None:
        if isinstance(error, CommitFailedError):
            return Conflict()
        if isinstance(error, TableNotFoundError):
            return None
        text = _COLOUR.sub("", str(error))
        if isinstance(error, OSError) and _is_temporary(text, self.address):
            return Unavailable(_reason(text))
        if isinstance(error, (DeltaError, OSError)):
            return SinkError(f"{self!r}: {_reason(text)}. Check the address and the rights.")
        return None


def _is_temporary(text: str, address: str) -> bool:
    """Return whether the next attempt may succeed: no connection, or an error of the server."""
    status = _STATUS.search(text)
    if status is None:
        return "://" in address and "credential" not in text.lower()
    return status[1][0] == "5" or status[1] in _TEMPORARY


def _reason(text: str) -> str:
    """Return status and code of an error; the text of the server may repeat the access key."""
    status, code = _STATUS.search(text), _CODE.search(text)
    if status is None:
        return masked(text).strip().split("\n", 1)[0].rstrip(".")
    return f"the server answers {status[1]}" + (f" {code[1]}" if code else "")
