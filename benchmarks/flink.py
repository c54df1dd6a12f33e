"""The Flink recipe as it is on its page, with Flink's Kafka connector and brokers on loopback.

``python -m benchmarks.flink PYTHON JAR``: the Python of an environment with apache-flink, and the
jar flink-sql-connector-kafka. Flink is killed once and started again from its newest checkpoint;
the topic must then hold every window once, and the labels every row of the topic once.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.kafka_server import KafkaCluster
from tests.test_flink import file_of

SQL = Path(__file__).with_name("flink_sql.py")
START = 1_767_225_600  # 2026-01-01T00:00Z
N_SENSORS = 3
SERVERS = "broker-1:9092,broker-2:9092"
SECONDS = 600.0


def main(python: str, jar: str, n_windows: int = 900) -> None:
    with (
        tempfile.TemporaryDirectory() as place,
        KafkaCluster(Path(place) / "kafka") as cluster,
    ):
        folder = Path(place)
        for name in ("readings", "prepared", "labels"):
            cluster.topic(name)
        for name in ("prepare.sql", "flink.toml"):
            text = file_of(name).replace(SERVERS, cluster.servers)
            (folder / name).write_text(text, encoding="utf-8")
        half = n_windows // 2
        command = [python, str(SQL), "prepare.sql", str(Path(jar).resolve())]
        with flink(command, folder):
            send(cluster, range(half))
            wait(lambda: count(cluster) > 0, "rows of Flink")
            send(cluster, range(half, half + half // 2))
            wait(lambda: n_open(cluster) > 0, "open transaction")
        print(f"Flink was killed with {count(cluster)} committed and {n_open(cluster)} open rows")
        newest = max(folder.glob("flink/*/chk-*/_metadata"), key=os.path.getmtime).parent
        n_rows = N_SENSORS * n_windows
        with flink([*command, f"execution.state-recovery.path={newest.as_uri()}"], folder):
            send(cluster, range(half + half // 2, n_windows + 1))  # the last window stays open
            wait(lambda: count(cluster) >= n_rows, "all rows of Flink")
        check_rows(cluster, n_rows)
        run = [sys.executable, "-m", "scstream.cli", "run", "flink.toml", "--json"]
        print(" ".join(["scstream", *run[3:]]))
        with (folder / "run.log").open("w") as log:
            learned = subprocess.Popen(run, cwd=folder, stderr=log)
        wait(lambda: len(labels(cluster)) >= n_rows or learned.poll() is not None, "labels")
        learned.send_signal(signal.SIGTERM)
        if learned.wait(60):
            print((folder / "run.log").read_text()[-5000:])
        check_labels(cluster)


@contextlib.contextmanager
def flink(command: list[str], folder: Path) -> Iterator[None]:
    """Flink, killed at the end."""
    options = [
        f"execution.checkpointing.dir={(folder / 'flink').as_uri()}",
        "execution.checkpointing.externalized-checkpoint-retention=RETAIN_ON_CANCELLATION",
        "parallelism.default=1",
    ]
    with (folder / "flink.log").open("w") as log:
        process = subprocess.Popen(
            [*command, *options], cwd=folder, stdout=log, stderr=log, start_new_session=True
        )
        try:
            yield
        except BaseException:
            print((folder / "flink.log").read_text()[-5000:])
            raise
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def send(cluster: KafkaCluster, windows: range) -> None:
    """Two readings of every sensor in every window of ten seconds, one of them impossible."""
    producer = Producer({"bootstrap.servers": cluster.servers})
    rng = np.random.default_rng(windows.start)
    for window in windows:
        for sensor in range(N_SENSORS):
            for second, t in ((1, 20.0 * sensor + rng.normal()), (6, 999.0)):
                at = datetime.fromtimestamp(START + 10 * window + second, UTC)
                row = {"sensor": f"s{sensor}", "ts": at.isoformat().replace("+00:00", "Z")}
                producer.produce("readings", json.dumps(row | {"t": t, "v": 50 + rng.normal()}))
        producer.poll(0)
    producer.flush()


def count(cluster: KafkaCluster) -> int:
    """Number of committed rows."""
    return len(messages(cluster, "prepared"))


def labels(cluster: KafkaCluster) -> list[dict[str, object]]:
    return [json.loads(value) for value in messages(cluster, "labels")]


def n_open(cluster: KafkaCluster) -> int:
    """Number of rows in transactions that are open or aborted."""
    return len(messages(cluster, "prepared", isolation="read_uncommitted")) - count(cluster)


def messages(
    cluster: KafkaCluster, topic: str, *, isolation: str = "read_committed"
) -> list[bytes]:
    """Messages of a topic, by default those before the first open transaction."""
    options = {"bootstrap.servers": cluster.servers, "group.id": "r", "isolation.level": isolation}
    reader = Consumer(options | {"enable.partition.eof": True})
    reader.assign([TopicPartition(topic, 0, 0)])
    found = []
    while (message := reader.poll(30.0)) is not None and message.error() is None:
        found.append(message.value())
    reader.close()
    return found


def wait(done: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + SECONDS
    while not done():
        if time.monotonic() > end:
            raise TimeoutError(f"no {what} within {SECONDS:g} s")
        time.sleep(1.0)


def check_rows(cluster: KafkaCluster, n_rows: int) -> None:
    found = [json.loads(value) for value in messages(cluster, "prepared")]
    times = Counter((row["sensor"], row["ts"]) for row in found)
    print("a row:", found[0])
    print(f"{len(found)} rows, {len(times)} different windows of sensors, expected {n_rows}")
    assert len(found) == len(times) == n_rows


def check_labels(cluster: KafkaCluster) -> None:
    found = labels(cluster)
    print("a label:", found[0])
    once = {(row["batch"], row["index"]) for row in found}
    kinds = Counter((row["sensor"], row["cluster"]) for row in found)
    print(f"{len(found)} labels, {len(once)} keys; clusters of sensors: {dict(kinds)}")
    assert len(found) == len(once)


if __name__ == "__main__":
    main(*sys.argv[1:3])
