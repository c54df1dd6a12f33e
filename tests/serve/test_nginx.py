"""The shipped configurations in a real nginx: TLS, client certificates, and limits on clients."""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from scstream.serve.app import create_app
from scstream.serve.listen import serve_in_thread
from scstream.serve.live import Live
from scstream.serve.model import LocalModel
from scstream.serve.settings import ServiceSettings
from scstream.stream.connectors.http import HttpSource
from tests.serve.subjects import columns, model_version, rows

SHIPPED = Path(__file__).resolve().parents[2] / "deploy" / "nginx"
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


@dataclass
class Proxy:
    """A running nginx: its port, the folder of the certificates, and the log of the service."""

    port: int
    tls: Path
    logged: list[dict[str, object]]

    def client(self, *, name: str | None = "me", host: str = "models.example") -> httpx.Client:
        return httpx.Client(
            verify=self._trust(name),
            base_url=f"https://127.0.0.1:{self.port}",
            headers={"host": host, "content-type": "application/json"},
            timeout=10.0,
        )

    @contextmanager
    def socket(self) -> Iterator[ssl.SSLSocket]:
        """A connection for bytes that no HTTP client sends."""
        with (
            socket.create_connection(("127.0.0.1", self.port), timeout=10.0) as plain,
            self._trust("me").wrap_socket(plain, server_hostname="models.example") as secure,
        ):
            yield secure

    def _trust(self, name: str | None) -> ssl.SSLContext:
        trust = ssl.create_default_context(cafile=str(self.tls / "server.crt"))
        if name is not None:
            trust.load_cert_chain(self.tls / f"{name}.crt", self.tls / f"{name}.key")
        trust.check_hostname = False
        return trust


@contextmanager
def nginx_with(shipped: str, folder: Path, changes: dict[str, str]) -> Iterator[tuple[int, Path]]:
    """Run nginx with a shipped file, in which other addresses and limits stand."""
    tls = folder / "tls"
    tls.mkdir()
    for name, by in (("server", None), ("clients", None), ("me", "clients"), ("other", None)):
        certificate(name, tls, by=by)
    port = free_port()
    text = (SHIPPED / shipped).read_text(encoding="utf-8")
    for old, new in {"listen 443 ssl": f"listen 127.0.0.1:{port} ssl", **changes}.items():
        assert old in text, old
        text = text.replace(old, new)
    (folder / "scstream.conf").write_text(text)
    user = "user root;\n" if os.getuid() == 0 else ""  # workers of root would lose their rights
    (folder / "nginx.conf").write_text(user + MAIN)
    nginx = shutil.which("nginx") or "/usr/sbin/nginx"
    command = [nginx, "-p", str(folder), "-c", "nginx.conf", "-e", "error.log"]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        try:
            _wait_for(port, process)
            yield port, tls
        finally:
            process.terminate()


@contextmanager
def proxied(folder: Path, changes: dict[str, str] | None = None, **limits: int) -> Iterator[Proxy]:
    """Run the service behind nginx."""
    logged: list[dict[str, object]] = []
    settings = ServiceSettings(hosts=("models.example",), proxy=True, access_log=True, **limits)  # type: ignore[arg-type]
    app = create_app(
        LocalModel(model_version()),
        settings,
        live=Live(),
        emit=lambda event: logged.append(event.to_dict()),
    )
    with ExitStack() as stack:
        serving = stack.enter_context(serve_in_thread(app, "127.0.0.1", 0))
        changes = {"127.0.0.1:8765": f"127.0.0.1:{serving.port}", **(changes or {})}
        port, tls = stack.enter_context(nginx_with("scstream.conf", folder, changes))
        yield Proxy(port, tls, logged)


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


BODY = json.dumps({"columns": columns(rows(30))}).encode()
HEAD = b"POST /predict HTTP/1.1\r\nHost: models.example\r\nContent-Type: application/json\r\n"


