"""Mutation score: change one thing in a module, and see whether its tests notice.

A mutant is the source with one comparison, operator, constant, condition or call changed. It is put
in place of the module in a process of its own, which runs the tests of the module; a mutant that
passes them all has survived.
"""

from __future__ import annotations

import argparse
import ast
import copy
import csv
import importlib.abc
import importlib.util
import io
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from benchmarks.results_io import RESULTS

SOURCES = Path(__file__).parents[2] / "src"
TESTS = {
    "scstream.stream.commit": ["tests/stream/test_runner.py"],
    "scstream.stream.checkpoint_log": ["tests/stream/test_runner.py", "tests/stream/test_pool.py"],
    "scstream.stream.batcher": ["tests/stream/test_batcher.py", "tests/stream/test_runner.py"],
    "scstream.stream.store": ["tests/stream/test_store.py", "tests/stream/test_runner.py"],
    "scstream.io.model_file": ["tests/io/test_checkpoint.py", "tests/compat"],
    "scstream.io._packing": ["tests/io/test_checkpoint.py", "tests/compat"],
    "scstream.families.gaussian": ["tests/families", "tests/laws/test_families.py"],
}
_SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
_SECONDS = 120.0


def mutants(tree: ast.Module) -> Iterator[tuple[int, str, ast.Module]]:
    """Line, what was changed, and the changed module, one change at a time."""
    places = [node for node in ast.walk(tree) if _changes(node)]
    for number, node in enumerate(places):
        for change in _changes(node):
            changed = copy.deepcopy(tree)
            twin = [n for n in ast.walk(changed) if _changes(n)][number]
            label = _apply(twin, change)
            yield getattr(node, "lineno", 0), label, ast.fix_missing_locations(changed)


def _changes(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPS:
        return ["compare"]
    if isinstance(node, ast.BoolOp) or (isinstance(node, ast.BinOp) and type(node.op) in _SWAPS):
        return ["operator"]
    if isinstance(node, ast.If | ast.IfExp):
        return ["always", "never"]
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return ["call"]
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return ["constant"]
    return []


def _apply(node: ast.AST, change: str) -> str:
    before = ast.unparse(node).splitlines()[0][:60]
    if change == "compare":
        node.ops[0] = _SWAPS[type(node.ops[0])]()  # type: ignore[attr-defined]
    elif change == "operator":
        node.op = _SWAPS[type(node.op)]()  # type: ignore[attr-defined]
    elif change in ("always", "never"):
        node.test = ast.Constant(change == "always")  # type: ignore[attr-defined]
    elif change == "call":
        node.value = ast.Constant(None)  # type: ignore[attr-defined]
    else:
        node.value += 1  # type: ignore[attr-defined]
    return f"{change}: {before}"


class _Instead(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads a changed module in place of the one of this name."""

    def __init__(self, name: str, source: str) -> None:
        self._name, self._source = name, source

    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self) if name == self._name else None

    def exec_module(self, module):
        module.__file__ = str(SOURCES.joinpath(*self._name.split("."))) + ".py"
        exec(compile(self._source, module.__file__, "exec"), module.__dict__)


def _run(name: str, source: str, tests: list[str], folder: str) -> None:
    """Run the tests in this process, and leave with the exit code of pytest."""
    import pytest

    sys.meta_path.insert(0, _Instead(name, source))
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = folder
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--timeout=60"]
        code = pytest.main([*options, f"--basetemp={folder}/pytest", *tests])
    os._exit(int(code))


def judged(name: str, source: str, folder: str) -> str:
    """Say what became of a mutant."""
    fork = multiprocessing.get_context("fork")
    child = fork.Process(target=_run, args=(name, source, TESTS[name], folder))
    child.start()
    child.join(_SECONDS)
    if child.is_alive():
        child.kill()
        child.join()
        return "caught: endless"
    return "survived" if child.exitcode == 0 else "caught"


def main(arguments: list[str] | None = None) -> None:
    """Try mutants of all modules, a sample of each, and keep what became of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=40, help="mutants per module")
    parser.add_argument("--modules", nargs="*", default=list(TESTS))
    chosen = parser.parse_args(arguments)
    for module in ("numpy", "scipy.linalg", "scipy.special", "scipy.stats", "hypothesis", "pytest"):
        importlib.import_module(module)  # once, before the forks
    rows = []
    for name in chosen.modules:
        path = SOURCES.joinpath(*name.split(".")).with_suffix(".py")
        every = list(mutants(ast.parse(path.read_text())))
        sample = random.Random(0).sample(every, min(chosen.most, len(every)))
        start = time.monotonic()
        with ThreadPoolExecutor(2) as pool:
            folders = [tempfile.mkdtemp(prefix="mutant-") for _ in sample]
            fates = pool.map(
                lambda pair: judged(name, ast.unparse(pair[0][2]), pair[1]),  # noqa: B023
                zip(sample, folders, strict=True),
            )
            for (line, label, _), fate in zip(sample, fates, strict=True):
                rows.append({"module": name, "line": line, "change": label, "fate": fate})
        mine = [row for row in rows if row["module"] == name]
        caught = sum(row["fate"].startswith("caught") for row in mine)
        print(
            f"{name:<28} {caught}/{len(mine)} of {len(every)} ({time.monotonic() - start:.0f} s)",
            flush=True,
        )
    with (RESULTS / "faults-mutation.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
