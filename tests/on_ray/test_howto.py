"""The page about Ray runs as written, in one process, on the cluster of the tests."""

from __future__ import annotations

import contextlib
import doctest
import io
from pathlib import Path
from typing import Any

import pytest

from scstream.cli.places import Scratch
from scstream.cli.settings import nested, read_file
from scstream.stream.config import build
from tests.test_howto import LOOSE, blocks_of, pipelines_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "ray.md"
BLOCKS = blocks_of(PAGE.read_text(encoding="utf-8"))


@pytest.mark.usefixtures("cluster")
def test_the_page_runs_and_prints_what_it_shows() -> None:
    names: dict[str, Any] = {}
    executed = [block for block in BLOCKS if block.kind == "python"]
    assert len(executed) >= 5
    for block in executed:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(block.code, f"{PAGE.name} line {block.line}", "exec"), names)
        same = doctest.OutputChecker().check_output(block.printed or "", said.getvalue(), LOOSE)
        assert same, f"{PAGE.name} line {block.line} printed:\n{said.getvalue()}"


def test_the_settings_can_be_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in pipelines_of(BLOCKS).items():
        (tmp_path / name).write_text(content, encoding="utf-8")
        build(nested(read_file(tmp_path / name, {})), store=Scratch())
