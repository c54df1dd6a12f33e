"""An outage is seen from outside: each source and sink says whether its server works."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from scstream.errors import StreamError
from scstream.observe.events import RunEvent, Started
from scstream.observe.prometheus import Metrics
from scstream.stream import connectors
from scstream.stream.config import build
from scstream.stream.runner import Pipeline
from tests.servers import NatsServer, RedisServer, free_port

PATIENCE = 120.0  # seconds, also on a busy machine
AWAY = {
    "kafka": {"servers": "127.0.0.1:{port}", "topic": "t"},
    "nats": {"url": "nats://127.0.0.1:{port}", "stream": "t"},
    "postgres": {"url": "postgresql://me@127.0.0.1:{port}/db", "table": "t"},
    "redis": {"url": "redis://127.0.0.1:{port}", "stream": "t"},
}


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("role", "kind"),
    [*(("source", k) for k in AWAY if k != "postgres"), *(("sink", k) for k in AWAY)],
)
def test_a_server_that_is_away_at_the_start_is_not_connected(role: str, kind: str) -> None:
    options = {name: value.format(port=free_port()) for name, value in AWAY[kind].items()}
    if (role, kind) == ("sink", "nats"):
        options["subject"] = "t"
    connector: Any = getattr(connectors, role)(kind, **options)
    assert connector.connected is None

    def opened() -> None:
        with pytest.raises(StreamError):
            connector.open(None)

    thread = threading.Thread(target=opened)
    thread.start()
    wait_until(lambda: connector.connected is False)
    connector.close()
    thread.join(PATIENCE)
    assert not thread.is_alive()


@contextmanager
def running(settings: dict[str, Any], folder: Path) -> Iterator[Pipeline]:
    """A pipeline that works in a thread, once it has begun to read."""
    began, stop = threading.Event(), threading.Event()

    def emit(event: RunEvent) -> None:
        if isinstance(event, Started):
            began.set()

    state = {"folder": str(folder / "state")}
    pipeline = build({**settings, "checkpoint": state}, emit=emit)
    thread = threading.Thread(target=pipeline.run, kwargs={"stop": stop})
    thread.start()
    assert began.wait(PATIENCE)
    yield pipeline
    stop.set()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def shown(pipeline: Pipeline) -> dict[str, float]:
    """The series of connections, by name."""
    metrics = Metrics()
    metrics.connections = lambda: pipeline.connections
    lines = metrics.exposition()[0].decode().splitlines()
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in lines)
        if name.startswith("scstream_") and "_connected" in name
    }


SOURCE, SINK = "scstream_source_connected", 'scstream_sink_connected{sink="labels"}'


@pytest.mark.parametrize("kind", ["nats", "redis"])
def test_an_outage_of_an_idle_pipeline_is_shown_and_ends(kind: str, tmp_path: Path) -> None:
    server = (NatsServer if kind == "nats" else RedisServer)(tmp_path / "server", durable=True)
    with server:
        own = {"subject": "labels", "create": True} if kind == "nats" else {}
        settings = {
            "source": {"kind": kind, "url": server.url, "stream": "rows"},
            "sink": {"kind": kind, "url": server.url, "stream": "labels", **own},
            "dead_letters": {"kind": "file", "path": str(tmp_path / "dead.csv")},
        }
        if kind == "nats":
            sink = connectors.sink(
                "nats", url=server.url, stream="rows", subject="rows", create=True
            )
            sink.open(None)
            sink.close()
        with running(settings, tmp_path) as pipeline:
            wait_until(lambda: shown(pipeline) == {SOURCE: 1, SINK: 1})
            server.kill()
            wait_until(lambda: shown(pipeline)[SOURCE] == 0)
            server.start()
            wait_until(lambda: shown(pipeline) == {SOURCE: 1, SINK: 1})
