"""Apache Kafka for tests: brokers in KRaft mode on free ports of the loopback, one or three.

A folder is a cluster: who opens the same folder, in whatever process, has the same brokers. So the
processes of a test run share them, see `shared`.

``python -m tests.kafka_server`` copies the jars of Kafka and records the classes that a broker
loads, so that brokers start in half the time.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.java import BUILD, KAFKA, KAFKA_BEFORE, class_path, java
from tests.kafka_security import Security
from tests.servers import START_SECONDS, Server, ServerFailed, free_port

_JAVA_OPTIONS = [
    *("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
    *("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Djava.net.preferIPv4Stack=true"),
]
_CLUSTER_ID = "c2NzdHJlYW0tdGVzdHM0MQ"
_started: dict[int, subprocess.Popen[bytes]] = {}  # brokers of this process, by id


class KafkaServer(Server):
    """One broker of a cluster, which is a controller too."""

    name = "kafka"

    def __init__(self, cluster: KafkaCluster, node: int) -> None:
        super().__init__(cluster.folder / f"node-{node}", durable=cluster.durable)
        self.cluster, self.node = cluster, node
        self.ports: dict[str, int] = self._saved("ports") or {
            name: free_port() for name in ("PLAINTEXT", "CONTROLLER", "SSL", "SASL_SSL")
        }
        self.port = self.ports["PLAINTEXT"]
        if pid := self._saved("pid"):
            self._process = _started.get(pid) or _Foreign(pid)  # type: ignore[assignment]

    def start(self, *, wait: bool = True) -> None:
        """Start, and wait until the broker answers."""
        self._wait = wait
        super().start()

    def await_answer(self) -> None:
        """Wait until the broker answers."""
        super()._await_answer()

    def _await_answer(self) -> None:
        assert self._process is not None
        _started[self._process.pid] = self._process
        self._save(pid=self._process.pid, ports=self.ports)
        if self._wait:
            self.await_answer()

    def _saved(self, name: str) -> Any:
        with contextlib.suppress(FileNotFoundError):
            return json.loads((self.folder / "node.json").read_text()).get(name)

    def _save(self, **values: object) -> None:
        (self.folder / "node.json").write_text(json.dumps(values))

    def _prepare(self) -> None:
        super()._prepare()
        self._save(ports=self.ports)
        properties = self.folder / "server.properties"
        properties.write_text("".join(f"{k}={v}\n" for k, v in self._settings().items()))
        if (self.storage / "meta.properties").exists():
            return
        secrets = self.cluster.security.format_options() if self.cluster.security else []
        made = subprocess.run(
            [
                *(*self._java(), "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID),
                *("-c", str(properties), *secrets),
            ],
            capture_output=True,
            check=False,
            text=True,
        )
        if made.returncode:
            raise ServerFailed(f"Kafka could not make its storage:\n{made.stdout}{made.stderr}")

    def _java(self, *options: str) -> list[str]:
        options = options or (f"-XX:SharedArchiveFile={archive_of(self.cluster.version)}",)
        where = ["-cp", class_path("kafka", self.cluster.version)]
        return [java(), *_JAVA_OPTIONS, *options, *where]

    def _command(self) -> list[str]:
        options = [f"-XX:ArchiveClassesAtExit={self.cluster.record}"] if self.cluster.record else []
        return [*self._java(*options), "kafka.Kafka", str(self.folder / "server.properties")]

    def _settings(self) -> dict[str, object]:
        names = ["PLAINTEXT", *(["SSL", "SASL_SSL"] if self.cluster.security else [])]
        listeners = [f"{name}://127.0.0.1:{self.ports[name]}" for name in names]
        controller = f"CONTROLLER://127.0.0.1:{self.ports['CONTROLLER']}"
        nodes = self.cluster.nodes
        n_copies = len(nodes)
        voters = [f"{n.node}@127.0.0.1:{n.ports['CONTROLLER']}" for n in nodes]
        map_ = ["CONTROLLER:PLAINTEXT", *(f"{name}:{name}" for name in names)]
        return {
            "process.roles": "broker,controller",
            "node.id": self.node,
            "controller.quorum.voters": ",".join(voters),
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join([*listeners, controller]),
            "advertised.listeners": ",".join(listeners),
            "listener.security.protocol.map": ",".join(map_),
            "log.dirs": self.storage,
            "auto.create.topics.enable": "false",
            "default.replication.factor": n_copies,
            "min.insync.replicas": min(2, n_copies),
            "offsets.topic.num.partitions": 1,
            "offsets.topic.replication.factor": n_copies,
            "transaction.state.log.num.partitions": 1,
            "transaction.state.log.replication.factor": n_copies,
            "transaction.state.log.min.isr": min(2, n_copies),
            "group.initial.rebalance.delay.ms": 0,
            "log.flush.interval.messages": 1 if self.durable else 2**31,
            "log.cleaner.dedupe.buffer.size": 4 << 20,  # its default is half of the heap
            "num.network.threads": 1,
            "num.io.threads": 2,
            # A broker that was killed is replaced within seconds.
            "broker.heartbeat.interval.ms": 500,
            "broker.session.timeout.ms": 6000,
            "controller.quorum.election.timeout.ms": 1000,
            "controller.quorum.fetch.timeout.ms": 2000,
            **(self.cluster.security.settings() if self.cluster.security else {}),
            **self.cluster.settings,
        }

    def _answers(self) -> bool:
        """Whether the broker has joined: its port is open before."""
        asking = Producer({"bootstrap.servers": f"127.0.0.1:{self.port}", "log_level": 0})
        try:
            return self.node in asking.list_topics(timeout=2.0).brokers
        except KafkaException:
            return False


class _Foreign:
    """A broker that another process has started."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def poll(self) -> int | None:
        """Return None while it runs; it may be a zombie until the other process looks at it."""
        try:
            state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(") ")[2][:1]
        except (FileNotFoundError, ProcessLookupError):
            return 0
        return 0 if state in "ZX" else None

    def send_signal(self, which: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, which)

    def wait(self, timeout: float) -> None:
        end = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > end:
                raise ServerFailed(f"the broker {self.pid} does not end.")
            time.sleep(0.005)


