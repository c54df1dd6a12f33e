"""What a sink has written: a file of lines, or a folder of Parquet parts, cut back on opening."""

from __future__ import annotations

import csv
import os
import re
from dataclasses import dataclass
from pathlib import Path

from scstream.errors import SinkError
from scstream.io.disk import Disk, write_all, write_whole
from scstream.preprocess.block import Columns
from scstream.stream.connectors.files.csv_lines import csv_line
from scstream.stream.json_messages import to_json
from scstream.stream.sink import Delivery, SinkPosition, plain_rows

_PART = re.compile(r"part-\d{8}\.parquet")
_DRAFT = ".draft-"


@dataclass(frozen=True)
class Place:
    """Where a sink writes, and how it says what went wrong there."""

    path: Path
    disk: Disk
    overwrite: bool

    def occupied(self) -> SinkError:
        """Return the error of a place that somebody else has written to."""
        return SinkError(
            f"{self.path} holds rows already and there is no checkpoint that says how many are of "
            "this pipeline; move them away, or set overwrite = true."
        )

    def lost(self, wanted: str, there: int) -> SinkError:
        """Return the error of a place that has less than it should."""
        return SinkError(
            f"{self.path} should have {wanted} by the checkpoint but has {there}: rows that were "
            "written are gone. Bring them back, or start anew."
        )

    def closed(self) -> SinkError:
        """Return the error of a write to what is not open."""
        return SinkError(
            f"{self.path} is closed, or a write to it failed before; open it again from the last "
            "checkpoint."
        )

    def failed(self, error: OSError) -> OSError:
        """Return the error with a sentence; the pipeline ends, and goes on from its checkpoint."""
        why = os.strerror(error.errno) if error.errno else str(error)
        detail = (
            f"labels could not be written ({why}); make room or repair the disk and start again: "
            "the pipeline goes on from its checkpoint"
        )
        return OSError(error.errno or 0, detail, str(self.path))


