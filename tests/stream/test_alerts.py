"""Alerts of whole pipelines: where they arrive, what a crash, a replay or other rules change."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scstream.cli.checkpoints import create_savepoint
from scstream.cli.replay import replay_batches
from scstream.cli.resolve import flag_settings, print_settings, resolve
from scstream.cli.secrets import SecretRedactor
from scstream.errors import InputError
from scstream.observe.alerts import AlertOptions, AlertRules
from scstream.observe.drift import PageHinkley
from scstream.observe.events import AlertRaised, RunEvent
from scstream.stream.config import build
from scstream.stream.store import FolderStore, MemoryStore
from tests.cli.shell import logged, scstream
from tests.observe.test_webhook import receiving
from tests.stream.killed_alerts import JUMPS, KILLS, rows_of, settings_of

ROOT = Path(__file__).resolve().parents[2]
JUMPED = [(jump, kind) for jump in JUMPS for kind in ("log_density", "born")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With the rows of a stream that jumps twice, which two keys share."""
    lines = [json.dumps({**row, "key": f"k{i % 2}"}) for i, row in enumerate(rows_of())]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines) + "\n")
    return tmp_path


def alerts_in(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def kinds(alerts: list[dict[str, Any]]) -> list[tuple[int, str]]:
    return [(alert["batch"], alert["kind"]) for alert in alerts]


def test_alerts_reach_the_log_a_file_and_a_webhook(folder: Path) -> None:
    with receiving() as server:
        settings = settings_of(folder, "cli")
        settings["alerts"] |= {"webhook": server.url, "token": "t0ken"}
        sets = [
            word
            for section, table in settings.items()
            for name, value in (table.items() if isinstance(table, dict) else [])
            for word in ("--set", f"{section}.{name}={as_toml(value)}")
        ]
        done = scstream("run", "--job", "alarmed", *sets, "--json", folder=folder)
        assert done.returncode == 0, done.stderr
    written = alerts_in(folder / "cli.jsonl")
    assert [each for each in kinds(written) if each[1] != "died"] == JUMPED
    lines = [line for line in logged(done.stderr) if line["event"] == "alert"]
    assert {line["level"] for line in lines} == {"warning"}
    same = ("batch", "kind", "value", "detail")
    assert [[line[name] for name in same] for line in lines] == [
        [alert[name] for name in same] for alert in written
    ]
    assert server.bodies == [{"job": "alarmed", **alert} for alert in written]
    assert "s3cret" not in done.stderr and "t0ken" not in done.stderr


def as_toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {as_toml(each)}" for name, each in value.items()) + "}"
    return json.dumps(value)


def test_alerts_reach_redis(folder: Path, redis_server, own_name: str) -> None:
    import redis

    build(settings_of(folder, "file")).run()
    settings = settings_of(folder, "redis")
    sink = {"kind": "redis", "url": redis_server.url, "stream": own_name, "format": "json"}
    settings["alerts"]["sink"] = sink
    build(settings).run()
    with redis.Redis.from_url(redis_server.url) as client:
        found = [json.loads(entry[b"row"]) for _, entry in client.xrange(own_name)]
    assert found == alerts_in(folder / "file.jsonl") != []


