"""Sources that lost or exchanged what was read: a named error, an exit code, and a way to go on.

One table over all sources: a pipeline reads half of its messages, something happens to the source,
the next run stops and says so, and `accept_gap` goes on with what is there.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from scstream.errors import SourceChanged, SourceGap, SourceRegressed
from scstream.observe.events import GapAccepted, RunEvent
from scstream.stream.config import build
from tests.faults.ends import FileEnds, NatsEnds, RedisEnds, messages
from tests.kafka_server import KafkaCluster
from tests.servers import NatsServer, RedisServer, free_port

HALF, WHOLE = 10, 20  # batches
LINEAGE = 1_000_000_000  # number of the first batch after a gap that was accepted
ROWS = messages(800)
LESS = messages(100, seed=9)


class Bench:
    """A source under test, and what can be done to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self, contents: list[bytes]) -> None:
        raise NotImplementedError

    def source(self) -> dict[str, Any]:
        raise NotImplementedError

    def run(self, until: int, **how: Any) -> list[str]:
        """Run the pipeline; return the sentences about gaps."""
        said: list[str] = []
        settings = {
            "source": self.source(),
            "schema": {"features": ["x", "y"], "keep": ["id"]},
            "model": {"random_state": 0, "n_jobs": 1},
            "batch": {"rows": 40, "seconds": 0.3},
            "sink": {"kind": "file", "path": str(self.folder / "labels.jsonl")},
            "checkpoint": {"folder": str(self.folder / "state"), "batches": 1},
        }

        def emit(event: RunEvent) -> None:
            if isinstance(event, GapAccepted):
                said.append(event.reason)

        build(settings, emit=emit).run(until=until, **how)
        return said

    def fill_up(self) -> None:
        """Send some more, so that there is something to go on with."""
        self.fill(LESS)

    def go_on(self) -> list[str]:
        """Accept the gap; messages come until the run ends, since it may begin behind the last."""
        ended = threading.Event()

        def send() -> None:
            self.fill_up()
            while not ended.wait(0.5):
                self.fill_up()

        sender = threading.Thread(target=send)
        sender.start()
        try:
            return self.run(LINEAGE + 1, accept_gap=True)
        finally:
            ended.set()
            sender.join()

    def n_labels(self) -> int:
        return len((self.folder / "labels.jsonl").read_text().splitlines())

    def close(self) -> None:
        pass


class FileBench(Bench):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.ends = FileEnds(folder)
        self.path = folder / "a-rows.jsonl"

    def fill(self, contents):
        self.ends.fill("a", contents)

    def source(self):
        return self.ends.settings("a")["source"]

    def go_on(self):
        with self.path.open("ab") as file:
            file.write(b"\n".join(LESS) + b"\n")
        return self.run(LINEAGE + 1, accept_gap=True)

    def truncate(self):
        self.path.write_bytes(self.path.read_bytes()[:5000])

    def cut_in_place(self):
        with self.path.open("rb+") as file:
            file.truncate(5000)

    def exchange(self):
        self.path.unlink()
        self.fill(LESS + ROWS)

    def rotate(self):
        self.path.rename(self.path.with_suffix(".1"))
        self.fill(LESS)


class RedisBench(Bench):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.server = RedisServer(folder / "server", durable=True).__enter__()
        self.ends = RedisEnds(self.server)

    def fill(self, contents):
        self.ends.fill("a", contents)

    def source(self):
        return self.ends.settings("a")["source"]

    def delete(self):
        with self.ends._client() as client:
            client.delete("a-rows")

    def make_anew(self):
        self.delete()
        self.fill(LESS)

    def flush_all(self):
        with self.ends._client() as client:
            client.flushall()

    def trim(self):
        with self.ends._client() as client:
            client.xtrim("a-rows", maxlen=5, approximate=False)

    def lose_power(self):
        self.server.kill()
        self.server.wipe()
        self.server.start()

    def close(self):
        self.server.__exit__()  # with all that it has started


class NatsBench(Bench):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.server = NatsServer(folder / "server", durable=True).__enter__()
        self.ends = NatsEnds(self.server)

    def fill(self, contents):
        self.ends.fill("a", contents)

    def source(self):
        return self.ends.settings("a")["source"]

    def fill_up(self):
        async def act(stream: Any) -> None:
            for content in LESS:
                await stream.publish("a.rows", content)

        self.ends._do(act)

    def _stream(self, act: Callable[[Any], Any]) -> None:
        self.ends._do(act)

    def make_anew(self):
        self._stream(lambda stream: stream.delete_stream("a-rows"))
        self.fill(LESS)

    def purge(self):
        self._stream(lambda stream: stream.purge_stream("a-rows"))

    def purge_some(self):
        self._stream(lambda stream: stream.purge_stream("a-rows", seq=60))

    def lose_power(self):
        self.server.kill()
        self.server.wipe()
        self.server.start()
        self.fill(LESS)

    def close(self):
        self.server.__exit__()  # with all that it has started


