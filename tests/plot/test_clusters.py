"""The picture of rows and clusters: every family, invariants instead of pixels."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from scipy import sparse

from scstream import ScStream, plot
from scstream.errors import InputError
from scstream.model import Settings
from scstream.plot.inputs import model_of
from scstream.river import ScStreamClusterer
from tests.plot.streams import FAMILIES, rows_for

pytestmark = pytest.mark.filterwarnings("error::UserWarning")


@pytest.fixture(scope="module")
def models() -> dict[str, tuple[ScStream, Any]]:
    found = {}
    for name, family in FAMILIES.items():
        rows = rows_for(name)
        found[name] = ScStream(family, random_state=0).fit(rows), rows
    return found


@pytest.fixture(autouse=True)
def no_figure_of_pyplot_is_left() -> Iterator[None]:
    assert pyplot.get_fignums() == []
    yield
    assert pyplot.get_fignums() == []


def new_axes() -> Axes:
    return Figure(figsize=(4, 3)).subplots()


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_gives_back_its_axes_with_all_rows_and_clusters(
    name: str, models: dict[str, tuple[ScStream, Any]]
) -> None:
    model, rows = models[name]
    ax = new_axes()
    assert plot.clusters(model, rows, labels=model.labels_, ax=ax) is ax
    ax.get_figure().draw_without_rendering()
    n_drawn = sum(len(marks.get_offsets()) for marks in ax.collections)
    assert n_drawn == rows.shape[0]
    assert [text.get_text() for text in ax.texts] == [str(each) for each in model.state_.ids]
    assert all(np.isfinite(marks.get_offsets()).all() for marks in ax.collections)
    assert ax.get_xlabel()


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "line"])
def test_most_rows_lie_in_the_ellipse_of_their_cluster(
    name: str, models: dict[str, tuple[ScStream, Any]]
) -> None:
    """Chebyshev in the plane: at least half of any law lies within two standard deviations."""
    model, rows = models[name]
    ax = plot.clusters(model, rows, labels=model.labels_, ax=new_axes())
    ellipses = dict(zip(model.state_.ids.tolist(), ax.patches, strict=True))
    for marks in ax.collections:
        if marks.get_label() == "no cluster":
            continue
        ellipse = ellipses[int(marks.get_label().removeprefix("cluster "))]
        inside = [ellipse.contains_point(ax.transData.transform(p)) for p in marks.get_offsets()]
        assert np.mean(inside) > 0.5


def test_two_columns_are_drawn_as_they_are() -> None:
    rows = rows_for("gaussian")[:, :2]
    table = pd.DataFrame(rows, columns=["width", "height"])
    model = ScStream(random_state=0).fit(table)
    ax = plot.clusters(model, table, ax=new_axes())
    drawn = np.concatenate([marks.get_offsets() for marks in ax.collections])
    assert sorted(map(tuple, drawn.tolist())) == sorted(map(tuple, rows.tolist()))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("width", "height")
    for ellipse, cluster in zip(ax.patches, model.clusters_, strict=True):
        assert isinstance(ellipse, Ellipse)
        assert ellipse.get_center() == pytest.approx(tuple(cluster.mean))
    assert [to_hex(e.get_edgecolor()).upper() for e in ax.patches] == [
        plot.colour_of(int(each)) for each in model.state_.ids
    ]


def test_an_ellipse_has_the_axes_of_the_covariance() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((1500, 2)) @ np.array([[3.0, 1.0], [0.0, 0.5]])
    model = ScStream(random_state=0, births=False, max_clusters=1).fit(rows)
    (ellipse,) = plot.clusters(model, ax=new_axes(), n_std=1.0).patches
    deviations = np.sqrt(np.linalg.eigvalsh(np.cov(rows.T)))
    assert isinstance(ellipse, Ellipse)
    assert sorted((ellipse.height, ellipse.width)) == pytest.approx(2 * deviations, rel=0.08)
    vector = np.linalg.eigh(np.cov(rows.T))[1][:, -1]
    turned = np.radians(ellipse.angle)
    assert abs(vector @ [np.cos(turned), np.sin(turned)]) == pytest.approx(1.0, abs=1e-3)


def test_rows_of_no_cluster_are_hollow_and_silent_clusters_dashed() -> None:
    rows = rows_for("gaussian")[:, :2]
    model = ScStream(min_batch=1, random_state=0).fit(rows)
    heard = rows[model.labels_ == 0]
    model.partial_fit(heard)
    ax = plot.clusters(model, [[1e3, 1e3], heard[0]], ax=new_axes())
    hollow = next(marks for marks in ax.collections if marks.get_label() == "no cluster")
    assert len(hollow.get_facecolor()) == 0
    assert len(hollow.get_edgecolor()) == 1
    styles = {ellipse.get_linestyle() for ellipse in ax.patches[1:]}
    assert ax.patches[0].get_linestyle() == "-"
    assert styles == {"--"}


def test_other_faces_of_a_model_draw_the_same() -> None:
    rows = rows_for("gaussian")
    model = ScStream(random_state=0).fit(rows)
    learner, _, _ = Settings(random_state=0).update(rows)
    adapter = ScStreamClusterer(buffer_size=len(rows), seed=0)
    for row in rows:
        adapter.learn_one(dict(enumerate(row)))
    faces = [model, learner, adapter, model_of(model), plot.frame(model, rows)]
    drawn = [plot.clusters(face, rows, ax=new_axes()) for face in faces]
    centres = [[patch.get_center() for patch in ax.patches] for ax in drawn]
    assert all(each == centres[0] for each in centres[1:])


def test_sparse_rows_are_drawn_like_dense_ones(models: dict[str, tuple[ScStream, Any]]) -> None:
    model, rows = models["multinomial"]
    dense = plot.clusters(model, rows, ax=new_axes())
    thin = plot.clusters(model, sparse.csr_array(rows), ax=new_axes())
    for one, other in zip(dense.collections, thin.collections, strict=True):
        assert np.asarray(one.get_offsets()) == pytest.approx(np.asarray(other.get_offsets()))


def test_many_rows_are_thinned() -> None:
    rows = rows_for("gaussian")
    model = ScStream(random_state=0).fit(rows)
    ax = plot.clusters(model, rows, ax=new_axes(), max_rows=70)
    n_drawn = sum(len(marks.get_offsets()) for marks in ax.collections)
    assert 0.5 * 70 < n_drawn <= 70


def test_without_axes_a_figure_of_pyplot_is_made() -> None:
    model = ScStream(random_state=0).fit(rows_for("gaussian"))
    ax = plot.clusters(model)
    assert pyplot.get_fignums() == [ax.get_figure().number]
    pyplot.close(ax.get_figure())


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda model, rows: plot.clusters(ScStream()), "learned nothing yet"),
        (lambda model, rows: plot.clusters(model, rows, labels=[0]), "labels"),
        (lambda model, rows: plot.clusters(model, rows[0]), "dimension"),
        (lambda model, rows: plot.clusters(model, rows[:, :1]), "columns"),
    ],
)
def test_mistakes_are_answered_with_a_sentence(
    wrong: Callable[[ScStream, Any], object], said: str
) -> None:
    rows = rows_for("gaussian")
    model = ScStream(random_state=0).fit(rows)
    with pytest.raises(InputError, match=said):
        wrong(model, rows)
