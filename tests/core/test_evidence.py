"""Evidence: what the halves of a cluster must gain before it splits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scstream import ScStream
from scstream.core.config import Config, check_config
from scstream.core.evidence import least_gain
from scstream.errors import InputError

weights = st.floats(0.0, 1e12)


@given(weights, weights, st.floats(0.0, 10.0))
def test_the_required_split_gain_grows_with_weight_up_to_coarseness(a, b, coarseness):
    light, heavy = least_gain(Config(coarseness=coarseness), np.sort([a, b]))
    ulps = 1.0 + 4.0 * np.finfo(float).eps  # a product and a quotient are rounded
    assert 0.0 <= light <= heavy * ulps
    assert heavy <= coarseness * ulps


def test_clusters_of_ordinary_weight_need_almost_no_gain():
    assert least_gain(Config(), np.array([500.0]))[0] * 500.0 < 1.0


def test_the_paper_algorithm_requires_no_gain():
    assert (least_gain(Config.paper(), np.array([1.0, 1e9])) == 0.0).all()


def test_negative_coarseness_raises():
    with pytest.raises(InputError, match="coarseness must not be negative"):
        check_config(Config(coarseness=-1.0))


def clusters_of_a_square(coarseness: float) -> int:
    """How many Gaussians it takes for rows that fill a square evenly, in a few huge batches."""
    rng = np.random.default_rng(0)
    model = ScStream(random_state=0, coarseness=coarseness)
    for _ in range(8):
        model.partial_fit(rng.uniform(size=(40_000, 2)))
    return model.n_clusters_


@pytest.mark.slow
def test_a_cluster_that_misfits_the_family_is_not_split_without_end():
    assert clusters_of_a_square(0.3) < clusters_of_a_square(0.0)


def test_two_heavy_clusters_far_apart_still_split():
    rng = np.random.default_rng(1)
    model = ScStream(random_state=0).partial_fit(rng.normal(0, 1, (30_000, 2)))
    centre = np.array([[0.0, 0.0], [7.0, 0.0]])
    for _ in range(6):
        model.partial_fit(centre[rng.integers(0, 2, 30_000)] + rng.normal(0, 1, (30_000, 2)))
    assert model.n_clusters_ == 2
