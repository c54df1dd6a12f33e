"""Rows of a PostgreSQL server that is killed and restarted: each is stored once and unchanged."""

import json
import math
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psycopg
import pytest

from scstream.errors import InputError, SinkError, StreamError
from scstream.stream.config import build
from scstream.stream.connectors.postgres import PostgresSink
from scstream.stream.connectors.postgres.sink import check_settings
from scstream.stream.sink import Delivery
from tests.servers import PostgresServer


def delivery(batch: int, n_rows: int = 10, *, job: str = "demo", **more) -> Delivery:
    columns = {
        "batch": np.full(n_rows, batch),
        "index": np.arange(n_rows),
        "cluster": np.arange(n_rows) % 3,
        **{name: np.array(values, dtype=object) for name, values in more.items()},
    }
    return Delivery(job, batch, columns)


class Table:
    """A table that a test looks into by a connection of its own."""

    def __init__(self, server: PostgresServer, name: str) -> None:
        self.server, self.name = server, name

    def sink(self, **options) -> PostgresSink:
        sink = PostgresSink(self.server.url, self.name, **options)
        sink.open(None)
        return sink

    def ask(self, question: str) -> list[tuple]:
        with psycopg.connect(self.server.url, autocommit=True) as link:
            return link.execute(question.replace("$", self.name)).fetchall()

    def do(self, statement: str) -> None:
        with psycopg.connect(self.server.url, autocommit=True) as link:
            link.execute(statement.replace("$", self.name))

    def types(self) -> dict[str, str]:
        return dict(
            self.ask(
                "SELECT column_name, data_type FROM information_schema.columns "
                "WHERE table_name = '$'"
            )
        )

    def keys(self) -> list[tuple]:
        if not self.types():  # the first rows create it
            return []
        return self.ask("SELECT job, batch, index FROM $ ORDER BY 1, 2, 3")


@pytest.fixture
def table(postgres_server, own_name) -> Iterator[Table]:
    if not postgres_server.running:
        postgres_server.start()
    return Table(postgres_server, own_name)


def keys(batches: range, n_rows: int = 10, *, job: str = "demo") -> list[tuple]:
    return [(job, batch, index) for batch in batches for index in range(n_rows)]


def test_a_replay_neither_duplicates_nor_rewrites_rows(table):
    sink = table.sink()
    assert sink.flush() is None
    for batch in range(3):
        sink.write(delivery(batch))
    assert table.keys() == []
    assert sink.flush() == 2
    before = table.ask("SELECT xmin, * FROM $ ORDER BY batch, index")
    sink.close()
    sink.open(None)  # the checkpoint after these three was never written
    for batch in range(5):
        sink.write(delivery(batch))
    assert sink.flush() == 4
    sink.close()
    assert table.keys() == keys(range(5))
    assert table.ask("SELECT xmin, * FROM $ WHERE batch < 3 ORDER BY batch, index") == before


def test_a_row_that_differs_is_replaced(table):
    sink = table.sink()
    sink.write(delivery(0, 2, name=["a", None]))
    sink.flush()
    sink.write(delivery(0, 2, name=["a", "b"]))
    sink.flush()
    sink.close()
    assert table.ask("SELECT name FROM $ ORDER BY index") == [("a",), ("b",)]


def test_the_same_batch_twice_before_a_flush(table):
    sink = table.sink()
    sink.write(delivery(0))
    sink.write(delivery(0))
    assert sink.flush() == 0
    sink.close()
    assert table.keys() == keys(range(1))


def test_jobs_share_a_table(table):
    sink = table.sink()
    sink.write(delivery(0, 2, job="a"))
    sink.write(delivery(0, 2, job="b"))
    sink.flush()
    sink.close()
    assert table.keys() == keys(range(1), 2, job="a") + keys(range(1), 2, job="b")


def test_batches_without_rows_count(table):
    sink = table.sink()
    sink.write(delivery(7, 0))
    assert sink.flush() == 7
    sink.close()
    assert table.keys() == []


