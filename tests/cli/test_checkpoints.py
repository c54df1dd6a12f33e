"""What is kept of a pipeline can be listed and named while it runs."""

import json
from pathlib import Path
from typing import Any

from tests.cli.shell import scstream


def table(folder: Path) -> list[dict[str, Any]]:
    return json.loads(
        scstream("checkpoints", "--checkpoint", "state", "--json", folder=folder).stdout
    )


def test_checkpoints_and_savepoints_are_listed(folder: Path) -> None:
    assert scstream("run", "pipeline.toml", "--until", 12, folder=folder).returncode == 0
    made = scstream("savepoint", "twelve", "--checkpoint", "state", folder=folder)
    assert made.stdout == "savepoint twelve: batch 12 is next; start from it with --from twelve\n"
    kept = table(folder)
    assert [each.get("version", each.get("savepoint")) for each in kept][-1] == "twelve"
    newest = kept[0]
    assert newest["batch"] == 12
    assert newest["rows"] == 1200
    assert newest["clusters"] == 4
    assert newest["epoch"] == 0
    assert "process" in str(newest["owner"])
    path = folder / "state" / f"version-{newest['version']:015d}"
    assert newest["bytes"] == path.stat().st_size
    lines = scstream("checkpoints", "--checkpoint", "state", folder=folder).stdout.splitlines()
    assert lines[0].split() == ["version", "batch", "rows", "K", "age", "size", "instance"]
    assert lines[1].split()[:4] == [str(newest["version"]), "12", "1,200", "4"]
    assert lines[-1].split()[0] == "twelve"


def test_a_savepoint_is_not_overwritten(folder: Path) -> None:
    assert scstream("run", "pipeline.toml", "--until", 2, folder=folder).returncode == 0
    words = ("savepoint", "two", "--checkpoint", "state")
    assert scstream(*words, folder=folder).returncode == 0
    again = scstream(*words, folder=folder)
    assert again.returncode == 2
    assert "there is a savepoint 'two' already" in again.stderr


def test_a_savepoint_needs_a_checkpoint_and_a_valid_name(folder: Path) -> None:
    none = scstream("savepoint", "a", "--checkpoint", "state", folder=folder)
    assert none.returncode == 2
    assert "there is no folder 'state' with checkpoints" in none.stderr
    assert not (folder / "state").exists()
    assert scstream("run", "pipeline.toml", "--until", 1, folder=folder).returncode == 0
    bad = scstream("savepoint", "../a", "--checkpoint", "state", folder=folder)
    assert bad.returncode == 2
    assert "cannot be a name here" in bad.stderr


def test_a_damaged_checkpoint_is_listed_and_no_savepoint_is_made_of_it(folder: Path) -> None:
    assert scstream("run", "pipeline.toml", "--until", 12, folder=folder).returncode == 0
    newest = f"version-{table(folder)[0]['version']:015d}"
    path = folder / "state" / newest
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    bad = scstream("savepoint", "bad", "--checkpoint", "state", folder=folder)
    assert bad.returncode == 1
    assert "the newest checkpoint is damaged" in bad.stderr
    assert not (folder / "state" / "savepoint-bad").exists()
    content[40] ^= 255
    path.write_bytes(content)
    assert table(folder)[0]["damaged"] is True
    gone_on = scstream("run", "pipeline.toml", "--resume", "--until", 13, folder=folder)
    assert gone_on.returncode == 0, gone_on.stderr
    assert '"damaged"' in gone_on.stderr


def test_the_folder_may_come_from_the_environment(folder: Path) -> None:
    assert scstream("run", "pipeline.toml", "--until", 1, folder=folder).returncode == 0
    done = scstream("checkpoints", "--json", folder=folder, SCSTREAM_CHECKPOINT__FOLDER="state")
    assert json.loads(done.stdout)[0]["batch"] == 1
