"""Texts become vectors by a server that never gives the same bits twice; labels stay the same."""

import csv
import json
import random
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from scstream.errors import CheckpointCorrupt, InputError, NonDeterministicReplay, StreamError
from scstream.stream.config import build
from scstream.stream.embedding import EMBEDDING
from scstream.stream.store import numbered_name

TOPICS = {"rain": (0.0, 8.0), "goal": (8.0, 0.0), "loan": (-8.0, -8.0)}
N_ROWS, BATCH = 120, 20


class EmbeddingServer:
    """Answers as servers of embeddings do, with noise of its own in every vector."""

    def __init__(self):
        self.asked, self.failures, self.noise = [], [], random.Random(0)

    def answer(self, request):
        if self.failures:
            return self.failures.pop(0), {}
        texts = request["input"]
        if any("forbidden" in text for text in texts):
            return 422, {"error": "forbidden text"}
        self.asked += texts
        data = [{"index": i, "embedding": self.vector(t)} for i, t in enumerate(texts)]
        return 200, {"data": data[::-1]}

    def vector(self, text):
        return [x + self.noise.gauss(0, 0.5) for x in TOPICS[text.split()[0]]]

    @contextmanager
    def listening(self):
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, answer = server.answer(json.loads(body))
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args):
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
            threading.Thread(target=http.serve_forever, daemon=True).start()
            try:
                yield f"http://127.0.0.1:{http.server_port}/v1/embeddings"
            finally:
                http.shutdown()


@pytest.fixture
def server():
    return EmbeddingServer()


@pytest.fixture
def url(server):
    with server.listening() as address:
        yield address


def texts():
    rng, topics = random.Random(1), list(TOPICS)
    return [f"{rng.choice(topics)} number {i}" for i in range(N_ROWS)]


