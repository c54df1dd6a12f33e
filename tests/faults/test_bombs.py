"""Bodies that describe far more than they hold are rejected with a sentence, in little memory.

All of them, through every source, are sent by ``python -m benchmarks faults bombs``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from scstream.errors import CheckpointCorrupt
from scstream.model import read_checkpoint
from tests.faults.bombing import Tally, through_service, through_source
from tests.faults.bombs import Bomb, bombs

QUICK = {  # to make, and to reject
    *("zstd int8 200", "nulls 2097152", "one text for 65536 rows", "cut at 100", "cut"),
    *("lines of []", "one line of [", "a column of {}", "deep", "a large tensor"),
}


@pytest.fixture(scope="module")
def quick() -> list[Bomb]:
    made = bombs()
    assert len(made) >= 70
    return [bomb for bomb in made if bomb.name in QUICK]


def check(tally: Tally) -> None:
    assert tally.wrong == [] and tally.kills == 0, tally
    assert tally.peak < 900, tally


def test_the_service_rejects_bombs_in_one_gigabyte(quick: list[Bomb], tmp_path: Path) -> None:
    """To predict and to learn, plain and as bodies that claim to be compressed."""
    found = through_service(quick, tmp_path)
    check(found)
    assert found.rejected == found.bodies > 40


def test_a_pipeline_puts_bombs_into_dead_letters_in_one_gigabyte(
    quick: list[Bomb], tmp_path: Path
) -> None:
    some = [bomb for bomb in quick if bomb.format in ("arrow", "parquet")]
    some = [bomb for bomb in some if bomb.name != "zstd int8 200"]  # these rows are learned
    found = through_source("http", some, tmp_path)
    check(found)
    assert found.rejected + found.dead_lettered == found.bodies >= 4


def test_a_model_file_with_a_huge_header_is_rejected_before_it_is_parsed() -> None:
    text = b'{"__metadata__":{"scstream":"x\\n[%b]"}}' % (4_000_000 * b"[],")
    with pytest.raises(CheckpointCorrupt, match="header would need too much memory"):
        read_checkpoint(len(text).to_bytes(8, "little") + text, name="model")
