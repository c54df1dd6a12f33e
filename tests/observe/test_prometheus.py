"""Metrics: what is announced is shown, and nothing that comes makes series without end."""

import socket
import threading
import time
from dataclasses import replace
from http.client import HTTPConnection
from math import nan
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from scstream.core.state import Kind
from scstream.errors import InputError
from scstream.observe.catalogue import EVENTS, METRICS, PHASES, RANKS, ROUTES
from scstream.observe.events import (
    AlertRaised,
    BatchLearned,
    CheckpointDamaged,
    CheckpointWritten,
    EditApplied,
    EditRefused,
    GapAccepted,
    RunEvent,
    StandingBy,
    Started,
    WarningLogged,
)
from scstream.observe.prometheus import Metrics, serve_metrics
from scstream.stream.config import build

BATCH = BatchLearned(
    batch=4,
    rows=100,
    rejected=3,
    clusters=7,
    novel=5,
    screening_error=1e-4,
    log_density=-2.5,
    events={"born": 2, "merged": 1},
    waiting=11,
    seconds={"wait": 0.5, "learn": 0.02, "deliver": 0.001},
    time=1.7e9,
)
CHECKPOINT = CheckpointWritten(
    batch=5,
    version=9,
    time=1.7e9 + 2,
    bytes=4096,
    seconds={"flush": 0.1, "publish": 0.2, "prune": 0.3},
)


def samples(metrics: Metrics) -> dict[str, float]:
    """Every series by its name and labels, as Prometheus would write it."""
    text = metrics.exposition()[0].decode()
    found = {}
    for family in text_string_to_metric_families(text):
        for name, labels, value, *_ in family.samples:
            inside = ",".join(f"{key}={labels[key]}" for key in sorted(labels))
            found[f"{name}{{{inside}}}" if inside else name] = value
    return found


def own(metrics: Metrics) -> dict[str, float]:
    return {name: value for name, value in samples(metrics).items() if name.startswith("scstream_")}


def test_a_batch_and_a_checkpoint_are_counted() -> None:
    metrics = Metrics(max_clusters=1000)
    metrics.emit(Started(1, 4, "demo"))
    metrics.emit(BATCH)
    metrics.emit(replace(BATCH, log_density=nan, novel=0, time=1.7e9 + 1))
    metrics.emit(CHECKPOINT)
    metrics.emit(AlertRaised(4, "novelty", 0.4, "look"))
    metrics.emit(GapAccepted("the source lost 7 messages"))
    metrics.emit(CheckpointDamaged("version-3", "checksum"))
    shown = own(metrics)
    expected = {
        "scstream_batches_total": 2,
        "scstream_rows_total": 200,
        "scstream_rejected_rows_total": 6,
        "scstream_novel_rows_total": 5,
        "scstream_clusters": 7,
        "scstream_max_clusters": 1000,
        "scstream_events_total{kind=born}": 4,
        "scstream_events_total{kind=merged}": 2,
        "scstream_events_total{kind=died}": 0,
        "scstream_mean_log_density": -2.5,
        "scstream_buffered_rows": 11,
        "scstream_last_batch_timestamp_seconds": 1.7e9 + 1,
        "scstream_checkpoint_timestamp_seconds": 1.7e9 + 2,
        "scstream_checkpoint_bytes": 4096,
        "scstream_checkpoint_version": 9,
        "scstream_alerts_total{kind=novelty}": 1,
        "scstream_source_gaps_total": 1,
        "scstream_damaged_checkpoints_total": 1,
        "scstream_phase_seconds_count{phase=learn}": 2,
        "scstream_phase_seconds_sum{phase=wait}": 1.0,
        "scstream_phase_seconds_sum{phase=prune}": 0.3,
    }
    assert {name: shown[name] for name in expected} == pytest.approx(expected)


def test_counters_start_at_zero_and_unknown_values_are_absent() -> None:
    metrics = Metrics()
    assert {name.partition("{")[0] for name in own(metrics)} == {"scstream_info"}
    metrics.emit(Started(1, 0, "demo"))
    shown = own(metrics)
    zeros = {name for name, value in shown.items() if value == 0}
    assert {f"scstream_events_total{{kind={kind}}}" for kind in EVENTS} <= zeros
    assert {f"scstream_phase_seconds_count{{phase={phase}}}" for phase in PHASES} <= zeros
    assert {"scstream_batches_total", "scstream_source_gaps_total"} <= zeros
    gauges = {metric.name for metric in METRICS if metric.kind == "gauge"} - {"scstream_info"}
    assert not {name.partition("{")[0] for name in shown} & gauges
    assert not any("request" in name or "model" in name for name in shown)


