"""The compiled kernels against the numpy kernels: equal labels, equal sums up to round-off."""

from __future__ import annotations

import inspect
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scstream import ScStream
from scstream.compute.threads import ThreadExecutor
from scstream.core import paper
from scstream.core.assign import AssignmentStats
from scstream.core.state import Batch
from scstream.datasets import drifting_gaussians
from scstream.errors import InputError
from scstream.families import Gaussian
from scstream.kernels import (
    REFERENCE,
    ClusterDraws,
    Kernels,
    adopt_kernels,
    choose_kernels,
    kernels_in_use,
)
from scstream.kernels.native import Native, available_isas, load_native, select_isa
from tests.frozen.digests import on_kernels
from tests.native.params import MODES, ROWS, gaussian_rows, params_for

pytestmark = pytest.mark.skipif(load_native() is None, reason="the compiled kernels are not built")
NATIVE = load_native()


@pytest.fixture(params=available_isas())
def isa(request):
    before = NATIVE.name
    select_isa(request.param)
    yield request.param
    select_isa(before)


def assigned(family, batch, params, n_threads=1):
    rows = ThreadExecutor(n_threads).load(family, batch)
    sums = rows.assign(params)
    ids = np.arange(2 * len(params.clusters)).reshape(-1, 2)
    return rows.labels(ids)[0], sums


def assert_native_equals_numpy(family, batch, params):
    native = family.with_kernels(NATIVE)
    assert native.compiled is not None
    label, found = assigned(native, batch, params)
    expected, sums = assigned(family, batch, params)
    np.testing.assert_array_equal(label, expected)
    for field in fields(AssignmentStats):
        one, two = getattr(found, field.name), getattr(sums, field.name)
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-7, err_msg=field.name)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("shape", [(700, 2, 20), (300, 10, 7), (200, 17, 5), (37, 40, 3)])
def test_assignment_gives_the_same_labels_and_sums(isa, kind, mode, shape):
    n, d, k = shape
    family, X, label = ROWS[kind](np.random.default_rng(n + d), n, d, k)
    params = params_for(family, X, label, k, **MODES[mode])
    assert_native_equals_numpy(family, Batch(X, 0.0), params)


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
        family, Batch(X, 0.0, weight), params_for(family, X, label, k, **MODES[mode])
    )


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("mode", MODES)
def test_the_number_of_threads_changes_no_bit(kind, mode):
    """Three slices on one, two and three threads; enough work for all of them."""
    family, X, label = ROWS[kind](np.random.default_rng(3), 10_000, 12, 30)
    family = family.with_kernels(NATIVE)
    params = params_for(family, X, label, 30, **MODES[mode])
    one = assigned(family, Batch(X, 0.0), params)
    for n_threads in (2, 3):
        many = assigned(family, Batch(X, 0.0), params, n_threads)
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
    ).with_kernels(NATIVE)
    for mode in ("sampling", "reporting"):
        labels = [
            assigned(
                family,
                Batch(X + shift, 0.0),
                params_for(family, X + shift, label, 30, single=single, **MODES[mode]),
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
    active = np.arange(11) % 3 > 0
    velocity_noise, age = np.full(11, 0.01), np.arange(11.0)

    def everything(family):
        kernels = family.kernels

        def draws():
            return ClusterDraws(kernels, 5, np.arange(11))

        return {
            "stats": family.stats(X, label, 11),
            "marginal": family.log_marginal(stats),
            "unions": family.log_marginal_of_unions(stats, np.arange(5), np.arange(5, 10)),
            "predictive_params": family.predictive_params(stats),
            "sample_posterior": family.sample_posterior(stats, draws()),
            "likelihood": family.log_likelihood(family.sample_posterior(stats, draws()), X),
            "density": family.log_predictive(family.predictive_params(stats), X),
            "means": family.means(stats),
            "stds": family.stds(stats),
            "translate": family.translate(stats, shift),
            "split": kernels.log_split_ratio(family, 1.5, subclusters[:, 0], subclusters[:, 1]),
            "likely": np.column_stack(kernels.likely_unions(family, 1.5, stats, 3)),
            "moved": kernels.move_clusters(family, subclusters, shift, velocity_noise, active, 1.5),
            "motion": np.column_stack(
                kernels.estimate_motion(
                    family, subclusters, 0.3 * subclusters, shift, velocity_noise, age, 1.5
                )
            ),
            "params": np.concatenate(
                kernels.sample_cluster_params(family, subclusters, np.arange(11), 3, 4)
            ),
        }

    found, expected = everything(family.with_kernels(NATIVE)), everything(family)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-9, atol=1e-9, err_msg=name)


@given(
    key=st.integers(0, 2**64 - 1),
    ids=st.lists(st.integers(-1, 2**62), min_size=1, max_size=9),
    counter=st.integers(0, 2**31),
    n=st.integers(1, 7),
)
def test_random_numbers_agree(key, ids, counter, n):
    ids = np.array(ids)
    shape = np.exp(np.random.default_rng(key).normal(size=(len(ids), n)) * 3.0)
    subclusters = shape[:, :1] * np.array([0.3, 0.7])

    def everything(kernels):
        return [
            kernels.uniforms(key, ids, counter),
            kernels.uniforms(key, ids, ids),
            kernels.normals(key, ids, counter, n),
            kernels.log_gammas(key, ids, counter, shape),
            *kernels.log_mean_weights(subclusters, 0.7),
            *kernels.sample_log_weights(subclusters, 0.7, key, ids),
        ]

    found, expected = everything(NATIVE), everything(REFERENCE)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])
    for one, two in zip(found[2:], expected[2:], strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 60), st.integers(1, 9), st.integers(1, 8))
