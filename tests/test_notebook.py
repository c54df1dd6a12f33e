"""The notebook runs, shows what it prints, and needs no Jupyter for that."""

from __future__ import annotations

import ast
import contextlib
import io
import json
from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import pytest
from matplotlib import pyplot

from tests.conftest import PROJECT

NOTEBOOK = PROJECT / "docs" / "notebooks" / "steer.ipynb"
METHODS = ("fit_stream", "clusters_", "describe", "exemplars_", "explain", "events_", "name(")
METHODS += ("merge(", "pin(", "undo(", "plot.profile", "save(", "load(")


def cells() -> list[dict[str, Any]]:
    stored = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in stored if cell["cell_type"] == "code"]


def result_of(cell: dict[str, Any], names: dict[str, Any]) -> str:
    """Run a cell; return what it prints and the value of its last line, as Jupyter shows them."""
    *first, last = ast.parse("".join(cell["source"])).body
    value = None
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(ast.Module(first, []), "cell", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
        else:
            exec(compile(ast.Module([last], []), "cell", "exec"), names)
    return out.getvalue() + ("" if value is None else repr(value))


def shown(cell: dict[str, Any]) -> str:
    """What is stored below a cell, apart from pictures and the progress line."""
    text = ""
    for output in cell["outputs"]:
        if output["output_type"] == "stream" and output["name"] == "stdout":
            text += "".join(output["text"])
        elif output["output_type"] == "execute_result":
            text += "".join(output["data"]["text/plain"])
    return text


@pytest.fixture
def without_windows() -> Iterator[None]:
    backend = mpl.get_backend()
    pyplot.switch_backend("Agg")
    yield
    pyplot.close("all")
    pyplot.switch_backend(backend)


@pytest.mark.usefixtures("without_windows")
def test_the_notebook_prints_what_it_shows() -> None:
    names: dict[str, Any] = {"__name__": "notebook"}
    for number, cell in enumerate(cells(), 1):
        found = result_of(cell, names)
        assert found.split() == shown(cell).split(), f"cell {number}:\n{found}"
    assert len(pyplot.get_fignums()) == 2


def test_the_notebook_tells_the_whole_story() -> None:
    source = "".join("".join(cell["source"]) for cell in cells())
    assert [method for method in METHODS if method not in source] == []


def test_the_stored_outputs_are_complete() -> None:
    kinds = [set(output.get("data", ())) for cell in cells() for output in cell["outputs"]]
    assert sum("image/png" in kind for kind in kinds) == 2
    assert sum("text/html" in kind for kind in kinds) >= 6
    assert [cell["execution_count"] for cell in cells()] == list(range(1, len(cells()) + 1))
    outputs = [output["output_type"] for cell in cells() for output in cell["outputs"]]
    assert "error" not in outputs
