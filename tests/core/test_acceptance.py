"""How often production code accepts splits and merges, against exact ratios.

The ratios are computed here from the rows themselves: marginals by the chain rule, one row after
another, and prior terms by products of whole numbers. Nothing of `scstream` is in them. Decisions
under different keys are independent, so the number of acceptances is binomial with probability
min(1, ratio).

False alarms: the bar of each binomial test is p > 1e-3. There are 162 tests, so that a correct
program fails one of them with probability 15 % at a random seed; the seed is pinned, and was the
first one tried. With 400 keys a ratio that is off by a factor of 1.4 gives p < 1e-6 where the
probability is 0.3.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import stats

from scstream.core import default, paper
from scstream.core.config import Config
from scstream.core.moves import accept_merges, accept_splits
from scstream.families import Diagonal, Multinomial
from tests.core.kernels import both_kernels, kernels_named
from tests.core.states import with_clusters
from tests.statistics.exact import PROBLEMS, Problem

pytestmark = pytest.mark.statistics

N_KEYS = 400
BAR = 1e-3
RULES = {"default": default.RULES, "paper": paper.RULES}
every_algorithm = pytest.mark.parametrize("algorithm", RULES)


def log_marginal_diagonal(problem: Problem, X: np.ndarray) -> float:
    """Chain rule over Student-t predictives, column by column."""
    prior, out = problem.family, 0.0
    for d in range(X.shape[1]):
        kappa, nu, mean = prior.kappa[d], prior.nu, prior.mean[d]
        scale = nu * prior.psi[d]
        for x in X[:, d]:
            out += stats.t.logpdf(x, nu, mean, math.sqrt(scale * (kappa + 1.0) / (kappa * nu)))
            scale += kappa / (kappa + 1.0) * (x - mean) ** 2
            mean = (kappa * mean + x) / (kappa + 1.0)
            kappa, nu = kappa + 1.0, nu + 1.0
    return float(out)


def diagonal_columns() -> Problem:
    family = Diagonal(mean=[0.5, -0.2], kappa=0.3, nu=2.5, psi=[0.6, 1.1], origin=[-1.0, 0.4])
    X = np.array([[0.7, 0.2], [1.1, -0.4], [1.6, 0.9], [2.9, 0.3], [3.2, 1.5], [4.4, 0.6]])
    return Problem(family, X, 0.9, log_marginal_diagonal)


EVERY_PROBLEM = {**PROBLEMS, "columns": diagonal_columns}
every_problem = pytest.mark.parametrize("name", EVERY_PROBLEM)


@dataclass(frozen=True)
class Bisected:
    """Six rows in two parts, in several ways, with the exact log odds of two clusters."""

    problem: Problem
    stats: np.ndarray  # (C, 2, P)
    sizes: np.ndarray  # (C, 2)
    log_odds: np.ndarray  # (C,) for alpha = 1

    def split_ratios(self, alpha: float) -> np.ndarray:  # (C,)
        """Log of the probability of acceptance, before it is cut at one."""
        return math.log(alpha) + self.log_odds

    def merge_ratios(self, alpha: float, *, labelled: bool) -> np.ndarray:  # (C,)
        """One cluster against two; labelled: times the probability of the labels of the rows."""
        labels = [log_urn(alpha, sizes) if labelled else 0.0 for sizes in self.sizes]
        return np.array(labels) - self.split_ratios(alpha)


def log_urn(alpha: float, sizes) -> float:
    """Polya's urn with alpha / 2 balls of each of two colours: log probability of the labels."""
    out, urn = 0.0, [alpha / 2.0, alpha / 2.0]
    for side in (0, 1):
        for _ in range(sizes[side]):
            out += math.log(urn[side] / sum(urn))
            urn[side] += 1.0
    return out


def bisected(name: str, kernels: str) -> Bisected:
    """Of all ways to bisect six rows the worst, and four among the better ones."""
    problem = EVERY_PROBLEM[name]()
    family = problem.family.with_kernels(kernels_named(kernels))
    problem = replace(problem, family=family)
    n = problem.n_rows
    sides = np.array([s for s in itertools.product((0, 1), repeat=n) if 0 < sum(s) < n])
    log_odds = np.array([log_odds_of_two(problem, side) for side in sides])
    order = np.argsort(log_odds)[[0, -20, -10, -5, -1]]
    parts = [family.stats(problem.X, sides[c], 2) for c in order]
    sizes = np.array([np.bincount(sides[c]) for c in order])
    return Bisected(problem, np.array(parts), sizes, log_odds[order])


def log_odds_of_two(problem: Problem, side: np.ndarray) -> float:
    """(N_l - 1)! (N_r - 1)! / (N - 1)! f(l) f(r) / f(l and r)."""
    left, right = problem.X[side == 0], problem.X[side == 1]
    ways = math.factorial(len(left) - 1) * math.factorial(len(right) - 1)
    out = math.log(ways / math.factorial(len(side) - 1))
    out += problem.log_marginal(problem, left) + problem.log_marginal(problem, right)
    return out - problem.log_marginal(problem, problem.X)


