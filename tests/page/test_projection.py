"""Laws of the picture: every family can be drawn, and the plane never jumps."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from scstream.core.state import State
from scstream.families import (
    Bernoulli,
    Categorical,
    Diagonal,
    Gaussian,
    Multinomial,
    Poisson,
    Product,
)
from scstream.families.base import Family
from scstream.serve.memory import LabelledRows
from scstream.serve.picture import N_SHOWN, render
from scstream.view.columns import columns_of
from scstream.view.projection import TURN, Projection
from tests.page.stage import model_version_of, state_of

RNG = np.random.default_rng(0)
COUNTS = RNG.poisson(3.0, size=(60, 5)).astype(float)
SHAPES: dict[str, tuple[Family, Any]] = {
    "gaussian": (Gaussian.weak_prior(COUNTS), COUNTS),
    "diagonal": (Diagonal.weak_prior(COUNTS), np.where(RNG.random((60, 5)) < 0.1, np.nan, COUNTS)),
    "multinomial": (Multinomial(np.ones(5)), COUNTS),
    "sparse": (Multinomial(np.ones(5)), sparse.csr_array(COUNTS)),
    "bernoulli": (Bernoulli(a=np.ones(5), b=np.ones(5)), (COUNTS > 3).astype(float)),
    "poisson": (Poisson(shape=np.ones(5), rate=np.ones(5)), COUNTS),
    "categorical": (
        Categorical(n_levels=(3, 2, 4), concentration=1.0),
        RNG.integers(0, 2, size=(60, 3)).astype(float),
    ),
    "product": (
        Product(
            [
                (Gaussian.weak_prior(COUNTS[:, :2]), [3, 0]),
                (Categorical(n_levels=(4,), concentration=1.0), [1]),
                (Poisson(shape=np.ones(1), rate=np.ones(1)), [2]),
            ]
        ),
        np.column_stack([COUNTS[:, 0], RNG.integers(0, 4, 60), COUNTS[:, 1], COUNTS[:, 2]]),
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_every_family_is_drawn_where_its_rows_are(name: str) -> None:
    family, X = SHAPES[name]
    group = np.arange(60) % 3
    stats = family.stats(X, group, 3)
    shown_rows = LabelledRows(X, group, np.arange(60.0))
    values = render(model_version_of(family, state_of(family, stats)), learned=shown_rows).values
    places = np.array(values["rows"]["place"])
    centres = np.array(values["shown"]["place"])
    ellipses = np.array(values["shown"]["covariance"]).reshape(3, 2, 2)
    assert values["shown"]["id"] == [0, 1, 2] and len(values["axes"]) == 2
    assert np.isfinite(places).all() and (np.linalg.eigvalsh(ellipses) > -1e-9).all()
    stds = np.sqrt(np.einsum("kaa->ka", ellipses))
    for k in range(3):
        middle, size = places[group == k].mean(axis=0), places[group == k].std(axis=0)
        # The prior pulls the centre towards it, and widens the ellipse, by a few rows of twenty.
        assert (np.abs(middle - centres[k]) < stds[k]).all()
        assert (size < 2.5 * stds[k]).all() and (size > stds[k] / 4).all()


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(3, 30), st.integers(1, 12))
def test_the_plane_turns_slowly_whatever_happens_to_the_clusters(
    seed: int, n_columns: int, n_clusters: int
) -> None:
    rng = np.random.default_rng(seed)
    unit = np.exp(rng.normal(size=n_columns))

    def at_random(before: Projection | None) -> Projection:
        centres = rng.normal(size=(n_clusters, n_columns)) * np.exp(rng.normal())
        return Projection.of(centres, rng.random(n_clusters), unit=unit, before=before)

    plane = at_random(None)
    for _ in range(5):
        after = at_random(plane)
        assert np.linalg.norm(after.axes - plane.axes) <= TURN * (1 + 1e-9) + 1e-12
        assert np.allclose(after.axes.T @ after.axes, np.eye(2))
        plane = after


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1))
def test_a_small_change_of_the_clusters_is_a_small_change_of_the_picture(seed: int) -> None:
    rng = np.random.default_rng(seed)
    centres, weight, unit = rng.normal(size=(6, 9)), np.ones(6), np.ones(9)
    plane = Projection.of(centres, weight, unit=unit)
    for _ in range(30):  # settle
        plane = Projection.of(centres, weight, unit=unit, before=plane)
    nudged = centres + 1e-6 * rng.normal(size=centres.shape)
    after = Projection.of(nudged, weight, unit=unit, before=plane)
    assert np.abs(after.place(nudged) - plane.place(centres)).max() < 1e-2


def test_a_mirrored_answer_of_the_algebra_does_not_flip_the_picture() -> None:
    centres = RNG.normal(size=(5, 8))
    plane = Projection.of(centres, np.ones(5), unit=np.ones(8))
    for signs in ([-1, 1], [1, -1], [-1, -1]):
        mirrored = Projection("plane", plane.centre, plane.unit, plane.axes * signs)
        after = Projection.of(centres, np.ones(5), unit=np.ones(8), before=mirrored)
        assert np.allclose(after.axes, mirrored.axes)


def test_the_plane_settles_on_the_two_directions_of_most_scatter() -> None:
    centres = np.zeros((4, 6))
    centres[1:3, 4] = 5.0, -5.0
    centres[3, 1] = 4.0
    plane = Projection.of(RNG.normal(size=(4, 6)), np.ones(4), unit=np.ones(6))
    for _ in range(100):
        plane = Projection.of(centres, np.ones(4), unit=np.ones(6), before=plane)
    assert np.abs(plane.axes[[0, 2, 3, 5]]).max() < 1e-3
    words = " ".join(plane.words([f"f{d}" for d in range(6)]))
    assert "f4" in words and "f1" in words and "f0" not in words


def test_one_cluster_is_drawn_along_its_widest_columns() -> None:
    centres = np.array([[3.0, 1.0, 4.0, 1.0]])
    wide = np.array([1.0, 7.0, 2.0, 5.0])
    plane = Projection.of(centres, np.ones(1), unit=np.ones(4), stds=wide)
    assert np.allclose(np.abs(plane.axes), np.eye(4)[:, [1, 3]])
    assert plane.words(["a", "b", "c", "d"]) == ["b 100 %", "d 100 %"]
    assert np.allclose(plane.place(centres), 0.0)


def test_two_columns_are_drawn_as_they_are_and_one_as_a_line() -> None:
    rows = RNG.normal(size=(40, 2)) * [3.0, 0.1] + [100.0, 7.0]
    family = Gaussian.weak_prior(rows)
    group = np.arange(40) % 2
    shown_rows = LabelledRows(rows, group, np.zeros(40))
    stats = family.stats(rows, group, 2)
    values = render(model_version_of(family, state_of(family, stats)), learned=shown_rows).values
    assert values["kind"] == "columns" and values["axes"] == ["f0", "f1"]
    assert np.allclose(values["rows"]["place"], rows, rtol=1e-4)
    covariance = np.array(values["shown"]["covariance"]).reshape(2, 2, 2)
    assert np.allclose(covariance, family.covariance(stats), rtol=1e-4)
    single = Gaussian.weak_prior(rows[:, :1])
    stats = single.stats(rows[:, :1], group, 2)
    shown_rows = LabelledRows(rows[:, :1], group, np.zeros(40))
    values = render(model_version_of(single, state_of(single, stats)), learned=shown_rows).values
    assert values["kind"] == "line" and np.shape(values["rows"]["place"]) == (40, 1)


def test_shares_are_as_wide_as_rows_of_as_many_draws() -> None:
    """200 rows of 40 draws: standard deviations are known to about a tenth."""
    share = np.array([0.5, 0.3, 0.2])
    rows = RNG.multinomial(40, share, size=200).astype(float)
    columns = columns_of(Multinomial(np.full(3, 0.1)))
    stats = columns.family.stats(rows, np.zeros(200, dtype=np.int64), 1)
    drawn = np.sqrt(np.diagonal(columns.covariances(stats, np.eye(3)), axis1=1, axis2=2))[0]
    assert np.allclose(drawn, columns.rows(rows).std(axis=0), rtol=0.25)


def test_of_ten_thousand_clusters_the_heaviest_are_drawn_in_no_time() -> None:
    family = Diagonal.weak_prior(RNG.normal(size=(9, 200)))
    weight = RNG.permutation(10_000) + 1.0
    stats = np.zeros((10_000, family.n_stats), dtype=np.float64)
    stats[:, 0] = weight
    stats[:, 1:] = weight[:, None]
    model_version = model_version_of(family, state_of(family, stats))
    started = time.perf_counter()
    values = render(model_version).values
    assert time.perf_counter() - started < 2.0  # 0.1 s on a machine of today
    assert values["clusters"] == 10_000 and len(values["shown"]["id"]) == N_SHOWN
    assert set(values["shown"]["id"]) == set(np.argsort(-weight)[:N_SHOWN].tolist())


def test_of_full_covariances_of_many_columns_only_a_few_are_drawn() -> None:
    X = RNG.normal(size=(40, 600))
    family = Gaussian(mean=np.zeros(600), kappa=0.01, nu=603.0, psi=np.eye(600))
    stats = family.stats(X, np.arange(40) % 20, 20)
    model_version = model_version_of(family, state_of(family, stats))
    values = render(model_version, learned=LabelledRows(X, np.arange(40) % 20, np.zeros(40))).values
    assert len(values["shown"]["id"]) == 20 and len(values["shown"]["covariance"]) == 13
    assert [trait[2] is None for traits in values["shown"]["traits"] for trait in traits][-1]


def test_a_model_without_clusters_is_drawn_as_none() -> None:
    family = Gaussian.weak_prior(COUNTS)
    values = render(model_version_of(family, State.empty(family))).values
    assert values["clusters"] == 0 and values["rows"] is None
