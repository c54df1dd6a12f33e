"""Edits over HTTP: who may, what they do, that they are logged, and hostile ones."""

from __future__ import annotations

import asyncio
import json

import httpx
import numpy as np
import pytest

from scstream import ScStream
from scstream.model import Settings
from scstream.observe.events import EditApplied, EditSent
from scstream.preprocess import Steps
from scstream.serve.app import create_app
from scstream.serve.model import LocalModel
from scstream.serve.settings import ServiceSettings
from scstream.stream.config import build
from scstream.stream.edit_queue import EDIT
from scstream.stream.follower import Follower
from scstream.stream.model_version import ModelVersion

READ, WRITE = {"authorization": "Bearer reader"}, {"authorization": "Bearer writer"}


@pytest.fixture
def model(tmp_path):
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    X = centres[rng.integers(3, size=600)] + rng.normal(size=(600, 2))
    ScStream(random_state=0).fit(X).save(tmp_path / "m.scstream")
    return LocalModel.open(str(tmp_path / "m.scstream"))


def post(app, path, body=None, headers=WRITE, **more):
    """Send one request to an application."""
    content = body if isinstance(body, bytes) else json.dumps(body or {}).encode()

    async def call():
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.request(
                more.get("method", "POST"), path, content=content, headers=headers
            )

    return asyncio.run(call())


def service(model, **settings):
    found = []
    tokens = {"token": "reader", "write_token": "writer"} | settings
    return create_app(model, ServiceSettings(**tokens), emit=found.append), found


def test_edits_change_the_model_and_are_logged(model):
    app, found = service(model)
    done = post(app, "/clusters/1/name", {"name": "right", "author": "ana"})
    assert done.status_code == 200
    assert done.json()["applied"] is True
    assert done.json()["events"][0]["name"] == "right"
    assert post(app, "/clusters/0/merge", {"other": 2}).status_code == 200
    assert post(app, "/clusters/0/pin").status_code == 200
    assert post(app, "/clusters", {"rows": [[40.0, 40.0]], "name": "spare"}).status_code == 200
    now = post(app, "/clusters", headers=READ, method="GET").json()
    assert {row["id"]: row["name"] for row in now["clusters"]} == {0: None, 1: "right", 3: "spare"}
    assert post(app, "/undo").status_code == 200
    assert model.current().model.state.ids.tolist() == [0, 1]
    assert [e.action for e in found if isinstance(e, EditSent)][:2] == ["name", "merge"]
    assert next(e.author for e in found if isinstance(e, EditApplied)) == "ana"


def test_only_the_write_token_may_edit(model):
    app, found = service(model)
    before = model.current()
    for headers in ({}, READ, {"authorization": "Bearer "}, {"authorization": "writer"}):
        for path in ("/clusters/1/name", "/clusters", "/undo", "/clusters/1/remove"):
            refused = post(app, path, {"name": "x"}, headers=headers)
            assert refused.status_code == 401, path
    assert model.current() is before
    assert not [event for event in found if isinstance(event, EditSent | EditApplied)]
    assert post(app, "/clusters", headers=WRITE, method="GET").status_code == 200


def test_without_a_write_token_nobody_may_edit(model):
    app, _ = service(model, write_token=None)
    assert post(app, "/clusters/1/name", {"name": "x"}, headers=READ).status_code == 403
    assert "/undo" not in app.openapi()["paths"]


def test_pages_of_other_sites_may_not_edit(model):
    app, _ = service(model)
    headers = WRITE | {"origin": "http://evil.example"}
    assert post(app, "/clusters/1/name", {"name": "x"}, headers=headers).status_code == 403


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/clusters/99/name", {"name": "x"}, 422),
        ("/clusters/1e3/name", {"name": "x"}, 422),
        ("/clusters/-1/name", {"name": "x"}, 422),
        ("/clusters/1/name", {"name": "x" * 300}, 422),
        ("/clusters/1/name", {"name": "a\nb"}, 422),
        ("/clusters/1/name", {"name": ["x"]}, 422),
        ("/clusters/1/name", {"name": "x", "action": "remove"}, 422),
        ("/clusters/1/name", b"[1]", 422),
        ("/clusters/1/name", b"{", 400),
        ("/clusters/1/name", b"[" * 200_000, 400),
        ("/clusters/1/move", {"rows": [[1.0]]}, 422),
        ("/clusters/1/move", {"rows": [["x", "y"]]}, 422),
        ("/clusters/1/move", b'{"rows": [[NaN, 1.0]]}', 422),
        ("/clusters/1/explode", {}, 404),
        ("/clusters/1/merge", {"other": 1}, 422),
        ("/clusters/1/name", b"x" * (1 << 21), 413),
    ],
)
def test_a_hostile_edit_is_refused_and_changes_nothing(model, path, body, status):
    app, found = service(model)
    before = model.current()
    response = post(app, path, body)
    assert response.status_code == status
    assert response.json()["detail"]
    assert model.current() is before
    assert not [event for event in found if isinstance(event, EditApplied)]


def test_a_follower_sends_edits_to_its_pipeline(tmp_path):
    rows = "".join(f'{{"x": {i % 7}, "y": {i % 3}}}\n' for i in range(200))
    (tmp_path / "rows.jsonl").write_text(rows)
    settings = {
        "source": {"kind": "file", "path": str(tmp_path / "rows.jsonl")},
        "checkpoint": {"folder": str(tmp_path / "state")},
    }
    build(settings).run()
    follower = Follower.open(str(tmp_path / "state"))
    app, found = service(follower)
    done = post(app, "/clusters/0/name", {"name": "only"})
    assert (done.status_code, done.json()["applied"], done.json()["number"]) == (202, False, 0)
    assert len(follower.store.names(EDIT)) == 1
    assert [event.action for event in found if isinstance(event, EditSent)] == ["name"]
    build(settings).run()
    assert follower.refresh()
    assert follower.current().model.names == {0: "only"}


def test_names_that_are_markup_stay_text(model):
    app, _ = service(model)
    name = "<script>alert(1)</script>"
    assert post(app, "/clusters/1/name", {"name": name}).status_code == 200
    page = post(app, "/clusters/1", headers=READ, method="GET")
    assert page.headers["content-type"] == "application/json"
    assert page.json()["cluster"]["name"] == name


def test_typical_rows_of_a_cluster_are_sent_if_the_model_keeps_them():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    settings = Settings(exemplars=2, random_state=0)
    texts = [f"<b>{i}</b>" for i in range(300)]
    learned = settings.update(X, texts=texts).model
    version = ModelVersion(0, 1, 0.0, None, learned, Steps())
    app, _ = service(LocalModel(version))
    one = post(app, "/clusters/0", headers=READ, method="GET").json()["cluster"]
    assert [each["text"] in texts for each in one["exemplars"]] == [True, True]
    assert len(one["exemplars"][0]["row"]) == 2
    [row] = post(app, "/clusters", headers=READ, method="GET").json()["clusters"]
    assert "exemplars" not in row
