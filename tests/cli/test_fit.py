"""A file becomes a model file: the one that the estimator would have learned."""

import errno
import json
import re
import signal
import subprocess
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from scstream import ScStream
from scstream.io.disk import MachineDisk
from tests.cli.inside import inside, json_output, refused, rows_of, sound
from tests.cli.shell import COMMAND, SECONDS, environment, logged, scstream, write_rows
from tests.cli.test_screen import COLOUR, on_terminal

FIT = ("fit", "rows.csv", "--model", "m.scstream", "--batch-rows", 100)


def clusters(folder: Path, model: str) -> Any:
    return json_output("inspect", model, folder=folder)["clusters"]


def learned(X: np.ndarray, **params: Any) -> tuple[ScStream, np.ndarray]:
    """A model of the estimator, and the labels of its batches of a hundred rows."""
    model = ScStream(**params)
    batches = [X[start : start + 100] for start in range(0, len(X), 100)]
    return model, np.concatenate([model.partial_fit(batch).labels_ for batch in batches])


def test_it_learns_what_the_estimator_learns(folder: Path) -> None:
    knobs = ("--seed", 7, "--half-life", 3, "--alpha", 2)
    sound(*FIT, "--labels", "labels.csv", *knobs, folder=folder)
    X = rows_of(folder / "rows.csv")
    model, labels = learned(X, random_state=7, half_life=3.0, alpha=2.0)
    written = np.loadtxt(folder / "labels.csv", delimiter=",", skiprows=1, dtype=int)
    np.testing.assert_array_equal(written[:, 2], labels)
    again = ScStream.load(folder / "m.scstream")
    for field in fields(model.state_):
        if field.name != "archive":
            one, other = getattr(again.state_, field.name), getattr(model.state_, field.name)
            np.testing.assert_array_equal(one, other, err_msg=field.name)
    assert again.config_ == model.config_
    assert list(again.feature_names_in_) == ["x", "y"]
    with pytest.warns(UserWarning, match="feature names"):  # the file has names, the array none
        np.testing.assert_array_equal(again.partial_fit(X[:50]).labels_, _next(model, X[:50]))


def _next(model: ScStream, X: np.ndarray) -> np.ndarray:
    return model.partial_fit(X).labels_


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "arrow"])
def test_the_format_makes_no_difference(folder: Path, ending: str) -> None:
    table = pyarrow.csv.read_csv(folder / "rows.csv")
    path = folder / f"rows.{ending}"
    if ending == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    elif ending == "parquet":
        pyarrow.parquet.write_table(table, path)
    else:
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    sound(*FIT, folder=folder)
    sound("fit", path.name, "--model", "o.scstream", "--batch-rows", 100, folder=folder)
    assert clusters(folder, "o.scstream") == clusters(folder, "m.scstream")


def test_from_the_standard_input_to_the_standard_output(folder: Path) -> None:
    sound(*FIT, "--labels", "labels.csv", folder=folder)
    words = ("fit", "-", "--format", "csv", "--model", "p.scstream", "--batch-rows", 100)
    text = (folder / "rows.csv").read_text()
    done = scstream(*words, "--labels", "-", folder=folder, given=text)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (folder / "labels.csv").read_text()
    assert clusters(folder, "p.scstream") == clusters(folder, "m.scstream")
    assert [line["event"] for line in logged(done.stderr)] == ["started", "stopped"]


def test_resuming_gives_the_model_of_one_run(folder: Path) -> None:
    head, *lines = (folder / "rows.csv").read_text().splitlines(keepends=True)
    (folder / "a.csv").write_text(head + "".join(lines[:1000]))
    (folder / "b.csv").write_text(head + "".join(lines[1000:]))
    sound(*FIT, folder=folder)
    size = ("--batch-rows", 100)
    sound("fit", "a.csv", "--model", "a.scstream", *size, folder=folder)
    more = ("fit", "b.csv", "--resume", "a.scstream", "--model", "both.scstream")
    assert json_output(*more, *size, folder=folder)["rows"] == 1050
    whole, both = (
        json_output("inspect", f"{name}.scstream", folder=folder) for name in ("m", "both")
    )
    assert both["clusters"] == whole["clusters"]
    assert both["events"] == whole["events"]
    assert both["pipeline"]["rows"] == 2050
    detail = refused(*more, "--half-life", 3, "--force", folder=folder)
    assert detail.startswith("--resume keeps the model settings")


