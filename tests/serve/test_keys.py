"""The service of a pipeline with keys answers as the pipeline's model of the key would."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from scstream.observe.prometheus import Metrics
from scstream.preprocess import Steps
from scstream.preprocess.block import Block
from scstream.serve.app import create_app
from scstream.serve.bodies import ARROW
from scstream.serve.live import Live
from scstream.serve.settings import ServiceSettings
from scstream.stream.arrow import stream_bytes
from scstream.stream.batcher import SourceBatch
from scstream.stream.checkpoint_log import CheckpointLog
from scstream.stream.follower import Follower
from scstream.stream.model_version import frozen
from scstream.stream.pool import ModelPool
from scstream.stream.progress import Progress
from scstream.stream.schema import Schema
from scstream.stream.segments import PREFIX
from scstream.stream.store import FolderStore, MemoryStore
from tests.cli.shell import running, scstream
from tests.serve.subjects import Client, app, refused
from tests.serve.test_process import ready, url_of

NAMES = ("x", "y")
KEYS = ("a", "ä/1 b", "7")
STEPS = ({"step": "standardise", "mode": "running"},)
ASKED = np.random.default_rng(5).normal(size=(30, 2)) * 6.0


class Pipeline:
    """A pool that learns batches and publishes checkpoints."""

    def __init__(self, steps: Any = (), **options: Any) -> None:
        self.store = MemoryStore()
        self.log = CheckpointLog(self.store)
        self.log.claim(time=0.0)
        self.pool = ModelPool.build(
            {"random_state": 5, "n_jobs": 1},
            Steps.build(steps),
            column="who",
            store=self.store,
            **options,
        )
        self.pool.set_columns(NAMES)
        self.n = 0

    def learn(self, *keys: str) -> None:
        rng = np.random.default_rng(self.n)
        X = rng.normal(size=(60, 2)) + 8.0 * rng.integers(0, 2, size=(60, 1))
        block = Block.of(X, who=np.resize(np.array(keys, dtype=object), 60))
        self.pool.learn(SourceBatch(self.n, {}, None, block, ()))
        self.n += 1
        progress = Progress(self.n, float(self.n), schema=Schema(NAMES))
        self.log.publish(self.pool.freeze()(progress), time=float(self.n), batch=self.n)

    def expected(self, key: str) -> Any:
        """What the model of the pipeline says about the rows."""
        model, steps = self.pool.model(key)
        _, block = frozen(steps).apply(Block.of(ASKED))
        return model.at().predict(block.X)


def client_of(pipeline: Pipeline, **how: Any) -> Client:
    return Client(create_app(Follower(pipeline.store, **how)))


@pytest.mark.parametrize("memory", [1, "512MB"])
def test_predictions_equal_those_of_the_pipeline(memory: Any) -> None:
    pipeline = Pipeline(STEPS)
    for _ in range(3):
        pipeline.learn(*KEYS)
    client = client_of(pipeline, memory=memory)
    stream = stream_bytes({"y": ASKED[:, 1].copy(), "x": ASKED[:, 0].copy()})
    for key in KEYS * 2:
        said = client.predict(key=key, rows=ASKED.tolist()).json()
        expected = pipeline.expected(key)
        assert_array_equal(said["cluster"], expected.label)
        assert_array_equal(said["probability"], expected.probability)
        assert_array_equal(said["log_density"], expected.log_density)
        assert (said["version"], said["batch"]) == (3, 3)
        by_query = client.request(
            "POST",
            "/predict",
            params={"key": key},
            content=stream,
            headers={"content-type": ARROW.decode()},
        )
        assert by_query.json() == said
    assert client.predict(key=7, rows=ASKED.tolist()).json() == said  # 7 and "7" are one key


def test_the_other_routes_take_a_key() -> None:
    pipeline = Pipeline()
    pipeline.learn(*KEYS)
    client = client_of(pipeline)
    for key in KEYS:
        state = pipeline.pool.model(key).model.state
        found = client.get("/clusters", params={"key": key}).json()
        assert {each["id"] for each in found["clusters"]} == {*state.ids.tolist()}
        one = client.get("/clusters/0", params={"key": key}).json()
        assert one["cluster"]["weight"] == state.weight[0]
        assert client.get("/events", params={"key": key}).json()["total"] >= 1
        assert client.get("/model", params={"key": key}).content[8:9] == b"{"
    listed = client.get("/keys", params={"offset": 1, "limit": 1}).json()
    n_clusters = pipeline.pool.model(KEYS[1]).n_clusters
    assert listed["keys"] == [{"key": KEYS[1], "clusters": n_clusters}] and listed["total"] == 3
    assert client.get("/readyz").json()["version"] == 1


def test_a_new_checkpoint_is_used_and_unchanged_models_are_not_read_again() -> None:
    pipeline = Pipeline()
    pipeline.learn("a", "b")
    follower = Follower(pipeline.store)
    client = Client(create_app(follower))
    for key in ("a", "b"):
        client.predict(key=key, rows=ASKED.tolist())
    pipeline.learn("a", "new")
    assert client.predict(key="new", rows=[[0, 0]]).status_code == 404
    assert follower.refresh()
    for key in ("a", "b", "new"):
        said = client.predict(key=key, rows=ASKED.tolist()).json()
        assert said["batch"] == 2
        assert_array_equal(said["log_density"], pipeline.expected(key).log_density)
    assert (follower.keyed.n_misses, follower.keyed.n_hits) == (4, 1)


def test_a_request_survives_that_the_pipeline_compacts_its_segments() -> None:
    pipeline = Pipeline(segment=1)
    pipeline.learn(*KEYS)
    follower = Follower(pipeline.store)
    before = pipeline.store.names(PREFIX)
    pipeline.learn(*KEYS)
    for name in before:
        pipeline.store.delete(name)
    said = Client(create_app(follower)).predict(key="a", rows=ASKED.tolist()).json()
    assert_array_equal(said["log_density"], pipeline.expected("a").log_density)
    for name in pipeline.store.names(PREFIX):
        pipeline.store.delete(name)
    assert (
        "is gone" in refused(Client(create_app(follower)).predict(key="7", rows=[]), 503)["detail"]
    )


def test_memory_is_bounded_and_the_least_recently_used_model_leaves() -> None:
    pipeline = Pipeline()
    keys = [f"k{i}" for i in range(12)]
    pipeline.learn(*keys)
    one = Follower(pipeline.store)
    one.current("k0")
    memory = 3 * one.keyed.n_bytes + 100
    follower = Follower(pipeline.store, memory=memory)
    for key in keys:
        follower.current("k0")
        follower.current(key)
        assert 0 < follower.keyed.n_bytes <= memory
    assert (follower.keyed.n_misses, follower.keyed.n_hits) == (12, 12)  # k0 is always in memory
    follower.current("k2")
    assert follower.keyed.n_misses == 13


def test_requests_without_a_right_key_are_refused() -> None:
    pipeline = Pipeline()
    pipeline.learn("a")
    settings = ServiceSettings(write_token="w" * 20)
    live, metrics = Live(), Metrics()
    served = create_app(Follower(pipeline.store), settings, live=live, metrics=metrics)
    served.state.service.begin()
    client = Client(served)
    rows = ASKED.tolist()
    assert "name a key" in refused(client.predict(rows=rows), 400)["detail"]
    assert "name a key" in refused(client.get("/clusters"), 400)["detail"]
    assert "'pump-7'" in refused(client.predict(key="pump-7", rows=rows), 404)["detail"]
    assert refused(client.get("/clusters?key=b"), 404)["error"] == "UnknownKey"
    refused(client.predict(key=True, rows=rows), 422)
    refused(client.post("/predict?key=b", json.dumps({"key": "a", "rows": rows}).encode()), 422)
    edit = client.post(
        "/clusters/0/name", b'{"name": "n", "key": "a"}', authorization="Bearer " + "w" * 20
    )
    assert "scstream edit" in refused(edit, 403)["detail"]
    assert client.get("/").headers["location"] == "docs"
    shown = client.get("/metrics").text
    assert 'scstream_key_lookups_total{result="miss"} 0.0' in shown and "scstream_keys 1.0" in shown
    alone = Client(app(learn=True))
    for answer in (
        alone.predict(key="a", rows=rows),
        alone.get("/clusters?key=a"),
        alone.get("/keys"),
    ):
        assert "one model" in refused(answer, 400)["detail"]
    learn = alone.post("/learn", json.dumps({"key": "a", "rows": rows}).encode())
    assert refused(learn, 400)["error"] == "WrongKey"


def test_the_description_names_the_key() -> None:
    pipeline = Pipeline()
    served = create_app(Follower(pipeline.store))
    assert "/keys" not in served.openapi()["paths"]
    pipeline.learn("a")
    served.state.service.model.refresh()
    paths = served.openapi()["paths"]
    assert "/keys" in paths
    for path in ("/clusters", "/clusters/{id}", "/events", "/model"):
        (key,) = (each for each in paths[path]["get"]["parameters"] if each["name"] == "key")
        assert key["required"]
    bodies = served.openapi()["components"]["schemas"]
    assert all("key" in bodies[name]["properties"] for name in bodies if "PredictRequestBy" in name)


PIPELINE = """\
job = "machines"
source = {kind = "file", path = "rows.csv"}
schema = {features = ["x", "y"], key = "who"}
batch = {rows = 100}
model = {random_state = 5}
checkpoint = {folder = "state", batches = 1}
"""


def test_a_service_follows_a_pipeline_with_keys(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = [f"m{i % 4},{x:.4f},{y:.4f}\n" for i, (x, y) in enumerate(rng.normal(size=(300, 2)))]
    (tmp_path / "rows.csv").write_text("who,x,y\n" + "".join(lines))
    (tmp_path / "p.toml").write_text(PIPELINE)
    (tmp_path / "state").mkdir()
    memory = ("--set", "keys.memory=100kB")
    with running(
        "serve", "state", "--port", 0, "--every", "0.1", *memory, folder=tmp_path
    ) as service:
        url = url_of(service)
        assert httpx.get(f"{url}/readyz").status_code == 503  # whether there are keys is not known
        assert scstream("run", "p.toml", folder=tmp_path).returncode == 0
        while ready(url)["batch"] < 3:
            time.sleep(0.05)
        answers = {
            key: httpx.post(f"{url}/predict", json={"key": key, "rows": ASKED.tolist()}).json()
            for key in ("m0", "m1", "m2", "m3")
        }
        assert httpx.post(f"{url}/predict", json={"rows": [[1, 2]]}).status_code == 400
        assert service.end(signal.SIGTERM) == 0
    follower = Follower(FolderStore(tmp_path / "state"))
    for key, said in answers.items():
        assert_array_equal(said["log_density"], follower.score(ASKED, key=key).values)
        assert_array_equal(said["cluster"], follower.predict(ASKED, key=key).values)
