"""What importing scstream may load: each check runs in a fresh interpreter."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import scstream

HEAVY = {
    "matplotlib",
    "narwhals",
    "pandas",
    "polars",
    "pyarrow",
    "river",
    "safetensors",
    "sklearn",
}

REPORT = "import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"


@cache
def loaded_by(module: str) -> frozenset[str]:
    source = str(Path(scstream.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", REPORT.format(module=module)],
        env=os.environ | {"PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=True,
    )
    return frozenset(json.loads(done.stdout))


@pytest.mark.parametrize(
    "module",
    [
        "scstream",
        "scstream.errors",
        "scstream.families",
        "scstream.core",
        "scstream.datasets",
        "scstream.metrics",
    ],
)
def test_nothing_heavy_is_loaded(module: str) -> None:
    assert loaded_by(module) & HEAVY == set()


def test_modules_are_there_after_importing_the_package() -> None:
    program = "scstream; assert scstream.datasets.drifting_gaussians; scstream.metrics"
    assert loaded_by(program) & HEAVY == set()
    assert "scstream.datasets" in loaded_by(program)


@pytest.mark.parametrize(
    "module",
    [
        "scstream.model",
        "scstream.stream.config",
        pytest.param("scstream.cli.main", marks=pytest.mark.needs_extra),
    ],
)
def test_a_service_loads_what_it_needs(module: str) -> None:
    assert loaded_by(module) & (HEAVY - {"safetensors"}) == set()


def test_importing_the_package_imports_none_of_its_parts() -> None:
    parts = {name for name in loaded_by("scstream") if name.startswith("scstream.")}
    assert parts & {"scstream.estimator", "scstream.river", "scstream.io", "scstream.core"} == set()


@pytest.mark.parametrize(
    "package",
    ["datasets", "metrics", pytest.param("plot", marks=pytest.mark.needs_extra)],
)
def test_a_package_is_loaded_when_it_is_first_used(package: str) -> None:
    assert f"scstream.{package}" not in loaded_by("scstream")
    code = f"import scstream; assert scstream.{package}.__name__ == 'scstream.{package}'"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert package in dir(scstream)


def test_the_check_can_fail() -> None:
    assert "sklearn" in loaded_by("sklearn")
