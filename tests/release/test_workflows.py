"""Workflows are sound, have few rights, and run what is there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.release.scripts import ROOT, script

workflows = script("workflows")
CARELESS = """\
name: Careless
on: pull_request_target
jobs:
  greet:
    runs-on: ubuntu-24.04
    steps:
      - uses: actions/checkout@v6
      - run: echo ${{ github.event.pull_request.title }}
      - run: echo ${{ github.nobody }}
"""
TRIGGER = True  # what YAML 1.1 makes of the key "on"


@pytest.fixture
def careless(tmp_path: Path) -> Path:
    path = tmp_path / ".github" / "workflows" / "careless.yml"
    path.parent.mkdir(parents=True)
    path.write_text(CARELESS)
    return path


def read(path: Path) -> dict[Any, Any]:
    content: dict[Any, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content


def jobs() -> list[Any]:
    return [
        pytest.param(name, job, id=f"{path.stem}-{name}")
        for path in workflows.files()
        for name, job in read(path)["jobs"].items()
    ]


def test_actionlint_complains_of_the_careless_one_only(careless: Path) -> None:
    (complaint,) = workflows.actionlint([*workflows.files(), careless])
    assert "nobody" in complaint
    assert all("careless.yml:" in line for line in complaint.splitlines() if ".yml:" in line)


def test_zizmor_finds_nothing() -> None:
    paths = [*workflows.files(), ROOT / ".github" / "dependabot.yml"]
    assert list(workflows.zizmor(paths)) == []


def test_zizmor_finds_a_careless_one_out(careless: Path) -> None:
    (complaint,) = workflows.zizmor([careless])
    assert {"dangerous-triggers", "template-injection", "unpinned-uses"} <= set(
        re.findall(r"[\w-]+(?=\]:)", complaint)
    )


def test_every_action_is_pinned(careless: Path) -> None:
    assert list(workflows.unpinned(workflows.files())) == []
    assert len(list(workflows.unpinned([careless]))) == 1


def test_one_action_has_one_pin() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in workflows.files())
    pins = set(re.findall(r"uses: ([\w.-]+/[\w.-]+)\S*(@.*)", text))
    assert len({action for action, _ in pins}) == len(pins)


def test_files_have_the_form_that_they_must_have() -> None:
    assert list(workflows.schemas()) == []


def test_nobody_has_rights_but_jobs() -> None:
    assert [path.name for path in workflows.files() if read(path)["permissions"] != {}] == []


def test_strangers_start_nothing_that_has_secrets() -> None:
    triggers = {trigger for path in workflows.files() for trigger in read(path)[TRIGGER]}
    assert triggers == {"push", "pull_request", "schedule", "workflow_dispatch"}


@pytest.mark.parametrize(("name", "job"), jobs())
def test_a_job_has_its_own_rights_and_an_end(name: str, job: dict[str, Any]) -> None:
    assert 0 < job["timeout-minutes"] <= 120
    writes = {right for right, level in job["permissions"].items() if level == "write"}
    assert writes == {
        "analyse": {"security-events"},
        "announce": {"contents"},
        "attest": {"attestations", "id-token"},
        "deploy": {"id-token", "pages"},
        "publish": {"id-token"},
    }.get(name, set())
    if {"contents", "id-token"} & writes and name != "deploy":
        assert job["if"] == "github.event_name == 'push' && github.ref_type == 'tag'"


def test_a_maintainer_agrees_before_anything_is_published() -> None:
    wheels = read(ROOT / ".github" / "workflows" / "wheels.yml")
    assert wheels["jobs"]["publish"]["environment"] == "release"
    assert wheels[TRIGGER]["push"] == {"tags": ["v*"]}


@pytest.mark.parametrize(("name", "job"), jobs())
def test_what_a_job_runs_is_there(name: str, job: dict[str, Any]) -> None:
    commands = " ".join(step.get("run", "") for step in job["steps"])
    named = re.findall(r"(?:\.ci|requirements)/[\w./-]+", commands)
    assert [file for file in named if not (ROOT / file).exists()] == []


def test_every_python_is_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    supported = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    tests = read(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]
    assert tests["portable"]["strategy"]["matrix"]["python"] == supported
