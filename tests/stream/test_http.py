"""HTTP: what was answered with 200 is there once, whatever is sent twice, torn or too slow."""

import errno
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scstream.errors import InputError, SourceChanged, SourceGap, SourceRegressed, StreamError
from scstream.io.disk import MachineDisk
from scstream.stream.connectors.http import HttpSource, Journal
from scstream.stream.source import Record, Resume

Answer = tuple[int, dict[str, Any], Any]


class FaultyDisk(MachineDisk):
    """One kind of operation fails while it is told to; counts syncs, and by which handle."""

    def __init__(self) -> None:
        self.fails = ""
        self.n_syncs = 0
        self.slow = 0.0
        self.failed: set[int] = set()

    def _maybe(self, what: str) -> None:
        if what == self.fails:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def create(self, path: Path) -> int:
        self._maybe("create")
        return super().create(path)

    def close(self, handle: int) -> None:
        self.failed.discard(handle)  # the number may be given to another file
        super().close(handle)

    def write(self, handle: int, content: memoryview) -> int:
        if self.fails == "write" and len(content) > 5:
            return super().write(handle, content[:5])
        self._maybe("write")
        return super().write(handle, content)

    def sync(self, handle: int) -> None:
        assert handle not in self.failed  # never again after it failed
        time.sleep(self.slow)
        self.n_syncs += 1
        if self.fails == "sync":
            self.failed.add(handle)
        self._maybe("sync")

    def sync_folder(self, path: Path) -> None:
        self._maybe("sync_folder")


def post(
    source: HttpSource, body: bytes = b"[1]", key: str = "", path: str = "/rows", **headers: str
) -> Answer:
    address = source.address.removeprefix("http://")
    connection = http.client.HTTPConnection(address, timeout=20)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request("POST", path, body, sent | ({"Idempotency-Key": key} if key else {}))
        return answer_of(connection)
    finally:
        connection.close()


def answer_of(connection: http.client.HTTPConnection) -> Answer:
    answer = connection.getresponse()
    content = answer.read()
    return answer.status, json.loads(content) if content else {}, answer.headers


def raw(source: HttpSource, *parts: bytes, pause: float = 0.0) -> bytes:
    """Send bytes as they are and return everything that comes back."""
    host, port = source.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        try:
            for part in parts:
                connection.sendall(part)
                time.sleep(pause)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        answer = b""
        try:
            while chunk := connection.recv(65_536):
                answer += chunk
        except OSError:
            pass
        return answer


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


@pytest.fixture
def source(tmp_path: Path, disk: FaultyDisk) -> Iterator[HttpSource]:
    opened = HttpSource(
        port=0,
        journal=tmp_path / "journal",
        max_body=1000,
        max_connections=8,
        read_timeout=0.5,
        segment_bytes=2000,
        max_journal=10_000,
        disk=disk,
    )
    opened.open(None)
    yield opened
    opened.close()


def reopened(source: HttpSource, resume: Resume | None = None, **options: Any) -> list[Record]:
    """What a new start finds."""
    source.close()
    source.open(resume, **options)
    return everything(source)


def everything(source: HttpSource) -> list[Record]:
    records: list[Record] = []
    while more := source.read(3, timeout=0):
        records += more
    return records


def test_bodies_are_numbered_and_read_in_order(source: HttpSource) -> None:
    assert source.read(9, timeout=0) == []
    before = time.time()
    for i in range(5):
        status, answer, _ = post(source, b"[%d]" % i)
        assert (status, answer) == (200, {"position": i, "duplicate": False})
    assert source.lag() == 5
    records = everything(source)
    assert [(r.position, r.after, r.value) for r in records] == [
        (i, i + 1, b"[%d]" % i) for i in range(5)
    ]
    assert all(before - 1 < (r.time or 0) < time.time() + 1 for r in records)
    assert source.lag() == 0
    assert not source.done
    resume = Resume(source.identity(), {"": 3})
    assert [r.value for r in reopened(source, resume)] == [b"[3]", b"[4]"]
    assert [r.value for r in reopened(source)] == [b"[%d]" % i for i in range(5)]


