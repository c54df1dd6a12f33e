"""Laws of views: axes stay until a reader asks for others, and cost no more for many readers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
import pytest

from scstream.serve import live as module
from scstream.serve.history import HistoryCursor
from scstream.serve.live import Live
from scstream.serve.views import N_VIEWS, Views
from tests.page.stage import Crowd, Show


def eager_live() -> Live:
    seconds = count()
    return Live(clock=lambda: float(next(seconds)))


def crowd(n_clusters: int = 12, n_columns: int = 6) -> Crowd:
    return Crowd(eager_live(), n_clusters=n_clusters, n_columns=n_columns, n_rows=200)


def pictures(live: Live, learn: Any, view: str, n: int) -> Iterator[dict[str, Any]]:
    """The pictures that a reader of a view gets, one after each batch."""

    async def read() -> list[dict[str, Any]]:
        stream, found = live.messages(view), []
        for _ in range(n):
            learn()
            text = await anext(stream)
            data = text.split("event: picture\ndata: ")[1].split("\n")[0]
            found.append(json.loads(data))
        await stream.aclose()
        return found

    return iter(asyncio.run(read()))


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVERY", 0.001)
    monkeypatch.setattr(module, "_PAUSE", 0)


def test_axes_stay_while_clusters_come_and_go() -> None:
    stage = crowd()
    found = list(pictures(stage.live, stage.learn, "", 60))
    assert len({tuple(each["axes"]) for each in found}) == 1
    assert {each["view"]["fitted"] for each in found} == {1}
    assert found[0]["shown"]["id"] != found[-1]["shown"]["id"]


def test_a_cluster_that_does_not_move_stays_where_it_is() -> None:
    """Its mean is that of a few hundred drawn rows: it moves by a fraction of its width."""
    stage = crowd()
    for _ in range(30):
        stage.learn()
    first, *_, last = pictures(stage.live, stage.learn, "fit", 20)
    place = [dict(zip(p["shown"]["id"], p["shown"]["place"], strict=True)) for p in (first, last)]
    both = sorted(set(place[0]) & set(place[1]))[:5]  # heavy for long
    assert np.abs(np.subtract(*([p[id] for id in both] for p in place))).max() < 0.3


def test_axes_that_follow_turn_and_a_fit_begins_anew() -> None:
    stage = crowd()
    follow = list(pictures(stage.live, stage.learn, "follow", 40))
    assert len({tuple(each["axes"]) for each in follow}) > 5
    held = next(pictures(stage.live, stage.learn, "", 1))
    fit = next(pictures(stage.live, stage.learn, "fit", 1))
    assert fit["view"]["number"] == held["view"]["number"] + 1
    assert fit["view"]["fitted"] == stage.batch and not fit["view"]["poor"]
    again = next(pictures(stage.live, stage.learn, str(held["view"]["number"]), 1))
    assert again["axes"] == held["axes"]


def test_axes_that_show_too_little_say_so() -> None:
    stage = crowd()
    view = next(pictures(stage.live, stage.learn, "", 1))["view"]
    assert not view["poor"]
    stage.centres[:] = stage.centres[:, ::-1]
    found = list(pictures(stage.live, stage.learn, str(view["number"]), 60))
    assert found[-1]["view"]["poor"] and found[-1]["view"]["fitted"] == view["fitted"]


def test_axes_of_too_few_clusters_do_not_stay() -> None:
    show, rng = Show(eager_live(), half_life=None), np.random.default_rng(0)
    centres = 12.0 * np.eye(5)

    def learn() -> None:
        picked = rng.integers(1 + min(show.batch // 5, 4), size=200)
        show.learn(centres[picked] + rng.normal(size=(200, 5)))

    found = list(pictures(show.live, learn, "", 30))
    fitted = [each["clusters"] for each in found if each["view"]["fitted"] == each["batch"]]
    assert fitted == [1, 2, 3] and found[-1]["clusters"] == 5


def test_readers_share_a_view_unless_they_want_another() -> None:
    views = Views()
    with (
        views.reading("") as first,
        views.reading("") as second,
        views.reading("nonsense") as third,
    ):
        assert first is second is third and views.n_read == 1
        with views.reading("fit") as other, views.reading(str(other.number)) as same:
            assert other is not first and same is other and views.n_read == 2
    assert views.n_read == 0


def test_the_number_of_views_is_bounded_and_those_that_are_read_stay() -> None:
    views = Views()
    with views.reading("") as kept:
        for _ in range(5 * N_VIEWS):
            with views.reading("fit"):
                pass
        with views.reading(str(kept.number)) as again:
            assert again is kept
        assert len(views._held) == N_VIEWS


def test_clusters_are_ranked_by_their_share_of_new_rows() -> None:
    stage = crowd()
    stage.phase[:] = 0.0
    for _ in range(40):
        stage.learn()
    stage.weight[:] = 0.01
    stage.weight[7], heavy = 1.0, stage.ids[7]
    for _ in range(12):
        stage.learn()
    shown = stage.live.picture()["shown"]
    assert shown["id"][0] == heavy
    assert shown["present"] == sorted(shown["present"], reverse=True)
    assert shown["present"][0] > 0.8 > shown["share"][0]


def test_messages_are_bounded_for_any_number_of_clusters() -> None:
    """400 clusters are shown of 900; the first message has the whole history."""
    stage = Crowd(eager_live(), n_clusters=900, n_columns=20, n_rows=2000)
    for _ in range(30):
        stage.learn()
    picture = json.dumps(stage.live.picture(), separators=(",", ":"))
    changes = stage.live.changes(HistoryCursor())
    assert len(stage.live.picture()["shown"]["id"]) == 400 and len(picture) < 150_000
    assert max(len(json.dumps(each)) for each in changes["summaries"]) < 6_000
    assert len(json.dumps(changes["lineage"])) < 60_000


def test_the_tree_is_that_of_the_model() -> None:
    stage = crowd()
    assert stage.live.tree() == "null"
    for _ in range(9):
        version = stage.learn()
    tree = json.loads(stage.live.tree())
    assert tree["ids"] == version.model.state.ids.tolist() and len(tree["joins"]) == 11
    assert np.allclose(tree["joins"], version.model.hierarchy.linkage[:, :3], rtol=1e-5)