def telling_alpha(ratios: Callable[[float], np.ndarray]) -> float:
    """The concentration under which most proposals are neither certain nor hopeless."""

    def n_telling(alpha: float) -> int:
        return int(((ratios(alpha) > -3.0) & (ratios(alpha) < -0.1)).sum())

    alpha = max(np.geomspace(1e-3, 1e3, 61).tolist(), key=n_telling)
    assert n_telling(alpha) >= 2
    return alpha


def p_value(n_accepted: int, log_ratio: float) -> float:
    return float(stats.binomtest(int(n_accepted), N_KEYS, min(1.0, math.exp(log_ratio))).pvalue)


def by_ratio(algorithm: str, alpha: float):
    """Rules and settings in which every proposal is made, and only its ratio decides."""
    rules = replace(
        RULES[algorithm],
        min_age=0,
        min_subcluster_weight=0.0,
        n_neighbours=None,
        merge_inactive=True,
    )
    config = Config(alpha=alpha, split_evidence=None, merge_evidence=None, coarseness=0.0)
    return rules, config


@both_kernels
@every_problem
@every_algorithm
def test_splits_are_accepted_with_the_probability_of_their_ratio(name, algorithm, kernels):
    cases = bisected(name, kernels)
    family = cases.problem.family
    alpha = telling_alpha(cases.split_ratios)
    rules, config = by_ratio(algorithm, alpha)
    state = with_clusters(family, cases.stats)
    accepted = np.zeros(state.n_clusters, dtype=int)
    for key in range(N_KEYS):
        at = state.replace(n_batches=key // 2)
        split, n_proposed = accept_splits(family, config, rules, at, sweep=key % 2)
        assert n_proposed == state.n_clusters
        accepted[split] += 1
    for n_accepted, ratio in zip(accepted, cases.split_ratios(alpha), strict=True):
        assert p_value(n_accepted, ratio) > BAR, (n_accepted / N_KEYS, math.exp(ratio))


@both_kernels
@every_problem
@pytest.mark.parametrize("labelled", [False, True])
def test_merges_are_accepted_with_the_probability_of_their_ratio(name, labelled, kernels):
    cases = bisected(name, kernels)
    family = cases.problem.family
    alpha = telling_alpha(lambda alpha: cases.merge_ratios(alpha, labelled=labelled))
    rules, config = by_ratio("default", alpha)
    rules = replace(rules, subcluster_ratio=labelled)
    for parts, ratio in zip(cases.stats, cases.merge_ratios(alpha, labelled=labelled), strict=True):
        state = with_clusters(family, np.stack([parts / 2.0, parts / 2.0], axis=1))
        accepted = 0
        for key in range(N_KEYS):
            at = state.replace(n_batches=key // 2)
            pairs, n_proposed = accept_merges(family, config, rules, at, sweep=key % 2)
            assert n_proposed == 1
            accepted += pairs == [(0, 1)]
        assert p_value(accepted, ratio) > BAR, (accepted / N_KEYS, math.exp(ratio))


@both_kernels
def test_coarseness_lowers_the_split_ratio_of_heavy_clusters(kernels):
    """10,000 rows that say nothing: the ratio is alpha (1 - 1)! 9,998! / 9,999! = alpha / 9,999.

    Half of `coarseness` for each row at that weight.
    """
    family = Multinomial(concentration=np.ones(3)).with_kernels(kernels_named(kernels))
    subclusters = np.zeros((1, 2, family.n_stats))
    subclusters[0, :, 0] = 1.0, 9_999.0
    rules, config = by_ratio("default", 3_000.0)
    config = replace(config, coarseness=1e-4)
    state = with_clusters(family, subclusters)
    accepted = 0
    for key in range(N_KEYS):
        at = state.replace(n_batches=key)
        accepted += len(accept_splits(family, config, rules, at, sweep=1)[0])
    assert p_value(accepted, math.log(3_000.0 / 9_999.0) - 0.5 * 1e-4 * 10_000.0) > BAR


@both_kernels
def test_decisions_differ_by_seed_batch_sweep_and_cluster(kernels):
    """Sixty fair decisions under each address, of which the first thirty splits are carried out."""
    cases = bisected("counts", kernels)
    family = cases.problem.family
    state = with_clusters(family, np.repeat(cases.stats[:1], 60, axis=0))
    rules, config = by_ratio("paper", 0.5 * math.exp(-cases.log_odds[0]))

    def decisions(seed=0, batch=0, sweep=0, first_id=0):
        at = state.replace(n_batches=batch, ids=state.ids + first_id)
        chosen = accept_splits(family, replace(config, seed=seed), rules, at, sweep=sweep)[0]
        return tuple(chosen.tolist())

    addresses = [{}, {"seed": 1}, {"batch": 1}, {"sweep": 1}, {"first_id": 60}]
    assert len({decisions(**address) for address in addresses}) == len(addresses)
    assert decisions() == decisions()


@both_kernels
def test_split_evidence_above_the_threshold_splits_a_cluster(kernels):
    """Unless the ratio is lower than labels can explain, which is log 2 for each row.

    The rows say nothing. 50 and 50 of them have the ratio alpha 49! 49! / 99!, which is
    0.501 alpha / 2^100: on either side of the bound for alpha 1 and 3.
    """
    family = Multinomial(concentration=np.ones(3)).with_kernels(kernels_named(kernels))
    subclusters = np.zeros((2, 2, family.n_stats))
    subclusters[:, :, 0] = 50.0
    state = with_clusters(family, subclusters)
    for alpha, evidence, expected in (
        (3.0, [4.99, 5.01], [1]),
        (3.0, [5.0, 5.0], []),
        (1.0, [99.0, 99.0], []),
    ):
        rules, config = by_ratio("default", alpha)
        config = replace(config, split_evidence=5.0)
        for key in range(20):
            at = state.replace(n_batches=key, split_evidence=np.array(evidence))
            assert accept_splits(family, config, rules, at, sweep=1)[0].tolist() == expected


def far_apart_and_alike(family):
    """Clusters 0 and 1 are alike, 2 is far from both."""
    subclusters = np.zeros((3, 2, family.n_stats))
    subclusters[:, :, 0] = 10.0
    subclusters[:2, :, 1] = subclusters[2, :, 2] = 90.0
    return with_clusters(family, subclusters)


@both_kernels
def test_after_the_first_batch_evidence_alone_decides_about_merges(kernels):
    family = Multinomial(concentration=np.ones(3)).with_kernels(kernels_named(kernels))
    state = far_apart_and_alike(family)
    rules, config = by_ratio("default", 1.0)
    config = replace(config, merge_evidence=1.5)
    for first in (0, 1):
        proven = {"merge_pairs": np.array([[first, 2], [0, 1]]), "n_batches": 1}
        at = state.replace(**proven, merge_evidence=np.array([1.51, 1.5]))
        assert accept_merges(family, config, rules, at, sweep=1) == ([(first, 2)], 1)
    at = state.replace(**proven, merge_evidence=np.array([1.5, 1.51]))
    assert accept_merges(family, config, rules, at, sweep=1) == ([(0, 1)], 1)
    assert accept_merges(family, config, rules, state, sweep=1) == ([(0, 1)], 3)


@both_kernels
def test_a_cluster_without_rows_in_the_batch_does_not_merge(kernels):
    family = Multinomial(concentration=np.ones(3)).with_kernels(kernels_named(kernels))
    rules, config = by_ratio("default", 1.0)
    state = far_apart_and_alike(family).replace(time=4.0, last_seen=np.array([4.0, 3.0, 4.0]))
    active_only = replace(rules, merge_inactive=False)
    assert accept_merges(family, config, active_only, state, sweep=1) == ([], 1)
    assert accept_merges(family, config, rules, state, sweep=1) == ([(0, 1)], 3)


@both_kernels
def test_only_old_clusters_with_two_heavy_subclusters_are_proposed_for_a_split(kernels):
    family = Multinomial(concentration=np.ones(3)).with_kernels(kernels_named(kernels))
    subclusters = np.zeros((5, 2, family.n_stats))
    subclusters[:, 0, 0], subclusters[:, 0, 1] = 9.0, 300.0
    subclusters[:, 1, 0] = 9.0, 4.0, 3.9, 0.0, 9.0
    subclusters[:, 1, 2] = 300.0, 300.0, 300.0, 0.0, 300.0
    state = with_clusters(family, subclusters).replace(age=np.array([5, 9, 9, 9, 4]))
    config = by_ratio("default", 1.0)[1]
    split, n_proposed = accept_splits(family, config, default.RULES, state, sweep=1)
    assert (split.tolist(), n_proposed) == ([0, 1], 2)
    split, n_proposed = accept_splits(family, config, paper.RULES, state, sweep=1)
    assert (split.tolist(), n_proposed) == ([0, 1, 2, 4], 4)


@both_kernels
@pytest.mark.parametrize(("max_clusters", "n_splits"), [(40, 0), (45, 5), (1000, 32)])
def test_splits_fill_the_room_that_is_left(max_clusters, n_splits, kernels):
    family = Multinomial(concentration=np.ones(3)).with_kernels(kernels_named(kernels))
    subclusters = np.zeros((40, 2, family.n_stats))
    subclusters[:, :, 0] = 9.0
    subclusters[:, 0, 1] = subclusters[:, 1, 2] = 300.0
    rules, config = by_ratio("paper", 1.0)
    config = replace(config, max_clusters=max_clusters)
    split, _ = accept_splits(family, config, rules, with_clusters(family, subclusters), sweep=1)
    assert split.tolist() == list(range(n_splits))
