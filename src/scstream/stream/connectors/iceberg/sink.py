"""Append labels to an Iceberg table; the number of the batch is a property of the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
    ServerError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
)
from pyiceberg.expressions import And, EqualTo
from pyiceberg.table import Table

from scstream.errors import InputError, SinkError
from scstream.stream.connectors.table_sink import Conflict, TableSink, Unavailable
from scstream.stream.findings import Finding
from scstream.stream.secrets import masked

_RETRIES = "commit.retry.num-retries"
_TEMPORARY = (
    CommitStateUnknownException,
    ConnectionError,
    ServerError,
    ServiceUnavailableError,
    TimeoutError,
)


class IcebergSink(TableSink):
    """Append to a table of an Iceberg catalog.

    Rows are buffered until `flush`, which appends them in one transaction. The same transaction
    sets the property `scstream.last-batch.<job>` of the table, so the table itself says which
    batches it has, also after old snapshots have expired: a batch that is learned again after a
    crash is skipped. If two instances commit at once, the catalog rejects one of them; it reads the
    table again and skips what the other has written. Several jobs can share a table.

    Columns get their types from the first rows that have values: long, double, boolean or string.
    A value that does not fit a column stops the pipeline; it is never rounded.

    Parameters
    ----------
    table : str
        "namespace.table". The namespace is created if `create` is true.
    catalog : mapping, optional
        Properties of the catalog as in PyIceberg: `type`, `uri`, `warehouse` and so on. By default
        they come from `.pyiceberg.yaml` or the environment.
    partition_by : sequence of str
        Columns that a new table is partitioned by.
    create : bool
        Whether to create the table and its columns.
    buffer_rows : int
        Maximum number of buffered rows; more are written before the next flush.
    retry_timeout : float, optional
        Seconds to wait for an unavailable catalog before stopping; by default there is no limit.

    Examples
    --------
    >>> from scstream.stream.connectors.iceberg import IcebergSink
    >>> IcebergSink("shop.labels", catalog={"type": "rest", "uri": "http://catalog:8181"})
    IcebergSink('shop.labels')
    >>> IcebergSink("labels")
    Traceback (most recent call last):
    ...
    scstream.errors.InputError: 'labels' cannot be a table; write namespace.table.
    """

    def __init__(
        self,
        table: str,
        *,
        catalog: Mapping[str, Any] | None = None,
        partition_by: Sequence[str] = (),
        create: bool = True,
        buffer_rows: int = 100_000,
        retry_timeout: float | None = None,
    ) -> None:
        if "." not in table or not all(table.split(".")):
            raise InputError(f"{table!r} cannot be a table; write namespace.table.")
        super().__init__(
            table,
            partition_by=partition_by,
            create=create,
            buffer_rows=buffer_rows,
            retry_timeout=retry_timeout,
        )
        self._properties = {name: str(value) for name, value in (catalog or {}).items()}
        self._catalog: Catalog | None = None
        self._table: Table | None = None

    def close(self) -> None:
        """Forget the table; rows that were not flushed are not written."""
        super().close()
        self._table = self._catalog = None

    def doctor(self) -> list[Finding]:
        """Read the table."""
        self._closing.clear()
        self._retry(self._load)
        found = "not created yet" if self._table is None else f"in {self._table.location()}"
        return [
            Finding("ok", "table", f"{self.address}: {masked(found)}."),
            Finding("ok", "durability", "a commit is as durable as catalog and warehouse."),
        ]

    def _load(self) -> None:
        with self._translated():
            if self._catalog is None:
                self._catalog = load_catalog("default", **self._properties)
            try:
                self._table = self._catalog.load_table(self.address)
            except NoSuchTableError:
                self._table = None
                return
            # PyIceberg would repeat a rejected append on the new state of the table, and so write
            # the rows of another instance twice. This changes the copy here only.
            self._table.metadata.properties[_RETRIES] = "0"

    def _last_batch(self, job: str) -> int | None:
        recorded = None if self._table is None else self._table.properties.get(_property(job))
        return None if recorded is None else int(recorded)

    def _schema(self) -> pa.Schema | None:
        return None if self._table is None else self._table.schema().as_arrow()

    def _rows_of(self, job: str, batch: int) -> pa.Table:
        assert self._table is not None
        with self._translated():
            equal: Any = EqualTo  # its annotations lack the way that its manual shows
            wanted = And(equal("job", job), equal("batch", batch))
            return self._table.scan(row_filter=wanted).to_arrow()

    def _create(self, schema: pa.Schema) -> None:
        assert self._catalog is not None
        self._check_partitions(schema)
        with self._translated():
            self._catalog.create_namespace_if_not_exists(self.address.rpartition(".")[0])
            try:
                with (
                    self._catalog.create_table_transaction(self.address, schema) as transaction,
                    transaction.update_spec() as spec,
                ):
                    for name in self._partition_by:
                        spec.add_identity(name)
            except TableAlreadyExistsError:
                return

    def _append(self, rows: pa.Table, *, job: str, batch: int) -> None:
        assert self._table is not None
        known = self._table.schema().column_names
        with self._translated(), self._table.transaction() as transaction:
            if any(name not in known for name in rows.column_names):
                with transaction.update_schema() as schema:
                    schema.union_by_name(rows.schema)
            transaction.set_properties({_property(job): str(batch)})
            transaction.append(
                rows, snapshot_properties={"scstream.job": job, "scstream.batch": str(batch)}
            )
        self._table.metadata.properties[_RETRIES] = "0"

    def _translate(self, error: Exception) -> Exception | None:
        if isinstance(error, CommitFailedException):
            return Conflict()
        if isinstance(error, SinkError):
            return None
        text = masked(str(error)).strip().split("\n", 1)[0].rstrip(".")
        if isinstance(error, _TEMPORARY) or "database is locked" in text:
            return Unavailable(text)
        return SinkError(
            f"{self!r}: {type(error).__name__}: {text}. Check the catalog and the rights."
        )


def _property(job: str) -> str:
    return f"scstream.last-batch.{job}"