def test_values_are_stored_unchanged(table):
    hostile = "'; DROP TABLE x; --\t\\N\n\"ä\U0001f600"
    sink = table.sink()
    rows = delivery(
        0,
        4,
        name=["a", None, hostile, ""],
        count=[1, -(2**63), 2**63 - 1, None],
        big=[2**63, 1, None, -1],
        ratio=[1, 2.5, None, math.inf],
        flag=[True, False, None, True],
        mixed=[1, "b", True, None],
        nothing=[None] * 4,
    )
    whole = {
        "wide": np.array([0, 2**64 - 1], dtype=np.uint64).repeat(2),
        "narrow": np.array([1, 2, 3, 4], dtype=np.uint8),
        "real": np.array([0.1, np.nan, -0.0, 1e300]),
        "fixed": np.array(["u", "ö", "", "x"]),
    }
    sink.write(Delivery("demo", 0, {**rows.columns, **whole}))
    sink.flush()
    sink.close()
    types = table.types()
    assert {name: types[name] for name in ("job", "batch", "index", "cluster", "name")} == {
        "job": "text",
        "batch": "bigint",
        "index": "bigint",
        "cluster": "bigint",
        "name": "text",
    }
    assert types["flag"] == "boolean"
    assert types["nothing"] == "text"
    [*found] = table.ask(
        "SELECT name, count, big, ratio, flag, mixed, wide, narrow, fixed FROM $ ORDER BY index"
    )
    assert found == [
        ("a", 1, "9223372036854775808", 1.0, True, "1", "0", 1, "u"),
        (None, -(2**63), "1", 2.5, False, "b", "0", 2, "ö"),
        (hostile, 2**63 - 1, None, None, None, "true", "18446744073709551615", 3, ""),
        ("", None, "-1", math.inf, True, None, "18446744073709551615", 4, "x"),
    ]
    real = [value for (value,) in table.ask("SELECT real FROM $ ORDER BY index")]
    assert np.array(real).tobytes() == whole["real"].tobytes()


def test_characters_that_the_server_cannot_store_are_replaced(table):
    sink = table.sink()
    sink.write(delivery(0, 3, content=["a\0b", "half \ud800", "ok"]))
    sink.flush()
    sink.close()
    found = [text for (text,) in table.ask("SELECT content FROM $ ORDER BY index")]
    assert found == ["a\ufffdb", "half ?", "ok"]


@pytest.mark.parametrize("alter", [False, True])
def test_the_type_of_a_column_never_changes(table, alter):
    sink = table.sink(alter=alter)
    sink.write(delivery(0, 1, value=[5]))
    sink.flush()
    for value in (2.5, "text", True):
        sink.write(delivery(1, 1, value=[value]))
        with pytest.raises(SinkError, match=r"'value'.*has it as bigint.*schema.keep"):
            sink.flush()
        sink.open(0)
    sink.close()
    assert table.types()["value"] == "bigint"
    assert table.ask("SELECT value FROM $") == [(5,)]


def test_a_column_is_added_only_on_request(table):
    sink = table.sink()
    sink.write(delivery(0, 1))
    sink.flush()
    sink.write(delivery(1, 1, value=[5]))
    with pytest.raises(SinkError, match=r"no such column.*alter = true"):
        sink.flush()
    sink.close()
    sink = table.sink(alter=True)
    sink.write(delivery(1, 1, value=[5]))
    sink.flush()
    sink.close()
    assert table.ask("SELECT value FROM $ ORDER BY batch") == [(None,), (5,)]


def test_one_flush_writes_deliveries_with_different_columns(table):
    sink = table.sink()
    for batch, value in enumerate([None, 1.5, 5, None]):
        sink.write(delivery(batch, 1, value=[value]))
    sink.flush()
    sink.close()
    found = [value for (value,) in table.ask("SELECT value FROM $ ORDER BY batch")]
    assert found == [None, 1.5, 5.0, None]


def run_with_table(folder, table, rows, *, keep, **options) -> list[dict]:
    """Run a pipeline over rows into the table; return its dead letters."""
    lines = [json.dumps({"x": i % 7, **row}) for i, row in enumerate(rows)]
    (folder / "rows.jsonl").write_text("\n".join(lines) + "\n")
    pipeline = build(
        {
            "source": {"kind": "file", "path": str(folder / "rows.jsonl")},
            "schema": {"features": ["x"], "keep": keep},
            "batch": {"rows": 50},
            "sink": {"kind": "postgres", "url": table.server.url, "table": table.name, **options},
            "dead_letters": {"kind": "file", "path": str(folder / "dead.jsonl")},
            "checkpoint": {"folder": str(folder / "state"), "batches": 1},
        }
    )
    pipeline.run()
    return [json.loads(line) for line in (folder / "dead.jsonl").read_text().splitlines()]


