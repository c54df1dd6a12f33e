"""The recipes run as written: TOML blocks become files, shell blocks are executed in order."""

import sys
from pathlib import Path

import pytest

from tests.docs.blocks import blocks_of, compare, pipelines_of, read, run

PAGE = "docs/howto/pipelines.md"
BLOCKS = blocks_of(read(PAGE))


@pytest.mark.slow
def test_the_recipes_run_and_print_what_they_show(tmp_path: Path) -> None:
    for name, content in pipelines_of(BLOCKS).items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    commands = {"python": [sys.executable, "-c"], "sh": ["bash", "-euo", "pipefail", "-c"]}
    executed = [block for block in BLOCKS if block.kind in commands]
    assert len(executed) >= 12
    for block in executed:
        done = run([*commands[block.kind], block.code], tmp_path)
        place = f"{PAGE} line {block.line}"
        assert done.returncode == 0, f"{place}:\n{done.stdout}\n{done.stderr}"
        compare(PAGE, block, done.stdout)
