"""Laws of `Live`: bounded, cheap when nobody looks, the same for every reader, and over in time."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import threading
import time
import tracemalloc
from dataclasses import replace
from itertools import count
from typing import Any

import httpx
import numpy as np
import pytest
from scipy import sparse

from scstream.core.state import Event
from scstream.core.steering import Edit
from scstream.families import Multinomial
from scstream.preprocess import Steps
from scstream.serve import live as module
from scstream.serve import views
from scstream.serve.history import HistoryCursor
from scstream.serve.live import Live
from scstream.stream.model_version import ModelVersion
from tests.page.stage import Actor, Show, Stage, play

ACTORS = [
    Actor(0, 9999, (0.0, 0.0), (0.0, 0.0), (0.5, 0.3)),
    Actor(0, 30, (6.0, 6.0), (6.0, 6.0), (0.4, 0.4)),
    Actor(15, 9999, (0.0, 6.0), (0.0, 6.0), (0.3, 0.5)),
]


def eager_clock() -> Any:
    """A second passes whenever somebody looks at it."""
    seconds = count()
    return lambda: float(next(seconds))


def messages(text: str) -> dict[str, Any]:
    parts = [part.split("\n") for part in text.strip().split("\n\n")]
    return {
        lines[0].removeprefix("event: "): json.loads(lines[1].removeprefix("data: "))
        for lines in parts
    }


def test_the_history_is_what_the_model_did() -> None:
    live = Live(clock=eager_clock())
    show = Show(live, half_life=1.5)
    rows = list(play(ACTORS, n_rows=120, n_batches=60))
    model_versions = [show.learn(X) for X in rows]
    changes = live.changes(HistoryCursor())
    assert [m["clusters"] for m in changes["summaries"]] == [
        model_version.model.state.n_clusters for model_version in model_versions
    ]
    assert [m["rows"] for m in changes["summaries"]] == [120.0] * 60
    shown_rows = [(e["kind"], e["id"], e["other"]) for e in changes["events"]]
    assert shown_rows == [(e.kind, e.id, e.other) for e in model_versions[-1].model.events]
    assert {kind for kind, _, _ in shown_rows} >= {"born", "died"}
    state = model_versions[-1].model.state
    alive = {record["id"] for record in changes["lineage"] if record["end"] is None}
    assert alive == set(state.ids.tolist())
    newest = changes["summaries"][-1]
    assert np.cumsum(newest["ids"]).tolist() == state.ids.tolist()
    assert np.allclose(newest["shares"], state.weight / state.total_weight * 1e5, atol=0.51)


def test_a_follower_that_misses_batches_tells_the_same_events() -> None:
    every, some = Live(clock=eager_clock()), Live(clock=eager_clock())
    show = Show(every, half_life=1.5)
    for number, X in enumerate(play(ACTORS, n_rows=120, n_batches=60)):
        model_version = show.learn(X)
        if number % 7 == 0 or number == 59:
            some.add_version(model_version)
    whole, parts = every.changes(HistoryCursor()), some.changes(HistoryCursor())
    assert parts["events"] == whole["events"]
    assert sum(m["batches"] for m in parts["summaries"]) == sum(
        m["batches"] for m in whole["summaries"]
    )
    assert parts["summaries"][-1]["rows"] == whole["summaries"][-1]["rows"]
    assert {record["id"] for record in parts["lineage"]} == {
        record["id"] for record in whole["lineage"]
    }


def test_memory_does_not_grow_with_the_stream() -> None:
    live = Live(n_rows=200, n_summaries=50, clock=eager_clock())
    show = Show(live, half_life=1.5)
    model_versions = [show.learn(X) for X in play(ACTORS, n_rows=120, n_batches=60)]
    rows, batch = np.zeros((90, 2)), count(60)

    def go_on(n: int) -> int:
        for number in range(n):  # the same again, and clusters of new names all the time
            model_version = renamed(model_versions[number % 60], next(batch))
            live.add_version(model_version, X=rows, labels=np.full(90, model_version.batch))
            live.add_predicted(rows, np.zeros(90, dtype=np.int64))
        live.picture()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    early = go_on(450)
    late = go_on(150)
    tracemalloc.stop()
    assert late < early + 50_000
    changes = live.changes(HistoryCursor())
    assert (
        len(changes["summaries"]) <= 50
        and len(changes["events"]) == 500
        and len(changes["lineage"]) == 400
    )
    assert len(live.picture()["rows"]["id"]) <= 200 and changes["dropped"] >= 200


def renamed(model_version: ModelVersion, batch: int) -> ModelVersion:
    """The same state as that of another batch, in which a cluster of its own was born."""
    info = replace(model_version.model.info, events=(Event("born", float(batch), batch, 1.0),))
    model = replace(model_version.model, info=info)
    return replace(model_version, batch=batch, model=model)


def test_nothing_is_drawn_while_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*shown_rows: Any, **more: Any) -> Any:
        raise AssertionError("somebody drew")

    monkeypatch.setattr(views, "render", never)
    show = Show(Live(clock=eager_clock()))
    for X in play(ACTORS, n_rows=60, n_batches=10):
        show.learn(X)
        show.live.add_predicted(X, np.zeros(60, dtype=np.int64))


def test_what_costs_is_done_five_times_a_second_and_nothing_is_lost() -> None:
    now = 0.0
    live = Live(clock=lambda: now)
    show = Show(live)
    for X in play(ACTORS, n_rows=60, n_batches=40):
        show.learn(X)
        now += 0.05
    now += 1.0
    changes = live.changes(HistoryCursor())
    assert 8 <= len(changes["summaries"]) <= 12
    assert sum(m["batches"] for m in changes["summaries"]) == 40
    assert sum(m["rows"] for m in changes["summaries"]) == 2400


def test_a_stream_that_was_set_back_begins_another_history() -> None:
    live = Live(clock=eager_clock())
    show, model_versions = Show(live), []
    for X in play(ACTORS, n_rows=60, n_batches=10):
        model_versions.append(show.learn(X))
    cursor = HistoryCursor()
    assert len(live.changes(cursor)["summaries"]) > 5
    live.add_version(model_versions[3])
    changes = live.changes(cursor)
    assert changes["reset"] and len(changes["summaries"]) == 1


def test_the_same_version_twice_is_one_summary() -> None:
    live = Live(clock=eager_clock())
    model_version = Show(live).learn(next(play(ACTORS, n_rows=60, n_batches=1)))
    live.add_version(model_version)
    live.add_version(model_version)
    assert len(live.changes(HistoryCursor())["summaries"]) == 1


def test_edits_are_told_once_and_names_are_shown() -> None:
    """An edit comes with a version of the same batch, or with that of the next."""
    live = Live(clock=eager_clock())
    show, cursor = Show(live, half_life=1.5), HistoryCursor()
    rows = list(play(ACTORS, n_rows=120, n_batches=12))
    for X in rows[:8]:
        show.learn(X)
    live.changes(cursor)
    first, second = show.learner.state.ids.tolist()[:2]
    show.learner, _ = show.learner.edit(Edit("name", first, name="billing", author="ana"))
    live.add_version(show.model_version())
    live.add_version(show.model_version())
    shown = live.picture()["shown"]
    assert dict(zip(shown["id"], shown["name"], strict=True))[first] == "billing"
    show.learner, _ = show.learner.edit(Edit("merge", first, second, author="bob"))
    for X in rows[8:]:
        show.learn(X)
    changes = live.changes(cursor)
    told = [(e["kind"], e["id"], e["author"]) for e in changes["events"] if e["author"] is not None]
    assert told == [("named", first, "ana"), ("merged", first, "bob")]
    lives = {record["id"]: record for record in changes["lineage"]}
    assert lives[second]["into"] == first
    assert second not in live.picture()["rows"]["id"]


@pytest.mark.parametrize("width", [2, 3])
def test_rows_of_another_width_are_not_drawn(width: int) -> None:
    live = Live(clock=eager_clock())
    live.add_version(Show(live).learn(next(play(ACTORS, n_rows=60, n_batches=1))))
    live.add_predicted(np.zeros((7, width)), np.zeros(7, dtype=np.int64))
    assert sum(live.picture()["rows"]["predicted"]) == (7 if width == 2 else 0)


def test_sparse_rows_are_drawn() -> None:
    live = Live(clock=eager_clock())
    counts = np.random.default_rng(0).poisson(2.0, size=(80, 12)).astype(float)
    Show(live, family=Multinomial(np.ones(12))).learn(sparse.csr_array(counts))
    picture = live.picture()
    assert len(picture["rows"]["id"]) == 80 and picture["kind"] == "plane"


def test_threads_may_call_it_all_at_once() -> None:
    live = Live(n_rows=100, n_summaries=20)
    model_versions = []
    for X in play(ACTORS, n_rows=40, n_batches=12):
        model_version = (
            Show(live).learn(X) if not model_versions else show_more(model_versions[-1], X)
        )
        model_versions.append(model_version)
    errors: list[BaseException] = []

    def work(task: Any) -> None:
        try:
            for number in range(60):
                task(number)
        except BaseException as error:
            errors.append(error)

    rows, labels = np.zeros((9, 2)), np.zeros(9, dtype=np.int64)
    tasks = [
        lambda i: live.add_version(model_versions[i % 12], X=rows, labels=labels),
        lambda i: live.add_predicted(rows, labels),
        lambda i: json.dumps(live.picture(), allow_nan=False),
        lambda i: json.dumps(live.changes(HistoryCursor()), allow_nan=False),
    ]
    threads = [threading.Thread(target=work, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def show_more(model_version: ModelVersion, X: Any) -> ModelVersion:
    model, _, _ = model_version.model.update(X)
    return ModelVersion(model_version.batch + 1, model_version.batch + 1, 0.0, None, model, Steps())


def test_messages_start_with_the_history_and_continue_with_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "EVERY", 0.01)
    live = Live(clock=eager_clock())
    show = Show(live)
    rows = list(play(ACTORS, n_rows=60, n_batches=9))
    for X in rows[:8]:
        show.learn(X)

    async def watch() -> list[dict[str, Any]]:
        stream = live.messages()
        first = messages(await anext(stream))
        show.learn(rows[8])
        second = messages(await anext(stream))
        live.close()
        assert [text async for text in stream] == []
        return [first, second]

    first, second = asyncio.run(watch())
    assert first["history"]["reset"] and not second["history"]["reset"]
    assert len(first["history"]["summaries"]) == 8 and len(second["history"]["summaries"]) == 1
    assert first["picture"]["batch"] == 8 and second["picture"]["batch"] == 9


def test_a_quiet_stream_gives_signs_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVERY", 0.01)
    monkeypatch.setattr(module, "IDLE", 0.05)
    live = Live()

    async def watch() -> list[str]:
        stream = live.messages()
        return [await anext(stream) for _ in range(3)]

    first, *rest = asyncio.run(watch())
    assert messages(first)["picture"] == {}
    assert rest == [": still here\n\n"] * 2


def test_a_browser_that_does_not_read_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVERY", 0.005)
    monkeypatch.setattr(module, "SEND_SECONDS", 0.2)
    monkeypatch.setattr(module, "_PAUSE", 0)
    live = Live(clock=eager_clock())
    rows = next(play(ACTORS, n_rows=600, n_batches=1))
    model_version, labels = Show(live).learn(rows), np.zeros(600, dtype=np.int64)
    with Stage(live, buffer=8192) as stage, socket.socket() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.connect(("127.0.0.1", stage.port))
        deaf.sendall(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        end = time.monotonic() + 20
        was_watched = False
        while time.monotonic() < end and (live.n_subscribed or not was_watched):
            live.add_version(model_version, X=rows, labels=labels)
            time.sleep(0.002)
            was_watched |= live.n_subscribed > 0
        assert was_watched and live.n_subscribed == 0


def test_subscribers_are_bounded_and_freed_when_one_leaves() -> None:
    live = Live(n_subscribers=1)
    with Stage(live) as stage, httpx.Client(base_url=stage.address) as client:
        with client.stream("GET", "/live") as first:
            assert first.status_code == 200
            assert first.headers["content-type"].startswith("text/event-stream")
            refused = client.get("/live")
            assert refused.status_code == 503 and "browsers" in refused.json()["detail"]
        end = time.monotonic() + 5
        while live.n_subscribed and time.monotonic() < end:
            time.sleep(0.01)
        with client.stream("GET", "/live") as second:
            assert second.status_code == 200


@pytest.mark.parametrize("path", ["/page/../live.py", "/page/%2e%2e%2flive.py", "/page/none.js"])
def test_only_the_files_of_the_page_are_served(path: str) -> None:
    live = Live()
    with Stage(live) as stage:
        assert httpx.get(stage.address.rstrip("/") + path).status_code == 404


def test_every_file_of_the_page_is_small_and_has_a_type() -> None:
    files = {name: (kind, content) for name, kind, content in Live().page()}
    assert {"index.html", "style.css", "main.js", "icon.svg"} <= set(files)
    assert sum(len(content) for _, content in files.values()) < 120_000
    for name, (_, content) in files.items():
        text = content.decode()
        assert "http://" not in text.replace("http://www.w3.org/", "") and "https://" not in text
        assert " style=" not in text or not name.endswith(".html")
