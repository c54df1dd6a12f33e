"""Power loss at every operation of a disk: no row is lost, doubled or labelled in another way."""

from __future__ import annotations

import errno
from dataclasses import replace
from itertools import chain
from random import Random

import pytest

from scstream.errors import ScStreamError
from tests.faults.crashes import crash_after_crash, every_crash, every_error, operations
from tests.faults.mutants import MUTANTS
from tests.faults.simdisk import FastPath, Fault, Loss, SimulatedDisk
from tests.faults.simulation import LABELS, SETUPS, World, reference

N_CHAINED = 3_000  # crashes, over all setups; `python -m benchmarks faults` does more
FILE = FastPath("/f")


@pytest.mark.parametrize("name", SETUPS)
def test_a_crash_at_any_operation_loses_and_repeats_nothing(name):
    setup = SETUPS[name]
    expected = reference(setup)
    n_cases = 0
    for world in every_crash(setup):
        world.check(expected)
        n_cases += 1
    assert n_cases > 300  # different disks


@pytest.mark.parametrize("name", SETUPS)
def test_an_error_of_any_operation_loses_and_repeats_nothing(name):
    setup = SETUPS[name]
    expected = reference(setup)
    for world in every_error(setup):
        world.check(expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", SETUPS)
def test_repeated_crashes_lose_and_repeat_nothing(name):
    setup, n_crashes, seed = SETUPS[name], 0, 0
    expected = reference(setup)
    while n_crashes < N_CHAINED / len(SETUPS):
        world, n = crash_after_crash(setup, seed)
        world.check(expected)
        n_crashes += n
        seed += 1


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_defect_is_found(name):
    setup = MUTANTS[name]
    expected = reference(replace(setup, plant=None, ignored=frozenset()))
    with pytest.raises((AssertionError, ScStreamError)):
        for world in chain(every_error(setup), every_crash(setup)):
            world.check(expected)


def test_operations_are_those_of_the_protocol():
    """The simulation does what a pipeline does, and not less."""
    names = operations(SETUPS["count"])
    assert {"create", "write", "sync", "link", "sync_folder", "remove", "acknowledge"} <= {*names}
    assert names.index("link") < names.index("acknowledge")


class TestDisk:
    """The disk forgets what a disk may forget, and nothing else."""

    def disk(self, seed=0):
        disk = SimulatedDisk(Random(seed))
        return disk, disk.create(FILE)

    def test_content_that_was_not_synced_is_lost(self):
        disk, handle = self.disk()
        disk.write(handle, memoryview(b"one"))
        disk.sync(handle)
        disk.write(handle, memoryview(b"two"))
        disk.sync_folder(FastPath("/"))
        disk.boot()
        assert disk.read(FILE) == b"onetwo"
        disk.boot(loss=Loss("all", "all"))
        assert disk.read(FILE) == b"one"

    def test_a_name_that_was_not_synced_is_lost(self):
        disk, handle = self.disk()
        disk.sync(handle)
        disk.boot(loss=Loss("none", "all"))
        with pytest.raises(FileNotFoundError):
            disk.read(FILE)

    def test_a_removed_name_may_come_back(self):
        disk, _ = self.disk()
        disk.sync_folder(FastPath("/"))
        disk.remove(FILE)
        disk.boot(loss=Loss("none", "all"))
        assert disk.read(FILE) == b""

    def test_torn_content_is_a_beginning(self):
        lengths = set()
        for seed in range(50):
            disk, handle = self.disk(seed)
            disk.write(handle, memoryview(b"x" * 200))
            disk.boot(loss=Loss("torn", "none"))
            lengths.add(disk.size(FILE))
        assert len(lengths) > 20

    def test_holes_are_zeros(self):
        disk, handle = self.disk()
        disk.write(handle, memoryview(b"x" * 640))
        disk.boot(loss=Loss("holes", "none"))
        content = disk.read(FILE)
        assert len(content) == 640
        assert 0 < content.count(0) < 640

    def test_a_sync_after_one_that_failed_saves_nothing(self):
        disk, handle = self.disk()
        disk.write(handle, memoryview(b"one"))
        disk.fault = Fault(len(disk.steps), error=errno.EIO)
        with pytest.raises(OSError, match="injected"):
            disk.sync(handle)
        disk.sync(handle)
        assert disk.read(FILE) == b"one"
        disk.boot(loss=Loss("all", "none"))
        assert disk.read(FILE) == b"\0\0\0"

    def test_a_full_disk_writes_short_and_then_fails(self):
        disk, handle = self.disk()
        disk.room = 2
        assert disk.write(handle, memoryview(b"one")) == 2
        with pytest.raises(OSError, match="full") as caught:
            disk.write(handle, memoryview(b"e"))
        assert caught.value.errno == errno.ENOSPC

    def test_the_outcome_is_what_the_disk_has(self):
        world = World(SETUPS["count"], 0)
        assert world.run()
        assert world.outcome()[0] == world.disk.read(LABELS)
