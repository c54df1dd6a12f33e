"""Every connector obeys the laws of streams; `test_stream_laws.py` shows what breaks them."""

import csv
import io
import itertools
import json
import time

import psycopg
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from psycopg.rows import dict_row
from pyarrow import ipc, parquet

from scstream.stream import arrow_files
from scstream.stream.connectors.delta import DeltaSink
from scstream.stream.connectors.files import FileSink, FileSource, text_file
from scstream.stream.connectors.http import HttpSource
from scstream.stream.connectors.nats import NatsSink, NatsSource
from scstream.stream.connectors.postgres import PostgresSink
from scstream.stream.connectors.redis import RedisSink, RedisSource
from scstream.stream.schema import Schema
from scstream.testing import check_sink, check_source
from tests.stream import test_nats as nats_tests
from tests.stream import test_redis as redis_tests
from tests.stream.memory import MemorySink, MemorySource
from tests.stream.test_http import post


def rows_of(content, format):
    """Rows of a message of a sink."""
    if format == "arrow":
        return ipc.open_stream(content).read_all().to_pylist()
    if format == "json":
        return [json.loads(content)]
    columns = json.loads(content)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def test_a_source_in_memory():
    partitions = {"a": [], "b": []}

    def fill(numbers):
        for number in numbers:
            partitions["ab"[number % 3 == 0]].append(b"%d" % number)

    check_source(
        lambda: MemorySource(partitions),
        fill,
        is_finite=True,
        past_end=lambda position: position + 1,
        other=lambda: MemorySource(partitions, identity="two"),
    )


def test_a_sink_in_memory():
    sink = MemorySink()
    check_sink(lambda: sink, lambda: sink.rows)


def write_table(path, numbers):
    table = pa.table({"x": [float(number) for number in numbers]})
    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=5)
        return
    with ipc.new_file(str(path), table.schema) as file:
        file.write_table(table, max_chunksize=5)


def write_lines(path, numbers):
    line = "{}\n" if path.suffix == ".csv" else "[{}]\n"
    head = "x\n" if path.suffix == ".csv" and not path.exists() else ""
    with path.open("a") as file:
        file.write(head + "".join(map(line.format, numbers)))


class Files:
    """A folder of files; every source that is made cuts them into records in another way."""

    def __init__(self, folder, ending, *, follow):
        folder.mkdir()
        self.folder, self.ending, self.follow = folder, ending, follow
        self.lengths = itertools.cycle([3, 1, 20, 65_536])
        self.n_files = 0

    def make(self):
        text_file.RECORD_BYTES = arrow_files.RECORD_ROWS = next(self.lengths)
        return FileSource(path=self.folder / f"*.{self.ending}", follow=self.follow)

    def fill(self, numbers):
        """Append to text files and add files with later names; write other files at once."""
        if self.ending in ("csv", "jsonl"):
            write_lines(self.next_file(-1), numbers[:5])
            write_lines(self.next_file(), numbers[5:])
        else:
            write_table(self.next_file(), numbers)

    def next_file(self, step=0):
        number = max(self.n_files + step, 0)
        self.n_files = number + 1
        return self.folder / f"{number}.{self.ending}"

    def numbers(self, value):
        if isinstance(value, bytes):
            value = FileSource(path=self.folder).reader(Schema(("x",))).read(value)
        return [int(number) for number in value.X[:, 0]]


@pytest.mark.parametrize(
    ("ending", "follow"),
    [
        *((ending, False) for ending in ("csv", "jsonl", "parquet", "arrow")),
        *((ending, True) for ending in ("csv", "parquet")),
    ],
)
def test_files_as_a_source(tmp_path, monkeypatch, ending, follow):
    for module, name in ((text_file, "RECORD_BYTES"), (arrow_files, "RECORD_ROWS")):
        monkeypatch.setattr(module, name, getattr(module, name))  # to be set back after the test
    files, others = (Files(tmp_path / name, ending, follow=follow) for name in "ab")
    for _ in range(2):
        others.fill(range(100, 120))
    is_text = ending in ("csv", "jsonl")
    check_source(
        files.make,
        files.fill,
        numbers=files.numbers,
        is_finite=not follow,
        past_end=(lambda at: {**at, "offset": at["offset"] + 9}) if is_text else None,
        other=others.make,
    )


def rows_of_file(path):
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    if path.suffix == ".parquet":
        parts = sorted(path.glob("part-*"))
        return [row for part in parts for row in parquet.read_table(part).to_pylist()]
    kinds = {"batch": int, "index": int, "cluster": int, "weight": float}
    found = csv.DictReader(io.StringIO(path.read_bytes().decode() if path.exists() else ""))
    return [
        {name: kinds.get(name, str)(value) if value else None for name, value in row.items()}
        for row in found
    ]


@pytest.mark.parametrize("existing", ["rejected", "deleted"])
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_files_as_a_sink(tmp_path, ending, existing):
    path = tmp_path / f"labels.{ending}"
    check_sink(
        lambda: FileSink(path=path, overwrite=existing == "deleted"),
        lambda: rows_of_file(path),
        existing=existing,
    )


