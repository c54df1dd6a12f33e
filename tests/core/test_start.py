"""The start: what a first batch tells about the prior and about the number of clusters."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from scstream.compute.threads import ThreadExecutor
from scstream.core.births import one_or_many
from scstream.core.config import Config
from scstream.core.ratios import log_joint
from scstream.core.start import data_driven_prior, n_entries
from scstream.core.state import Batch, State
from scstream.families import Gaussian, Multinomial
from scstream.kernels import choose_kernels
from tests.core.states import step

CONFIG = Config()


def first_batch(X):
    weak = Gaussian.weak_prior(X).with_kernels(choose_kernels())
    family = data_driven_prior(weak, CONFIG, X, None)
    state, labels, _ = step(family, CONFIG, State.empty(family), Batch(X, 0.0), ThreadExecutor())
    return family, state, labels


@pytest.mark.parametrize(
    ("n", "d"), [(200, 2), (400, 30), pytest.param(500, 100, marks=pytest.mark.slow)]
)
def test_one_cloud_is_one_cluster_and_keeps_the_weak_prior(n, d):
    X = np.random.default_rng(0).normal(size=(n, d))
    family, state, _ = first_batch(X)
    assert state.n_clusters == 1
    assert family.nu == Gaussian.weak_prior(X).nu


def test_two_clouds_apart_are_two_clusters_under_a_fitted_prior():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 1, (100, 2)), rng.normal(30, 1, (100, 2))])
    family, state, labels = first_batch(X)
    assert state.n_clusters == 2
    assert len(set(labels[:100].tolist())) == len(set(labels[100:].tolist())) == 1
    assert np.diag(family.psi).max() < 0.1 * X.var()


def test_groups_merge_only_if_the_merge_is_more_probable():
    rng = np.random.default_rng(1)
    near, far = rng.normal(0, 1, (60, 2)), rng.normal(40, 1, (60, 2))
    family = Gaussian(mean=np.zeros(2), kappa=0.01, nu=4.0, psi=np.eye(2))
    sides = np.repeat([0, 1], 60)
    apart = family.stats(np.concatenate([near, far]), sides, 2)
    alike = family.stats(np.concatenate([near, rng.normal(0, 1, (60, 2))]), sides, 2)
    assert len(one_or_many(family, CONFIG, apart)) == 2
    assert len(one_or_many(family, CONFIG, alike)) == 1


def test_joint_densities_differ_by_the_split_ratio():
    rng = np.random.default_rng(2)
    family = Gaussian(mean=np.zeros(2), kappa=0.5, nu=4.0, psi=np.eye(2))
    groups = family.stats(rng.normal(size=(30, 2)), np.arange(30) % 2, 2)
    odds = log_joint(family, 0.7, groups) - log_joint(family, 0.7, groups.sum(0, keepdims=True))
    ratio = family.kernels.log_split_ratio(family, 0.7, groups[:1], groups[1:])
    assert odds == pytest.approx(ratio[0], rel=1e-9)


@pytest.mark.slow
def test_three_clouds_with_many_columns_stay_one_cluster_under_the_weak_prior():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(3, 100))
    X = centres[rng.integers(0, 3, 500)] + rng.normal(size=(500, 100))
    family, state, _ = first_batch(X)
    assert state.n_clusters == 1  # docs/explanation/limits.md: a limit, not a virtue
    assert family.nu == Gaussian.weak_prior(X).nu


def test_a_prior_that_lowers_the_likelihood_is_rejected(monkeypatch):
    rng = np.random.default_rng(4)
    X = np.concatenate([rng.normal(0, 1, (100, 2)), rng.normal(30, 1, (100, 2))])
    vague = Gaussian.weak_prior(X)
    bad = Gaussian(mean=np.zeros(2), kappa=1.0, nu=4.0, psi=1e-6 * np.eye(2), origin=vague.origin)
    monkeypatch.setattr(Gaussian, "prior_grid", lambda self, stats: [bad])
    assert data_driven_prior(vague, CONFIG, X, None) is vague


def test_a_fitted_prior_of_counts_is_never_weaker_than_the_weak_prior():
    rng = np.random.default_rng(5)
    topics = rng.dirichlet(np.full(400, 0.02), size=8)
    X = rng.multinomial(30, topics[rng.integers(0, 8, 300)]).astype(float)
    vague = Multinomial.weak_prior(X)
    fitted = data_driven_prior(vague, CONFIG, X, None)
    assert vague.concentration[0] == pytest.approx(np.sqrt(30 / 400))
    assert (fitted.concentration >= vague.concentration).all()


def test_zeros_are_not_counted_as_entries():
    X = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]])
    assert n_entries(X) == n_entries(sparse.csr_array(X)) == 3
