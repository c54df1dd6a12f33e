"""Plots of a model itself, with titles, and readable for fifty clusters."""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scstream import ScStream, plot
from scstream.datasets import births_and_deaths, stationary_gaussians
from scstream.errors import InputError
from scstream.plot.profile_plot import standardised_means
from tests.plot.streams import FAMILIES, rows_for

OF_A_MODEL = (plot.clusters, plot.weights, plot.lineage, plot.profile)


@cache
def fifty() -> tuple[ScStream, plot.History]:
    """A model of fifty clusters, and its history."""
    stream = stationary_gaussians(
        50, 4, n_batches=2, batch_size=3000, separation=12.0, random_state=0
    )
    model, history = ScStream("gaussian", random_state=0), plot.History()
    model.fit_stream(stream, on_batch=history.record)
    return model, history


@cache
def model_for(name: str) -> ScStream:
    return ScStream(FAMILIES[name], random_state=0).partial_fit(rows_for(name))


def largest() -> int:
    model, _ = fifty()
    return int(model.clusters_.id[np.argmax(model.weights_)])


def new_axes() -> Axes:
    return Figure(figsize=(6, 4), layout="constrained").subplots()


@pytest.fixture(autouse=True)
def no_figure_of_pyplot_is_left() -> Iterator[None]:
    yield
    pyplot.close("all")


@pytest.mark.parametrize("draw", OF_A_MODEL)
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_is_drawn_from_its_model(draw: Callable[..., Axes], name: str) -> None:
    ax = new_axes()
    assert draw(model_for(name), ax=ax) is ax
    assert ax.get_title(loc="left")


@pytest.mark.parametrize("draw", OF_A_MODEL)
def test_a_title_of_the_user_stays(draw: Callable[..., Axes]) -> None:
    for loc in ("left", "center", "right"):
        ax = new_axes()
        ax.set_title("mine", loc=loc)
        draw(model_for("gaussian"), ax=ax)
        assert [ax.get_title(loc=each) for each in ("left", "center", "right")].count("") == 2
        assert ax.get_title(loc=loc) == "mine"


def test_plots_over_time_have_titles() -> None:
    for draw in (plot.weights, plot.lineage, plot.novelty):
        assert draw(fifty()[1], ax=new_axes()).get_title(loc="left")
    assert plot.boxes({"a": [1.0]}, ax=new_axes()).get_title(loc="left")


def test_a_plot_that_needs_a_history_says_so() -> None:
    with pytest.raises(InputError, match=r"on_batch=history\.record"):
        plot.novelty(fifty()[0], ax=new_axes())
    with pytest.raises(InputError, match="learn a batch"):
        plot.profile(ScStream(), ax=new_axes())


@pytest.mark.parametrize("draw", [plot.weights, plot.lineage, plot.profile])
def test_labels_of_fifty_clusters_do_not_overlap(draw: Callable[..., Axes]) -> None:
    ax = draw(fifty()[0], max_clusters=50)
    figure = ax.get_figure()
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
    assert len(boxes) == 50
    heights = [box.height for box in boxes]
    assert min(heights) > 5
    for one, other in combinations(boxes, 2):
        assert not one.overlaps(other)


def test_names_on_the_map_do_not_overlap_and_the_largest_are_there() -> None:
    model, _ = fifty()
    ax = plot.clusters(model, ax=new_axes(), names={largest(): "the largest cluster of all fifty"})
    ax.get_figure().draw_without_rendering()
    names = [text for text in ax.texts if "without a name" not in text.get_text()]
    assert "the largest cluster of all fifty" in [text.get_text() for text in names]
    for one, other in combinations([text.get_window_extent() for text in names], 2):
        assert not one.shrunk(0.9, 0.9).overlaps(other.shrunk(0.9, 0.9))
    left_out = 50 - len(names)
    notes = [text.get_text() for text in ax.texts if text not in names]
    assert notes == ([f"{left_out} smaller clusters without a name here"] if left_out else [])


