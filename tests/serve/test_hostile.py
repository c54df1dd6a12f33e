"""What is not meant well, or not sent well, is refused with a sentence and the right status."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest

from scstream.observe.events import Defect, RunEvent
from scstream.serve.app import create_app
from scstream.serve.listen import ServiceThread, serve_in_thread
from scstream.serve.model import LocalModel
from scstream.serve.settings import ServiceSettings
from scstream.stream.arrow import stream_bytes
from scstream.stream.http_server import Paced
from tests.serve.subjects import Client, app, columns, model_version, refused, rows

ARROW = "application/vnd.apache.arrow.stream"
GOOD = {"x": [1.0], "y": [2.0]}


@contextmanager
def served(**settings: Any) -> Iterator[ServiceThread]:
    with serve_in_thread(app(**settings), "127.0.0.1", 0) as serving:
        yield serving


@pytest.fixture(scope="module")
def guarded() -> Iterator[ServiceThread]:
    """A service with a token that several tests share."""
    with served(token="hunter2", body_seconds=1.0) as serving:
        yield serving


def spoken(serving: ServiceThread, said: bytes, *, seconds: float = 5.0) -> bytes:
    """What comes back until the connection is closed."""
    with socket.create_connection((serving.host, serving.port), timeout=seconds) as door:
        door.sendall(said)
        parts = []
        while part := door.recv(65536):
            parts.append(part)
    return b"".join(parts)


def status_of(answer: bytes) -> int:
    assert b'"detail":"' in answer, answer
    return int(answer.split(b" ", 2)[1])


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        ("", 400, "not JSON"),
        ("{", 400, "not JSON"),
        ('{"rows": [[NaN, 1]]}', 400, "null"),
        ('{"rows": [[Infinity, 1]]}', 400, "null"),
        ('{"rows": [[1e999, 1]]}', 400, "not JSON"),
        ('{"rows": [["\ud800", 1]]}', 400, "not JSON"),
        ('{"rows": ' + 2000 * "[" + 2000 * "]" + "}", 400, "depth"),
        ('{"rows": ' + 900 * "[" + 900 * "]" + "}", 422, "2 are expected"),
        ("[]", 422, "object"),
        ("{}", 422, "either"),
        ('{"rows": [], "columns": {}}', 422, "either"),
        ('{"rows": [], "evil": 1}', 422, "'evil'"),
        ('{"rows": {"x": 1}}', 422, "array of arrays"),
        ('{"rows": [1, 2]}', 422, "row 0"),
        ('{"rows": [[1]]}', 422, "2 are expected"),
        ('{"rows": [[1, 2, 3]]}', 422, "2 are expected"),
        ('{"rows": [[1, 2], [1]]}', 422, "row 1"),
        ('{"rows": [[1, true]]}', 422, "not a number"),
        ('{"rows": [[1, "2"]]}', 422, "not a number"),
        ('{"rows": [[1, {}]]}', 422, "an object"),
        ('{"rows": [[1, [2]]]}', 422, "an array"),
        ('{"rows": [[1, null]]}', 422, "is missing"),
        ('{"rows": [[1, 1e300]]}', 422, "too large"),
        ('{"rows": [[1, 1e90]]}', 422, "rescale"),
        ('{"columns": []}', 422, "object of arrays"),
        ('{"columns": {"x": [1]}}', 422, "no column 'y'"),
        ('{"columns": {"x": [1], "y": [1], "z": [1]}}', 422, "no column 'z'"),
        ('{"columns": {"x": [1], "y": [1, 2]}}', 422, "differ in length"),
        ('{"columns": {"x": 1, "y": [1]}}', 422, "'x' must be an array"),
        ('{"columns": {"x": [1], "y": ["' + 10**6 * "a" + '"]}}', 422, "not a number"),
        ('{"rows": [[1, 2]], "time": "now"}', 422, "'time'"),
        ('{"rows": [[1, 2]], "time": 1e200}', 422, "'time'"),
        ('{"rows": [[1, 2]], "probabilities": 1}', 422, "true or false"),
        (json.dumps({"rows": [[1, 2]] * 101}), 422, "in parts"),
    ],
)
def test_an_invalid_json_body_is_rejected(body: str, status: int, word: str) -> None:
    answer = Client(app(rows=100)).post("/predict", body.encode("utf-8", "surrogatepass"))
    assert word in refused(answer, status)["detail"]
    assert len(answer.content) < 1000


@pytest.mark.parametrize(
    ("table", "status", "word"),
    [
        ({"x": [1.0]}, 422, "no column 'y'"),
        ({"x": [1.0], "y": ["2"]}, 422, "no column 'y'"),
        ({"x": [1.0], "y": [2.0], "z": [3.0]}, 422, "no column 'z'"),
        ({"x": [1.0, 2.0], "y": [1.0, None]}, 422, "NaN or nothing"),
        ({"x": [1.0], "y": [np.inf]}, 422, "out of range"),
        ({"name": ["a"]}, 422, "no column 'x' of numbers"),
        ({"x": [1.0] * 101, "y": [1.0] * 101}, 413, "in parts"),
    ],
)
def test_an_invalid_arrow_table_is_rejected(
    table: dict[str, list[Any]], status: int, word: str
) -> None:
    stream = stream_bytes({n: pa.array(v).to_numpy(zero_copy_only=False) for n, v in table.items()})
    answer = Client(app(rows=100)).post("/predict", stream, ARROW)
    assert word in refused(answer, status)["detail"]


def test_a_damaged_arrow_stream_is_rejected() -> None:
    stream = stream_bytes({"x": np.ones(50), "y": np.ones(50)})
    client = Client(app())
    for cut in (0, 1, 8, 100, len(stream) // 2):
        assert "Arrow" in refused(client.post("/predict", stream[:cut], ARROW), 400)["detail"]
    for seed in range(40):
        rng = np.random.default_rng(seed)
        torn = bytearray(stream)
        for place in rng.integers(0, len(torn), 5):
            torn[place] = rng.integers(256)
        assert client.post("/predict", bytes(torn), ARROW).status_code in (200, 400, 413, 422)


def test_a_small_arrow_stream_of_a_large_table_gets_413() -> None:
    """Names, rows and memory are checked in its header: 2**20 rows of 200 columns in 32 kB."""
    zeros = pa.array(np.zeros(2**20, dtype=np.int8))
    many = zstd(pa.table({f"x{j}": zeros for j in range(200)}))
    assert len(many) < 2**16
    assert "1048576 rows" in refused(Client(app()).post("/predict", many, ARROW), 413)["detail"]
    wide = Client(app(rows=2**21)).post("/predict", many, ARROW)
    assert "column 'x'" in refused(wide, 422)["detail"]
    nulls = pa.table({name: pa.nulls(2**21) for name in ("x", "y")})
    answer = Client(app(rows=2**22)).post("/predict", zstd(nulls), ARROW)
    assert "2,097,152 rows" in refused(answer, 413)["detail"]


def zstd(table: pa.Table) -> bytes:
    content = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(content, table.schema, options=options) as stream:
        stream.write_table(table)
    return bytes(content.getvalue())


def test_other_types_and_compressed_bodies_are_rejected() -> None:
    client = Client(app())
    for kind in ("text/plain", "", "application/x-www-form-urlencoded", "application/jsonx"):
        assert "Content-Type" in refused(client.post("/predict", b"{}", kind), 415)["detail"]
    packed = client.post("/predict", b"{}", **{"content-encoding": "gzip"})
    assert "compressed" in refused(packed, 415)["detail"]
    fine = client.post("/predict", json.dumps({"columns": GOOD}).encode(), "Application/JSON; a=b")
    assert fine.status_code == 200


def test_the_size_of_responses_is_bounded() -> None:
    client = Client(app(cells=100))
    detail = refused(client.predict(rows=rows(30).tolist(), probabilities=True), 422)["detail"]
    assert "120 probabilities and 100 are allowed" in detail
    assert client.predict(rows=rows(25).tolist(), probabilities=True).status_code == 200


@pytest.mark.parametrize("path", ["/predict", "/clusters", "/model", "/metrics", "/openapi.json"])
def test_routes_require_the_token(path: str) -> None:
    method = "POST" if path == "/predict" else "GET"
    client = Client(app(token="hunter2"))
    for wrong in ("", "hunter2", "Bearer", "Bearer hunter", "Bearer hunter22", "Basic hunter2"):
        answer = client.request(method, path, headers={"authorization": wrong})
        assert refused(answer, 401)["error"] == "WrongToken"
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert "hunter2" not in answer.text
    right = client.request(method, path, headers={"authorization": "bearer hunter2"})
    assert right.status_code in (200, 404, 415)


def test_some_routes_are_open() -> None:
    client = Client(app(token="hunter2"))
    for path in ("/healthz", "/readyz", "/docs", "/docs.css", "/"):
        assert client.get(path).status_code in (200, 307)


@pytest.mark.parametrize(
    "path",
    [
        "/..%2fmodel",
        "/page/..%2f..%2fapp.py",
        "/page/../../model",
        "//model",
        "/model/",
        "/MODEL",
        "/model%00",
        "/healthz/../model",
        "/clusters/..",
        "/clusters/1/2",
        "/docs/..%2fmodel",
        "/%2e%2e/etc/passwd",
    ],
)
def test_unusual_paths_do_not_bypass_the_token(path: str, guarded: ServiceThread) -> None:
    request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    answer = spoken(guarded, request.encode())
    assert int(answer.split(b" ", 2)[1]) in (400, 401, 404), answer
    assert b"root:" not in answer and b"safetensors" not in answer


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8765", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:8765", 200),
        ("models.example", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost:80@evil.example", 421),
        ("evil.example:127.0.0.1", 421),
        ("", 421),
    ],
)
def test_other_host_names_are_rejected(host: str, status: int) -> None:
    client = Client(app(hosts=("models.example",)))
    assert client.get("/clusters", headers={"host": host}).status_code == status
    for path in ("/healthz", "/readyz"):  # a kubelet probes by the address of the pod
        assert client.get(path, headers={"host": host}).status_code == 200


def test_a_service_for_other_machines_accepts_any_host_name() -> None:
    client = Client(app(host="0.0.0.0"))
    assert client.get("/healthz", headers={"host": "models.example"}).status_code == 200
    client = Client(app(host="0.0.0.0", hosts=("models.example",)))
    refused(client.get("/clusters", headers={"host": "evil.example"}), 421)


def test_pages_of_other_sites_cannot_post() -> None:
    client, body = Client(app(learn=True)), json.dumps({"columns": GOOD}).encode()
    for origin in ("https://evil.example", "null", "http://127.0.0.1:9"):
        refused(client.post("/learn", body, origin=origin), 403)
    assert client.post("/learn", body, origin="http://127.0.0.1:8765").status_code == 200


def test_learning_is_off_by_default() -> None:
    answer = Client(app()).post("/learn", json.dumps({"columns": GOOD}).encode())
    assert "--learn" in refused(answer, 403)["detail"]
    on = Client(app(learn=True))
    refused(on.post("/learn", b'{"rows": []}'), 422)
    refused(on.post("/learn", b'{"rows": [[1, 2]], "probabilities": true}'), 422)


def test_wrong_methods_and_parameters_are_rejected() -> None:
    client = Client(app())
    answer = client.get("/predict")
    assert refused(answer, 405) and answer.headers["allow"] == "POST"
    refused(client.request("DELETE", "/clusters"), 405)
    for query in ("limit=0", "limit=501", "limit=x", "offset=-1", "sort=age"):
        assert "parameter" in refused(client.get(f"/clusters?{query}"), 422)["detail"]
    for query in ("since=nan", "since=inf", "limit=1e3"):
        refused(client.get(f"/events?{query}"), 422)
    assert "limit, offset, sort" in refused(client.get("/clusters?limt=5"), 422)["detail"]
    refused(client.get("/clusters/one"), 422)
    refused(client.get(f"/clusters/{2**70}"), 422)


def test_requests_beyond_max_requests_get_503() -> None:
    with served(requests=1, body_seconds=5.0) as serving:
        head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        with socket.create_connection((serving.host, serving.port)) as slow:
            slow.sendall(head + b"Content-Length: 100\r\n\r\n{")
            time.sleep(0.3)
            answer = httpx.get(f"{serving.url}/clusters")
            assert refused(answer, 503)["error"] == "Busy"
            assert answer.headers["retry-after"] == "1"
            assert httpx.get(f"{serving.url}/healthz").status_code == 200
        time.sleep(0.3)
        assert httpx.get(f"{serving.url}/clusters").status_code == 200


def test_bodies_beyond_the_total_size_get_503() -> None:
    with served(body_bytes=1000, bodies_bytes=1500, body_seconds=5.0) as serving:
        head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        with socket.create_connection((serving.host, serving.port)) as slow:
            slow.sendall(head + b"Content-Length: 1000\r\n\r\n" + 900 * b" ")
            time.sleep(0.3)
            answer = httpx.post(
                f"{serving.url}/predict",
                content=json.dumps({"rows": [[1, 2]] * 80}),
                headers={"content-type": "application/json"},
            )
            assert "memory" in refused(answer, 503)["detail"]


@pytest.mark.parametrize("chunked", [False, True])
def test_a_slow_body_gets_408(chunked: bool) -> None:
    length = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: 50"
    with served(body_seconds=0.4) as serving:
        began = time.monotonic()
        head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        with socket.create_connection((serving.host, serving.port), timeout=5.0) as door:
            door.sendall(head + length + b"\r\n\r\n")
            for _ in range(6):  # a byte now and then does not keep the service waiting
                door.sendall(b"1\r\n{\r\n" if chunked else b"{")
                time.sleep(0.1)
            answer = door.recv(65536)
        assert status_of(answer) == 408 and time.monotonic() - began < 3.0
        assert httpx.get(f"{serving.url}/healthz").status_code == 200


@pytest.mark.parametrize(
    "head",
    [
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nA: " + 10**6 * b"a",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + 9000 * b"A: a\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + 4000 * b"Abc: abcd\r\n" + b"\r\n",
        b"GET /" + 10**5 * b"a" + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ],
)
def test_a_long_request_head_gets_431(head: bytes, guarded: ServiceThread) -> None:
    assert status_of(spoken(guarded, head)) == 431
    assert httpx.get(f"{guarded.url}/healthz").status_code == 200


@pytest.mark.parametrize(
    "said",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # a client that speaks TLS
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\r\n\r\nhello\r\n\r\n",
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n"
        b"Content-Length: 2\r\n\r\n{}",
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n{}",
    ],
)
def test_bytes_that_are_not_http_get_400(said: bytes, guarded: ServiceThread) -> None:
    assert status_of(spoken(guarded, said)) == 400
    assert httpx.get(f"{guarded.url}/healthz").status_code == 200


def test_requests_beyond_max_connections_get_503() -> None:
    with served(connections=3, proxy=True) as serving:
        kept = [socket.create_connection((serving.host, serving.port)) for _ in range(3)]
        time.sleep(0.2)
        assert spoken(serving, GET % b"/clusters").startswith(b"HTTP/1.1 503")
        assert spoken(serving, GET % b"/healthz").startswith(b"HTTP/1.1 200")
        for door in kept:
            door.close()
        time.sleep(0.2)
        assert httpx.get(f"{serving.url}/clusters").status_code == 200


def test_one_address_cannot_take_all_connections() -> None:
    """Sockets that say nothing: half of them stay, the others are closed, and probes get in."""
    with served(connections=40) as serving:
        slow = [socket.create_connection((serving.host, serving.port)) for _ in range(60)]
        time.sleep(0.3)
        assert b"this address" in spoken(serving, GET % b"/clusters")
        for path in (b"/healthz", b"/readyz"):
            assert spoken(serving, GET % path).startswith(b"HTTP/1.1 200")
        other = socket.create_connection(
            (serving.host, serving.port), timeout=5.0, source_address=("127.0.0.2", 0)
        )
        time.sleep(3.0)
        with other:
            other.sendall(GET % b"/clusters")
            assert other.recv(100).startswith(b"HTTP/1.1 200")
        for door in slow:
            door.close()


def test_health_does_not_wait_for_requests_that_came_before() -> None:
    """Of forty requests that arrive together only a few are answered before a probe."""
    done: list[str] = []

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        done.append(scope["path"])

    async def flood() -> None:
        paced, paths = Paced(answer), [*40 * ["/clusters"], "/healthz"]
        scopes = [{"path": path, "raw_path": path.encode()} for path in paths]
        await asyncio.gather(*(paced(scope, None, None) for scope in scopes))

    asyncio.run(flood())
    assert len(done) == 41 and done.index("/healthz") < 10


def test_two_servers_of_one_application_answer_all_requests() -> None:
    """They run in two event loops, and what waits in one must not depend on the other."""
    application = app()
    with (
        serve_in_thread(application, "127.0.0.1", 0) as one,
        serve_in_thread(application, "127.0.0.1", 0) as two,
    ):
        places = 20 * [(one.host, one.port), (two.host, two.port)]
        doors = [socket.create_connection(place, timeout=10.0) for place in places]
        for _ in range(10):
            for door in doors:
                door.sendall(b"GET /clusters/1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert all(door.recv(65536).startswith(b"HTTP/1.1 200") for door in doors)
        for door in doors:
            door.close()


def test_surplus_connections_of_one_address_take_no_place_of_others() -> None:
    with served(connections=40) as serving:
        slow = [socket.create_connection((serving.host, serving.port)) for _ in range(60)]
        time.sleep(0.3)
        with socket.create_connection(
            (serving.host, serving.port), timeout=5.0, source_address=("127.0.0.2", 0)
        ) as other:
            other.sendall(GET % b"/clusters")
            assert other.recv(100).startswith(b"HTTP/1.1 200")
        for door in slow:
            door.close()


GET = b"GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def test_a_bug_reveals_nothing() -> None:
    told: list[RunEvent] = []

    class Broken(LocalModel):
        def current(self) -> Any:
            raise ZeroDivisionError("the secret of the house")

    broken = create_app(Broken(), emit=told.append)
    client = Client(broken)
    for answer in (client.predict(rows=[[1, 2]]), client.get("/clusters")):
        assert refused(answer, 500)["error"] == "Defect" and "secret" not in answer.text
        event = told.pop()
        assert isinstance(event, Defect) and "the secret of the house" in event.trace
    assert not told


def test_security_headers() -> None:
    client = Client(app())
    for answer in (client.get("/docs"), client.get("/clusters"), client.predict(rows=[])):
        assert answer.headers["x-content-type-options"] == "nosniff"
    policy = client.get("/docs").headers["content-security-policy"]
    assert "default-src 'self'" in policy and "frame-ancestors 'none'" in policy
    page = client.get("/docs").text
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", page) and "<script" not in page


PROGRAM = """
import sys
from scstream.serve.app import create_app
from scstream.serve.listen import bind, serve
from scstream.serve.model import LocalModel
from scstream.serve.settings import ServiceSettings
model = LocalModel.open(sys.argv[1])
door = bind("127.0.0.1", 0)
print(door.getsockname()[1], flush=True)
serve(create_app(model, ServiceSettings(body_seconds=60.0)), door)
"""


def test_ten_gigabytes_are_rejected_in_little_memory(tmp_path: Any) -> None:
    """With a length and without one; on a connection that is kept and with one body each."""
    file = tmp_path / "model.scstream"
    LocalModel(model_version()).save(file)
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(file)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline())
            url = f"http://127.0.0.1:{port}"
            _ready(url)
            before = _peak(process.pid)
            head = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            for path in (b"/predict", b"/healthz", b"/nowhere"):
                sent, answer = _poured(port, head % path + b"Content-Length: %d\r\n\r\n" % 10**10)
                assert status_of(answer) == 413 and sent < 2**26
            sent, answer = _poured(port, head % b"/predict" + b"Transfer-Encoding: chunked\r\n\r\n")
            assert status_of(answer) == 413 and 2**24 < sent < 2**26
            assert httpx.get(f"{url}/healthz").status_code == 200
            arrays = b'{"rows": [' + 5 * 10**6 * b"[]," + b"[]]}"
            answer = httpx.post(
                f"{url}/predict", content=arrays, headers={"content-type": "application/json"}
            )
            assert refused(answer, 422)["error"] == "TooManyRows"
            assert _peak(process.pid) - before < 100 * 2**20
        finally:
            process.terminate()
        assert process.wait(20) == 0


def _ready(url: str) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            httpx.get(f"{url}/readyz").raise_for_status()
            return
        except httpx.TransportError:
            time.sleep(0.05)
    raise AssertionError("the service did not start")


def _poured(port: int, head: bytes) -> tuple[int, bytes]:
    """Send ten gigabytes as long as anybody reads them; what went out, and what came back."""
    chunk = 2**20 * b" "
    framed = b"%x\r\n%b\r\n" % (len(chunk), chunk) if b"chunked" in head else chunk
    sent = 0
    with socket.create_connection(("127.0.0.1", port), timeout=10.0) as door:
        door.sendall(head)
        try:
            while sent < 10**10:
                door.sendall(framed)
                sent += len(chunk)
        except (BrokenPipeError, ConnectionResetError):
            pass
        try:
            return sent, door.recv(65536)
        except ConnectionResetError:
            return sent, b""


def _peak(pid: int) -> int:
    """Most memory that a process has had, in bytes."""
    with open(f"/proc/{pid}/status") as file:
        found = re.search(r"VmHWM:\s+(\d+) kB", file.read())
    assert found is not None
    return int(found[1]) * 1024


def test_the_peak_memory_is_measured(tmp_path: Any) -> None:
    assert _peak(os.getpid()) > 10 * 2**20


def test_rows_at_the_limit_are_predicted() -> None:
    X = rows(100, seed=1)
    answer = Client(app(rows=100)).predict(columns=columns(X))
    assert len(answer.json()["cluster"]) == 100
    assert ServiceSettings().body_bytes == 2**24
