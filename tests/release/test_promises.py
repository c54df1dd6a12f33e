"""What SECURITY, MAINTAINING and the pages on stability and security say, is there."""

from __future__ import annotations

import ast
import re
import stat
from pathlib import Path

import pytest

import scstream
from scstream.io.disk import MachineDisk
from tests.release.scripts import ROOT

PAGES = [
    "CODE_OF_CONDUCT.md",
    "MAINTAINING.md",
    "SECURITY.md",
    "docs/explanation/security.md",
    "docs/explanation/stability.md",
]
FOLDERS = "benchmarks|changelog.d|conda|deploy|docs|native|requirements|src|tests|\\.ci|\\.github"
NAMED = re.compile(rf"`((?:{FOLDERS})/[\w./-]+)(?:::(\w+))?`")
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)")


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_is_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    files = {file for file, _ in NAMED.findall(text)}
    assert [file for file in files if not (ROOT / file).exists()] == []
    links = LINK.findall(text)
    assert [link for link in links if not (ROOT / page).parent.joinpath(link).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_tests_that_a_page_names_are_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = {(file, test) for file, test in NAMED.findall(text) if test}
    assert {(file, test) for file, test in named if test not in functions_of(file)} == set()


def functions_of(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_public_name_is_in_the_reference() -> None:
    pages = (ROOT / "docs" / "reference" / "api").glob("*.rst")
    listed = set(re.findall(r"scstream\.\w+", "".join(page.read_text() for page in pages)))
    public = {f"scstream.{name}" for name in scstream.__all__ if not name.startswith("__")}
    assert public - listed == set()


def test_every_public_name_is_described() -> None:
    public = [name for name in scstream.__all__ if not name.startswith("__")]
    assert [
        name for name in public if "Examples" not in (getattr(scstream, name).__doc__ or "")
    ] == []


def test_files_of_a_pipeline_are_for_their_owner_alone(tmp_path: Path) -> None:
    disk = MachineDisk()
    disk.make_folder(tmp_path / "state")
    for way, name in ((disk.create, "checkpoint"), (disk.append, "dead.jsonl")):
        disk.close(way(tmp_path / "state" / name))
        assert stat.S_IMODE((tmp_path / "state" / name).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
