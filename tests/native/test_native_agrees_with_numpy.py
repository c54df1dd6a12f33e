"""The compiled kernels against the numpy kernels: equal labels, equal sums up to round-off."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scstream import ScStream, native
from scstream.compute.threads import ThreadExecutor
from scstream.core import forgetting, moves, rng, sweep, weights
from scstream.core.assign import AssignmentStats
from scstream.core.state import Batch
from scstream.datasets import drifting_gaussians
from scstream.families import Gaussian
from tests.native.plans import MODES, ROWS, gaussian_rows, plan_for

pytestmark = pytest.mark.skipif(
    native.compiled() is None, reason="the compiled kernels are switched off or not built"
)
KERNELS = native.compiled()
INSTRUCTION_SETS = [] if KERNELS is None else KERNELS.available()


@pytest.fixture(params=INSTRUCTION_SETS)
def isa(request):
    before = KERNELS.isa()
    KERNELS.choose(request.param)
    yield request.param
    KERNELS.choose(before)


def choices(family, batch, plan, n_threads=1):
    rows = ThreadExecutor(n_threads).load(family, batch)
    tally = rows.assign(plan)
    names = np.arange(2 * len(plan.clusters)).reshape(-1, 2)
    return rows.labels(names)[0], tally


def assert_native_equals_numpy(family, batch, plan):
    label, tally = choices(family, batch, plan)
    with native.using("numpy"):
        expected, sums = choices(family, batch, plan)
    np.testing.assert_array_equal(label, expected)
    for field in fields(AssignmentStats):
        one, two = getattr(tally, field.name), getattr(sums, field.name)
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-7, err_msg=field.name)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("shape", [(700, 2, 20), (300, 10, 7), (200, 17, 5), (37, 40, 3)])
def test_assignment_gives_the_same_labels_and_sums(isa, kind, mode, shape):
    n, d, k = shape
    family, X, label = ROWS[kind](np.random.default_rng(n + d), n, d, k)
    plan = plan_for(family, X, label, k, **MODES[mode])
    assert_native_equals_numpy(family, Batch(X, 0.0), plan)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 90),
    d=st.integers(1, 20),
    k=st.integers(1, 40),
    mode=st.sampled_from(sorted(MODES)),
    kind=st.sampled_from(sorted(ROWS)),
    weighted=st.booleans(),
)
def test_any_shape_and_weights_give_the_same_result(*, seed, n, d, k, mode, kind, weighted):
    random = np.random.default_rng(seed)
    family, X, label = ROWS[kind](random, n, d, k)
    weight = random.integers(0, 3, size=n) * 0.7 if weighted else None
    assert_native_equals_numpy(
        family, Batch(X, 0.0, weight), plan_for(family, X, label, k, **MODES[mode])
    )


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("mode", MODES)
def test_the_number_of_threads_changes_no_bit(kind, mode):
    """Three slices on one, two and three threads; enough work for all of them."""
    family, X, label = ROWS[kind](np.random.default_rng(3), 10_000, 12, 30)
    plan = plan_for(family, X, label, 30, **MODES[mode])
    one = choices(family, Batch(X, 0.0), plan)
    for n_threads in (2, 3):
        many = choices(family, Batch(X, 0.0), plan, n_threads)
        np.testing.assert_array_equal(one[0], many[0])
        for field in fields(AssignmentStats):
            same = np.array_equal(getattr(one[1], field.name), getattr(many[1], field.name))
            assert same, field.name


@pytest.mark.slow
@pytest.mark.parametrize("shift", [0.0, 1e5])
def test_float32_disagrees_on_less_than_one_row_in_ten_thousand(isa, shift):
    """20,000 rows in 128 dimensions; the origin of the family follows the rows."""
    family, X, label = gaussian_rows(np.random.default_rng(5), 20_000, 128, 30)
    family = Gaussian(
        mean=family.mean + shift, kappa=0.05, nu=131.0, psi=family.psi, origin=family.mean + shift
    )
    for mode in ("sampling", "settling"):
        labels = [
            choices(
                family,
                Batch(X + shift, 0.0),
                plan_for(family, X + shift, label, 30, single=single, **MODES[mode]),
            )[0]
            for single in (False, True)
        ]
        assert np.mean(labels[0] != labels[1]) <= 1e-4


@pytest.mark.parametrize("d", [1, 2, 3, 5, 8, 16, 17, 30, 65])
def test_gaussian_methods_agree(isa, d):
    family, X, label = gaussian_rows(np.random.default_rng(d), 50 * d + 60, d, 11)
    stats = family.stats(X, label, 11)
    shift = np.random.default_rng(0).normal(size=(11, d))
    subclusters = np.stack([0.4 * stats, 0.6 * stats], axis=1)
    still = np.arange(11) % 3 > 0
    velocity_noise, age = np.full(11, 0.01), np.arange(11.0)

    def everything():
        draws = rng.ClusterDraws(5, np.arange(11))
        return {
            "stats": family.stats(X, label, 11),
            "marginal": family.log_marginal(stats),
            "unions": family.log_marginal_of_unions(stats, np.arange(5), np.arange(5, 10)),
            "predictive_params": family.predictive_params(stats),
            "sample_posterior": family.sample_posterior(stats, draws),
            "likelihood": family.log_likelihood(
                family.sample_posterior(stats, rng.ClusterDraws(5, np.arange(11))), X
            ),
            "density": family.log_predictive(family.predictive_params(stats), X),
            "means": family.means(stats),
            "stds": family.stds(stats),
            "translate": family.translate(stats, shift),
            "split": moves.log_split_ratio(family, 1.5, subclusters[:, 0], subclusters[:, 1]),
            "likely": np.column_stack(moves.likely_unions(family, 1.5, stats, 3)),
            "drifted": forgetting.drifted(family, subclusters, shift, velocity_noise, still, 1.5),
            "corrections": np.column_stack(
                forgetting.corrections(
                    family, subclusters, 0.3 * subclusters, shift, velocity_noise, age, 1.5
                )
            ),
            "tables": np.concatenate(sweep.drawn_tables(family, subclusters, np.arange(11), 3, 4)),
        }

    found = everything()
    with native.using("numpy"):
        expected = everything()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-9, atol=1e-9, err_msg=name)


@given(
    key=st.integers(0, 2**64 - 1),
    ids=st.lists(st.integers(-1, 2**62), min_size=1, max_size=9),
    lane=st.integers(0, 2**31),
    n=st.integers(1, 7),
)
def test_random_numbers_agree(key, ids, lane, n):
    ids = np.array(ids)
    shape = np.exp(np.random.default_rng(key).normal(size=(len(ids), n)) * 3.0)
    subclusters = shape[:, :1] * np.array([0.3, 0.7])

    def everything():
        return [
            rng.uniforms(key, ids, lane),
            rng.uniforms(key, ids, ids),
            rng.normals(key, ids, lane, n),
            rng.log_gammas(key, ids, lane, shape),
            *weights.log_mean_weights(subclusters, 0.7),
            *weights.log_drawn_weights(subclusters, 0.7, key, ids),
        ]

    found = everything()
    with native.using("numpy"):
        expected = everything()
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])
    for one, two in zip(found[2:], expected[2:], strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 60), st.integers(1, 9), st.integers(1, 8))
def test_nearest_neighbours_agree(seed, n, d, n_neighbours):
    points = np.random.default_rng(seed).normal(size=(n, d))
    found = moves.neighbour_pairs(points, n_neighbours)
    with native.using("numpy"):
        expected = moves.neighbour_pairs(points, n_neighbours)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "choices_",
    [{}, {"algorithm": "paper"}, {"n_sweeps": 2}, {"family": "diagonal"}, {"kernel": None}],
)
def test_complete_streams_agree(choices_):
    """Births, splits, merges and motion, batch after batch: the same labels."""

    def run():
        model = ScStream(random_state=3, **choices_)
        stream = drifting_gaussians(n_clusters=8, n_batches=12, random_state=4)
        return np.concatenate([model.partial_fit(batch.X).labels_ for batch in stream])

    found = run()
    with native.using("numpy"):
        expected = run()
    np.testing.assert_array_equal(found, expected)


def test_numpy_computes_what_the_native_kernel_rejects():
    """Round-off made the scatter indefinite: the kernel refuses, numpy repairs."""
    family = Gaussian(mean=np.zeros(2), kappa=1e-6, nu=4.0, psi=1e-6 * np.eye(2))
    stats = np.array([[10.0, 100.0, 100.0, 999.0, 1000.0, 999.0]])
    with pytest.raises(KERNELS.Refused):
        family.kernel.log_marginal(stats)
    found = family.log_marginal(stats)
    with native.using("numpy"):
        np.testing.assert_array_equal(found, family.log_marginal(stats))


def test_batches_without_rows():
    family, X, label = gaussian_rows(np.random.default_rng(0), 30, 3, 2)
    plan = plan_for(family, X, label, 2, **MODES["arriving"])
    labels, tally = choices(family, Batch(X[:0], 0.0), plan)
    assert len(labels) == 0
    assert not tally.stats.any()


def test_native_kernels_check_their_arguments():
    family, X, label = gaussian_rows(np.random.default_rng(0), 30, 3, 2)
    with pytest.raises(ValueError, match="width"):
        family.kernel.log_marginal(np.zeros((4, 3)))
    with pytest.raises(ValueError, match="group"):
        family.kernel.stats(X, label + 5, 2, None)
    with pytest.raises(ValueError, match="weight"):
        family.kernel.stats(X, label, 2, np.ones(3))
    with pytest.raises(ValueError, match="instruction set"):
        KERNELS.choose("abacus")


def test_another_process_can_select_the_same_kernels(isa):
    assert native.in_use() == isa
    native.use("numpy")
    assert (native.in_use(), native.compiled()) == ("numpy", None)
    native.use(isa)
    assert native.in_use() == isa
    with pytest.raises(
        ImportError, match=f"should be 'abacus', but .* offer {INSTRUCTION_SETS[0]}"
    ):
        native.use("abacus")