def test_events_are_those_of_the_model() -> None:
    edits = {"named", "pinned", "unpinned", "moved", "group_named", "grouped", "ungrouped"}
    assert {*EVENTS} | edits == {*Kind.__args__}  # type: ignore[attr-defined]
    assert not {*EVENTS} & edits


def test_process_metrics_are_exported_and_created_series_are_not() -> None:
    metrics = Metrics()
    metrics.emit(BATCH)
    shown = samples(metrics)
    assert shown["process_resident_memory_bytes"] > 1e6
    assert shown["process_open_fds"] > 0
    assert not any("_created" in name for name in shown)


def test_a_custom_registry_is_used() -> None:
    theirs = CollectorRegistry()
    metrics = Metrics(registry=theirs)
    metrics.emit(BATCH)
    Metrics().emit(BATCH)
    assert theirs.get_sample_value("scstream_rows_total") == 100
    assert theirs.get_sample_value("process_open_fds") is None


def test_requests_of_the_service_are_counted() -> None:
    metrics = Metrics()
    metrics.model(7, 300, at=1.7e9, clusters=12)
    metrics.request("/predict", 200, seconds=0.004, rows=100, novel=3)
    metrics.request("/predict", 422, seconds=0.001)
    metrics.request("/clusters/{id}", 404, seconds=0.001)
    shown = own(metrics)
    expected = {
        "scstream_requests_total{route=/predict,status=2xx}": 1,
        "scstream_requests_total{route=/predict,status=4xx}": 1,
        "scstream_requests_total{route=/predict,status=5xx}": 0,
        "scstream_requests_total{route=/clusters/{id},status=4xx}": 1,
        "scstream_request_seconds_count{route=/predict}": 2,
        "scstream_predicted_rows_total": 100,
        "scstream_predicted_novel_rows_total": 3,
        "scstream_model_version": 7,
        "scstream_model_batch": 300,
        "scstream_model_timestamp_seconds": 1.7e9,
        "scstream_model_clusters": 12,
        "scstream_damaged_checkpoints_total": 0,
    }
    assert {name: shown[name] for name in expected} == pytest.approx(expected)
    assert "scstream_batches_total" not in shown


def test_shares_are_by_rank_and_missing_ranks_are_absent() -> None:
    metrics = Metrics()
    shares = np.random.default_rng(0).permutation(np.arange(1.0, 101.0)) / 5050
    metrics.shares(shares)
    shown = {name: v for name, v in own(metrics).items() if "share" in name}
    wanted = {f"scstream_cluster_share{{rank={k}}}": (101 - int(k)) / 5050 for k in RANKS}
    assert shown == pytest.approx(wanted)
    metrics.shares([0.25, 0.75])
    assert {name: v for name, v in own(metrics).items() if "share" in name} == {
        "scstream_cluster_share{rank=1}": 0.75,
        "scstream_cluster_share{rank=2}": 0.25,
    }
    metrics.shares([])
    assert not any("share" in name for name in own(metrics))


HOSTILE = st.one_of(st.text(), st.integers(), st.none(), st.binary())


def test_hostile_values_do_not_create_series() -> None:
    metrics = Metrics(lag=lambda: 1, max_clusters=10)
    rng = np.random.default_rng(0)

    @given(HOSTILE, st.text(), st.integers(min_value=-(10**6), max_value=10**6))
    def feed(value: Any, text: str, number: int) -> None:
        more = {"events": {value: 1, text: 2}, "seconds": {value: 0.1, text: 0.2}}
        metrics.emit(replace(BATCH, **more))
        metrics.emit(replace(CHECKPOINT, seconds={text: 1.0}))
        metrics.emit(AlertRaised(0, value, 1.0, text))
        metrics.emit(WarningLogged(text))
        metrics.request(text, number, seconds=0.1, rows=1)
        metrics.request(f"/clusters/{number}", 200, seconds=0.1)
        metrics.shares(rng.random(abs(number) % 1000))

    feed()
    for route in (*ROUTES, "elsewhere"):
        for status in range(100, 1000, 100):
            metrics.request(route, status, seconds=0.1)
    shown = own(metrics)
    assert any("kind=other" in name for name in shown)
    # All series there can be: counted from the catalogue, each label with one value for the rest.
    most = 0
    for metric in METRICS:
        values = [len(known) + 1 for known in metric.labels.values() if known]
        most += int(np.prod(values)) * (len(metric.buckets) + 3 if metric.buckets else 1)
    assert len(shown) <= most < 600