def test_a_pipeline_that_is_killed_gives_the_same_alerts(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.stream.killed_alerts", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["kills"] >= KILLS
    assert found["alerts"] >= len(JUMPED)
    assert found["others"] == 0


def test_keyed_models_share_the_alert_rules(folder: Path) -> None:
    settings = settings_of(folder, "keyed") | {"schema": {"features": ["x", "y"], "key": "key"}}
    settings["alerts"]["births"] = 3
    build(settings).run()
    found = [each for each in kinds(alerts_in(folder / "keyed.jsonl")) if each[1] != "died"]
    assert found == JUMPED


def test_alert_rules_may_change_between_runs(folder: Path) -> None:
    """A checkpoint takes them, and the labels are the same."""
    announced: list[str] = []

    def emit(event: RunEvent) -> None:
        if isinstance(event, AlertRaised):
            announced.append(event.kind)

    settings = settings_of(folder, "one")
    settings["sink"] = {"kind": "file", "path": str(folder / "labels.csv")}
    build(settings).run(until=JUMPS[0] + 10)
    settings["alerts"] = {"deaths": True, "quiet": 0}
    build(settings, emit=emit).run()
    assert {*announced} == {"died"}
    plain = settings_of(folder, "plain") | {"alerts": {}}
    plain["sink"] = {"kind": "file", "path": str(folder / "plain.csv")}
    build(plain).run()
    assert (folder / "labels.csv").read_bytes() == (folder / "plain.csv").read_bytes()


def test_a_custom_detector_can_be_used(folder: Path) -> None:
    pipeline = build(settings_of(folder, "own"))
    slow = PageHinkley(min_instances=5, delta=1.0, threshold=18.5, alpha=1.0, mode="down")
    pipeline.alert_rules = AlertRules(AlertOptions(log_density=slow))
    pipeline.run()
    assert kinds(alerts_in(folder / "own.jsonl"))[0] == (JUMPS[0] + 1, "log_density")


def test_a_replay_writes_no_alerts(folder: Path) -> None:
    settings = settings_of(folder, "run")
    build(settings).run(until=30)
    store = FolderStore(folder / "run-state")
    create_savepoint(store, "early")
    build(settings).run()
    path = folder / "run.jsonl"
    before = path.read_bytes(), path.stat().st_mtime_ns
    verdict = replay_batches(settings, store, start="early")
    assert (verdict.first, verdict.stop) == (30, 90)
    assert before[0] and (path.read_bytes(), path.stat().st_mtime_ns) == before


@pytest.mark.parametrize(
    ("changed", "detail"),
    [
        ({"alerts": {"novelti": 0.2}}, "alerts has no option 'novelti'"),
        ({"alerts": {"novelty": 2}}, "alerts.novelty must be a share"),
        ({"alerts": "novelty"}, "alerts must be a table"),
        ({"alerts": {"sink": "file"}}, "alerts.sink must be a table"),
        ({"alerts": {"sink": {"path": "a"}}}, "alerts.sink.kind is missing"),
        ({"alerts": {"webhook": "h/s3cret"}}, "alerts.webhook must begin with https://"),
        (
            {
                "sink": {"kind": "file", "path": "a"},
                "alerts": {"sink": {"kind": "file", "path": "a"}},
            },
            "sink and alerts.sink are the same place; give alerts a file",
        ),
        (
            {
                "dead_letters": {"kind": "file", "path": "a"},
                "alerts": {"sink": {"kind": "file", "path": "a"}},
            },
            "dead_letters and alerts.sink are the same place; give alerts a file",
        ),
    ],
)
def test_invalid_settings_are_rejected(changed: dict[str, Any], detail: str) -> None:
    with pytest.raises(InputError, match=detail) as caught:
        build({"source": {"kind": "stdin"}, **changed}, store=MemoryStore())
    assert "s3cret" not in str(caught.value)


def shown(capsys: pytest.CaptureFixture[str], *sets: str) -> tuple[dict[str, Any], str]:
    """What a dry run prints."""
    redactor = SecretRedactor()
    layer = resolve(redactor, None, flag_settings(["source.kind=stdin", *sets]))
    print_settings(layer, redactor, as_json=True)
    text = capsys.readouterr().out
    return {name: each["value"] for name, each in json.loads(text).items()}, text


def test_a_dry_run_shows_alerts_without_secrets(capsys, monkeypatch) -> None:
    monkeypatch.setenv("SCSTREAM_ALERTS__SINK__KIND", "redis")
    monkeypatch.setenv("SCSTREAM_ALERTS__SINK__URL", "redis://me:hunter2@broker:6379/0")
    monkeypatch.setenv("SCSTREAM_ALERTS__SINK__STREAM", "2026")
    found, text = shown(
        capsys,
        "alerts.novelty=0.2",
        "alerts.webhook=https://hooks.example.org/services/s3cret",
        "alerts.token=hunter3",
    )
    alerts = {name: value for name, value in found.items() if name.startswith("alerts.")}
    assert alerts["alerts.novelty"] == 0.2
    assert alerts["alerts.webhook"] == "https://hooks.example.org/***"
    assert alerts["alerts.token"] == "***"
    assert alerts["alerts.sink.url"] == "redis://***@broker:6379/0"
    assert alerts["alerts.sink.stream"] == "2026"  # text, although it looks like a number
    assert (alerts["alerts.births"], alerts["alerts.quiet"]) == (False, 10)
    assert not any(secret in text for secret in ("s3cret", "hunter"))


def test_a_dry_run_without_alerts_shows_none(capsys) -> None:
    found, _ = shown(capsys)
    assert found["alerts.sink.kind"] is None and found["alerts.webhook"] is None


def test_a_long_part_of_a_webhook_is_hidden_everywhere() -> None:
    redactor = SecretRedactor()
    redactor.collect("webhook", "https://hooks.example.org/services/T0001/s3cretS3CRETs3cret")
    assert redactor.redact("POST /services/T0001/s3cretS3CRETs3cret") == "POST /services/T0001/***"
