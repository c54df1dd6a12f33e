"""Servers for the tests of streams, one of each kind per worker; tests use names of their own."""

import fcntl
import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from scstream.stream.connectors.kafka import connection as kafka_connection
from tests.kafka_server import KafkaCluster, shared
from tests.servers import NatsServer, PostgresServer, RedisServer
from tests.stream.kafka_tools import Broker


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


def common_folder(tmp_path_factory, name: str) -> Path:
    """A folder that all processes of this test run have in common."""
    folder = tmp_path_factory.getbasetemp()
    return (folder.parent if os.environ.get("PYTEST_XDIST_WORKER") else folder) / name


@pytest.fixture(scope="session")
def kafka_server(tmp_path_factory) -> Iterator[KafkaCluster]:
    """One broker, which all processes share and nobody kills."""
    with shared(common_folder(tmp_path_factory, "kafka"), secure=True) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def three_brokers(tmp_path_factory) -> Iterator[tuple[Path, dict[str, int]]]:
    """Folder and size of a cluster that all processes share."""
    folder, how = common_folder(tmp_path_factory, "kafka-three"), {"n_nodes": 3}
    with shared(folder, **how):
        yield folder, how


@pytest.fixture
def kafka_cluster(three_brokers) -> Iterator[KafkaCluster]:
    """Three brokers that a test has for itself and may kill; all run when it gets them."""
    folder, how = three_brokers
    with (folder / "turn").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        cluster = KafkaCluster(folder, **how)
        cluster.start()
        yield cluster


@pytest.fixture(scope="session")
def broker(kafka_server) -> Broker:
    return Broker(kafka_server)


@pytest.fixture
def hasty(monkeypatch) -> None:
    """Brokers have run for a while: what they do not know now they will not know in a moment."""
    monkeypatch.setattr(kafka_connection, "_APPEAR_SECONDS", 0.3)
    monkeypatch.setattr(kafka_connection, "GONE_SECONDS", 0.3)
    monkeypatch.setattr(kafka_connection, "_SHRUNK_SECONDS", 0.3)


@pytest.fixture
def own_name() -> str:
    """A name for a stream, key or table that no other test uses."""
    return f"t{secrets.token_hex(6)}"