def test_a_read_waits_for_a_body(source: HttpSource) -> None:
    timer = threading.Timer(0.2, post, [source])
    timer.start()
    assert len(source.read(9, timeout=20)) == 1
    timer.join()


def test_a_body_sent_twice_with_a_key_counts_once(source: HttpSource) -> None:
    assert post(source, b"[1]", key="a")[1] == {"position": 0, "duplicate": False}
    assert post(source, b"[1]", key="a")[1] == {"position": 0, "duplicate": True}
    assert post(source, b"[2]", key="a")[0] == 409
    assert post(source, b"[1]", key="b")[1] == {"position": 1, "duplicate": False}
    reopened(source)
    assert post(source, b"[1]", key="a")[1] == {"position": 0, "duplicate": True}
    assert len(reopened(source)) == 2


def test_keys_are_kept_after_their_file_is_removed(source: HttpSource, tmp_path: Path) -> None:
    post(source, b"[1]", key="first")
    for _ in range(30):
        post(source, b"1" * 200)
    n_files = len(list((tmp_path / "journal").glob("rows-*")))
    assert n_files > 2
    source.acknowledge({"": 31})
    assert len(list((tmp_path / "journal").glob("rows-*"))) == 1
    assert post(source, b"[1]", key="first")[1] == {"position": 0, "duplicate": True}
    assert reopened(source, Resume(source.identity(), {"": 31})) == []
    assert post(source, b"[1]", key="first")[1] == {"position": 0, "duplicate": True}
    assert post(source, b"[2]")[1]["position"] == 31


def test_only_the_newest_keys_are_kept(tmp_path: Path) -> None:
    journal = Journal(tmp_path, n_keys=3)
    journal.open()
    journal.append([(f"k{i}", b"") for i in range(5)], now=0.0)
    assert [journal.find_key(f"k{i}") is not None for i in range(5)] == [
        False,
        False,
        True,
        True,
        True,
    ]
    journal.close()


