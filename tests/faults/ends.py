"""Both ends of a pipeline that is killed: where its rows are, and where its labels go."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tests.servers import NatsServer, RedisServer, Server

if TYPE_CHECKING:
    from tests.kafka_server import KafkaCluster

ROWS_PER_MESSAGE = 10


def messages(n_rows: int, *, seed: int = 0) -> list[bytes]:
    """Rows of three clusters that drift, some in a message, as lines of JSON."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 2)) + 9.0 * rng.integers(0, 3, n_rows)[:, None]
    X += np.linspace(0.0, 3.0, n_rows)[:, None]
    lines = [json.dumps({"x": x, "y": y, "id": i}) for i, (x, y) in enumerate(X.tolist())]
    starts = range(0, n_rows, ROWS_PER_MESSAGE)
    return ["\n".join(lines[a : a + ROWS_PER_MESSAGE]).encode() for a in starts]


class Restarted(Protocol):
    """A server that can be killed and started again."""

    port: int

    def restart(self) -> None: ...


class Ends(Protocol):
    """A source that was filled, and a sink that can be read."""

    server: Server | Restarted | None

    def fill(self, name: str, contents: Iterable[bytes]) -> None:
        """Send messages to the source of that name."""
        ...

    def settings(self, name: str, *, port: int | None = None) -> dict[str, Any]:
        """Sections `source` and `sink` of the settings, by way of another port if one is given."""
        ...

    def labels(self, name: str) -> list[dict[str, Any]]:
        """Everything that is in the sink, in its order."""
        ...


class FileEnds:
    """A file of JSON lines, and another one."""

    server = None

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self, name: str, contents: Iterable[bytes]) -> None:
        path = self.folder / f"{name}-rows.jsonl"
        path.write_bytes(b"".join(content + b"\n" for content in contents))

    def settings(self, name: str, *, port: int | None = None) -> dict[str, Any]:
        return {
            "source": {"kind": "file", "path": str(self.folder / f"{name}-rows.jsonl")},
            "sink": {"kind": "file", "path": str(self.folder / f"{name}-labels.jsonl")},
        }

    def labels(self, name: str) -> list[dict[str, Any]]:
        path = self.folder / f"{name}-labels.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]


class DeltaEnds(FileEnds):
    """A file of JSON lines, and a Delta table."""

    def settings(self, name: str, *, port: int | None = None) -> dict[str, Any]:
        sink = {"kind": "delta", "path": str(self.folder / f"{name}-labels")}
        return {**super().settings(name), "sink": sink}

    def labels(self, name: str) -> list[dict[str, Any]]:
        return _read_elsewhere(
            "from deltalake import DeltaTable; rows = DeltaTable(sys.argv[1]).to_pyarrow_table()",
            str(self.folder / f"{name}-labels"),
        )


class IcebergEnds(FileEnds):
    """A file of JSON lines, and a table of an Iceberg catalog in SQLite."""

    def settings(self, name: str, *, port: int | None = None) -> dict[str, Any]:
        sink = {"kind": "iceberg", "table": f"killed.{name}", "catalog": self._catalog()}
        return {**super().settings(name), "sink": sink}

    def labels(self, name: str) -> list[dict[str, Any]]:
        return _read_elsewhere(
            "from pyiceberg.catalog import load_catalog; "
            "catalog = load_catalog('default', **json.loads(sys.argv[1])); "
            "rows = catalog.load_table(sys.argv[2]).scan().to_arrow()",
            json.dumps(self._catalog()),
            f"killed.{name}",
        )

    def _catalog(self) -> dict[str, str]:
        uri = f"sqlite:///{self.folder}/catalog.db"
        return {"type": "sql", "uri": uri, "warehouse": f"file://{self.folder}/warehouse"}


def _read_elsewhere(code: str, *arguments: str) -> list[dict[str, Any]]:
    """Read a table in a process of its own: its library starts threads, and this one forks."""
    order = '[("batch", "ascending"), ("index", "ascending")]'
    code = f"import json, sys; {code}; rows = rows.drop(['job']).sort_by({order}).to_pylist()"
    run = subprocess.run(
        [sys.executable, "-c", f"{code}; print(json.dumps(rows))", *arguments],
        check=True,
        capture_output=True,
    )
    rows: list[dict[str, Any]] = json.loads(run.stdout)
    return rows


