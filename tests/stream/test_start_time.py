"""Sources that begin at a time: messages from then on, and after them the new ones."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from scstream.errors import InputError
from scstream.stream.connectors import source as build_source
from scstream.stream.connectors.nats import NatsSource
from scstream.stream.connectors.redis import RedisSource
from scstream.stream.source import Resume
from tests.stream.kafka_tools import gathered
from tests.stream.test_nats import make, publish
from tests.stream.test_redis import add

Build = Callable[..., Any]
Send = Callable[[range], None]


@pytest.fixture(params=["kafka", "nats", "redis"])
def stream(request, own_name) -> tuple[Build, Send]:
    """How to build a source of an empty stream, and how to send numbers to the stream."""
    if request.param == "kafka":
        broker = request.getfixturevalue("broker")
        broker.topic(own_name, partitions=1)
        return (
            lambda **options: broker.source(own_name, **options),
            lambda numbers: broker.send(own_name, [json.dumps(n).encode() for n in numbers]),
        )
    server = request.getfixturevalue(f"{request.param}_server")
    if request.param == "nats":
        make(server.url, own_name)
        return (
            lambda **options: NatsSource(server.url, own_name, **options),
            lambda numbers: publish(server.url, f"{own_name}.a", numbers),
        )
    return (
        lambda **options: RedisSource(server.url, own_name, **options),
        lambda numbers: add(server, own_name, numbers),
    )


def text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def values(source: Any, n: int) -> list[bytes]:
    return [record.value for record in gathered(source, n, seconds=60)]


def test_reading_begins_at_the_time_and_goes_on_with_new_messages(stream) -> None:
    build, send = stream
    everything = build()
    before = time.time() - 60
    send(range(3))
    time.sleep(0.05)
    between = time.time()
    time.sleep(0.05)
    send(range(3, 6))
    everything.open(None)
    all_values = values(everything, 6)
    everything.close()
    assert len(all_values) == 6
    for start, first in [(text(before), 0), (text(between), 3), (text(time.time() + 60), 6)]:
        source = build(start=start)
        source.open(None)
        assert values(source, 6 - first) == all_values[first:]
        source.close()
    source = build(start=datetime.fromtimestamp(between, UTC))
    source.open(None)
    identity = dict(source.identity())
    source.close()
    send(range(6, 7))
    again = build(start=datetime.fromtimestamp(between, UTC))
    again.open(Resume(identity, {}))  # a restart before anything was read
    found = values(again, 4)
    again.close()
    assert found[:3] == all_values[3:] and len(found) == 4


def test_a_kafka_job_restarted_before_it_read_begins_where_it_began(broker, own_name) -> None:
    broker.topic(own_name, partitions=1)
    broker.send(own_name, [b"old"])
    source = broker.source(own_name, start="last")
    source.open(None)
    identity = dict(source.identity())
    source.close()
    broker.send(own_name, [b"new"])
    source.open(Resume(identity, {}))
    assert values(source, 1) == [b"new"]
    source.close()


def test_ids_that_are_no_times_are_named(redis_server, own_name) -> None:
    add(redis_server, own_name, range(3), first_id=1)
    source = RedisSource(redis_server.url, own_name, start="2026-01-01T00:00Z")
    with pytest.raises(InputError, match="cannot be read from a time: its ids"):
        source.open(None)


@pytest.mark.parametrize("kind", ["file", "http", "stdin"])
def test_other_sources_say_that_they_cannot(kind) -> None:
    with pytest.raises(InputError, match=f"the {kind} source cannot begin at a time; .*kafka"):
        build_source(kind, start="2026-01-01T00:00Z")


@pytest.mark.parametrize("start", ["2026-01-01", "2026-01-01T00:00", "2026-13-01T00:00Z"])
@pytest.mark.parametrize("build", [RedisSource, NatsSource])
def test_a_time_without_a_zone_is_rejected(build, start) -> None:
    with pytest.raises(InputError, match="no time with a zone"):
        build("x://y", "rows", start=start)