class KafkaBench(Bench):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.server = KafkaCluster(folder / "server").__enter__()
        self.server.topic("rows")

    def fill(self, contents):
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.server.servers, "log_level": 0})
        for content in contents:
            producer.produce("rows", content, partition=0)
        assert producer.flush(60) == 0

    def source(self):
        return {"kind": "kafka", "servers": self.server.servers, "topic": "rows"}

    def make_anew(self):
        self.server.delete("rows")
        self.server.topic("rows")
        self.fill(LESS)

    def close(self):
        self.server.kill()


class HttpBench(Bench):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.port = free_port()
        self.waiting: list[bytes] = []

    def fill(self, contents):
        self.waiting = list(contents)

    def source(self):
        journal = str(self.folder / "journal")
        return {"kind": "http", "port": self.port, "journal": journal, "segment_bytes": 2000}

    def run(self, until, **how):
        """Clients push while the pipeline runs: nobody listens before."""
        sender = threading.Thread(target=self._push)
        sender.start()
        try:
            return super().run(until, **how)
        finally:
            self.waiting = []
            sender.join()

    def _push(self):
        while self.waiting:
            request = Request(f"http://127.0.0.1:{self.port}/rows", data=self.waiting[0])
            try:
                with urlopen(request, timeout=5):
                    self.waiting = self.waiting[1:]
            except (TimeoutError, URLError, OSError):
                time.sleep(0.02)

    def go_on(self):
        self.fill(LESS)
        return self.run(LINEAGE + 1, accept_gap=True)

    def lose_journal(self):
        shutil.rmtree(self.folder / "journal")
        self.fill(LESS)

    def empty_journal(self):
        for path in (self.folder / "journal").glob("rows-*.log"):
            path.unlink()
        self.fill(LESS)

    def lose_its_beginning(self):
        """What was read is a gap only to a checkpoint that is older than the acknowledgement."""
        *earlier, _ = sorted((self.folder / "journal").glob("rows-*.log"))
        for file in earlier:
            file.unlink()
        self.fill(LESS)


@dataclass(frozen=True)
class Scenario:
    bench: type[Bench]
    act: str
    error: type[Exception] | tuple[type[Exception], ...]


TABLE = (
    Scenario(FileBench, "truncate", SourceRegressed),
    Scenario(FileBench, "cut_in_place", SourceRegressed),
    Scenario(FileBench, "exchange", SourceChanged),
    Scenario(FileBench, "rotate", SourceChanged),
    Scenario(RedisBench, "delete", SourceRegressed),
    Scenario(RedisBench, "make_anew", SourceChanged),
    Scenario(RedisBench, "flush_all", SourceRegressed),
    Scenario(RedisBench, "trim", SourceGap),
    Scenario(RedisBench, "lose_power", SourceRegressed),
    Scenario(NatsBench, "make_anew", SourceChanged),
    Scenario(NatsBench, "purge", SourceGap),
    Scenario(NatsBench, "purge_some", SourceGap),
    Scenario(NatsBench, "lose_power", SourceChanged),
    Scenario(KafkaBench, "make_anew", SourceChanged),
    Scenario(HttpBench, "lose_journal", SourceChanged),
    Scenario(HttpBench, "empty_journal", SourceRegressed),
    Scenario(HttpBench, "lose_its_beginning", SourceGap),
)
CODES = {SourceChanged: 10, SourceRegressed: 11, SourceGap: 12}


@pytest.mark.parametrize("scenario", TABLE, ids=lambda s: f"{s.bench.__name__[:-5]}-{s.act}")
def test_a_source_that_has_changed_is_detected(tmp_path, scenario):
    bench = scenario.bench(tmp_path)
    try:
        bench.fill(ROWS)
        bench.run(HALF)
        assert bench.n_labels() >= 200
        getattr(bench, scenario.act)()
        before = bench.n_labels()
        with pytest.raises(scenario.error) as caught:
            bench.run(WHOLE)
        assert caught.value.exit_code == CODES[scenario.error]
        assert "--accept-gap" in str(caught.value), caught.value
        assert bench.n_labels() == before  # nothing was written before it stopped
        (detail,) = bench.go_on()
        assert "--accept-gap" in detail
        assert bench.n_labels() > before
    finally:
        bench.close()