def settings(folder, embed, rows=None):
    lines = rows or [{"doc": i, "title": text} for i, text in enumerate(texts())]
    folder.joinpath("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
    return {
        "job": "titles",
        "source": {"kind": "file", "path": f"{folder}/rows.jsonl"},
        "schema": {"text": "title", "keep": ["doc"]},
        "embed": {"rows": 8, **embed},
        "model": {"family": "gaussian", "n_jobs": 1},
        "batch": {"rows": BATCH},
        "sink": {"kind": "file", "path": f"{folder}/labels.csv"},
        "dead_letters": {"kind": "file", "path": f"{folder}/rejected.csv"},
        "checkpoint": {"folder": f"{folder}/state", "batches": 2, "newest": 2, "digests": 1},
    }


def table(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def test_topics_are_clusters(tmp_path, url):
    build(settings(tmp_path, {"url": url})).run()
    labels = table(tmp_path / "labels.csv")
    assert [int(row["doc"]) for row in labels] == list(range(N_ROWS))
    found = {(text.split()[0], row["cluster"]) for text, row in zip(texts(), labels, strict=True)}
    found = {(topic, cluster) for topic, cluster in found if cluster != "-1"}
    assert len(found) == len(TOPICS)
    assert sum(row["cluster"] == "-1" for row in labels) < 0.05 * N_ROWS


class Crash(Exception):
    pass


def crash_and_resume(made, at, *, forget=False):
    """Return the vectors of the batches of both runs; the first one ends after learning a batch."""
    seen = ({}, {})

    def crash(source_batch, learned):
        seen[0][source_batch.batch] = source_batch.block.X
        if source_batch.batch == at:
            raise Crash

    def remember(source_batch, learned):
        seen[1][source_batch.batch] = source_batch.block.X

    first, second = build(made), build(made)
    first.on_batch, second.on_batch = crash, remember
    with pytest.raises(Crash):
        first.run()
    store = second.checkpoint_log.store
    for name in list(store.names(EMBEDDING)) if forget else ():
        store.delete(name)
    second.run()
    return seen


@pytest.mark.parametrize("at", range(1, N_ROWS // BATCH))
def test_a_batch_that_is_learned_again_has_the_vectors_of_the_first_time(tmp_path, url, at):
    before, after = crash_and_resume(settings(tmp_path, {"url": url}), at)
    again = before.keys() & after.keys()
    assert again and before.keys() | after.keys() == set(range(N_ROWS // BATCH))
    for batch in again:
        np.testing.assert_array_equal(before[batch], after[batch])
    assert [int(row["doc"]) for row in table(tmp_path / "labels.csv")] == list(range(N_ROWS))


def test_because_of_the_record(tmp_path, url):
    made = settings(tmp_path, {"url": url})
    made["checkpoint"]["digests"] = 0  # else the pipeline would notice it and end
    before, after = crash_and_resume(made, 1, forget=True)
    assert (before[1] != after[1]).all()


def test_records_do_not_pile_up(tmp_path, url):
    rows = [{"doc": i, "title": text} for i, text in enumerate(texts() * 5)]
    pipeline = build(settings(tmp_path, {"url": url}, rows))
    pipeline.run()
    assert len(list(pipeline.checkpoint_log.store.names(EMBEDDING))) <= 6


def test_a_vector_is_made_once_for_an_id(tmp_path, server, url):
    rows = [{"doc": i % 15, "title": f"rain number {i}"} for i in range(60)]
    build(settings(tmp_path, {"url": url, "id": "doc"}, rows)).run()
    assert sorted(server.asked) == sorted(f"rain number {i}" for i in range(15))


def test_a_vector_is_made_again_when_the_cache_is_full(tmp_path, server, url):
    rows = [{"doc": i, "title": f"rain number {i % 40}"} for i in range(80)]
    build(settings(tmp_path, {"url": url, "cache": 20}, rows)).run()
    assert len(server.asked) == 80


def test_a_server_that_fails_is_asked_again(tmp_path, server, url):
    server.failures = [503, 429, 500]
    build(settings(tmp_path, {"url": url})).run()
    assert len(table(tmp_path / "labels.csv")) == N_ROWS


def test_a_server_that_fails_for_too_long_ends_the_pipeline(tmp_path, server, url):
    server.failures = [503] * 10
    made = settings(tmp_path, {"url": url, "retry_timeout": 0.0})
    with pytest.raises(StreamError, match="503"):
        build(made).run()
    server.failures = []
    build(made).run()
    assert len(table(tmp_path / "labels.csv")) == N_ROWS


def test_texts_that_are_refused_are_dead_letters(tmp_path, url):
    rows = [{"doc": i, "title": text} for i, text in enumerate(texts())]
    for i in (3, 4, 77):
        rows[i]["title"] = "a forbidden text"
    build(settings(tmp_path, {"url": url}, rows)).run()
    rejected = table(tmp_path / "rejected.csv")
    assert [int(row["row"]) for row in rejected] == [3, 4, 77]
    assert all("forbidden text" in row["reason"] for row in rejected)
    assert len(table(tmp_path / "labels.csv")) == N_ROWS - 3


def test_vectors_are_added_to_named_features(tmp_path, url):
    rows = [{"doc": i, "title": text, "price": 1.0 * i} for i, text in enumerate(texts())]
    made = settings(tmp_path, {"url": url}, rows)
    made["schema"]["features"] = ["price"]
    pipeline = build(made)
    pipeline.run()
    assert pipeline.processor.model.settings.feature_names == ("price", "title[0]", "title[1]")


def lengths(texts):
    if any("number 7" in text for text in texts):
        raise ValueError("sevens are not for me")
    return np.array([[len(text), text.count("1")] for text in texts])


def test_a_function_of_the_user(tmp_path):
    build(settings(tmp_path, {"function": f"{__name__}:lengths"})).run()
    n_sevens = sum("number 7" in text for text in texts())
    assert len(table(tmp_path / "rejected.csv")) == n_sevens > 0
    assert len(table(tmp_path / "labels.csv")) == N_ROWS - n_sevens


def test_a_damaged_record_is_not_used(tmp_path, url):
    made = settings(tmp_path, {"url": url})
    store = build(made).checkpoint_log.store
    store.put_new(numbered_name(EMBEDDING, 0), b"not a record")
    with pytest.raises(CheckpointCorrupt, match="embedding-"):
        build(made).run()


def test_texts_that_have_changed_are_noticed(tmp_path, url):
    made = settings(tmp_path, {"url": url})
    with pytest.raises(Crash):
        crashing = build(made)
        crashing.on_batch = lambda source_batch, learned: (_ for _ in ()).throw(Crash)
        crashing.run()
    settings(tmp_path, {"url": url}, [{"doc": 0, "title": "loan"}] * N_ROWS)
    with pytest.raises((NonDeterministicReplay, StreamError)):
        build(made).run()


@pytest.mark.parametrize(
    ("embed", "says"),
    [
        ({"url": "http://127.0.0.1:1/", "function": "a:b"}, "either url"),
        ({}, "either url"),
        ({"url": "http://127.0.0.1:1/", "rows": 0}, "embed.rows"),
        ({"url": "http://127.0.0.1:1/", "id": "title2"}, "add it to schema.keep"),
        ({"url": "http://127.0.0.1:1/", "batch": 1}, "there is no embed 'batch'"),
        ({"function": "nowhere.at_all:f"}, "start in the folder"),
        ({"function": "json"}, "module:function"),
    ],
)
def test_settings_that_cannot_work(tmp_path, embed, says):
    with pytest.raises(InputError, match=says):
        build(settings(tmp_path, embed))
