"""The harness of false alarms: splits are attributed, and run lengths have the right interval."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from benchmarks import false_alarms
from benchmarks.results_io import RESULTS, read
from scstream import Config
from scstream.core import default, moves
from scstream.families import Multinomial
from tests.core.states import with_clusters


@pytest.mark.parametrize("null", [*false_alarms.NULLS, *false_alarms.MISFITS])
def test_every_null_is_a_stream_of_its_family(null):
    row = false_alarms.work(null, 40, 5.0, 5.0, seed=1, n_batches=3)
    assert row["batches"] == 3
    assert row["first"] <= 3
    assert row["alarm"] == (row["by_evidence"] > 0)


def test_splits_are_attributed_to_the_ratio_or_to_the_evidence():
    """Cluster 0 has sub-clusters with different words; the rows of 1 and 2 say nothing."""
    family = Multinomial(concentration=np.ones(2))
    subclusters = np.zeros((3, 2, family.n_stats))
    subclusters[:, :, 0] = 50.0
    subclusters[0, 0, 1] = subclusters[0, 1, 2] = 900.0
    state = with_clusters(family, subclusters).replace(
        age=np.full(3, 9), split_evidence=np.array([0.0, 6.0, 4.0])
    )
    with false_alarms.counted_splits() as counts:
        split, _ = moves.accept_splits(family, Config(alpha=3.0), default.RULES, state, sweep=1)
    assert split.tolist() == [0, 1]
    assert dict(counts) == {"ratio": 1, "evidence": 1}


def test_the_run_length_is_the_mean_with_an_exact_interval():
    assert false_alarms.run_length(3000, 3).startswith("1000 (")
    low, high = (float(part) for part in false_alarms.run_length(3000, 3)[6:-1].split(" to "))
    assert stats.poisson.sf(2, 3000 / high) == pytest.approx(0.025, rel=0.02)
    assert stats.poisson.cdf(3, 3000 / low) == pytest.approx(0.025, rel=0.02)
    bound = float(false_alarms.run_length(3000, 0).removeprefix("> "))
    assert stats.poisson.cdf(0, 3000 / bound) == pytest.approx(0.05, rel=0.02)


def test_the_page_shows_the_results(monkeypatch):
    page = (RESULTS / "false-alarms.md").read_text()
    monkeypatch.setattr(false_alarms, "provenance", lambda: page.split("edit. ")[1].split(".\n")[0])
    assert false_alarms.page(read(RESULTS / "false-alarms.jsonl")) == page