class KafkaCluster:
    """Brokers of a folder; `with` starts them and ends them.

    Parameters
    ----------
    folder : path
        Where they keep everything.
    n_nodes : int
        Number of brokers; each topic has as many replicas.
    durable : bool
        Whether a message is on the disk before it is confirmed.
    version : str
        Version of Kafka.
    secure : bool
        Whether there are also listeners with TLS and passwords, see `Security`.
    settings : mapping, optional
        More settings of the brokers, such as {"log.segment.bytes": 2000}.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        n_nodes: int = 1,
        durable: bool = True,
        version: str = KAFKA,
        secure: bool = False,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self.folder = Path(folder).resolve()
        self.durable, self.version = durable, version
        self.settings = dict(settings or {})
        self.record: Path | None = None  # where a broker that is stopped lists its classes
        self.security = Security(self.folder / "certificates") if secure else None
        self.nodes: list[KafkaServer] = []
        for node in range(1, n_nodes + 1):
            self.nodes.append(KafkaServer(self, node))

    @property
    def servers(self) -> str:
        return self.servers_of("PLAINTEXT")

    def servers_of(self, listener: str) -> str:
        """Addresses of a listener: PLAINTEXT, SSL or SASL_SSL."""
        return ",".join(f"127.0.0.1:{node.ports[listener]}" for node in self.nodes)

    @property
    def storages(self) -> list[Path]:
        return [node.storage for node in self.nodes]

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start the brokers that do not run; a single one of three would have no majority."""
        idle = [node for node in self.nodes if not node.running]
        if self.security:
            self.security.make()
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(lambda node: node.start(wait=False), idle))
            list(pool.map(KafkaServer.await_answer, idle))

    def kill(self) -> None:
        """Kill all brokers."""
        for node in self.nodes:
            node.kill()

    def restart(self) -> None:
        """Kill all brokers and start them again."""
        self.kill()
        self.start()

    def wipe(self) -> None:
        """Lose everything that was stored."""
        for node in self.nodes:
            node.wipe()

    @property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def topic(self, name: str, *, partitions: int = 1, copies: int = -1, **settings: Any) -> str:
        """Make a topic, with settings such as retention_ms=1000, and wait for its leaders."""
        config = {key.replace("_", "."): str(value) for key, value in settings.items()}
        new = NewTopic(name, partitions, copies, config=config)
        admin = self.admin  # its requests end with it
        admin.create_topics([new], operation_timeout=30)[name].result()
        self.await_leaders(name, partitions=partitions)
        return name

    def add_partitions(self, name: str, *, partitions: int) -> None:
        """Let a topic have more partitions."""
        admin = self.admin
        admin.create_partitions([NewPartitions(name, partitions)])[name].result()
        self.await_leaders(name, partitions=partitions)

    def delete(self, name: str) -> None:
        """Delete a topic."""
        admin = self.admin
        admin.delete_topics([name], operation_timeout=30)[name].result()
        self._await(lambda admin: name not in admin.list_topics(timeout=5).topics)

    def leader(self, topic: str, partition: int = 0) -> KafkaServer:
        """The broker that leads a partition."""
        found = self.admin.list_topics(topic, timeout=10).topics[topic].partitions[partition]
        return next(node for node in self.nodes if node.node == found.leader)

    def await_leaders(self, topic: str, *, partitions: int = 1) -> None:
        """Wait until the partitions can be written to."""

        def ready(admin: AdminClient) -> bool:
            found = admin.list_topics(topic, timeout=5).topics[topic].partitions.values()
            return len(found) >= partitions and all(part.leader > 0 for part in found)

        self._await(ready)

    def await_replicas(self, topic: str) -> None:
        """Wait until all replicas of a topic are in sync."""

        def ready(admin: AdminClient) -> bool:
            found = admin.list_topics(topic, timeout=5).topics[topic].partitions.values()
            return all(len(part.isrs) == len(part.replicas) for part in found)

        self._await(ready)

    def content(
        self, topic: str, *, partition: int = 0, isolation: str = "read_committed"
    ) -> list[tuple[bytes, bytes]]:
        """Keys and values of a partition; no transaction may be open.

        A commit is confirmed before its mark is in the partition: wait for the mark.
        """
        options = {"bootstrap.servers": self.servers, "group.id": "reader", "log_level": 0}
        reader = Consumer({**options, "enable.partition.eof": True, "isolation.level": isolation})
        where = TopicPartition(topic, partition, 0)
        asking = Consumer({**options, "isolation.level": "read_uncommitted"})
        _, high = asking.get_watermark_offsets(where, timeout=30)
        asking.close()
        reader.assign([where])
        found: list[tuple[bytes, bytes]] = []
        end = time.monotonic() + START_SECONDS
        try:
            while time.monotonic() < end:
                message = reader.poll(1.0)
                if message is None:
                    continue
                if message.error() is None:
                    found.append((message.key(), message.value()))
                elif message.error().code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(message.error())
                elif message.offset() >= high:
                    return found
        finally:
            reader.close()
        raise ServerFailed(f"the end of {topic} could not be read.")

    def _await(self, ready: Any) -> None:
        admin, end = self.admin, time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            with contextlib.suppress(KafkaException):
                if ready(admin):
                    return
            time.sleep(0.05)
        raise ServerFailed("the brokers of Kafka do not come to agree.")


