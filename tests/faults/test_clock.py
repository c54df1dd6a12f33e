"""The clock of the machine goes back, or jumps ahead: nothing breaks, a replay is the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from scstream.model import Settings
from scstream.preprocess import Steps
from scstream.stream.batcher import Batching
from scstream.stream.checkpoint_log import CheckpointLog
from scstream.stream.messages import reader
from scstream.stream.processor import OneModel
from scstream.stream.runner import CheckpointPolicy, Pipeline
from scstream.stream.schema import Schema
from scstream.stream.store import FolderStore
from tests.faults.ends import FileEnds, messages
from tests.faults.kill_loop import settings_of
from tests.stream.memory import MemorySink, MemorySource

N_ROWS = 1500
DAY = 86_400.0
ROOT = Path(__file__).resolve().parents[2]
FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)


class Crash(BaseException):
    """The process is no more."""


class JumpingClock:
    """Its time of day jumps by up to days in both directions; its seconds go on evenly."""

    def __init__(self, seed):
        self._random = Random(seed)
        self._elapsed = 0.0
        self._offset = 0.0
        self.told = []

    def now(self):
        if self._random.random() < 0.3:
            self._offset = self._random.uniform(-3 * DAY, 3 * DAY)
        self.told.append(1.7e9 + self._offset + self._elapsed)
        return self.told[-1]

    def elapsed(self):
        self._elapsed += self._random.expovariate(10.0)
        return self._elapsed

    def sleep(self, seconds):
        self._elapsed += seconds


def pipeline(folder, source, sink, clock, heard):
    return Pipeline(
        job="clock",
        source=source,
        reader=reader("json", Schema(features=("x", "y"), keep=("id",))),
        processor=OneModel(
            Settings.of({"random_state": 0, "n_jobs": 1, "half_life": 600}), Steps()
        ),
        sink=sink,
        checkpoint_log=CheckpointLog(FolderStore(folder)),
        batching=Batching(rows=70, seconds=0.5, time="processing"),
        checkpoint_policy=CheckpointPolicy(batches=3, digests=1),
        clock=clock,
        emit=heard.append,
        threads=False,
    )


@pytest.mark.parametrize("seed", range(8))
def test_a_clock_that_jumps_changes_no_labels(tmp_path, seed):
    """Crashes before checkpoints make batches be learned again; the sink refuses other labels."""
    random, clock, heard = Random(seed), JumpingClock(seed), []
    source, sink, times = MemorySource({"": messages(N_ROWS)}), MemorySink(), []
    for left in (1, 2, 4, None):
        run = pipeline(tmp_path, source, sink, clock, heard)
        _crash_after(run, left, random)
        learn = run.processor.learn

        def noted(source_batch, learn=learn):
            times.append((source_batch.batch, source_batch.time))
            return learn(source_batch)

        run.processor.learn = noted
        try:
            run.run()
        except Crash:
            continue
    assert [row["id"] for row in sink.rows] == list(range(N_ROWS))
    assert min(b - a for a, b in zip(clock.told[:-1], clock.told[1:], strict=True)) < -DAY
    assert len({*times}) < len(times)  # batches were learned again,
    by_batch = dict(times)
    assert len({*times}) == len(by_batch)  # at the time of the first time,
    assert sorted(by_batch.values()) == [by_batch[batch] for batch in sorted(by_batch)]


def _crash_after(run, n_commits, random):
    publish = run.checkpoint_log.publish
    left = [n_commits]

    def call(*arguments, **named):
        if left[0] is not None:
            left[0] -= 1
            if left[0] < 0:
                raise Crash
        return publish(*arguments, **named)

    run.checkpoint_log.publish = call


RUN = """
import json, sys, time
from scstream.stream.config import build
pipeline = build(json.loads(sys.argv[1]))
pipeline.run(until=int(sys.argv[2]))
print(int(time.time()))
"""


def test_a_clock_that_is_set_back_between_runs_changes_no_labels(tmp_path):
    """By libfaketime: first a day ahead, then a day behind."""
    assert FAKETIME is not None, "this test needs libfaketime; install it: apt install libfaketime"
    ends = FileEnds(tmp_path)
    ends.fill("a", messages(N_ROWS))
    settings = settings_of(ends, "a", tmp_path, None)
    settings["batch"] = {"rows": 40, "time": "processing"}
    settings["model"]["half_life"] = 3600
    said = []
    for shift, until in (("+1d", 10), ("-1d", 20), ("+0", 10_000)):
        run = subprocess.run(
            [sys.executable, "-c", RUN, json.dumps(settings), str(until)],
            cwd=ROOT,
            env={
                **os.environ,
                "OPENBLAS_NUM_THREADS": "1",
                "LD_PRELOAD": str(FAKETIME),
                "FAKETIME": shift,
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert run.returncode == 0, run.stderr[-3000:]
        said.append(int(run.stdout))
    assert said[0] - said[1] > 1.5 * DAY  # the clock was set back
    assert [row["id"] for row in ends.labels("a")] == list(range(N_ROWS))
    assert len({row["cluster"] for row in ends.labels("a")}) >= 3
