"""Edits of a running pipeline: applied between two batches, once, and told to the sinks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from scstream import ScStream
from scstream.errors import InputError
from scstream.observe.events import EditApplied, EditRefused
from scstream.stream.config import build
from scstream.stream.edit_queue import APPLIED, EDIT, EditRequest, submit
from scstream.stream.follower import Follower
from scstream.stream.store import FolderStore

BATCH, N_BATCHES = 100, 12


def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    which = rng.integers(3, size=BATCH * N_BATCHES)
    return np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])[which] + rng.normal(size=(len(which), 2))


def settings(folder: Path, **more) -> dict:
    lines = "".join(f'{{"x": {x}, "y": {y}}}\n' for x, y in rows().tolist())
    (folder / "rows.jsonl").write_text(lines)
    return {
        "source": {"kind": "file", "path": str(folder / "rows.jsonl")},
        "sink": {"kind": "file", "path": str(folder / "labels.jsonl")},
        "events": {"kind": "file", "path": str(folder / "events.jsonl")},
        "labels": {"add": ["cluster_name", "cluster_group", "group_name"]},
        "checkpoint": {"folder": str(folder / "state"), "batches": 2},
        "batch": {"rows": BATCH},
        "model": {"random_state": 7},
        **more,
    }


def sent(folder: Path, *edits: dict) -> FolderStore:
    store = FolderStore(folder / "state")
    for edit in edits:
        submit(store, EditRequest.of(edit))
    return store


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_edits_act_as_they_do_in_python(tmp_path):
    sent(
        tmp_path,
        {"action": "name", "id": 1, "name": "right", "batch": 3, "author": "ana"},
        {"action": "merge", "id": 0, "other": 1, "batch": 6},
    )
    build(settings(tmp_path)).run()
    model = ScStream(random_state=7)
    expected = []
    for batch, X in enumerate(rows().reshape(N_BATCHES, BATCH, 2)):
        if batch == 3:
            model.name(1, "right")
        if batch == 6:
            model.merge(0, 1)
        model.partial_fit(X, time=batch)
        names = model.names_
        expected += [(int(k), names.get(int(k), "")) for k in model.labels_]
    found = [(row["cluster"], row["cluster_name"]) for row in lines(tmp_path / "labels.jsonl")]
    assert found == expected
    assert {name for _, name in found} == {"", "right"}


def test_a_warehouse_can_follow_the_events(tmp_path):
    sent(
        tmp_path,
        {"action": "name", "id": 1, "name": "right", "batch": 3, "author": "ana"},
        {"action": "merge", "id": 1, "other": 2, "batch": 3, "author": "bo"},
    )
    build(settings(tmp_path)).run()
    events = lines(tmp_path / "events.jsonl")
    named, merged = [event for event in events if event["author"]]
    assert (named["kind"], named["id"], named["name"], named["batch"]) == ("named", 1, "right", 3)
    assert (merged["kind"], merged["id"], merged["other"]) == ("merged", 1, 2)
    assert [event["kind"] for event in events[:3]] == ["born"] * 3


def test_an_edit_that_cannot_be_applied_is_refused_with_a_reason(tmp_path):
    store = sent(tmp_path, {"action": "name", "id": 99, "name": "x"})
    store.put_new(f"{EDIT}{1:015d}", b"not JSON")
    sent(tmp_path, {"action": "name", "id": 0, "name": "zero"})
    found = []
    build(settings(tmp_path), emit=found.append).run()
    refused = [event for event in found if isinstance(event, EditRefused)]
    assert "no cluster 99" in refused[0].reason
    assert "JSON" in refused[1].reason
    [applied] = [event for event in found if isinstance(event, EditApplied)]
    assert applied.number == 2
    assert Follower.open(str(tmp_path / "state")).current().model.names == {0: "zero"}


@pytest.mark.parametrize("threads", [False, True])
def test_an_edit_of_a_stopped_pipeline_comes_with_its_next_run_and_once(tmp_path, threads):
    options = settings(tmp_path, threads=threads)
    build(options).run(until=4)
    sent(tmp_path, {"action": "split", "id": 0})
    found = []
    build(options, emit=found.append).run(until=8)
    build(options, emit=found.append).run()
    applied = [event for event in found if isinstance(event, EditApplied)]
    assert [(event.number, event.batch) for event in applied] == [(0, 4)]


def test_edits_are_committed_while_the_source_is_idle(tmp_path):
    options = settings(tmp_path)
    build(options).run()
    sent(tmp_path, {"action": "name", "id": 0, "name": "late"})
    build(options).run()  # the file has no more rows
    assert Follower.open(str(tmp_path / "state")).current().model.names == {0: "late"}


def test_files_of_old_edits_are_deleted(tmp_path):
    edits = [{"action": "name", "id": 0, "name": f"n{b}", "batch": b} for b in range(1, 9)]
    store = sent(tmp_path, *edits)
    build(settings(tmp_path)).run()
    build(settings(tmp_path)).run()
    assert len(store.names(EDIT)) <= 3
    assert len(store.names(APPLIED)) <= 3
    assert submit(store, EditRequest("undo")) == 8  # numbers go on


def test_the_model_of_a_key_is_edited(tmp_path):
    X = rows()
    text = "".join(
        f'{{"x": {x}, "y": {y}, "who": "{"ab"[i % 2]}"}}\n' for i, (x, y) in enumerate(X.tolist())
    )
    options = settings(tmp_path, schema={"features": ["x", "y"], "key": "who"})
    del options["labels"]
    (tmp_path / "rows.jsonl").write_text(text)
    sent(
        tmp_path,
        {"action": "name", "id": 0, "name": "zero", "key": "b", "batch": 3},
        {"action": "name", "id": 0, "name": "zero", "key": "c", "batch": 3},
    )
    found = []
    pipeline = build(options, emit=found.append)
    pipeline.run()
    assert pipeline.processor.model("b").model.names == {0: "zero"}
    assert pipeline.processor.model("a").model.names == {}
    [refused] = [event for event in found if isinstance(event, EditRefused)]
    assert "key 'c'" in refused.reason


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"[]", "JSON object"),
        (b'{"action": "explode", "id": 1}', "no edit 'explode'"),
        (b'{"id": 1}', "needs 'action'"),
        (b'{"action": "name", "id": -1, "name": "x"}', "whole number"),
        (b'{"action": "name", "id": 1.5, "name": "x"}', "whole number"),
        (b'{"action": "name", "id": true, "name": "x"}', "whole number"),
        (b'{"action": "name", "id": 1, "name": 7}', "text"),
        (b'{"action": "name", "id": 1, "name": "a\\u0000b"}', "printable"),
        (b'{"action": "pin", "id": 1, "level": "all"}', "level"),
        (b'{"action": "pin", "id": 1, "colour": "red"}', "no 'colour'"),
        (b'{"action": "pin", "id": 1, "hold": 1}', "hold"),
        (b'{"action": "pin", "id": 1, "author": ["x"]}', "author"),
        (b"[" * 100_000, "JSON"),
        (b" " * (1 << 21), "bytes"),
    ],
)
def test_a_bad_request_is_refused_with_a_sentence(content, sentence):
    with pytest.raises(InputError, match=sentence):
        EditRequest.from_json(content)