def archive_of(version: str) -> Path:
    """File of the classes that a broker loads; Java works without it."""
    return BUILD / f"kafka-{version}.jsa"


def record_classes(version: str) -> None:
    """Let a broker of a version record its classes."""
    if archive_of(version).exists():
        return
    with tempfile.TemporaryDirectory() as folder:
        cluster = KafkaCluster(folder, version=version)
        cluster.record = Path(folder) / "classes.jsa"
        with cluster:
            cluster.topic("any")
            cluster.nodes[0].stop()
        shutil.move(cluster.record, archive_of(version))


@contextmanager
def shared(folder: Path, **how: Any) -> Iterator[KafkaCluster]:
    """A cluster that the processes of a test run share: the first starts it, the last ends it."""
    folder.mkdir(parents=True, exist_ok=True)
    users = folder / "users"
    with _locked(folder):
        cluster = KafkaCluster(folder, **how)
        cluster.start()
        users.write_text(str(1 + int(users.read_text() if users.exists() else 0)))
    try:
        yield cluster
    finally:
        with _locked(folder):
            left = int(users.read_text()) - 1
            users.write_text(str(left))
            if left == 0:
                KafkaCluster(folder, **how).kill()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    for each in (KAFKA, KAFKA_BEFORE):
        record_classes(each)
