"""Subspaces: the density against scipy, turning and transport, the sketch, and streams."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from scstream import ScStream
from scstream.errors import InputError
from scstream.families import Subspace
from scstream.families.basis import Sketch, aligned
from scstream.metrics import adjusted_rand
from scstream.testing import check_family

RNG = np.random.default_rng(3)
ROWS = RNG.standard_normal((30, 6)) * [5.0, 3.0, 1.0, 1.0, 0.5, 0.5] + 2.0


def one_group(family, X):
    return family.stats(X, np.zeros(len(X), dtype=int), 1)


def family_of(basis, **changed):
    q = basis.shape[1]
    prior = {"kappa": 0.5, "nu": q + 3.0, "psi": np.eye(q), "outer_kappa": 2.0}
    return Subspace(
        **{"mean": np.zeros(6), "basis": basis, "outer_variance": 0.5} | prior | changed
    )


def drawn(n, n_clusters, n_features, seed, *, spread=1.2):
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((n_clusters, n_features))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    label = rng.integers(0, n_clusters, n)
    X = centres[label] + spread / np.sqrt(n_features) * rng.standard_normal((n, n_features))
    return X / np.linalg.norm(X, axis=1, keepdims=True), label


@pytest.mark.parametrize("q", [1, 2, 6])
def test_subspaces_obey_the_laws(q):
    check_family(family_of(np.linalg.qr(RNG.standard_normal((6, 6)))[0][:, :q]), ROWS)
    check_family(Subspace.weak_prior(ROWS), ROWS)


def test_the_first_density_is_a_student_t_inside_times_a_normal_outside():
    scale = np.array([1.0, 2.0, 0.5, 1.0, 1.0, 3.0])
    family = family_of(np.eye(6)[:, :2], scale=scale, mean=np.full(6, 0.3), origin=np.ones(6))
    z = (ROWS - 0.3) / scale
    df = family.nu - 1.0
    shape = family.nu * family.psi * (family.kappa + 1.0) / (family.kappa * df)
    inside = scipy_stats.multivariate_t(shape=shape, df=df).logpdf(z[:, :2])
    outside = scipy_stats.norm(scale=np.sqrt(0.5 * (1.0 + 1.0 / 2.0))).logpdf(z[:, 2:]).sum(axis=1)
    found = family.log_predictive(family.prior_predictive, ROWS)[:, 0]
    np.testing.assert_allclose(found, inside + outside - np.log(scale).sum(), rtol=1e-10)


def turned_pair():
    """A family and the same one with one of its two directions replaced."""
    old = family_of(np.eye(6)[:, :2])
    return old, family_of(np.eye(6)[:, [0, 2]])


def test_transport_is_exact_where_the_old_subspace_knows_the_rows():
    old, new = turned_pair()
    X = ROWS.copy()
    X[:, 2:] = RNG.standard_normal(4)  # no scatter outside, but a mean
    moved = new.transported(one_group(old, X), old)
    np.testing.assert_allclose(moved, one_group(new, X), rtol=1e-9, atol=1e-9)


def test_scatter_in_new_directions_is_the_mean_scatter_outside():
    old, new = turned_pair()
    moved = new.transported(one_group(old, ROWS), old)
    covariance = new.inside.covariance_of_rows(new._inside(moved))[0]
    outside = ROWS[:, 2:].var(axis=0).mean()
    np.testing.assert_allclose(covariance, np.diag([ROWS[:, 0].var(), outside]), atol=1e-9)


def test_transported_parts_keep_the_scatter_between_them():
    old, new = turned_pair()
    far = ROWS + np.array([0.0, 0.0, 50.0, 0.0, 0.0, 0.0])
    parts = [new.transported(one_group(old, X), old) for X in (ROWS, far)]
    covariance = new.inside.covariance_of_rows(new._inside(sum(parts)))[0]
    assert covariance[1, 1] == pytest.approx(25.0**2, rel=0.01)


def test_a_basis_that_is_good_enough_stays():
    family = Subspace.weak_prior(ROWS)
    adapted = family.adapted(one_group(family, ROWS), ROWS)
    assert adapted.basis is family.basis


def test_a_new_direction_enters_the_basis():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 60)) * np.r_[np.full(30, 3.0), np.ones(30)]
    family = Subspace.weak_prior(X)
    new = np.zeros(60)
    new[59] = 1.0
    assert np.linalg.norm(new @ family.basis) < 0.5
    rows = X + 30.0 * rng.standard_normal((300, 1)) * new
    adapted = family.adapted(one_group(family, rows), rows)
    assert np.linalg.norm(new @ adapted.basis) > 0.99


def test_the_sketch_finds_the_leading_directions():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((500, 80)) * np.r_[np.linspace(20.0, 10.0, 6), np.ones(74)]
    basis = Sketch(X.T, 12).compressed().basis(6)
    exact = np.linalg.svd(X.T, full_matrices=False)[0][:, :6]
    assert np.linalg.svd(exact.T @ basis)[1].min() > 1.0 - 1e-4


def test_single_rows_are_compressed_when_there_are_enough_of_them():
    sketch = Sketch(np.zeros((10, 4)), 4)
    sizes = []
    for row in RNG.standard_normal((9, 1, 10)):
        sketch = sketch.updated(row, np.ones(1))
        sizes.append(sketch.factor.shape[1])
    assert sizes == [5, 6, 7, 4, 5, 6, 7, 4, 5]


def test_an_aligned_basis_has_the_same_span():
    old, new = (np.linalg.qr(RNG.standard_normal((8, 3)))[0] for _ in range(2))
    near = aligned(new, old)
    np.testing.assert_allclose(near @ near.T, new @ new.T, atol=1e-12)
    assert np.linalg.norm(near - old) < np.linalg.norm(new - old)
    np.testing.assert_allclose(aligned(old[:, ::-1], old), old, atol=1e-12)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"origin": np.zeros(5)}, "6 entries"),
        ({"mean": np.full(6, np.nan)}, "finite"),
        ({"outer_kappa": 0.0}, "outer_kappa"),
        ({"outer_variance": -1.0}, "outer_variance"),
        ({"scale": np.zeros(6)}, "scale"),
        ({"nu": 0.5}, "nu"),
    ],
)
def test_a_prior_that_cannot_work_is_refused(changed, message):
    with pytest.raises(InputError, match=message):
        family_of(np.eye(6)[:, :2], **changed)


def test_a_basis_must_be_orthonormal():
    with pytest.raises(InputError, match="orthogonal"):
        family_of(np.ones((6, 2)))


@pytest.mark.parametrize("n_features", [100, 384])
def test_drawn_unit_vectors_are_clustered(n_features):
    X, label = drawn(1600, 6, n_features, seed=1)
    model = ScStream("subspace", random_state=0).partial_fit(X[:1000])
    assert adjusted_rand(label[1000:], model.predict(X[1000:])) > 0.95


def test_a_model_file_holds_the_basis_and_the_sketch(tmp_path):
    X, _ = drawn(900, 6, 40, seed=4)
    model = ScStream("subspace", random_state=0).partial_fit(X[:300]).partial_fit(X[300:600])
    model.save(tmp_path / "model.scs")
    loaded = ScStream.load(tmp_path / "model.scs")
    left, right = (m.partial_fit(X[600:]).predict(X) for m in (model, loaded))
    np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("n_rows", [1, 2, 10])
def test_a_stream_may_start_with_few_rows(n_rows):
    X, _ = drawn(1000, 4, 40, seed=5, spread=0.5)
    model = ScStream("subspace", random_state=0).partial_fit(X[:n_rows])
    for rows in np.array_split(X[n_rows:], 5):
        model.partial_fit(rows)
    assert np.isfinite(model.score_samples(X)).all()


def test_a_column_that_dwarfs_the_others_does_not_hide_the_clusters():
    X, label = drawn(900, 5, 40, seed=6, spread=0.6)
    X[:, 0] = 1e9 * RNG.standard_normal(len(X))
    X[:, 1] = 1e-9 * RNG.standard_normal(len(X))
    X[:, 2] = 7.0
    model = ScStream("subspace", random_state=0).partial_fit(X[:600])
    assert adjusted_rand(label[600:], model.predict(X[600:])) > 0.9


def test_other_columns_keep_their_sizes():
    X = RNG.standard_normal((200, 40)) * np.linspace(0.5, 2.0, 40)
    assert np.ptp(Subspace.weak_prior(X).scale) == 0.0


def test_new_clusters_are_found_although_the_first_batch_did_not_show_them():
    X, label = drawn(4000, 12, 200, seed=2, spread=0.8)
    model = ScStream("subspace", random_state=0).partial_fit(X[:1500][label[:1500] < 4])
    for rows in np.array_split(X[1500:3500], 4):
        model.partial_fit(rows)
    basis = model.family_.basis
    centres = np.array([X[label == k].mean(axis=0) for k in range(12)])
    assert (np.linalg.norm(centres @ basis, axis=1) > 0.9 * np.linalg.norm(centres, axis=1)).all()
    assert adjusted_rand(label[3500:], model.predict(X[3500:])) > 0.8


def test_shrinkage_outside_is_learned():
    rng = np.random.default_rng(0)
    near = rng.standard_normal((400, 60)) * np.r_[np.full(30, 3.0), np.ones(30)]
    far = near.copy()
    group = rng.integers(0, 8, 400)
    far[:, 30:] += 2.0 * rng.standard_normal((8, 30))[group]
    kappas = []
    for X in (near, far):
        family = Subspace.weak_prior(near)
        kappas.append(family.adapted(family.stats(X, group, 8), near).outer_kappa)
    assert kappas[1] < 3.5
    assert kappas[0] > 100.0
