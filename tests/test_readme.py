"""The README runs: its python blocks are executed in order and must print what it shows."""

from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import blocks_of, compare, read, told

PAGE = "README.md"


def test_readme_runs_and_prints_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = [block for block in blocks_of(read(PAGE)) if block.kind == "python"]
    assert blocks, "the README has lost its quickstart"
    names: dict[str, Any] = {"__name__": "readme"}
    for block in blocks:
        said = told(PAGE, block, names)
        if block.printed is not None:  # elsewhere a reader is told what to look at, not what to see
            compare(PAGE, block, said)


def test_readme_stays_short() -> None:
    assert len(read(PAGE).splitlines()) <= 150
