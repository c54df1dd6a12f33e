"""Write a file of lines, or a folder of Parquet parts; opening removes what is not committed."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from scstream.errors import SinkError
from scstream.io.disk import Disk, write_all, write_whole
from scstream.preprocess.block import Columns
from scstream.stream.connectors.files.csv_lines import csv_rows
from scstream.stream.json_messages import to_json
from scstream.stream.sink import Delivery, SinkPosition, plain_rows

_PART = re.compile(r"part-\d{8}\.parquet")
_TEMPORARY = ".draft-"
_PIECE = 2**24  # bytes that are written at once


@dataclass(frozen=True)
class Target:
    """Where a sink writes, and the errors of that place."""

    path: Path
    disk: Disk
    overwrite: bool

    def occupied(self) -> SinkError:
        """Return the error for a place that another writer has used."""
        return SinkError(
            f"{self.path} has rows already, and there is no checkpoint of this pipeline; move them "
            "away, or set overwrite = true."
        )

    def lost(self, wanted: str, found: int) -> SinkError:
        """Return the error for a place that has less than the checkpoint says."""
        return SinkError(
            f"{self.path} should have {wanted} according to the checkpoint but has {found}: rows "
            "that were written are gone. Restore them, or start a new pipeline."
        )

    def closed(self) -> SinkError:
        """Return the error for a write to a closed file."""
        return SinkError(
            f"{self.path} is closed, or a write to it failed before; open it again from the last "
            "checkpoint."
        )

    def failed(self, error: OSError) -> OSError:
        """Return an error of the disk with what to do about it."""
        why = os.strerror(error.errno) if error.errno else str(error)
        detail = (
            f"labels could not be written ({why}); free space or repair the disk and start again: "
            "the pipeline continues from its checkpoint"
        )
        return OSError(error.errno or 0, detail, str(self.path))


class LinesWriter:
    """A file of lines; `open` truncates it at the position of the checkpoint."""

    def __init__(self, target: Target, *, is_csv: bool) -> None:
        self._target = target
        self._disk = target.disk
        self._is_csv = is_csv
        self._handle: int | None = None
        self._columns: list[str] | None = None  # of CSV, once it has a header
        self._length = 0
        self._flushed = -1  # length at the last sync
        self._is_named = False  # whether the folder was synced

    def open(self, position: SinkPosition | None) -> None:
        """Truncate the file at the position, and continue there."""
        self.close()
        path, length = self._target.path, position or 0
        try:
            self._disk.make_folder(path.parent)
            size = self._size()
            if position is None and size and not self._target.overwrite:
                raise self._target.occupied()
            if size < length:
                raise self._target.lost(f"{length} bytes", size)
            if size > length:
                self._disk.truncate(path, length)
            self._handle = self._disk.append(path)
            self._columns = self._header(length) if self._is_csv and length else None
        except OSError as error:
            self.close()
            raise self._target.failed(error) from error
        self._length, self._flushed, self._is_named = length, -1, False

    def write(self, delivery: Delivery) -> None:
        """Append the rows of a delivery."""
        lines = self._csv(delivery) if self._is_csv else json_lines(delivery)
        self._check_size()
        handle = self._open_handle()
        for content in in_pieces(lines):
            try:
                write_all(self._disk, handle, content)
            except OSError as error:
                self.close()  # it may end in half a line, which `open` removes
                raise self._target.failed(error) from error
            self._length += len(content)

    def flush(self) -> SinkPosition:
        """Sync the file; return its length."""
        handle = self._open_handle()
        self._check_size()
        if self._flushed == self._length:
            return self._length
        try:
            self._disk.sync(handle)
            if not self._is_named:
                self._disk.sync_folder(self._target.path.parent)
        except OSError as error:
            self.close()  # a second sync may succeed although the rows are lost
            raise self._target.failed(error) from error
        self._is_named = True
        self._flushed = self._length
        return self._length

    def close(self) -> None:
        """Close the file."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._disk.close(handle)

    def _open_handle(self) -> int:
        if self._handle is None:
            raise self._target.closed()
        return self._handle

    def _check_size(self) -> None:
        """Raise if another process has written, such as an instance that was replaced."""
        size = self._size()
        if self._handle is not None and size != self._length:
            self.close()
            raise SinkError(
                f"{self._target.path} has {size} bytes, but this pipeline wrote {self._length}: "
                "another process writes to it. Stop that one and start this one again; it "
                "continues from its checkpoint."
            )

    def _size(self) -> int:
        try:
            return self._disk.size(self._target.path)
        except FileNotFoundError:
            return 0

    def _header(self, length: int) -> list[str]:
        head = self._disk.read(self._target.path, 0, min(length, 2**20))
        return next(csv.reader([head.split(b"\n")[0].decode(errors="replace")]))

    def _csv(self, delivery: Delivery) -> Iterator[bytes]:
        is_first = self._columns is None
        self._columns = self._columns or list(delivery.columns)
        unknown = [name for name in delivery.columns if name not in self._columns]
        if unknown:
            raise SinkError(
                f"{self._target.path} has no column {unknown[0]!r}, which the rows now have; write "
                "to another file."
            )
        return csv_rows(delivery, self._columns, header=is_first)