def test_every_metric_that_is_shown_is_in_the_catalogue() -> None:
    metrics = Metrics(lag=lambda: 3, max_clusters=10)
    metrics.emit(replace(BATCH, keys=3, over_quota={"max_rows": 5}))
    metrics.emit(CHECKPOINT)
    metrics.model(7, 300, at=1.7e9, clusters=12)
    metrics.request("/predict", 200, seconds=0.004)
    metrics.shares([1.0], {"billing": 0.5})
    metrics.emit(StandingBy("process 7 on alpha", 3, 10.0))
    metrics.heartbeat_age = lambda: 2.0
    metrics.key_lookups = lambda: (3, 1, 40_000)
    metrics.connections = lambda: {"source": True, "labels": False}
    text = metrics.exposition()[0].decode()
    shown = {
        line.split()[2]: line.split()[3] for line in text.splitlines() if line.startswith("# TYPE")
    }
    listed = {metric.name: metric.kind for metric in METRICS}
    assert {name: kind for name, kind in shown.items() if name.startswith("scstream_")} == listed


def test_counts_are_exact_with_many_threads() -> None:
    metrics = Metrics()

    def emit() -> None:
        for _ in range(200):
            metrics.emit(BATCH)
            metrics.request("/predict", 200, seconds=0.001, rows=2)

    threads = [threading.Thread(target=emit) for _ in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        metrics.exposition()
    shown = own(metrics)
    assert shown["scstream_rows_total"] == 8 * 200 * 100
    assert shown["scstream_predicted_rows_total"] == 8 * 200 * 2


class TestLag:
    def test_it_is_asked_at_most_once_per_second(self) -> None:
        asked = []
        metrics = Metrics(lag=lambda: len(asked.append(None) or asked))  # type: ignore[func-returns-value]
        shown = [own(metrics)["scstream_lag_messages"] for _ in range(20)]
        assert len(asked) == 1
        assert shown == [1.0] * 20

    def test_it_is_absent_where_nobody_knows(self) -> None:
        def broken() -> int:
            raise ConnectionError("the broker is away")

        for lag in (None, lambda: None, broken):
            assert "scstream_lag_messages" not in own(Metrics(lag=lag))

    def test_it_may_be_known_later(self) -> None:
        metrics = Metrics()
        metrics.lag = lambda: 5
        assert own(metrics)["scstream_lag_messages"] == 5

    def test_a_source_that_hangs_does_not_hold_a_scrape(self) -> None:
        release, asked = threading.Event(), []

        def hang() -> int:
            asked.append(None)
            release.wait(30)
            return 1

        metrics = Metrics(lag=hang)
        try:
            began = time.monotonic()
            shown = own(metrics)
            assert time.monotonic() - began < 1.0
            assert "scstream_lag_messages" not in shown
            own(metrics)
            assert len(asked) == 1, "one question at a time"
        finally:
            release.set()

    def test_an_old_answer_is_not_shown_for_ever(self, monkeypatch: pytest.MonkeyPatch) -> None:
        now = [100.0]
        release = threading.Event()
        metrics = Metrics(lag=lambda: 5)
        monkeypatch.setattr("scstream.observe.prometheus.time.monotonic", lambda: now[0])
        assert own(metrics)["scstream_lag_messages"] == 5
        metrics.lag = lambda: release.wait(30) and None
        try:
            now[0] += 5.0
            assert own(metrics)["scstream_lag_messages"] == 5
            now[0] += 10.0
            assert "scstream_lag_messages" not in own(metrics)
        finally:
            release.set()


class TestServer:
    def test_it_serves_metrics(self) -> None:
        with serve_metrics(Metrics(), port=0) as server:
            with urlopen(server.url) as response:
                assert b"scstream_info{" in response.read()
                assert response.headers["Content-Type"].startswith("text/plain; version=")
            for method in ("POST", "PUT", "DELETE"):
                assert status_of(server.port, method, "/metrics") == 405, method

    def test_it_listens_on_the_loopback_unless_told_otherwise(self) -> None:
        with serve_metrics(Metrics(), port=0) as server:
            assert server.host == "127.0.0.1"
            with pytest.raises(OSError, match="refused"):
                socket.create_connection(("127.0.0.2", server.port), timeout=1)

    def test_a_port_in_use_is_reported(self) -> None:
        with serve_metrics(Metrics(), port=0) as server:
            message = r"cannot be served at 127\.0\.0\.1:\d+: Address already in use"
            with pytest.raises(InputError, match=message):
                serve_metrics(Metrics(), "127.0.0.1", server.port)
        with pytest.raises(InputError, match="choose another port"):
            serve_metrics(Metrics(), "127.0.0.1", 70000)
        with serve_metrics(Metrics(), "127.0.0.1", server.port) as again:
            assert again.port == server.port, "a closed server frees its port"

    def test_silent_clients_do_not_stop_it(self) -> None:
        with serve_metrics(Metrics(), port=0) as server:
            silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(24)]
            with urlopen(server.url, timeout=5) as response:
                assert response.status == 200
            for each in silent:
                each.close()


