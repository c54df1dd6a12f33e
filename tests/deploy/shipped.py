"""What is in deploy/, read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from scstream.observe.events import BatchLearned, CheckpointWritten, StandingBy
from scstream.observe.prometheus import Metrics

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
NAME = re.compile(r"\b(?:scstream|process)_[a-z0-9_]+\b|\bscstream:[a-z0-9_:]+|\bup\b|\bALERTS\b")
TEXT = re.compile(r'"[^"]*"')
RULES = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text())
ALERTS = {
    rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"] if "alert" in rule
}
RECORDS = {
    rule["record"]: rule for group in RULES["groups"] for rule in group["rules"] if "record" in rule
}


def names_in(query: str) -> set[str]:
    """Names of metrics in a query, and not those inside of quotes."""
    return set(NAME.findall(TEXT.sub('""', query)))


def known_names() -> set[str]:
    """Every name that a query may use: of scstream, of the process, of rules and of Prometheus."""
    metrics = Metrics(lag=lambda: 1, max_clusters=10)
    metrics.emit(
        BatchLearned(
            batch=0,
            rows=9,
            rejected=1,
            clusters=2,
            novel=1,
            log_density=-1.0,
            waiting=0,
            time=1.0,
        )
    )
    metrics.emit(StandingBy("process 7 on alpha", 3, 10.0))
    metrics.connections = lambda: {"source": True, "labels": True}
    metrics.emit(CheckpointWritten(batch=1, version=1, time=1.0, bytes=1))
    metrics.request("/predict", 200, seconds=0.1)
    metrics.model(1, 1, at=1.0, clusters=2)
    metrics.shares([1.0])
    lines = metrics.exposition()[0].decode().splitlines()
    shown = {re.split(r"[ {]", line, maxsplit=1)[0] for line in lines if line[:1] != "#"}
    return shown | set(RECORDS) | {"up", "ALERTS"}


def documents(path: Path) -> Iterator[dict[str, Any]]:
    yield from yaml.safe_load_all(path.read_text())


def compose() -> dict[str, Any]:
    """The compose file with its anchors resolved."""
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return found
