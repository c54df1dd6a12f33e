"""However many small messages hold many rows, only so many rows are decoded at once."""

from threading import Event

import numpy as np
import pytest

from scstream.io.budget import MAX_READ
from scstream.stream.arrow import stream_bytes
from scstream.stream.decoders import DecodingReader
from scstream.stream.decoding_process import _decoded
from scstream.stream.messages import reader
from scstream.stream.queues import PrefetchingReader, SyncReader, decoded_size
from scstream.stream.schema import Schema
from scstream.stream.source import Record
from tests.stream.memory import MemorySource

N_MESSAGES, N_ROWS = 40, 2**18
ROW_BYTES = 16
BOUND = MAX_READ + ROW_BYTES * N_ROWS  # one message may go beyond


class WholeSource(MemorySource):
    """Returns as many messages as it may."""

    def read(self, max_n, timeout):
        messages, at = self.partitions[""], self._at[""]
        self._at[""] = min(at + max_n, len(messages))
        return [Record(i, i + 1, messages[i]) for i in range(at, self._at[""])]


@pytest.fixture(scope="module")
def bombs():
    """Messages of some kB each that decode to 160 MB together."""
    pa = pytest.importorskip("pyarrow")
    zeros = np.zeros(N_ROWS, dtype=np.int8)
    table = pa.table({"x": zeros, "y": zeros})
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
        stream.write_table(table)
    first = stream_bytes({"x": np.zeros(1), "y": np.zeros(1)})
    return [first, *[sink.getvalue().to_pybytes()] * N_MESSAGES]


def arrow_reader():
    return reader("arrow", Schema(features=("x", "y")))


def opened(kind, messages, **how):
    source = WholeSource({"": messages})
    source.open(None)
    return kind(source, arrow_reader(), Event(), **how)


@pytest.mark.parametrize("kind", [SyncReader, PrefetchingReader, DecodingReader])
def test_one_read_decodes_so_many_bytes_and_the_next_continues(bombs, kind):
    assert sum(map(len, bombs)) < 2**20
    how = {"n_processes": 1} if kind is DecodingReader else {}
    positions, sizes = [], []
    with opened(kind, bombs, **how) as reading:
        while not reading.done:
            pairs = reading.read()
            positions += [record.position for record, _ in pairs]
            sizes.append(decoded_size(pairs))
    assert positions == list(range(1 + N_MESSAGES))
    assert sum(sizes) == ROW_BYTES * (1 + N_MESSAGES * N_ROWS)
    assert max(sizes) <= (BOUND if kind is SyncReader else 2 * BOUND)


def test_a_decoding_process_answers_in_parts(bombs):
    parts = list(_decoded(arrow_reader(), [memoryview(message) for message in bombs]))
    assert sum(len(blocks) for _, blocks in parts) == 1 + N_MESSAGES
    assert max(size for size, _ in parts) <= BOUND
