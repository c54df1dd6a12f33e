"""A run from the command line: what it writes, where it goes on, how it ends."""

import fcntl
import json
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import IO

import pytest

from tests.cli.shell import COMMAND, Running, environment, logged, running, scstream, write_rows


def labels(folder: Path) -> str:
    return (folder / "labels.csv").read_text()


def follow(folder: Path) -> None:
    file = folder / "pipeline.toml"
    file.write_text(file.read_text().replace('"rows.csv"', '"rows.csv"\nfollow = true'))


@pytest.fixture(scope="module")
def straight(tmp_path_factory) -> str:
    """Labels of a run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("straight")
    write_rows(folder / "rows.csv", 2050)
    done = scstream(
        *("run", "--source", "file:rows.csv", "--sink", "file:labels.csv", "--job", "demo"),
        *("--set", 'schema.keep=["name"]', "--set", "batch.rows=100", "--checkpoint", "state"),
        folder=folder,
    )
    assert done.returncode == 0, done.stderr
    return labels(folder)


def test_a_file_becomes_labels_and_a_log(folder: Path, straight: str) -> None:
    done = scstream("run", "pipeline.toml", folder=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert labels(folder) == straight
    assert len(straight.splitlines()) == 2051
    lines = logged(done.stderr)
    assert [lines[0]["event"], lines[-1]["event"]] == ["checkpoint", "stopped"]
    assert {line["job"] for line in lines} == {"demo"}
    assert [line["batch"] for line in lines if line["event"] == "checkpoint"] == [
        0,
        5,
        10,
        15,
        20,
        21,
    ]
    assert lines[-1]["rows"] == 2050
    assert lines[-1]["rejected"] == 0
    assert lines[-1]["clusters"] == 4


def test_a_run_in_two_parts_gives_the_labels_of_one(folder: Path, straight: str) -> None:
    first = scstream("run", "pipeline.toml", "--until", 7, folder=folder)
    assert first.returncode == 0, first.stderr
    assert len(labels(folder).splitlines()) == 701
    second = scstream("run", "pipeline.toml", "--resume", folder=folder)
    assert second.returncode == 0, second.stderr
    assert labels(folder) == straight


def test_existing_checkpoints_need_resume(folder: Path) -> None:
    assert scstream("run", "pipeline.toml", "--until", 2, folder=folder).returncode == 0
    before = labels(folder)
    again = scstream("run", "pipeline.toml", folder=folder)
    assert again.returncode == 2
    (line,) = logged(again.stderr)
    assert line["error"] == "InputError"
    assert "--resume" in line["detail"]
    assert "another folder" in line["detail"]
    assert labels(folder) == before


def test_resume_needs_a_checkpoint(folder: Path) -> None:
    done = scstream("run", "pipeline.toml", "--resume", folder=folder)
    assert done.returncode == 2
    assert "there is no checkpoint in state" in done.stderr
    assert not (folder / "state").exists()


def test_resume_or_start_starts_and_resumes(folder: Path, straight: str) -> None:
    words = ("run", "pipeline.toml", "--resume-or-start")
    assert scstream(*words, "--until", 4, folder=folder).returncode == 0
    assert scstream(*words, folder=folder).returncode == 0
    assert labels(folder) == straight


def test_a_run_continues_from_a_savepoint(folder: Path, straight: str) -> None:
    assert scstream("run", "pipeline.toml", "--until", 5, folder=folder).returncode == 0
    assert scstream("savepoint", "five", "--checkpoint", "state", folder=folder).returncode == 0
    assert scstream("run", "pipeline.toml", "--resume", folder=folder).returncode == 0
    done = scstream("run", "pipeline.toml", "--from", "five", folder=folder)
    assert done.returncode == 0, done.stderr
    assert next(line["batch"] for line in logged(done.stderr) if line["event"] == "started") == 5
    assert labels(folder) == straight
    none = scstream("run", "pipeline.toml", "--from", "six", folder=folder)
    assert none.returncode == 2
    assert "there is no savepoint 'six'; there are: five" in none.stderr


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_finishes_the_batch_and_commits(
    folder: Path, straight: str, how: signal.Signals
) -> None:
    follow(folder)
    with running("run", "pipeline.toml", folder=folder) as run:
        run.wait_for("checkpoint", 5)  # batch 20: what is left is less than a batch
        assert run.end(how) == 0
        assert run.wait_for("stopped")["drained"] is True
    file = folder / "pipeline.toml"
    file.write_text(file.read_text().replace("follow = true", ""))
    done = scstream("run", "pipeline.toml", "--resume", folder=folder)
    assert done.returncode == 0, done.stderr
    assert labels(folder) == straight


def test_a_signal_in_the_middle_loses_nothing(folder: Path, straight: str) -> None:
    for _ in range(3):
        with running("run", "pipeline.toml", "--resume-or-start", folder=folder) as run:
            run.wait_for("started")
            assert run.end(signal.SIGTERM) == 0
    done = scstream("run", "pipeline.toml", "--resume-or-start", folder=folder)
    assert done.returncode == 0, done.stderr
    assert labels(folder) == straight


def wait_until_full(pipe: IO[bytes] | None) -> None:
    """Wait until nobody has written more into a pipe for some seconds."""
    counts = [0]
    while counts[-1] < 16_384 or len(counts) < 30 or counts[-30] != counts[-1]:
        time.sleep(0.1)
        counts.append(int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder))


def test_a_second_interrupt_exits_at_once(folder: Path) -> None:
    """Nobody reads the labels, so that the batch in hand cannot be finished."""
    write_rows(folder / "rows.csv", 20_000)
    log = folder / "log.txt"
    with (
        log.open("w") as file,
        subprocess.Popen(
            [*COMMAND, "run", "pipeline.toml", "--sink", "stdout"],
            cwd=folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=file,
        ) as process,
    ):
        run = Running(process, log)
        run.wait_for("started")
        wait_until_full(process.stdout)
        process.send_signal(signal.SIGINT)
        time.sleep(1.0)
        assert process.poll() is None
        assert run.end(signal.SIGINT) == 130


def test_a_signal_before_the_start_is_not_an_error(folder: Path) -> None:
    """A broker that is not there is waited for, and a signal ends the waiting."""
    with running(
        *("run", "--source", "nats://127.0.0.1:9/rows", "--checkpoint", "state"), folder=folder
    ) as run:
        assert "NATS" in run.wait_for("warning")["detail"]
        assert run.end(signal.SIGTERM) == 0
        assert run.wait_for("stopped")["drained"] is True


def test_two_instances_do_not_run_at_once(folder: Path) -> None:
    follow(folder)
    with running("run", "pipeline.toml", folder=folder) as run:
        run.wait_for("checkpoint", 5)
        second = scstream("run", "pipeline.toml", "--resume", folder=folder)
        assert second.returncode == 14
        assert "--take-over" in logged(second.stderr)[-1]["detail"]
        third = scstream(
            "run", "pipeline.toml", "--resume", "--take-over", "--until", 20, folder=folder
        )
        assert third.returncode == 0, third.stderr
        end = time.monotonic() + 60
        while run.process.poll() is None and time.monotonic() < end:
            with (folder / "rows.csv").open("a") as file:
                file.write("n,0.0,0.0\n" * 100)
            time.sleep(0.1)
        assert run.process.returncode == 13
        assert logged(run.text)[-1]["error"] == "Fenced"


def test_a_source_that_was_replaced_stops_the_run(folder: Path) -> None:
    assert scstream("run", "pipeline.toml", "--until", 5, folder=folder).returncode == 0
    write_rows(folder / "other.csv", 300, seed=1)
    (folder / "other.csv").replace(folder / "rows.csv")
    done = scstream("run", "pipeline.toml", "--resume", folder=folder)
    assert done.returncode == 10, done.stderr
    assert "--accept-gap" in logged(done.stderr)[-1]["detail"]
    accepted = scstream("run", "pipeline.toml", "--resume", "--accept-gap", folder=folder)
    assert accepted.returncode == 0, accepted.stderr
    assert "gap" in [line["event"] for line in logged(accepted.stderr)]


@pytest.mark.parametrize(
    ("words", "detail"),
    [
        (["run"], "source.kind is missing"),
        (["run", "none.toml"], "none.toml cannot be read"),
        (["run", "pipeline.toml", "--set", "batch.rows=0"], "batch.rows must be a whole number"),
        (["run", "pipeline.toml", "--set", "modl.alpha=1"], "there is no setting 'modl'"),
        (["run", "pipeline.toml", "--set", "model.half_life=-1"], "half_life must be a positive"),
        (["run", "pipeline.toml", "--set", "source.pfad=x"], "the file source has no option"),
        (["run", "--source", "file:none.csv"], "there is no file at none.csv"),
    ],
)
def test_invalid_options_are_one_sentence(folder: Path, words: list[str], detail: str) -> None:
    done = scstream(*words, folder=folder)
    assert done.returncode == 2, done.stderr
    (line,) = logged(done.stderr)
    assert detail in line["detail"]
    assert "Traceback" not in done.stderr


def test_a_bug_shows_its_traceback(folder: Path) -> None:
    (folder / "state").write_text("not a folder, and nobody could expect that")
    (folder / "sitecustomize.py").write_text(
        "import scstream.stream.config as c\n"
        "def build(*args, **more): raise ZeroDivisionError('defect')\n"
        "c.build = build\n"
    )
    done = scstream(
        "run", "pipeline.toml", "--checkpoint", "other", folder=folder, PYTHONPATH=str(folder)
    )
    assert done.returncode == 70
    assert "Traceback" in done.stderr
    assert "ZeroDivisionError: defect" in done.stderr


def test_standard_output_has_only_labels(folder: Path) -> None:
    done = scstream("run", "pipeline.toml", "--sink", "stdout", folder=folder)
    assert done.returncode == 0, done.stderr
    rows = done.stdout.splitlines()
    assert len(rows) == 2050
    assert {"batch", "index", "cluster", "name"} <= set(json.loads(rows[-1]))
    assert logged(done.stderr)[-1]["event"] == "stopped"


def test_a_reader_that_closes_the_pipe_is_not_a_bug(folder: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "run", "pipeline.toml", "--sink", "stdout", "--set", "batch.rows=10"],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        text = process.stderr.read().decode()
        assert process.wait(timeout=60) != 0
    assert "Traceback" not in text


def test_progress_is_logged_periodically(folder: Path) -> None:
    follow(folder)
    with running("run", "pipeline.toml", "--every", "0.3", folder=folder) as run:
        run.wait_for("progress", 2)
        line = run.wait_for("progress", 3)
        assert run.end(signal.SIGTERM) == 0
    assert {"rows", "rows_per_second", "batches", "clusters", "lag", "rejected"} <= set(line)
