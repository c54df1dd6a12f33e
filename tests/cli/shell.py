"""The command line as a user has it: a process of its own, with rows in a file."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests import warm

COMMAND = [sys.executable, "-m", "scstream.cli"]  # the real one, see `tests.warm`
SECONDS = 240.0


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SCSTREAM_")}
    if "PYTHONPATH" in more and "PYTHONPATH" in kept:  # the package may be found only there
        more["PYTHONPATH"] += os.pathsep + kept["PYTHONPATH"]
    return kept | {"OPENBLAS_NUM_THREADS": "1", "COLUMNS": "100"} | more


def _command(more: dict[str, str]) -> list[str]:
    return COMMAND if "PYTHONPATH" in more else warm.command()


def scstream(
    *arguments: object, folder: Path, given: str | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [*_command(more), *map(str, arguments)],
        cwd=folder,
        env=environment(**more),
        input=given,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


class Running:
    """A command that runs, and what it has logged so far."""

    def __init__(self, process: subprocess.Popen[Any], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def text(self) -> str:
        return self._log.read_text()

    def wait_for(self, event: str, n: int = 1) -> dict[str, Any]:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            found = [line for line in logged(self.text) if line["event"] == event]
            if len(found) >= n:
                return found[n - 1]
            assert self.process.poll() is None or len(found) >= n, self.text
            time.sleep(0.02)
        raise AssertionError(f"no {event} in {self.text}")

    def end(self, how: signal.Signals) -> int:
        self.process.send_signal(how)
        return self.process.wait(timeout=SECONDS)


@contextlib.contextmanager
def running(*arguments: object, folder: Path, **more: str) -> Iterator[Running]:
    log = folder / f"log-{time.monotonic_ns()}.txt"
    with (
        log.open("w") as file,
        subprocess.Popen(
            [*_command(more), *map(str, arguments)],
            cwd=folder,
            env=environment(**more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=file,
            text=True,
        ) as process,
    ):
        try:
            yield Running(process, log)
        finally:
            process.kill()


def logged(text: str) -> list[dict[str, Any]]:
    """Lines of a log; the last one may not be whole yet."""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def write_rows(path: Path, n_rows: int, *, seed: int = 0) -> None:
    """Rows of four clusters as CSV."""
    rng = np.random.default_rng(seed)
    centers = np.array([[0, 0], [5, 0], [0, 5], [5, 5]])[rng.integers(0, 4, n_rows)]
    rows = centers + 0.3 * rng.normal(size=(n_rows, 2))
    lines = [f"n{i},{x:.4f},{y:.4f}\n" for i, (x, y) in enumerate(rows)]
    path.write_text("name,x,y\n" + "".join(lines))


PIPELINE = """\
job = "demo"

[source]
kind = "file"
path = "rows.csv"

[schema]
keep = ["name"]

[batch]
rows = 100

[sink]
kind = "file"
path = "labels.csv"

[checkpoint]
folder = "state"
batches = 5
"""
