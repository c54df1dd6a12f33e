"""Bodies that describe far more than they hold are rejected with a sentence, in little memory.

All of them, through every source, are sent by ``python -m benchmarks faults bombs``.
"""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from scstream.errors import CheckpointCorrupt
from scstream.model import read_checkpoint
from scstream.stream.arrow_files import RECORD_ROWS, open_groups
from scstream.stream.connectors.files.csv_lines import CsvReader
from scstream.stream.messages import reader
from scstream.stream.schema import Schema
from tests.faults.bombing import FEATURES, Tally, through_service
from tests.faults.bombs import Bomb, bombs, stream

ROOM = 400 << 20  # bytes of addresses; half as much again as the budget of one message
QUICK = {  # to make and to reject; each is rejected by another check
    *("nulls 2097152", "zstd float64 200", "one text for 65536 rows", "cut at 100"),
    *("lines of []", "a column of {}", "deep", "a file of ','"),
}


@pytest.fixture(scope="module")
def quick() -> list[tuple[Bomb, bytes]]:
    made = bombs()
    assert len(made) >= 70
    return [(bomb, bomb.content) for bomb in made if bomb.name in QUICK]


@contextmanager
def room(n_bytes: int) -> Iterator[None]:
    """Let this process have so many more bytes of addresses, reserved ones included."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    size = re.search(r"VmSize:\s+(\d+)", Path("/proc/self/status").read_text())
    assert size is not None
    resource.setrlimit(resource.RLIMIT_AS, (1024 * int(size[1]) + n_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def test_the_service_rejects_bombs_in_one_gigabyte(
    quick: list[tuple[Bomb, bytes]], tmp_path: Path
) -> None:
    """To predict and to learn, plain and as bodies that claim to be compressed."""
    some = [bomb for bomb, _ in quick if bomb.format != "csv"]
    found = through_service(some, tmp_path)
    assert found.wrong == [] and found.kills == 0 and found.peak < 900, found
    assert found.rejected == found.bodies > 30


def test_readers_of_messages_reject_bombs_before_they_allocate(
    quick: list[tuple[Bomb, bytes]],
) -> None:
    tally = Tally("readers")
    schema = Schema(tuple(FEATURES), keep=("name",), missing=True)
    for bomb, content in quick:
        read = CsvReader(schema).read if bomb.format == "csv" else reader(bomb.format, schema).read
        with room(ROOM):
            block = read(content)
        assert block.rejects and not len(block.row), bomb
        tally.check(bomb.name, block.rejects[0].reason)
    assert tally.wrong == []


def test_a_message_that_just_fits_the_budget_needs_no_third_copy_of_its_rows() -> None:
    content = next(bomb.content for bomb in bombs() if bomb.name == "nulls 1048576")
    with room(300 << 20):  # a copy has 117 MB
        block = reader("arrow", Schema(tuple(FEATURES), keep=("name",), missing=True)).read(content)
    assert len(block.row) == 2**20


@pytest.mark.parametrize("format", ["arrow", "parquet"])
def test_a_small_file_with_a_long_text_in_every_row_does_not_fill_the_disk(
    tmp_path: Path, format: str
) -> None:
    """The rows before the limit are read, and those after it never, wherever a run begins."""
    indices = pa.array(np.zeros(2**17, dtype=np.int32))
    texts = pa.DictionaryArray.from_arrays(indices, pa.array(["a" * 3000]))
    table, path = pa.table({"x": np.zeros(2**17), "name": texts}), tmp_path / f"rows.{format}"
    if format == "arrow":
        path.write_bytes(stream(table, "zstd"))
    else:
        parquet.write_table(table, path)
    assert path.stat().st_size < 100_000

    def n_read(first: int) -> int:
        groups, n_rows = open_groups(path, format, None), 0
        with pytest.raises(ValueError, match="for the texts of a column, and 268 MB are allowed"):
            for part in groups.tables(0, first) or ():
                n_rows += part.num_rows
        groups.close()
        return n_rows

    limit = {"arrow": 0, "parquet": RECORD_ROWS}[format]
    assert [n_read(first) for first in (0, 40_000, 70_000)] == [
        max(limit - first, 0) for first in (0, 40_000, 70_000)
    ]


def test_a_dead_letter_says_that_memory_was_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message is sound, and can be sent again."""

    def fail(*_: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 8388608 failed")

    monkeypatch.setattr("scstream.stream.arrow._table", fail)
    block = reader("arrow", Schema(("x",))).read(stream(pa.table({"x": [1.0]})))
    assert "more memory than is free" in block.rejects[0].reason


def test_a_model_file_with_a_huge_header_is_rejected_before_it_is_parsed() -> None:
    text = b'{"__metadata__":{"scstream":"x\\n[%b]"}}' % (4_000_000 * b"[],")
    with pytest.raises(CheckpointCorrupt, match="header would need too much memory"):
        read_checkpoint(len(text).to_bytes(8, "little") + text, name="model")
