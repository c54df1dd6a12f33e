"""Iceberg tables of a catalog in SQLite: every batch is in the table once."""

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError

from scstream.errors import InputError, SinkError
from scstream.stream.connectors.iceberg import IcebergSink
from scstream.testing import check_sink
from tests.stream.test_delta import wanted
from tests.stream.test_postgres import delivery

TABLE = "shop.labels"


class Place:
    """A catalog and a warehouse in a folder."""

    def __init__(self, folder):
        self.catalog = {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{folder}/warehouse",
        }

    def make(self, **options):
        return IcebergSink(TABLE, catalog=self.catalog, **options)

    def opened(self, position=None, **options):
        sink = self.make(**options)
        sink.open(position)
        return sink

    def table(self):
        return load_catalog("default", **self.catalog).load_table(TABLE)

    def rows(self):
        try:
            found = self.table().scan().to_arrow()
        except NoSuchTableError:
            return []
        return found.sort_by(
            [(name, "ascending") for name in ("job", "batch", "index")]
        ).to_pylist()

    def keys(self):
        return [(row["job"], row["batch"], row["index"]) for row in self.rows()]


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


@pytest.mark.parametrize("partition_by", [(), ("cluster",)])
def test_iceberg_as_a_sink(place, partition_by):
    laws = ["replay", "existing_rows"] if partition_by else None
    check_sink(
        lambda: place.make(partition_by=partition_by), place.rows, existing="matched", laws=laws
    )
    assert len(place.table().spec().fields) == len(partition_by)


def test_two_instances_write_every_batch_once(place):
    """The second has an old state of the table when it commits."""
    sinks = [place.opened() for _ in range(3)]
    for sink in sinks:
        sink.write(delivery(0))
        sink.flush()
    for sink in sinks:
        sink.write(delivery(1))
    sinks[2].write(delivery(2))
    for sink in sinks:
        sink.flush()
    assert place.keys() == wanted(0, 1, 2)
    assert "commit.retry.num-retries" not in place.table().properties


def test_batches_are_known_after_their_snapshots_expired(place):
    sink = place.opened()
    sink.write(delivery(0))
    position = sink.flush()
    place.table().delete("batch = 0")  # somebody moves the rows elsewhere
    again = place.opened(position)
    for batch in range(2):
        again.write(delivery(batch))
    again.flush()
    assert place.keys() == wanted(1)


def test_a_value_that_does_not_fit_is_never_rounded(place):
    sink = place.opened()
    sink.write(delivery(0, 2, id=[1, 2**60]))
    sink.flush()
    sink.write(delivery(1, 2, id=[1, 1.5], more=["a", None]))
    with pytest.raises(SinkError, match="'id' as int64"):
        sink.flush()
    assert [row["id"] for row in place.rows()] == [1, 2**60]


def test_columns_are_added(place):
    sink = place.opened()
    sink.write(delivery(0, 1))
    sink.write(delivery(1, 1, more=["a"]))
    sink.flush()
    sink.write(delivery(2, 1, more=["b"], other=[1.5]))
    sink.flush()
    assert [row["more"] for row in place.rows()] == [None, "a", "b"]
    assert [row["other"] for row in place.rows()] == [None, None, 1.5]


def test_settings_that_cannot_work_are_refused(place):
    with pytest.raises(InputError, match=r"write \['cluster'\]"):
        place.make(partition_by="cluster")
    with pytest.raises(SinkError, match="should have batch 3"):
        place.opened({"job": "demo", "batch": 3})
    for options, text in (
        ({"create": False}, "does not exist"),
        ({"partition_by": ["day"]}, "cannot be partitioned by 'day'"),
    ):
        sink = place.opened(**options)
        sink.write(delivery(0))
        with pytest.raises(SinkError, match=text):
            sink.flush()
    assert [finding.level for finding in place.make().doctor()] == ["ok", "ok"]
