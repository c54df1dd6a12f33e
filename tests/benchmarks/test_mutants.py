"""Mutants are made from the source, change one thing, and the page shows what became of them."""

from __future__ import annotations

import ast

import pytest

from benchmarks.mutants import operators
from benchmarks.mutants.chosen import chosen_mutants
from benchmarks.mutants.explained import EQUIVALENT
from benchmarks.mutants.operators import Mutant, all_mutants
from benchmarks.mutants.page import write_page
from benchmarks.mutants.selection import modules, selected_mutants
from benchmarks.results_io import RESULTS, read

SOURCE = '''
LIMIT = 3


def f(x: int = 1) -> float:
    """Half of it."""
    if not x > 2:
        raise ValueError(f"{x + 1}")
    x += 1
    return max(x, 0) / 2.0 + x[0 + 1]
'''


@pytest.fixture
def mutants_of_f(monkeypatch, tmp_path):
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "module.py").write_text(SOURCE)
    monkeypatch.setattr(operators, "SOURCES", tmp_path)
    return all_mutants("some.module")


def test_operators_change_expressions_and_statements(mutants_of_f):
    """But no constants of the module, defaults, annotations, messages and indices."""
    changes = {(mutant.before, mutant.after) for mutant in mutants_of_f}
    assert changes == {
        ("not x > 2", "x > 2"),
        ("x > 2", "x <= 2"),
        ("2", "3"),
        ("x += 1", "pass"),
        ("1", "2"),
        ("max(x, 0) / 2.0 + x[0 + 1]", "max(x, 0) / 2.0 - x[0 + 1]"),
        ("max(x, 0) / 2.0 + x[0 + 1]", "max(x, 0) / 2.0"),
        ("max(x, 0) / 2.0", "max(x, 0) * 2.0"),
        ("max(x, 0)", "min(x, 0)"),
        ("0", "1"),
        ("2.0", "4.0"),
    }


def test_a_mutant_differs_in_one_place(mutants_of_f):
    for mutant in mutants_of_f:
        assert mutant.source() != ast.unparse(ast.parse(SOURCE))
    pass_ = next(mutant for mutant in mutants_of_f if mutant.after == "pass")
    assert pass_.source().count("pass") == 1


def test_a_mutant_of_an_expression_that_is_gone_raises(mutants_of_f):
    with pytest.raises(LookupError, match="has no 'x \\+ 7'"):
        Mutant("some.module", "f", "x + 7", "x").source()


def test_every_module_of_core_and_families_has_mutants():
    """At least sixty in all; those chosen by hand fit the source."""
    mutants = selected_mutants()
    assert len(mutants) >= 60
    assert {mutant.module for mutant in mutants} == set(filter(all_mutants, modules()))
    for mutant in chosen_mutants():
        compile(mutant.source(), mutant.key, "exec")


def test_the_selection_is_the_same_every_time():
    assert selected_mutants() == selected_mutants()


def test_only_survivors_are_explained(tmp_path, monkeypatch):
    rows = read(RESULTS / "mutants.jsonl")
    survivors = {key for key, row in rows.items() if row["fate"] == "survived"}
    assert set(EQUIVALENT) == survivors
    assert len(survivors) <= 0.05 * len(rows)
    monkeypatch.setattr("benchmarks.mutants.page.RESULTS", tmp_path)
    write_page(rows)
    page = (RESULTS / "mutants.md").read_text()
    assert (tmp_path / "mutants.md").read_text() == page
