"""The machine is measured, and the figures say what they are."""

from pathlib import Path

import pytest

from scstream.machine import usable_cores
from tests.cli.inside import json_output, refused, sound

SMALL = ("bench", "-d", 3, "-k", 4, "-n", 200, "--batches", 4)
PHASES = ("read csv", "read json", "first batch", "learn", "predict", "predict one", "save", "load")


def test_every_phase_is_measured(tmp_path: Path) -> None:
    found = json_output(*SMALL, folder=tmp_path)
    assert (found["n_features"], found["n_clusters"], found["n_rows"]) == (3, 4, 200)
    assert found["found_clusters"] == 4
    assert found["cores"] == usable_cores()
    assert {phase["name"] for phase in found["phases"]} == set(PHASES)
    assert all(phase["seconds"] > 0 for phase in found["phases"])
    learn = {each["threads"]: each for each in found["phases"] if each["name"] == "learn"}
    assert set(learn) == {1, found["cores"]}
    for each in learn.values():
        assert each["rows_per_second"] * each["seconds"] == pytest.approx(200)
    assert list(tmp_path.iterdir()) == []


def test_the_table_describes_every_phase(tmp_path: Path) -> None:
    text = sound(*SMALL, "--family", "diagonal", folder=tmp_path)
    assert "diagonal, 4 batches of 200 rows, D 3, K 4" in text
    for phase in PHASES:
        assert phase in text
    assert "the upper limit of scstream run" in text


def test_an_unknown_family_is_refused(tmp_path: Path) -> None:
    detail = refused("bench", "--family", "poisson", folder=tmp_path)
    assert detail == "bench knows the families gaussian, diagonal."