def test_a_model_of_the_estimator_can_be_resumed(folder: Path) -> None:
    X = rows_of(folder / "rows.csv")
    model, _ = learned(X[:500], random_state=3)
    model.save(folder / "own.scstream")
    sound(
        *("fit", "rows.csv", "--resume", "own.scstream", "--model", "on.scstream"),
        *("--batch-rows", 100),
        folder=folder,
    )
    for start in range(0, len(X), 100):
        model.partial_fit(X[start : start + 100])
    found = clusters(folder, "on.scstream")
    assert [each["id"] for each in found] == model.clusters_.id.tolist()
    assert [each["weight"] for each in found] == model.clusters_.weight.tolist()


def test_steps_are_in_the_model_file(folder: Path) -> None:
    steps = 'steps=[{step="standardise"}, {step="pca", n=1}]'
    sound(*FIT, "--set", steps, folder=folder)
    about = json_output("inspect", "m.scstream", folder=folder)
    assert [step["step"] for step in about["steps"]] == ["standardise", "pca"]
    assert about["features"] == ["pca0"]
    first = sound("predict", "m.scstream", "rows.csv", folder=folder).splitlines()
    assert len(first) == 2051


def test_fit_reads_the_settings_of_a_pipeline(folder: Path) -> None:
    (folder / "other.toml").write_text(
        '[source]\nkind = "nats"\nurl = "nats://nowhere:4222"\nstream = "rows"\n'
        '[sink]\nkind = "nats"\nurl = "nats://nowhere:4222"\nsubject = "labels"\n'
        "[batch]\nrows = 100\n[model]\nhalf_life = 3\n"
    )
    words = ("fit", "rows.csv", "--model", "m.scstream", "--settings", "other.toml")
    assert json_output(*words, folder=folder)["batches"] == 21
    assert json_output("inspect", "m.scstream", folder=folder)["half_life"] == 3


def test_an_input_is_never_overwritten(folder: Path) -> None:
    before = (folder / "rows.csv").read_bytes()
    words = ("fit", "rows.csv", "--force", "--model")
    assert refused(*words, "./rows.csv", folder=folder).startswith(
        "rows.csv is an input of this command"
    )
    sound(*FIT, folder=folder)
    for labels in ("rows.csv", "m.scstream"):
        (folder / "link.csv").unlink(missing_ok=True)
        (folder / "link.csv").symlink_to(labels)
        ask = ("predict", "m.scstream", "rows.csv", "--labels", "link.csv", "--force")
        assert refused(*ask, folder=folder).startswith("link.csv is an input of this command")
    assert (folder / "rows.csv").read_bytes() == before


def test_environment_variables_are_settings(folder: Path) -> None:
    words = ("fit", "rows.csv", "--model", "m.scstream")
    variables = {"SCSTREAM_BATCH__ROWS": "100", "SCSTREAM_MODEL__HALF_LIFE": "3"}
    elsewhere = {"SCSTREAM_SOURCE__KIND": "nats", "SCSTREAM_SINK__KIND": "nats"}
    assert json_output(*words, folder=folder, **variables, **elsewhere)["batches"] == 21
    assert json_output("inspect", "m.scstream", folder=folder)["half_life"] == 3


def test_files_are_not_replaced_by_accident(folder: Path) -> None:
    sound(*FIT, "--labels", "labels.csv", folder=folder)
    before = (folder / "m.scstream").read_bytes(), (folder / "labels.csv").read_bytes()
    assert refused(*FIT, folder=folder).startswith("m.scstream exists already")
    words = ("fit", "rows.csv", "--model", "n.scstream", "--labels", "labels.csv")
    assert refused(*words, folder=folder).startswith("labels.csv exists already")
    assert before == ((folder / "m.scstream").read_bytes(), (folder / "labels.csv").read_bytes())
    assert not (folder / "n.scstream").exists()
    sound(*FIT, "--labels", "labels.csv", "--force", folder=folder)
    assert (folder / "labels.csv").read_bytes() == before[1]


