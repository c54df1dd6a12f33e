"""Stop a real instance, let another take over, let the first go on: ``python -m ... file 20``."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from scstream.errors import AlreadyRunning, Fenced, SinkError
from scstream.stream.checkpoint_log import CheckpointLog
from scstream.stream.config import build
from scstream.stream.store import FolderStore
from tests.faults.ends import Ends, FileEnds, messages
from tests.faults.kill_loop import (
    BATCH_ROWS,
    ends_of,
    forked,
    import_connectors,
    model_of,
    settings_of,
)

N_ROWS = 1600
N_BATCHES = N_ROWS // BATCH_ROWS
_PATIENCE = 60.0  # seconds


@dataclass
class Trials:
    """What became of instances that were overtaken."""

    kind: str
    zombies: int = 0
    codes: dict[int, int] = field(default_factory=dict)  # that zombies ended with
    refused: int = 0  # plain second instances
    two_committers: int = 0
    other_labels: int = 0
    other_models: int = 0

    @property
    def is_clean(self) -> bool:
        known = {Fenced.exit_code, SinkError.exit_code}
        return not (
            self.two_committers
            or self.other_labels
            or self.other_models
            or {*self.codes} - known
            or self.refused < self.zombies
        )


class Trial:
    """One zombie."""

    def __init__(self, ends: Ends, name: str, folder: Path, random: Random) -> None:
        self.ends = ends
        self.name = name
        self.folder = folder
        self.random = random
        self.settings = settings_of(ends, name, folder, None)
        ends.fill(name, messages(N_ROWS))

    def play(self, trials: Trials) -> bool:
        """Stop, take over, go on; False if the first came to its end before it was stopped."""
        first = self._start()
        time.sleep(self.random.uniform(0.02, 0.25))
        os.kill(first, signal.SIGSTOP)
        if not self._has_claimed():
            self._end(first)
            return False
        trials.refused += _code(self._start()) == AlreadyRunning.exit_code
        second = self._start(take_over=True)
        self._await(lambda: self._epochs()[-1:] > [0])
        epoch = self._epochs()[-1]
        time.sleep(self.random.uniform(0.0, 0.1))
        os.kill(first, signal.SIGCONT)
        code, other = _code(first), _code(second)
        if code == 0:
            return False  # everything was committed before it was stopped
        trials.codes[code] = trials.codes.get(code, 0) + 1
        while other == SinkError.exit_code:  # it saw the zombie write, as it should; start anew
            other = _code(self._start())
        assert other == 0, f"who took over ended with {other}"
        trials.two_committers += self._late_commits(epoch)
        trials.zombies += 1
        return True

    def _start(self, *, take_over: bool = False) -> int:
        def act() -> None:
            pipeline = build(self.settings)
            learn = pipeline.processor.learn

            def slow(source_batch: Any) -> Any:
                time.sleep(0.01)
                return learn(source_batch)

            pipeline.processor.learn = slow  # type: ignore[method-assign]
            pipeline.run(until=N_BATCHES, take_over=take_over)

        return forked(act, self.folder / "errors.txt")

    def _end(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    def _ledger(self) -> CheckpointLog:
        return CheckpointLog(FolderStore(self.folder / f"{self.name}-state"))

    def _has_claimed(self) -> bool:
        return bool(self._epochs())

    def _epochs(self) -> list[int]:
        """Epochs that were claimed and are still to be seen."""
        store = self._ledger().store
        contents = []
        for name in store.names("version-"):
            with contextlib.suppress(KeyError):
                contents.append(store.get(name, 0, 4096))
        return [json.loads(text)["claim"] for text in contents if text[:1] == b"{"]

    def _late_commits(self, epoch: int) -> int:
        """Checkpoints of an older epoch that are newer than the claim."""
        late = 0
        for name, content in self._ledger().checkpoints():
            if int(name.removeprefix("version-")) > epoch:
                header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
                text = header["__metadata__"]["scstream"].partition("\n")[2]
                late += json.loads(text)["pipeline"]["progress"]["epoch"] < epoch
        return late

    def _await(self, is_so: Callable[[], bool]) -> None:
        end = time.monotonic() + _PATIENCE
        while not is_so():
            assert time.monotonic() < end, "who takes over does not start"
            time.sleep(0.002)


def _code(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def trials_of(kind: str, n_zombies: int, *, seed: int = 0) -> Trials:
    """Play until there were so many zombies."""
    import_connectors(kind)
    with tempfile.TemporaryDirectory(prefix="scstream-zombie-") as place:
        folder, random, trials = Path(place), Random(seed), Trials(kind)
        with ends_of(kind, folder) as ends:
            whole = FileEnds(folder)
            Trial(whole, "whole", folder, random)
            pid = forked(
                lambda: _whole(settings_of(whole, "whole", folder, None)), folder / "errors.txt"
            )
            assert _code(pid) == 0
            labels, model = whole.labels("whole"), model_of(folder, "whole")
            n_tried = 0
            while trials.zombies < n_zombies:
                n_tried += 1
                assert n_tried < 5 * n_zombies, f"few are stopped in time: {trials}"
                name = f"z{n_tried}"
                if Trial(ends, name, folder, random).play(trials):
                    trials.other_labels += ends.labels(name) != labels
                    trials.other_models += model_of(folder, name) != model
        return trials


def _whole(settings: dict[str, Any]) -> None:
    build(settings).run(until=N_BATCHES)


if __name__ == "__main__":
    found = trials_of(sys.argv[1], int(sys.argv[2]))
    print(json.dumps(asdict(found)))
    sys.exit(0 if found.is_clean else 1)
