"""The proxy configuration that is shipped, in a real nginx: TLS, and certificates of clients."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from scstream.serve.app import create_app
from scstream.serve.listen import serve_in_thread
from scstream.serve.live import Live
from scstream.serve.model import Owned
from scstream.serve.settings import ServiceSettings
from tests.serve.subjects import columns, reading, rows

SHIPPED = Path(__file__).resolve().parents[2] / "deploy" / "nginx" / "scstream.conf"
MAIN = """\
daemon off;
pid nginx.pid;
error_log error.log;
events {}
http {
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    include scstream.conf;
}
"""


def openssl(*arguments: str, folder: Path) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def certificate(name: str, folder: Path, *, by: str | None = None) -> None:
    """Make a key and a certificate, of its own authority or of another."""
    subject = ["-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:models.example"]
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    signed = [] if by is None else ["-CA", f"{by}.crt", "-CAkey", f"{by}.key"]
    files = ["-keyout", f"{name}.key", "-out", f"{name}.crt"]
    openssl("req", "-x509", "-days", "2", *key, *subject, *signed, *files, folder=folder)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def proxied(tmp_path: Path) -> Iterator[tuple[str, Path, list[dict[str, object]]]]:
    """Address of nginx, folder of the certificates, and what the service heard."""
    tls = tmp_path / "tls"
    tls.mkdir()
    for name, by in (("server", None), ("clients", None), ("me", "clients"), ("other", None)):
        certificate(name, tls, by=by)
    heard: list[dict[str, object]] = []
    settings = ServiceSettings(hosts=("models.example",), proxy=True, access_log=True)
    app = create_app(
        Owned(reading()), settings, live=Live(), emit=lambda kind, /, **v: heard.append(v)
    )
    with serve_in_thread(app, "127.0.0.1", 0) as serving:
        port = free_port()
        shipped = SHIPPED.read_text(encoding="utf-8")
        shipped = shipped.replace("127.0.0.1:8765", f"127.0.0.1:{serving.port}")
        shipped = shipped.replace("listen 443 ssl", f"listen 127.0.0.1:{port} ssl")
        (tmp_path / "scstream.conf").write_text(shipped)
        (tmp_path / "nginx.conf").write_text(MAIN)
        nginx = shutil.which("nginx") or "/usr/sbin/nginx"
        command = [nginx, "-p", str(tmp_path), "-c", "nginx.conf", "-e", "error.log"]
        with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
            try:
                _wait_for(port, process)
                yield f"https://models.example:{port}", tls, heard
            finally:
                process.terminate()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            assert process.poll() is None, process.stderr and process.stderr.read()
            time.sleep(0.05)
    raise AssertionError("nginx did not start")


def client(url: str, tls: Path, *, name: str | None) -> httpx.Client:
    trust = ssl.create_default_context(cafile=str(tls / "server.crt"))
    if name is not None:
        trust.load_cert_chain(tls / f"{name}.crt", tls / f"{name}.key")
    local = url.replace("models.example", "127.0.0.1")
    return httpx.Client(
        verify=trust,
        base_url=local,
        headers={"host": "models.example"},
        timeout=10.0,
    )


def test_the_proxy_lets_in_who_has_a_certificate(
    proxied: tuple[str, Path, list[dict[str, object]]],
) -> None:
    url, tls, heard = proxied
    sni = {"sni_hostname": "models.example"}
    body = json.dumps({"columns": columns(rows(30))})
    kind = {"content-type": "application/json", "x-forwarded-for": "203.0.113.9"}
    with client(url, tls, name="me") as mine:
        answer = mine.post("/predict", content=body, headers=kind, extensions=sni)
        assert answer.status_code == 200, answer.text
        wanted = reading().compute("labels", rows(30)).values.tolist()
        assert answer.json()["cluster"] == wanted
        assert heard[-1]["client"] == "127.0.0.1"  # and not what the client says of itself
        assert mine.get("/healthz", extensions=sni).status_code == 200
        assert mine.get("/metrics", extensions=sni).status_code == 404
        with mine.stream("GET", "/live", extensions=sni) as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            assert next(stream.iter_text())
        large = mine.post("/predict", content=17 * 2**20 * b" ", headers=kind, extensions=sni)
        assert large.status_code == 413
    for name in (None, "other"):
        with client(url, tls, name=name) as stranger:
            refused = stranger.get("/healthz", extensions=sni)
            assert refused.status_code == 400 and "certificate" in refused.text