@pytest.mark.parametrize(
    ("words", "code", "detail"),
    [
        (("none.csv", "--model", "n.scstream"), 2, "there is no file at none.csv"),
        (("void.csv", "--model", "n.scstream"), 2, "void.csv has no rows. No model was written."),
        (("rows.csv", "--model", "none/n.scstream"), 2, "there is no folder none"),
        (("rows.csv", "--model", "."), 2, ". is a folder"),
        (("rows.csv", "--model", "rows.csv/n"), 2, "there is no folder rows.csv"),
        (("rows.csv", "--model", "n", "--labels", "l.txt"), 2, "labels cannot be written to l.txt"),
        (("rows.csv", "--model", "n", "--labels", "full.csv"), 16, "full.csv could not be written"),
        (("rows.csv", "--model", "n", "--family", "cubic"), 2, "family"),
        (("rows.csv", "--model", "n", "--half-life", "-1"), 2, "half_life must be a positive"),
        (("rows.csv", "--model", "n", "--set", "schema.key=x"), 2, "schema.key asks for"),
        (("rows.csv", "--model", "n", "--set", 'schema.features=["q"]'), 2, "no row of rows.csv"),
        (("rows.csv", "--model", "n", "--resume", "rows.csv"), 1, "rows.csv is not a model file"),
    ],
)
def test_invalid_input_is_one_sentence(
    folder: Path, words: tuple[str, ...], code: int, detail: str
) -> None:
    write_rows(folder / "rows.csv", 200)
    (folder / "void.csv").write_text("")
    (folder / "full.csv").symlink_to("/dev/full")
    assert detail in refused("fit", *words, "--force", folder=folder, code=code)
    assert not list(folder.glob("n*"))


def test_a_full_disk_leaves_no_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: MachineDisk, handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(MachineDisk, "sync", full)
    detail = refused(*FIT, folder=folder, code=16)
    assert detail.startswith("m.scstream could not be written: No space left on device")
    assert not list(folder.glob("*.scstream*")) + list(folder.glob(".m*"))


def test_an_interrupt_keeps_what_was_learned(folder: Path) -> None:
    command = [*COMMAND, "fit", "-", "--format", "csv", "--model", "m.scstream", "--json"]
    with subprocess.Popen(
        [*command, "--batch-rows", "100", "--labels", "labels.csv"],
        cwd=folder, env=environment(),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        process.stdin.write((folder / "rows.csv").read_text())
        process.stdin.flush()
        end = time.monotonic() + SECONDS
        while not (folder / "labels.csv").exists() or len(_lines(folder)) < 2001:
            assert time.monotonic() < end
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        said, log = process.communicate(timeout=SECONDS)
    assert process.returncode == 130, log
    fitted = json.loads(said)
    assert fitted["interrupted"] is True
    assert fitted["rows"] == 2000
    assert json_output("inspect", "m.scstream", folder=folder)["pipeline"]["rows"] == 2000


def _lines(folder: Path) -> list[str]:
    return (folder / "labels.csv").read_text().splitlines()


def test_json_is_one_object_and_lines(folder: Path) -> None:
    done = inside(*FIT, "--json", folder=folder)
    fitted = json.loads(done.stdout)
    assert fitted["batches"] == 21
    assert fitted["clusters"] == 4
    assert fitted["bytes"] == (folder / "m.scstream").stat().st_size
    assert [line["event"] for line in logged(done.stderr)] == ["started", "stopped"]
    wrong = inside("fit", "none.csv", "--model", "n.scstream", "--json", folder=folder)
    assert logged(wrong.stderr)[-1]["exit_code"] == wrong.exit_code == 2


def test_a_terminal_shows_a_bar_and_removes_it(folder: Path) -> None:
    write_rows(folder / "rows.csv", 6000)
    text, code = on_terminal(*map(str, FIT), folder=folder)
    assert code == 0, text
    assert "━" in text
    assert " %" in text
    assert COLOUR.search(text)
    assert "\x1b[?25h" in text  # the cursor is back
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "").strip().splitlines()
    assert re.fullmatch(r"6,000 rows in 60 batches, 4 clusters, .* rows per second", plain[-2])
    assert re.fullmatch(r"m\.scstream  [\d.]+ kB", plain[-1])
