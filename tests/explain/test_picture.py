"""The HTML of an estimator: a picture without scripts, and the parameters of scikit-learn."""

from xml.etree import ElementTree

import numpy as np
import pytest
import sklearn

from scstream import ScStream
from scstream.families import Direction
from scstream.view.svg import cluster_svg
from tests.explain.drawn import FAMILIES, learned
from tests.explain.test_tables import HOSTILE

SVG = "{http://www.w3.org/2000/svg}"


def svg_of(html: str) -> ElementTree.Element:
    return ElementTree.fromstring(html[html.index("<svg") : html.index("</svg>") + 6])


@pytest.mark.parametrize("family", FAMILIES)
def test_every_cluster_is_an_ellipse_inside_the_picture(family: str) -> None:
    model, _ = learned(family, 0)
    before = model.model_.to_bytes()
    picture = svg_of(model._repr_html_())
    ellipses = picture.findall(f"{SVG}ellipse")
    assert len(ellipses) == model.n_clusters_
    wide, high = float(picture.attrib["width"]), float(picture.attrib["height"])
    for ellipse in ellipses:
        assert 0 < float(ellipse.attrib["cx"]) < wide
        assert 0 < float(ellipse.attrib["cy"]) < high
        assert 0 < float(ellipse.attrib["ry"]) < 1e4
    tags = {element.tag.removeprefix(SVG) for element in picture.iter()}
    assert tags == {"svg", "rect", "ellipse", "circle", "text"}
    assert model.model_.to_bytes() == before


def test_an_ellipse_is_two_standard_deviations_of_its_cluster() -> None:
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [100.0, 0.0], [0.0, 100.0]])
    X = np.concatenate([rng.normal(size=(2000, 2)) * [4.0, 1.0] + centre for centre in centres])
    model = ScStream("diagonal", random_state=0).partial_fit(X)
    assert model.n_clusters_ == 3
    picture = svg_of(model._picture_html())
    ellipses = [element.attrib for element in picture.findall(f"{SVG}ellipse")]
    x = sorted(float(each["cx"]) for each in ellipses)
    y = sorted(float(each["cy"]) for each in ellipses)
    unit = (x[-1] - x[0]) / 100.0, (y[-1] - y[0]) / 100.0
    for each in ellipses:
        radii = float(each["rx"]), float(each["ry"])
        assert radii == pytest.approx((8.0 * unit[0], 2.0 * unit[1]), rel=0.1, abs=0.2)


def test_one_column_and_one_cluster_are_drawn() -> None:
    X = np.random.default_rng(0).normal(size=(100, 1))
    assert len(svg_of(ScStream(random_state=0).fit(X)._repr_html_()).findall(f"{SVG}ellipse")) == 1
    html = ScStream(random_state=0).fit(np.tile(X, 5))._repr_html_()
    assert "1 cluster after 1 batch; " in html


def test_many_clusters_of_many_columns_stay_small() -> None:
    rng = np.random.default_rng(0)
    family = Direction.weak_prior(rng.normal(size=(50, 384)))
    stats = np.column_stack([rng.uniform(5, 50, 300), rng.normal(size=(300, 384))])
    svg = cluster_svg(family, stats, np.arange(300), features=[f"x{d}" for d in range(384)])
    assert len(svg) < 20_000
    assert svg.count("<ellipse") == 40
    assert cluster_svg(family, stats[:0], np.arange(0), features=[]) == ""


@pytest.mark.needs_extra
def test_hostile_names_are_escaped() -> None:
    pandas = pytest.importorskip("pandas")
    _, X = learned("gaussian", 0)
    table = pandas.DataFrame(X, columns=[f"{HOSTILE}{d}" for d in range(X.shape[1])])
    model = ScStream(random_state=0).partial_fit(table)
    for id in model.clusters_.id.tolist():
        model.name(id, "<img src=x>")
    picture = model._picture_html()
    assert "<img" not in picture
    assert "&lt;img" in picture
    svg_of(picture)
    assert "<img src=x" not in model._repr_html_()


def test_scikit_learn_shows_the_parameters() -> None:
    model = ScStream(half_life=7.5, random_state=0)
    assert "<ellipse" not in model._repr_html_()
    model.fit(np.random.default_rng(0).normal(size=(60, 2)))
    bundle = model._repr_mimebundle_()
    assert bundle["text/html"].startswith("<div><svg")
    assert "7.5" in bundle["text/html"]
    assert bundle["text/plain"] == repr(model)
    with sklearn.config_context(display="text"):
        assert not hasattr(model, "_repr_html_")
        assert "text/html" not in model._repr_mimebundle_()
