"""The command line starts fast: what a command does not need is not loaded."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from scstream import __version__
from scstream.cli.main import app
from scstream.cli.secrets import SecretRedactor

HEAVY = {
    "numpy",
    "scipy",
    "sklearn",
    "pandas",
    "pyarrow",
    "rich",
    "scstream.estimator",
}
REPORT = """
import json, sys
from scstream.cli.main import run_app
try:
    run_app({arguments!r})
except SystemExit as end:
    print(json.dumps([end.code, sorted(sys.modules)]))
"""


def loaded_by(*arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", REPORT.format(arguments=list(arguments))],
        capture_output=True,
        text=True,
        check=True,
    )
    code, modules = json.loads(done.stdout.splitlines()[-1])
    assert code == 0
    return set(modules)


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["--version"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    assert loaded_by(*arguments) & HEAVY == set()


def test_the_doctor_does_not_load_scikit_learn(tmp_path) -> None:
    loaded = loaded_by("doctor", "--checkpoint", str(tmp_path))
    assert "numpy" in loaded
    assert loaded & {"sklearn", "pandas", "polars", "matplotlib", "scstream.estimator"} == set()


def test_the_version() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert done.output == f"scstream {__version__}\n"


@pytest.mark.parametrize("command", ["run", "doctor", "replay", "savepoint", "checkpoints"])
def test_every_command_has_help_and_json(command: str) -> None:
    done = CliRunner().invoke(app, [command, "--help"], obj=SecretRedactor())
    assert done.exit_code == 0
    assert "--json" in done.output
    assert "--checkpoint" in done.output


def test_the_help_of_run_says_what_happens_to_a_folder_with_checkpoints() -> None:
    text = " ".join(CliRunner().invoke(app, ["run", "--help"]).output.split())
    assert "A folder that holds checkpoints is refused without --resume" in text
