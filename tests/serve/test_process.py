"""The service as an operator has it: a process that follows a pipeline, and ends in order."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from scstream import ScStream
from scstream.cli.main import run_app
from scstream.serve.listen import serve_in_thread
from scstream.serve.model import LocalModel
from tests.cli.shell import PIPELINE, Running, logged, running, scstream, write_rows
from tests.serve.subjects import app, columns, model_version, rows

TOKEN = "correct-horse-battery"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    LocalModel(model_version()).save(tmp_path / "model.scstream")
    return tmp_path / "model.scstream"


def url_of(service: Running) -> str:
    return str(service.wait_for("serving")["url"])


def ready(url: str) -> dict[str, Any]:
    """Wait until a service is ready."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            answer = httpx.get(f"{url}/readyz")
            if answer.status_code == 200:
                return dict(answer.json())
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise AssertionError("the service is not ready")


def ask(url: str, X: np.ndarray, **headers: str) -> httpx.Response:
    headers = {"content-type": "application/json", **headers}
    return httpx.post(
        f"{url}/predict", content=json.dumps({"columns": columns(X)}), headers=headers
    )


def test_a_signal_under_load_loses_no_response(tmp_path: Path, model: Path) -> None:
    """Every request is answered whole; a client that is told to leave does, like a balancer."""
    with running("serve", model, "--port", 0, "--drain", "5", folder=tmp_path) as service:
        url = url_of(service)
        ready(url)
        broken: list[BaseException] = []
        counted = {"answers": 0, "closing": 0}
        clients = [
            threading.Thread(target=_load, args=(url, counted, broken), daemon=True)
            for _ in range(4)
        ]
        for client in clients:
            client.start()
        time.sleep(0.5)
        with httpx.stream("GET", f"{url}/live", timeout=60.0) as stream:
            assert stream.status_code == 200
            service.process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            answer = httpx.get(f"{url}/readyz", timeout=60.0)
            assert answer.status_code == 503 and answer.json()["error"] == "Draining"
            assert ask(url, rows(10)).status_code == 200
            for _ in stream.iter_bytes():
                pass  # it ends by itself, and not in the middle of a chunk
        assert service.process.wait(60) == 0
        for client in clients:
            client.join(60)
        assert not broken, broken[0]
        assert counted["answers"] > 20 and counted["closing"] == 4
        assert [line["event"] for line in logged(service.text)][-1] == "stopped"


def _load(url: str, counted: dict[str, int], broken: list[BaseException]) -> None:
    """Ask over one connection until it is said to be the last answer."""
    body = {"columns": columns(rows(50, seed=1))}
    with httpx.Client(timeout=60.0) as client:
        while True:
            try:
                answer = client.post(f"{url}/predict", json=body)
                assert answer.status_code == 200 and len(answer.json()["cluster"]) == 50
            except Exception as error:
                broken.append(error)
                return
            counted["answers"] += 1
            if answer.headers.get("connection") == "close":
                counted["closing"] += 1
                return


