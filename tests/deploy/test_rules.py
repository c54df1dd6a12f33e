"""Prometheus's own tool reads the shipped rules and settings, and every alert is seen to fire."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.deploy.shipped import ALERTS, DEPLOY, RECORDS, RULES, known_names, names_in

FOLDER = DEPLOY / "prometheus"
CASES = yaml.safe_load((FOLDER / "rules_test.yml").read_text())["tests"]
ASKED = re.compile(r'ALERTS\{alertname="(\w+)",alertstate="firing".*\}')


def check(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_rules_are_sound(promtool: str) -> None:
    said = check(promtool, "check", "rules", "--lint-fatal", str(FOLDER / "rules.yml"))
    assert f"{len(ALERTS) + len(RECORDS)} rules found" in said


def test_every_case_of_the_rules_is_as_expected(promtool: str) -> None:
    check(promtool, "test", "rules", str(FOLDER / "rules_test.yml"))


def cases_of(alert: str) -> tuple[int, int]:
    """In how many cases an alert fires, and in how many it does not."""
    asked = [
        each
        for case in CASES
        for each in case.get("promql_expr_test", [])
        if ASKED.fullmatch(each["expr"])[1] == alert  # type: ignore[index]
    ]
    fires = sum(bool(each["exp_samples"]) for each in asked)
    return fires, len(asked) - fires


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not(alert: str) -> None:
    fires, silent = cases_of(alert)
    assert fires and silent


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_says_what_happened_what_to_do_and_whom_it_may_wake(alert: str) -> None:
    rule = ALERTS[alert]
    assert rule["labels"]["severity"] in ("page", "ticket")
    assert rule["annotations"]["summary"].endswith(".")
    assert len(rule["annotations"]["description"]) > 30


def test_rules_ask_for_metrics_that_there_are() -> None:
    known = known_names()
    for group in RULES["groups"]:
        for rule in group["rules"]:
            asked = names_in(rule["expr"])
            assert asked and asked <= known, (rule, asked - known)


@pytest.mark.parametrize("name", ["prometheus.yml", "kubernetes.yml"])
def test_settings_of_prometheus_are_sound(name: str, promtool: str, tmp_path: Path) -> None:
    """With a token where they look for one, since the tool wants to see it."""
    token = tmp_path / "token"
    token.write_text("hunter2\n")
    text, n_places = re.subn(
        r"(credentials_file:) \S+", rf"\1 {token}", (FOLDER / name).read_text()
    )
    assert n_places == 1
    (tmp_path / name).write_text(text)
    (tmp_path / "rules.yml").write_text((FOLDER / "rules.yml").read_text())
    said = check(promtool, "check", "config", str(tmp_path / name))
    assert "1 rule files found" in said
