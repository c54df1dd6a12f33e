"""The harness of groups: every stream has the rows it says, and ids are compared rightly."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks import levels
from benchmarks.results_io import RESULTS
from scstream.core.groups import Groups

DRAWN = [name for name in levels.STREAMS if name.startswith(("moons", "rings"))]


@pytest.mark.parametrize("name", DRAWN)
def test_drawn_streams_have_two_classes(name: str) -> None:
    stream = levels.STREAMS[name][0](3)
    assert stream.X.shape == (10_000, 2)
    assert set(stream.y) == {0, 1}


def test_kept_ids_are_weighted() -> None:
    before = Groups(np.array([0, 1, 2]), np.array([0, 0, 2]), np.ones(3))
    after = Groups(np.array([0, 1, 3]), np.array([0, 1, 3]), np.array([3.0, 1.0, 5.0]))
    assert levels.kept(before, after) == 0.75


def test_the_page_shows_the_results() -> None:
    rows = [json.loads(line) for line in (RESULTS / "levels.jsonl").read_text().splitlines()]
    assert len(rows) == len(levels.STREAMS) * len(levels.SEEDS)
    assert "\n".join(levels.lines(rows)) in (RESULTS / "levels.md").read_text()
