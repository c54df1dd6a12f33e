"""A standby takes over from an instance that is killed, frozen or cut off; nothing differs."""

import os
import shutil

import pytest

from tests.faults.failover import failovers


@pytest.mark.parametrize(
    ("fault", "store"), [("kill", "s3"), ("freeze", "folder"), ("cut", "nats")]
)
def test_a_standby_takes_over(fault, store):
    """How fast is measured in benchmarks: a loaded machine may be slow to start anything."""
    if fault == "cut" and (os.geteuid() != 0 or shutil.which("ip") is None):
        pytest.skip("a network namespace needs root and the program ip")
    found = failovers(fault, store, 2, lease=2.0)
    assert found.rounds == 2
    assert not found.two_writers
    assert not found.other_labels
    assert set(found.codes) <= ({-9} if fault == "kill" else {13, 16, 18})