def json_lines(delivery: Delivery) -> Iterator[bytes]:
    """Yield the rows of a delivery as lines of JSON."""
    return (to_json(row) + b"\n" for row in plain_rows(delivery))


def in_pieces(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Join lines to pieces: texts that rows share in memory are written for each of them."""
    piece: list[bytes] = []
    length = 0
    for line in lines:
        piece.append(line)
        length += len(line)
        if length >= _PIECE:
            yield b"".join(piece)
            piece, length = [], 0
    if piece:
        yield b"".join(piece)


class PartsWriter:
    """A folder of numbered Parquet files, each of which is written atomically."""

    def __init__(self, target: Target, part_rows: int, *, max_total: int | None = None) -> None:
        self._target = target
        self._disk = target.disk
        self._part_rows = part_rows
        self._max_total = max_total  # bytes of all parts; the oldest are deleted
        self._rows: list[Columns] = []
        self._n_parts: int | None = None  # None: not open

    def open(self, position: SinkPosition | None) -> None:
        """Remove temporary files and the parts after the position."""
        folder, n_parts = self._target.path, position or 0
        self._rows = []
        try:
            self._disk.make_folder(folder)
            names = self._disk.names(folder)
            parts = [name for name in names if _PART.fullmatch(name)]
            if position is None and parts and not self._target.overwrite:
                raise self._target.occupied()
            kept = [name for name in parts if name < _part_name(n_parts)]
            first = 0 if self._max_total is None else n_parts - len(kept)
            if kept != [_part_name(i) for i in range(first, n_parts)]:
                raise self._target.lost(f"{n_parts} parts", len(kept))
            temporary = [name for name in names if name.startswith(_TEMPORARY)]
            for name in (*parts[len(kept) :], *temporary):
                self._disk.remove(folder / name)
            self._disk.sync_folder(folder)
        except OSError as error:
            raise self._target.failed(error) from error
        self._n_parts = n_parts

    def write(self, delivery: Delivery) -> None:
        """Buffer rows until they make a part."""
        self._open_parts()
        self._rows.append(delivery.columns)
        if sum(len(columns["index"]) for columns in self._rows) >= self._part_rows:
            self._write_part()

    def flush(self) -> SinkPosition:
        """Write the buffered rows as a part; return the number of parts."""
        if self._rows:
            self._write_part()
        return self._open_parts()

    def close(self) -> None:
        """Drop the buffered rows."""
        self._rows = []
        self._n_parts = None

    def _write_part(self) -> None:
        from scstream.stream.arrow import parquet_bytes

        folder, name = self._target.path, _part_name(self._open_parts())
        content = parquet_bytes(self._rows)
        try:
            write_whole(self._disk, folder / f"{_TEMPORARY}{name}", content)
            self._disk.replace(folder / f"{_TEMPORARY}{name}", folder / name)
            self._disk.sync_folder(folder)
            self._delete_oldest()
        except OSError as error:
            self.close()
            raise self._target.failed(error) from error
        self._rows = []
        self._n_parts = self._open_parts() + 1

    def _delete_oldest(self) -> None:
        if self._max_total is None:
            return
        folder, total = self._target.path, 0
        parts = [name for name in self._disk.names(folder) if _PART.fullmatch(name)]
        for n, name in enumerate(reversed(parts)):
            total += self._disk.size(folder / name)
            if n and total > self._max_total:
                self._disk.remove(folder / name)

    def _open_parts(self) -> int:
        if self._n_parts is None:
            raise self._target.closed()
        return self._n_parts


def _part_name(number: int) -> str:
    return f"part-{number:08d}.parquet"
