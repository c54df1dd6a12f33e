"""`scstream predict` predicts the rows of a file and does not change the model."""

import csv
import io
import json
import shutil
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pyarrow.dataset
import pytest

from scstream import ScStream
from scstream.cli.rows import read_chunks
from scstream.stream.connectors.files import FileSource
from scstream.stream.schema import Schema
from tests.cli.inside import fitted_folder, inside, refused, rows_of, sound
from tests.cli.shell import COMMAND, environment, logged, write_rows
from tests.cli.test_screen import COLOUR, on_terminal

ANSWERS = ("cluster", "probability", "novelty", "log_density")


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fitted_folder(tmp_path_factory.mktemp("once"))


@pytest.fixture
def fitted(once: Path, tmp_path: Path) -> Path:
    return shutil.copytree(once, tmp_path, dirs_exist_ok=True)


def answers(text: str) -> dict[str, np.ndarray]:
    rows = list(csv.DictReader(io.StringIO(text)))
    return {name: np.array([float(row[name]) for row in rows]) for name in ("index", *ANSWERS)}


def test_predictions_are_those_of_the_estimator(fitted: Path) -> None:
    with (fitted / "rows.csv").open("a") as file:
        file.write("far,900,900\n")
    before = (fitted / "m.scstream").read_bytes()
    found = answers(sound("predict", "m.scstream", "rows.csv", folder=fitted))
    X, model = rows_of(fitted / "rows.csv"), ScStream.load(fitted / "m.scstream")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        np.testing.assert_array_equal(found["cluster"], model.predict(X))
        np.testing.assert_array_equal(found["log_density"], model.score_samples(X))
        each = model.predict_proba(X)
    np.testing.assert_allclose(found["novelty"], each[:, -1], rtol=1e-12)
    np.testing.assert_allclose(found["probability"], each.max(axis=1), rtol=1e-12)
    np.testing.assert_array_equal(found["index"], np.arange(2051))
    assert found["cluster"][-1] == -1
    assert (fitted / "m.scstream").read_bytes() == before


def test_groups_are_those_of_the_estimator(fitted: Path) -> None:
    options = ("--level", "group", "--resolution", "0")
    text = sound("predict", "m.scstream", "rows.csv", *options, folder=fitted)
    found = [int(row["group"]) for row in csv.DictReader(io.StringIO(text))]
    X, model = rows_of(fitted / "rows.csv"), ScStream.load(fitted / "m.scstream")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        assert found == model.predict(X, level="group", resolution=0).tolist()
    assert set(found) == {0}


def test_the_newest_valid_checkpoint_is_used(fitted: Path) -> None:
    pipeline = (fitted / "pipeline.toml").read_text() + "\n[model]\nmin_batch = 1\n"
    (fitted / "pipeline.toml").write_text(pipeline)
    sound("run", "pipeline.toml", folder=fitted)
    own = sound("predict", "state", "rows.csv", folder=fitted)
    newest = max((fitted / "state").glob("version-*"))
    content = bytearray(newest.read_bytes())
    content[-1] ^= 1
    newest.write_bytes(content)
    done = inside("predict", "state", "rows.csv", folder=fitted)
    assert done.exit_code == 0
    assert done.stderr.startswith(f"scstream: skipped {newest.name}: ")
    assert (answers(done.stdout)["log_density"] != answers(own)["log_density"]).any()
    assert set((fitted / "state").iterdir()) >= {newest}  # nothing was cleaned up


def test_unusable_rows_are_counted(fitted: Path) -> None:
    (fitted / "odd.csv").write_text("name,x,y\na,1,2\nb,?,2\nc,3\nd,0,5\n")
    done = inside("predict", "m.scstream", "odd.csv", "--keep", "name", folder=fitted)
    assert done.exit_code == 0
    shown = [row[:2] for row in csv.reader(io.StringIO(done.stdout))]
    assert shown == [["index", "name"], ["0", "a"], ["3", "d"]]
    assert done.stderr == (
        "scstream: 2 of 4 rows cannot be used; the first is row 1: column 'x' holds '?', which is "
        "not a number.\n"
    )
    assert inside("predict", "m.scstream", "odd.csv", "--strict", folder=fitted).exit_code == 1
    lines = inside("predict", "m.scstream", "odd.csv", "--json", folder=fitted)
    assert [json.loads(line)["index"] for line in lines.stdout.splitlines()] == [0, 3]
    summary = logged(lines.stderr)[-1]
    assert (
        summary["event"],
        summary["rows"],
        summary["refused"],
        summary["first"],
    ) == ("predicted", 4, 2, 1)