def test_fifty_looks_of_areas_and_markers() -> None:
    bars = plot.weights(fifty()[0], ax=new_axes(), max_clusters=50).patches
    looks = [(bar.get_facecolor(), bar.get_hatch()) for bar in bars]
    assert len(looks) == 50
    assert len(set(looks)) >= 42


def test_bars_are_shares_and_the_rest_is_told() -> None:
    model, _ = fifty()
    ax = plot.weights(model, ax=new_axes(), max_clusters=20)
    widths = [bar.get_width() for bar in ax.patches]
    assert widths == pytest.approx(sorted(model.weights_, reverse=True)[:20])
    rest = 1.0 - sum(widths)
    assert [text.get_text() for text in ax.texts] == [f"30 others, together {rest:.0%}"]


def test_thin_bands_are_listed() -> None:
    _, history = fifty()
    ax = plot.weights(history, ax=new_axes(), max_clusters=20, names={largest(): "largest"})
    listed = [text.get_text() for text in ax.get_legend().get_texts()]
    assert len(listed) == 21
    assert listed[0] == f"{len(history.ids) - 20} others"
    assert "largest" in listed
    assert plot.weights(history, ax=new_axes(), max_clusters=0).get_legend() is None


def test_names_that_people_gave_are_used() -> None:
    model = ScStream(random_state=0).fit(rows_for("gaussian"))
    first = int(model.clusters_.id[0])
    model.name(first, "billing")
    for draw in (plot.weights, plot.lineage, plot.profile):
        assert "billing" in [x.get_text() for x in draw(model, ax=new_axes()).get_yticklabels()]
    assert "billing" in [text.get_text() for text in plot.clusters(model, ax=new_axes()).texts]


def test_lives_of_a_model_are_those_of_its_history() -> None:
    history, model = plot.History(), ScStream(random_state=0)
    stream = births_and_deaths(
        3, weight=0.2, birth_every=4, deaths=True, n_batches=20, batch_size=300, random_state=3
    )
    model.fit_stream(stream, on_batch=history.record)
    ax = plot.lineage(model, ax=new_axes())
    tracks = [int(label.get_text()) for label in ax.get_yticklabels()]
    assert tracks == history.ids.tolist()
    alive = ~np.isnan(history.share())
    for track, cluster_id in enumerate(tracks):
        lines = [
            line.get_xdata()
            for line in ax.lines
            if len(line.get_xdata()) == 2 and set(line.get_ydata()) == {track}
        ]
        column = alive[:, history.ids == cluster_id][:, 0]
        times = history.time[column]
        assert min(map(min, lines)) == times[0]
        after = history.time[history.time > times[-1]]
        assert max(map(max, lines)) == (after[0] if len(after) else times[-1])


def test_a_profile_is_standardised() -> None:
    rng = np.random.default_rng(0)
    group = rng.integers(3, size=900)
    rows = np.stack([1000.0 * group, np.zeros(900), -0.001 * (group == 2)], axis=1)
    rows += rng.normal(size=(900, 3)) * [100.0, 1.0, 0.0001]
    table = pytest.importorskip("pandas").DataFrame(rows, columns=["price", "noise", "rate"])
    model = ScStream("diagonal", prior="weak", random_state=0).fit(table)
    values, columns = standardised_means(model.model_)
    assert columns == ["price", "noise", "rate"]
    assert model.weights_ @ values == pytest.approx(np.zeros(3), abs=1e-6)
    labels = model.predict(table)
    expected = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    for cluster_id, found in zip(model.clusters_.id, values, strict=True):
        assert found == pytest.approx(expected[labels == cluster_id].mean(axis=0), abs=0.1)
    ax = plot.profile(model, ax=new_axes(), max_features=2)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["price", "rate"]
    assert "the 2 most different of 3 columns" in ax.get_title(loc="left")
    drawn = ax.images[0].get_array()
    order = np.argsort(-model.weights_, kind="stable")
    assert np.array_equal(drawn, values[order][:, [0, 2]])