BIG = 2**53  # neighbours of larger numbers are the same float


@pytest.mark.parametrize("keep", [["id"], ["id:int"], {"id": "int"}])
def test_one_row_of_another_type_does_not_change_the_column(table, tmp_path, keep):
    rows = [{"id": BIG + i} for i in range(400)]
    rows.insert(200, {"id": 1.5})
    letters = run_with_table(tmp_path, table, rows, keep=keep)
    assert table.types()["id"] == "bigint"
    assert table.ask("SELECT count(DISTINCT id), min(id) FROM $") == [(400, BIG)]
    assert [letter["reason"] for letter in letters] == [
        "column 'id' holds 1.5, which is not of type int."
    ]
    assert json.loads(letters[0]["content"]) == {"x": 200 % 7, "id": 1.5}


def test_rows_that_do_not_fit_an_existing_table_are_dead_letters(table, tmp_path):
    table.do(
        "CREATE TABLE $ (job text, batch bigint, index bigint, cluster int, id int NOT NULL, "
        "name varchar(3), at timestamptz, PRIMARY KEY (job, batch, index))"
    )
    good = {"id": 1, "name": "abc", "at": "2026-01-01T00:00:00Z"}
    bad = [{"id": 2**31}, {"id": None}, {"name": "abcd"}, {"at": "soon"}, {"id": 1.5}]
    rows = [good, *({**good, **change} for change in bad), good]
    letters = run_with_table(tmp_path, table, rows, keep=list(good), create=False)
    assert len(table.keys()) == 2
    assert [letter["index"] for letter in letters] == [1, 2, 3, 4, 5]
    assert "must not be null" in letters[1]["reason"]
    assert "text(3)" in letters[2]["reason"]


def test_a_table_that_cannot_hold_the_kept_columns_stops_before_the_first_row(table, tmp_path):
    table.do(
        "CREATE TABLE $ (job text, batch bigint, index bigint, cluster int, id int, box cidr, "
        "PRIMARY KEY (job, batch, index))"
    )
    with pytest.raises(SinkError, match=r"'id'.*has the type int, but .* as int32"):
        run_with_table(tmp_path, table, [{"id": 1}], keep=["id:int"])
    with pytest.raises(SinkError, match=r"'box'.*as cidr.*cannot be checked"):
        run_with_table(tmp_path, table, [{"box": "1"}], keep=["box"])


def test_an_existing_table_is_not_changed(table):
    table.do(
        "CREATE TABLE $ (job varchar(10), batch int, index int, cluster smallint, at timestamptz, "
        "own text DEFAULT 'mine', PRIMARY KEY (job, batch, index))"
    )
    sink = table.sink(create=False)
    sink.write(delivery(0, 2, at=["2026-01-01T00:00:00Z", None]))
    sink.flush()
    assert table.ask("SELECT cluster, extract(epoch from at)::int, own FROM $ ORDER BY index") == [
        (0, 1767225600, "mine"),
        (1, None, "mine"),
    ]
    sink.write(delivery(1, 2, extra=[1, 2]))
    with pytest.raises(SinkError, match=r"'extra' of type bigint.*has no such column"):
        sink.flush()
    sink.close()
    sink = table.sink(create=False)
    sink.write(delivery(1, 1, at=["no time"]))
    with pytest.raises(SinkError, match="invalid input syntax"):
        sink.flush()
    sink.close()
    assert len(table.keys()) == 2


def test_the_error_names_a_table_that_cannot_be_used(table):
    with pytest.raises(SinkError, match=f"{table.name}.*does not exist"):
        table.sink(create=False)
    table.do("CREATE TABLE $ (a int)")
    with pytest.raises(SinkError, match="has no column job"):
        table.sink()


def test_unusual_names_of_columns_are_quoted(table):
    odd = {"x; DROP TABLE y": [1], 'a"b': [2], "select": [3], "Ü %s {}": [4]}
    sink = PostgresSink(table.server.url, f'{table.name} "t"; --')
    sink.open(None)
    sink.write(delivery(0, 1, **odd))
    sink.flush()
    sink.close()
    with psycopg.connect(table.server.url) as link:
        found = link.execute(
            psycopg.sql.SQL("SELECT * FROM {}").format(
                psycopg.sql.Identifier(f'{table.name} "t"; --')
            )
        )
        names = [column.name for column in found.description]
        row = dict(zip(names, found.fetchone(), strict=True))
    assert {name: row[name] for name in odd} == {name: held[0] for name, held in odd.items()}


