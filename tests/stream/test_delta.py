"""Delta tables in a folder and in an object store: every batch is in the table once."""

import numpy as np
import pytest
from deltalake import DeltaTable

from scstream.errors import InputError, SinkError
from scstream.stream.connectors.delta import DeltaSink
from scstream.testing import check_sink
from tests.stream.test_postgres import delivery
from tests.stream.test_store import SECRETS, S3Server


def rows(path, **options):
    if not DeltaTable.is_deltatable(path, **options):
        return []
    table = DeltaTable(path, **options).to_pyarrow_table()
    return table.sort_by([(name, "ascending") for name in ("job", "batch", "index")]).to_pylist()


def keys(path):
    return [(row["job"], row["batch"], row["index"]) for row in rows(path)]


def opened(path, **options):
    sink = DeltaSink(path, **options)
    sink.open(None)
    return sink


def wanted(*batches, job="demo", n_rows=10):
    return [(job, batch, index) for batch in batches for index in range(n_rows)]


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "labels")


def test_two_instances_write_every_batch_once(path):
    """The second has an old state of the table when it commits."""
    sinks = [opened(path) for _ in range(3)]
    for sink in sinks:
        sink.write(delivery(0))
        sink.flush()
    for sink in sinks:
        sink.write(delivery(1))
    sinks[2].write(delivery(2))
    for sink in sinks:
        sink.flush()
    assert keys(path) == wanted(0, 1, 2)


def test_jobs_share_a_table(path):
    sinks = [(opened(path), job) for job in ("a", "b")]
    for batch in range(3):
        for sink, job in sinks:
            sink.write(delivery(batch, job=job))
            sink.flush()
    assert keys(path) == [*wanted(0, 1, 2, job="a"), *wanted(0, 1, 2, job="b")]


def test_a_value_that_does_not_fit_is_never_rounded(path):
    sink = opened(path)
    sink.write(delivery(0, 2, id=[1, 2**60]))
    sink.flush()
    sink.write(delivery(1, 2, id=[1, 1.5]))
    with pytest.raises(SinkError, match="'id' as int64"):
        sink.flush()
    assert [row["id"] for row in rows(path)] == [1, 2**60]


@pytest.mark.parametrize(
    ("first", "later", "stored"),
    [
        ([1.5, None], [2, 3], [1.5, None, 2.0, 3.0]),
        (["a", None], [2, 3], ["a", None, "2", "3"]),
        ([None, None], [2, 3], [None, None, 2, 3]),
        ([2, 3], [None, None], [2, 3, None, None]),
        ([True, None], [None, False], [True, None, None, False]),
    ],
)
def test_values_that_fit_are_kept(path, first, later, stored):
    sink = opened(path)
    for batch, values in enumerate((first, later)):
        sink.write(delivery(batch, 2, v=values))
        sink.flush()
    assert [row["v"] for row in rows(path)] == stored


def test_rows_of_another_pipeline_are_not_taken_for_own_rows(path):
    sink = opened(path)
    sink.write(delivery(0, 3))
    sink.flush()
    other = opened(path)
    other.write(delivery(0, 4))
    with pytest.raises(SinkError, match="has other rows of batch 0 of job 'demo'"):
        other.flush()


def test_a_table_that_lost_rows_is_refused(path):
    sink = opened(path)
    for batch in range(2):
        sink.write(delivery(batch))
        position = sink.flush()
    DeltaTable(path).restore(0)
    DeltaSink(path).open({**position, "batch": 1})  # a restore keeps what was recorded
    with pytest.raises(SinkError, match="should have batch 2"):
        DeltaSink(path).open({**position, "batch": 2})
    with pytest.raises(SinkError, match="its last batch is None"):
        DeltaSink(f"{path}-gone").open(position)


def test_compaction_and_vacuum_between_batches_change_nothing(path):
    sink = opened(path, partition_by=["cluster"])
    for batch in range(4):
        sink.write(delivery(batch))
        sink.flush()
        table = DeltaTable(path)
        table.optimize.compact()
        table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert keys(path) == wanted(0, 1, 2, 3)
    assert DeltaTable(path).metadata().partition_columns == ["cluster"]


def test_settings_that_cannot_work_are_refused(path):
    with pytest.raises(InputError, match=r"write \['cluster'\]"):
        DeltaSink(path, partition_by="cluster")
    for options, text in (
        ({"create": False}, "does not exist"),
        ({"partition_by": ["day"]}, "cannot be partitioned by 'day'"),
    ):
        sink = opened(path, **options)
        sink.write(delivery(0))
        with pytest.raises(SinkError, match=text):
            sink.flush()
    for name in ("a b", "", "INDEX"):
        sink = opened(path)
        sink.write(delivery(0, 1, **{name: [1]}))
        with pytest.raises(SinkError, match="Rename"):
            sink.flush()
    opened(path).close()
    assert not rows(path)


def test_a_table_without_a_column_is_refused_unless_it_may_be_added(path):
    sink = opened(path)
    sink.write(delivery(0))
    position = sink.flush()
    strict = DeltaSink(path, create=False)
    strict.open(position)
    strict.write(delivery(1, 1, extra=[1]))
    with pytest.raises(SinkError, match="has no column 'extra'"):
        strict.flush()


def test_many_rows_are_written_before_the_flush(path):
    sink = opened(path, buffer_rows=25)
    for batch in range(3):
        sink.write(delivery(batch))
    assert len(keys(path)) == 30


def test_the_doctor_warns_of_a_folder(path):
    found = DeltaSink(path).doctor()
    assert [finding.level for finding in found] == ["ok", "warn"]


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield {
            "endpoint_url": f"http://127.0.0.1:{server.port}",
            "region": "us-east-1",
            "allow_http": "true",
            **SECRETS,
        }


def test_delta_in_an_object_store(s3, own_name):
    path = f"s3://checkpoints/{own_name}"
    check_sink(
        lambda: DeltaSink(path, options=s3),
        lambda: rows(path, storage_options=s3),
        existing="matched",
        laws=["replay", "existing_rows"],
    )
    sinks = [opened(path, options=s3) for _ in range(2)]
    for sink in sinks:
        sink.write(delivery(0, job="two"))
        sink.flush()
    stored = [row for row in rows(path, storage_options=s3) if row["job"] == "two"]
    assert [row["index"] for row in stored] == list(np.arange(10))


def test_a_bucket_that_does_not_exist_is_no_outage(s3):
    with pytest.raises(SinkError, match="the server answers 404 NoSuchBucket") as caught:
        opened("s3://nobody/labels", options=s3)
    assert "CANARY" not in str(caught.value)