def status_of(port: int, method: str, path: str) -> int:
    client = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        client.request(method, path)
        return client.getresponse().status
    finally:
        client.close()


def test_events_of_a_pipeline_fit(tmp_path: Any) -> None:
    """A real pipeline and its own counts; the kinds and values are those of the runner."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 2)) + 8.0 * rng.integers(0, 2, size=(500, 1))
    lines = [f"{x:.3f},{y:.3f}\n" for x, y in rows]
    lines[123] = "n/a,1\n"
    (tmp_path / "rows.csv").write_text("x,y\n" + "".join(lines))
    heard: list[RunEvent] = []
    metrics = Metrics()

    def emit(event: RunEvent) -> None:
        heard.append(event)
        metrics.emit(event)

    pipeline = build(
        {
            "source": {"kind": "file", "path": str(tmp_path / "rows.csv")},
            "checkpoint": {"folder": str(tmp_path / "state"), "batches": 2},
            "batch": {"rows": 100},
        },
        emit=emit,
    )
    metrics.lag = pipeline.source.lag
    assert pipeline.run() == 5
    shown = own(metrics)
    batches = [event for event in heard if isinstance(event, BatchLearned)]
    last = [event for event in heard if isinstance(event, CheckpointWritten)][-1]
    assert shown["scstream_rows_total"] == 500
    assert shown["scstream_rejected_rows_total"] == 1
    assert shown["scstream_novel_rows_total"] == sum(each.novel for each in batches)
    assert shown["scstream_clusters"] == batches[-1].clusters
    assert shown["scstream_events_total{kind=born}"] == sum(
        each.events.get("born", 0) for each in batches
    )
    assert shown["scstream_checkpoint_version"] == last.version
    assert shown["scstream_phase_seconds_count{phase=learn}"] == 5
    assert not any("other" in name for name in shown)


def test_names_of_clusters_are_labels_of_at_most_twenty() -> None:
    metrics = Metrics()
    metrics.shares([1.0], {f"topic {k}": k / 5050 for k in range(1, 101)})
    shown = [name for name in own(metrics) if "named" in name]
    assert len(shown) == 20
    assert "scstream_named_cluster_share{name=topic 100}" in shown
    metrics.shares([1.0], {"billing": 0.5})
    assert [name for name in own(metrics) if "named" in name] == [
        "scstream_named_cluster_share{name=billing}"
    ]
    metrics.shares([1.0])
    assert not [name for name in own(metrics) if "named" in name]


def test_edits_are_counted() -> None:
    metrics = Metrics()
    metrics.emit(EditApplied(0, 3, "name", "ana", 0.0))
    metrics.emit(EditRefused(1, 3))
    shown = own(metrics)
    assert shown["scstream_edits_total{result=applied}"] == 1
    assert shown["scstream_edits_total{result=refused}"] == 1
