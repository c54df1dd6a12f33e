"""The collapsed Gibbs sampler that the exact sampler is compared with is itself exact."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.exact.cli import split_rhat
from benchmarks.exact.collapsed import CollapsedGibbs
from tests.exact.chains import BAR, exact_partitions, p_value
from tests.statistics.exact import PROBLEMS


@pytest.mark.statistics
def test_a_collapsed_sweep_leaves_the_posterior_invariant():
    """One p-value at a pinned seed, the first one tried."""
    problem = PROBLEMS["plane"]()
    family = problem.family
    prior = {"mean": family.mean, "kappa": family.kappa, "nu": family.nu, "psi": family.psi}
    out = []
    for seed, labels in enumerate(exact_partitions(problem, 2_000)):
        chain = CollapsedGibbs(problem.X, labels, alpha=problem.alpha, seed=seed, **prior)
        chain.sweep()
        out.append(chain.labels)
    assert p_value(problem, np.array(out)) > BAR


def test_split_rhat_tells_chains_that_agree_from_chains_that_do_not():
    rng = np.random.default_rng(0)
    chains = rng.normal(size=(2, 1_000))
    assert split_rhat(chains) == pytest.approx(1.0, abs=0.01)
    assert split_rhat(chains + np.array([[0.0], [3.0]])) > 1.5
