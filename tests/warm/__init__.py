"""The command line without the second that its imports take.

A server (`tests.warm.server`) has imported the command line and forks for every command. The
program `tests/warm/client.py` stands for `scstream`: it hands over its arguments, folder,
environment and open files, forwards signals and ends with the same code. What depends on how a
process starts needs the real command: another import path, a preloaded library, a resource limit.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

CLIENT = Path(__file__).with_name("client.py")
ROOT = Path(__file__).resolve().parents[2]


def command() -> list[str]:
    """Return the command that stands for `scstream`."""
    return [sys.executable, "-I", "-S", str(CLIENT), str(_folder() / "socket")]


@cache
def programs() -> Path:
    """Return a folder whose program `scstream` is that command, for `PATH`."""
    folder = _folder() / "bin"
    folder.mkdir()
    script = folder / "scstream"
    script.write_text("#!/bin/sh\nexec " + " ".join(map(repr, command())) + ' "$@"\n')
    script.chmod(0o755)
    return folder


@cache
def _folder() -> Path:
    """Start the server; it ends with this process."""
    folder = Path(tempfile.mkdtemp(prefix="scstream-warm-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SCSTREAM_")}
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.warm.server", str(folder / "socket")],
        cwd=ROOT,
        env=kept | {"OPENBLAS_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    atexit.register(server.kill)
    return folder
