"""Code blocks of README and documentation: what they are, who runs them, and how.

A page of python and sh blocks runs as it stands: in order, in one folder, and what it prints must
be the text block directly below. A block whose first line is a comment with the name of a file
becomes that file. A block that nobody runs says why, in a comment above it: <!-- not run: why -->.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tests import warm

ROOT = Path(__file__).resolve().parents[2]
LOOSE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
OUTPUT = ("text", "screen")  # what blocks print, and what a screen shows
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"<!-- not run: (\S.*?) -->\s*\Z", re.DOTALL)
NAME = re.compile(r"(?:#|--) ([\w-]+\.\w+)\n")
INSTALL = re.compile(r"(?:(?:#.*|pip install .*|)\n)+")

# Who runs which blocks. Pages that are not here are run by tests/docs/test_blocks.py, and every
# TOML block is built by it.
RUN_BY = {
    ("README.md", "python"): "tests/test_readme.py",
    ("docs/howto/flink.md", "json"): "tests/test_flink.py",
    ("docs/howto/flink.md", "sql"): "tests/test_flink.py",
    ("docs/howto/live-page.md", "python"): "tests/page/test_page_docs.py",
    ("docs/howto/live-page.md", "sh"): "tests/page/test_page_docs.py",
    ("docs/howto/monitor.md", "python"): "tests/observe/test_monitor_page.py",
    ("docs/howto/monitor.md", "sh"): "tests/observe/test_monitor_page.py",
    ("docs/howto/pipelines.md", "python"): "tests/test_howto.py",
    ("docs/howto/pipelines.md", "sh"): "tests/test_howto.py",
    ("docs/howto/ray.md", "python"): "tests/on_ray/test_howto.py",
    ("docs/howto/serve.md", "console"): "tests/serve/test_howto.py",
    ("docs/howto/serve.md", "python"): "tests/serve/test_howto.py",
    ("docs/howto/serve.md", "sh"): "tests/serve/test_howto.py",
    ("docs/howto/spark.md", "properties"): "tests/test_spark.py",
    ("docs/howto/spark.md", "python"): "tests/test_spark.py",
    ("docs/howto/spark.md", "sh"): "tests/test_spark.py",
    ("docs/tutorials/broker-to-table.md", "sh"): "tests/test_tutorial.py",
    ("docs/tutorials/news-topics.md", "python"): "tests/test_tutorial.py",
    ("docs/tutorials/news-topics.md", "sh"): "tests/test_tutorial.py",
}
# Why blocks are not run, for pages that should stay free of comments.
NOT_RUN = {("README.md", "console"): "it needs a broker and a database; the tutorial has the same"}


@dataclass(frozen=True)
class Block:
    line: int  # of the opening fence, counted from 1
    kind: str
    code: str
    printed: str | None = None  # None: nothing is promised about the output
    why_not: str | None = None

    @property
    def file(self) -> str | None:
        """Name of the file that the block is."""
        name = NAME.match(self.code)
        return name[1] if name else None


def pages() -> list[str]:
    """Pages in Markdown, as paths from the root; those that are made by the build are left out."""
    made = ("docs/generated/", "docs/auto_examples/", "docs/_build/")
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    names = sorted(page.relative_to(ROOT).as_posix() for page in found)
    return [name for name in names if not name.startswith(made)]


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks_of(text: str) -> list[Block]:
    fences = list(FENCE.finditer(text))
    blocks = []
    for fence, following in zip_longest(fences, fences[1:]):
        printed = None
        if following is not None and following[1] == "text":
            adjacent = not text[fence.end() : following.start()].strip()
            printed = following[2] if adjacent else None
        line = text.count("\n", 0, fence.start()) + 1
        mark = MARK.search(text[: fence.start()])
        blocks.append(Block(line, fence[1], fence[2], printed, mark[1] if mark else None))
    return blocks


def orphans(page: str, blocks: Iterable[Block]) -> list[Block]:
    """Blocks that nobody runs and that do not say why."""
    return [
        block
        for block in blocks
        if block.kind not in ("python", "sh", "toml", *OUTPUT)
        and (page, block.kind) not in RUN_BY | NOT_RUN
        and not (block.kind == "console" and INSTALL.fullmatch(block.code))
        and block.why_not is None
    ]


def own(page: str) -> list[Block]:
    """Blocks of a page that tests/docs/test_blocks.py runs."""
    return [
        block
        for block in blocks_of(read(page))
        if block.kind in ("python", "sh")
        and (page, block.kind) not in RUN_BY
        and block.why_not is None
    ]


def files_of(blocks: Iterable[Block]) -> dict[str, str]:
    files: dict[str, str] = {}
    for block in blocks:
        if block.file is not None:
            assert block.file not in files, f"line {block.line}: there are two of {block.file}"
            files[block.file] = block.code
    return files


def pipelines_of(blocks: Iterable[Block]) -> dict[str, str]:
    """Files of settings by name; every TOML block begins with its name."""
    settings = [block for block in blocks if block.kind == "toml" and block.why_not is None]
    for block in settings:
        assert block.file is not None, f"line {block.line}: settings without the name of their file"
    return files_of(settings)


def run_page(page: str, folder: Path) -> None:
    """Run the blocks of a page; the current folder is that folder."""
    text = read(page)
    for name, content in files_of(blocks_of(text)).items():
        (folder / name).write_text(content, encoding="utf-8")
    names: dict[str, Any] = {"__name__": "page"}
    for block in own(page):
        if block.file is None:
            said = (
                told(page, block, names) if block.kind == "python" else shown(page, block, folder)
            )
            compare(page, block, said)


def told(page: str, block: Block, names: dict[str, Any]) -> str:
    """Run python here; return what it prints."""
    # The leading newlines make a traceback point at the line of the page.
    program = compile("\n" * block.line + block.code, str(ROOT / page), "exec")
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(program, names)
    return out.getvalue()


def shown(page: str, block: Block, folder: Path) -> str:
    """Run a shell; return what it prints."""
    done = run(["bash", "-euo", "pipefail", "-c", block.code], folder)
    assert done.returncode == 0, f"{page} line {block.line}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def compare(page: str, block: Block, said: str) -> None:
    same = doctest.OutputChecker().check_output(block.printed or "", said, LOOSE)
    assert same, f"{page} line {block.line} printed:\n{said}"


def run(
    command: list[str], folder: Path, variables: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command with the programs of this environment, and without settings from outside."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SCSTREAM_")}
    folders = [str(warm.programs()), str(Path(sys.executable).parent), kept.get("PATH", "")]
    fixed = {"PATH": os.pathsep.join(folders), "OPENBLAS_NUM_THREADS": "1", "LC_ALL": "C"}
    return subprocess.run(
        command,
        cwd=folder,
        env=kept | (variables or {}) | fixed,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