@pytest.mark.parametrize("name", ["job", "x" * 64, "a\0b"])
def test_invalid_names_of_columns_are_rejected(table, name):
    sink = table.sink()
    sink.write(Delivery("demo", 0, {**delivery(0, 1).columns, name: np.array([1])}))
    with pytest.raises(SinkError, match="cannot be called"):
        sink.flush()
    sink.close()


def test_the_buffer_is_bounded(table):
    sink = table.sink(buffer_rows=250)
    for batch in range(10):
        sink.write(delivery(batch, 100))
        assert sink._n_buffered < 250
    assert len(table.keys()) == 900
    sink.flush()
    sink.close()
    assert table.keys() == keys(range(10), 100)


def test_the_sink_waits_for_a_killed_server(table):
    """Before, during and between flushes; rows that were confirmed and those that were not."""
    sink = table.sink()
    with ThreadPoolExecutor(1) as pool:
        for batch in range(20):
            sink.write(delivery(batch, 200, name=[str(batch)] * 200))
            if batch % 10 == 4:
                table.server.kill()
                restart = pool.submit(table.server.start)
                sink.flush()
                restart.result()
            if batch % 10 == 9:
                killing = pool.submit(table.server.restart)
                while not killing.done():
                    sink.write(delivery(batch, 200, name=[str(batch)] * 200))
                    sink.flush()
                killing.result()
        assert sink.flush() == 19
    sink.close()
    assert table.keys() == keys(range(20), 200)


def test_an_unreachable_server_raises_after_the_retry_timeout():
    sink = PostgresSink("postgresql://me:CANARY@127.0.0.1:1/db", "t", retry_timeout=0.3)
    with pytest.raises(StreamError, match="has been unavailable for") as caught:
        sink.open(None)
    assert "CANARY" not in str(caught.value) + repr(sink)


def test_closing_ends_the_wait():
    sink = PostgresSink("postgresql://127.0.0.1:1/db", "t")
    with ThreadPoolExecutor(1) as pool:
        opening = pool.submit(sink.open, None)
        time.sleep(0.3)
        assert not opening.done()
        sink.close()
        with pytest.raises(StreamError, match="was closed"):
            opening.result(timeout=20)


def test_a_rejected_user_raises_at_once(table):
    url = table.server.url.replace("postgres@", "nobody:CANARY@")
    with pytest.raises(SinkError, match="does not exist") as caught:
        PostgresSink(url, "t").open(None)
    assert "CANARY" not in str(caught.value)


def test_commits_are_synchronous_whatever_the_server_setting(table):
    table.do("ALTER DATABASE postgres SET synchronous_commit = off")
    try:
        sink = table.sink()
        assert sink._connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
        [_, _, commit, _] = sink.doctor()
        assert (commit.level, commit.about) == ("note", "synchronous_commit")
    finally:
        table.do("ALTER DATABASE postgres RESET synchronous_commit")
    assert [finding.level for finding in table.sink().doctor()] == ["ok"] * 4


def test_settings_that_risk_data_are_reported_as_warnings():
    settings = {"server_version": "15.1", "synchronous_commit": "on"}
    found = check_settings({**settings, "fsync": "off", "full_page_writes": "off"})
    assert [finding.about for finding in found if finding.level == "warn"] == [
        "fsync",
        "full_page_writes",
    ]


@pytest.mark.parametrize(
    ("url", "name", "detail"),
    [
        ("postgresql://h/db", "", "cannot be a table"),
        ("postgresql://h/db", "a.b.c", "cannot be a table"),
        ("postgresql://me:CANARY@h/db?colour=blue", "t", "cannot be read"),
        ("nonsense CANARY", "t", "cannot be read"),
    ],
)
def test_invalid_options_are_rejected(url, name, detail):
    with pytest.raises(InputError, match=detail) as caught:
        PostgresSink(url, name)
    assert "CANARY" not in str(caught.value)


def test_repr_shows_the_address_without_the_password():
    for url in ("postgresql://me:CANARY@h:5432/db", "host=h port=5432 dbname=db password=CANARY"):
        assert repr(PostgresSink(url, "t")) == "PostgresSink('postgresql://h:5432/db', 't')"
