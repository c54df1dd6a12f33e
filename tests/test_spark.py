"""The Spark recipe runs as written, and is killed on the way: every row counts once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scstream import ScStream
from scstream.model import Settings
from tests.docs.blocks import Block, blocks_of, compare, files_of, run
from tests.servers import program

PAGE = Path(__file__).resolve().parents[1] / "docs" / "howto" / "spark.md"
TEXT = PAGE.read_text(encoding="utf-8")
# Runs app.py as it is, and ends it as a power cut would, around the writing of one model.
CRASH = """
import os, runpy, signal, sys
from scstream.stream.store import FolderStore

moment, name = sys.argv[1:]
put_new = FolderStore.put_new


def put_or_die(store, given, content):
    taken = given == name and moment == "before" or put_new(store, given, content)
    if given == name:
        os.killpg(0, signal.SIGKILL)
    return taken


FolderStore.put_new = put_or_die
runpy.run_path("app.py", run_name="__main__")
"""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of the page, and a Java that starts quickly."""
    java = program("java", "apt install default-jre-headless")
    monkeypatch.setenv("JAVA_HOME", str(Path(java).resolve().parents[1]))
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    for name, content in {**files_of(blocks_of(TEXT)), "crash.py": CRASH}.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    return tmp_path


def killed(desk: Path, moment: str, name: str) -> None:
    """Run the application until it dies at a moment."""
    submit = str(Path(sys.executable).with_name("spark-submit"))
    with (desk / "crash.log").open("w") as log:
        process = subprocess.Popen(
            [submit, "--properties-file", "local.conf", "crash.py", moment, name],
            cwd=desk,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            assert process.wait(180) == -signal.SIGKILL, (desk / "crash.log").read_text()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def run_block(block: Block, desk: Path) -> str:
    done = run(["bash", "-euo", "pipefail", "-c", block.code], desk)
    log = desk / "spark.log"
    why = f"{done.stderr}\n{log.read_text() if log.exists() else ''}"
    assert done.returncode == 0, f"{PAGE.name} line {block.line}:\n{why}"
    return done.stdout


def labels_of(desk: Path, batch: int) -> pa.Table:
    return pq.read_table(desk / "labels" / f"batch={batch}", partitioning=None)


def models(desk: Path) -> list[str]:
    return sorted(model.name for model in (desk / "models").glob("after-*"))


def committed(desk: Path) -> list[str]:
    """Batches that Spark believes to be finished."""
    return sorted(entry.name for entry in (desk / "spark.state" / "commits").glob("[0-9]*"))


def loop(desk: Path) -> tuple[ScStream, list[tuple[list[int], np.ndarray]]]:
    """What plain Python learns from the same files: ids and labels of every batch."""
    model, batches = ScStream(random_state=0), []
    for file in sorted((desk / "rows").iterdir()):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        sound = [row for row in rows if row["v"] is not None]
        model.partial_fit(np.array([[row["t"], row["v"]] for row in sound]))
        batches.append(([row["id"] for row in sound], model.labels_.copy()))
    return model, batches


def leave_half_a_folder(desk: Path, batch: int) -> None:
    """Make what a crash in the middle of the writing of labels leaves behind."""
    folder = desk / "labels" / f"batch={batch}"
    (folder / "_temporary" / "0").mkdir(parents=True)
    (folder / "part-00000-half.snappy.parquet").write_bytes(b"PAR1 and no end")


class Batch:
    """As much of a micro-batch as `learn` looks at before it collects rows."""

    def __init__(self, query: str) -> None:
        self.sparkSession = self.sparkContext = self
        self.query = query

    def getLocalProperty(self, name: str) -> str:
        assert name == "sql.streaming.queryId"
        return self.query

    def toArrow(self) -> None:
        raise Collected


class Collected(Exception):
    """Rows were asked for."""


@pytest.mark.parametrize(
    ("query", "batch", "outcome"),
    [
        ("ours", 7, None),
        ("ours", 8, Collected),
        ("ours", 9, RuntimeError),  # a model is missing
        ("ours", 6, RuntimeError),  # spark.state is an old copy
        ("another", 0, RuntimeError),  # spark.state is gone
        ("another", 7, RuntimeError),
    ],
)
def test_folders_that_do_not_belong_together_are_refused(
    query: str,
    batch: int,
    outcome: type[Exception] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    definitions, _, _ = files_of(blocks_of(TEXT))["app.py"].partition("\nspark = ")
    app: dict[str, Any] = {}
    exec(definitions, app)
    after, _, _ = Settings().update(np.ones((9, 2)))
    app["models"].put("query", b"ours")
    app["models"].put("after-000000007", after.to_bytes())
    with pytest.raises(outcome) if outcome else nullcontext():
        app["learn"](Batch(query), batch)
    assert not (tmp_path / "labels").exists()


@pytest.mark.slow
def test_the_recipe_counts_every_row_once_whatever_is_killed_when(desk: Path) -> None:
    make_rows, *others = [block for block in blocks_of(TEXT) if block.kind == "sh"]
    run_block(make_rows, desk)

    killed(desk, "before", "after-000000001")
    early = labels_of(desk, 1)
    assert committed(desk) == ["0"] and models(desk) == ["after-000000000"]
    killed(desk, "after", "after-000000002")
    assert labels_of(desk, 1).equals(early)
    late = labels_of(desk, 2)
    assert committed(desk) == ["0", "1"] and "after-000000002" in models(desk)
    leave_half_a_folder(desk, 3)

    for block in others:
        compare(PAGE.name, block, run_block(block, desk))

    assert committed(desk) == ["0", "1", "2", "3"]
    assert labels_of(desk, 1).equals(early) and labels_of(desk, 2).equals(late)
    model, batches = loop(desk)
    for number, (ids, clusters) in enumerate(batches):
        found = labels_of(desk, number)
        assert found["id"].to_pylist() == ids
        assert found["cluster"].to_numpy().tolist() == clusters.tolist()
    model.save(desk / "loop")
    assert (desk / "loop").read_bytes() == (desk / "models" / "after-000000003").read_bytes()
