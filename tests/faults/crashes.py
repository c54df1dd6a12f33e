"""Ways to crash a simulated pipeline: at every operation once, and over and over at random."""

from __future__ import annotations

import errno
from collections.abc import Hashable, Iterator
from random import Random

from tests.faults.simdisk import KILL, LOSSES, Fault
from tests.faults.simulation import Setup, World

ERRORS = (errno.EIO, errno.ENOSPC)
_REACH = 40  # operations from the start of a process, among which a random crash is


def operations(setup: Setup) -> list[str]:
    """Names of the operations of an uninterrupted run."""
    world = World(setup, 0)
    assert world.run()
    return world.disk.steps


def every_crash(setup: Setup) -> Iterator[World]:
    """Yield a world that crashed once, after every operation or amid every write, and went on.

    Before an operation is after the one before it. Look at a world before you ask for the next.
    """
    found: set[Hashable] = set()
    for step, name in enumerate(operations(setup)):
        for when in ("after", "middle") if name == "write" else ("after",):
            world = World(setup, 0)
            assert not world.run(Fault(step, when))
            yield from _after_losses(world, found)


def every_error(setup: Setup) -> Iterator[World]:
    """Yield a world where an operation failed once, without and with a power loss after it."""
    found: set[Hashable] = set()
    for step, _ in enumerate(operations(setup)):
        for error in ERRORS:
            world = World(setup, 0)
            world.run(Fault(step, error=error))
            yield from _after_losses(world, found)


def _after_losses(world: World, found: set[Hashable]) -> Iterator[World]:
    """Let the power fail in every way, and go on from every state that was not `found` before."""
    saved = world.save()
    for loss in (KILL, *LOSSES):
        world.go_back(saved)
        world.disk.boot(loss=loss)
        if (state := world.state()) not in found:
            found.add(state)
            assert world.run()
            yield world


def crash_after_crash(setup: Setup, seed: int) -> tuple[World, int]:
    """Crash at random until a process comes to its end; return the world, and how often."""
    world, loss, n_crashes = World(setup, seed), KILL, 0
    random = world.random
    while not world.run(_random_fault(random), loss=loss):
        n_crashes += 1
        loss = random.choice((KILL, *LOSSES))
    return world, n_crashes


def _random_fault(random: Random) -> Fault:
    if random.random() < 0.1:
        return Fault(random.randrange(_REACH), error=random.choice(ERRORS))
    return Fault(random.randrange(_REACH), random.choice(("before", "after", "middle")))
