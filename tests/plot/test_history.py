"""The recorder and the pictures over time."""

from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scstream import ScStream, plot
from scstream.datasets import births_and_deaths, stationary_gaussians
from scstream.errors import InputError
from scstream.plot import History
from tests.plot.streams import FAMILIES, rows_for

OVER_TIME = (plot.weights, plot.lineage, plot.novelty)


@pytest.fixture(scope="module")
def run() -> tuple[History, ScStream]:
    history, model = History(), ScStream(random_state=0)
    stream = births_and_deaths(
        3, weight=0.2, birth_every=4, deaths=True, n_batches=20, batch_size=300, random_state=3
    )
    for time, batch in enumerate(stream):
        history.record(model.partial_fit(batch.X, time=time))
    return history, model


@pytest.fixture(autouse=True)
def no_figure_of_pyplot_is_left() -> Iterator[None]:
    yield
    assert pyplot.get_fignums() == []


def new_axes() -> Axes:
    return Figure(figsize=(6, 4), layout="constrained").subplots()


@cache
def history_of(name: str) -> History:
    history, model = History(), ScStream(FAMILIES[name], random_state=0)
    for _ in range(2):
        history.record(model.partial_fit(rows_for(name)))
    return history


def test_a_history_holds_what_the_model_said(run: tuple[History, ScStream]) -> None:
    history, model = run
    assert len(history) == 20
    assert history.time.tolist() == list(range(20))
    assert history.events == model.events_
    assert history.n_clusters[-1] == model.n_clusters_
    last = dict(zip(history.ids.tolist(), history.share()[-1], strict=True))
    for cluster in model.clusters_:
        assert last[cluster.id] == pytest.approx(cluster.share)
    gone = set(history.ids.tolist()) - set(model.clusters_.id.tolist())
    assert gone, "the stream was chosen so that clusters die"
    assert all(np.isnan(last[cluster_id]) for cluster_id in gone)
    fresh = np.nansum(history.batch_share(), axis=1) + history.novelty
    assert fresh == pytest.approx(np.ones(20))
    assert history.mean_log_density[-1] == model.info_.mean_log_density


def test_memory_is_bounded_and_the_newest_stays() -> None:
    history, model = History(max_batches=3, max_events=2), ScStream(random_state=0)
    for batch in stationary_gaussians(4, n_batches=6, batch_size=1000, random_state=0):
        history.record(model.partial_fit(batch.X))
    assert history.time.tolist() == [3.0, 4.0, 5.0]
    assert len(history.events) == 2


def test_a_batch_counts_once_and_skipped_ones_leave_their_events() -> None:
    every, seldom, model = History(), History(), ScStream(random_state=0)
    stream = births_and_deaths(3, weight=0.2, birth_every=2, n_batches=7, random_state=0)
    for number, batch in enumerate(stream):
        model.partial_fit(batch.X)
        every.record(model)
        every.record(model)
        if number % 3 == 0:
            seldom.record(model)
    assert len(every) == 7
    assert len(seldom) == 3
    assert seldom.events == every.events
    assert len({event.id for event in every.events}) >= 5


def test_a_history_belongs_to_one_model() -> None:
    history, model = History(), ScStream(random_state=0)
    for _ in range(2):
        history.record(model.partial_fit(rows_for("gaussian")))
    with pytest.raises(InputError, match="one History"):
        history.record(model.fit(rows_for("gaussian")))
    with pytest.raises(InputError, match="max_batches"):
        History(max_batches=0)


def test_a_batch_without_rows_has_no_novelty() -> None:
    history, model = History(), ScStream(random_state=0)
    history.record(model.partial_fit(rows_for("gaussian")))
    history.record(model.partial_fit(rows_for("gaussian")[:0], time=1.0))
    assert np.isnan(history.novelty).tolist() == [False, True]
    for draw in OVER_TIME:
        draw(history, ax=new_axes()).get_figure().draw_without_rendering()


