"""What the service answers is what the model says, whichever way it is asked."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from scstream import ScStream
from scstream.errors import InputError
from scstream.io.schema import check_entries
from scstream.model import Settings
from scstream.observe.events import RunEvent, StoreUnreachable
from scstream.preprocess import Steps
from scstream.preprocess.block import Block
from scstream.serve.api_errors import ApiError
from scstream.serve.app import create_app
from scstream.serve.bodies import ARROW, RowFormat, read_json
from scstream.serve.model import LocalModel, Poller, content_of
from scstream.serve.settings import ServiceSettings
from scstream.stream.arrow import stream_bytes
from scstream.stream.follower import Follower
from scstream.stream.model_version import ModelVersion
from tests.serve.subjects import Client, app, columns, model_version, refused, rows

ARROW_TYPE = ARROW.decode()
NOT_YET = "there is no valid checkpoint"


def read(stream: bytes) -> dict[str, list[Any]]:
    return pa.ipc.open_stream(stream).read_all().to_pydict()


@pytest.mark.parametrize("given_as", ["columns", "rows", "arrow"])
@pytest.mark.parametrize("n_rows", [0, 1, 50, 6000])
def test_predictions_equal_those_of_the_model(given_as: str, n_rows: int) -> None:
    X, model = rows(n_rows, seed=9), model_version()
    client = Client(create_app(LocalModel(model)))
    if given_as == "arrow":
        answer = client.post("/predict", stream_bytes(columns_of(X)), ARROW_TYPE)
    elif given_as == "rows":
        answer = client.predict(rows=X.tolist())
    else:
        answer = client.predict(columns=columns(X))
    assert answer.status_code == 200, answer.text
    said, verdict = answer.json(), model.compute("predict", X).values
    assert_array_equal(said["cluster"], verdict.label)
    assert_array_equal(said["probability"], verdict.probability)
    assert_array_equal(said["novelty"], verdict.novelty)
    assert_array_equal(said["log_density"], verdict.log_density)
    assert (said["version"], said["batch"]) == (5, 3)


def columns_of(X: np.ndarray) -> dict[str, np.ndarray]:
    return {"y": X[:, 1].copy(), "x": X[:, 0].copy()}  # the order of columns is free


def test_predictions_equal_those_of_the_estimator(tmp_path: Path) -> None:
    model = ScStream(random_state=0).fit(rows(400))
    model.save(tmp_path / "model.scstream")
    client = Client(create_app(LocalModel.open(tmp_path / "model.scstream")))
    X = rows(80, seed=5)
    said = client.predict(columns=columns(X, ("x0", "x1")), probabilities=True).json()
    assert_array_equal(said["cluster"], model.predict(X))
    assert_array_equal(said["probabilities"], model.predict_proba(X))
    assert said["ids"] == [*model.clusters_.id.tolist(), -1]
    assert_array_equal(said["log_density"], model.score_samples(X))


def test_arrow_and_json_have_the_same_content() -> None:
    client, X = Client(app()), rows(30, seed=2)
    body = json.dumps({"rows": X.tolist(), "probabilities": True}).encode()
    plain = client.post("/predict", body).json()
    answer = client.post("/predict", body, accept=ARROW_TYPE)
    assert answer.headers["content-type"] == ARROW_TYPE
    assert (answer.headers["scstream-version"], answer.headers["scstream-batch"]) == ("5", "3")
    table = read(answer.content)
    for name in ("cluster", "probability", "novelty", "log_density"):
        assert table[name] == plain[name]
    names = [f"probability_{'new' if id < 0 else id}" for id in plain["ids"]]
    assert [list(row) for row in zip(*(table[n] for n in names), strict=True)] == plain[
        "probabilities"
    ]


def test_predictions_use_the_time_of_the_request() -> None:
    X, model = rows(20), model_version(half_life=5.0)
    client = Client(create_app(LocalModel(model)))
    said = client.predict(rows=X.tolist(), time=400.0).json()
    assert_array_equal(said["log_density"], model.compute("log_density", X, time=400.0).values)
    assert said["log_density"] != client.predict(rows=X.tolist()).json()["log_density"]


def test_null_is_a_missing_entry_if_the_family_handles_them() -> None:
    client = Client(create_app(LocalModel(model_version(family="diagonal"))))
    said = client.predict(columns={"x": [0.1, None], "y": [None, 8.0]})
    wanted = model_version(family="diagonal").compute("labels", [[0.1, np.nan], [np.nan, 8.0]])
    assert said.json()["cluster"] == wanted.values.tolist()
    detail = refused(Client(app()).predict(columns={"x": [0.1, None], "y": [1, 2]}), 422)["detail"]
    assert detail == "row 1 cannot be used: column 'x' is missing."


def test_texts_are_preprocessed() -> None:
    steps = Steps.build([{"step": "hash_text", "column": "title", "n": 50}])
    titles = ["red apple pie", "apple cake", "blue sea", "deep blue sea"] * 20
    _, block = steps.apply(Block.of(np.zeros((80, 0)), title=titles))
    learner, _, _ = Settings(family="multinomial", random_state=0).update(block.X)
    model = ModelVersion(0, 1, 0.0, (), learner, steps)
    client = Client(create_app(LocalModel(model)))
    asked = Block.of(np.zeros((2, 0)), title=["apple pie", "blue"])
    wanted = model.compute("labels", asked).values.tolist()
    assert client.predict(columns={"title": ["apple pie", "blue"]}).json()["cluster"] == wanted
    stream = stream_bytes({"title": np.array(["apple pie", "blue"])})
    assert client.post("/predict", stream, ARROW_TYPE).json()["cluster"] == wanted
    refused(client.predict(rows=[["apple pie"]]), 422)
    refused(client.predict(columns={"title": [7]}), 422)
    assert (
        ModelVersion.of(content_of(model), name="m").compute("labels", asked).values.tolist()
        == wanted
    )


JUNK = st.one_of(
    st.floats(-1e3, 1e3), st.integers(-9, 9), st.none(), st.booleans(), st.sampled_from(["1.5", ""])
)


@given(st.lists(st.tuples(JUNK, JUNK), min_size=1, max_size=4), st.booleans())
def test_an_entry_is_a_number_or_is_rejected(table: list[tuple[Any, Any]], by_row: bool) -> None:
    """The short way through numpy takes nothing that a closer look would refuse."""
    form = RowFormat(("true", 'na"me'), missing=True)
    body: dict[str, Any] = {"rows": table}
    if not by_row:
        body = {"columns": dict(zip(form.names, map(list, zip(*table, strict=True)), strict=True))}
    sound = all(entry is None or type(entry) in (int, float) for row in table for entry in row)
    try:
        found = read_json(json.dumps(body).encode(), form, max_n=10).rows
    except ApiError as refusal:
        assert not sound and refusal.status == 422
    else:
        assert sound
        assert_array_equal(found, np.array(table, dtype=np.float64))


def test_learning_equals_that_of_the_model() -> None:
    X, before = rows(200, seed=11), model_version()
    client = Client(create_app(LocalModel(before), ServiceSettings(learn=True)))
    said = client.post("/learn", json.dumps({"columns": columns(X), "time": 9.0}).encode())
    after, labels, _ = before.model.update(X, time=9.0)
    assert said.status_code == 200, said.text
    assert said.json()["cluster"] == labels.tolist()
    assert (said.json()["version"], said.json()["batch"]) == (6, 4)
    asked = rows(50, seed=12)
    now = client.predict(rows=asked.tolist()).json()
    wanted = ModelVersion(6, 4, 0.0, ("x", "y"), after, Steps()).compute("predict", asked).values
    assert_array_equal(now["log_density"], wanted.log_density)
    late = client.post("/learn", json.dumps({"columns": columns(X), "time": 3.0}).encode())
    assert refused(late, 409)["error"] == "TimeError"


def test_a_batch_is_learned_whole_or_not_at_all() -> None:
    steps = Steps.build([{"step": "standardise"}]).with_columns(("x", "y"))
    steps, block = steps.apply(Block.of(rows(100)))
    learner, _, _ = Settings.of({"random_state": 0}, feature_names=("x", "y")).update(block.X)
    model = LocalModel(ModelVersion(0, 1, 0.0, ("x", "y"), learner, steps), steps=steps)
    client = Client(create_app(model, ServiceSettings(learn=True)))
    body = json.dumps({"rows": [[1.0, 2.0], [1e99, 0.0]]}).encode()
    assert "nothing was learned" in refused(client.post("/learn", body), 422)["detail"]
    assert model.current().version == 0
    sound = json.dumps({"rows": rows(10).tolist()}).encode()
    assert client.post("/learn", sound).json()["version"] == 1


def test_every_response_comes_from_one_version() -> None:
    """Questions by many while batches are learned: each answer is that of the version it names."""
    X = rows(40, seed=3)
    body = json.dumps({"rows": X.tolist(), "probabilities": True}).encode()
    model = LocalModel(model_version())
    known = {5: model.current()}
    app = create_app(model, ServiceSettings(learn=True))

    async def go() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app)
        headers = {"content-type": "application/json"}
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", headers=headers
        ) as client:
            learned = asyncio.Event()

            async def learn() -> None:
                for seed in range(12):
                    rest = {"rows": (rows(60, seed=seed) + seed).tolist()}
                    said = await client.post("/learn", content=json.dumps(rest).encode())
                    known[said.json()["version"]] = model.current()
                learned.set()

            async def ask() -> list[httpx.Response]:
                answers = []
                while not learned.is_set():
                    answers.append(await client.post("/predict", content=body))
                return answers

            _, *asked = await asyncio.gather(learn(), *(ask() for _ in range(4)))
        return [answer for some in asked for answer in some]

    said = [answer.json() for answer in asyncio.run(go())]
    assert len({each["version"] for each in said}) > 2
    for each in said:
        wanted = known[each["version"]].compute("predict", X).values
        assert_array_equal(each["log_density"], wanted.log_density)
        assert_array_equal(each["cluster"], wanted.label)
        assert len(each["ids"]) == len(each["probabilities"][0])


def test_an_unreachable_store_only_lengthens_the_pause() -> None:
    told: list[RunEvent] = []

    class Away(LocalModel):
        def refresh(self) -> bool:
            if len(told) < 3:
                raise OSError("the disk is away")
            self.publish(model_version())
            return True

    seen: list[ModelVersion] = []
    poller = Poller(Away(), every=0.5, changed=seen.append, emit=told.append)
    pauses = []
    for _ in range(4):
        poller.poll()
        pauses.append(poller.pause)
    assert pauses == [1.0, 2.0, 4.0, 0.5] and len(seen) == 1
    assert told[0] == StoreUnreachable("the disk is away", again=1.0)


def test_a_follower_without_a_checkpoint_is_not_ready(tmp_path: Path) -> None:
    client = Client(create_app(Follower.open(str(tmp_path))))
    assert NOT_YET in refused(client.get("/readyz"), 503)["detail"]
    answer = client.predict(rows=[[1.0, 2.0]])
    assert NOT_YET in refused(answer, 503)["detail"] and answer.headers["retry-after"] == "1"
    assert client.get("/healthz").status_code == 200
    refused(client.get("/clusters"), 503)
    assert client.get("/openapi.json").status_code == 200


def test_an_old_checkpoint_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(app(stale=10.0))
    monkeypatch.setattr("time.time", lambda: 12.5)
    assert "12 s old" in refused(client.get("/readyz"), 503)["detail"]
    monkeypatch.setattr("time.time", lambda: 10.5)
    assert client.get("/readyz").json() == {
        "status": "ready",
        "age": 9.5,
        "version": 5,
        "batch": 3,
    }


def test_clusters_come_in_pages() -> None:
    client, model = Client(app()), model_version()
    whole = client.get("/clusters").json()
    assert whole["columns"] == ["x", "y"] and whole["total"] == len(whole["clusters"]) == 3
    weights = [each["weight"] for each in whole["clusters"]]
    assert weights == sorted(weights, reverse=True)
    pages = [client.get(f"/clusters?limit=1&offset={k}").json()["clusters"] for k in range(4)]
    assert [each for page in pages for each in page] == whole["clusters"]
    by_id = client.get("/clusters", params={"sort": "id"}).json()["clusters"]
    assert [each["id"] for each in by_id] == model.model.state.ids.tolist()
    one = client.get(f"/clusters/{by_id[1]['id']}").json()
    assert one["cluster"] == by_id[1] | {"exemplars": []} and one["events"][0]["kind"] == "born"
    assert "/events" in refused(client.get("/clusters/900"), 404)["detail"]


def test_events_are_the_newest_first() -> None:
    model = model_version()
    learner = model.model
    learner, _, _ = learner.update(rows(200, seed=4) + np.array([30.0, 0.0]))
    client = Client(create_app(LocalModel(ModelVersion(6, 4, 1.0, ("x", "y"), learner, Steps()))))
    events = client.get("/events").json()["events"]
    assert len(events) > 3 and [e["time"] for e in events] == sorted(
        (e["time"] for e in events), reverse=True
    )
    newest = client.get("/events", params={"limit": 1}).json()
    assert newest["events"] == events[:1] and newest["total"] == len(events)
    later = client.get("/events", params={"since": events[-1]["time"], "kind": "born"}).json()
    assert later["events"] == [
        e for e in events if e["kind"] == "born" and e["time"] > events[-1]["time"]
    ]
    refused(client.get("/events", params={"kind": "fled"}), 422)


def test_the_model_file_can_be_downloaded(tmp_path: Path) -> None:
    X = rows(50, seed=6)
    answer = Client(app()).get("/model")
    assert answer.headers["content-disposition"] == 'attachment; filename="model-5.scstream"'
    (tmp_path / "m.scstream").write_bytes(answer.content)
    assert_array_equal(
        ScStream.load(tmp_path / "m.scstream").predict(X),
        model_version().compute("labels", X).values,
    )


FAR = [
    ModelVersion(
        0, 1, 0.0, None, Settings.of({"random_state": 0, "family": family}).update(X).model, Steps()
    )
    for family in ("gaussian", "diagonal", "poisson")
    for X in (np.abs(rows(40).round()), 1e6 + np.abs(rows(40).round()), 1e9 + rows(40).round())
]


@given(
    st.sampled_from(FAR),
    st.lists(st.lists(st.floats(), min_size=2, max_size=2), min_size=1, max_size=3),
)
def test_fast_checks_of_rows_accept_nothing_invalid(
    model: ModelVersion, table: list[list[float]]
) -> None:
    """Rows are prepared without a closer look only where that would find nothing."""
    X, family = np.array(table), model.model.family
    try:
        check_entries(X, family)
        family.check(X)
    except InputError:
        with pytest.raises(InputError):
            model.prepared(X)
    else:
        assert_array_equal(model.prepared(X), X)
