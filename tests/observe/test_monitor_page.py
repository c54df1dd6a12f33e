"""The pages about metrics say what is so: blocks run as written, tables are those of the code."""

import re
import sys
from pathlib import Path

from docs.make_metrics import PAGE as REFERENCE
from docs.make_metrics import page

from scstream.observe.catalogue import METRICS
from tests.deploy.shipped import ALERTS, DEPLOY
from tests.docs.blocks import blocks_of, compare, pipelines_of, read, run
from tests.servers import free_port

MONITOR = "docs/howto/monitor.md"
TEXT = read(MONITOR)
BLOCKS = blocks_of(TEXT)


def test_the_reference_is_that_of_the_code() -> None:
    same = REFERENCE.read_text(encoding="utf-8") == page()
    assert same, "there are other metrics; run python docs/make_metrics.py"
    assert all(f"| `{metric.name}` | {metric.kind} |" in page() for metric in METRICS)


def test_the_page_runs_and_prints_what_it_shows(tmp_path: Path) -> None:
    for name, content in pipelines_of(BLOCKS).items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    commands = {"python": [sys.executable, "-c"], "sh": ["bash", "-euo", "pipefail", "-c"]}
    executed = [block for block in BLOCKS if block.kind in commands]
    assert len(executed) == 5
    port = str(free_port())
    for block in executed:
        done = run([*commands[block.kind], block.code.replace("9464", port)], tmp_path)
        assert done.returncode == 0, f"line {block.line}:\n{done.stdout}\n{done.stderr}"
        compare(MONITOR, block, done.stdout)


def test_every_alert_is_listed_with_its_severity() -> None:
    listed = dict(re.findall(r"^\| `(Scstream\w+)` \| (\w+) \|", TEXT, re.MULTILINE))
    assert listed == {name: rule["labels"]["severity"] for name, rule in ALERTS.items()}


def test_settings_of_prometheus_are_those_that_are_shipped() -> None:
    (shown,) = [block.code for block in BLOCKS if block.kind == "yaml"]
    assert shown in (DEPLOY / "prometheus" / "prometheus.yml").read_text()


def test_metrics_named_on_the_page_exist() -> None:
    known = {metric.name for metric in METRICS}
    named = set(re.findall(r"`(scstream_[a-z_]+)`", TEXT))
    assert named and named <= known
