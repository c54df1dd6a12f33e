"""kill -9 of real pipelines at random instants, of their brokers too: nothing lost, same labels.

A few kills each; `python -m benchmarks faults` kills every kind hundreds of times.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
CLEAN = {"lost": 0, "doubled": 0, "other_labels": 0, "other_models": 0}


def called(module, *arguments):
    """Run one of the loops in a process of its own, which may fork because it has no threads."""
    run = subprocess.run(
        [sys.executable, "-m", f"tests.faults.{module}", *arguments],
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert run.stdout, run.stderr[-3000:]
    return json.loads(run.stdout.splitlines()[-1])


def assert_clean(found, *, kills):
    assert found["kills"] >= kills
    assert {name: found[name] for name in CLEAN} == CLEAN


@pytest.mark.parametrize(
    ("kind", "kills", "edits"),
    [("file", 8, "--edits"), ("file", 8, "--live"), ("redis", 8, None), ("nats", 8, "--edits")],
)
def test_killing_the_pipeline_loses_and_repeats_nothing(kind, kills, edits):
    """Also while people edit the clusters: every edit is applied once, before the same batch."""
    options = [] if edits is None else [edits]
    found = called("kill_loop", kind, "--kills", str(kills), "--rows", "1200", *options)
    assert_clean(found, kills=kills)
    assert bool(found["live"]) is (edits == "--live")


@pytest.mark.parametrize("kind", ["delta"])
def test_killing_a_pipeline_with_a_table_writes_every_batch_once(kind):
    options = ("--kills", "3", "--life", "0.35", "--rows", "400")
    assert_clean(called("kill_loop", kind, *options), kills=3)


@pytest.mark.parametrize("kind", ["redis", "nats"])
def test_killing_the_broker_loses_and_repeats_nothing(kind):
    """Five thousand rows, the pipeline killed as well."""
    found = called(
        *("kill_loop", kind, "--kills", "3", "--rows", "5000", "--rounds", "1"),
        *("--broker", "0.6", "--chaos", "--life", "4"),
    )
    assert_clean(found, kills=3)
    assert found["broker_kills"] >= 1
    assert found["rows"] >= 5_000


@pytest.mark.parametrize(
    ("kind", "plant", "options"),
    [
        ("file", "no truncation", ("--kills", "25")),
        ("redis", "stale mark", ("--kills", "25")),
        ("file", "no horizon", ("--kills", "100", "--live")),
    ],
)
def test_a_planted_defect_is_found(kind, plant, options):
    with pytest.raises(AssertionError):
        assert_clean(called("kill_loop", kind, "--plant", plant, *options), kills=0)


@pytest.mark.parametrize("kind", ["file", "redis", "nats"])
def test_a_pipeline_that_was_replaced_commits_nothing(kind):
    """An instance is stopped, another takes over, the first goes on: it is fenced, twice."""
    found = called("zombies", kind, "2")
    assert found["zombies"] == found["refused"] == 2
    assert {*found["codes"]} <= {"13", "16"}  # fenced, or it saw that its file is not its own
    wrong = ("two_committers", "other_labels", "other_models")
    assert [found[name] for name in wrong] == [0, 0, 0]
