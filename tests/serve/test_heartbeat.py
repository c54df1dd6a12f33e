"""Readiness by heartbeat: an idle pipeline is ready, a dead one is not."""

from dataclasses import replace
from pathlib import Path

import pytest

from scstream.observe.events import LeaseAcquired, StandingBy
from scstream.observe.prometheus import Metrics
from scstream.serve.app import create_app
from scstream.serve.settings import ServiceSettings
from scstream.stream.clock import ManualClock
from scstream.stream.config import build
from scstream.stream.follower import Follower
from scstream.stream.lease import LEASE, LeaseRecord
from scstream.stream.store import FolderStore, Store
from tests.serve.subjects import Client

STALE = 30.0


def idle_store(folder: Path, **checkpoint: str) -> Store:
    """Checkpoints of a pipeline that has read all rows."""
    (folder / "rows.jsonl").write_text(
        "".join(f'{{"x": {i % 7}, "y": {i % 3}}}\n' for i in range(50))
    )
    build(
        {
            "source": {"kind": "file", "path": str(folder / "rows.jsonl")},
            "checkpoint": {"folder": str(folder / "state"), **checkpoint},
        }
    ).run()
    return FolderStore(folder / "state")


def renew(store: Store) -> None:
    content, revision = store.read(LEASE)
    record = LeaseRecord.from_json(content)
    record = replace(record, holder="process 7 on alpha", renewals=record.renewals + 1)
    assert store.replace(LEASE, record.to_json(), revision=revision) is not None


def shown(metrics: Metrics, name: str) -> list[str]:
    lines = metrics.exposition()[0].decode().splitlines()
    return [line.split()[1] for line in lines if line.startswith(name)]


def test_an_idle_pipeline_is_ready_and_a_dead_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, clock, metrics = idle_store(tmp_path, lease="10s"), ManualClock(), Metrics()
    follower = Follower(store, clock=clock)
    service = create_app(follower, ServiceSettings(stale=STALE), metrics=metrics)
    service.state.service.begin()
    client = Client(service)
    monkeypatch.setattr("time.time", lambda: 1e11)  # no checkpoint for centuries
    assert "sign of life" in client.get("/readyz").json()["detail"]  # it may be dead
    assert not shown(metrics, "scstream_heartbeat_age_seconds")
    for _ in range(9):
        renew(store)
        follower.refresh()
        assert client.get("/readyz").status_code == 200
        clock.sleep(STALE - 1.0)
        follower.refresh()
        assert client.get("/readyz").status_code == 200
        assert shown(metrics, "scstream_heartbeat_age_seconds") == ["29.0"]
    clock.sleep(1.5)
    follower.refresh()
    answer = client.get("/readyz")
    assert answer.status_code == 503 and "sign of life" in answer.json()["detail"]


def test_without_a_lease_the_age_of_the_checkpoint_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = Follower(idle_store(tmp_path))
    assert follower.heartbeat_age is None
    client = Client(create_app(follower, ServiceSettings(stale=STALE)))
    assert client.get("/readyz").status_code == 200
    monkeypatch.setattr("time.time", lambda: 1e11)
    assert "s old" in client.get("/readyz").json()["detail"]


def test_the_metric_tells_who_has_the_lease() -> None:
    metrics = Metrics()
    assert not shown(metrics, "scstream_lease_held")
    metrics.emit(StandingBy("process 7 on alpha", 3, 10.0))
    assert shown(metrics, "scstream_lease_held") == ["0.0"]
    metrics.emit(LeaseAcquired(4, "process 8 on beta", 12.0))
    assert shown(metrics, "scstream_lease_held") == ["1.0"]
