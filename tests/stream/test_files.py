"""Files: any position gives the same rows again, and a sink keeps every delivery once."""

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import ipc, parquet

from scstream.errors import InputError, SinkError, SourceChanged, SourceGap, SourceRegressed
from scstream.io.disk import MachineDisk
from scstream.preprocess.block import Block, join
from scstream.stream import arrow_files
from scstream.stream.connectors.files import CsvReader, FileSink, FileSource, text_file
from scstream.stream.schema import Schema
from scstream.stream.sink import Delivery
from scstream.stream.source import Record, Resume

SCHEMA = Schema(("x", "y"), keep=("name",))
same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of few rows, so that a small file has many."""
    monkeypatch.setattr(text_file, "RECORD_BYTES", 40)
    monkeypatch.setattr(arrow_files, "RECORD_ROWS", 2)


def rest(source: FileSource, max_n: int = 3) -> list[Record]:
    records: list[Record] = []
    while not source.done:
        records += source.read(max_n, timeout=0)
    return records


def rows(source: FileSource, records: list[Record], schema: Schema = SCHEMA) -> Block:
    take = source.reader(schema)
    blocks = [r.value if isinstance(r.value, Block) else take.read(r.value) for r in records]
    return join([Block.of(np.zeros((0, 2)), name=np.zeros(0, object)), *blocks])


def read_all(path: Path, resume: Resume | None = None, **options: Any) -> tuple[Any, ...]:
    source = FileSource(path=path, **options)
    source.open(resume)
    records = rest(source)
    identity = source.identity()
    source.close()
    return records, rows(source, records), identity


def facts(block: Block) -> tuple[Any, ...]:
    kept = {name: values.tolist() for name, values in block.extra.items()}
    return block.n_rows, block.row.tolist(), block.X.tolist(), kept, block.rejects


json_line = st.one_of(
    st.builds(lambda x, n: json.dumps({"x": x, "y": 1, "name": n}), st.integers(0, 9), st.text()),
    st.sampled_from(["", " ", '{"x": 1', '{"x": NaN, "y": 1}', "é", "[1, 2]"]),
)
csv_text = st.text(st.sampled_from('ab ,"_é'), max_size=4)
csv_line = st.one_of(
    st.builds("{},{},{}".format, st.integers(0, 9), st.floats(), csv_text),
    st.sampled_from(["", "1,2", '1,"2",c', '1,2,"c', "1_0,2,c", ",2,c", "1,2,c,d", "x,y,name"]),
)


@st.composite
def folders(draw: st.DrawFn) -> tuple[str, list[bytes]]:
    ending = draw(st.sampled_from(["jsonl", "csv"]))
    line = json_line if ending == "jsonl" else csv_line
    contents = []
    for _ in range(draw(st.integers(1, 3))):
        lines = draw(st.lists(line, max_size=6))
        if ending == "csv":
            lines.insert(0, "x,y,name")
        end = draw(st.sampled_from(["\n", "\r\n"]))
        text = end.join(lines) + draw(st.sampled_from(["", end]))
        contents.append(text.encode() + draw(st.sampled_from([b"", b"\xff"])))
    return ending, contents


@same_folder
@given(folders())
def test_every_position_gives_the_same_rows_again(
    short: None, tmp_path_factory: pytest.TempPathFactory, folder: tuple[str, list[bytes]]
) -> None:
    ending, contents = folder
    path = tmp_path_factory.mktemp("rows")
    for i, content in enumerate(contents):
        (path / f"{i}.{ending}").write_bytes(content)
    records, whole, identity = read_all(path)
    for i, record in enumerate(records):
        for position, later in ((record.position, records[i:]), (record.after, records[i + 1 :])):
            resume = Resume(identity, {"": json.loads(json.dumps(position))})
            again, block, _ = read_all(path, resume)
            assert again == later
            assert facts(block) == facts(rows(FileSource(path=path), later))
    one = FileSource(path=path)
    one.open(None)
    assert facts(rows(one, rest(one, max_n=1))) == facts(whole)
    one.close()


@same_folder
@given(folders())
def test_rows_do_not_depend_on_the_size_of_records(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
    folder: tuple[str, list[bytes]],
) -> None:
    ending, contents = folder
    path = tmp_path_factory.mktemp("rows")
    for i, content in enumerate(contents):
        (path / f"{i}.{ending}").write_bytes(content)
    seen = []
    for length in (1, 30, 65_536):
        monkeypatch.setattr(text_file, "RECORD_BYTES", length)
        seen.append(facts(read_all(path, max_line=60)[1]))
    assert seen[0] == seen[1] == seen[2]


def write_groups(path: Path, format: str, n_rows: int = 7) -> None:
    table = pa.table(
        {
            "y": np.arange(n_rows) * 2.0,
            "x": np.arange(n_rows),
            "name": [f"n{i}" for i in range(n_rows)],
        }
    )
    if format == "parquet":
        parquet.write_table(table, path, row_group_size=3)
        return
    opened = ipc.new_file if format == "file" else ipc.new_stream
    with opened(str(path), table.schema) as stream:
        stream.write_table(table, max_chunksize=3)


@pytest.mark.parametrize("format", ["parquet", "file", "stream"])
def test_groups_of_rows_are_read_from_every_position(
    short: None, tmp_path: Path, format: str
) -> None:
    ending = "parquet" if format == "parquet" else "arrow"
    for i in range(2):
        write_groups(tmp_path / f"{i}.{ending}", format)
    records, whole, identity = read_all(tmp_path)
    assert whole.X.tolist() == [[i, 2.0 * i] for i in range(7)] * 2
    assert whole.extra["name"].tolist() == [f"n{i}" for i in range(7)] * 2
    assert [r.position["row"] for r in records[:5]] == [0, 2, 0, 2, 0]
    for i, record in enumerate(records):
        for position, later in ((record.position, records[i:]), (record.after, records[i + 1 :])):
            assert read_all(tmp_path, Resume(identity, {"": position}))[0] == later


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_a_damaged_file_is_one_reject_and_the_next_is_read(tmp_path: Path, ending: str) -> None:
    format = "parquet" if ending == "parquet" else "file"
    write_groups(tmp_path / f"1.{ending}", format)
    (tmp_path / f"0.{ending}").write_bytes((tmp_path / f"1.{ending}").read_bytes()[:-30])
    records, block, identity = read_all(tmp_path)
    assert [reject.row for reject in block.rejects] == [0]
    assert f"0.{ending} is damaged" in block.rejects[0].reason
    assert len(block.row) == 7
    assert read_all(tmp_path, Resume(identity, {"": records[0].after}))[0] == records[1:]


def test_an_incomplete_parquet_file_is_tried_again(tmp_path: Path) -> None:
    write_groups(tmp_path / "whole", "parquet")
    content = (tmp_path / "whole").read_bytes()
    path = tmp_path / "rows.parquet"
    path.write_bytes(content[:50])
    source = FileSource(path=path, follow=True)
    source.open(None)
    assert source.read(9, timeout=0) == []
    path.write_bytes(content)
    assert len(rows(source, source.read(9, timeout=0)).row) == 7
    source.close()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[tuple[Path, FileSource]]:
    """A file that is followed."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"x": 1, "y": 1}\n')
    source = FileSource(path=path, follow=True)
    source.open(None)
    yield path, source
    source.close()


