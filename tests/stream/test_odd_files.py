"""Foreign files among the checkpoints are left alone; altered records are not believed."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from scstream.errors import CheckpointCorrupt, InputError, NonDeterministicReplay
from scstream.stream.batcher import BatchBoundary
from scstream.stream.checkpoint_log import BOUNDARY, DIGEST, CheckpointLog
from scstream.stream.config import build
from scstream.stream.edit_queue import APPLIED, EDIT, EditRequest, submit
from scstream.stream.store import FolderStore, numbered_name, numbered_names

BATCH = 7


def settings(folder: Path) -> dict[str, object]:
    return {
        "source": {"kind": "file", "path": str(folder / "rows.jsonl")},
        "sink": {"kind": "file", "path": str(folder / "labels.csv")},
        "batch": {"rows": 20},
        "checkpoint": {"folder": str(folder / "state"), "batches": 2, "digests": 2},
        "model": {"n_jobs": 1},
    }


def write_rows(folder: Path) -> None:
    rows = (json.dumps({"x": i % 7, "y": i % 3}) + "\n" for i in range(200))
    (folder / "rows.jsonl").write_text("".join(rows))


def test_copies_among_the_checkpoints_change_nothing(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("alone", "with copies")]
    for folder in folders:
        folder.mkdir()
        write_rows(folder)
        build(settings(folder)).run(until=5)
        state = folder / "state"
        submit(FolderStore(state), EditRequest("name", id=0, name="one"))
        build(settings(folder)).run(until=6)
        if folder.name == "with copies":
            kinds = {re.sub(r"[0-9]", "", path.name) for path in state.iterdir()}
            assert {"version-", "digest-", "edit-", "edited-", "horizon-"} <= kinds
            for path in list(state.iterdir()):
                shutil.copy(path, f"{path}.bak")
                shutil.copy(path, f"{path}-copy")
        build(settings(folder)).run()
    labels = [(folder / "labels.csv").read_bytes() for folder in folders]
    assert labels[0] == labels[1]


def recorded(folder: Path) -> tuple[CheckpointLog, Path]:
    log = CheckpointLog(FolderStore(folder))
    log.record_boundary(BatchBoundary(BATCH, {"a": 120, "b": 30}, 1.7e9 / 3, clock=1e9 / 7))
    return log, folder / numbered_name(BOUNDARY, BATCH)


def test_a_boundary_comes_back_as_it_was(tmp_path: Path) -> None:
    log, _ = recorded(tmp_path)
    boundary = BatchBoundary(BATCH, {"a": 120, "b": 30}, 1.7e9 / 3, clock=1e9 / 7)
    assert log.boundaries(start=0) == {BATCH: boundary}


def test_no_altered_byte_of_a_boundary_is_believed(tmp_path: Path) -> None:
    log, path = recorded(tmp_path)
    sound, before = path.read_bytes(), log.boundaries(start=0)
    for place in range(len(sound)):
        altered = bytearray(sound)
        altered[place] ^= 1  # a digit becomes another digit
        path.write_bytes(altered)
        try:
            assert log.boundaries(start=0) == before
        except CheckpointCorrupt as error:
            assert path.name in str(error)
    path.write_bytes(sound.replace(b"120", b"121"))
    with pytest.raises(CheckpointCorrupt, match="checksum differs"):
        log.boundaries(start=0)
    path.write_bytes(sound[: len(sound) // 2])
    with pytest.raises(CheckpointCorrupt):
        log.boundaries(start=0)


def test_a_boundary_under_the_name_of_another_is_refused(tmp_path: Path) -> None:
    log, path = recorded(tmp_path)
    path.rename(tmp_path / numbered_name(BOUNDARY, BATCH + 1))
    with pytest.raises(CheckpointCorrupt, match="holds the end of batch 7"):
        log.boundaries(start=0)


def test_a_boundary_of_an_earlier_version_has_no_checksum(tmp_path: Path) -> None:
    log, path = recorded(tmp_path)
    path.write_text('{"batch": 7, "rows": {"a": 3}, "time": null}')
    assert log.boundaries(start=0) == {BATCH: BatchBoundary(BATCH, {"a": 3}, None)}
    assert numbered_names(log.store, BOUNDARY) == [path.name]


def flipped(content: bytes) -> list[bytes]:
    """Every copy of a content in which one bit of one byte differs."""
    return [
        content[:i] + bytes([content[i] ^ bit]) + content[i + 1 :]
        for i in range(len(content))
        for bit in (1, 32)
    ]


def test_no_altered_byte_of_a_digest_is_believed(tmp_path: Path) -> None:
    log, digest = CheckpointLog(FolderStore(tmp_path)), "0123456789abcdef" * 4
    path = tmp_path / numbered_name(DIGEST, BATCH)
    log.record_digest(BATCH, digest)
    assert log.digests() == {BATCH: digest}
    for altered in flipped(path.read_bytes()):
        path.write_bytes(altered)
        with pytest.raises(CheckpointCorrupt, match=f"{path.name}.* is damaged .*delete it"):
            log.digests()
    with pytest.raises(CheckpointCorrupt):
        log.record_digest(BATCH, digest)


def test_a_digest_of_an_earlier_version_is_compared(tmp_path: Path) -> None:
    log, digest = CheckpointLog(FolderStore(tmp_path)), "0123456789abcdef" * 4
    (tmp_path / numbered_name(DIGEST, BATCH)).write_text(digest)
    log.record_digest(BATCH, digest)
    with pytest.raises(NonDeterministicReplay):
        log.record_digest(BATCH, digest[::-1])


def test_no_altered_byte_of_an_edit_is_believed() -> None:
    request = EditRequest("merge", id=17, other=18, author="ana", time=1.7e9 / 3)
    content = request.to_json()
    assert EditRequest.from_json(content) == request
    for altered in flipped(content):
        with pytest.raises(InputError, match="an edit "):
            EditRequest.from_json(altered)


def run_with_an_edit(folder: Path) -> tuple[Path, Path]:
    """Run a pipeline that applies an edit, then forget all checkpoints after the first."""
    write_rows(folder)
    store = FolderStore(folder / "state")
    submit(store, EditRequest("name", id=0, name="one", batch=3))
    build(settings(folder)).run(until=4)
    first, *later = sorted((folder / "state").glob("version-*"))
    for version in later:
        version.unlink()
    (folder / "labels.csv").unlink()
    assert first.read_bytes()[:1] == b"{"  # a claim: everything is learned again
    return folder / "state" / numbered_name(EDIT, 0), folder / "state" / numbered_name(APPLIED, 0)


@pytest.mark.parametrize("damaged", [0, 1])
@pytest.mark.parametrize("how", ["altered", "torn"])
def test_an_applied_edit_that_was_altered_stops_the_pipeline(
    tmp_path: Path, damaged: int, how: str
) -> None:
    path = run_with_an_edit(tmp_path)[damaged]
    sound = path.read_bytes()
    path.write_bytes(sound.replace(b"3", b"2") if how == "altered" else sound[:9])
    with pytest.raises(CheckpointCorrupt, match=f"{path.name}.*restore it"):
        build(settings(tmp_path)).run()
    path.write_bytes(sound)
    build(settings(tmp_path)).run()


def test_an_applied_edit_of_an_earlier_version_is_applied_again(tmp_path: Path) -> None:
    edit, applied = run_with_an_edit(tmp_path)
    edit.write_text('{"action": "name", "id": 0, "name": "one", "batch": 3}')
    applied.write_text("3")
    build(settings(tmp_path)).run()
    assert applied.read_text() == "3"
