"""A dry run prints every setting, its value and where it comes from, and does nothing else."""

import json
from pathlib import Path

from tests.cli.shell import scstream


def shown(done) -> dict[str, dict[str, object]]:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_settings_of_all_origins_are_shown(folder: Path) -> None:
    done = scstream(
        *("run", "pipeline.toml", "--dry-run", "--json", "--set", "batch.first=50"),
        *("--checkpoint", "elsewhere", "--sink", "file:other.jsonl"),
        folder=folder,
        SCSTREAM_BATCH__ROWS="200",
    )
    found = shown(done)
    assert found["job"] == {"value": "demo", "origin": "pipeline.toml:1"}
    assert found["batch.rows"] == {"value": 200, "origin": "SCSTREAM_BATCH__ROWS"}
    assert found["batch.first"] == {"value": 50, "origin": "--set"}
    assert found["batch.late"] == {"value": "add", "origin": "default"}
    assert found["sink.path"] == {"value": "other.jsonl", "origin": "--sink"}
    assert found["checkpoint.folder"] == {"value": "elsewhere", "origin": "--checkpoint"}
    assert found["source.follow"] == {"value": False, "origin": "default"}
    assert found["model.half_life"]["origin"] == "default"
    assert {path.name for path in folder.iterdir()} == {"rows.csv", "pipeline.toml"}


def test_the_table_has_the_rows_of_the_json(folder: Path) -> None:
    words = ("run", "pipeline.toml", "--dry-run")
    names = list(shown(scstream(*words, "--json", folder=folder)))
    lines = scstream(*words, folder=folder).stdout.splitlines()
    assert lines[0].split() == ["setting", "value", "from"]
    assert [line.split()[0] for line in lines[1:]] == names


def test_the_shown_settings_are_those_that_run(folder: Path) -> None:
    """The settings of a dry run, given as flags, are accepted and give the same labels."""
    found = shown(scstream("run", "pipeline.toml", "--dry-run", "--json", folder=folder))
    assert scstream("run", "pipeline.toml", folder=folder).returncode == 0
    before = (folder / "labels.csv").read_text()
    (folder / "labels.csv").unlink()
    given = {
        name: each["value"]
        for name, each in found.items()
        if each["value"] is not None and name not in ("checkpoint.folder",)
    }
    sets = [
        word for name, value in given.items() for word in ("--set", f"{name}={json.dumps(value)}")
    ]
    done = scstream("run", *sets, "--checkpoint", "again", folder=folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "labels.csv").read_text() == before


def test_invalid_settings_are_refused(folder: Path) -> None:
    done = scstream("run", "pipeline.toml", "--dry-run", "--set", "batch.time=noon", folder=folder)
    assert done.returncode == 2
    assert "batch.time must be" in done.stderr