def test_only_clients_with_a_certificate_get_through(tmp_path: Path) -> None:
    with proxied(tmp_path) as proxy:
        with proxy.client() as mine:
            answer = mine.post("/predict", content=BODY, headers={"x-forwarded-for": "203.0.113.9"})
            assert answer.status_code == 200, answer.text
            assert (
                answer.json()["cluster"]
                == model_version().compute("labels", rows(30)).values.tolist()
            )
            assert proxy.logged[-1]["client"] == "127.0.0.1"  # not what the client wrote
            assert mine.get("/healthz").status_code == 200
            assert mine.get("/metrics").status_code == 404
            with mine.stream("GET", "/live") as stream:
                assert stream.headers["content-type"].startswith("text/event-stream")
                assert next(stream.iter_text())
            assert mine.post("/predict", content=17 * 2**20 * b" ").status_code == 413
        for name in (None, "other"):
            with proxy.client(name=name) as stranger:
                refused = stranger.get("/healthz")
                assert refused.status_code == 400 and "certificate" in refused.text


def test_a_client_with_too_many_requests_gets_429(tmp_path: Path) -> None:
    changes = {"rate=100r/s": "rate=1r/s", "burst=200 nodelay": "burst=5 nodelay"}
    with proxied(tmp_path, changes) as proxy, proxy.client() as client:
        statuses = [client.get("/clusters").status_code for _ in range(20)]
        assert statuses[:6] == [200] * 6 and set(statuses[-5:]) == {429}
        time.sleep(2.1)
        assert client.get("/clusters").status_code == 200


def test_a_client_with_too_many_connections_gets_429(tmp_path: Path) -> None:
    changes = {"limit_conn scstream_connections 32": "limit_conn scstream_connections 2"}
    with proxied(tmp_path, changes) as proxy, proxy.client() as client:
        with client.stream("GET", "/live") as first, client.stream("GET", "/live") as second:
            assert first.status_code == second.status_code == 200
            assert client.get("/clusters").status_code == 429
        deadline = time.monotonic() + 30.0  # nginx needs a moment to notice that they are closed
        while (status := client.get("/clusters").status_code) == 429:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert status == 200


def test_a_slow_head_or_body_never_reaches_the_service(tmp_path: Path) -> None:
    changes = {
        "client_header_timeout 10s": "client_header_timeout 1s",
        "client_body_timeout 10s": "client_body_timeout 1s",
    }
    with proxied(tmp_path, changes, requests=1) as proxy:
        for sent in (
            b"",
            b"GET /clusters HTTP/1.1\r\nHost: mod",
            HEAD + b"Content-Length: 9\r\n\r\n{",
        ):
            with proxy.socket() as slow:
                slow.sendall(sent)
                started = time.monotonic()
                with proxy.client() as other:  # the slow client does not hold the only request
                    assert other.post("/predict", content=BODY).status_code == 200
                answer = slow.recv(65536)
                assert answer == b"" or b" 408 " in answer, answer
                assert time.monotonic() - started < 6.0
        assert {each["status"] for each in proxy.logged} == {200}


def test_a_client_that_does_not_read_its_response_holds_no_request(tmp_path: Path) -> None:
    body = json.dumps({"rows": [[1, 2]] * 50_000, "probabilities": True}).encode()
    with proxied(tmp_path, requests=1) as proxy, proxy.socket() as deaf:
        deaf.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        end = time.monotonic() + 20.0
        while not any(each["rows"] == 50_000 for each in proxy.logged):
            assert time.monotonic() < end
            time.sleep(0.05)
        with proxy.client() as other:
            assert other.post("/predict", content=BODY).status_code == 200


def test_rows_are_pushed_through_the_proxy_of_the_source(tmp_path: Path) -> None:
    source = HttpSource(port=0, journal=tmp_path / "journal", token="canary-4711")
    source.open(None)
    address = source.address.removeprefix("http://")
    changes = {"127.0.0.1:8080": address, "client_header_timeout 10s": "client_header_timeout 1s"}
    try:
        with nginx_with("ingest.conf", tmp_path, changes) as (port, tls):
            proxy = Proxy(port, tls, [])
            with proxy.client(host="rows.example") as client:
                token = {"authorization": "Bearer canary-4711"}
                assert client.post("/rows", content=b"[1]").status_code == 401
                answer = client.post("/rows", content=b"[1]", headers=token)
                assert answer.json() == {"position": 0, "duplicate": False}
                large = client.post("/rows", content=9 * 2**20 * b" ", headers=token)
                assert large.status_code == 413
            with proxy.socket() as slow:
                slow.sendall(b"POST /rows HTTP/1.1\r\nHost: rows")
                answer_bytes = slow.recv(65536)
                assert answer_bytes == b"" or b" 408 " in answer_bytes
        assert source.lag() == 1
    finally:
        source.close()
