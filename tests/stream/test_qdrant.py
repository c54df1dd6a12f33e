"""Payloads of Qdrant's points, in the local mode of its client: no server can be installed here."""

import logging
from dataclasses import replace
from uuid import NAMESPACE_URL, uuid5

import numpy as np
import pytest
from qdrant_client import QdrantClient, models

from scstream.errors import InputError, SinkError, StreamError
from scstream.stream.connectors.qdrant import QdrantSink
from scstream.testing import check_sink
from tests.servers import free_port
from tests.stream.test_postgres import delivery

URL = "http://vectors.example:6333"


class LocalSink(QdrantSink):
    """A sink whose server is the local mode of the client, which other sinks share."""

    def __init__(self, client, **options):
        super().__init__(URL, "articles", "id", **options)
        self.local = client

    def _connect(self):
        return self.local


class WithIds(LocalSink):
    """Adds ids to rows that have none."""

    def write(self, delivery):
        ids = delivery.columns["index"] + 100 * delivery.batch
        super().write(replace(delivery, columns={**delivery.columns, "id": ids}))


@pytest.fixture
def client():
    client = QdrantClient(":memory:")
    client.create_collection(
        "articles", models.VectorParams(size=2, distance=models.Distance.COSINE)
    )
    points = [
        models.PointStruct(id=100 * batch + index, vector=[1.0, 2.0], payload={"title": "a"})
        for batch in range(20)
        for index in range(12)
    ]
    client.upsert("articles", points)
    return client


def opened(client, **options):
    sink = LocalSink(client, **options)
    sink.open(None)
    return sink


def payloads(client):
    records, _ = client.scroll("articles", limit=1000, with_vectors=True)
    assert all(record.payload["title"] == "a" and len(record.vector) == 2 for record in records)
    return {record.id: record.payload.get("scstream") for record in records}


def test_qdrant_as_a_sink(client):
    def read():
        found = [each for each in payloads(client).values() if each]
        return sorted(found, key=lambda row: (row["batch"], row["index"]))

    check_sink(lambda: WithIds(client), read, existing="matched")


def test_the_last_row_of_a_point_counts_also_after_a_replay(client):
    batches = [delivery(batch, 3, id=np.array([1, 2, 1])) for batch in range(3)]
    sink = opened(client)
    for each in batches:
        sink.write(each)
        position = sink.flush()
    final = payloads(client)
    assert position == 2 and (final[1]["batch"], final[1]["index"]) == (2, 2)
    again = opened(client)
    for each in batches[1:]:
        again.write(each)
    again.flush()
    assert payloads(client) == final


def test_rows_without_a_point_are_skipped_and_counted(client, caplog):
    missing = str(uuid5(NAMESPACE_URL, "nowhere"))
    ids = np.array([1, 99_999, -1, 1.5, "x", None, True, missing], object)
    sink = opened(client)
    sink.write(delivery(0, len(ids), id=ids))
    with caplog.at_level(logging.WARNING):
        assert sink.flush() == 0
    assert "no points for 7 rows" in caplog.text
    assert {point for point, payload in payloads(client).items() if payload} == {1}


def test_points_with_uuids(client):
    point = str(uuid5(NAMESPACE_URL, "a"))
    client.upsert("articles", [models.PointStruct(id=point, vector=[1, 2], payload={"title": "a"})])
    sink = opened(client)
    sink.write(delivery(0, 1, id=[point.replace("-", "").upper()], score=[np.nan]))
    sink.flush()
    assert payloads(client)[point]["score"] is None


def test_many_rows_are_written_before_the_flush(client):
    sink = opened(client, buffer_rows=5)
    sink.write(delivery(0, 10, id=np.arange(10)))
    assert sum(payload is not None for payload in payloads(client).values()) == 10


def test_what_cannot_work_is_refused(client):
    with pytest.raises(InputError, match="write http://"):
        QdrantSink("vectors:6333", "articles", "id")
    with pytest.raises(SinkError, match=r"add it to schema\.keep"):
        opened(client).write(delivery(0))
    client.delete_collection("articles")
    with pytest.raises(SinkError, match="Create it"):
        opened(client)


def test_a_server_that_is_not_there_is_waited_for():
    sink = QdrantSink(f"http://127.0.0.1:{free_port()}", "articles", "id", retry_timeout=0.2)
    with pytest.raises(StreamError, match="has been unavailable"):
        sink.open(None)


def test_the_doctor_counts_points(client):
    [finding] = LocalSink(client).doctor()
    assert finding.level == "ok" and "240 points" in str(finding)