def test_rows_outside_the_domain_are_refused_one_by_one(folder: Path) -> None:
    (folder / "counts.csv").write_text("a,b\n" + "3,0\n0,4\n" * 20)
    sound(*("fit", "counts.csv", "--model", "c", "--family", "multinomial"), folder=folder)
    (folder / "odd.csv").write_text("a,b\n3,0\n-1,2\n0,5\n")
    done = inside("predict", "c", "odd.csv", folder=folder)
    assert answers(done.stdout)["index"].tolist() == [0, 2]
    assert "1 of 3 rows cannot be used; the first is row 1" in done.stderr


def test_a_model_without_names_takes_columns_in_their_order(folder: Path) -> None:
    X = rows_of(folder / "rows.csv")
    model = ScStream(random_state=0).partial_fit(X[:300])
    model.save(folder / "own")
    found = answers(sound("predict", "own", "rows.csv", folder=folder))
    np.testing.assert_array_equal(found["cluster"], model.predict(X))
    (folder / "wide.csv").write_text("z,y,x\n1,5,0\n")
    detail = refused("predict", "own", "wide.csv", folder=folder)
    assert detail.startswith("the rows have 3 columns of numbers (z, y, x), but the model has 2")
    chosen = ("--set", 'schema.features=["x", "y"]')
    found = answers(sound("predict", "own", "wide.csv", *chosen, folder=folder))
    assert found["cluster"] == model.predict([[0.0, 5.0]])


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_predictions_can_be_written_to_a_file(fitted: Path, ending: str) -> None:
    words = ("predict", "m.scstream", "rows.csv", "--labels", f"out.{ending}")
    assert sound(*words, folder=fitted) == ""
    table = pyarrow.dataset.dataset(
        fitted / f"out.{ending}", format="json" if ending == "jsonl" else ending
    ).to_table()
    found = answers(sound("predict", "m.scstream", "rows.csv", folder=fitted))
    for name in ANSWERS:
        np.testing.assert_array_equal(table[name].to_numpy(), found[name])
    if ending == "jsonl":
        assert refused(*words, folder=fitted).startswith("out.jsonl exists already")


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.csv", 40_000)
    source = FileSource(path=tmp_path / "rows.csv")
    sizes = [block.n_rows for block, _ in read_chunks(source, source.reader(Schema(("x", "y"))))]
    assert sum(sizes) == 40_000
    assert max(sizes) < 20_000


@pytest.mark.parametrize(
    ("model", "rows", "code", "detail"),
    [
        ("none", "rows.csv", 2, "there is no file or folder none"),
        ("rows.csv", "rows.csv", 1, "rows.csv is not a model file, or is damaged"),
        ("torn", "rows.csv", 1, "torn is not a valid model file"),
        ("empty", "rows.csv", 1, "there is no valid checkpoint with a model yet"),
        ("m.scstream", "none.csv", 2, "there is no file at none.csv"),
        ("m.scstream", "other.csv", 2, "the first is row 0: column 'x' is missing."),
        ("m.scstream", "rows", 2, "the format of 'rows' in rows is unknown"),
    ],
)
def test_invalid_input_is_one_sentence(
    fitted: Path, model: str, rows: str, code: int, detail: str
) -> None:
    (fitted / "empty").mkdir()
    (fitted / "rows").write_text("x,y\n1,2\n")
    (fitted / "other.csv").write_text("a,b\n1,2\n")
    content = bytearray((fitted / "m.scstream").read_bytes())
    content[-1] ^= 1
    (fitted / "torn").write_bytes(content)
    assert detail in refused("predict", model, rows, folder=fitted, code=code)


def test_a_full_disk_is_reported(fitted: Path) -> None:
    (fitted / "full.csv").symlink_to("/dev/full")
    words = ("predict", "m.scstream", "rows.csv", "--labels", "full.csv", "--force")
    assert refused(*words, folder=fitted, code=16).startswith("full.csv could not be written")


def test_a_closed_pipe_is_not_an_error(fitted: Path) -> None:
    write_rows(fitted / "rows.csv", 6_000)
    command = [*COMMAND, "predict", "m.scstream", "rows.csv"]
    with subprocess.Popen(
        command, cwd=fitted, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"index,cluster")
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()


def test_a_terminal_shows_a_bar_and_a_summary(fitted: Path) -> None:
    text, code = on_terminal(
        *("predict", "m.scstream", "rows.csv", "--labels", "l.csv"), folder=fitted, NO_COLOR="1"
    )
    assert code == 0, text
    assert "━" in text
    assert not COLOUR.search(text)
    assert "2,050 rows, 0 of them novel: l.csv" in text