def test_nearest_neighbours_agree(seed, n, d, n_neighbours):
    points = np.random.default_rng(seed).normal(size=(n, d))
    found = NATIVE.neighbour_pairs(points, n_neighbours)
    np.testing.assert_array_equal(found, REFERENCE.neighbour_pairs(points, n_neighbours))


@pytest.mark.parametrize(
    "choices",
    [{}, {"algorithm": "paper"}, {"n_sweeps": 2}, {"family": "diagonal"}, {"kernel": None}],
)
def test_complete_streams_agree(choices, monkeypatch):
    """Births, splits, merges and motion, batch after batch: the same labels."""
    monkeypatch.setattr(paper, "_START_SWEEPS", 100)

    def run(kernels):
        stream = drifting_gaussians(n_clusters=8, n_batches=12, random_state=4)
        model = ScStream(random_state=3, **choices)
        with on_kernels(kernels):
            labels = [model.partial_fit(batch.X).labels_ for batch in stream]
        assert model.family_.kernels is choose_kernels(kernels)
        return np.concatenate(labels)

    np.testing.assert_array_equal(run("native"), run("numpy"))


def test_numpy_computes_what_the_native_kernel_rejects():
    """Round-off made the scatter indefinite: the kernel refuses, numpy repairs."""
    family = Gaussian(mean=np.zeros(2), kappa=1e-6, nu=4.0, psi=1e-6 * np.eye(2))
    stats = np.array([[10.0, 100.0, 100.0, 999.0, 1000.0, 999.0]])
    native = family.with_kernels(NATIVE)
    with pytest.raises(NATIVE.refused):
        native.compiled.log_marginal(stats)
    np.testing.assert_array_equal(native.log_marginal(stats), family.log_marginal(stats))


def test_batches_without_rows():
    family, X, label = gaussian_rows(np.random.default_rng(0), 30, 3, 2)
    family = family.with_kernels(NATIVE)
    params = params_for(family, X, label, 2, **MODES["first labels"])
    labels, sums = assigned(family, Batch(X[:0], 0.0), params)
    assert len(labels) == 0
    assert not sums.stats.any()


