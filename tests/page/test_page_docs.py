"""The recipe about the live page: its code runs, its commands are known, its pictures are there."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from pathlib import Path

from PIL import Image

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "live-page.md"
TEXT = PAGE.read_text(encoding="utf-8")
LOOSE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def test_the_program_runs_and_prints_what_it_shows() -> None:
    (code,), (printed,) = blocks("python"), blocks("text")
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert doctest.OutputChecker().check_output(printed, done.stdout, LOOSE), done.stdout


def test_the_commands_are_understood() -> None:
    """They would run for ever; a request for help with all their flags refuses unknown ones."""
    (commands,) = blocks("sh")
    for line in commands.splitlines():
        _, *arguments = line.split()
        command = [sys.executable, "-m", "scstream.cli", *arguments, "--help"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"{line}: {done.stderr}"


def test_the_pictures_are_there_and_small() -> None:
    names = set(re.findall(r"\(\.\./images/(page-[\w-]+\.png)\)", TEXT))
    pictures = {f"page-{m}-{t}.png" for m in ("early", "middle", "late") for t in ("light", "dark")}
    assert names >= pictures
    for name in names:
        path = PAGE.parents[1] / "images" / name
        assert path.stat().st_size < 250_000
        with Image.open(path) as picture:
            assert picture.size == (1400, 1000)
