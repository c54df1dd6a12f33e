"""The compose file without containers: its commands and settings, on the loopback, for real.

A broker, rows, `scstream run`, `scstream serve` and Debian's Prometheus, started by the command
lines of deploy/compose.yaml and the settings of deploy/prometheus, with other ports and paths.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest

from tests.deploy.shipped import ALERTS, DEPLOY, RECORDS, compose
from tests.servers import NatsServer, Server, free_port, program

N_ROWS = 6000
TOKEN = "not-a-secret"
PATIENCE = 300.0  # seconds, also on a busy machine
SERVICES = compose()["services"]


class Prometheus(Server):
    """Debian's Prometheus with the shipped rules."""

    name = "prometheus"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path: str) -> Any:
        with urlopen(f"{self.url}/api/v1/{path}", timeout=10) as answer:
            told = json.load(answer)
        assert told["status"] == "success"
        return told["data"]

    def value(self, query: str) -> float | None:
        """The one value of a query; None if there is none."""
        found = self.ask(f"query?query={quote(query)}")["result"]
        assert len(found) <= 1, (query, found)
        return float(found[0]["value"][1]) if found else None

    def _command(self) -> list[str]:
        return [
            program("prometheus", "apt install prometheus"),
            f"--config.file={self.folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.storage}",
            f"--web.listen-address=127.0.0.1:{self.port}",
        ]

    def _answers(self) -> bool:
        try:
            with urlopen(f"{self.url}/-/ready", timeout=2) as answer:
                return bool(answer.status == 200)
        except URLError:
            return False


@dataclass
class Together:
    prometheus: Prometheus
    run: subprocess.Popen[bytes]
    log: Path
    service: str

    def wait_for(self, query: str, reached: Callable[[float], bool]) -> float:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            value = self.prometheus.value(query)
            if value is not None and reached(value):
                return value
            assert self.run.poll() is None, self.logs()
            time.sleep(0.1)
        raise AssertionError(f"{query} is {value}; {self.logs()}")

    def logs(self) -> str:
        return "\n".join(f"{p.name}:\n{p.read_text()}" for p in self.log.parent.glob("*.log"))


def replaced(command: list[str], **words: str) -> list[str]:
    """A command of the compose file with other words; every one of them must be there."""
    named = {old.replace("__", "/"): new for old, new in words.items()}
    assert set(named) <= set(command), command
    return [named.get(word, word) for word in command]


def settings(folder: Path, targets: dict[str, str]) -> None:
    """The shipped settings of Prometheus, which looks sooner and elsewhere."""
    shipped = DEPLOY / "prometheus"
    text = (shipped / "prometheus.yml").read_text()
    changes = {r"_interval: 15s": "_interval: 200ms", "/run/secrets/token": str(folder / "token")}
    for old, new in (changes | targets).items():
        text, n_places = re.subn(re.escape(old), new, text)
        assert n_places, old
    (folder / "prometheus.yml").write_text(text)
    rules = (shipped / "rules.yml").read_text().replace("interval: 15s", "interval: 200ms")
    (folder / "rules.yml").write_text(rules)
    (folder / "token").write_text(TOKEN + "\n")


@pytest.fixture
def together(tmp_path: Path) -> Iterator[Together]:
    folder = tmp_path
    metrics_port, http_port = free_port(), free_port()
    with ExitStack() as stack:
        broker = stack.enter_context(NatsServer(folder / "broker"))
        kept = {k: v for k, v in os.environ.items() if not k.startswith("SCSTREAM_")}
        # A checkpoint a second, so that the service has something to follow at once.
        given = {"NATS_URL": broker.url, "SCSTREAM_CHECKPOINT__SECONDS": "1"}
        environment = kept | given | {"OPENBLAS_NUM_THREADS": "1"}

        def start(name: str, *command: str) -> subprocess.Popen[bytes]:
            file = stack.enter_context((folder / f"{name}.log").open("wb"))
            started = subprocess.Popen(
                [sys.executable, *command], cwd=folder, env=environment, stdout=file, stderr=file
            )
            stack.callback(started.wait, PATIENCE)
            stack.callback(started.kill)
            return started

        rows = str(DEPLOY / "compose" / "rows.py")
        assert start("streams", rows, *SERVICES["streams"]["command"]).wait(PATIENCE) == 0
        run = start(
            "run",
            "-m",
            "scstream.cli",
            *replaced(
                SERVICES["run"]["command"],
                **{
                    "/etc/scstream/pipeline.toml": str(DEPLOY / "compose" / "pipeline.toml"),
                    "0.0.0.0:9464": f"127.0.0.1:{metrics_port}",
                },
            ),
        )
        prometheus = Prometheus(folder / "prometheus")
        prometheus.folder.mkdir()
        settings(
            prometheus.folder,
            {"run:9464": f"127.0.0.1:{metrics_port}", "serve:8765": f"127.0.0.1:{http_port}"},
        )
        stack.enter_context(prometheus)
        (folder / "checkpoints").mkdir(mode=0o700, exist_ok=True)
        start(
            "serve",
            "-m",
            "scstream.cli",
            *replaced(
                SERVICES["serve"]["command"],
                **{
                    "/var/lib/scstream/checkpoints": str(folder / "checkpoints"),
                    "0.0.0.0": "127.0.0.1",
                    "8765": str(http_port),
                    "2": "0.2",
                    "/run/secrets/token": str(prometheus.folder / "token"),
                },
            ),
        )
        both = Together(prometheus, run, folder / "run.log", f"http://127.0.0.1:{http_port}")
        both.wait_for("scstream_rows_total", lambda rows: rows == 0)  # so that rates begin there
        start("rows", rows, "--rate", "6000", "--total", str(N_ROWS))
        yield both


