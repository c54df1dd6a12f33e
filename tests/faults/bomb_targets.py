"""Where bombs are sent: files, and the servers that the sources of a pipeline read."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import httpx

from tests.servers import NatsServer, RedisServer, free_port

LARGEST = 40 << 20  # bytes of a message that the servers take
NATS_LARGEST = 14 << 20  # version 2.9 confirms messages of 32 MiB and does not keep them
Formats = Mapping[str, tuple[str, ...]]


class Target(Protocol):
    """A source to send messages to; `ends` if a pipeline ends after the last one."""

    ends: bool

    def formats(self, formats: Formats) -> Formats:
        """Return the formats of a pipeline, and of the bombs that each gets."""
        ...

    def prepare(self, form: str, folder: Path) -> dict[str, Any]:
        """Make a place for messages of a format; return the settings of the source."""
        ...

    def send(self, content: bytes, *, name: str) -> str:
        """Send a message; return the sentence of a refusal."""
        ...


class Files:
    """A folder of files; each bomb is a file."""

    ends = True

    def formats(self, formats: Formats) -> Formats:
        return {
            "arrow": ("arrow", "model", "floats"),
            "parquet": ("parquet", "model"),
            "jsonl": ("json", "columns", "gzip", "floats32"),
            "csv": ("csv", "gzip"),
        }

    def prepare(self, form: str, folder: Path) -> dict[str, Any]:
        self._folder, self._form = folder / "rows", form
        self._folder.mkdir()
        return {"kind": "file", "path": f"{self._folder}/*.{form}", "format": form}

    def send(self, content: bytes, *, name: str) -> str:
        (self._folder / f"{name}.{self._form}").write_bytes(content)
        return ""


class Http:
    """The server of the HTTP source, with its default limits."""

    ends = False

    def __init__(self) -> None:
        self._client = httpx.Client(timeout=60.0)

    def formats(self, formats: Formats) -> Formats:
        return formats

    def prepare(self, form: str, folder: Path) -> dict[str, Any]:
        self._port = free_port()
        journal = str(folder / "journal")
        return {"kind": "http", "port": self._port, "journal": journal, "format": form}

    def send(self, content: bytes, *, name: str) -> str:
        url = f"http://127.0.0.1:{self._port}/rows"
        for _ in range(600):
            try:
                answer = self._client.post(url, content=content)
            except httpx.TransportError:  # it starts
                time.sleep(0.1)
                continue
            if answer.status_code != 503:
                return "" if answer.status_code == 200 else str(answer.json()["detail"])
            time.sleep(0.1)
        raise SystemExit("the HTTP source does not answer")


class Redis:
    """A stream of a Redis server."""

    ends = False

    def __init__(self, server: RedisServer) -> None:
        import redis

        self._url, self._client = server.url, redis.Redis.from_url(server.url)

    def formats(self, formats: Formats) -> Formats:
        return formats

    def prepare(self, form: str, folder: Path) -> dict[str, Any]:
        self._stream = form
        self._client.xgroup_create(form, "unused", mkstream=True)  # a stream without messages
        return {"kind": "redis", "url": self._url, "stream": form, "format": form}

    def send(self, content: bytes, *, name: str) -> str:
        self._client.xadd(self._stream, {"row": content})
        return ""


class Nats:
    """A stream of a NATS server."""

    ends = False

    def __init__(self, server: NatsServer) -> None:
        import nats

        self._url = server.url
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._client = self._run(nats.connect(self._url))
        self._streams = self._client.jetstream(timeout=60)

    def close(self) -> None:
        self._run(self._client.close())

    def _run(self, task: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(task, self._loop).result(120)

    def formats(self, formats: Formats) -> Formats:
        return formats

    def prepare(self, form: str, folder: Path) -> dict[str, Any]:
        self._subject = form
        self._run(self._streams.add_stream(name=form, subjects=[form]))
        return {"kind": "nats", "url": self._url, "stream": form, "format": form}

    def send(self, content: bytes, *, name: str) -> str:
        # Only raw numbers are longer; 14 MiB of them are whole rows of 14 columns.
        self._run(self._streams.publish(self._subject, content[:NATS_LARGEST]))
        return ""


class Kafka:
    """A topic of one Kafka broker."""

    ends = False

    def __init__(self, cluster: Any) -> None:
        from confluent_kafka import Producer

        self._cluster = cluster
        self._producer = Producer(
            {"bootstrap.servers": cluster.servers, "message.max.bytes": LARGEST, "log_level": 0}
        )

    def formats(self, formats: Formats) -> Formats:
        return formats

    def prepare(self, form: str, folder: Path) -> dict[str, Any]:
        self._topic = self._cluster.topic(form)
        servers = self._cluster.servers
        return {"kind": "kafka", "servers": servers, "topic": form, "format": form}

    def send(self, content: bytes, *, name: str) -> str:
        self._producer.produce(self._topic, content, partition=0)
        assert self._producer.flush(120) == 0
        return ""


@contextmanager
def files(folder: Path) -> Iterator[Target]:
    yield Files()


@contextmanager
def http(folder: Path) -> Iterator[Target]:
    yield Http()


@contextmanager
def redis(folder: Path) -> Iterator[Target]:
    with RedisServer(folder / "redis") as server:
        yield Redis(server)


@contextmanager
def nats(folder: Path) -> Iterator[Target]:
    with NatsServer(folder / "nats", settings=f"max_payload: {NATS_LARGEST}") as server:
        target = Nats(server)
        yield target
        target.close()


@contextmanager
def kafka(folder: Path) -> Iterator[Target]:
    from tests.kafka_server import KafkaCluster

    sizes = {name: LARGEST for name in ("message.max.bytes", "replica.fetch.max.bytes")}
    with KafkaCluster(folder / "kafka", settings=sizes, durable=False) as cluster:
        yield Kafka(cluster)


TARGETS = {"file": files, "http": http, "redis": redis, "nats": nats, "kafka": kafka}
