"""Files of dead letters are bounded, and what was closed after a checkpoint is undone."""

import pytest

from scstream.cli.defaults import with_defaults
from scstream.cli.settings import Setting
from scstream.errors import InputError, SinkError
from scstream.stream.config import build
from scstream.stream.connectors.files import FileSink
from tests.stream.memory import written


def contents(folder):
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


def opened(path, position=None, **options):
    sink = FileSink(path=path, **options)
    sink.open(position)
    return sink


@pytest.mark.parametrize("name", ["dead.jsonl", "dead.csv"])
def test_a_long_file_is_closed_and_the_oldest_are_deleted(tmp_path, name):
    sink = opened(tmp_path / name, max_bytes=1, max_files=2)
    positions = [written(sink, [batch]) for batch in range(6)]
    sink.close()
    stem, ending = name.split(".")
    names = [f"{stem}.00000003.{ending}", f"{stem}.00000004.{ending}", name]
    assert sorted(contents(tmp_path)) == names
    length = len(contents(tmp_path)[name])
    assert positions[0] == length
    assert positions[5] == [5, length]


@pytest.mark.parametrize("kept", [2, 10])
def test_what_was_closed_after_a_checkpoint_is_undone(tmp_path, kept):
    path = tmp_path / "dead.jsonl"
    sink = opened(path, max_bytes=1, max_files=kept)
    position = written(sink, [0, 1])
    written(sink, [2, 3, 4, 5])
    sink.close()
    after = contents(tmp_path)
    again = opened(path, position, max_bytes=1, max_files=kept)
    assert [name for name in contents(tmp_path) if name > "dead.00000001"] == ["dead.jsonl"]
    written(again, [2, 3, 4, 5])
    again.close()
    assert "".join(contents(tmp_path).values()) == "".join(after.values())


def test_rotation_may_be_turned_off_and_a_new_job_does_not_overwrite(tmp_path):
    path = tmp_path / "dead.jsonl"
    sink = opened(path, max_bytes=1)
    position = written(sink, [0, 1])
    sink.close()
    again = opened(path, position)
    assert written(again, [2]) == [1, 2 * position[1]]
    again.close()
    path.unlink()
    with pytest.raises(SinkError, match="has rows already"):
        opened(path, max_bytes=1)


def test_parquet_parts_are_bounded_too(tmp_path):
    pytest.importorskip("pyarrow")
    folder = tmp_path / "dead"
    sink = opened(folder, format="parquet", max_bytes=3000, max_files=1)
    for batch in range(12):
        position = written(sink, [batch], n_rows=100)
    sink.close()
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 6000
    assert len(contents_of(folder)) < 12 == position
    again = opened(folder, position, format="parquet", max_bytes=3000, max_files=1)
    assert written(again, [12], n_rows=100) == 13
    again.close()


def contents_of(folder):
    return sorted(path.name for path in folder.iterdir())


def test_dead_letters_are_bounded_by_default(tmp_path):
    dead = {"kind": "file", "path": str(tmp_path / "dead.jsonl")}
    source = {"kind": "file", "path": str(tmp_path / "rows.jsonl")}
    labels = {"kind": "file", "path": str(tmp_path / "labels.jsonl")}
    store = {"folder": str(tmp_path / "state")}
    built = build({"source": source, "sink": labels, "dead_letters": dead, "checkpoint": store})
    assert built.dead_letters._writer._rotation.max_bytes == 2**26
    assert built.sink._writer._rotation.max_bytes is None
    layer = {("dead_letters", name): Setting(value, "file") for name, value in dead.items()}
    layer |= {("source", name): Setting(value, "file") for name, value in source.items()}
    assert with_defaults(layer)["dead_letters", "max_bytes"].value == 2**26


@pytest.mark.parametrize("option", [{"max_bytes": 0}, {"max_bytes": True}, {"max_files": 0}])
def test_the_bounds_are_checked(tmp_path, option):
    with pytest.raises(InputError, match="whole number from 1"):
        FileSink(path=tmp_path / "dead.jsonl", **option)
