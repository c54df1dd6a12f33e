"""Names by a hook: a function, a command, a real HTTP server; learning never waits for it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pytest

from scstream import ScStream
from scstream.errors import InputError
from scstream.observe.naming import AUTHOR, Namer, ask_command, ask_server, clean_name
from scstream.stream.config import build
from scstream.stream.follower import Follower
from scstream.stream.naming import naming, read_ask


def batch(seed: int, n_clusters: int = 2, shift: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    which = rng.integers(n_clusters, size=300)
    return 9.0 * np.column_stack([which, which % 2]) + shift + rng.normal(size=(300, 2))


class NameServer(ThreadingHTTPServer):
    """Answers as a server of a language model does, or with what `answers` holds first."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[tuple[dict, dict]] = []
        self.answers: list[tuple[int, bytes]] = []
        self.may_answer = Event()
        self.may_answer.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1/chat/completions"


class _Handler(BaseHTTPRequestHandler):
    server: NameServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append((dict(self.headers), body))
        self.server.may_answer.wait(60)
        number = len(self.server.requests)
        message = {"role": "assistant", "content": f'"Topic {number}"\n\nbecause of x0'}
        named = {"choices": [{"message": message}], "name": f"topic {number}"}
        status, content = 200, json.dumps(named).encode()
        if self.server.answers:
            status, content = self.server.answers.pop(0)
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def name_server() -> Iterator[NameServer]:
    with NameServer() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.may_answer.set()
        server.shutdown()


def test_it_is_asked_on_birth_and_split_and_large_change_only():
    asked = []

    def ask(cluster):
        asked.append((cluster["id"], cluster["why"]))
        return f"name {len(asked)}"

    model = ScStream(random_state=0, half_life=1.0, motion=False)
    with Namer(ask) as namer:
        for seed in range(8):
            model.partial_fit(batch(seed))
            namer.observe(model.model_)
        namer.close()
        assert sorted(asked) == [(0, "born"), (1, "born")]
    namer = Namer(ask)
    namer._centres = {0: np.array([100.0, 100.0]), 1: model.means_[1]}
    namer.observe(model.model_, [])
    namer.close()
    assert asked[2:] == [(0, "changed")]
    model.split(0)
    namer = Namer(ask)
    namer.observe(model.model_, model.events_[-1:])
    namer.close()
    assert [why for _, why in asked[3:]] == ["split", "split"]


def test_a_name_by_a_person_is_not_replaced():
    model = ScStream(random_state=0).partial_fit(batch(0)).name(0, "mine")
    namer = Namer(lambda cluster: "other")
    namer.observe(model.model_)
    namer.close()
    assert namer.apply(model).names_ == {0: "mine", 1: "other"}
    assert model.events_[-1].author == AUTHOR
    late = Namer(lambda cluster: "late")
    other = ScStream(random_state=0).partial_fit(batch(0))
    late.observe(other.model_)
    late.close()
    other.name(0, "mine")  # while the answer was on its way
    assert late.apply(other).names_ == {0: "mine", 1: "late"}


def test_a_server_of_a_language_model_is_asked():
    model = ScStream(random_state=0).partial_fit(batch(0))
    with name_server() as server:
        namer = Namer(ask_server(server.url, token="s3cret", model="small"))
        namer.observe(model.model_)
        namer.close()
        headers, body = server.requests[0]
    assert headers["Authorization"] == "Bearer s3cret"
    assert body["model"] == "small"
    assert "cluster 0" in body["messages"][0]["content"]
    assert set(namer.apply(model).names_.values()) == {"Topic 1", "Topic 2"}


def test_exemplars_are_part_of_the_question():
    texts = [f"ticket {i}" for i in range(300)]
    model = ScStream(random_state=0, exemplars=3).partial_fit(batch(0), texts=texts)
    asked = []
    namer = Namer(lambda cluster: asked.append(cluster) or "named")
    namer.observe(model.model_)
    namer.close()
    assert all(len(cluster["exemplars"]) == 3 for cluster in asked)
    assert all("ticket" in cluster["text"] for cluster in asked)


def test_failures_are_tried_again_and_then_left():
    model = ScStream(random_state=0).partial_fit(batch(0))
    with name_server() as server:
        server.answers = [(503, b""), (200, b"no JSON"), (200, b'{"name": 7}'), (500, b"")]
        namer = Namer(ask_server(server.url, timeout=5), attempts=2)
        namer.observe(model.model_)
        namer.close()
        assert len(server.requests) == 4
        assert (namer.asked, namer.failed) == (2, 2)
        assert namer.apply(model).names_ == {}
        nobody = Namer(ask_server("http://127.0.0.1:9/"), attempts=1)
        nobody.observe(model.model_)
        nobody.close()
        assert nobody.failed == 2


def test_a_command_is_asked_and_killed_in_time():
    program = "import json, sys; print('c', json.load(sys.stdin)['id'])"
    model = ScStream(random_state=0).partial_fit(batch(0))
    namer = Namer(ask_command([sys.executable, "-c", program]))
    namer.observe(model.model_)
    namer.close()
    assert namer.apply(model).names_ == {0: "c 0", 1: "c 1"}
    slow = Namer(ask_command([sys.executable, "-c", "input(); input()"], timeout=0.2), attempts=1)
    slow.observe(model.partial_fit(batch(1, 3)).model_, model.events_[:1])
    slow.close()


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        ("  Billing \n", "Billing"),
        ('"Billing"', "Billing"),
        ("**Billing**\nBecause ...", "Billing"),
        ("a\x00b\x1b[31m", "ab[31m"),
        ("x" * 500, "x" * 200),
    ],
)
def test_answers_are_cleaned(answer, name):
    assert clean_name(answer) == name


def pipeline_settings(folder: Path, url: str) -> dict:
    X = np.concatenate([batch(seed) for seed in range(6)])
    lines = "".join(f'{{"x": {x}, "y": {y}}}\n' for x, y in X.tolist())
    (folder / "rows.jsonl").write_text(lines)
    return {
        "source": {"kind": "file", "path": str(folder / "rows.jsonl")},
        "sink": {"kind": "file", "path": str(folder / "labels.jsonl")},
        "checkpoint": {"folder": str(folder / "state"), "batches": 2},
        "batch": {"rows": 300},
        "naming": {"url": url, "model": "small"},
    }


def test_a_pipeline_learns_while_the_server_thinks_and_gets_its_names_later(tmp_path):
    with name_server() as server:
        server.may_answer.clear()
        settings = pipeline_settings(tmp_path, server.url)
        pipeline = build(settings)
        with naming(pipeline, settings["naming"]):
            assert pipeline.run() == 6  # all batches, and no answer yet
            server.may_answer.set()
        assert len(server.requests) == 2
        build(settings).run()
    names = Follower.open(str(tmp_path / "state")).current().model.names
    assert set(names.values()) == {"Topic 1", "Topic 2"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "either url"),
        ({"url": "http://a", "command": ["x"]}, "either url"),
        ({"command": "x"}, "list of texts"),
        ({"url": "http://user:pw@host/"}, "password"),
        ({"url": "http://host.example/", "token": "t"}, "in the clear"),
        ({"command": ["x"], "timeout": 0}, "positive"),
    ],
)
def test_wrong_settings_are_refused_with_a_sentence(options, sentence):
    with pytest.raises(InputError, match=sentence):
        read_ask(options)
