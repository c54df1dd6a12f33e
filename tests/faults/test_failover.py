"""A standby takes over from an instance that is killed, frozen or cut off; nothing differs."""

import os
import shutil

import pytest

from tests.faults.failover import failovers


@pytest.mark.parametrize(
    ("fault", "store"), [("kill", "nats"), ("freeze", "folder"), ("cut", "nats")]
)
def test_a_standby_takes_over(fault, store):
    """How fast is measured in benchmarks: a loaded machine may be slow to start anything."""
    if fault == "cut" and (os.geteuid() != 0 or shutil.which("ip") is None):
        pytest.skip("a network namespace needs root and the program ip")
    found = failovers(fault, store, 1, lease=2.0)
    assert found.rounds == 1
    assert not found.other_labels  # every row is in the sink once, whoever tried to write
    if fault != "freeze":  # a process may be stopped within a call, which returns when it wakes up
        assert not found.two_writers
    assert set(found.codes) <= ({-9} if fault == "kill" else {13, 16, 18})
