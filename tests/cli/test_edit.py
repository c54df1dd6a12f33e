"""Clusters are edited from the command line, and their names are shown there."""

import json
from pathlib import Path

from tests.cli.shell import scstream


def test_an_edit_waits_for_the_next_run_and_is_shown(folder: Path) -> None:
    assert scstream("run", "pipeline.toml", "--until", 4, folder=folder).returncode == 0
    words = ("--checkpoint", "state", "--author", "ana")
    sent = scstream("edit", "name", 1, "billing", *words, folder=folder)
    assert sent.stdout == "edit 0 was sent; the pipeline applies it before its next batch\n"
    assert scstream("edit", "merge", 0, 2, *words, folder=folder).returncode == 0
    assert scstream("edit", "name", 99, "nobody", *words, folder=folder).returncode == 0
    done = scstream("run", "pipeline.toml", "--resume", "--until", 6, folder=folder)
    assert done.returncode == 0
    logged = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    edits = [line for line in logged if str(line.get("event", "")).startswith("edit")]
    assert [line["event"] for line in edits] == ["edit", "edit", "edit_refused"]
    assert [line["author"] for line in edits] == ["ana"] * 3
    shown = scstream("inspect", "state", folder=folder).stdout
    assert "billing" in shown
    assert "by ana" in shown
    found = json.loads(scstream("inspect", "state", "--json", folder=folder).stdout)
    assert [c.get("name") for c in found["clusters"] if c["id"] == 1] == ["billing"]


def test_a_model_file_is_edited_in_place(folder: Path) -> None:
    assert scstream("run", "pipeline.toml", "--until", 4, folder=folder).returncode == 0
    newest = max((folder / "state").glob("version-*"))
    (folder / "m.scstream").write_bytes(newest.read_bytes())
    words = ("--model", "m.scstream")
    assert scstream("edit", "name", 0, "zero", *words, folder=folder).stdout == "named 0: zero\n"
    assert scstream("edit", "undo", *words, folder=folder).returncode == 0
    refused = scstream("edit", "name", 77, "zero", *words, folder=folder)
    assert refused.returncode == 2
    assert "there is no cluster 77" in refused.stderr


def test_a_wrong_edit_is_refused_before_it_is_sent(folder: Path) -> None:
    assert scstream("run", "pipeline.toml", "--until", 1, folder=folder).returncode == 0
    words = ("--checkpoint", "state")
    for arguments, sentence in (
        (("explode", 1), "there is no edit 'explode'"),
        (("merge", 1), "needs 'other'"),
        (("merge", 1, "x"), "ids of two clusters"),
        (("name", 1, "a\x07b"), "printable"),
    ):
        refused = scstream("edit", *arguments, *words, folder=folder)
        assert refused.returncode == 2
        assert sentence in refused.stderr
    assert not list((folder / "state").glob("edit-*"))
