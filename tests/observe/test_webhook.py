"""The webhook against real servers: what arrives, what is tried again, what nobody waits for."""

from __future__ import annotations

import json
import logging
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from threading import Event, Thread
from typing import Any

import pytest

from scstream.errors import InputError
from scstream.observe.address import check_address
from scstream.observe.events import AlertRaised, BatchLearned, Started
from scstream.observe.webhook import Webhook, posting
from tests.servers import free_port

ALERT = AlertRaised(3, "novelty", 0.25, "25% of the rows belong to no cluster")
Answer = Callable[["Receiver"], int]  # the status to answer with


class Receiver(ThreadingHTTPServer):
    """A server that keeps what was posted and answers as it is told."""

    daemon_threads = True

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.answer = answer
        self.heads: list[dict[str, str]] = []
        self.bodies: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.let_go = Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is what some tests are about."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hooks/s3cret-path-0123?k=s3cret-query"


class _Request(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.paths.append(self.path)
        self.server.heads.append(dict(self.headers))
        self.server.bodies.append(json.loads(body))
        status = self.server.answer(self.server)
        self.send_response(status)
        if status == 302:
            self.send_header("Location", self.server.url)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def receiving(answer: Answer = lambda _: 204, context: ssl.SSLContext | None = None):
    server = Receiver(answer)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.let_go.set()
        server.shutdown()
        server.server_close()
        thread.join()


def wait_for(condition: Callable[[], bool], *, seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.002)


def hook(url: str, **options: Any) -> Webhook:
    return Webhook(url, **{"pause": 0.01, "timeout": 5.0, **options})


def test_alerts_arrive_in_order_with_their_keys() -> None:
    with receiving() as server, hook(server.url, token="t0ken") as webhook:
        webhook.emit(Started(1, 0, "shop/ä"))
        webhook.emit(BatchLearned(3, rows=100))
        for batch, kind in [(3, "novelty"), (3, "born"), (7, "novelty")]:
            webhook.emit(replace(ALERT, batch=batch, kind=kind))
        wait_for(lambda: webhook.sent == 3)
    alert = replace(ALERT, kind="born").to_dict()
    assert server.bodies[1] == {"job": "shop/ä", "index": 1, **alert}
    keys = [head["Idempotency-Key"] for head in server.heads]
    assert keys == ["shop%2F%C3%A4/3/0", "shop%2F%C3%A4/3/1", "shop%2F%C3%A4/7/0"]
    assert {head["Content-Type"] for head in server.heads} == {"application/json"}
    assert {head["Authorization"] for head in server.heads} == {"Bearer t0ken"}
    assert {*server.paths} == {"/hooks/s3cret-path-0123?k=s3cret-query"}
    assert webhook.dropped == 0


def test_a_batch_that_is_learned_again_has_the_same_keys() -> None:
    keys = []
    for _ in range(2):
        with receiving() as server, hook(server.url) as webhook:
            webhook.emit(Started(1, 0, "shop"))
            webhook.emit(ALERT)
            webhook.emit(ALERT)
        keys.append([head["Idempotency-Key"] for head in server.heads])
    assert keys[0] == keys[1] == ["shop/3/0", "shop/3/1"]


def test_a_failing_server_is_tried_again() -> None:
    answers = iter([500, 503, 429, 200])
    with receiving(lambda _: next(answers)) as server, hook(server.url) as webhook:
        webhook.emit(ALERT)
        wait_for(lambda: webhook.sent == 1)
    assert len({head["Idempotency-Key"] for head in server.heads}) == 1
    assert (len(server.bodies), webhook.dropped) == (4, 0)


def test_pauses_grow() -> None:
    times: list[float] = []

    def answer(_: Receiver) -> int:
        times.append(time.monotonic())
        return 500

    with receiving(answer) as server, hook(server.url, pause=0.05, attempts=4) as webhook:
        webhook.emit(ALERT)
        wait_for(lambda: webhook.dropped == 1)
    pauses = [after - before for before, after in pairwise(times)]
    assert len(pauses) == 3
    assert all(pause >= least for pause, least in zip(pauses, (0.05, 0.1, 0.2), strict=True))


@pytest.mark.parametrize("status", [302, 401, 404, 413])
def test_a_rejection_is_final_and_a_redirect_is_not_followed(status: int, caplog) -> None:
    with receiving(lambda _: status) as server, hook(server.url, token="t0ken") as webhook:
        webhook.emit(ALERT)
        webhook.emit(replace(ALERT, batch=4))
        wait_for(lambda: webhook.dropped == 2)
    assert len(server.bodies) == 2
    assert f"status {status}" in caplog.text


def test_the_pipeline_does_not_wait_for_a_slow_server() -> None:
    def answer(server: Receiver) -> int:
        server.let_go.wait(10.0)
        return 200

    with receiving(answer) as server:
        webhook = hook(server.url, timeout=0.05, attempts=2, max_queued=5)
        begin = time.monotonic()
        for batch in range(1000):
            webhook.emit(replace(ALERT, batch=batch))
        assert time.monotonic() - begin < 1.0
        assert webhook.dropped >= 990  # one is on its way, five wait
        begin = time.monotonic()
        webhook.close(timeout=0.2)
        assert time.monotonic() - begin < 1.0
        assert (webhook.sent, webhook.dropped) == (0, 1000)


def test_a_server_that_is_away_and_comes_back() -> None:
    port = free_port()
    webhook = hook(f"http://127.0.0.1:{port}/", attempts=200)
    webhook.emit(ALERT)
    time.sleep(0.1)
    assert (webhook.sent, webhook.dropped) == (0, 0)
    server = ThreadingHTTPServer(("127.0.0.1", port), _Request)
    server.answer, server.paths, server.heads, server.bodies = (lambda _: 200), [], [], []
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    wait_for(lambda: webhook.sent == 1)
    webhook.close()
    server.shutdown()
    server.server_close()
    thread.join()
    assert server.paths == ["/"]


def test_alerts_for_an_unreachable_server_are_dropped(caplog) -> None:
    url = f"http://127.0.0.1:{free_port()}/hooks/s3cret-path-0123"
    with hook(url, attempts=3) as webhook:
        for batch in range(4):
            webhook.emit(replace(ALERT, batch=batch))
        wait_for(lambda: webhook.dropped == 4)
    assert "ConnectionRefusedError" in caplog.text
    assert "4 alerts could not be sent" in caplog.text
    assert "s3cret" not in caplog.text


def test_queued_alerts_are_tried_once_more_at_close() -> None:
    answers = iter([500, *[200] * 10])
    with receiving(lambda _: next(answers)) as server:
        with hook(server.url, pause=20.0) as webhook:
            webhook.emit(replace(ALERT, batch=0))
            wait_for(lambda: len(server.bodies) == 1)
            webhook.emit(replace(ALERT, batch=1))
        assert [body["batch"] for body in server.bodies] == [0, 0, 1]
    assert (webhook.sent, webhook.dropped) == (2, 0)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory) -> tuple[str, ssl.SSLContext]:
    """A certificate that signs itself, and a server's context with it."""
    folder = tmp_path_factory.mktemp("tls")
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    key, file = str(folder / "key.pem"), str(folder / "certificate.pem")
    named = ["-nodes", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*made, *named, "-keyout", key, "-out", file], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, key)
    return file, context


