"""Standard input as a source and standard output as a sink, for shells; neither can go back."""

from __future__ import annotations

import os
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping
from queue import Empty, Full, Queue
from typing import BinaryIO

from scstream.errors import InputError, SourceChanged
from scstream.io.budget import MAX_CONTENT
from scstream.preprocess.block import Block
from scstream.stream.connectors.files import CsvReader, csv_rows, in_pieces, json_lines
from scstream.stream.findings import Finding
from scstream.stream.messages import reader
from scstream.stream.schema import Reader, Schema
from scstream.stream.sink import Delivery, SinkPosition
from scstream.stream.source import Positions, Record, Resume

_CHUNK = 65_536  # bytes
_MAX_CHUNKS = 16  # in the queue
_POLL = 0.05  # seconds


class StdinSource:
    r"""Read lines of standard input.

    A pipe cannot be read again: the position counts lines of this run, and a checkpoint of an
    earlier run is rejected, unless a gap is accepted. A crash therefore loses the rows since the
    last checkpoint; write them to a file first if that matters.

    Like `FileSource` it has a method `reader(schema)`, because it knows its format.

    Parameters
    ----------
    format : {"jsonl", "csv"}
        Format of the lines; the first line of CSV has the names of the columns.
    max_line : int
        Maximum number of bytes of a line; longer lines are rejected.
    descriptor : int
        The open file to read; 0 is standard input.

    Examples
    --------
    >>> import os
    >>> from scstream.stream.connectors.pipes import StdinSource
    >>> end, other_end = os.pipe()
    >>> os.write(other_end, b"[1.5]\n[2.5]\n"), os.close(other_end)
    (12, None)
    >>> source = StdinSource(descriptor=end)
    >>> source.open(None)
    >>> [(record.position, record.after, record.value) for record in source.read(10, timeout=5)]
    [(0, 2, b'[1.5]\n[2.5]\n')]
    >>> source.close()
    """

    def __init__(
        self, *, format: str = "jsonl", max_line: int = 2**24, descriptor: int = 0
    ) -> None:
        if format not in ("jsonl", "csv"):
            raise InputError(f"standard input cannot be read as {format!r}; use jsonl or csv.")
        self._format = format
        self._max_line = max_line
        self._descriptor = descriptor
        self._run = uuid.uuid4().hex
        self._lines: Queue[bytes | Block | Exception] = Queue(_MAX_CHUNKS)  # b"": the end
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._header: bytes | None = b"" if format == "jsonl" else None
        self._position = 0
        self._finished = False

    def identity(self) -> Mapping[str, str]:
        """Return an identity that no other run has."""
        return {"pipe": "standard input", "run": self._run}

    def open(self, resume: Resume | None, *, accept_gap: bool = False) -> None:
        """Start to read; a checkpoint of an earlier run is rejected."""
        if resume is not None and not accept_gap and dict(resume.identity) != self.identity():
            raise SourceChanged(
                f"standard input cannot be read again: the checkpoint is from another run, at line "
                f"{resume.positions.get('', 0)}, and this one begins at line 0. Start with "
                "--accept-gap to continue with the lines that come now, or use a new checkpoint "
                "folder; to continue where a run stopped, read from a file."
            )
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._read_ahead, name="scstream-stdin", daemon=True
            )
            self._thread.start()

    def read(self, max_n: int, timeout: float) -> list[Record]:
        """Return the available lines, about 64 kB of them in a record."""
        records: list[Record] = []
        while len(records) < max_n and not self._finished:
            try:
                lines = self._lines.get(timeout=0 if records else max(timeout, 0))
            except Empty:
                break
            if isinstance(lines, Exception):
                raise lines
            if lines == b"":
                self._finished = True
            elif record := self._record(lines):
                records.append(record)
        return records

    def reader(self, schema: Schema) -> Reader:
        """Return the reader for these records."""
        return CsvReader(schema) if self._format == "csv" else reader("json", schema)

    def acknowledge(self, positions: Positions) -> None:
        """Do nothing: a pipe has no position to keep."""

    @property
    def done(self) -> bool:
        """Whether the writer has closed the pipe and everything was read."""
        return self._finished

    def lag(self) -> int | None:
        """Return None: the length of the pipe is unknown."""
        return None

    def close(self) -> None:
        """Stop the thread that reads."""
        self._closed.set()

    def doctor(self) -> list[Finding]:
        """Explain what a pipe cannot guarantee."""
        detail = (
            "standard input cannot be read again: rows since the last checkpoint are lost when the "
            "pipeline stops. Use a file, HTTP or a broker to learn each row exactly once."
        )
        return [Finding("warn", "replay", detail)]

    def _record(self, lines: bytes | Block) -> Record | None:
        if isinstance(lines, bytes) and self._header is None:
            head, _, lines = lines.partition(b"\n")
            self._header = head.rstrip(b"\r") + b"\n"
            self._position += 1
        start = self._position
        if isinstance(lines, Block):
            self._position += 1
            return Record(start, self._position, lines)
        self._position += _n_lines(lines)
        return Record(start, self._position, (self._header or b"") + lines) if lines else None

    def _read_ahead(self) -> None:
        try:
            for lines in self._runs():
                if not self._put(lines):
                    return
            self._put(b"")
        except OSError as error:
            self._put(error)

    def _runs(self) -> Iterator[bytes | Block]:
        """Yield whole lines. Read the descriptor: a daemon thread must not lock `sys.stdin`."""
        remainder = b""
        while chunk := os.read(self._descriptor, _CHUNK):
            lines, newline, remainder = (remainder + chunk).rpartition(b"\n")
            if newline:
                yield lines + newline
            if len(remainder) > self._max_line:
                reason = f"a line of standard input is longer than {self._max_line} bytes."
                yield Block.rejected(reason, remainder[:MAX_CONTENT].decode(errors="replace"))
                remainder = self._skip_line()
        if remainder:
            yield remainder

    def _skip_line(self) -> bytes:
        """Read to the end of a line and return what comes after it."""
        while chunk := os.read(self._descriptor, _CHUNK):
            if b"\n" in chunk:
                return chunk.partition(b"\n")[2]
        return b""

    def _put(self, lines: bytes | Block | Exception) -> bool:
        while not self._closed.is_set():
            try:
                self._lines.put(lines, timeout=_POLL)
            except Full:
                continue
            return True
        return False


