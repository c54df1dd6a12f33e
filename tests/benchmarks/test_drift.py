"""The harness of alerts, on what is known beforehand; and the page shows what it measured."""

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pandas")

from benchmarks import drift
from benchmarks.density.files import Series
from scstream.observe.alerts import AlertOptions, AlertRules

ROOT = Path(__file__).resolve().parents[2]


def test_alerts_of_a_scene_come_after_the_change(monkeypatch):
    monkeypatch.setattr(drift, "BEFORE", 30)
    monkeypatch.setattr(drift, "AFTER", 5)
    found = drift.alerts_of("everything jumps by 4 spreads", 0, "page-hinkley")
    assert found == [(30, "log_density"), (30, "born")]
    assert drift.alerts_of("nothing changes", 0, "page-hinkley") == []


def test_a_delay_counts_from_one():
    assert drift._delay("page-hinkley", 40.0, seed=0) == 1
    assert drift._delay("page-hinkley", 0.0, seed=0) is None


def test_a_summary_leaves_out_what_came_before_the_change():
    at = drift.BEFORE
    runs = [[(3, "born"), (at, "born")], [(at + 4, "born"), (at + 9, "born")], [(at, "died")]]
    assert drift._summary(runs, "born") == "2, 3"
    assert drift._summary(runs, "novelty") == "-"


def test_windows_are_found_and_foretold(monkeypatch):
    """A jump in the one window that there is."""
    values = np.random.default_rng(0).standard_normal(2000)
    values[1200:1260] += 30.0
    series = Series("jump", values, [(1190, 1290)])
    monkeypatch.setattr(drift.files, "nab", lambda: [series])
    options = AlertOptions(log_density="page-hinkley")
    for before in (False, True):
        found = drift.anomalies(20, options, before=before)
        assert found[:3] == ["20", "before" if before else "after", "1 of 1"]
    assert drift._windows(series, 1290, 1310) == [0]
    assert drift._windows(series, 1291, 1311) == []


def test_noises_have_no_trend():
    for _, values in drift.noises(np.random.default_rng(0), 2000):
        assert abs(np.median(values[:1000]) - np.median(values[1000:])) < 0.3
    assert drift.told(AlertRules(), values) == []


def test_the_page_shows_what_was_measured():
    """Tables of the page stand in the results, but for columns that it leaves out."""
    measured = drift.RESULT.read_text(encoding="utf-8")
    page = (ROOT / "docs" / "howto" / "alerts.md").read_text(encoding="utf-8")
    for name, head in (("scenes", "change"), ("false alarms", "series"), ("delays", "drop")):
        shown = _rows(page.partition(f"<!-- {name} -->")[2].lstrip())
        known = {row[0]: row for row in _rows(measured[measured.index(f"\n| {head}") + 1 :])}
        assert len(shown) == len(known) > 4
        for row in shown:
            assert row == known[row[0]][: len(row)]


def _rows(text):
    """Cells of the table that a text begins with."""
    lines = re.match(r"(\|.*\n)+", text)[0].splitlines()
    return [line.strip("| ").split(" | ") for line in lines]