def test_prometheus_sees_everything_that_the_compose_file_starts(together: Together) -> None:
    """One after the other, since it takes seconds to start all of them."""
    together.wait_for("scstream_rows_total", lambda rows: rows == N_ROWS)
    check_service(together)
    check_rules(together)
    check_dashboard(together)
    check_pipeline(together)


def check_pipeline(together: Together) -> None:
    """What Prometheus shows last is what the pipeline itself says at its end."""
    names = ("rows_total", "batches_total", "clusters", "rejected_rows_total")
    shown = {name: together.prometheus.value(f"scstream_{name}") for name in names}
    assert together.prometheus.value('up{job="scstream-run"}') == 1
    assert together.prometheus.value("scstream_lag_messages") == 0
    assert together.prometheus.value("scstream_checkpoint_version") is not None
    memory = together.prometheus.value('process_resident_memory_bytes{job="scstream-run"}')
    assert memory is not None and memory > 1e7
    learned = 'scstream_phase_seconds_count{phase="learn"}'
    assert together.prometheus.value(learned) == shown["batches_total"]
    stopped = the_end_of(together)
    assert shown == {
        "rows_total": stopped["rows"],
        "batches_total": stopped["batches"],
        "clusters": stopped["clusters"],
        "rejected_rows_total": stopped["rejected"],
    }
    assert stopped["rejected"] > 0, "the generator makes some bad rows"


def check_service(together: Together) -> None:
    """The service is scraped with its token, and what it answers is counted."""
    together.wait_for('up{job="scstream-serve"}', lambda up: up == 1)
    together.wait_for("scstream_model_version", lambda version: version >= 1)
    body = json.dumps({"rows": [[0.0, 0.0, 0.0], [500.0, 500.0, 500.0]]}).encode()
    heads = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    for _ in range(3):
        with urlopen(Request(f"{together.service}/predict", data=body, headers=heads)) as answer:
            assert answer.status == 200
    query = 'scstream_requests_total{route="/predict",status="2xx"}'
    assert together.wait_for(query, lambda n_requests: n_requests >= 3) == 3
    assert together.prometheus.value("scstream_predicted_rows_total") == 6
    assert together.prometheus.value("scstream_predicted_novel_rows_total") == 3
    assert together.prometheus.value("scstream_model_clusters") is not None


def check_rules(together: Together) -> None:
    """All rules are loaded and healthy, and none fires."""
    end = time.monotonic() + PATIENCE
    health: set[str] = set()
    while health != {"ok"} and time.monotonic() < end:
        groups = together.prometheus.ask("rules")["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        health = {rule["health"] for rule in rules}
        assert "err" not in health, [rule for rule in rules if rule["health"] == "err"]
        time.sleep(0.1)
    assert health == {"ok"}
    assert {rule["name"] for rule in rules} == set(ALERTS) | set(RECORDS)
    assert not [rule["name"] for rule in rules if rule.get("state") == "firing"]


def check_dashboard(together: Together) -> None:
    """Every query of the dashboard is understood, and shows something; rates need a few looks."""
    for name in ("scstream_rows_total", 'scstream_request_seconds_count{route="/predict"}'):
        together.wait_for(f"count_over_time({name}[1m])", lambda n_looks: n_looks >= 4)
    together.wait_for("scstream:novel:share10m", lambda share: share >= 0)
    dashboard = json.loads((DEPLOY / "grafana" / "dashboards" / "scstream.json").read_text())
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    end, empty = time.monotonic() + PATIENCE, empty_panels(together, panels)
    while empty > {"Firing alerts"} and time.monotonic() < end:  # checkpoints come later than rows
        time.sleep(0.5)
        empty = empty_panels(together, panels)
    assert empty == {"Firing alerts"}


def empty_panels(together: Together, panels: list[dict[str, Any]]) -> set[str]:
    """Return the titles of the panels that have a query without a result."""
    empty = set()
    for panel in panels:
        for target in panel["targets"]:
            query = re.sub(r"\$(pipeline|instance)", ".*", target["expr"])
            query = query.replace("$__rate_interval", "1m")
            if not together.prometheus.ask(f"query?query={quote(query)}")["result"]:
                empty.add(panel["title"])
    return empty


def the_end_of(together: Together) -> dict[str, Any]:
    """The last line of the pipeline's own log, after an orderly end."""
    together.run.send_signal(signal.SIGTERM)
    assert together.run.wait(PATIENCE) == 0, together.logs()
    lines = [json.loads(line) for line in together.log.read_text().splitlines()]
    last: dict[str, Any] = lines[-1]
    assert last["event"] == "stopped"
    return last
