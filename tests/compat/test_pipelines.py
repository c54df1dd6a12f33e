"""Checkpoints of pipelines of every release stay readable, and their pipelines go on."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from scstream import __version__
from scstream.io.parameters import FAMILIES
from scstream.preprocess.block import Block
from scstream.stream.batcher import SourceBatch
from scstream.stream.config import build
from tests.compat.make_pipelines import HERE, KEYED, answers, rows, settings

STORES = sorted(path for path in HERE.glob("pipelines-*/*") if path.is_dir())


def test_this_version_has_a_store_of_every_family_and_of_a_keyed_job() -> None:
    found = {path.name for path in STORES if path.parent.name == f"pipelines-{__version__}"}
    assert found == {*FAMILIES, KEYED}


@pytest.mark.parametrize("path", STORES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_golden_pipeline_is_restored_and_goes_on(path: Path, tmp_path: Path) -> None:
    kind = path.name
    expected = json.loads((path.parent / "answers.json").read_text())[kind]
    shutil.copytree(path, tmp_path / "store")
    if kind != KEYED:
        found = answers(kind, tmp_path / "store")
        assert found["labels"] == expected["answers"]["labels"]
        assert found["scores"] == pytest.approx(expected["answers"]["scores"], rel=1e-9)
    (tmp_path / "rows.jsonl").touch()
    pipeline = build(settings(kind, tmp_path))
    name, content = next(iter(pipeline.checkpoint_log.checkpoints()))
    progress = pipeline.processor.restore(content, name=name)
    progress.check(f"golden-{kind}", pipeline.settings)
    assert (progress.batch, progress.rows) == (3, expected["labels"])
    X = rows("poisson" if kind == "product" else kind)[-60:]
    who = np.array([f"k{i % 3}" for i in range(60)], dtype=object)
    learned = pipeline.processor.learn(SourceBatch(3, {}, None, Block.of(X, who=who), ()))
    assert len(learned.labels) == 60
    assert not learned.block.rejects
