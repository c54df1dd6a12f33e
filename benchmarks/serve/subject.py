"""The model that is asked, the rows that it is asked about, and the service as a user starts it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np
from numpy.typing import NDArray

N_FEATURES = 16
N_CLUSTERS = 50
N_ROWS = 100  # of a body
Rows = NDArray[np.float64]


class Blobs:
    """Rows around centres that may wander."""

    def __init__(self, seed: int = 0, *, wander: float = 0.0) -> None:
        self._rng = np.random.default_rng(seed)
        self._centres = 6.0 * self._rng.normal(size=(N_CLUSTERS, N_FEATURES))
        self._wander = wander

    def rows(self, n_rows: int) -> Rows:
        """Draw rows; the centres go on."""
        self._centres += self._wander * self._rng.normal(size=self._centres.shape)
        chosen = self._rng.integers(N_CLUSTERS, size=n_rows)
        return self._centres[chosen] + self._rng.normal(size=(n_rows, N_FEATURES))


def body_of(rows: Rows) -> bytes:
    """A body as clients send it, numbers with as many digits as they have."""
    columns = {f"x{d}": rows[:, d].tolist() for d in range(rows.shape[1])}
    return json.dumps({"columns": columns}).encode()


def command(*arguments: str) -> list[str]:
    """The command line of scstream."""
    return [sys.executable, "-m", "scstream.cli", *arguments]


@contextmanager
def served(place: str, *options: str, log: Path) -> Iterator[tuple[str, int]]:
    """Start the service and wait until it is ready: its address and process."""
    port = free_port()
    with log.open("wb") as stderr:
        service = subprocess.Popen(
            command("serve", place, "--port", str(port), *options), stderr=stderr
        )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until_ready(f"{url}/readyz", seconds=60)
        yield url, service.pid
    finally:
        service.terminate()
        code = service.wait(30)
        if code != 0:
            raise SystemExit(f"the service ended with {code}: {log.read_text()[-2000:]}")


def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_ready(url: str, *, seconds: float) -> None:
    """Wait until a service answers with 200."""
    end = time.monotonic() + seconds
    while True:
        try:
            with urlopen(url, timeout=2):
                return
        except (URLError, OSError):
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def resident(pid: int) -> float:
    """Megabytes that a process has in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 2**20
