"""Kill a real pipeline over and over: ``python -m tests.faults.kill_loop file --kills 200``.

Everything is imported once; every run of the pipeline is a fork of this process, which is killed at
a random instant. A round ends when a run comes to the last batch; its labels and its model must be,
bit for bit, those of a run that nobody disturbed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

from scstream.io._packing import unseal
from scstream.observe.events import EditApplied, EditRefused, RunEvent
from scstream.stream import connectors
from scstream.stream.checkpoint_log import CheckpointLog
from scstream.stream.config import build
from scstream.stream.edit_queue import EditRequest, submit
from scstream.stream.store import FolderStore
from tests.faults.chaos import ChaosProxy
from tests.faults.ends import (
    DeltaEnds,
    Ends,
    FileEnds,
    IcebergEnds,
    KafkaEnds,
    NatsEnds,
    QdrantEnds,
    RedisEnds,
    messages,
)
from tests.faults.mutants import PLANTS
from tests.servers import NatsServer, RedisServer

BATCH_ROWS = 40
FAILED = 70  # exit code of a run that ended with an error
KAFKA = {  # brokers, and whether labels are written in transactions
    "kafka": (1, True),
    "kafka-idempotent": (1, False),
    "kafka-three": (3, True),
}
KINDS = ("file", "redis", "nats", "delta", "iceberg", "qdrant", *KAFKA)
_OWN = (
    "epoch",
    "time",
    "identity",
    "offsets",
    "sinks",
    "edits",
)  # what differs between runs and connectors
_PATIENCE = 120.0  # seconds for one run


@dataclass
class AssignmentStats:
    """What a loop has done."""

    kind: str
    kills: int = 0
    broker_kills: int = 0
    rounds: int = 0
    rows: int = 0
    lost: int = 0
    doubled: int = 0
    other_labels: int = 0
    other_models: int = 0
    live: int = 0  # edits that were sent while the pipeline was killed
    seconds: float = 0.0

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.doubled or self.other_labels or self.other_models)


@dataclass(frozen=True)
class AssignmentParams:
    """How a loop kills.

    Parameters
    ----------
    kills : int
        Of the pipeline.
    rows : int
        Of one round.
    broker_kills : int
        Of brokers, at least so many.
    rounds : int
        At least so many.
    life : float
        How long a run lives on average, as a multiple of what its start and three batches take.
    broker : float
        Share of the runs in which the broker is killed and restarted.
    chaos : bool
        Between pipeline and broker is a bad network.
    plant : str, optional
        Name of a defect in `mutants.PLANTS` that runs which are killed have; the loop ends when
        it is found.
    edits : bool
        People edit the clusters between some batches, and labels carry names and groups.
    live : bool
        They send the edits while the pipeline runs and is killed, without saying before which
        batch. The undisturbed run of a round applies them before the batches that it took.
    """

    kills: int = 100
    broker_kills: int = 0
    rows: int = 1200
    rounds: int = 1
    life: float = 0.8
    broker: float = 0.0
    chaos: bool = False
    seed: int = 0
    plant: str | None = None
    edits: bool = False
    live: bool = False

    @property
    def n_batches(self) -> int:
        return self.rows // BATCH_ROWS


# Edits before some batches; every kind of them, and one that is refused.
EDITS = (
    {"batch": 2, "action": "name", "id": 0, "name": "zero", "author": "ana"},
    {"batch": 4, "action": "merge", "id": 0, "other": 1},
    {"batch": 6, "action": "undo"},
    {"batch": 6, "action": "pin", "id": 1},
    {"batch": 9, "action": "split", "id": 0},
    {"batch": 11, "action": "move", "id": 1, "rows": [[0.5, 0.5], [1.0, 1.0]]},
    {"batch": 12, "action": "name", "id": 999, "name": "nobody"},
    {"batch": 13, "action": "seed", "rows": [[40.0, 40.0], [40.5, 40.5]], "name": "spare"},
    {"batch": 15, "action": "merge", "id": 0, "other": 1, "level": "group"},
    {"batch": 16, "action": "name", "id": 0, "name": "both", "level": "group"},
    {"batch": 19, "action": "remove", "id": 0},
    {"batch": 22, "action": "undo"},
    {"batch": 25, "action": "name", "id": 1, "name": "one"},
)


LIVE = tuple({key: value for key, value in edit.items() if key != "batch"} for edit in EDITS)


def send(folder: Path, name: str, edits: Iterable[Mapping[str, Any]]) -> None:
    """Send edits to a pipeline."""
    store = FolderStore(folder / f"{name}-state")
    for edit in edits:
        submit(store, EditRequest.of(dict(edit)))


def settings_of(
    ends: Ends, name: str, folder: Path, port: int | None, *, edits: bool = False
) -> dict[str, Any]:
    if edits:  # they wait in the store before the first run
        send(folder, name, EDITS)
    added = {"labels": {"add": ["cluster_name", "cluster_group", "group_name"]}} if edits else {}
    return {
        **added,
        "job": "killed",
        **ends.settings(name, port=port),
        "schema": {"features": ["x", "y"], "keep": ["id"]},
        "model": {"random_state": 7, "n_jobs": 1},
        "batch": {"rows": BATCH_ROWS},
        "checkpoint": {"folder": str(folder / f"{name}-state"), "batches": 2, "digests": 3},
    }


def forked(act: Callable[[], None], log: Path) -> int:
    """Run something in a process of its own; return its id."""
    pid = os.fork()
    if pid:
        return pid
    code = FAILED
    try:
        act()
        code = 0
    except BaseException as error:
        code = getattr(error, "exit_code", FAILED)
        with log.open("a") as file:
            file.write(f"{type(error).__name__}: {error}\n")
    finally:
        os._exit(code)


def ended(pid: int, *, within: float) -> bool:
    """Wait for a process for a while; tell whether it came to its end, and in order."""
    end = time.monotonic() + within
    while True:
        left = end - time.monotonic()
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            code = os.waitstatus_to_exitcode(status)
            assert code == 0, f"a run ended with the code {code}"
            return True
        if left <= 0:
            return False
        time.sleep(min(left, 0.002))


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def model_of(folder: Path, name: str) -> tuple[Any, dict[str, bytes]]:
    """Header and tensors of the newest checkpoint, without what may differ."""
    checkpoint_log = CheckpointLog(FolderStore(folder / f"{name}-state"))
    header, tensors = unseal(next(content for _, content in checkpoint_log.checkpoints()))
    for key in _OWN:
        del header["pipeline"]["progress"][key]
    return header, {key: values.tobytes() for key, values in tensors.items()}


class Loop:
    """Rounds of one stream, each of them killed many times."""

    def __init__(
        self,
        kind: str,
        ends: Ends,
        plan: AssignmentParams,
        folder: Path,
        *,
        port: int | None = None,
    ) -> None:
        self.ends = ends
        self.plan = plan
        self.folder = folder
        self.port = port
        self.random = Random(plan.seed)
        self.tally = AssignmentStats(kind)
        self.log = folder / "errors.txt"
        self._messages = messages(plan.rows)

    def run(self) -> AssignmentStats:
        start = time.monotonic()
        self._settle()
        while not self._is_done() and (self.plan.plant is None or self.tally.is_clean):
            self._round(f"r{self.tally.rounds}")
            print(json.dumps(asdict(self.tally)), file=sys.stderr, flush=True)
        self.tally.seconds = round(time.monotonic() - start, 1)
        return self.tally

    def _is_done(self) -> bool:
        pairs = ("kills", "broker_kills", "rounds")
        return all(getattr(self.tally, name) >= getattr(self.plan, name) for name in pairs)

    def _settle(self) -> None:
        """Labels and model of an undisturbed run, from a file, and how long one takes."""
        files = FileEnds(self.folder)
        files.fill("whole", self._messages)
        settings = settings_of(files, "whole", self.folder, None, edits=self.plan.edits)
        assert ended(forked(lambda: self._pipeline(settings), self.log), within=_PATIENCE)
        self._labels = files.labels("whole")
        self._model = model_of(self.folder, "whole")
        assert [row["id"] for row in self._labels] == list(range(self.plan.rows))
        self._span = self._time_of_a_run()

    def _time_of_a_run(self) -> float:
        """Seconds in which a run gets some batches on, from these ends."""
        self.ends.fill("timed", self._messages)
        settings = settings_of(self.ends, "timed", self.folder, self.port, edits=self.plan.edits)
        start = time.monotonic()
        assert ended(forked(lambda: self._pipeline(settings, 3), self.log), within=_PATIENCE)
        return time.monotonic() - start

    def _pipeline(self, settings: dict[str, Any], until: int | None = None) -> None:
        build(settings).run(until=until or self.plan.n_batches)

    def _emit(self, event: RunEvent) -> None:
        """Note before which batch an edit was applied."""
        if isinstance(event, EditApplied | EditRefused):
            with (self.folder / "applied.txt").open("a") as file:
                file.write(f"{event.number} {event.batch}\n")

    def _killed(self, settings: dict[str, Any]) -> None:
        pipeline = build(settings, emit=self._emit)
        if self.plan.plant is not None:
            PLANTS[self.plan.plant](pipeline)
        pipeline.run(until=self.plan.n_batches)

    def _round(self, name: str) -> None:
        self.ends.fill(name, self._messages)
        plan = self.plan
        settings = settings_of(self.ends, name, self.folder, self.port, edits=plan.edits)
        later = list(LIVE) if plan.live else []
        while True:
            if later and self.random.random() < 0.5:  # while nothing runs
                send(self.folder, name, [later.pop(0)])
            pid = forked(lambda: self._killed(settings), self.log)
            if later and self.random.random() < 0.7:
                time.sleep(self.random.uniform(0.0, 0.5 * self._span))
                send(self.folder, name, [later.pop(0)])
            if self.ends.server is not None and self.random.random() < self.plan.broker:
                time.sleep(self.random.uniform(0.0, self._span))
                self.ends.server.restart()
                self.tally.broker_kills += 1
            # Most runs die young, and none so surely that there would be no end.
            if ended(pid, within=self.random.expovariate(1.0 / (self.plan.life * self._span))):
                break
            kill(pid)
            self.tally.kills += 1
        if plan.live:
            self._repeat(name)
        self._compare(name)

    def _repeat(self, name: str) -> None:
        """Run undisturbed, with every edit before the batch that the killed runs took."""
        batches: dict[int, set[int]] = {}
        path = self.folder / "applied.txt"
        for line in path.read_text().splitlines() if path.exists() else ():
            number, batch = map(int, line.split())
            batches.setdefault(number, set()).add(batch)
        path.unlink(missing_ok=True)
        assert all(len(found) == 1 for found in batches.values()), batches
        files, whole = FileEnds(self.folder), f"{name}-whole"
        files.fill(whole, self._messages)
        edits = [dict(LIVE[n]) | {"batch": min(batches[n])} for n in sorted(batches)]
        self.tally.live += len(edits)
        send(self.folder, whole, edits)
        settings = settings_of(files, whole, self.folder, None)
        assert ended(forked(lambda: self._pipeline(settings), self.log), within=_PATIENCE)
        self._labels, self._model = files.labels(whole), model_of(self.folder, whole)

    def _compare(self, name: str) -> None:
        labels, tally = self.ends.labels(name), self.tally
        ids = [row["id"] for row in labels]
        tally.rounds += 1
        tally.rows += self.plan.rows
        tally.lost += self.plan.rows - len({*ids})
        tally.doubled += len(ids) - len({*ids})
        tally.other_labels += sum(a != b for a, b in zip(labels, self._labels, strict=False))
        tally.other_models += model_of(self.folder, name) != self._model


@contextmanager
def storm(port: int, seed: int) -> Iterator[int]:
    """A bad network to a port, in a process of its own: who forks must not have threads."""
    here, there = os.pipe()

    def act() -> None:
        with ChaosProxy(port, seed=seed) as proxy:
            proxy.storm()
            os.write(there, b"%d\n" % proxy.port)
            signal.pause()

    pid = forked(act, Path(os.devnull))
    os.close(there)
    try:
        with open(here) as pipe:
            yield int(pipe.readline())
    finally:
        kill(pid)


_FOLDER_ENDS: dict[str, Callable[[Path], Ends]] = {
    "file": FileEnds,
    "delta": DeltaEnds,
    "iceberg": IcebergEnds,
    "qdrant": QdrantEnds,
}


@contextmanager
def ends_of(kind: str, folder: Path) -> Iterator[Ends]:
    if kind in _FOLDER_ENDS:
        yield _FOLDER_ENDS[kind](folder)
    elif kind == "redis":
        with RedisServer(folder / "server", durable=True) as redis:
            yield RedisEnds(redis)
    elif kind in KAFKA:
        from tests.kafka_server import KafkaCluster

        n_nodes, transactional = KAFKA[kind]
        with KafkaCluster(folder / "server", n_nodes=n_nodes) as cluster:
            yield KafkaEnds(cluster, transactional=transactional)
    else:
        with NatsServer(folder / "server", durable=True) as nats:
            yield NatsEnds(nats)


def import_connectors(kind: str) -> None:
    """Import source and sink of a kind here, so that forks need not do it."""
    for role, known in (("source", connectors.SOURCES), ("sink", connectors.SINKS)):
        connectors.has_option(role, kind if kind in known else "file", "")


def loop(kind: str, plan: AssignmentParams) -> AssignmentStats:
    """Kill a pipeline of that kind as planned; an error of a run is raised with its sentence."""
    import_connectors(kind.partition("-")[0])
    with tempfile.TemporaryDirectory(prefix="scstream-kill-") as place:
        folder = Path(place)
        with ends_of(kind, folder) as ends:
            weather: AbstractContextManager[int | None] = nullcontext()
            if plan.chaos and ends.server is not None:
                weather = storm(ends.server.port, plan.seed)
            with weather as port:
                killing = Loop(kind, ends, plan, folder, port=port)
                try:
                    return killing.run()
                except AssertionError as error:
                    with contextlib.suppress(FileNotFoundError):
                        error.add_note(killing.log.read_text())
                    raise


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--broker-kills", type=int, default=0)
    parser.add_argument("--rows", type=int, default=1200)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--life", type=float, default=AssignmentParams.life)
    parser.add_argument("--broker", type=float, default=0.0)
    parser.add_argument("--chaos", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plant", choices=PLANTS)
    parser.add_argument("--edits", action="store_true")
    parser.add_argument("--live", action="store_true")
    given = vars(parser.parse_args(arguments))
    tally = loop(given.pop("kind"), AssignmentParams(**given))
    print(json.dumps(asdict(tally)))
    sys.exit(0 if tally.is_clean else 1)


if __name__ == "__main__":
    main(sys.argv[1:])
