"""Kill, freeze or cut off an instance: ``python -m tests.faults.failover cut nats 10``.

Everything is imported once; every instance is a fork. For "cut", the first instance runs in a
network namespace of its own, whose link to the servers goes down. Times are those of one machine.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from scstream.cli.run import _abandon
from scstream.observe.events import RunEvent
from scstream.stream import connectors
from scstream.stream.config import build
from scstream.stream.connectors.nats.sink import _Publisher
from tests.faults.ends import Ends, FileEnds, NatsEnds, messages
from tests.faults.kill_loop import BATCH_ROWS, forked, settings_of
from tests.servers import NatsServer

N_ROWS = 800
N_BATCHES = N_ROWS // BATCH_ROWS
FAULTS = ("kill", "freeze", "cut")
STORES = ("folder", "s3", "nats")
_PATIENCE = 60.0  # seconds
_HOST, _GUEST = "10.213.77.1", "10.213.77.2"  # ends of the link of a network namespace
_NEW_NETWORK = 0x40000000  # CLONE_NEWNET


@dataclass
class Failovers:
    """What became of instances that failed, and how long the standby took."""

    fault: str
    store: str
    lease: float
    rounds: int = 0
    codes: dict[int, int] = field(default_factory=dict)  # of the first instance
    repeated: dict[int, int] = field(default_factory=dict)  # codes of standbys started again
    acquired: list[float] = field(default_factory=list)  # seconds from the fault to the lease
    working: list[float] = field(default_factory=list)  # seconds from the fault to the first label
    late: int = 0  # above twice the lease
    two_writers: int = 0
    other_labels: int = 0

    @property
    def is_correct(self) -> bool:
        """Whether nothing wrong was written; how fast it went depends on the machine too."""
        return not (self.two_writers or self.other_labels)

    def summary(self) -> dict[str, Any]:
        line = asdict(self)
        for name in ("acquired", "working"):
            times = sorted(line.pop(name))
            line[f"{name}, median"] = round(times[len(times) // 2], 2)
            line[f"{name}, max"] = round(times[-1], 2)
        return line


class Journal:
    """What instances did and when, one line each; writes to it are atomic."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        self.path = path

    def note(self, who: str, what: str) -> None:
        os.write(self._file, f"{time.monotonic()} {who} {what}\n".encode())

    def times(self, who: str, what: str) -> list[float]:
        lines = [line.split() for line in self.path.read_text().splitlines()]
        return [float(at) for at, by, did in lines if by == who and did == what]

    def stored(self, who: str) -> list[int]:
        """Sequence numbers of messages that a server stored for an instance."""
        lines = [line.split() for line in self.path.read_text().splitlines()]
        return [
            int(did.removeprefix("stored-"))
            for _, by, did in lines
            if by == who and did.startswith("stored-")
        ]


class Failover:
    """One stream, one fault."""

    def __init__(self, ends: Ends, name: str, folder: Path, where: dict[str, Any]) -> None:
        self.folder, self.name = folder, name
        self.settings = settings_of(ends, name, folder, None)
        self.settings["checkpoint"] |= where
        self.journal = Journal(folder / f"{name}-journal.txt")
        ends.fill(name, messages(N_ROWS))

    def start(self, who: str, *, before: Callable[[], None] = lambda: None) -> int:
        def emit(event: RunEvent) -> None:
            self.journal.note(who, event.event)

        def act() -> None:
            before()
            pipeline = build(self.settings, emit=emit)
            pipeline.abandon = _abandon
            learn, write = pipeline.processor.learn, pipeline.sink.write

            def slow(source_batch: Any) -> Any:
                time.sleep(0.04)
                return learn(source_batch)

            def noted(delivery: Any) -> None:
                self.journal.note(who, "writes")
                write(delivery)
                self.journal.note(who, "wrote")

            pipeline.processor.learn = slow  # type: ignore[method-assign]
            pipeline.sink.write = noted  # type: ignore[method-assign]
            self._note_stored(who)
            pipeline.run(until=N_BATCHES)

        return forked(act, self.folder / "errors.txt")

    def _note_stored(self, who: str) -> None:
        """Note which messages of a NATS sink the server stored for this instance."""
        confirm = _Publisher._confirm

        def noted(publisher: _Publisher, number: int, sequence: int) -> None:
            self.journal.note(who, f"stored-{sequence}")
            confirm(publisher, number, sequence)

        _Publisher._confirm = noted  # type: ignore[method-assign]

    @property
    def has_two_writers(self) -> bool:
        """Whether anything of the first instance was stored after something of the second.

        NATS says in which order. With files, it is the time when the call to write returned.
        """
        first, second = (self.journal.stored(who) for who in ("first", "second"))
        if first and second:
            return max(first) > min(second)
        began = self.journal.times("second", "writes")[0]
        return any(at > began for at in self.journal.times("first", "wrote"))

    def wait(self, who: str, what: str, *, n: int = 1) -> float:
        end = time.monotonic() + _PATIENCE
        while len(times := self.journal.times(who, what)) < n:
            assert time.monotonic() < end, f"{who} never {what}"
            time.sleep(0.005)
        return times[n - 1]


