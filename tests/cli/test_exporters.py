"""What a pipeline shows while it runs: metrics, answers and the page."""

from __future__ import annotations

import json
import signal
import socket
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from tests.cli.shell import running, scstream, write_rows


def free_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def get(url: str, body: Any = None, **headers: str) -> bytes:
    content = None if body is None else json.dumps(body).encode()
    request = Request(url, content, {"Content-Type": "application/json", **headers})
    with urlopen(request, timeout=60) as answer:
        return bytes(answer.read())


def until(condition: Any, *, seconds: float = 240.0) -> Any:
    end = time.monotonic() + seconds
    while True:
        try:
            if found := condition():
                return found
        except (URLError, ConnectionError):
            pass
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_pipeline_serves_predictions_while_it_learns(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.csv", 1000)
    metrics, service = free_address(), free_address()
    flags = ("--source", "file:rows.csv", "--set", "source.follow=true", "--set", "batch.rows=100")
    shown = ("--metrics", metrics, "--serve", service)
    token = {"Authorization": "Bearer open-sesame"}
    with running(
        "run",
        *flags,
        "--checkpoint",
        "state",
        *shown,
        folder=tmp_path,
        SCSTREAM_TOKEN="open-sesame",
    ) as run:
        until(lambda: b"scstream_rows_total 1000.0" in get(f"http://{metrics}/metrics"))
        question = {"columns": {"x": [0.0, 900.0], "y": [0.0, 900.0]}}
        answer = json.loads(get(f"http://{service}/predict", question, **token))
        assert (answer["batch"], answer["cluster"][1]) == (10, -1)
        assert b"scstream_cluster_share" in get(f"http://{service}/metrics", **token)
        assert b"<html" in get(f"http://{service}/")
        try:
            get(f"http://{service}/predict", question)
        except HTTPError as refused:
            assert refused.code == 401
        else:
            raise AssertionError("a question without the token was answered")
        assert run.end(signal.SIGTERM) == 0
    assert "open-sesame" not in run.text


def test_an_invalid_address_is_refused(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.csv", 200)
    run = ("run", "--source", "file:rows.csv", "--checkpoint", "state")
    done = scstream(*run, "--metrics", "9464", folder=tmp_path)
    assert done.returncode == 2
    assert "takes HOST:PORT" in done.stderr
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for flag in ("--metrics", "--serve"):
            done = scstream(*run, flag, address, folder=tmp_path)
            assert done.returncode == 2, done.stderr
            assert "in use" in done.stderr


def test_serve_is_refused_with_one_model_per_key(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.csv", 200)
    flags = ("--set", "schema.key=name", "--checkpoint", "state", "--serve", free_address())
    done = scstream("run", "--source", "file:rows.csv", *flags, folder=tmp_path)
    assert done.returncode == 2
    assert "--serve needs one model for all rows" in done.stderr
