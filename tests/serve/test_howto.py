"""The page of the service runs as written, and the page of its routes is that of the code."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from docs import make_http
from tests.cli.shell import PIPELINE, environment, running, scstream, write_rows
from tests.docs.blocks import Block, blocks_of
from tests.serve.test_process import ready, url_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "serve.md"
LOOSE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
COMMANDS = {"python": [sys.executable, "-c"], "sh": ["bash", "-euo", "pipefail", "-c"]}
RAISED = re.compile(r'(?:ApiError|_error|_reject)\(\s*(?:\d+, )?"(\w+)"(?: if \w+ else "(\w+)")?')


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    write_rows(tmp_path / "rows.csv", 300)
    (tmp_path / "p.toml").write_text(PIPELINE)
    assert scstream("run", "p.toml", folder=tmp_path).returncode == 0
    yield tmp_path


@pytest.mark.slow
def test_the_page_runs_and_prints_what_it_shows(folder: Path) -> None:
    """A console block starts the service that the blocks after it ask, on a port of its own."""
    blocks = blocks_of(PAGE.read_text(encoding="utf-8"))
    assert sum(block.kind in COMMANDS for block in blocks) >= 8
    with ExitStack() as services:
        url = "http://127.0.0.1:8765"
        for block in blocks:
            if block.kind == "console" and "scstream serve" in block.code:
                services.close()
                url = _start(block, folder, services)
            elif block.kind in COMMANDS:
                code = block.code.replace("http://127.0.0.1:8765", url)
                _check(block, code, folder)


def _start(block: Block, folder: Path, services: ExitStack) -> str:
    words = shlex.split(block.code)
    given = dict(word.split("=", 1) for word in words if "=" in word.partition("--")[0])
    arguments = words[words.index("serve") :]
    service = services.enter_context(running(*arguments, "--port", 0, folder=folder, **given))
    url = url_of(service)
    ready(url)
    return url


def _check(block: Block, code: str, folder: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [*COMMANDS[block.kind], code],
        cwd=folder,
        env=environment(PATH=path),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    place = f"{PAGE.name} line {block.line}"
    assert done.returncode == 0, f"{place}:\n{done.stdout}\n{done.stderr}"
    same = doctest.OutputChecker().check_output(block.printed or "", done.stdout + "\n", LOOSE)
    assert same, f"{place} printed:\n{done.stdout}\n{done.stderr}"


def test_the_reference_matches_the_code() -> None:
    same = make_http.PAGE.read_text(encoding="utf-8") == make_http.page()
    assert same, "the service has other routes; run python docs/make_http.py"


def test_every_error_is_in_the_reference() -> None:
    source = Path(__file__).resolve().parents[2] / "src" / "scstream" / "serve"
    found = {
        name
        for file in (*source.glob("*.py"), source.parent / "stream" / "http_server.py")
        for names in RAISED.findall(file.read_text(encoding="utf-8"))
        for name in names
        if name
    }
    assert len(found) > 20 and found <= set(make_http.ERRORS)
    by_type = {"CheckpointCorrupt", "MissingExtra", "StreamError", "TimeError", "UnknownKey"}
    assert set(make_http.ERRORS) - found == by_type


def test_the_options_on_the_page_exist() -> None:
    done = scstream("serve", "--help", folder=PAGE.parent)
    flags = set(re.findall(r"--[a-z][a-z-]+", PAGE.read_text(encoding="utf-8")))
    elsewhere = {"--serve", "--set"}
    assert flags - elsewhere <= set(re.findall(r"--[a-z][a-z-]+", done.stdout))
