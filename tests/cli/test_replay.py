"""A replay gives the same labels or says where they differ, and disturbs nobody."""

import json
import signal
from pathlib import Path

import pytest

from tests.cli.shell import PIPELINE, running, scstream, write_rows


def learned(folder: Path) -> Path:
    """Learn batches 0 to 20, with a savepoint before batch 7."""
    first = scstream("run", "pipeline.toml", "--until", 7, folder=folder)
    assert first.returncode == 0, first.stderr
    assert scstream("savepoint", "seven", "--checkpoint", "state", folder=folder).returncode == 0
    assert scstream("run", "pipeline.toml", "--resume", folder=folder).returncode == 0
    return folder


@pytest.fixture
def fresh(folder: Path) -> Path:
    """A folder for one test, which may change it."""
    return learned(folder)


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> Path:
    """A folder for all tests that only look at it."""
    folder = tmp_path_factory.mktemp("done")
    write_rows(folder / "rows.csv", 2050)
    (folder / "pipeline.toml").write_text(PIPELINE)
    return learned(folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def append(path: Path, n_rows: int) -> None:
    with path.open("a") as file:
        file.write("n,0.0,0.0\n" * n_rows)


def test_the_same_labels_come_again(done: Path) -> None:
    before = contents(done / "state"), (done / "labels.csv").read_bytes()
    again = scstream("replay", "pipeline.toml", "--from", "seven", folder=done)
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith("batches 7 to 20 gave the same labels again")
    assert (contents(done / "state"), (done / "labels.csv").read_bytes()) == before


def test_a_replay_stops_before_the_given_batch(done: Path) -> None:
    again = scstream(
        *("replay", "pipeline.toml", "--from", "seven", "--to", 20, "--json"), folder=done
    )
    assert again.returncode == 0, again.stderr
    verdict = json.loads(again.stdout)
    assert verdict == {"equal": True, "first": 7, "stop": 17, "compared": 2}


def test_a_replay_can_start_from_a_version(done: Path) -> None:
    table = json.loads(
        scstream("checkpoints", "--checkpoint", "state", "--json", folder=done).stdout
    )
    oldest = min(each["version"] for each in table if "version" in each)
    again = scstream("replay", "pipeline.toml", "--from", oldest, folder=done)
    assert again.returncode == 0, again.stderr


def test_other_rows_are_noticed(fresh: Path) -> None:
    """The beginning, which tells the file, is the same; a row in batch 14 is another."""
    path = fresh / "rows.csv"
    lines = path.read_text().splitlines(keepends=True)
    name, x, y = lines[1450].strip().split(",")
    other = f"{name},{5 - float(x):.4f},{y}\n"
    lines[1450] = other if len(other) == len(lines[1450]) else f"{name},0.0001,{y}\n"
    with path.open("r+") as file:
        file.write("".join(lines))
    again = scstream("replay", "pipeline.toml", "--from", "seven", folder=fresh)
    assert again.returncode == 15, again.stdout
    assert again.stderr.startswith("scstream: the labels differ after batch 1")
    assert "were equal after batch 11" in again.stderr


def test_missing_rows_are_noticed(fresh: Path) -> None:
    path = fresh / "rows.csv"
    lines = path.read_text().splitlines(keepends=True)
    with path.open("r+") as file:
        file.truncate(len("".join(lines[:1500])))
    again = scstream("replay", "pipeline.toml", "--from", "seven", folder=fresh)
    assert again.returncode in (11, 15), again.stdout + again.stderr


def test_other_settings_are_refused(done: Path) -> None:
    again = scstream(
        *("replay", "pipeline.toml", "--from", "seven", "--set", "model.alpha=2"), folder=done
    )
    assert again.returncode == 2
    assert "other settings of model" in again.stderr


@pytest.mark.parametrize(
    ("words", "detail"),
    [
        (["--from", "eight"], "there is no checkpoint or savepoint 'eight'; there are: "),
        (["--from", "0"], "there is no checkpoint or savepoint '0'"),
        (["--from", "seven", "--to", "90"], "labels are known up to batch 20"),
        (["--from", "seven", "--to", "8"], "there is nothing to compare with"),
        (["--from", "seven", "--checkpoint", "none"], "there is no folder 'none'"),
        (["--from", "seven", "--source", "stdin"], "cannot be read twice"),
    ],
)
def test_invalid_replays_are_refused(done: Path, words: list[str], detail: str) -> None:
    again = scstream("replay", "pipeline.toml", *words, folder=done)
    assert again.returncode == 2, again.stdout
    assert detail in again.stderr


def test_a_running_instance_is_not_affected(folder: Path) -> None:
    (folder / "pipeline.toml").write_text(
        PIPELINE.replace('"rows.csv"', '"rows.csv"\nfollow = true') + "seconds = 3600\n"
    )
    with running("run", "pipeline.toml", folder=folder) as run:
        run.wait_for("checkpoint", 5)  # batch 20; the next one is not whole
        assert scstream("savepoint", "20", "--checkpoint", "state", folder=folder).returncode == 0
        append(folder / "rows.csv", 500)
        run.wait_for("checkpoint", 6)
        again = scstream("replay", "pipeline.toml", "--from", "20", folder=folder)
        assert again.returncode == 0, again.stderr
        assert again.stdout.startswith("batches 20 to 24 gave the same labels again")
        append(folder / "rows.csv", 500)
        assert run.wait_for("checkpoint", 7)["batch"] == 30
        assert run.end(signal.SIGTERM) == 0


def test_batches_that_end_by_the_clock_are_replayed(folder: Path) -> None:
    write_rows(folder / "rows.csv", 450)
    words = ("--set", "batch.seconds=0.2", "--set", "source.follow=true")
    with running("run", "pipeline.toml", *words, folder=folder) as run:
        run.wait_for("checkpoint", 2)  # four whole batches, and one that the clock has cut
        assert scstream("savepoint", "five", "--checkpoint", "state", folder=folder).returncode == 0
        append(folder / "rows.csv", 555)
        run.wait_for("checkpoint", 3)
        assert run.end(signal.SIGTERM) == 0
    again = scstream("replay", "pipeline.toml", *words, "--from", "five", folder=folder)
    assert again.returncode == 0, again.stderr