@pytest.mark.parametrize("n_keys", [0, 1, 100])
def test_the_same_key_at_the_same_time_counts_once(tmp_path: Path, n_keys: int) -> None:
    disk = FaultyDisk()
    source = HttpSource(port=0, journal=tmp_path, n_keys=n_keys, disk=disk)
    source.open(None)
    disk.slow = 0.3  # so that they come into one group behind the first
    answers: list[Answer] = []
    threads = [threading.Thread(target=post, args=(source, b"[0]"))]
    threads += [
        threading.Thread(target=lambda: answers.append(post(source, b"[1]", key="a")))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
        time.sleep(0.02)
    for thread in threads:
        thread.join()
    disk.slow = 0.0
    assert [status for status, _, _ in answers] == [200] * 6
    assert {answer["position"] for _, answer, _ in answers} == {1}
    assert sum(not answer["duplicate"] for _, answer, _ in answers) == 1
    assert len(everything(source)) == 2
    source.close()


def test_waiting_bodies_share_a_sync(tmp_path: Path) -> None:
    disk = FaultyDisk()
    source = HttpSource(port=0, journal=tmp_path, disk=disk)
    source.open(None)
    before, disk.slow = disk.n_syncs, 0.1
    threads = [threading.Thread(target=post, args=(source,)) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(everything(source)) == 30
    assert disk.n_syncs - before < 15
    source.close()


@pytest.mark.parametrize("fails", ["write", "sync"])
def test_a_body_that_is_not_safe_is_not_confirmed(
    source: HttpSource, disk: FaultyDisk, fails: str
) -> None:
    post(source, b"[0]", key="a")
    disk.fails = fails
    for _ in range(2):
        status, answer, headers = post(source, b"[1]", key="b")
        assert status == 503
        assert "No space left" in answer["detail"]
        assert headers["Retry-After"] == "1"
    assert [r.value for r in everything(source)] == [b"[0]"]
    disk.fails = ""
    assert post(source, b"[1]", key="b")[1] == {"position": 1, "duplicate": False}
    assert post(source, b"[1]", key="b")[1] == {"position": 1, "duplicate": True}
    assert [r.value for r in everything(source)] == [b"[1]"]
    assert [r.value for r in reopened(source)] == [b"[0]", b"[1]"]


@pytest.mark.parametrize("fails", ["create", "write", "sync", "sync_folder"])
def test_a_new_file_that_cannot_be_created_loses_nothing(
    source: HttpSource, disk: FaultyDisk, fails: str
) -> None:
    for _ in range(9):
        post(source, b"1" * 200)  # the next one needs a new file
    disk.fails = fails
    assert post(source, b"[1]", key="b")[0] == 503
    disk.fails = ""
    assert post(source, b"[1]", key="b")[1] == {"position": 9, "duplicate": False}
    assert [r.position for r in reopened(source)] == list(range(10))


def filled(folder: Path, n_bodies: int = 6, *, at_once: int = 1) -> list[Path]:
    """Write a journal of some files and return them."""
    journal = Journal(folder, segment_bytes=200)
    journal.open()
    for i in range(0, n_bodies, at_once):
        group = range(i, min(i + at_once, n_bodies))
        journal.append([(f"k{j}", b"[%d]" % j) for j in group], now=float(i))
    journal.close()
    return sorted(folder.glob("rows-*"))


def bodies(folder: Path) -> list[bytes]:
    journal = Journal(folder, segment_bytes=200)
    journal.open()
    found: list[bytes] = []
    while more := journal.read(len(found)):
        found += [entry.body for entry in more]
    journal.append([("new", b"[new]")], now=0.0)  # it can always be gone on with
    assert journal.find_key("new") == (len(found), journal.find_key("new")[1])  # type: ignore[index]
    journal.close()
    return found


def test_an_incomplete_entry_at_the_end_is_removed(tmp_path: Path) -> None:
    last = filled(tmp_path / "whole")[-1]
    first = int(last.stem.removeprefix("rows-"))
    assert 0 < first < 5
    seen = set()
    for length in range(last.stat().st_size + 1):
        shutil.copytree(tmp_path / "whole", tmp_path / "torn")
        os.truncate(tmp_path / "torn" / last.name, length)
        found = bodies(tmp_path / "torn")
        assert found == [b"[%d]" % i for i in range(len(found))]
        seen.add(len(found))
        shutil.rmtree(tmp_path / "torn")
    assert seen == set(range(first, 7))


@pytest.mark.parametrize("at_once", [1, 6])
def test_a_flipped_bit_is_detected(tmp_path: Path, at_once: int) -> None:
    """A flip in what is known to have been confirmed is told from an end that was torn."""
    paths = filled(tmp_path / "whole", at_once=at_once)
    n_damaged = n_torn = 0
    for path in paths:
        content = path.read_bytes()
        for at in range(0, len(content), 3):
            shutil.copytree(tmp_path / "whole", tmp_path / "flip")
            flipped = content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :]
            (tmp_path / "flip" / path.name).write_bytes(flipped)
            try:
                found = bodies(tmp_path / "flip")
            except SourceRegressed as error:
                assert "damaged" in str(error)
                n_damaged += 1
            else:
                assert path == paths[-1]
                assert found == [b"[%d]" % i for i in range(len(found))]
                assert len(found) == 5 or at_once == 6  # only the last group may have been torn
                n_torn += 1
            shutil.rmtree(tmp_path / "flip")
    assert n_torn > 0
    assert n_damaged > 0 or at_once == 6


def test_a_missing_file_in_the_middle_is_reported(tmp_path: Path) -> None:
    filled(tmp_path, 12)
    paths = sorted(tmp_path.glob("rows-*"))
    assert len(paths) > 2
    paths[1].unlink()
    with pytest.raises(SourceRegressed, match="damaged"):
        bodies(tmp_path)


def test_another_journal_raises_source_changed(source: HttpSource, tmp_path: Path) -> None:
    post(source)
    resume = Resume(source.identity(), {"": 1})
    source.close()
    shutil.rmtree(tmp_path / "journal")
    with pytest.raises(SourceChanged, match=r"body 1.*--accept-gap"):
        source.open(resume)
    source.open(resume, accept_gap=True)
    assert post(source)[1]["position"] == 0
    assert len(everything(source)) == 1


def test_a_journal_that_lost_its_end_raises_source_regressed(
    source: HttpSource, tmp_path: Path
) -> None:
    for _ in range(3):
        post(source)
    resume = Resume(source.identity(), {"": 3})
    source.close()
    (path,) = (tmp_path / "journal").glob("rows-*")
    os.truncate(path, path.stat().st_size - 5)
    with pytest.raises(SourceRegressed, match=r"0 to 2.*body 3.*--accept-gap"):
        source.open(resume)
    assert [r.position for r in reopened(source, resume, accept_gap=True)] == [0, 1]


def test_a_journal_that_lost_its_beginning_raises_source_gap(source: HttpSource) -> None:
    for _ in range(30):
        post(source, b"1" * 200)
    resume = Resume(source.identity(), {"": 2})
    source.acknowledge({"": 25})
    source.close()
    with pytest.raises(SourceGap, match=r"body 2.*--accept-gap"):
        source.open(resume)
    found = reopened(source, resume, accept_gap=True)
    assert 2 < found[0].position <= 25
    assert [r.position for r in found] == list(range(found[0].position, 30))


def test_a_full_journal_returns_503(source: HttpSource) -> None:
    while (answer := post(source, b"1" * 900))[0] == 200:
        pass
    status, said, headers = answer
    assert (status, headers["Retry-After"]) == (503, "1")
    assert "behind" in said["detail"]
    assert get(source, "/healthz")[0] == 503
    records = everything(source)
    source.acknowledge({"": records[-1].after})
    assert post(source, b"1" * 900)[0] == 200


def get(source: HttpSource, path: str) -> Answer:
    connection = http.client.HTTPConnection(source.address.removeprefix("http://"), timeout=20)
    try:
        connection.request("GET", path)
        return answer_of(connection)
    finally:
        connection.close()


def test_healthz_returns_the_position(source: HttpSource) -> None:
    post(source)
    assert get(source, "/healthz")[:2] == (200, {"status": "ok", "position": 1})
    assert get(source, "/rows")[0] == 404


@pytest.mark.parametrize(
    ("expected", "request_"),
    [
        (404, {"path": "/"}),
        (413, {"body": b"1" * 1001}),
        (413, {"body": b"1" * 3_000_000}),
        (400, {"body": b""}),
        (400, {"key": "a" * 201}),
        (400, {"key": "\xe9"}),
        (403, {"Origin": "http://evil.example"}),
        (415, {"Content_Encoding": "gzip"}),
        (411, {"body": b"3\r\n[1]\r\n0\r\n\r\n", "Transfer_Encoding": "chunked"}),
    ],
)
def test_invalid_requests_are_rejected(
    source: HttpSource, expected: int, request_: dict[str, Any]
) -> None:
    status, answer, headers = post(source, **request_)
    assert status == expected
    assert answer["detail"].endswith(".")
    assert headers["Connection"] == "close"
    assert source.lag() == 0
    assert post(source)[0] == 200


@pytest.mark.parametrize(
    "head",
    [
        b"POST /rows HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /rows HTTP/1.1\r\nContent-Length: 1_0\r\n\r\n",
        b"POST /rows HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n[1]",
        b"POST /rows HTTP/1.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
        b"POST /rows HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n[1]",
        b"POST /rows HTTP/1.1\r\n\r\n[1]",
        b"POST /rows HTTP/9.9\r\nContent-Length: 3\r\n\r\n[1]",
        b"POST /rows" + b"a" * 70_000,
        b"POST /rows HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n",
        b"\x00\xff\r\n\r\n",
    ],
)
def test_no_request_stops_the_server(source: HttpSource, head: bytes) -> None:
    answer = raw(source, head)
    assert answer
    assert not answer.startswith(b"HTTP/1.1 200")
    assert source.lag() == 0
    assert post(source)[0] == 200


def test_a_connection_is_kept_for_more_bodies(source: HttpSource) -> None:
    connection = http.client.HTTPConnection(source.address.removeprefix("http://"), timeout=20)
    for i in range(3):
        connection.request("POST", "/rows", b"[1]")
        assert answer_of(connection)[1]["position"] == i
    connection.close()


def test_half_a_body_does_not_count(source: HttpSource) -> None:
    raw(source, b"POST /rows HTTP/1.1\r\nContent-Length: 10\r\n\r\n[1]")
    assert post(source, b"[2]")[1]["position"] == 0


def test_slow_bodies_are_dropped(source: HttpSource) -> None:
    head = b"POST /rows HTTP/1.1\r\nContent-Length: 100\r\n\r\n"
    started = time.monotonic()
    assert raw(source, head, *[b"1"] * 20, pause=0.1).startswith(b"HTTP/1.1 408")
    assert time.monotonic() - started < 10
    assert source.lag() == 0


def test_requests_beyond_max_connections_get_503(source: HttpSource) -> None:
    host, port = source.address.removeprefix("http://").split(":")
    push = b"POST /rows HTTP/1.0\r\nContent-Length: 3\r\n\r\n[1]"
    idle = [socket.create_connection((host, int(port))) for _ in range(8)]
    time.sleep(0.2)
    try:
        assert raw(source, push).startswith(b"HTTP/1.1 503")
        assert raw(source, b"GET /healthz HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200")
    finally:
        for connection in idle:
            connection.close()
    deadline = time.monotonic() + 10
    while not raw(source, push, pause=0.5).startswith(b"HTTP/1.1 200"):
        assert time.monotonic() < deadline


def test_continue_is_sent_only_for_accepted_bodies(source: HttpSource) -> None:
    head = b"POST /rows HTTP/1.1\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n"
    assert raw(source, head % 5000, pause=0.1).startswith(b"HTTP/1.1 413")
    answer = raw(source, head % 3, b"[1]", pause=0.1)
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200")


def test_the_token_is_required_if_set(tmp_path: Path) -> None:
    source = HttpSource(port=0, journal=tmp_path, token="canary-4711")
    source.open(None)
    try:
        for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Bearer canary-471é"}):
            status, answer, sent = post(source, **headers)
            assert status == 401
            assert sent["WWW-Authenticate"] == "Bearer"
            assert "canary" not in json.dumps(answer)
        assert post(source, path="/x")[0] == 401  # who has no token learns nothing
        right = {"Authorization": "Bearer canary-4711"}
        assert post(source, **right)[0] == 200
        assert post(source, Origin="http://page.example", **right)[0] == 200
        assert get(source, "/healthz")[0] == 200
        assert "canary" not in repr(vars(source)) + repr(source) + str(source.identity())
    finally:
        source.close()


@pytest.mark.parametrize(
    "options",
    [
        {"host": "0.0.0.0"},
        {"host": ""},
        {"host": "example.org"},
        {"host": "::"},
        {"token": ""},
        {"token": "a\nb"},
        {"start": "middle"},
        {"start": True},
        {"port": 70_000},
        {"max_body": 0},
        {"max_journal": 100},
    ],
)
def test_wrong_settings_are_rejected_at_once(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"\.$"):
        HttpSource(**({"port": 0, "journal": tmp_path} | options))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.2", "::1"])
def test_loopback_needs_no_token(tmp_path: Path, host: str) -> None:
    HttpSource(port=0, journal=tmp_path, host=host)


def test_a_port_in_use_is_reported(source: HttpSource, tmp_path: Path) -> None:
    port = int(source.address.rsplit(":", 1)[1])
    second = HttpSource(port=port, journal=tmp_path / "journal")
    with pytest.raises(StreamError, match="running already"):
        second.open(None)


@pytest.mark.parametrize(("start", "expected"), [("first", 3), ("last", 0), (1, 2)])
def test_a_run_without_checkpoint_starts_at_start(
    tmp_path: Path, start: Any, expected: int
) -> None:
    filled(tmp_path, 3)
    source = HttpSource(port=0, journal=tmp_path, start=start)
    source.open(None)
    assert len(everything(source)) == expected
    source.close()


def test_confirmed_bodies_survive_a_close_under_load(tmp_path: Path) -> None:
    source = HttpSource(port=0, journal=tmp_path)
    source.open(None)
    address = source.address.removeprefix("http://")
    confirmed: set[int] = set()

    def push() -> None:
        connection = http.client.HTTPConnection(address, timeout=20)
        try:
            while True:
                connection.request("POST", "/rows", b"[1]")
                status, answer, _ = answer_of(connection)
                if status != 200:
                    return
                confirmed.add(answer["position"])
        except (OSError, http.client.HTTPException):
            pass
        finally:
            connection.close()

    threads = [threading.Thread(target=push) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    source.close()
    for thread in threads:
        thread.join()
    source.open(None)
    assert confirmed
    assert confirmed <= {record.position for record in everything(source)}
    source.close()


SERVER = """
import sys, time
from scstream.stream.connectors.http import HttpSource
source = HttpSource(port=0, journal=sys.argv[1], segment_bytes=4000, max_journal=10**8)
source.open(None)
print(source.address, flush=True)
while True:
    time.sleep(1)
"""


def push_until(stop: threading.Event, address: list[str], client: int, confirmed: Any) -> None:
    """Send body after body, each with its key until it is confirmed, to where the server is now."""
    number = 0
    while not stop.is_set():
        key = f"{client}-{number}"
        try:
            connection = http.client.HTTPConnection(address[0], timeout=5)
            connection.request("POST", "/rows", key.encode(), {"Idempotency-Key": key})
            status, answer, _ = answer_of(connection)
            connection.close()
        except (OSError, http.client.HTTPException, ValueError):
            time.sleep(0.01)
            continue
        if status == 200:
            confirmed[key] = answer["position"]
            number += 1


def test_kill_9_loses_and_repeats_nothing(tmp_path: Path) -> None:
    n_kills, address, stop = 4, [""], threading.Event()
    confirmed: list[dict[str, int]] = [{} for _ in range(3)]
    threads = [
        threading.Thread(target=push_until, args=(stop, address, client, confirmed[client]))
        for client in range(len(confirmed))
    ]
    for i in range(n_kills):
        command = [sys.executable, "-c", SERVER, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout
            address[0] = server.stdout.readline().strip().removeprefix("http://")
            for thread in threads if i == 0 else []:
                thread.start()
            time.sleep(0.4)
            server.kill()
    stop.set()
    for thread in threads:
        thread.join()
    source = HttpSource(port=0, journal=tmp_path, segment_bytes=4000, max_journal=10**8)
    source.open(None)
    records = everything(source)
    source.close()
    found = {bytes(record.value).decode(): record.position for record in records}
    assert len(found) == len(records)  # no body twice
    for client in confirmed:
        assert len(client) > n_kills
        assert client.items() <= found.items()
    assert len(found) - sum(map(len, confirmed)) <= len(confirmed)  # one each without an answer


def test_doctor_reports_who_can_push(tmp_path: Path) -> None:
    found = HttpSource(port=0, journal=tmp_path / "j").doctor()
    assert {f.about: f.level for f in found} | {"space": ""} == {
        "journal": "ok",
        "token": "note",
        "space": "",
    }
    found = HttpSource(port=0, journal=tmp_path, host="0.0.0.0", token="t").doctor()
    assert "encryption" in [f.about for f in found if f.level == "warn"]
    assert not (tmp_path / "j").exists()