class Lines:
    """A file of lines; what is behind the position of a checkpoint is cut off."""

    def __init__(self, place: Place, *, is_csv: bool) -> None:
        self._place = place
        self._disk = place.disk
        self._is_csv = is_csv
        self._handle: int | None = None
        self._columns: list[str] | None = None  # of CSV, once it has a header
        self._length = 0
        self._flushed = -1  # nothing is known to last
        self._is_named = False  # whether the name of the file is known to last

    def open(self, position: SinkPosition | None) -> None:
        """Cut the file off behind the position, and go on there."""
        self.close()
        path, length = self._place.path, position or 0
        try:
            self._disk.make_folder(path.parent)
            there = self._size()
            if position is None and there and not self._place.overwrite:
                raise self._place.occupied()
            if there < length:
                raise self._place.lost(f"{length} bytes", there)
            if there > length:
                self._disk.truncate(path, length)
            self._handle = self._disk.append(path)
            self._columns = self._header(length) if self._is_csv and length else None
        except OSError as error:
            self.close()
            raise self._place.failed(error) from error
        self._length, self._flushed, self._is_named = length, -1, False

    def write(self, delivery: Delivery) -> None:
        """Append the rows of a delivery."""
        content = self._csv(delivery) if self._is_csv else json_lines(delivery)
        self._check_alone()
        try:
            write_all(self._disk, self._opened(), content)
        except OSError as error:
            self.close()  # it may end in half a line, which only `open` takes away
            raise self._place.failed(error) from error
        self._length += len(content)

    def flush(self) -> SinkPosition:
        """Sync the file; return its length."""
        handle = self._opened()
        self._check_alone()
        if self._flushed == self._length:
            return self._length
        try:
            self._disk.sync(handle)
            if not self._is_named:
                self._disk.sync_folder(self._place.path.parent)
        except OSError as error:
            self.close()  # a second sync would succeed although the rows are lost
            raise self._place.failed(error) from error
        self._is_named = True
        self._flushed = self._length
        return self._length

    def close(self) -> None:
        """Let go of the file."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._disk.close(handle)

    def _opened(self) -> int:
        if self._handle is None:
            raise self._place.closed()
        return self._handle

    def _check_alone(self) -> None:
        """Stop where somebody else has written, such as an instance that was overtaken."""
        there = self._size()
        if self._handle is not None and there != self._length:
            self.close()
            raise SinkError(
                f"{self._place.path} has {there} bytes where this pipeline wrote {self._length}: "
                "another process writes to it. Stop that one and start this one again; it goes "
                "back to its checkpoint."
            )

    def _size(self) -> int:
        try:
            return self._disk.size(self._place.path)
        except FileNotFoundError:
            return 0

    def _header(self, length: int) -> list[str]:
        head = self._disk.read(self._place.path, 0, min(length, 2**20))
        return next(csv.reader([head.split(b"\n")[0].decode(errors="replace")]))

    def _csv(self, delivery: Delivery) -> bytes:
        head = b""
        if self._columns is None:
            self._columns = list(delivery.columns)
            head = csv_line(self._columns)
        unknown = [name for name in delivery.columns if name not in self._columns]
        if unknown:
            raise SinkError(
                f"{self._place.path} has no column {unknown[0]!r}, which the rows now have; write "
                "to another file."
            )
        rows = ([row.get(name) for name in self._columns or ()] for row in plain_rows(delivery))
        return head + b"".join(map(csv_line, rows))


def json_lines(delivery: Delivery) -> bytes:
    r"""Return the rows of a delivery as lines of JSON.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.stream.connectors.files import json_lines
    >>> from scstream.stream.sink import Delivery
    >>> json_lines(Delivery("demo", 0, {"index": np.arange(2)}))
    b'{"index":0}\n{"index":1}\n'
    """
    return b"".join(to_json(row) + b"\n" for row in plain_rows(delivery))


class Parts:
    """A folder of numbered Parquet files, each of which appears whole."""

    def __init__(self, place: Place, part_rows: int) -> None:
        self._place = place
        self._disk = place.disk
        self._part_rows = part_rows
        self._rows: list[Columns] = []
        self._n_parts: int | None = None  # None: not open

    def open(self, position: SinkPosition | None) -> None:
        """Remove the parts behind the position, and drafts."""
        folder, n_parts = self._place.path, position or 0
        self._rows = []
        try:
            self._disk.make_folder(folder)
            names = self._disk.names(folder)
            parts = [name for name in names if _PART.fullmatch(name)]
            if position is None and parts and not self._place.overwrite:
                raise self._place.occupied()
            kept = [name for name in parts if name < _part_name(n_parts)]
            if kept != [_part_name(i) for i in range(n_parts)]:
                raise self._place.lost(f"{n_parts} parts", len(kept))
            drafts = [name for name in names if name.startswith(_DRAFT)]
            for name in (*parts[n_parts:], *drafts):
                self._disk.remove(folder / name)
            self._disk.sync_folder(folder)
        except OSError as error:
            raise self._place.failed(error) from error
        self._n_parts = n_parts

    def write(self, delivery: Delivery) -> None:
        """Keep rows until they make a part."""
        self._opened()
        self._rows.append(delivery.columns)
        if sum(len(columns["index"]) for columns in self._rows) >= self._part_rows:
            self._write_part()

    def flush(self) -> SinkPosition:
        """Write what is kept as a part; return the number of parts."""
        if self._rows:
            self._write_part()
        return self._opened()

    def close(self) -> None:
        """Forget the rows that make no part yet."""
        self._rows = []
        self._n_parts = None

    def _write_part(self) -> None:
        from scstream.stream.arrow import parquet_bytes

        folder, name = self._place.path, _part_name(self._opened())
        content = parquet_bytes(self._rows)
        try:
            write_whole(self._disk, folder / f"{_DRAFT}{name}", content)
            self._disk.replace(folder / f"{_DRAFT}{name}", folder / name)
            self._disk.sync_folder(folder)
        except OSError as error:
            self.close()
            raise self._place.failed(error) from error
        self._rows = []
        self._n_parts = self._opened() + 1

    def _opened(self) -> int:
        if self._n_parts is None:
            raise self._place.closed()
        return self._n_parts


def _part_name(number: int) -> str:
    return f"part-{number:08d}.parquet"
