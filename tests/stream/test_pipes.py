"""Standard input and output: every line once, and a plain word about what a pipe cannot do."""

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scstream.errors import InputError, SourceChanged
from scstream.stream.connectors.pipes import StdinSource, StdoutSink
from scstream.stream.schema import Schema
from scstream.stream.sink import Delivery
from scstream.stream.source import Record, Resume


class Pipe:
    """A source and the end that is written to."""

    def __init__(self, **options: Any) -> None:
        self.reads, self.writes = os.pipe()
        self.source = StdinSource(descriptor=self.reads, **options)

    def end(self) -> None:
        os.close(self.writes)
        self.writes = -1

    def rest(self) -> list[Record]:
        records: list[Record] = []
        deadline = time.monotonic() + 20
        while not self.source.done:
            assert time.monotonic() < deadline
            records += self.source.read(10, timeout=1)
        return records

    def close(self) -> None:
        if self.writes >= 0:
            self.end()
        self.source.close()
        if self.source._thread:
            self.source._thread.join(10)
        os.close(self.reads)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    opened = Pipe()
    opened.source.open(None)
    yield opened
    opened.close()


@given(st.lists(st.binary(max_size=9)), st.integers(1, 20))
def test_all_lines_are_read_in_order(chunks: list[bytes], size: int) -> None:
    content = b"\n".join(chunks)
    opened = Pipe()
    opened.source.open(None)
    for start in range(0, len(content), size):
        os.write(opened.writes, content[start : start + size])
    opened.end()
    records = opened.rest()
    opened.close()
    assert b"".join(record.value for record in records) == content
    ends = [0, *(record.after for record in records)]
    assert [record.position for record in records] == ends[:-1]
    assert ends[-1] == len(_lines(content))


def _lines(content: bytes) -> list[bytes]:
    parts = content.split(b"\n")
    return parts[:-1] if parts[-1] == b"" else parts


def test_only_whole_lines_are_read_until_the_end(pipe: Pipe) -> None:
    os.write(pipe.writes, b"[1]\n[2")
    assert [record.value for record in pipe.source.read(9, timeout=5)] == [b"[1]\n"]
    assert pipe.source.read(9, timeout=0.1) == []
    assert not pipe.source.done
    pipe.end()
    assert [record.value for record in pipe.rest()] == [b"[2"]
    assert pipe.source.lag() is None


def test_csv_has_its_header_in_every_record() -> None:
    opened = Pipe(format="csv")
    opened.source.open(None)
    take = opened.source.reader(Schema())
    os.write(opened.writes, b"y,x\r\n1,2\n")
    (first,) = opened.source.read(9, timeout=5)
    os.write(opened.writes, b"3,4\n")
    (second,) = opened.source.read(9, timeout=5)
    assert (first.position, first.after, second.after) == (1, 2, 3)
    assert [take.read(r.value).X.tolist() for r in (first, second)] == [[[1.0, 2.0]], [[3.0, 4.0]]]
    assert take.schema.features == ("y", "x")
    opened.close()


def test_a_checkpoint_of_an_earlier_run_is_rejected(pipe: Pipe) -> None:
    os.write(pipe.writes, b"[1]\n")
    (record,) = pipe.source.read(9, timeout=5)
    resume = Resume(pipe.source.identity(), {"": record.after})
    pipe.source.open(resume)  # the same run may
    later = Pipe()
    assert later.source.identity() != pipe.source.identity()
    with pytest.raises(SourceChanged, match=r"line 1.*--accept-gap"):
        later.source.open(resume)
    later.source.open(resume, accept_gap=True)
    os.write(later.writes, b"[2]\n")
    assert [r.position for r in later.source.read(9, timeout=5)] == [0]
    later.close()


def test_a_line_that_is_too_long_is_one_reject() -> None:
    opened = Pipe(max_line=100)
    opened.source.open(None)
    os.write(opened.writes, b"[1]\n" + b"a" * 200)
    seen = opened.source.read(2, timeout=5)
    while len(seen) < 2:
        seen += opened.source.read(1, timeout=5)
    first, refused = seen
    os.write(opened.writes, b"a" * 200 + b"\n[2]\n")
    opened.end()
    (last,) = opened.rest()
    opened.close()
    assert [(r.position, r.after) for r in (first, refused, last)] == [(0, 1), (1, 2), (2, 3)]
    assert "longer than 100 bytes" in refused.value.rejects[0].reason
    assert last.value == b"[2]\n"


def test_the_read_buffer_is_bounded(pipe: Pipe) -> None:
    os.set_blocking(pipe.writes, False)
    taken, quiet = 0, 0
    while quiet < 20:
        try:
            taken += os.write(pipe.writes, b"[1]\n" * 1024)
            quiet = 0
        except BlockingIOError:
            quiet += 1
            time.sleep(0.02)
    assert taken < 4 * 2**20


def test_a_program_ends_while_it_waits_for_input() -> None:
    program = (
        "from scstream.stream.connectors.pipes import StdinSource\n"
        "source = StdinSource(); source.open(None); print(source.read(1, timeout=0.1))\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdout and child.stderr and child.stdin
    try:
        assert child.wait(60) == 0
        assert child.stdout.read() == b"[]\n"
        assert child.stderr.read() == b""
    finally:
        child.kill()
        child.wait()
        for end in (child.stdin, child.stdout, child.stderr):
            end.close()


def delivery(batch: int) -> Delivery:
    columns = {
        "batch": np.full(2, batch),
        "index": np.arange(2),
        "name": np.array(["a,b", None], dtype=object),
    }
    return Delivery("demo", batch, columns)


def test_rows_are_printed_as_json() -> None:
    out = io.BytesIO()
    sink = StdoutSink(stream=out)
    sink.open(None)
    sink.write(delivery(0))
    assert sink.flush() == 2
    sink.write(delivery(1))
    assert sink.flush() == 4
    sink.close()
    found = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(row["batch"], row["index"]) for row in found] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    again = StdoutSink(stream=out)
    again.open(4)
    assert again.flush() == 4


def test_rows_are_printed_as_csv() -> None:
    out = io.BytesIO()
    sink = StdoutSink(format="csv", stream=out)
    sink.open(None)
    sink.write(Delivery("demo", 0, {name: v[:0] for name, v in delivery(0).columns.items()}))
    sink.write(delivery(0))
    sink.write(delivery(1))
    assert out.getvalue().decode().split("\n") == [
        "batch,index,name",
        '0,0,"a,b"',
        "0,1,",
        '1,0,"a,b"',
        "1,1,",
        "",
    ]


def test_standard_output_is_the_default(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    sink = StdoutSink()
    sink.write(delivery(0))
    sink.flush()
    assert len(capfdbinary.readouterr().out.splitlines()) == 2


def test_the_error_says_that_the_reader_is_gone() -> None:
    reads, writes = os.pipe()
    os.close(reads)
    with open(writes, "wb", buffering=0) as out:
        sink = StdoutSink(stream=out)  # type: ignore[arg-type]
        with pytest.raises(BrokenPipeError, match="the reader of standard output is gone"):
            sink.write(delivery(0))


def test_invalid_options_are_rejected() -> None:
    for build in (StdinSource, StdoutSink):
        with pytest.raises(InputError, match="jsonl or csv"):
            build(format="xml")


def test_doctor_explains_what_a_pipe_cannot_guarantee() -> None:
    assert [f.level for f in (*StdinSource().doctor(), *StdoutSink().doctor())] == ["warn", "warn"]