def test_native_kernels_check_their_arguments():
    family, X, label = gaussian_rows(np.random.default_rng(0), 30, 3, 2)
    compiled = family.with_kernels(NATIVE).compiled
    with pytest.raises(ValueError, match="width"):
        compiled.log_marginal(np.zeros((4, 3)))
    with pytest.raises(ValueError, match="group"):
        compiled.stats(X, label + 5, 2, None)
    with pytest.raises(ValueError, match="weight"):
        compiled.stats(X, label, 2, np.ones(3))
    with pytest.raises(ValueError, match="instruction set"):
        NATIVE.module.choose("abacus")


def test_another_process_can_select_the_same_kernels(isa):
    with on_kernels("native"):
        assert kernels_in_use() == isa
        adopt_kernels("numpy")
        assert (kernels_in_use(), choose_kernels()) == ("numpy", REFERENCE)
        adopt_kernels(isa)
        assert kernels_in_use() == isa
        with pytest.raises(
            InputError, match=f"should be 'abacus', but .* offer {available_isas()[0]}"
        ):
            adopt_kernels("abacus")


def overrides():
    """Methods of `Kernels` that the compiled kernels replace."""
    public = {name for name in vars(Kernels) if not name.startswith("_")}
    return sorted(name for name in public & set(vars(Native)) if name != "refused")


# Arguments of the methods that compute; `compile`, `name` and `threads` compute nothing.
COUNTS = np.array([[3.0, 0.0], [0.5, 7.25], [1e-9, 2e6]])
IDS = np.array([0, 5, 2**40])
POINTS = np.random.default_rng(0).normal(size=(40, 3))
ARGUMENTS = {
    "uniforms": (77, IDS, 5),
    "normals": (77, IDS, 3, 5),
    "log_gammas": (77, IDS, 2, np.array([[0.01, 0.7, 3.0], [1.0, 55.0, 1e6], [2.0, 0.3, 9.0]])),
    "log_mean_weights": (COUNTS, 0.7),
    "sample_log_weights": (COUNTS, 0.7, 77, IDS),
    "log_odds_of_two": (1.5, *np.abs(POINTS[:, :2].T), *POINTS.T),
    "neighbour_pairs": (POINTS, 4),
    "shrink": (POINTS, 0.5 + np.abs(POINTS[::-1]), np.linspace(0.0, 3.0, len(POINTS))),
}


def test_every_compiled_method_has_the_signature_of_the_reference():
    for name in overrides():
        own, reference = vars(Native)[name], vars(Kernels)[name]
        if isinstance(reference, property):
            assert isinstance(own, property), name
            continue
        assert inspect.signature(own).parameters == inspect.signature(reference).parameters, name


def test_every_compiled_method_is_compared_with_the_reference():
    assert set(overrides()) - {"compile", "name", "threads"} == set(ARGUMENTS)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_compiled_method_agrees_with_the_reference(isa, name):
    found = getattr(NATIVE, name)(*ARGUMENTS[name])
    expected = getattr(REFERENCE, name)(*ARGUMENTS[name])
    parts = (
        zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
    )
    for one, two in parts:
        assert np.shape(one) == np.shape(two)
        np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-12)


def test_a_subclass_of_a_family_is_not_compiled():
    """It may have changed a method that the compiled form of its parent would compute."""

    class Other(Gaussian):
        pass

    family = Other(mean=np.zeros(2), kappa=1.0, nu=4.0, psi=np.eye(2)).with_kernels(NATIVE)
    assert family.compiled is None


@pytest.mark.parametrize("kernels", ["native", "numpy"])
def test_a_model_keeps_its_kernels(kernels):
    """The environment is read when a model starts, and not again."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    with on_kernels(kernels):
        model = ScStream(random_state=0).partial_fit(X)
    other = "numpy" if kernels == "native" else "native"
    with on_kernels(other):
        model.partial_fit(X)
        assert model.family_.kernels is choose_kernels(kernels)
        assert ScStream(random_state=0).fit(X).family_.kernels is choose_kernels(other)


def test_unknown_kernels_are_refused(monkeypatch):
    monkeypatch.setenv("SCSTREAM_KERNELS", "abacus")
    with pytest.raises(InputError, match=r"SCSTREAM_KERNELS must be .*, not 'abacus'"):
        choose_kernels()
