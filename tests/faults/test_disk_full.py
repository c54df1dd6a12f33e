"""A full disk, and one that fails, under a real pipeline: it stops with a sentence and goes on."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.ends import FileEnds, messages
from tests.faults.kill_loop import model_of, settings_of

N_ROWS = 2000
ROOT = Path(__file__).resolve().parents[2]
RUN = """
import json, sys
from scstream.errors import DiskFull
from scstream.stream.config import build
try:
    build(json.loads(sys.argv[1])).run(until=50)
except DiskFull as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
except OSError as error:
    print(error.errno, error, file=sys.stderr)
    sys.exit(3)
"""


def run(settings, *before, limit=None):
    """Run a pipeline in a process of its own; its exit code, and what it says."""

    def prepare():
        if limit is not None:
            signal.signal(
                signal.SIGXFSZ, signal.SIG_IGN
            )  # so that a write fails, as on a full disk
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    found = subprocess.run(
        [*before, sys.executable, "-c", RUN, json.dumps(settings)],
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=prepare,
        timeout=120,
    )
    return found.returncode, found.stderr


def begun(folder, name):
    """A file of rows, and the settings of a pipeline that writes to the same folder."""
    folder.mkdir(exist_ok=True)
    ends = FileEnds(folder)
    ends.fill(name, messages(N_ROWS))
    return ends, settings_of(ends, name, folder, None)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Labels and model of a run with room enough."""
    folder = tmp_path_factory.mktemp("whole")
    ends, settings = begun(folder, "a")
    assert run(settings) == (0, "")
    return ends.labels("a"), model_of(folder, "a")


def assert_whole(ends, folder, whole):
    assert ends.labels("a") == whole[0]
    assert model_of(folder, "a") == whole[1]


@contextlib.contextmanager
def small_disk(folder, kilobytes):
    """A file system of its own, so small that it will be full; only root can mount one."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)]
    subprocess.run(mount, check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def can_mount(folder):
    try:
        with small_disk(folder / "probe", 64):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


def test_a_full_disk_stops_the_pipeline_and_loses_nothing(tmp_path, whole):
    """On a file system of its own where one may be mounted, else by a limit on files."""
    if can_mount(tmp_path):
        with small_disk(tmp_path / "small", 400):
            _fill_and_clear(tmp_path / "small", whole)
    else:
        _limited(tmp_path / "limited", whole)


def _fill_and_clear(folder, whole):
    ends, settings = begun(folder, "a")
    filler = folder / "filler"
    room = shutil.disk_usage(folder).free
    stopped = 0
    for left in (20_000, 60_000, 80_000, 100_000, 120_000):  # room for a few batches more each time
        filler.write_bytes(bytes(max(room - left, 0)))
        code, detail = run(settings)
        stopped += code != 0
        if code:
            assert code == 17, detail
            assert "free space and start again" in detail, detail
            assert "No space left" in detail, detail
        filler.unlink()
    assert stopped >= 3
    assert run(settings) == (0, "")
    assert_whole(ends, folder, whole)


def test_a_limit_on_files_stops_the_pipeline_and_loses_nothing(tmp_path, whole):
    _limited(tmp_path / "limited", whole)


def _limited(folder, whole):
    ends, settings = begun(folder, "a")
    for limit in (6_000, 40_000, 60_000):
        code, detail = run(settings, limit=limit)
        assert code == 3, detail
        assert "File too large" in detail, detail
    assert run(settings) == (0, "")
    assert_whole(ends, folder, whole)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("fsync", "EIO"),
        ("write", "EIO"),
        ("link", "EIO"),
        ("openat", "ENOSPC"),
    ],
)
def test_a_failed_system_call_stops_the_pipeline_and_loses_nothing(tmp_path, whole, call, error):
    """Once per run, ever later, by the tracer of the system."""
    assert shutil.which("strace"), "this test needs strace; install it: apt install strace"
    ends, settings = begun(tmp_path / "traced", "a")
    state, labels = settings["checkpoint"]["folder"], settings["sink"]["path"]
    Path(state).mkdir()
    only = [] if call == "link" else ["-P", state, "-P", labels]  # only a store makes links
    stopped = 0
    for when in (1, 12):
        inject = ["-e", f"trace={call}", "-e", f"inject={call}:error={error}:when={when}"]
        code, detail = run(settings, "strace", "-f", "-qq", "-o", os.devnull, *only, *inject)
        assert code in (0, 17 if error == "ENOSPC" else 3), detail
        stopped += code != 0
    assert stopped >= 1
    assert run(settings)[0] == 0
    assert_whole(ends, tmp_path / "traced", whole)
