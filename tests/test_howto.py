"""The recipes run as written: TOML blocks become files, shell blocks are executed in order."""

import doctest
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from scstream.cli.places import Scratch
from scstream.cli.settings import nested, read_file
from scstream.stream.config import build

PAGE = Path(__file__).resolve().parents[1] / "docs" / "howto" / "pipelines.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"# ([\w-]+\.toml)\n")
LOOSE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
WHERE = {
    "KAFKA_PASSWORD": "hunter2",
    "NATS_URL": "nats://me:hunter2@broker:4222",
    "PG_URL": "postgresql://me:hunter2@db:5432/shop",
    "REDIS_URL": "redis://me:hunter2@broker:6379/0",
    "ROWS_TOKEN": "hunter2",
}


@dataclass(frozen=True)
class Block:
    line: int  # of the opening fence, counted from 1
    kind: str
    code: str
    printed: str | None  # None: nothing is promised about the output


def blocks_of(text: str) -> list[Block]:
    fences = list(FENCE.finditer(text))
    blocks = []
    for fence, following in zip(fences, [*fences[1:], None], strict=True):
        adjacent = following is not None and not text[fence.end() : following.start()].strip()
        printed = following[2] if following and adjacent and following[1] == "text" else None
        line = text.count("\n", 0, fence.start()) + 1
        blocks.append(Block(line, fence[1], fence[2], printed))
    return blocks


def pipelines_of(blocks: list[Block]) -> dict[str, str]:
    """Files of settings by name; every TOML block begins with its name."""
    files = {}
    for block in blocks:
        if block.kind == "toml":
            name = NAME.match(block.code)
            assert name is not None and name[1] not in files, f"{PAGE.name} line {block.line}"
            files[name[1]] = block.code
    return files


BLOCKS = blocks_of(PAGE.read_text(encoding="utf-8"))
PIPELINES = pipelines_of(BLOCKS)


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SCSTREAM_")}
    path = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", "")])
    return subprocess.run(
        command,
        cwd=folder,
        env=kept | {"PATH": path, "OPENBLAS_NUM_THREADS": "1", "LC_ALL": "C"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
def test_the_recipes_run_and_print_what_they_show(tmp_path: Path) -> None:
    for name, content in PIPELINES.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    commands = {"python": [sys.executable, "-c"], "sh": ["bash", "-euo", "pipefail", "-c"]}
    executed = [block for block in BLOCKS if block.kind in commands]
    assert len(executed) >= 12
    for block in executed:
        place = f"{PAGE.name} line {block.line}"
        done = run([*commands[block.kind], block.code], tmp_path)
        assert done.returncode == 0, f"{place}:\n{done.stdout}\n{done.stderr}"
        same = doctest.OutputChecker().check_output(block.printed or "", done.stdout, LOOSE)
        assert same, f"{place} printed:\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("name", PIPELINES)
def test_every_recipe_can_be_built(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where the journal of a recipe goes
    file = tmp_path / name
    file.write_text(PIPELINES[name], encoding="utf-8")
    pipeline = build(nested(read_file(file, WHERE)), store=Scratch())
    assert pipeline.job == tomllib.loads(PIPELINES[name])["job"]
    assert "hunter2" not in f"{pipeline.source!r} {pipeline.sink!r} {pipeline.dead!r}"


def test_a_block_is_compared_with_a_text_block_directly_below() -> None:
    text = "```sh\na\n```\n\n```text\n1\n```\n\n```sh\nb\n```\nwords\n```text\n2\n```\n"
    found = [(b.line, b.code, b.printed) for b in blocks_of(text) if b.kind == "sh"]
    assert found == [(1, "a\n", "1\n"), (9, "b\n", None)]


def test_settings_without_a_name_are_noticed() -> None:
    with pytest.raises(AssertionError):
        pipelines_of([Block(1, "toml", 'job = "a"\n', None)])
