"""Health and latency while 500 connections are busy, and while 1,000 slow sockets are open."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from benchmarks.serve.subject import N_ROWS, Blobs, body_of, served
from benchmarks.serve.wrk import wrk
from benchmarks.speed.machine import describe, sentence
from scstream import ScStream

ROUNDS = 3
FLOODS = ("none", "500 busy", "1,000 slow")  # "none" shows what the machine itself does
BUSY = 500  # connections
SLOW = 1000  # sockets, of one address
CALM = 4  # connections that predict beside slow sockets
_GET = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
_HEAD = b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nX-Slow: "


def run(seconds: float = 20.0) -> list[dict[str, Any]]:
    """Measure every flood a few times, against a service of its own, and once without a flood."""
    blobs = Blobs()
    model = ScStream(random_state=0)
    for _ in range(5):
        model.partial_fit(blobs.rows(5_000))
    body = body_of(blobs.rows(N_ROWS))
    machine = sentence(describe())
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "model.scstream")
        model.save(file)
        return [
            {"run": run, "flood": flood, **_measure(file, body, flood, seconds), "machine": machine}
            for run in range(1, ROUNDS + 1)
            for flood in FLOODS
        ]


def _measure(file: Path, body: bytes, flood: str, seconds: float) -> dict[str, Any]:
    connections = BUSY if flood == "500 busy" else CALM
    with served(str(file), log=file.with_name("log")) as (url, _):
        slow = _Slow(url) if flood == "1,000 slow" else None
        health = _Health(url)
        load = wrk(f"{url}/predict", body, seconds=seconds, connections=connections)
        late = health.stop()
        if slow is not None:
            slow.stop()
    return {
        "connections": connections,
        "requests": load.requests,
        "errors": load.errors,
        "p50, ms": round(load.p50 / 1000, 2),
        "p99, ms": round(load.p99 / 1000, 2),
        "p99 / p50": round(load.p99 / load.p50, 2),
        "probes": len(late),
        "failed probes": int(np.isinf(late).sum()),
        "health p50, ms": round(1000 * float(np.median(late)), 1),
        "health max, ms": round(1000 * max(late), 1),
        "load": round(os.getloadavg()[0], 1),
    }


class _Health:
    """Asks for /healthz ten times a second, on a connection of its own each time."""

    def __init__(self, url: str) -> None:
        self._place = (urlsplit(url).hostname, urlsplit(url).port)
        self._seconds: list[float] = []
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> list[float]:
        """Return the seconds of every probe; infinite for one that failed."""
        self._end.set()
        self._thread.join()
        return self._seconds

    def _run(self) -> None:
        while not self._end.wait(0.1):
            start = time.perf_counter()
            try:
                # An address of its own, as that of a kubelet.
                with socket.create_connection(self._place, 10.0, ("127.0.0.3", 0)) as link:  # type: ignore[arg-type]
                    link.sendall(_GET)
                    answered = link.recv(100).startswith(b"HTTP/1.1 200")
            except OSError:
                answered = False
            seconds = time.perf_counter() - start
            self._seconds.append(seconds if answered else float("inf"))


class _Slow:
    """Sockets that send a byte of a request now and then, and open again if they are closed."""

    def __init__(self, url: str) -> None:
        self._place = (urlsplit(url).hostname, urlsplit(url).port)
        self._end = threading.Event()
        self._links = [self._open() for _ in range(SLOW)]
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        """Close them."""
        self._end.set()
        self._thread.join()
        for link in self._links:
            link.close()

    def _open(self) -> socket.socket:
        # Another address than that of the clients that predict, as an attacker has.
        link = socket.create_connection(self._place, 10.0, source_address=("127.0.0.2", 0))  # type: ignore[arg-type]
        link.sendall(_HEAD)
        return link

    def _run(self) -> None:
        while not self._end.wait(1.0):
            for i, link in enumerate(self._links):
                try:
                    link.sendall(b"a")
                except OSError:
                    link.close()
                    self._links[i] = self._open()