class StdoutSink:
    r"""Write labels to standard output, at least once.

    Printed rows cannot be undone: after a crash the rows since the last checkpoint are printed a
    second time, with the same batch and index, so that a reader can drop them.

    Parameters
    ----------
    format : {"jsonl", "csv"}
        Format of the rows.
    stream : binary file, optional
        Where to print; by default standard output.

    Examples
    --------
    >>> import io
    >>> import numpy as np
    >>> from scstream.stream.connectors.pipes import StdoutSink
    >>> from scstream.stream.sink import Delivery
    >>> out = io.BytesIO()
    >>> sink = StdoutSink(stream=out)
    >>> sink.write(Delivery("demo", 0, {"batch": np.zeros(1, int), "index": np.arange(1)}))
    >>> sink.flush(), out.getvalue()
    (1, b'{"batch":0,"index":0}\n')
    """

    def __init__(self, *, format: str = "jsonl", stream: BinaryIO | None = None) -> None:
        if format not in ("jsonl", "csv"):
            raise InputError(f"labels cannot be printed as {format!r}; use jsonl or csv.")
        self._format = format
        self._stream = stream
        self._n_rows = 0
        self._columns: list[str] | None = None

    def open(self, position: SinkPosition | None) -> None:
        """Continue to count rows."""
        self._n_rows = position or 0

    def write(self, delivery: Delivery) -> None:
        """Print one delivery."""
        if not delivery.n_rows:
            return
        lines = json_lines(delivery) if self._format == "jsonl" else self._csv(delivery)
        try:
            for content in in_pieces(lines):
                self._out.write(content)
        except OSError as error:
            raise _failed(error) from error
        self._n_rows += delivery.n_rows

    def flush(self) -> SinkPosition:
        """Flush the stream; return the number of rows so far."""
        try:
            self._out.flush()
        except OSError as error:
            raise _failed(error) from error
        return self._n_rows

    def close(self) -> None:
        """Leave standard output open."""

    def doctor(self) -> list[Finding]:
        """Explain what standard output cannot guarantee."""
        detail = "after a crash some rows are printed twice, with the same key."
        return [Finding("warn", "exactly once", detail)]

    @property
    def _out(self) -> BinaryIO:
        return self._stream or sys.stdout.buffer

    def _csv(self, delivery: Delivery) -> Iterator[bytes]:
        is_first = self._columns is None
        self._columns = self._columns or list(delivery.columns)
        return csv_rows(delivery, self._columns, header=is_first)


def _n_lines(lines: bytes) -> int:
    """Return the number of lines; the last line of a pipe may have no line break."""
    return lines.count(b"\n") + (not lines.endswith(b"\n") if lines else 0)


def _failed(error: OSError) -> OSError:
    detail = (
        f"labels could not be printed ({error.strerror}): the reader of standard output is gone"
    )
    return OSError(error.errno or 0, detail)