class Network:
    """A network namespace with one link to this one."""

    def __init__(self) -> None:
        self._name = f"scs{os.getpid()}"

    def __enter__(self) -> Network:
        name = self._name
        _ip("netns", "add", name)
        _ip("link", "add", f"{name}h", "type", "veth", "peer", "name", f"{name}g", "netns", name)
        _ip("addr", "add", f"{_HOST}/30", "dev", f"{name}h")
        _ip("link", "set", f"{name}h", "up")
        _ip("-n", name, "addr", "add", f"{_GUEST}/30", "dev", f"{name}g")
        _ip("-n", name, "link", "set", f"{name}g", "up")
        return self

    def __exit__(self, *_: object) -> None:
        _ip("netns", "delete", self._name)

    def enter(self) -> None:
        """Move this process, which has one thread, into the namespace."""
        with open(f"/run/netns/{self._name}") as file:
            if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), _NEW_NETWORK):
                raise OSError(ctypes.get_errno(), "setns")

    def set(self, state: str) -> None:
        _ip("link", "set", f"{self._name}h", state)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class OpenNatsServer(NatsServer):
    """NATS that listens on the link as well."""

    @property
    def url(self) -> str:
        return f"nats://{_HOST}:{self.port}"

    def _prepare(self) -> None:
        super()._prepare()
        path = self.folder / "nats.conf"
        path.write_text(path.read_text().replace(f"127.0.0.1:{self.port}", f"0.0.0.0:{self.port}"))


class OpenNatsEnds(NatsEnds):
    """Streams by the address of the link."""

    def settings(self, name: str, *, port: int | None = None) -> dict[str, Any]:
        text = json.dumps(super().settings(name, port=port))
        settings: dict[str, Any] = json.loads(text.replace("127.0.0.1", _HOST))
        return settings


def play(trial: Failover, found: Failovers, random: Random, network: Network | None) -> None:
    """Start both, let the first fail in the midst of its work, wait for the second."""
    first = trial.start("first", before=network.enter if network else lambda: None)
    trial.wait("first", "started")
    second = trial.start("second")
    trial.wait("second", "standby")
    trial.wait("first", "wrote", n=random.randint(1, N_BATCHES // 2))
    time.sleep(random.uniform(0.0, 0.1))
    fault = time.monotonic()
    if network is not None:
        network.set("down")
    else:
        os.kill(first, signal.SIGKILL if found.fault == "kill" else signal.SIGSTOP)
    try:
        acquired = trial.wait("second", "lease")
        working = trial.wait("second", "writes")
        if found.fault == "freeze":
            time.sleep(random.uniform(0.0, 0.2))
            os.kill(first, signal.SIGCONT)
    finally:
        if network is not None:
            network.set("up")
    code = _code(first)
    other = _code(second)
    while other in (16, 18):  # it saw the other one write, or the machine was too slow
        found.repeated[other] = found.repeated.get(other, 0) + 1
        other = _code(trial.start("third"))
    assert other == 0, f"who took over ended with {other}"
    found.codes[code] = found.codes.get(code, 0) + 1
    found.rounds += 1
    found.acquired.append(acquired - fault)
    found.working.append(working - fault)
    found.late += working - fault > 2 * found.lease
    found.two_writers += trial.has_two_writers


def _code(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@contextmanager
def world(
    fault: str, store: str, folder: Path, lease: float
) -> Iterator[tuple[Ends, Callable[[str], dict[str, Any]], Network | None]]:
    """Servers, the checkpoint settings of a stream by its name, and the network for "cut"."""
    with ExitStack() as stack:
        network = stack.enter_context(Network()) if fault == "cut" else None
        if store == "nats":
            kind, ends_kind = (OpenNatsServer, OpenNatsEnds) if network else (NatsServer, NatsEnds)
            server = stack.enter_context(kind(folder / "nats", durable=True))
            url, options = server.url, {"retry_timeout": 60.0}
            where = lambda name: {"folder": f"{url}/{name}", "options": options, "lease": lease}  # noqa: E731
            yield ends_kind(server), where, network
        elif store == "s3":
            from tests.stream.test_store import SECRETS, S3Server

            s3 = stack.enter_context(S3Server(folder / "s3"))
            endpoint = f"http://127.0.0.1:{s3.port}"
            known = {"endpoint": endpoint, "region": "us-east-1", "allow_http": True, **SECRETS}
            yield (
                FileEnds(folder),
                lambda name: {
                    "folder": f"s3://checkpoints/{name}",
                    "options": known,
                    "lease": lease,
                },
                network,
            )
        else:
            yield FileEnds(folder), lambda name: {"lease": lease}, network


def failovers(
    fault: str, store: str, rounds: int, *, lease: float = 1.0, seed: int = 0
) -> Failovers:
    """Play so many rounds of one fault."""
    assert fault != "cut" or store == "nats", "only servers can be cut off"
    connectors.has_option("source", "nats", "")  # imported here, forks need not do it
    with tempfile.TemporaryDirectory(prefix="scstream-failover-") as place, ExitStack() as stack:
        folder, random, found = Path(place), Random(seed), Failovers(fault, store, lease)
        whole = FileEnds(folder)
        whole.fill("whole", messages(N_ROWS))
        plain = settings_of(whole, "whole", folder, None)
        pid = forked(lambda: build(plain).run(until=N_BATCHES) and None, folder / "errors.txt")
        assert _code(pid) == 0
        labels = whole.labels("whole")
        ends, where, network = stack.enter_context(world(fault, store, folder, lease))
        for number in range(rounds):
            trial = Failover(ends, f"f{number}", folder, where(f"f{number}"))
            try:
                play(trial, found, random, network)
            except BaseException:
                with contextlib.suppress(OSError):
                    sys.stderr.write((folder / "errors.txt").read_text()[-2000:])
                raise
            found.other_labels += ends.labels(f"f{number}") != labels
        return found


if __name__ == "__main__":
    seconds = float(sys.argv[4]) if len(sys.argv) > 4 else 1.0
    result = failovers(sys.argv[1], sys.argv[2], int(sys.argv[3]), lease=seconds)
    print(json.dumps(result.summary()))
    sys.exit(0 if result.is_correct else 1)
