"""Servers for the tests of streams, one of each kind per worker; tests use names of their own."""

import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import NatsServer, PostgresServer, RedisServer


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory) -> Iterator[NatsServer]:
    with NatsServer(tmp_path_factory.mktemp("nats"), durable=True) as server:
        yield server


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis"), durable=True) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with (
        tempfile.TemporaryDirectory(prefix="scstream-postgres-") as folder,
        PostgresServer(Path(folder)) as server,
    ):
        yield server


@pytest.fixture
def own_name() -> str:
    """A name for a stream, key or table that no other test uses."""
    return f"t{secrets.token_hex(6)}"
