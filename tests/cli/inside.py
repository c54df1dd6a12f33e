"""The command line within this process: as quick as a function, for tests that start no other."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from typer.testing import CliRunner, Result

from scstream.cli.main import app
from scstream.cli.secrets import SecretRedactor
from tests.cli.shell import PIPELINE, environment, write_rows


@contextlib.contextmanager
def within(folder: Path, **more: str) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        with patch.dict(os.environ, environment(**more), clear=True):
            yield
    finally:
        os.chdir(before)


def inside(*arguments: object, folder: Path, charset: str = "utf-8", **more: str) -> Result:
    """Run a command to its end."""
    with within(folder, **more):
        return CliRunner(charset).invoke(app, list(map(str, arguments)), obj=SecretRedactor())


def sound(*arguments: object, folder: Path, **more: str) -> str:
    """Run a command that must not fail; return what it printed."""
    done = inside(*arguments, folder=folder, **more)
    assert done.exit_code == 0, (done.output, done.exception)
    return done.stdout


def json_output(*arguments: object, folder: Path, **more: str) -> Any:
    """Run a command with --json; return what it printed, which must be JSON to the letter."""
    text = sound(*arguments, "--json", folder=folder, **more)
    assert text.count("\n") == 1
    return json.loads(text, parse_constant=_refuse)


def _refuse(word: str) -> None:
    raise AssertionError(f"{word} is not JSON")


def refused(*arguments: object, folder: Path, code: int = 2, **more: str) -> str:
    """Run a command that must fail; return the one sentence that it says."""
    done = inside(*arguments, folder=folder, **more)
    assert done.exit_code == code, (done.exit_code, done.output, done.exception)
    detail = done.stderr.splitlines()[-1]
    assert detail.startswith("scstream: "), done.stderr
    assert "Traceback" not in done.stderr
    return detail.removeprefix("scstream: ")


def fitted_folder(folder: Path) -> Path:
    """A folder with rows, a pipeline and a model of these rows."""
    write_rows(folder / "rows.csv", 2050)
    (folder / "pipeline.toml").write_text(PIPELINE)
    sound("fit", "rows.csv", "--model", "m.scstream", "--batch-rows", 100, folder=folder)
    return folder


def rows_of(path: Path) -> np.ndarray:  # (N, D)
    """Features of a file that `write_rows` wrote."""
    return np.loadtxt(path, delimiter=",", skiprows=1, usecols=(1, 2))