@pytest.mark.parametrize("is_trusted", [True, False])
def test_certificates_are_checked(is_trusted: bool, certificate, monkeypatch, caplog) -> None:
    file, context = certificate
    if is_trusted:
        monkeypatch.setenv("SSL_CERT_FILE", file)
    with receiving(context=context) as server:
        url = server.url.replace("http://", "https://")
        with hook(url, attempts=1, token="t0ken") as webhook:
            webhook.emit(ALERT)
    assert (webhook.sent, webhook.dropped) == ((1, 0) if is_trusted else (0, 1))
    assert len(server.bodies) == is_trusted
    assert ("SSLCertVerificationError" in caplog.text) != is_trusted


def test_a_value_that_json_does_not_know_is_null() -> None:
    with receiving() as server, hook(server.url) as webhook:
        webhook.emit(replace(ALERT, value=float("nan")))
    assert server.bodies[0]["value"] is None


@pytest.fixture
def canaries(caplog) -> Iterator[Callable[[object], None]]:
    def check(*shown: object) -> None:
        text = " ".join([caplog.text, *map(str, shown), *map(repr, shown)])
        assert "s3cret" not in text and "t0ken" not in text

    caplog.set_level(logging.DEBUG)
    return check


def test_no_secret_is_shown(canaries) -> None:
    with receiving(lambda _: 404) as server, hook(server.url, token="t0ken") as webhook:
        webhook.emit(ALERT)
        wait_for(lambda: webhook.dropped == 1)
        canaries(webhook)
        assert repr(webhook) == f"Webhook('http://127.0.0.1:{server.server_address[1]}/***')"


@pytest.mark.parametrize(
    ("url", "token", "detail"),
    [
        ("ftp://h/s3cret", None, "must begin with https:// or http://, got ftp://h/"),
        ("hooks.example.org/s3cret", None, "must begin with https:// or http://"),
        ("https:///s3cret", None, "must begin with https:// or http://"),
        ("https://h:99999/s3cret", None, "is no address"),
        ("https://h:0/s3cret", None, "must begin with https:// or http://"),
        ("https://me:s3cret@h/", None, "holds a user or a password"),
        ("http://h/s3cret", "t0ken", "would go to http://h/\\*\\*\\* in the clear"),
        ("https://h/s3cret path", None, "must be plain ASCII without spaces"),
        ("https://h/s3cret\nX: y", None, "must be plain ASCII without spaces"),
        ("https://h/", "t0ken\nX: y", "must be plain ASCII without spaces"),
        ("https://h/s3cret/ä", None, "must be plain ASCII without spaces"),
        (7, None, "is no address"),
    ],
)
def test_invalid_addresses_raise(url: Any, token: Any, detail: str, canaries) -> None:
    with pytest.raises(InputError, match=detail) as caught:
        check_address(url, token=token)
    canaries(caught.value)


def test_a_section_without_an_address_posts_nothing() -> None:
    with receiving() as server, posting({"webhook": server.url}) as emit:
        emit(ALERT)
    assert len(server.bodies) == 1
    with posting({"novelty": 0.2}) as emit:
        emit(ALERT)