def test_a_response_under_way_is_finished() -> None:
    body = json.dumps({"rows": [[1, 2]]}).encode()
    head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    serving = serve_in_thread(app(), "127.0.0.1", 0)
    with socket.create_connection((serving.host, serving.port), timeout=10.0) as door:
        door.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body[:5])
        time.sleep(0.3)
        stopping = threading.Thread(target=serving.stop)
        stopping.start()
        time.sleep(0.5)
        with pytest.raises(OSError):
            socket.create_connection((serving.host, serving.port), timeout=1.0)
        assert stopping.is_alive()
        door.sendall(body[5:])
        answer = b"".join(iter(lambda: door.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 200") and b'"cluster":[' in answer
    assert b"connection: close" in answer
    stopping.join(10)
    assert not stopping.is_alive()


def test_a_replica_follows_a_pipeline(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.csv", 1000)
    (tmp_path / "p.toml").write_text(PIPELINE)
    assert scstream("run", "p.toml", "--until", "5", folder=tmp_path).returncode == 0
    with running(
        "serve", "state", "--port", 0, "--every", "0.1", "--stale", "600", folder=tmp_path
    ) as service:
        url = url_of(service)
        first = ready(url)
        before = ask(url, rows(20)).json()
        assert before["version"] == first["version"] and first["batch"] == 5
        assert scstream("run", "p.toml", "--resume", folder=tmp_path).returncode == 0
        taken = service.wait_for("following", 2)
        after = ask(url, rows(20)).json()
        assert after["batch"] > 5 and after["version"] > before["version"]
        assert taken["version"] > first["version"]
        found = httpx.get(f"{url}/metrics").text
        assert f"scstream_model_version {after['version']:.1f}" in found
        refused = httpx.post(f"{url}/learn", content="{}")
        assert refused.status_code == 403
        (tmp_path / "taken.scstream").write_bytes(httpx.get(f"{url}/model").content)
        assert service.end(signal.SIGINT) == 0
    model = ScStream.load(tmp_path / "taken.scstream")
    X = rows(20)
    assert model.predict(X).tolist() == after["cluster"]


def test_a_learned_model_is_saved(tmp_path: Path, model: Path) -> None:
    learning = ("serve", model, "--port", 0, "--learn", "--save", "out.scstream")
    body = {"columns": columns(rows(100, seed=8))}
    with running(*learning, "--save-every", 2, folder=tmp_path) as service:
        url = url_of(service)
        ready(url)
        for _ in range(3):
            said = httpx.post(f"{url}/learn", json=body).json()
        saved = service.wait_for("saved")
        assert saved["batch"] == said["batch"] - 1
        now = ask(url, rows(30)).json()
        assert service.end(signal.SIGTERM) == 0
    kept = ScStream.load(tmp_path / "out.scstream")
    assert kept.predict(rows(30)).tolist() == now["cluster"]
    assert kept.score_samples(rows(30)).tolist() == now["log_density"]


def test_no_secret_is_logged(tmp_path: Path, model: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    options = ("--token-file", "token", "--access-log", "--json", "--host", "0.0.0.0")
    with running("serve", model, "--port", 0, *options, folder=tmp_path) as service:
        url = url_of(service).replace("0.0.0.0", "127.0.0.1")
        ready(url)
        assert ask(url, rows(5)).status_code == 401
        assert ask(url, rows(5), authorization=f"Bearer {TOKEN}x").status_code == 401
        assert ask(url, rows(5), authorization=f"Bearer {TOKEN}").status_code == 200
        httpx.get(f"{url}/{TOKEN}?token={TOKEN}")
        assert service.end(signal.SIGTERM) == 0
        lines = logged(service.text)
        assert TOKEN not in service.text
        asked = [each for each in lines if each["event"] == "request" and each["rows"] == 5]
        assert asked[0]["status"] == 200 and asked[0]["path"] == "/predict"
        assert not any(line["event"] == "warning" for line in lines)
        with open(f"/proc/{os.getpid()}/cmdline", "rb") as file:
            assert TOKEN.encode() not in file.read()


@pytest.mark.parametrize(
    ("host", "token", "warned"),
    [("0.0.0.0", "", True), ("0.0.0.0", TOKEN, False), ("127.0.0.1", "", False)],
)
def test_a_service_open_to_other_machines_warns(
    host: str,
    token: str,
    warned: bool,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SCSTREAM_TOKEN", token)
    seen: list[str | None] = []
    monkeypatch.setattr(
        "scstream.cli.serve.serve",
        lambda app, listener: seen.append(app.state.service.settings.token),
    )
    with pytest.raises(SystemExit) as ended:
        run_app(["serve", str(model), "--host", host, "--port", "0"])
    said = capsys.readouterr().err
    assert ended.value.code == 0 and seen == [token or None]
    assert ("no token" in said) == warned and TOKEN not in said


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["nowhere.scstream"], "cannot be read"),
        (["rows.csv"], "no model file"),
        (["model.scstream", "--save", "out"], "--learn"),
        (["model.scstream", "--learn", "--save", "no/folder/out"], "create it first"),
        ([".", "--learn"], "is learned there"),
        (["model.scstream", "--token-file", "no-token"], "cannot be read"),
        (["model.scstream", "--token-file", "rows.csv"], "ASCII"),
        (["model.scstream", "--host", "192.0.2.1"], "cannot listen"),
        (["model.scstream", "--host", "127.0.0.1", "--port", "TAKEN"], "--port"),
    ],
)
def test_contradicting_arguments_are_rejected(
    arguments: list[str],
    word: str,
    tmp_path: Path,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("é,y\n1,2\n", encoding="utf-8")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = str(other.getsockname()[1])
        if "--port" not in arguments:
            arguments = [*arguments, "--port", "0"]
        with pytest.raises(SystemExit) as ended:
            run_app(["serve", *(taken if each == "TAKEN" else each for each in arguments)])
    said = capsys.readouterr().err
    assert ended.value.code in (1, 2) and word in said and "Traceback" not in said, said