def append(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


def test_only_whole_lines_of_a_growing_file_are_read(log: tuple[Path, FileSource]) -> None:
    path, source = log
    (first,) = source.read(9, timeout=0)
    assert source.read(9, timeout=0.06) == []
    append(path, b'{"x": 2, ')
    assert source.read(9, timeout=0) == []
    append(path, b'"y": 2}\n[3, 3]\n{"x"')
    (second,) = source.read(9, timeout=0)
    assert second.value == b'{"x": 2, "y": 2}\n[3, 3]\n'
    assert second.position == first.after
    assert not source.done


@same_folder
@given(st.lists(st.booleans(), min_size=12, max_size=12))
@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_rows_of_a_growing_file_do_not_depend_on_when_it_grew(
    tmp_path_factory: pytest.TempPathFactory, ending: str, looks: list[bool]
) -> None:
    path = tmp_path_factory.mktemp("grows") / f"rows.{ending}"
    path.write_bytes(b"")
    source = FileSource(path=path, follow=True)
    source.open(None)
    content = b"x,y,name\n1,2,a\n3,4,b\n5,6,c\n" if ending == "csv" else b"[1, 2]\n[3, 4]\n[5, 6]\n"
    seen: list[Record] = []
    for i, look in enumerate(looks):
        append(path, content[i * len(content) // 12 : (i + 1) * len(content) // 12])
        seen += source.read(99, timeout=0) if look else []
    seen += source.read(99, timeout=0)
    source.close()
    again = FileSource(path=path, follow=True)
    again.open(None)
    at_once = again.read(99, timeout=0)
    again.close()
    for records in (seen, at_once):
        assert rows(again, records, Schema(("x", "y"))).X.tolist() == [[1, 2], [3, 4], [5, 6]]
        assert records[-1].after == seen[-1].after


def test_half_a_line_may_still_change(log: tuple[Path, FileSource]) -> None:
    path, source = log
    source.read(9, timeout=0)
    append(path, b'{"x": 7, "y"')
    assert source.read(9, timeout=0) == []
    os.truncate(path, 17)
    append(path, b'{"x": 3, "y": 3}\n')
    assert source.read(9, timeout=0)[0].value == b'{"x": 3, "y": 3}\n'


def test_truncation_of_a_followed_file_is_detected(log: tuple[Path, FileSource]) -> None:
    path, source = log
    source.read(9, timeout=0)
    os.truncate(path, 3)
    with pytest.raises(SourceRegressed, match=r"byte 17 .* byte 3.*--accept-gap"):
        source.read(9, timeout=0)


def test_truncation_of_a_followed_file_that_grows_again_is_detected(
    log: tuple[Path, FileSource],
) -> None:
    path, source = log
    source.read(9, timeout=0)
    os.truncate(path, 0)
    append(path, b'{"x": 5, "y": 5}\n' * 3)
    with pytest.raises(SourceChanged, match="other bytes"):
        source.read(9, timeout=0)


def test_rotation_is_detected_after_the_old_file_was_read(log: tuple[Path, FileSource]) -> None:
    path, source = log
    source.read(9, timeout=0)
    append(path, b'{"x": 2, "y": 2}\n')
    path.rename(path.with_suffix(".1"))
    (last,) = source.read(9, timeout=0)
    assert last.value == b'{"x": 2, "y": 2}\n'
    assert source.read(9, timeout=0) == []  # the name is free for a moment
    path.write_bytes(b'{"x": 3, "y": 3}\n')
    with pytest.raises(SourceChanged, match="created again"):
        source.read(9, timeout=0)


def test_files_with_later_names_are_followed(tmp_path: Path) -> None:
    source = FileSource(path=tmp_path / "*.jsonl", format="jsonl", follow=True)
    source.open(None)
    assert source.read(9, timeout=0) == []
    (tmp_path / "a.jsonl").write_bytes(b"[1, 1]\n[2, 2]")
    assert [r.value for r in source.read(9, timeout=0)] == [b"[1, 1]\n"]
    (tmp_path / "b.jsonl").write_bytes(b"[3, 3]\n")
    (tmp_path / ".c.jsonl").write_bytes(b"[4, 4]\n")
    assert [r.value for r in source.read(9, timeout=0)] == [b"[2, 2]", b"[3, 3]\n"]
    assert not source.done
    source.close()


def test_close_ends_a_read_that_waits(log: tuple[Path, FileSource]) -> None:
    import threading

    _, source = log
    source.read(9, timeout=0)
    threading.Timer(0.2, source._stop.set).start()
    assert source.read(9, timeout=30) == []


def checkpoint(path: Path, n_records: int = 1, **options: Any) -> Resume:
    source = FileSource(path=path, **options)
    source.open(None)
    after = source.read(n_records, timeout=0)[-1].after
    resume = Resume(source.identity(), {"": after})
    source.close()
    return resume


def accepted(path: Path, resume: Resume) -> list[Any]:
    source = FileSource(path=path)
    source.open(resume, accept_gap=True)
    values = [record.value for record in rest(source)]
    source.close()
    return values


def test_a_file_that_grew_has_the_same_identity(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"[1, 1]\n[2")  # less than a head, and it ends in half a line
    resume = checkpoint(path)
    append(path, b", 2]\n" + b"[3, 3]\n" * 2000)
    records, _, _ = read_all(path, resume)
    assert b"".join(r.value for r in records) == b"[2, 2]\n" + b"[3, 3]\n" * 2000
    resume = Resume(resume.identity, {"": records[0].after})
    assert read_all(path, resume)[0] == records[1:]


def test_a_checkpoint_before_the_first_row_identifies_the_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"[1, 1]\n")
    source = FileSource(path=path)
    source.open(None)
    resume = Resume(source.identity(), {})
    source.close()
    append(path, b"[2, 2]\n")
    assert len(read_all(path, resume)[1].row) == 2
    path.write_bytes(b"[3, 3]\n[4, 4]\n")
    with pytest.raises(SourceChanged):
        read_all(path, resume)


def test_a_shorter_file_raises_source_regressed(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"[1, 1]\n[2, 2]\n")
    resume = checkpoint(path)
    os.truncate(path, 7)
    with pytest.raises(SourceRegressed, match=r"rows\.jsonl .*byte 14.*byte 7.*--accept-gap"):
        read_all(path, resume)
    assert accepted(path, resume) == [b"[1, 1]\n"]


@pytest.mark.parametrize("keep_inode", [True, False])
def test_another_file_with_the_name_raises_source_changed(tmp_path: Path, keep_inode: bool) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"[1, 1]\n")
    resume = checkpoint(path)
    if keep_inode:
        path.write_bytes(b"[9, 9]\n[8, 8]\n")
    else:
        (tmp_path / "new").write_bytes(b"[1, 1]\n[8, 8]\n")  # begins with the same bytes
        (tmp_path / "new").replace(path)
    with pytest.raises(SourceChanged, match="--accept-gap"):
        read_all(path, resume)
    assert accepted(path, resume) == [path.read_bytes()]


def test_a_missing_file_raises_source_gap(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.jsonl").write_text(f"[{ord(name)}, 0]\n")
    resume = checkpoint(tmp_path, n_records=2)
    (tmp_path / "b.jsonl").unlink()
    with pytest.raises(SourceGap, match="--accept-gap"):
        read_all(tmp_path, resume)
    assert accepted(tmp_path, resume) == [b"[99, 0]\n"]
    (tmp_path / "a.jsonl").unlink()  # was done before the checkpoint
    (tmp_path / "b.jsonl").write_text("[98, 0]\n")
    with pytest.raises(SourceChanged):
        read_all(tmp_path, resume)


def test_a_long_line_is_one_reject(tmp_path: Path, short: None) -> None:
    path = tmp_path / "rows.jsonl"
    long = b'{"x": 1, "y": 1, "name": "' + b"a" * 500 + b'"}\n'
    path.write_bytes(b"[1, 1]\n" + long + b"[2, 2]\n" + long.rstrip())
    records, block, identity = read_all(path, max_line=100)
    assert block.X.tolist() == [[1.0, 1.0], [2.0, 2.0]]
    assert [reject.row for reject in block.rejects] == [1, 3]
    assert "longer than 100 bytes" in block.rejects[0].reason
    for i, record in enumerate(records):
        again, block, _ = read_all(path, Resume(identity, {"": record.position}), max_line=100)
        assert [r.position for r in again] == [r.position for r in records[i:]]
        assert facts(block) == facts(rows(FileSource(path=path), records[i:]))


def test_a_long_line_is_rejected_once_it_is_complete(
    log: tuple[Path, FileSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = log
    source = FileSource(path=path, follow=True, max_line=100, start="last")
    source.open(None)
    append(path, b"a" * 70_000)
    assert source.read(9, timeout=0) == []
    append(path, b"a" * 1000)
    assert source.read(9, timeout=0) == []
    append(path, b"\n[5, 5]\n")
    refused, row = source.read(9, timeout=0)
    assert refused.value.rejects[0].content == "a" * 100
    assert (refused.position["offset"], refused.after["offset"]) == (17, 17 + 71_001)
    assert row.value == b"[5, 5]\n"
    source.close()


@pytest.mark.parametrize(
    ("start", "expected"),
    [("first", 3), ("last", 0), ({"file": "rows.jsonl", "offset": 7}, 2)],
)
def test_start_sets_where_a_run_without_checkpoint_begins(
    tmp_path: Path, start: Any, expected: int
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"[1, 1]\n[2, 2]\n[3, 3]\n")
    assert len(read_all(path, start=start)[1].row) == expected


def test_start_last_is_after_all_row_groups(tmp_path: Path) -> None:
    write_groups(tmp_path / "a.parquet", "parquet")
    assert read_all(tmp_path, start="last")[0] == []


def test_lag_counts_records(tmp_path: Path, short: None) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"[1, 1]\n" * 20)  # 140 bytes
    (tmp_path / "b.jsonl").write_bytes(b"[1, 1]\n" * 4)  # 28 bytes
    source = FileSource(path=tmp_path)
    source.open(None)
    source.read(1, timeout=0)  # 35 bytes
    assert source.lag() == 4
    source.acknowledge({"": None})
    source.close()
    assert source.lag() is None


def csv_block(content: bytes, schema: Schema = SCHEMA, **options: Any) -> Block:
    return CsvReader(schema, **options).read(content)


def test_columns_of_csv_are_found_by_name() -> None:
    left = csv_block(b"x,y,name\n1,2,a\n3,4,b\n")
    right = csv_block(b"name,y, x\na,2,1\nb,4,3\n")
    assert facts(left) == facts(right)
    assert left.X.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_bad_lines_of_csv_are_rejects_with_reasons() -> None:
    block = csv_block(
        b'x,y,name\n1,2,a\n1,?,a\n1,,a\n1,2\n1,2,"a\n1,inf,a\n1_0,2,a\n1,\xff,a\n5,6,"b"\n'
    )
    assert block.X.tolist() == [[1.0, 2.0], [5.0, 6.0]]
    assert [reject.row for reject in block.rejects] == [1, 2, 3, 4, 5, 6, 7]
    reasons = " ".join(reject.reason for reject in block.rejects)
    for part in ("'?'", "missing", "2 fields", "not CSV", "out of range", "'1_0'", "UTF-8"):
        assert part in reasons


def test_csv_infers_features_and_reads_times() -> None:
    take = CsvReader(Schema(keep=("id",), time="at", missing=True))
    block = take.read(b"id,at,a,word,b\n7,noon,1,w,2\n7,2026-01-01,1,w,2\n8,5,,w,3\n")
    assert take.schema.features == ("a", "b")
    assert block.extra["id"].tolist() == ["7", "8"]
    assert block.extra["at"].tolist() == [1767225600.0, 5.0]
    assert np.isnan(block.X[1, 0])
    assert "'noon'" in block.rejects[0].reason


@pytest.mark.parametrize("head", [b"x,x", b"", b'"x', b"\xff"])
def test_an_invalid_header_rejects_all_rows(head: bytes) -> None:
    block = csv_block(head + b"\n1,2,3\n")
    assert len(block.rejects) == block.n_rows == 1


@given(st.binary(max_size=60), st.sampled_from([SCHEMA, Schema(), Schema(missing=True, key="x")]))
def test_arbitrary_csv_never_raises(content: bytes, schema: Schema) -> None:
    block = csv_block(b"x,y,name\n" + content, schema)
    assert len(block.row) + len(block.rejects) == block.n_rows
    assert schema.missing or np.isfinite(block.X).all()
    csv_block(content, schema)


def test_csv_without_header_uses_the_given_names(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_bytes(b"1\t2\ta\n3\t4\t\n")
    options = {"format": "csv", "columns": ["y", "x", "name"], "delimiter": "\t"}
    block = read_all(path, **options)[1]
    assert block.X.tolist() == [[2.0, 1.0], [4.0, 3.0]]
    assert block.extra["name"].tolist() == ["a", ""]


def test_an_incomplete_header_is_read_later(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"x,y,na")
    source = FileSource(path=path, follow=True)
    source.open(None)
    assert source.read(9, timeout=0) == []
    append(path, b"me\n1,2,a\n")
    assert rows(source, source.read(9, timeout=0)).X.tolist() == [[1.0, 2.0]]
    source.close()


@pytest.mark.parametrize(
    "options",
    [{"format": "xml"}, {"start": "middle"}, {"delimiter": "::"}, {"delimiter": '"'}],
)
def test_invalid_options_of_a_source_are_rejected(tmp_path: Path, options: Any) -> None:
    with pytest.raises(InputError):
        FileSource(path=tmp_path, **options)


def test_a_path_without_files_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file"):
        FileSource(path=tmp_path / "none.csv").open(None)
    with pytest.raises(InputError, match="set format"):
        FileSource(path=tmp_path / "none.dat", follow=True).reader(SCHEMA)


def test_doctor_checks_the_path(tmp_path: Path) -> None:
    assert FileSource(path=tmp_path / "a.csv").doctor()[0].level == "warn"
    assert FileSource(path=tmp_path / "a.csv", follow=True).doctor()[0].level == "note"
    (tmp_path / "a.csv").write_text("x\n1\n")
    found = FileSource(path=tmp_path, follow=True).doctor()
    assert [finding.about for finding in found] == ["path", "follow"]
    assert "1 files, 4 bytes, as csv" in found[0].detail
    assert [f.about for f in FileSink(path=tmp_path / "b" / "c.csv").doctor()] == ["space", "flush"]


def delivery(batch: int, n_rows: int = 3) -> Delivery:
    names = np.array([f'n"{batch},\n{i}' for i in range(n_rows)], dtype=object)
    return Delivery(
        "demo",
        batch,
        {
            "batch": np.full(n_rows, batch),
            "index": np.arange(n_rows),
            "cluster": np.arange(n_rows) + batch,
            "name": names,
        },
    )


def written(path: Path) -> list[tuple[int, int]]:
    """(batch, index) of all rows of a sink."""
    if path.suffix == ".jsonl":
        found = [json.loads(line) for line in path.read_text().splitlines()]
    elif path.suffix == ".csv":
        import csv

        with path.open(newline="") as file:
            found = list(csv.DictReader(file))
    else:
        parts = sorted(path.glob("part-*"))
        found = [row for part in parts for row in parquet.read_table(part).to_pylist()]
    return [(int(row["batch"]), int(row["index"])) for row in found]


class FaultyDisk(MachineDisk):
    """Records its operations in a list; one kind of operation can be made to fail."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.fails = ""
        self.error = errno.ENOSPC

    def _note(self, what: str) -> None:
        self.done.append(what)
        if what == self.fails:
            raise OSError(self.error, os.strerror(self.error))

    def write(self, handle: int, content: memoryview) -> int:
        if self.fails == "write" and len(content) > 7:
            return os.write(handle, content[:7])  # a nearly full disk
        self._note("write")
        return os.write(handle, content)

    def sync(self, handle: int) -> None:
        self._note("sync")

    def sync_folder(self, path: Path) -> None:
        self._note("sync_folder")

    def replace(self, old: Path, new: Path) -> None:
        self._note("replace")
        super().replace(old, new)

    def truncate(self, path: Path, length: int) -> None:
        self._note("truncate")
        super().truncate(path, length)


FORMS = ["labels.jsonl", "labels.csv", "labels.parquet"]


@same_folder
@given(st.lists(st.sampled_from(["write", "flush", "crash"]), max_size=12), st.integers(1, 7))
@pytest.mark.parametrize("form", FORMS)
def test_deliveries_are_stored_once_after_any_crash(
    form: str, tmp_path_factory: pytest.TempPathFactory, steps: list[str], part_rows: int
) -> None:
    path = tmp_path_factory.mktemp("sink") / form
    disk = FaultyDisk()
    sink = FileSink(path=path, disk=disk, part_rows=part_rows)
    sink.open(None)
    batch, position, safe = 0, sink.flush(), 0
    for step in [*steps, "flush"]:
        if step == "write":
            sink.write(delivery(batch))
            batch += 1
        elif step == "flush":
            position, safe = sink.flush(), batch
        else:
            sink = FileSink(path=path, disk=disk, part_rows=part_rows)
            sink.open(json.loads(json.dumps(position)))
            batch = safe
    sink.close()
    assert written(path) == [(b, i) for b in range(batch) for i in range(3)]


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_another_writer_are_not_changed(tmp_path: Path, form: str) -> None:
    path = tmp_path / "deep" / "er" / form
    sink = FileSink(path=path)
    sink.open(None)
    sink.write(delivery(0))
    sink.flush()
    sink.close()
    with pytest.raises(SinkError, match="overwrite = true"):
        FileSink(path=path).open(None)
    assert len(written(path)) == 3
    over = FileSink(path=path, overwrite=True)
    over.open(None)
    over.write(delivery(5, 1))
    over.flush()
    over.close()
    assert written(path) == [(5, 0)]


@pytest.mark.parametrize("form", FORMS)
def test_missing_rows_are_detected(tmp_path: Path, form: str) -> None:
    path = tmp_path / form
    sink = FileSink(path=path)
    sink.open(None)
    sink.write(delivery(0))
    position = sink.flush()
    sink.close()
    if path.is_dir():
        next(path.glob("part-*")).unlink()
    else:
        os.truncate(path, 5)
    with pytest.raises(SinkError, match="gone"):
        sink.open(position)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("fails", ["write", "sync", "sync_folder", "replace"])
def test_a_failing_disk_ends_the_sink_until_it_is_opened_again(
    tmp_path: Path, form: str, fails: str
) -> None:
    if fails == "replace" and not form.endswith("parquet"):
        fails = "write"
    path = tmp_path / form
    disk = FaultyDisk()
    sink = FileSink(path=path, disk=disk)
    sink.open(None)
    sink.write(delivery(0))
    position = sink.flush()
    if fails == "sync_folder" and not path.is_dir():
        sink.open(position)  # the folder is synced once after each open
    disk.fails = fails
    with pytest.raises(OSError, match="could not be written") as caught:
        sink.write(delivery(1))
        sink.flush()
    assert caught.value.errno == errno.ENOSPC
    assert str(path) in str(caught.value)
    disk.fails = ""
    before = len(disk.done)
    with pytest.raises(SinkError, match="open it again"):
        sink.flush()
    with pytest.raises(SinkError, match="open it again"):
        sink.write(delivery(1))
    assert disk.done[before:] == []  # above all no second sync of the same file
    sink.open(position)
    sink.write(delivery(1))
    sink.flush()
    sink.close()
    assert written(path) == [(b, i) for b in range(2) for i in range(3)]


def test_a_new_file_and_its_folders_are_synced_once(tmp_path: Path) -> None:
    disk = FaultyDisk()
    sink = FileSink(path=tmp_path / "a" / "b" / "labels.jsonl", disk=disk)
    sink.open(None)
    assert disk.done == ["sync_folder"] * 3  # the existing parent folder is synced too
    sink.write(delivery(0))
    sink.flush()
    assert disk.done[3:] == ["write", "sync", "sync_folder"]
    sink.flush()
    sink.write(delivery(1))
    sink.flush()
    assert disk.done[6:] == ["write", "sync"]
    sink.close()


def test_a_part_is_synced_before_it_gets_its_name(tmp_path: Path) -> None:
    disk = FaultyDisk()
    sink = FileSink(path=tmp_path / "labels.parquet", disk=disk)
    sink.open(None)
    disk.done.clear()
    sink.write(delivery(0))
    assert disk.done == []
    sink.flush()
    assert disk.done[:4] == ["write", "sync", "replace", "sync_folder"]


def test_csv_uses_the_columns_of_the_first_rows(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    sink = FileSink(path=path)
    sink.open(None)
    sink.write(delivery(0, 1))
    position = sink.flush()
    sink.open(position)
    fewer = {name: values for name, values in delivery(1, 1).columns.items() if name != "name"}
    sink.write(Delivery("demo", 1, fewer))
    more = {**delivery(2, 1).columns, "other": np.zeros(1)}
    with pytest.raises(SinkError, match="no column 'other'"):
        sink.write(Delivery("demo", 2, more))
    sink.flush()
    sink.close()
    assert path.read_text().endswith("\n1,0,1,\n")


@pytest.mark.parametrize("options", [{"path": "labels.xml"}, {"path": "a", "format": "arrow"}])
def test_invalid_options_of_a_sink_are_rejected(options: Any) -> None:
    with pytest.raises(InputError, match="set format"):
        FileSink(**options)


def test_a_second_writer_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    sink = FileSink(path=path)
    sink.open(None)
    append(path, b"not ours\n")
    with pytest.raises(SinkError, match="another process writes to it"):
        sink.write(delivery(0))


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"[1, 1]\n[2, 2]\n[3, 4]\n[4, 4]\n", SourceChanged),  # written again, in place
        (b"[1, 1]\n[2, 2]\n", SourceRegressed),
    ],
)
def test_changes_of_rows_that_were_read_are_detected(
    tmp_path: Path, content: bytes, error: type[Exception]
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"[1, 1]\n[2, 2]\n[3, 3]\n")
    source = FileSource(path=path)
    source.open(None)
    (record,) = source.read(9, timeout=0)
    resume = Resume(source.identity(), {"": record.position})  # in the middle of the record
    source.close()
    with path.open("r+b") as file:
        file.write(content)
        file.truncate()
    with pytest.raises(error, match="accept-gap"):
        source.open(resume)
    source.open(resume, accept_gap=True)
    assert source.read(9, timeout=0)[0].value == content
    source.close()
