"""Several decoding processes give the rows of one, in order, whatever happens to them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from scstream.errors import InputError, StreamError
from scstream.preprocess.block import Block
from scstream.stream.config import build
from scstream.stream.frames import pack, unpack
from scstream.stream.schema import Schema
from tests.stream.deadly_reader import DeadlyReader
from tests.stream.memory import MemorySink, MemorySource
from tests.stream.test_runner import messages, pipeline

BAD = (0, 1, 500, 999)  # the first message too: features come from the first valid row


class KillingSource(MemorySource):
    """Kills a decoding process at some of its reads."""

    n_killed = 0

    def read(self, max_n, timeout):
        found = child_processes(os.getpid())
        if found and self.n_killed < 3:
            os.kill(found[0], signal.SIGKILL)
            self.n_killed += 1
        return super().read(min(max_n, 5), timeout)


def child_processes(pid):
    """Return the decoding processes of a process."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            command = Path(path.parent, "cmdline").read_bytes()
        except OSError:  # it has just ended
            continue
        if parent == pid and b"scstream.stream.decoding_process" in command:
            found.append(int(path.parent.name))
    return found


def results(folder, source, **changes):
    sink, dead_letters = MemorySink(), MemorySink()
    changes = {"dead_letters": dead_letters, "threads": True, **changes}
    pipeline(folder, source, sink, **changes).run()
    return sink.rows, dead_letters.rows


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    source = MemorySource({"": messages(bad=BAD)})
    return results(tmp_path_factory.mktemp("one"), source, threads=False)


def test_the_number_of_processes_changes_nothing(tmp_path, expected):
    source = MemorySource({"": messages(bad=BAD)})
    assert results(tmp_path, source, decoders=3) == expected
    assert not child_processes(os.getpid())


def test_killed_processes_are_replaced_and_no_message_is_lost(tmp_path, expected):
    source = KillingSource({"": messages(bad=BAD)})
    assert results(tmp_path, source, decoders=2) == expected
    assert source.n_killed == 3


def test_a_message_that_ends_every_process_stops_the_pipeline(tmp_path):
    source = MemorySource({"": messages()})
    with pytest.raises(StreamError, match=r"3 decoding processes ended \(exit code 7\)"):
        results(tmp_path, source, reader=DeadlyReader(Schema(keep=("id",))), decoders=2)


def test_processes_end_with_a_pipeline_that_is_killed(tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_bytes(b"\n".join(messages()))
    script = (
        "from scstream.stream.config import build\n"
        f"source = {{'kind': 'file', 'path': {str(rows)!r}, 'follow': True, 'decoders': 2}}\n"
        f"checkpoint = {{'folder': {str(tmp_path / 'state')!r}}}\n"
        "build({'source': source, 'checkpoint': checkpoint}).run()"
    )
    with subprocess.Popen([sys.executable, "-c", script]) as process:
        waiting = wait_until(lambda: len(child_processes(process.pid)) == 2)
        children = child_processes(process.pid)
        process.kill()
    assert waiting
    assert wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children))


def wait_until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def test_packed_values_have_the_same_bits_and_can_be_written():
    X = np.random.default_rng(0).normal(size=(3000, 16))
    X[0, 0] = np.nan
    names = np.array(["a", None, 1.5] * 1000, dtype=object)
    again = unpack([memoryview(bytes(part)) for part in pack([Block.of(X, name=names)])])[0]
    assert again.X.tobytes() == X.tobytes() and again.X.flags.c_contiguous
    assert again.extra["name"].tolist() == names.tolist()


@pytest.mark.parametrize("number", [-1, 65, 1.5, True, "2"])
def test_the_number_of_processes_is_checked(number):
    with pytest.raises(InputError, match="whole number from 0 to 64"):
        build({"source": {"kind": "stdin", "decoders": number}})


def test_processes_need_threads():
    with pytest.raises(InputError, match="needs threads"):
        build({"source": {"kind": "stdin", "decoders": 2}, "threads": False})
