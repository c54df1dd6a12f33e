"""Tests of the gallery: all examples are well formed and the quick ones run."""

import ast
import gc
import os
import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib import pyplot

from tests.conftest import PROJECT

EXAMPLES = sorted((PROJECT / "examples").glob("plot_*.py"))
QUICK = ("01_drifting_blobs", "02_births_and_deaths", "05_families", "09_anomalies", "10_logs")
WITHOUT_FILES = ("10_logs", "11_text")  # they generate data instead


def path_of(name: str) -> Path:
    return PROJECT / "examples" / f"plot_{name}.py"


@pytest.fixture(autouse=True)
def figures_are_closed() -> Iterator[None]:
    backend = mpl.get_backend()
    pyplot.switch_backend("Agg")
    yield
    pyplot.close("all")
    gc.collect()  # deletes animations that were not shown while their warning is ignored
    pyplot.switch_backend(backend)


def n_figures_of(name: str) -> int:
    runpy.run_path(str(path_of(name)), run_name="example")
    return len(pyplot.get_fignums())


@pytest.mark.filterwarnings("ignore:Animation was deleted")
@pytest.mark.parametrize("name", QUICK)
def test_a_quick_example_runs(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shared = PROJECT.parent / "shared" / "data"
    monkeypatch.setenv("SCSTREAM_DATA", os.environ.get("SCSTREAM_DATA") or str(shared))
    monkeypatch.chdir(tmp_path)
    assert n_figures_of(name) > 0
    assert list(tmp_path.iterdir()) == [], "an example leaves no files behind"
    assert capsys.readouterr().out or name == "05_families"


@pytest.mark.parametrize("name", WITHOUT_FILES)
def test_an_example_reports_missing_files(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SCSTREAM_DATA", str(tmp_path))
    assert n_figures_of(name) > 0
    assert "the file was not found" in capsys.readouterr().out


def test_examples_are_numbered_without_gaps() -> None:
    numbers = [int(path.name[5:7]) for path in EXAMPLES]
    assert numbers == list(range(1, len(EXAMPLES) + 1))
    assert len(EXAMPLES) >= 12


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_well_formed(path: Path) -> None:
    """An example has a title, cells with headings, and ends with a summary and its limits."""
    text = path.read_text(encoding="utf-8")
    title, line, *_ = (ast.get_docstring(ast.parse(text)) or "").splitlines()
    assert line == "=" * len(title)
    for heading, rule in re.findall(r"^# %%\n# (.+)\n# (-+)$", text, re.MULTILINE):
        assert len(heading) == len(rule), heading
    ending = text[text.index("# Summary\n") :]
    assert "# Limits: " in ending
    assert "import" not in re.sub(r"^#.*$", "", ending, flags=re.MULTILINE)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_pages_that_examples_name_exist(path: Path) -> None:
    for page in re.findall(r"``(docs/[\w/.-]+)``", path.read_text(encoding="utf-8")):
        assert (PROJECT / page).is_file(), page
