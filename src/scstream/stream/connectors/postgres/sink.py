"""Labels as rows of a PostgreSQL table; a row that is there already is left as it is."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from scstream.errors import InputError, SinkError, StreamError, missing_extra
from scstream.stream.connectors.postgres.columns import BINARY, clean, types_of, values_of, wider
from scstream.stream.findings import Finding
from scstream.stream.sink import Delivery, SinkPosition

try:
    import psycopg
    from psycopg import sql
    from psycopg.conninfo import conninfo_to_dict
except ImportError as error:
    raise missing_extra("psycopg", "postgres") from error

_KEY = ("job", "batch", "index")
_LONGEST_PAUSE = 2.0
_HOPELESS = ("authentication failed", "does not exist", "no pg_hba.conf entry", "permission denied")
_LINK = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "application_name": "scstream",
}
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class PostgresSink:
    """A table with the primary key (job, batch, index).

    Rows are kept here until `flush`, which writes them in one transaction: copied to a temporary
    table, and from there inserted, or updated where a row with the key is there and differs. So
    a batch that comes again changes nothing, after crashes of the pipeline and of the server alike;
    and since a batch always gives the same rows, an instance that was replaced without knowing does
    no harm either: what it writes is what is there. Nothing needs to be fenced.

    Columns get their types from the first rows that have them: bigint, double precision, boolean
    or text. If `create` is on, a column that is missing is added, and one that turns out too narrow
    is made double precision or text, which takes a while on a table that is large; otherwise both
    stop the pipeline. The character NUL, which text of PostgreSQL cannot hold, is replaced by
    U+FFFD.

    Parameters
    ----------
    url : str
        "postgresql://user:password@host:5432/database", or what else libpq takes. What is not
        given comes from the environment (`PGPASSWORD`) or a password file.
    table : str
        Name of the table, or "schema.table".
    create : bool
        Whether to make the table and its columns.
    hold_rows : int
        Most rows that are kept here; beyond it they are written before the next flush.
    patience : float, optional
        Seconds that a server that is away is waited for; by default for ever.

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
        hold_rows: int = 100_000,
        patience: float | None = None,
    ) -> None:
        parts = table.split(".")
        if len(parts) > 2 or not all(parts) or "\0" in table:
            raise InputError(f"{table!r} cannot be a table; write table or schema.table.")
        self.address = _shown(url)
        self.table = table
        self.create = create
        self._url = url
        self._name = sql.Identifier(*parts)
        self._hold_rows = hold_rows
        self._patience = patience
        self._closing = threading.Event()
        self._link: psycopg.Connection | None = None
        self._forget()

    def __repr__(self) -> str:
        return f"PostgresSink({self.address!r}, {self.table!r})"

    def _forget(self) -> None:
        """Be as if never opened."""
        self._waiting: dict[tuple[str, int], Delivery] = {}
        self._n_waiting = 0
        self._last: int | None = None
        self._types: dict[str, str] = {}  # of the columns of the table

    def open(self, position: SinkPosition | None) -> None:
        """Connect, and make the table if it is not there; nothing needs to be undone."""
        self.close()
        self._forget()
        self._closing.clear()
        self._last = position
        self._patiently(self._look_at_table)

    def write(self, delivery: Delivery) -> None:
        """Keep a delivery until the next flush."""
        name = (delivery.job, delivery.batch)
        if name in self._waiting:  # one statement cannot update a row twice
            self._settle()
        if delivery.n_rows:
            self._waiting[name] = delivery
            self._n_waiting += delivery.n_rows
        self._last = delivery.batch
        if self._n_waiting >= self._hold_rows:
            self._settle()

    def flush(self) -> SinkPosition:
        """Write what was kept; return the number of the last batch."""
        self._settle()
        return self._last

    def close(self) -> None:
        """Disconnect; what was not flushed is not written."""
        self._closing.set()
        self._drop_link()

    def doctor(self) -> list[Finding]:
        """Say what a commit means with the settings of the server."""
        self._closing.clear()

        def ask(link: psycopg.Connection) -> dict[str, str]:
            names = ["server_version", "fsync", "synchronous_commit", "full_page_writes"]
            rows = link.execute(
                "SELECT name, reset_val FROM pg_settings WHERE name = ANY(%s)", [names]
            )
            return {str(name): str(value) for name, value in rows}

        try:
            return check_settings(self._patiently(ask))
        finally:
            self.close()

    def _settle(self) -> None:
        """Write everything that waits in one transaction, as often as it takes."""
        if self._waiting:
            self._patiently(self._write_waiting)
        self._waiting.clear()
        self._n_waiting = 0

    def _write_waiting(self, link: psycopg.Connection) -> None:
        alike: dict[tuple[tuple[str, str], ...], list[Delivery]] = {}
        for delivery in self._waiting.values():
            alike.setdefault(types_of(delivery), []).append(delivery)
        with link.transaction():
            self._types = _columns(link, self._name.as_string(link))
            for number, (types, deliveries) in enumerate(alike.items()):
                self._fit_table(link, dict(types))
                stage = sql.Identifier(f"scstream_stage_{number}")
                _fill(link, stage, dict(types), deliveries)
                link.execute(self._upsert(stage, [name for name, _ in types]))
                link.execute(sql.SQL("DROP TABLE {}").format(stage))

    def _upsert(self, stage: sql.Identifier, names: list[str]) -> sql.Composed:
        """The statement that takes rows from a temporary table to where they belong."""
        columns = [sql.Identifier(name) for name in names]
        others = [sql.Identifier(name) for name in names if name not in _KEY]
        casts = [
            sql.SQL("{}::{}").format(column, sql.SQL(self._types[name]))
            for name, column in zip(names, columns, strict=True)
        ]
        act: sql.Composable = sql.SQL("NOTHING")
        if others:
            act = sql.SQL("UPDATE SET {} WHERE ({}) IS DISTINCT FROM ({})").format(
                _listed(sql.SQL("{0} = excluded.{0}").format(c) for c in others),
                _listed(sql.SQL("old.{}").format(c) for c in others),
                _listed(sql.SQL("excluded.{}").format(c) for c in others),
            )
        return sql.SQL(
            "INSERT INTO {} AS old ({}) SELECT {} FROM {} ON CONFLICT ({}) DO {}"
        ).format(
            self._name,
            _listed(columns),
            _listed(casts),
            stage,
            _listed(sql.Identifier(name) for name in _KEY),
            act,
        )

    def _look_at_table(self, link: psycopg.Connection) -> None:
        """Learn the types of the columns; make the table if it is not there."""
        with link.transaction():
            if self.create:
                link.execute("SELECT pg_advisory_xact_lock(hashtext('scstream'))")
                link.execute(_CREATE.format(self._name))
            self._types = _columns(link, self._name.as_string(link))
        lacking = [name for name in _KEY if name not in self._types]
        if lacking:
            raise SinkError(
                f"{self.address}: table {self.table} has no column {lacking[0]}; its primary key "
                f"must be ({', '.join(_KEY)}). Take another table, or set create."
            )

    def _fit_table(self, link: psycopg.Connection, types: Mapping[str, str]) -> None:
        """Add columns that are missing and widen those that are too narrow."""
        changes = []
        for name, kind in types.items():
            known = self._types.get(name)
            wanted = kind if known is None else wider(known, kind)
            if wanted == known:
                continue
            if not self.create:
                lack = "has no such column" if known is None else f"has it as {known}"
                raise SinkError(
                    f"{self.address}: rows come with a column {name!r} of {wanted}, and table "
                    f"{self.table} {lack}. Change the table, or set create."
                )
            how = "ADD COLUMN IF NOT EXISTS {} {}" if known is None else "ALTER {} TYPE {}"
            changes.append(sql.SQL(how).format(sql.Identifier(name), sql.SQL(wanted)))
        if changes:
            link.execute("SELECT pg_advisory_xact_lock(hashtext('scstream'))")
            link.execute(sql.SQL("ALTER TABLE {} {}").format(self._name, _listed(changes)))
            self._types = _columns(link, self._name.as_string(link))

    def _patiently(self, act: Callable[[psycopg.Connection], _T]) -> _T:
        """Do something on a connection, on a new one whenever the old one broke."""
        began, pause = time.monotonic(), 0.05
        while True:
            try:
                return act(self._connected())
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                self._drop_link()
                self._judge(error, time.monotonic() - began)
            except psycopg.Error as error:
                raise SinkError(f"{self.address}, table {self.table}: {_told(error)}") from None
            if self._closing.wait(pause):
                raise StreamError(f"{self!r} was closed while it waited for the server.")
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _judge(self, error: psycopg.Error, waited: float) -> None:
        """Raise if it makes no sense to wait for what went wrong to pass."""
        told = _told(error)
        if error.sqlstate is None and any(words in told for words in _HOPELESS):
            raise SinkError(
                f"{self.address}: {told} Check the address, the user and the password."
            ) from None
        if self._patience is not None and waited > self._patience:
            raise StreamError(
                f"{self.address} has been away for {waited:.0f} s ({told}); start it, or check "
                "the address."
            ) from None
        _log.warning("%s is waited for: %s", self.address, told)

    def _connected(self) -> psycopg.Connection:
        if self._link is None or self._link.closed:
            self._link = psycopg.connect(self._url, autocommit=True, **_LINK)  # type: ignore[arg-type]
            self._link.execute(
                "SELECT set_config(name, 'on', false) FROM pg_settings "
                "WHERE name = 'synchronous_commit' AND setting = 'off'"
            )
        return self._link

    def _drop_link(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()


def check_settings(settings: Mapping[str, str]) -> list[Finding]:
    """Return what settings of a server mean for what it has confirmed.

    Examples
    --------
    >>> from scstream.stream.connectors.postgres.sink import check_settings
    >>> settings = {"server_version": "15.1", "fsync": "off", "synchronous_commit": "on"}
    >>> [finding.level for finding in check_settings({**settings, "full_page_writes": "on"})]
    ['ok', 'warn', 'ok', 'ok']
    """
    found = [Finding("ok", "version", f"PostgreSQL {settings['server_version']}.")]
    for name, means in _MEANS.items():
        value = settings[name]
        if value != "off":
            found.append(Finding("ok", name, f"{value}."))
        else:
            level, detail = means
            found.append(Finding("note" if level == "note" else "warn", name, f"off: {detail}"))
    return found


_MEANS = {
    "fsync": (
        "warn",
        "a power failure may lose or damage what was confirmed, the whole database even. Set it "
        "to on.",
    ),
    "synchronous_commit": (
        "note",
        "commits are confirmed before they are on the disk; this sink asks for on, for its own.",
    ),
    "full_page_writes": (
        "warn",
        "a power failure may damage pages unless the file system writes them whole. Set it to on.",
    ),
}
_CREATE = sql.SQL(
    "CREATE TABLE IF NOT EXISTS {} (job text, batch bigint, index bigint, "
    "PRIMARY KEY (job, batch, index))"
)


def _fill(
    link: psycopg.Connection,
    stage: sql.Identifier,
    types: Mapping[str, str],
    deliveries: Sequence[Delivery],
) -> None:
    """Copy deliveries whose columns are alike into a temporary table."""
    columns = [
        sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind)) for name, kind in types.items()
    ]
    link.execute(
        sql.SQL("CREATE TEMP TABLE {} ({}) ON COMMIT DROP").format(stage, _listed(columns))
    )
    statement = sql.SQL("COPY {} FROM STDIN (FORMAT BINARY)").format(stage)
    with link.cursor() as cursor, cursor.copy(statement) as copy:
        copy.set_types([BINARY[kind] for kind in types.values()])
        for delivery in deliveries:
            job = [clean(delivery.job)] * delivery.n_rows
            values = [
                job if name == "job" else values_of(delivery.columns[name], kind)
                for name, kind in types.items()
            ]
            for row in zip(*values, strict=True):
                copy.write_row(row)


def _columns(link: psycopg.Connection, table: str) -> dict[str, str]:
    """Columns of a table with their types."""
    rows = link.execute(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
        "WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped",
        [table],
    )
    return {str(name): str(kind) for name, kind in rows}


def _listed(parts: Iterable[sql.Composable]) -> sql.Composed:
    return sql.SQL(", ").join(parts)


def _told(error: psycopg.Error) -> str:
    """First line of what the server or the client says, which never holds the password."""
    return str(error).strip().split("\n", 1)[0].rstrip(".") + "."


def _shown(url: str) -> str:
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