def test_http_as_a_source(tmp_path):
    made = []

    def make(folder="journal"):
        journal = tmp_path / folder
        made.append(HttpSource(port=0, journal=journal, segment_bytes=200, max_journal=10_000))
        return made[-1]

    def fill(numbers):
        if is_open := bool(made) and made[-1].lag() is not None:
            source = made[-1]
        else:
            source = HttpSource(port=0, journal=tmp_path / "journal")
            source.open(None)
        for number in numbers:
            assert post(source, b"%d" % number)[0] == 200
        if not is_open:
            source.close()

    check_source(make, fill, n_rows=4, past_end=lambda at: at + 1, other=lambda: make("another"))


def test_nats_as_a_source(nats_server, own_name):
    url = nats_server.url
    names = (own_name, f"{own_name}x")
    for name in names:
        nats_tests.make(url, name)
    nats_tests.publish(url, f"{names[1]}.a", range(30))
    check_source(
        lambda: NatsSource(url, own_name, prefetch=3),
        lambda numbers: nats_tests.publish(url, f"{own_name}.a", numbers),
        n_rows=6,
        past_end=lambda at: str(int(at.split("@")[0]) + 2),
        other=lambda: NatsSource(url, names[1]),
    )


def test_redis_as_a_source(redis_server, own_name):
    check_source(
        lambda: RedisSource(redis_server.url, own_name, trim=True),
        lambda numbers: redis_tests.add(redis_server, own_name, numbers),
        n_rows=6,
        past_end=lambda at: f"{int(at.split('-')[0]) + 1}-0",
        other=lambda: RedisSource(redis_server.url, f"{own_name}x"),
    )


def test_kafka_as_a_source(broker, own_name, hasty):
    names = [broker.topic(name) for name in (own_name, f"{own_name}x")]

    def fill(numbers):
        for partition, kept in ((0, (0,)), (2, (1, 2))):
            own = [b"%d" % number for number in numbers if number % 3 in kept]
            broker.send(names[0], own, partition=partition)

    check_source(
        lambda: broker.source(names[0], group=own_name),
        fill,
        n_rows=6,
        past_end=lambda at: at + 1,
        other=lambda: broker.source(names[1]),
    )


@pytest.mark.parametrize("format", ["columns", "json"])
def test_nats_as_a_sink(nats_server, own_name, format):
    nats_tests.make(nats_server.url, own_name, duplicate_window=0.1)

    def make():
        time.sleep(0.11)  # so that the ids of messages alone do not help
        return NatsSink(nats_server.url, own_name, f"{own_name}.out", format=format)

    def read():
        found = nats_tests.stored(nats_server.url, own_name)
        return [row for _, content in found for row in rows_of(content, format)]

    laws = None if format == "json" else ["replay", "existing_rows"]
    check_sink(make, read, existing="matched", laws=laws)


@pytest.mark.parametrize("format", ["arrow", "columns", "json"])
def test_redis_as_a_sink(redis_server, own_name, format):
    def read():
        found = redis_tests.stored(redis_server, own_name)
        return [row for _, fields in found for row in rows_of(fields[b"row"], format)]

    check_sink(
        lambda: RedisSink(redis_server.url, own_name, format=format), read, existing="matched"
    )


def check_kafka_sink(broker, name, laws=None, **options):
    broker.topic(name)
    broker.send(name, [b"of somebody else"], partition=3)

    def read():
        return [json.loads(content) for _, content in broker.content(name, partition=3)[1:]]

    check_sink(lambda: broker.sink(name, partition=3, **options), read, existing="kept", laws=laws)


def test_kafka_as_a_sink(broker, own_name):
    check_kafka_sink(broker, own_name)


def test_kafka_as_a_sink_with_transactions(broker, own_name):
    check_kafka_sink(broker, own_name, laws=["replay"], transactional=True)


def test_postgres_as_a_sink(postgres_server, own_name):
    def read():
        with psycopg.connect(postgres_server.url, row_factory=dict_row) as link:
            found = link.execute("SELECT to_regclass(%s) AS name", [own_name]).fetchone()
            if found["name"] is None:  # the first rows create the table
                return []
            return link.execute(f"SELECT * FROM {own_name} ORDER BY batch, index").fetchall()

    check_sink(lambda: PostgresSink(postgres_server.url, own_name), read, existing="matched")


@pytest.mark.parametrize("partition_by", [(), ("cluster",)])
def test_delta_as_a_sink(tmp_path, partition_by):
    path = str(tmp_path / "labels")

    def read():
        if not DeltaTable.is_deltatable(path):
            return []
        rows = DeltaTable(path).to_pyarrow_table()
        return rows.sort_by([("batch", "ascending"), ("index", "ascending")]).to_pylist()

    check_sink(lambda: DeltaSink(path, partition_by=partition_by), read, existing="matched")