class QdrantEnds(FileEnds):
    """A file of JSON lines, and the points of a Qdrant client in local mode, in SQLite.

    No server can be installed here, so the storage is in the process that is killed; everything
    else is the sink as it is.
    """

    def __init__(self, folder: Path) -> None:
        from scstream.stream.connectors.qdrant import QdrantSink

        def connect(sink: Any) -> Any:
            if sink._client is None:
                sink._client = self._client(sink._url.removeprefix("http://"))
            return sink._client

        super().__init__(folder)
        QdrantSink._connect = connect  # type: ignore[method-assign]

    def fill(self, name: str, contents: Iterable[bytes]) -> None:
        """Also make a point for every row; to copy them is faster than to store them anew."""
        contents = list(contents)
        super().fill(name, contents)
        if not (self.folder / "points").exists():
            self._make_points(sum(content.count(b"\n") + 1 for content in contents))
        shutil.copytree(self.folder / "points", self.folder / f"{name}-points")

    def settings(self, name: str, *, port: int | None = None) -> dict[str, Any]:
        url = f"http://{name}-points"
        sink = {"kind": "qdrant", "url": url, "collection": "rows", "id": "id"}
        return {**super().settings(name), "sink": sink}

    def labels(self, name: str) -> list[dict[str, Any]]:
        """Labels of the points that have one; what else a point has must be as it was."""
        client = self._client(f"{name}-points")
        points, _ = client.scroll("rows", limit=10**9, with_vectors=True)
        client.close()
        assert all(p.payload.pop("title") == "a" and p.vector == [1.0, 0.0] for p in points)
        rows = [{"id": p.id, **p.payload["scstream"]} for p in points if p.payload]
        assert all(row.pop("job") == "killed" for row in rows)
        return sorted(rows, key=lambda row: (row["batch"], row["index"]))

    def _client(self, name: str) -> Any:
        from qdrant_client import QdrantClient

        return QdrantClient(path=str(self.folder / name))

    def _make_points(self, n_points: int) -> None:
        from qdrant_client import models

        client = self._client("points")
        size = models.VectorParams(size=2, distance=models.Distance.DOT)
        client.create_collection("rows", size)
        point = partial(models.PointStruct, vector=[1.0, 0.0], payload={"title": "a"})
        client.upsert("rows", [point(id=i) for i in range(n_points)])
        client.close()


class RedisEnds:
    """Two Redis streams of a server that syncs every command."""

    def __init__(self, server: RedisServer) -> None:
        self.server = server

    def fill(self, name: str, contents: Iterable[bytes]) -> None:
        with self._client() as client:
            for content in contents:
                client.xadd(f"{name}-rows", {"row": content})

    def settings(self, name: str, *, port: int | None = None) -> dict[str, Any]:
        url = f"redis://127.0.0.1:{port or self.server.port}/0"
        return {
            "source": {"kind": "redis", "url": url, "stream": f"{name}-rows"},
            "sink": {"kind": "redis", "url": url, "stream": f"{name}-labels", "format": "json"},
        }

    def labels(self, name: str) -> list[dict[str, Any]]:
        with self._client() as client:
            return [json.loads(entry[b"row"]) for _, entry in client.xrange(f"{name}-labels")]

    def _client(self) -> Any:
        import redis

        return redis.Redis.from_url(self.server.url)


class NatsEnds:
    """Two JetStream streams of a server that syncs every message."""

    def __init__(self, server: NatsServer) -> None:
        self.server = server

    def fill(self, name: str, contents: Iterable[bytes]) -> None:
        async def act(stream: Any) -> None:
            await stream.add_stream(name=f"{name}-rows", subjects=[f"{name}.rows"])
            for content in contents:
                await stream.publish(f"{name}.rows", content)

        self._do(act)

    def settings(self, name: str, *, port: int | None = None) -> dict[str, Any]:
        url = f"nats://127.0.0.1:{port or self.server.port}"
        sink = {"stream": f"{name}-labels", "subject": f"{name}.labels", "create": True}
        return {
            "source": {"kind": "nats", "url": url, "stream": f"{name}-rows"},
            "sink": {"kind": "nats", "url": url, "format": "columns", **sink},
        }

    def labels(self, name: str) -> list[dict[str, Any]]:
        async def act(stream: Any) -> list[bytes]:
            info = await stream.stream_info(f"{name}-labels")
            sequences = range(1, info.state.last_seq + 1)
            return [(await stream.get_msg(f"{name}-labels", n)).data for n in sequences]

        rows: list[dict[str, Any]] = []
        for content in self._do(act):
            columns = json.loads(content)
            values = zip(*columns.values(), strict=True)
            rows += [dict(zip(columns, row, strict=True)) for row in values]
        return rows

    def _do(self, act: Callable[[Any], Any]) -> Any:
        import nats

        async def run() -> Any:
            client = await nats.connect(self.server.url)
            try:
                return await act(client.jetstream())
            finally:
                await client.close()

        return asyncio.run(run())


class KafkaEnds:
    """Two topics of a cluster that syncs every message; labels are written in transactions.

    With `transactional` false the producer is only idempotent.
    """

    def __init__(self, cluster: KafkaCluster, *, transactional: bool = True) -> None:
        self.cluster, self.transactional = cluster, transactional
        self.server = AnyBroker(cluster)

    def fill(self, name: str, contents: Iterable[bytes]) -> None:
        from confluent_kafka import Producer

        for topic in (f"{name}-rows", f"{name}-labels"):
            self.cluster.topic(topic)
        options = {"bootstrap.servers": self.cluster.servers, "enable.idempotence": True}
        producer = Producer({**options, "log_level": 0})
        for content in contents:
            producer.produce(f"{name}-rows", content, partition=0)
        assert producer.flush(60) == 0

    def settings(self, name: str, *, port: int | None = None) -> dict[str, Any]:
        common = {"kind": "kafka", "servers": self.cluster.servers}
        return {
            "source": {**common, "topic": f"{name}-rows"},
            "sink": {**common, "topic": f"{name}-labels", "transactional": self.transactional},
        }

    def labels(self, name: str) -> list[dict[str, Any]]:
        """Labels of committed transactions; the topics are deleted."""
        rows = [json.loads(value) for _, value in self.cluster.content(f"{name}-labels")]
        for topic in (f"{name}-rows", f"{name}-labels"):
            self.cluster.delete(topic)
        return rows


class AnyBroker:
    """One broker of a cluster after another, in random order."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster, self._random = cluster, Random(5)
        self.port = cluster.nodes[0].port

    def restart(self) -> None:
        self._random.choice(self._cluster.nodes).restart()
