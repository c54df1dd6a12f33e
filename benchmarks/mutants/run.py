"""Run the tests of a module on its mutants, each in a process of its own.

The mutant is loaded in place of the module; no file is changed. Tests use the numpy kernels, so
that mutants of families and of the reference kernels are what runs.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import io
import multiprocessing
import os
import sys
import tempfile
import time
from contextlib import redirect_stderr, redirect_stdout
from multiprocessing.connection import Connection
from typing import Any

import pytest

from benchmarks.mutants.operators import SOURCES, Mutant

_LIMIT = 900.0  # seconds for all tests of one mutant
# The tests of a module, not the whole suite: a survivor may still be killed elsewhere. A table of
# digests (tests/frozen) would notice any change; it says nothing about what is right, and takes no
# part.
_OWN = {
    "core.archive": ["core/test_archive", "core/test_cluster_edits"],
    "core.assign": ["core/test_assign", "core/test_evidence", "core/test_sweeps"],
    "core.births": ["core/test_births", "core/test_start"],
    "core.cluster_edits": ["core/test_cluster_edits", "core/test_paper"],
    "core.config": ["core/test_evidence", "core/test_step"],
    "core.default": ["core/test_sweeps", "core/test_step", "core/test_forgetting"],
    "core.evidence": ["core/test_evidence", "core/test_acceptance"],
    "core.finish": ["core/test_births", "core/test_step", "core/test_sweeps"],
    "core.forgetting": ["core/test_forgetting", "core/test_evidence", "laws/test_kernels"],
    "core.motion": ["core/test_forgetting"],
    "core.moves": ["core/test_moves", "core/test_acceptance"],
    "core.paper": ["core/test_paper", "core/test_sweeps"],
    "core.predictor": ["core/test_predictor", "core/test_weights"],
    "core.printed": ["core/test_paper"],
    "core.ratios": ["core/test_moves", "core/test_start", "core/test_segment"],
    "core.rng": ["core/test_step", "statistics/test_rng"],
    "core.row_ranges": ["core/test_row_ranges", "core/test_assign"],
    "core.segment": ["core/test_segment", "core/test_start"],
    "core.state": ["core/test_step", "core/test_cluster_edits", "core/test_moves"],
    "core.sweep": ["core/test_weights", "core/test_sweeps", "core/test_assign"],
    "core.window": ["core/test_window", "core/test_forgetting"],
    "families.product": ["families/test_product", "laws/test_families"],
    "kernels.reference": [
        *("core/test_moves", "core/test_forgetting", "core/test_weights"),
        *("native/test_native_agrees_with_numpy", "statistics/test_rng"),
    ],
}
FAMILY_NAMES = ("bernoulli", "categorical", "diagonal", "gaussian", "multinomial", "poisson")
_LAWS = ["laws/test_families", "laws/test_priors", "families/test_columns"]
_NO_TESTS = pytest.ExitCode.NO_TESTS_COLLECTED
_SHARED = (  # imported once, before the processes start
    *("numpy", "scipy.linalg", "scipy.special", "scipy.stats", "scipy.sparse"),
    *("hypothesis", "joblib", "narwhals", "pandas", "sklearn.base", "sklearn.cluster"),
)


class _Instead(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Loads a changed module in place of the one of this name."""

    def __init__(self, name: str, source: str) -> None:
        self._name, self._source = name, source

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return importlib.util.spec_from_loader(name, self) if name == self._name else None

    def exec_module(self, module: Any) -> None:
        module.__file__ = str(SOURCES.joinpath(*self._name.split(".")).with_suffix(".py"))
        exec(compile(self._source, module.__file__, "exec"), module.__dict__)


class _FirstFailure:
    """A plugin of pytest that keeps the name of the first test that fails."""

    name = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.name:
            self.name = report.nodeid

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and not self.name:
            self.name = f"import of {report.nodeid}"


def stages(module: str) -> list[list[str]]:
    """Arguments of pytest for the tests of a module: statistical tests come last."""
    _, package, name = module.split(".")
    default = _LAWS if package == "families" else [f"core/test_{name}"]
    tests = [f"tests/{each}.py" for each in _OWN.get(f"{package}.{name}", default)]
    if tests[0] == "tests/laws/test_families.py" and name in FAMILY_NAMES:
        tests += ["-k", f"{name} or test_priors or test_columns"]
    return [["-m", f"{some} and not slow", *tests] for some in ("not statistics", "statistics")]


def _run(mutant: Mutant, folder: str, answer: Connection) -> None:
    sys.meta_path.insert(0, _Instead(mutant.module, mutant.source()))
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = folder
    os.environ["SCSTREAM_KERNELS"] = "numpy"
    os.chdir(SOURCES.parent)
    first = _FirstFailure()
    options = ["-x", "-q", "--hypothesis-seed=0", f"--basetemp={folder}/pytest"]
    options += ["-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:xdist", "--timeout=120"]
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        codes = []
        for arguments in stages(mutant.module):
            codes.append(pytest.main([*options, *arguments], plugins=[first]))
            if first.name:
                break
    right = {pytest.ExitCode.OK} <= set(codes) <= {pytest.ExitCode.OK, _NO_TESTS}
    answer.send(first.name or ("" if right else f"pytest ends with {codes}"))
    os._exit(0)


def judge(mutant: Mutant) -> dict[str, Any]:
    """Say whether a test failed on a mutant, and which one."""
    for module in _SHARED:
        importlib.import_module(module)
    start = time.monotonic()
    fork = multiprocessing.get_context("fork")
    receiver, sender = fork.Pipe(duplex=False)
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        child = fork.Process(target=_run, args=(mutant, folder, sender))
        child.start()
        sender.close()
        try:
            test = receiver.recv() if receiver.poll(_LIMIT) else "no end"
        except EOFError:
            test = "end of the process"
        child.kill()
        child.join()
    seconds = round(time.monotonic() - start, 1)
    return {"fate": "killed" if test else "survived", "test": test, "seconds": seconds}
