"""Write labels as rows of a PostgreSQL table; existing rows are not duplicated."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from scstream.errors import InputError, SinkError
from scstream.stream.connectors.outage import Outage
from scstream.stream.connectors.postgres.columns import (
    BINARY,
    column_types,
    column_values,
    created_types,
    kept_type,
    stores,
    valid_text,
)
from scstream.stream.findings import Finding
from scstream.stream.sink import Delivery, SinkPosition

_KEY = ("job", "batch", "index")
_PERMANENT = (
    "authentication failed",
    "does not exist",
    "no pg_hba.conf entry",
    "permission denied",
)
_OPTIONS = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "application_name": "scstream",
}
_T = TypeVar("_T")


class PostgresSink:
    """Write to a table with the primary key (job, batch, index).

    Rows are buffered until `flush`, which writes them in one transaction: it copies them to a
    temporary table and from there inserts them, or updates a row with the same key that differs.
    A batch that is written again therefore changes nothing, after crashes of the pipeline and of
    the server alike. An instance that was replaced without noticing does no harm either, because a
    batch always has the same rows; the sink needs no fencing.

    A new table has the columns of the first rows, with the types of `schema.keep`; a column that
    has none yet is text. The type of a column never changes: the pipeline sends rows that do not
    fit the table to the dead letters. The character NUL, which PostgreSQL cannot store in text, is
    replaced by U+FFFD.

    Parameters
    ----------
    url : str
        "postgresql://user:password@host:5432/database", or another connection string of libpq.
        Missing parts come from the environment (`PGPASSWORD`) or a password file.
    table : str
        Name of the table, or "schema.table".
    create : bool
        Whether to create the table if it does not exist.
    alter : bool
        Whether to add columns that an existing table lacks, for example after a column was added
        to `schema.keep`.
    buffer_rows : int
        Maximum number of buffered rows; more are written before the next flush.
    retry_timeout : float, optional
        Seconds to wait for an unavailable server before stopping; by default there is no limit.

    Examples
    --------
    >>> from scstream.stream.connectors.postgres import PostgresSink
    >>> PostgresSink("postgresql://me:hunter2@db:5432/shop", "labels")
    PostgresSink('postgresql://db:5432/shop', 'labels')
    >>> PostgresSink("postgresql://db", "a.b.c")
    Traceback (most recent call last):
    ...
    scstream.errors.InputError: 'a.b.c' cannot be a table; write table or schema.table.
    """

    def __init__(
        self,
        url: str,
        table: str,
        *,
        create: bool = True,
        alter: bool = False,
        buffer_rows: int = 100_000,
        retry_timeout: float | None = None,
    ) -> None:
        parts = table.split(".")
        if len(parts) > 2 or not all(parts) or "\0" in table:
            raise InputError(f"{table!r} cannot be a table; write table or schema.table.")
        self.address = _address(url)
        self.table = table
        self.create = create
        self.alter = alter
        self._url = url
        self._name = sql.Identifier(*parts)
        self._buffer_rows = buffer_rows
        self._retry_timeout = retry_timeout
        self._closing = threading.Event()
        self._connection: psycopg.Connection | None = None
        self._outage: Outage | None = None  # of the last request
        self._reset()

    def __repr__(self) -> str:
        return f"PostgresSink({self.address!r}, {self.table!r})"

    def _reset(self) -> None:
        self._buffer: dict[tuple[str, int], Delivery] = {}
        self._n_buffered = 0
        self._last: int | None = None
        self._types: dict[str, str] = {}  # of the columns of the table; none: there is no table
        self._required: set[str] = set()  # columns that must not be null

    def open(self, position: SinkPosition | None) -> None:
        """Connect, and create the table if it does not exist; nothing needs to be undone."""
        self.close()
        self._reset()
        self._closing.clear()
        self._last = position
        self._retry(self._ensure_table)

    def column_types(self) -> dict[str, str]:
        """Return the types of the columns of the table, as `schema.keep` writes them."""
        return {
            name: kept_type(kind) + (" not null" if name in self._required else "")
            for name, kind in self._types.items()
        }

    def write(self, delivery: Delivery) -> None:
        """Buffer a delivery until the next flush."""
        name = (delivery.job, delivery.batch)
        if name in self._buffer:  # one statement cannot update a row twice
            self._write_buffer()
        if delivery.n_rows:
            self._buffer[name] = delivery
            self._n_buffered += delivery.n_rows
        self._last = delivery.batch
        if self._n_buffered >= self._buffer_rows:
            self._write_buffer()

    def flush(self) -> SinkPosition:
        """Write the buffered rows; return the number of the last batch."""
        self._write_buffer()
        return self._last

    def close(self) -> None:
        """Disconnect; rows that were not flushed are not written."""
        self._closing.set()
        self._disconnect()

    @property
    def connected(self) -> bool | None:
        """Whether the server worked when it was used last; None if it was never used."""
        return None if self._outage is None else not self._outage.is_active

    def doctor(self) -> list[Finding]:
        """Explain what a commit means with the settings of the server."""
        self._closing.clear()

        def read_settings(connection: psycopg.Connection) -> dict[str, str]:
            names = ["server_version", "fsync", "synchronous_commit", "full_page_writes"]
            rows = connection.execute(
                "SELECT name, reset_val FROM pg_settings WHERE name = ANY(%s)", [names]
            )
            return {str(name): str(value) for name, value in rows}

        try:
            return check_settings(self._retry(read_settings))
        finally:
            self.close()

    def _write_buffer(self) -> None:
        """Write all buffered rows in one transaction."""
        if self._buffer:
            self._retry(self._write_rows)
        self._buffer.clear()
        self._n_buffered = 0

    def _write_rows(self, connection: psycopg.Connection) -> None:
        by_types: dict[tuple[tuple[str, str], ...], list[Delivery]] = {}
        for delivery in self._buffer.values():
            by_types.setdefault(column_types(delivery), []).append(delivery)
        with connection.transaction():
            self._read_table(connection)
            if not self._types:
                self._create_table(connection)
            for number, (types, deliveries) in enumerate(by_types.items()):
                self._fit_table(connection, dict(types))
                stage = sql.Identifier(f"scstream_stage_{number}")
                _fill(connection, stage, dict(types), deliveries)
                connection.execute(self._upsert(stage, [name for name, _ in types]))
                connection.execute(sql.SQL("DROP TABLE {}").format(stage))

    def _upsert(self, stage: sql.Identifier, names: list[str]) -> sql.Composed:
        """Return the statement that moves rows from a temporary table to the table."""
        columns = [sql.Identifier(name) for name in names]
        others = [sql.Identifier(name) for name in names if name not in _KEY]
        casts = [
            sql.SQL("{}::{}").format(column, sql.SQL(self._types[name]))
            for name, column in zip(names, columns, strict=True)
        ]
        act: sql.Composable = sql.SQL("NOTHING")
        if others:
            act = sql.SQL("UPDATE SET {} WHERE ({}) IS DISTINCT FROM ({})").format(
                _comma_separated(sql.SQL("{0} = excluded.{0}").format(c) for c in others),
                _comma_separated(sql.SQL("old.{}").format(c) for c in others),
                _comma_separated(sql.SQL("excluded.{}").format(c) for c in others),
            )
        return sql.SQL(
            "INSERT INTO {} AS old ({}) SELECT {} FROM {} ON CONFLICT ({}) DO {}"
        ).format(
            self._name,
            _comma_separated(columns),
            _comma_separated(casts),
            stage,
            _comma_separated(sql.Identifier(name) for name in _KEY),
            act,
        )

    def _ensure_table(self, connection: psycopg.Connection) -> None:
        """Read the types of the columns; the first rows create a table that does not exist."""
        self._read_table(connection)
        if not self._types and not self.create:
            raise SinkError(
                f"{self.address}: table {self.table} does not exist. Create it, or set create."
            )
        missing = [name for name in _KEY if name not in self._types]
        if self._types and missing:
            raise SinkError(
                f"{self.address}: table {self.table} has no column {missing[0]}; its primary key "
                f"must be ({', '.join(_KEY)}). Use another table, or set create."
            )

    def _read_table(self, connection: psycopg.Connection) -> None:
        rows = connection.execute(_COLUMNS, [self._name.as_string(connection)]).fetchall()
        self._types = {str(name): str(kind) for name, kind, _ in rows}
        self._required = {str(name) for name, _, required in rows if required}

    def _create_table(self, connection: psycopg.Connection) -> None:
        """Create the table with the columns of the buffered rows."""
        types = created_types(self._buffer.values())
        columns = [_column(name, types[name]) for name in types if name not in _KEY]
        connection.execute(_LOCK)
        connection.execute(_CREATE.format(self._name, sql.SQL("").join(columns)))
        self._read_table(connection)

    def _fit_table(self, connection: psycopg.Connection, types: Mapping[str, str]) -> None:
        """Check that the table takes columns of these types; add missing ones if `alter` is set."""
        added = []
        for name, kind in types.items():
            known = self._types.get(name)
            if known is None and self.alter:
                added.append(sql.SQL("ADD COLUMN IF NOT EXISTS ") + _column(name, kind, comma=""))
            elif known is None:
                raise SinkError(
                    f"{self.address}: rows have a column {name!r} of type {kind}, but table "
                    f"{self.table} has no such column. Add it, or set alter = true."
                )
            elif not stores(known, kind):
                raise SinkError(
                    f"{self.address}: rows have a column {name!r} of type {kind}, but table "
                    f"{self.table} has it as {known}. Give the column its type in schema.keep, "
                    "or use another table."
                )
        if added:
            connection.execute(_LOCK)
            connection.execute(
                sql.SQL("ALTER TABLE {} {}").format(self._name, _comma_separated(added))
            )
            self._read_table(connection)

    def _retry(self, act: Callable[[psycopg.Connection], _T]) -> _T:
        """Do something on a connection; repeat it on a new one whenever the old one breaks."""
        self._outage = outage = Outage(self.address, self._retry_timeout)
        while True:
            try:
                result = act(self._connect())
                outage.ended()
                return result
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                self._disconnect()
                text = _error_text(error)
                if error.sqlstate is None and any(words in text for words in _PERMANENT):
                    raise SinkError(
                        f"{self.address}: {text}. Check the address, the user and the password."
                    ) from None
            except psycopg.Error as error:
                raise SinkError(
                    f"{self.address}, table {self.table}: {_error_text(error)}."
                ) from None
            outage.failed(text)
            outage.wait(self._closing)

    def _connect(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self._url, autocommit=True, **_OPTIONS)  # type: ignore[arg-type]
            self._connection.execute(
                "SELECT set_config(name, 'on', false) FROM pg_settings "
                "WHERE name = 'synchronous_commit' AND setting = 'off'"
            )
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def check_settings(settings: Mapping[str, str]) -> list[Finding]:
    """Return what the settings of a server mean for confirmed rows."""
    found = [Finding("ok", "version", f"PostgreSQL {settings['server_version']}.")]
    for name, if_off in _IF_OFF.items():
        is_off = settings[name] == "off"
        found.append(if_off if is_off else Finding("ok", name, f"{settings[name]}."))
    return found


_IF_OFF = {
    "fsync": Finding(
        "warn",
        "fsync",
        "off: a power failure may lose or damage confirmed rows, even the whole database. Set it "
        "to on.",
    ),
    "synchronous_commit": Finding(
        "note",
        "synchronous_commit",
        "off: commits are confirmed before they are on disk; this sink sets it to on for its own.",
    ),
    "full_page_writes": Finding(
        "warn",
        "full_page_writes",
        "off: a power failure may damage pages unless the file system writes them atomically. Set "
        "it to on.",
    ),
}
_CREATE = sql.SQL(
    "CREATE TABLE IF NOT EXISTS {} (job text, batch bigint, index bigint{}, "
    "PRIMARY KEY (job, batch, index))"
)
_COLUMNS = (
    "SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute "
    "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped"
)
_LOCK = "SELECT pg_advisory_xact_lock(hashtext('scstream'))"


def _fill(
    connection: psycopg.Connection,
    stage: sql.Identifier,
    types: Mapping[str, str],
    deliveries: Sequence[Delivery],
) -> None:
    """Copy deliveries with the same columns into a temporary table."""
    columns = [
        sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind)) for name, kind in types.items()
    ]
    connection.execute(
        sql.SQL("CREATE TEMP TABLE {} ({}) ON COMMIT DROP").format(stage, _comma_separated(columns))
    )
    statement = sql.SQL("COPY {} FROM STDIN (FORMAT BINARY)").format(stage)
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.set_types([BINARY[kind] for kind in types.values()])
        for delivery in deliveries:
            job = [valid_text(delivery.job)] * delivery.n_rows
            values = [
                job if name == "job" else column_values(delivery.columns[name], kind)
                for name, kind in types.items()
            ]
            for row in zip(*values, strict=True):
                copy.write_row(row)


def _column(name: str, kind: str, *, comma: str = ", ") -> sql.Composed:
    """Return the definition of a column."""
    return sql.SQL("{}{} {}").format(sql.SQL(comma), sql.Identifier(name), sql.SQL(kind))


def _comma_separated(parts: Iterable[sql.Composable]) -> sql.Composed:
    return sql.SQL(", ").join(parts)


def _error_text(error: psycopg.Error) -> str:
    """Return the first line of an error, which never has the password."""
    return str(error).strip().split("\n", 1)[0].rstrip(".")


def _address(url: str) -> str:
    """Return an address without user and password."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise InputError(
            "the address of PostgreSQL cannot be read; write "
            "postgresql://user:password@host:5432/database."
        ) from None
    host = f"{parts.get('host') or ''}:{parts['port']}" if parts.get("port") else parts.get("host")
    return f"postgresql://{host or ''}/{parts.get('dbname') or ''}"