@pytest.mark.parametrize("draw", OVER_TIME)
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_returns_its_axes(draw: Callable[..., Axes], name: str) -> None:
    ax = new_axes()
    assert draw(history_of(name), ax=ax) is ax
    ax.get_figure().draw_without_rendering()


@pytest.mark.parametrize("draw", OVER_TIME)
def test_an_empty_history_raises(draw: Callable[..., Axes]) -> None:
    with pytest.raises(InputError, match="history is empty"):
        draw(History())


def test_bands_add_up_to_the_rows_of_clusters(run: tuple[History, ScStream]) -> None:
    history, _ = run
    for max_n in (100, 3, 0):
        ax = plot.weights(history, ax=new_axes(), max_clusters=max_n)
        bands = [patch.get_data() for patch in ax.patches]
        assert len(bands) == min(max_n, len(history.ids)) + (max_n < len(history.ids))
        tops = np.max([band.values for band in bands], axis=0)
        assert tops == pytest.approx(np.nansum(history.share(), axis=1))
        for lower, upper in pairwise(bands):
            assert np.array_equal(lower.values, upper.baseline)


def test_the_strip_above_the_bands_is_the_number_of_clusters(run: tuple[History, ScStream]) -> None:
    history, _ = run
    (strip,) = plot.weights(history, ax=new_axes()).child_axes
    (line,) = strip.patches
    assert line.get_data().values.tolist() == history.n_clusters.tolist()
    assert plot.weights(history, ax=new_axes(), count=False).child_axes == []


def test_every_event_has_a_mark_in_the_track_of_its_cluster(
    run: tuple[History, ScStream],
) -> None:
    history, _ = run
    ax = plot.lineage(history, ax=new_axes())
    track = [int(label.get_text()) for label in ax.get_yticklabels()]
    assert track == history.ids.tolist()
    marked = {
        (float(line.get_xdata()[0]), track[int(line.get_ydata()[0])], line.get_marker())
        for line in ax.lines
        if line.get_marker() != "None"
    }
    marks = {"born": ">", "split": "^", "merged": "v", "died": "X", "returned": "o"}
    expected = {
        (e.time, e.other if e.kind in ("split", "merged") else e.id, marks[e.kind])
        for e in history.events
    }
    assert {"born"} < {event.kind for event in history.events}
    assert marked == expected


def test_tracks_end_with_their_clusters(run: tuple[History, ScStream]) -> None:
    history, _ = run
    ax = plot.lineage(history, ax=new_axes())
    for track, column in enumerate(history.share().T):
        lines = [x for x in ax.lines if len(x.get_xdata()) == 2 and set(x.get_ydata()) == {track}]
        alive = np.flatnonzero(~np.isnan(column))
        ends = np.concatenate([line.get_xdata() for line in lines])
        assert (ends.min(), ends.max()) == (alive[0] - 0.5, alive[-1] + 0.5)


def test_tracks_left_out_are_counted(run: tuple[History, ScStream]) -> None:
    history, _ = run
    ax = plot.lineage(history, ax=new_axes(), max_clusters=2)
    assert len(ax.get_yticklabels()) == 2
    assert [text.get_text() for text in ax.texts] == [
        f"{len(history.ids) - 2} smaller clusters not shown"
    ]


def test_novelty_shows_shares_and_densities(run: tuple[History, ScStream]) -> None:
    history, model = History(), ScStream(min_batch=1, random_state=0)
    rows = rows_for("gaussian")
    history.record(model.partial_fit(rows))
    odd = np.array([[500.0, 0, 0], [0, 700.0, 0]])
    history.record(model.partial_fit(np.concatenate([rows, odd])))
    ax = plot.novelty(history, ax=new_axes())
    (bars,) = ax.patches
    assert bars.get_data().values == pytest.approx(history.novelty)
    assert history.novelty[1] == pytest.approx(2 / (len(rows) + 2))
    (line,) = ax.child_axes[0].lines
    assert line.get_ydata() == pytest.approx(history.mean_log_density)
    assert plot.novelty(history, ax=new_axes(), density=False).child_axes == []
