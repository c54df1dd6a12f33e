"""The rules of the authors' program that the paper does not print."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chisquare

from scstream import ScStream
from scstream.compute.threads import ThreadExecutor
from scstream.core import paper, printed
from scstream.core.cluster_edits import renew_subclusters
from scstream.core.config import Config
from scstream.core.state import Batch, Transition
from scstream.core.sweep import mean_params
from tests.core.kernels import both_kernels, kernels_named
from tests.core.states import FAMILIES, random_halves, with_clusters

EDITS = {"paper": paper.RULES.edits, "printed": printed.RULES.edits}


def state_with_a_past(family, name, *, current_weights):
    """Clusters with a past in both sub-clusters; `current_weights` scales this batch's rows."""
    rng = np.random.default_rng(5)
    subclusters = random_halves(name, [[9, 4], [6, 7], [5, 5]], rng)
    state = with_clusters(family, subclusters)
    current = random_halves(name, [[8, 8], [8, 8], [8, 8]], rng)
    return state.replace(
        past=subclusters, current=current * np.array(current_weights, dtype=float)[:, :, None]
    )


@pytest.mark.parametrize("edits", EDITS)
@pytest.mark.parametrize("name", ["gaussian", "multinomial"])
def test_one_sided_clusters_get_new_subclusters_and_keep_their_statistics(name, edits):
    """Clusters with rows on both sides, and clusters without rows, stay as they are."""
    family = FAMILIES[name]
    state = state_with_a_past(family, name, current_weights=[[1, 0], [1, 1], [0, 0]])
    renewed = renew_subclusters(family, EDITS[edits], Transition.of(state))
    after = renewed.state
    np.testing.assert_array_equal(after.subclusters[1:], state.subclusters[1:])
    np.testing.assert_allclose(after.cluster_stats, state.cluster_stats, rtol=1e-12, atol=1e-9)
    for layer in ("past", "current"):
        before, now = getattr(state, layer), getattr(after, layer)
        np.testing.assert_allclose(now.sum(axis=1), before.sum(axis=1), rtol=1e-12, atol=1e-9)
    counts = after.subclusters[0, :, 0]
    assert counts[0] == pytest.approx(counts[1])
    differ = not np.allclose(after.subclusters[0, 0], after.subclusters[0, 1])
    assert differ == (edits == "paper" and name == "gaussian")
    np.testing.assert_array_equal(renewed.label_ids, Transition.of(state).label_ids)


def test_stored_batches_are_renewed_with_the_rest():
    family = FAMILIES["gaussian"]
    state = state_with_a_past(family, "gaussian", current_weights=[[1, 0], [1, 1], [1, 1]])
    history = np.stack([state.past, 2.0 * state.past])
    state = state.replace(history=history, history_times=np.array([-2.0, -1.0]))
    after = renew_subclusters(family, paper.RULES.edits, Transition.of(state)).state
    np.testing.assert_allclose(after.history.sum(axis=2), history.sum(axis=2), rtol=1e-9, atol=1e-9)
    counts = after.history[:, 0, :, 0]
    np.testing.assert_allclose(counts[:, 0], counts[:, 1])
    np.testing.assert_array_equal(after.history[:, 1:], history[:, 1:])


@both_kernels
@pytest.mark.parametrize("name", ["gaussian", "multinomial"])
def test_the_last_sweep_draws_sublabels_of_the_most_probable_labels(name, kernels):
    """Labels are those of the plain predictive pass; sub-labels follow their probabilities."""
    family = FAMILIES[name].with_kernels(kernels_named(kernels))
    rng = np.random.default_rng(1)
    state = with_clusters(family, random_halves(name, [[9, 4], [6, 7]], rng))
    one = rng.normal(size=(1, 2)) if name == "gaussian" else rng.multinomial(6, np.ones(4) / 4, 1)
    rows = np.repeat(one.astype(float), 4000, axis=0)
    config = Config.paper(alpha=2.0)
    best = mean_params(family, config, state, state, births=False)
    drawn = replace(best, key=77, map_labels=True)
    loaded = ThreadExecutor().load(family, Batch(rows, 0.0))
    expected = loaded.assign(best)
    labels, _ = loaded.labels(state.ids.repeat(2).reshape(-1, 2))
    found = loaded.assign(drawn)
    again, _ = loaded.labels(state.ids.repeat(2).reshape(-1, 2))
    np.testing.assert_array_equal(labels, again)
    assert found.log_density == pytest.approx(expected.log_density, rel=1e-9)
    k = int(np.flatnonzero(state.ids == labels[0])[0])
    tables = family.predictive_params(state.subclusters[k])
    score = family.log_predictive(tables, rows[:1])[0] + best.log_subweight[k]
    share = np.exp(score - np.logaddexp(*score))
    assert chisquare(found.stats[k, :, 0], 4000 * share).pvalue > 0.01
    assert expected.stats[k, :, 0].min() == 0


def moving_clusters(seed, n_batches=40, n_clusters=6):
    """Six clusters that move through the plane."""
    rng = np.random.default_rng(seed)
    centre = rng.uniform(-15, 15, size=(n_clusters, 2))
    velocity = rng.normal(scale=0.15, size=(n_clusters, 2))
    for batch in range(n_batches):
        y = rng.integers(n_clusters, size=300)
        yield centre[y] + batch * velocity[y] + rng.normal(size=(300, 2)), y


def one_sided_share(algorithm):
    model = ScStream(
        algorithm=algorithm,
        prior={"kappa": 0.01, "mean": 0.0, "nu": 10.0, "psi": 1.0},
        half_life=1.0,
        random_state=0,
    )
    shares = []
    for X, _ in moving_clusters(3):
        count = model.partial_fit(X).state_.current[:, :, 0]
        live = count[count.sum(axis=1) > 0]
        shares.append((live.min(axis=1) <= 0).mean())
    return np.mean(shares)


def test_few_clusters_of_the_program_are_one_sided_after_a_batch():
    """The printed algorithm leaves most clusters with an empty sub-cluster."""
    assert one_sided_share("paper") <= 0.15
    assert one_sided_share("printed") >= 0.5


def test_printed_is_the_paper_without_the_rules_of_the_program():
    assert printed.TEXT.renew is printed.TEXT.draw_sublabels is False
    assert not printed.RULES.subcluster_ratio
    assert ScStream(algorithm="printed", random_state=0).partial_fit(
        np.zeros((3, 1))
    ).config_ == Config.paper(algorithm="printed", seed=0)
