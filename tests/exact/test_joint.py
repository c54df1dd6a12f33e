"""Joint tests of `algorithm="exact"`: Geweke (2004), and simulation-based calibration (2018).

Geweke: rows and labels are drawn from the model. Then labels (by a sweep of the production code)
and rows (by the family's own posterior draws) are redrawn in turn. Every statistic must keep the
mean that it has in fresh draws.

Calibration: rows and true labels are drawn from the model, and a chain samples the posterior of the
rows from one cluster on. The rank of a statistic of the true labels among the samples is uniform;
ties are broken at random.

There are 15 and 6 p-values with the bar at .01; seeds are pinned and are the first ones tried. As
many worlds as are tested show the planted errors.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from scstream.core import exact, exact_moves
from scstream.core.partition import Partition
from scstream.core.rng import key_for
from scstream.kernels import ClusterDraws
from tests.exact import planted
from tests.exact.chains import BAR, TINY, compiled_only, table_of
from tests.statistics import test_geweke as geweke

pytestmark = [pytest.mark.statistics, compiled_only]

SEED = 0
N_ROUNDS = 3
N_WORLDS = 300
N_RANKS, N_SAMPLES, N_BURN, THIN = 200, 9, 12, 2


@pytest.fixture(autouse=True)
def _few_pairs(monkeypatch):
    """Two splits or merges in a sweep are enough for few rows."""
    monkeypatch.setattr(exact_moves, "_N_PAIRS", 2)


def redrawn_rows(model, partition, labels, *, address, rng):
    """Rows given their labels, by way of parameters drawn by the family."""
    key = key_for(SEED, batch=address[0], sweep=address[1], purpose="chain")
    draws = ClusterDraws(model.family.kernels, key, np.arange(partition.n_clusters))
    params = model.unpack(model.family.sample_posterior(partition.stats, draws))
    return model.rows([p[labels] for p in params], rng)


def rounds(model, labels, X, *, world, rng):
    """Redraw labels and rows in turn."""
    for round_ in range(N_ROUNDS):
        table = table_of(model.family, model.alpha, X, seed=world)
        partition = exact.advance(table, Partition.of(table, labels), round_)
        labels = partition.labels
        X = redrawn_rows(model, partition, labels, address=(world, round_), rng=rng)
    return labels, X


def p_of_rounds(model, n_worlds):
    """Two-sided p-value of every statistic, rounds against fresh draws."""
    rng = np.random.default_rng(SEED)
    start = geweke.from_the_model(model, n_worlds, rng)
    ends = [
        rounds(model, *each, world=w, rng=rng) for w, each in enumerate(zip(*start, strict=True))
    ]
    labels = geweke.canonical(np.array([labels for labels, _ in ends]))
    ours = geweke.described(model, labels, np.array([X for _, X in ends]))
    fresh = geweke.described(model, *geweke.from_the_model(model, 4 * n_worlds, rng))
    p = {
        name: float(stats.ttest_ind(ours[name], fresh[name], equal_var=False).pvalue)
        for name in ours
    }
    print({name: f"{value:.2g}" for name, value in p.items()})
    return p


@pytest.mark.parametrize("name", geweke.MODELS)
def test_sweeps_leave_the_joint_distribution_invariant(name):
    assert min(p_of_rounds(geweke.MODELS[name], N_WORLDS).values()) > BAR


@pytest.mark.parametrize(
    "error", ["ratio without sizes", "single rows by their own cluster", "no proposal density"]
)
def test_a_planted_error_changes_the_joint_distribution(error, monkeypatch):
    planted.ERRORS[error].plant(monkeypatch)
    assert min(p_of_rounds(geweke.MODELS["gaussian"], N_WORLDS).values()) < TINY


def statistics(table, partition):
    labels = partition.labels
    same = labels[:, None] == labels
    return partition.n_clusters, partition.log_posterior(table), same[0].sum()


def ranks(model, n_ranks):  # (R, 3)
    """Ranks of statistics of the true labels among samples of the posterior."""
    rng = np.random.default_rng(SEED)
    out = []
    worlds = zip(*geweke.from_the_model(model, n_ranks, rng), strict=True)
    for world, (truth, X) in enumerate(worlds):
        table = table_of(model.family, model.alpha, X, seed=world)
        partition = Partition.of(table, np.zeros(len(X), dtype=np.int64))
        samples = []
        for sweep in range(N_BURN + N_SAMPLES * THIN):
            partition = exact.advance(table, partition, sweep)
            if sweep >= N_BURN and (sweep - N_BURN) % THIN == 0:
                samples.append(statistics(table, partition))
        true = np.array(statistics(table, Partition.of(table, truth)))
        close = np.isclose(np.array(samples), true)  # the same partition, but for rounding
        smaller = (np.array(samples) < true) & ~close
        # Among the values that equal it, the true one stands at a random place.
        place = rng.integers(close.sum(axis=0) + 1)
        out.append(smaller.sum(axis=0) + place)
    return np.array(out)


def p_of_ranks(found):
    """P-value of uniform ranks, for every statistic."""
    counts = [np.bincount(column, minlength=N_SAMPLES + 1) for column in found.T]
    names = ("clusters", "log posterior", "rows with the first")
    p = {
        name: float(stats.chisquare(count).pvalue)
        for name, count in zip(names, counts, strict=True)
    }
    print({name: f"{value:.2g}" for name, value in p.items()})
    return p


@pytest.mark.slow
@pytest.mark.parametrize("name", geweke.MODELS)
def test_ranks_of_the_truth_are_uniform(name):
    assert min(p_of_ranks(ranks(geweke.MODELS[name], N_RANKS)).values()) > BAR


def test_a_planted_error_changes_the_ranks(monkeypatch):
    planted.ERRORS["ratio without sizes"].plant(monkeypatch)
    assert min(p_of_ranks(ranks(geweke.MODELS["gaussian"], N_RANKS)).values()) < TINY
