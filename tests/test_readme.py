"""The README runs: its python blocks are executed in order and must print what it shows."""

import contextlib
import io
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    line: int  # of the opening fence, counted from 1
    code: str
    expected: str | None  # None: nothing is promised about the output


def blocks_of(text: str) -> list[Block]:
    fences = list(FENCE.finditer(text))
    blocks = []
    for fence, following in zip(fences, [*fences[1:], None], strict=True):
        if fence[1] != "python":
            continue
        adjacent = following is not None and not text[fence.end() : following.start()].strip()
        expected = following[2] if adjacent and following[1] == "text" else None
        blocks.append(Block(text.count("\n", 0, fence.start()) + 1, fence[2], expected))
    return blocks


def printed(block: Block, namespace: dict[str, object]) -> str:
    # The leading newlines make a traceback point at the line of the README.
    program = compile("\n" * block.line + block.code, str(README), "exec")
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(program, namespace)
    return out.getvalue()


def test_readme_runs_and_prints_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = blocks_of(README.read_text(encoding="utf-8"))
    assert blocks, "the README has lost its quickstart"
    namespace: dict[str, object] = {"__name__": "readme"}
    for block in blocks:
        out = printed(block, namespace)
        if block.expected is not None:
            assert out.split() == block.expected.split(), f"README.md line {block.line}"


def test_only_a_text_block_directly_below_is_compared() -> None:
    text = "```python\na\n```\n\n```text\n1\n```\n\n```python\nb\n```\nwords\n```text\n2\n```\n"
    assert [(b.line, b.code, b.expected) for b in blocks_of(text)] == [
        (1, "a\n", "1\n"),
        (9, "b\n", None),
    ]


def test_readme_stays_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 150
