"""The committed dashboard is what the script makes, and asks for metrics that there are."""

import json
import re
import runpy
from typing import Any

import yaml

from tests.deploy.shipped import ALERTS, DEPLOY, known_names, names_in

FOLDER = DEPLOY / "grafana"
FILE = FOLDER / "dashboards" / "scstream.json"
DASHBOARD: dict[str, Any] = json.loads(FILE.read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]
CHOICES = {each["name"] for each in DASHBOARD["templating"]["list"]}


def test_the_committed_file_is_what_the_script_makes() -> None:
    script = runpy.run_path(str(FOLDER / "make_dashboard.py"))
    same = script["content"]() == FILE.read_text()
    assert same, "make it again: python deploy/grafana/make_dashboard.py"


def test_queries_ask_for_metrics_that_there_are() -> None:
    known = known_names()
    assert len(QUERIES) > 30
    for query in QUERIES:
        asked = names_in(query)
        assert asked and asked <= known, query


def test_choices_at_the_top_are_those_that_queries_use() -> None:
    used = {name for query in QUERIES for name in re.findall(r"\$(\w+)", query)}
    assert used - {"__rate_interval"} <= CHOICES
    for each in DASHBOARD["templating"]["list"]:
        if each["type"] == "query":
            assert names_in(each["query"]["query"]) == {"scstream_info"}
    assert {panel["datasource"]["uid"] for panel in PANELS} == {"$datasource"}


def test_panels_have_ids_of_their_own_lie_side_by_side_and_explain_themselves() -> None:
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    taken = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    assert all(panel["description"] for panel in PANELS if panel["type"] == "timeseries")


def test_alerts_are_found_by_their_name() -> None:
    assert all(name.startswith("Scstream") for name in ALERTS)
    assert any('alertname=~"Scstream.*"' in query for query in QUERIES)


def test_grafana_is_told_where_the_dashboard_and_the_numbers_are() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["grafana"]
    provider = yaml.safe_load((FOLDER / "provisioning/dashboards/scstream.yaml").read_text())
    source = yaml.safe_load((FOLDER / "provisioning/datasources/prometheus.yaml").read_text())
    mounted = dict(volume.split(":")[1::-1] for volume in compose["volumes"])
    folder = provider["providers"][0]["options"]["path"]
    assert mounted[folder] == "./grafana/dashboards"
    assert mounted["/etc/grafana/provisioning"] == "./grafana/provisioning"
    home = compose["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home == f"{folder}/{FILE.name}"
    assert source["datasources"][0]["url"] == "http://prometheus:9090"
