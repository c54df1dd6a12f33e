"""Exemplars in a pipeline: ids from a column, and checkpoints with or without them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scstream.errors import InputError
from scstream.model import Model, read_checkpoint
from scstream.stream.config import build


def settings(folder: Path, n_rows: int, **exemplars: Any) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n_rows, 2)) + 20.0 * (np.arange(n_rows) % 2)[:, None]
    lines = (
        json.dumps({"x": x, "y": y, "ticket": f"secret-{place}"})
        for place, (x, y) in enumerate(rows.tolist())
    )
    (folder / "rows.jsonl").write_text("\n".join(lines) + "\n")
    return {
        "source": {"kind": "file", "path": str(folder / "rows.jsonl")},
        "schema": {"features": ["x", "y"], "keep": ["ticket"]},
        "model": {"exemplars": {"n": 3, "id": "ticket", **exemplars}},
        "checkpoint": {"folder": str(folder / "state"), "batches": 1},
        "batch": {"rows": 100},
    }


def last_model(folder: Path) -> Model:
    newest = max(folder.joinpath("state").glob("version-*"))
    model, _ = read_checkpoint(newest.read_bytes(), name=str(newest))
    assert model is not None
    return model


def test_a_restarted_pipeline_ends_with_the_same(tmp_path: Path) -> None:
    found = []
    for name, parts in (("once", [1000]), ("twice", [500, 1000])):
        folder = tmp_path / name
        folder.mkdir()
        for n_rows in parts:
            build(settings(folder, n_rows, save=True)).run()
        found.append(last_model(folder).exemplars_at())
    assert {each.id[:7] for own in found[0].values() for each in own} == {"secret-"}
    ids = [{id_: [each.id for each in own] for id_, own in each.items()} for each in found]
    assert ids[0] == ids[1]


def test_checkpoints_have_no_exemplars_by_default(tmp_path: Path) -> None:
    build(settings(tmp_path, 500)).run()
    assert last_model(tmp_path).exemplars is None
    for path in tmp_path.joinpath("state").rglob("*"):
        assert not path.is_file() or b"secret-" not in path.read_bytes()


def test_a_column_that_is_not_passed_on_is_named(tmp_path: Path) -> None:
    wrong = settings(tmp_path, 200, text="body")
    with pytest.raises(InputError, match=r"'body'.*schema\.keep"):
        build(wrong).run()
