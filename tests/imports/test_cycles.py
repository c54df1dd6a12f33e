"""The check for import cycles finds cycles that are put into a small package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.needs_extra  # grimp, of import-linter

ROOT = Path(__file__).resolve().parents[2]

MODULE_LEVEL = {"a": "from planted import b", "b": "import planted.c", "c": "import planted.a"}
IN_FUNCTION = {"a": "def f():\n    from planted.b import g", "b": "from planted.a import f"}
FOR_TYPES = {
    "a": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from planted import b",
    "b": "from planted import a",
}


def check(folder: Path, modules: dict[str, str]) -> tuple[int, str]:
    package = folder / "planted"
    package.mkdir()
    (package / "__init__.py").touch()
    for name, text in modules.items():
        (package / f"{name}.py").write_text(text + "\n")
    command = [sys.executable, str(ROOT / ".ci" / "cycles.py"), "planted", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("modules", [MODULE_LEVEL, IN_FUNCTION], ids=["module", "function"])
def test_a_cycle_fails_the_check_and_its_modules_are_named(
    tmp_path: Path, modules: dict[str, str]
) -> None:
    code, output = check(tmp_path, modules)
    assert code == 1
    assert all(f"planted.{name}:" in output for name in modules)


@pytest.mark.parametrize("modules", [FOR_TYPES, {"a": "import planted.b", "b": ""}])
def test_imports_in_one_direction_or_only_for_types_pass(
    tmp_path: Path, modules: dict[str, str]
) -> None:
    assert check(tmp_path, modules)[0] == 0
