"""Two instances on one simulated disk, which take turns at operations that are chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from threading import Event, Thread
from typing import Any

from scstream.observe.events import CheckpointWritten, RunEvent, Started
from tests.faults.simdisk import SimulatedDisk
from tests.faults.simulation import World


class Interrupted:
    """A disk that calls somebody before one of its operations.

    Reads count as well: another instance may change what they find.
    """

    def __init__(self, disk: SimulatedDisk, step: int, act: Callable[[], None]) -> None:
        self._disk = disk
        self._step = step
        self._act = act
        self.n_calls = 0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._disk, name)

        def call(*arguments: Any) -> Any:
            self.n_calls += 1
            if self.n_calls == self._step + 1:
                self._act()
            return method(*arguments)

        return call


@dataclass
class Zombie:
    """An instance is stopped, another takes over, and the first goes on in the midst of it.

    Parameters
    ----------
    world : World
        What they share.
    stop : int
        Operation of the first instance before which it is stopped.
    go_on : int
        Operation of the second before which the first goes on to its end.
    """

    world: World
    stop: int
    go_on: int
    first: BaseException | None = None  # how they ended
    second: BaseException | None = None
    met: bool = False  # whether the first was stopped at all
    epochs: dict[str, int] = field(default_factory=dict)  # by instance
    commits: dict[str, list[int]] = field(default_factory=dict)  # versions
    _paused: Event = field(default_factory=Event)
    _ended: Event = field(default_factory=Event)

    def play(self) -> None:
        self.world.disk.boot()
        second = Thread(target=self._second)

        def stopped() -> None:
            self.met = True
            second.start()
            self._paused.wait()

        self.first = self._run("first", self.stop, stopped)
        self._ended.set()
        if self.met:
            second.join()

    def _second(self) -> None:
        def pause() -> None:
            self._paused.set()
            self._ended.wait()

        self.second = self._run("second", self.go_on, pause)
        self._paused.set()

    def check_commits(self) -> None:
        """Nobody commits after another has claimed the pipeline."""
        names = sorted(self.epochs, key=self.epochs.__getitem__)
        assert len({*self.epochs.values()}) == len(names), f"two have the epochs {self.epochs}"
        for name, later in pairwise(names):
            late = [v for v in self.commits.get(name, []) if v >= self.epochs[later]]
            assert not late, f"the {name} committed {late} after {self.epochs}"

    def _run(self, name: str, step: int, act: Callable[[], None]) -> BaseException | None:
        def hear(event: RunEvent) -> None:
            self.world.hear(event)
            if isinstance(event, Started):
                self.epochs[name] = event.epoch
            if isinstance(event, CheckpointWritten):
                self.commits.setdefault(name, []).append(event.version)

        pipeline = self.world.pipeline(Interrupted(self.world.disk, step, act))
        pipeline.emit = hear
        try:
            pipeline.run(take_over=True)
        except BaseException as error:  # for the test to judge
            return error
        return None
