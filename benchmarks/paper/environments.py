"""Interpreters for the methods: this one, or an environment built from ``environments/<name>.txt``.

The first line of such a file says which Python it needs (``# python 3.9``), the others are
requirements, pinned. Environments stand in the cache folder and are built once, on demand.

R's `stream` (D-Stream, BICO, evoStream) is missing: it is on CRAN only, which a machine that
installs from PyPI and Debian alone cannot reach.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).parents[2]
REQUIREMENTS = Path(__file__).parent / "environments"
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")


class Unavailable(RuntimeError):
    """An environment cannot be had here; the message says why."""


def cache() -> Path:
    """Folder for what can be built again."""
    return Path(os.environ.get("SCSTREAM_CACHE", Path(__file__).parents[1] / ".cache"))


def interpreter(name: str) -> Path:
    """The Python of an environment, built first if it is not there; "" is this one."""
    if not name:
        return Path(sys.executable)
    folder = cache() / "environments" / name
    python, wanted = folder / "bin" / "python", REQUIREMENTS / f"{name}.txt"
    done = folder / "requirements.txt"
    if not done.exists() or done.read_text() != wanted.read_text():
        shutil.rmtree(folder, ignore_errors=True)
        build(wanted, folder, python)
        shutil.copyfile(wanted, done)
    return python


def build(wanted: Path, folder: Path, python: Path) -> None:
    """Create a virtual environment and install the requirements."""
    version = wanted.read_text().splitlines()[0].removeprefix("# python ")
    folder.parent.mkdir(parents=True, exist_ok=True)
    run([find_python(version), "-m", "venv", str(folder)], f"no environment {wanted.stem}")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*pip, "-r", str(wanted)], f"{wanted.stem} cannot be installed on Python {version}")


def find_python(version: str) -> str:
    """A Python of this version: this one, one on the path, or one that pyenv or uv keeps."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return sys.executable
    candidates = [shutil.which(f"python{version}")]
    for keeper in (Path.home() / ".pyenv/versions", Path.home() / ".local/share/uv/python"):
        candidates += map(str, sorted(keeper.glob(f"*{version}.*/bin/python{version}")))
    for candidate in filter(None, candidates):
        asked = subprocess.run([candidate, "-c", ""], capture_output=True, check=False)
        if asked.returncode == 0:
            return candidate
    raise Unavailable(f"Python {version} is not on this machine; `uv python install {version}`.")


def run(command: list[str], trouble: str) -> None:
    """Run a command, and say in one sentence why it failed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = next((x for x in reversed(done.stderr.splitlines()) if "ERROR" in x.upper()), "")
        raise Unavailable(f"{trouble}: {last.strip() or f'exit code {done.returncode}'}")


def launch(name: str, stderr: TextIO | None = None) -> subprocess.Popen[str]:
    """Start a worker in an environment, on one thread; write requests to it, read its answers.

    It is out of reach of the terminal's interrupts.
    """
    threads = dict.fromkeys(THREADS, "1")
    return subprocess.Popen(
        [str(interpreter(name)), "-m", "benchmarks.paper.worker"],
        cwd=ROOT,
        env={**os.environ, **threads},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        start_new_session=True,
    )
