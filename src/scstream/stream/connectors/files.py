"""Files as source and sink: JSON lines and CSV, which may grow, Parquet and Arrow."""

from __future__ import annotations

import csv
import glob
import hashlib
import io
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scstream.errors import InputError, SinkError, SourceChanged, SourceGap, SourceRegressed
from scstream.stream.block import Block, Columns
from scstream.stream.disk import Disk, MachineDisk, write_all, write_whole
from scstream.stream.findings import Finding
from scstream.stream.messages import (
    Reader,
    Schema,
    among,
    judged,
    number_column,
    passed_on,
    reader,
    shown,
    text_lines,
    to_json,
)
from scstream.stream.sink import Delivery, SinkPosition, plain_rows
from scstream.stream.source import Position, Positions, Record, Resume

_HEAD = 4096  # bytes at the beginning of a file that tell it from another
_ENDINGS = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
_TEXT = ("csv", "jsonl")
_GROUPED = ("parquet", "arrow")
RECORD_BYTES = 65_536  # of a record of text
_RECORD_ROWS = 65_536  # of a Parquet group in one record
_RECORDS = 16  # at most in one read, so that a record of 64 kB makes a megabyte
_PART = re.compile(r"part-\d{8}\.parquet")
_DRAFT = ".draft-"
_POLL = 0.05  # seconds between two looks at a file that is followed


class FileSource:
    r"""Rows of a file, or of the files of a folder or pattern in the order of their names.

    A position is `{"file": name, "offset": bytes}` for text and `{"file": name, "group": number,
    "row": row}` for Parquet and Arrow, with a "mark" of the file: its inode and a hash of its first
    bytes, as far as they were read. A line is a row, also in CSV: no text goes over a line break.

    Beyond the protocol it has `reader(schema)`: a file knows its format, so a pipeline reads its
    records with that reader in place of one for messages.

    Parameters
    ----------
    path : path
        A file, a folder, or a pattern such as ``rows/*.csv``. Names that begin with a dot or an
        underscore are passed over.
    format : {"auto", "csv", "jsonl", "parquet", "arrow"}
        "auto" goes by the ending of the first name.
    follow : bool
        Whether to wait for more at the end: for whole lines of a file that grows, and for files
        with later names. A file is finished once there is one with a later name.
    start : {"first", "last"} or position
        Where to begin without a checkpoint.
    columns : sequence of str, optional
        Names of the columns of CSV without a header; by default the first line has them.
    delimiter : str
        Between the fields of CSV.
    max_line : int
        Bytes of a line beyond which it is refused unread.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from scstream.stream.connectors.files import FileSource
    >>> from scstream.stream.messages import Schema
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "rows.csv"
    ...     _ = path.write_text("x,name\n1.5,a\n2.5,b\n")
    ...     source = FileSource(path=path)
    ...     source.open(None)
    ...     (record,) = source.read(10, timeout=0)
    ...     source.close()
    ...     source.reader(Schema(keep=("name",))).read(record.value).X.tolist()
    [[1.5], [2.5]]
    """

    def __init__(
        self,
        *,
        path: str | os.PathLike[str],
        format: str = "auto",
        follow: bool = False,
        start: Position = "first",
        columns: Sequence[str] | None = None,
        delimiter: str = ",",
        max_line: int = 2**24,
    ) -> None:
        if format not in ("auto", *_TEXT, *_GROUPED):
            raise InputError(
                f"files cannot be read as {format!r}; use auto, csv, jsonl, parquet or arrow."
            )
        if not (start in ("first", "last") or isinstance(start, Mapping)):
            raise InputError(f"start must be 'first', 'last' or a position, got {start!r}.")
        if len(delimiter) != 1 or delimiter in '"\r\n':
            raise InputError(f"delimiter must be one character between fields, got {delimiter!r}.")
        self._folder = _Folder(path)
        self._asked = format
        self._follow = follow
        self._start = start
        self._columns = None if columns is None else tuple(columns)
        self._delimiter = delimiter
        self._max_line = max_line
        self._current: _TextFile | _GroupFile | None = None
        self._name = ""  # of the current file, or of the last one that was finished
        self._finished = False
        self._stop = threading.Event()

    def identity(self) -> Mapping[str, str]:
        """Return the path, and of a single file its mark; positions have the mark of their file."""
        if not self._folder.is_single:
            return {"path": str(self._folder.path)}
        path = self._folder.path
        current = self._current
        if current is not None:
            return {"path": str(path), "file": current.mark()}
        head = min(_whole_lines(path), _HEAD) if path.exists() else 0
        return {"path": str(path), "file": _mark(path, head) if path.exists() else ""}

    def open(self, resume: Resume | None, *, accept_gap: bool = False) -> None:
        """Go to a position; check that its file is the one it was, and as long."""
        self._finished = False
        self._stop.clear()
        files = self._folder.files()
        if not files and not self._follow:
            raise InputError(f"there is no file at {self._folder.path}; check the path.")
        position = resume.positions.get("") if resume else None
        if position is None and resume is not None and self._folder.is_single:
            position = {"file": self._folder.path.name, "mark": resume.identity.get("file", "")}
        if position is None and isinstance(self._start, Mapping):
            position = self._start
        if position is not None:
            position = self._checked(position, files, accept_gap=accept_gap)
        elif self._start == "last" and files:
            position = self._end(files)
        self._go(position, files)

    def read(self, most: int, timeout: float) -> list[Record]:
        """Return the next records, each of some whole lines or rows."""
        deadline = time.monotonic() + timeout
        while True:
            records = self._take(min(most, _RECORDS))
            left = deadline - time.monotonic()
            if records or self._finished or left <= 0:
                return records
            if self._stop.wait(min(left, _POLL)):
                return []

    def reader(self, schema: Schema) -> Reader:
        """Return what reads the records of these files."""
        format = self._format(self._folder.files())
        if format == "csv":
            return CsvReader(schema, delimiter=self._delimiter)
        return reader("json" if format == "jsonl" else "arrow", schema)

    def acknowledge(self, positions: Positions) -> None:
        """Do nothing: a file stays as it is."""

    @property
    def done(self) -> bool:
        """Whether the last file was read to its end and is not followed."""
        return self._finished

    def lag(self) -> int | None:
        """How many records of text wait; None for files of groups."""
        current = self._current
        if not isinstance(current, _TextFile):
            return None
        later = [path for name, path in self._folder.files().items() if name > current.name]
        waiting = current.size() - current.offset + sum(path.stat().st_size for path in later)
        return -(-max(waiting, 0) // RECORD_BYTES)

    def close(self) -> None:
        """Let go of the file."""
        self._stop.set()
        if self._current is not None:
            self._current.close()
            self._current = None

    def doctor(self) -> list[Finding]:
        """Say what is at the path and what following it relies on."""
        files = self._folder.files()
        if not files:
            says = f"there is no file at {self._folder.path} yet."
            return [Finding("note" if self._follow else "warn", "path", says)]
        total = sum(path.stat().st_size for path in files.values())
        found = [
            Finding("ok", "path", f"{len(files)} files, {total} bytes, as {self._format(files)}.")
        ]
        unreadable = [name for name, path in files.items() if not os.access(path, os.R_OK)]
        if unreadable:
            found.append(Finding("warn", "rights", f"{unreadable[0]} cannot be read; change that."))
        if self._follow:
            says = (
                "followed: lines must only ever be appended, and new files have later names; a "
                "file that is renamed and made anew stops the pipeline."
            )
            found.append(Finding("note", "follow", says))
        return found

    def _format(self, files: Mapping[str, Path]) -> str:
        if self._asked != "auto":
            return self._asked
        name = next(iter(files), self._folder.path.name)
        format = _ENDINGS.get(Path(name).suffix.lower())
        if format is None:
            raise InputError(
                f"the name {name!r} in {self._folder.path} does not say what the file is; set "
                "format to csv, jsonl, parquet or arrow."
            )
        return format

    def _take(self, most: int) -> list[Record]:
        records: list[Record] = []
        while len(records) < most and not self._finished:
            if self._current is None and not self._next_file():
                self._finished = not self._follow
                break
            record = self._take_one()
            if record is not None:
                records.append(record)
            elif self._current is not None:
                break
        return records

    def _take_one(self) -> Record | None:
        """Return a record of the current file; close the file if it has no more and never will."""
        current = self._current
        if current is None:
            return None
        if self._follow:
            current.verify()
        record = current.take(last=False)
        if record is not None:
            return record
        if self._follow and not self._later():
            self._check_replaced(current)
            return None
        record = current.take(last=True)
        if record is None:
            current.close()
            self._current = None
        return record

    def _check_replaced(self, current: _TextFile | _GroupFile) -> None:
        """Look whether the name now belongs to another file; what it had was read before."""
        if current.path.exists() and current.path.stat().st_ino != current.inode:
            raise SourceChanged(
                f"{current.path} was renamed or removed and made anew while it was followed; it "
                f"was read to byte {current.offset}. Start with --accept-gap to read the new one."
            )

    def _later(self) -> list[str]:
        return [name for name in self._folder.files() if name > self._name]

    def _next_file(self) -> bool:
        later = self._later()
        if later:
            self._go({"file": later[0]}, self._folder.files())
        return bool(later)

    def _go(self, position: Position, files: Mapping[str, Path]) -> None:
        """Open the file of a position, or be ready to open the first."""
        if self._current is not None:
            self._current.close()
            self._current = None
        self._name = "" if position is None else str(position["file"])
        path = files.get(self._name)
        if path is None:
            return
        format = self._format(files)
        if format in _GROUPED:
            self._current = _GroupFile(path, self._name, format=format, position=position)
            return
        self._current = _TextFile(
            path,
            self._name,
            offset=position.get("offset", 0),
            max_line=self._max_line,
            header=self._header() if format == "csv" else b"",
        )

    def _header(self) -> bytes | None:
        """Return names of columns as a line of CSV; None if the file has them."""
        return csv_line(self._columns, self._delimiter) if self._columns else None

    def _checked(
        self, position: Position, files: Mapping[str, Path], *, accept_gap: bool
    ) -> Position:
        """Return the position if it is still there, or where to go on if that is accepted."""
        path = files.get(position["file"])
        try:
            if path is not None:
                _compare(
                    path,
                    position,
                    inode=path.stat().st_ino,
                    size=path.stat().st_size,
                    head=lambda length: MachineDisk().read(path, 0, length),
                )
            elif position.get("mark") or not self._folder.is_single:
                raise SourceGap(
                    f"{self._folder.path} has no file {position['file']!r} any more, of which some "
                    "may not have been read. Bring it back, or start with --accept-gap to go on "
                    "with the file that comes after it."
                )
        except (SourceChanged, SourceRegressed, SourceGap):
            if not accept_gap:
                raise
            return {"file": position["file"]}
        return position

    def _end(self, files: Mapping[str, Path]) -> Position:
        """Return the position behind everything that is there."""
        name, path = list(files.items())[-1]
        if self._format(files) in _GROUPED:
            return {"file": name, "group": None, "row": 0}
        return {"file": name, "offset": _whole_lines(path)}


class _Folder:
    """The files of a path: itself, those of a folder, or those that fit a pattern."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._is_pattern = glob.has_magic(str(path)) and not self.path.exists()
        parts = self.path.parts
        magic = next((i for i, part in enumerate(parts) if glob.has_magic(part)), len(parts))
        self._root = Path(*parts[:magic]) if self._is_pattern else self.path

    @property
    def is_single(self) -> bool:
        return not self._is_pattern and not self.path.is_dir()

    def files(self) -> dict[str, Path]:
        """Return paths by names, in order of names."""
        if self.is_single:
            return {self.path.name: self.path} if self.path.exists() else {}
        if self._is_pattern:
            paths = [Path(path) for path in glob.glob(str(self.path), recursive=True)]
        else:
            paths = list(self.path.iterdir())
        named = {path.relative_to(self._root).as_posix(): path for path in paths}
        return {
            name: named[name]
            for name in sorted(named)
            if named[name].is_file() and not named[name].name.startswith((".", "_"))
        }


class _TextFile:
    """A file of lines, read in runs of whole lines; reading again from any line gives the same."""

    def __init__(
        self, path: Path, name: str, *, offset: int, max_line: int, header: bytes | None
    ) -> None:
        self.path = path
        self.name = name
        self.offset = offset  # of the next byte to be passed on
        self._max_line = max_line
        self._run = min(RECORD_BYTES, max_line)
        self._header = header  # goes before the lines of every record; None: not read yet
        self._file = path.open("rb", buffering=0)
        self.inode = os.fstat(self._file.fileno()).st_ino
        self._buffer = b""
        self._long: tuple[int, str] | None = None  # a line beyond measure: where, how it begins
        self._head = (0, _digest(b""))  # length and digest of the head, as far as it was read
        self._first_look = _head_of_lines(self._read_at(0, _HEAD))

    def take(self, *, last: bool) -> Record | None:
        """Return the next lines; the last one needs no line break if the file is finished."""
        if self._header is None and not self._read_header(last=last):
            return None
        if self._long is None:
            self._fill()
        if self._long is not None or _first_line(self._buffer) > self._max_line:
            return self._pass_over(last=last)
        end = self._buffer.rfind(b"\n", 0, self._run) + 1 or self._buffer.find(b"\n") + 1
        if not end and last:
            end = len(self._buffer)
        if not end:
            self._buffer = b""  # who writes the file may still take half a line back
            return None
        lines = self._buffer[:end]
        return self._record(self.offset, (self._header or b"") + lines, n_bytes=end)

    def mark(self) -> str:
        """Return what tells this file from others: what was read, or was there at first."""
        length = max(self._first_look, min(self.offset, _HEAD))
        return f"{self.inode}:{length}:{_digest(self._read_at(0, length))}"

    def verify(self) -> None:
        """Check that the file is as long as it was, and begins as it did."""
        _compare(
            self.path,
            self._position(self.offset),
            inode=self.inode,
            size=self.size(),
            head=lambda length: self._read_at(0, length),
        )

    def size(self) -> int:
        """Return the length of the file now."""
        return os.fstat(self._file.fileno()).st_size

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _fill(self) -> None:
        while len(self._buffer) < self._run or b"\n" not in self._buffer:
            more = self._read_at(self.offset + len(self._buffer), RECORD_BYTES)
            self._buffer += more
            if not more or len(self._buffer) > self._max_line + RECORD_BYTES:
                return

    def _pass_over(self, *, last: bool) -> Record | None:
        """Refuse a line beyond measure, of which only the beginning is kept in memory."""
        start, begins = self._long or (self.offset, shown(self._buffer))
        while b"\n" not in self._buffer:
            self.offset += len(self._buffer)
            self._buffer = self._read_at(self.offset, RECORD_BYTES)
            if not self._buffer:
                break
        if not self._buffer and not last:
            self._long = (start, begins)
            return None
        self._long = None
        reason = f"the line at byte {start} of {self.name} is longer than {self._max_line} bytes."
        end = self._buffer.find(b"\n") + 1
        return self._record(start, Block.refused(reason, begins), n_bytes=end)

    def _record(self, start: int, value: bytes | Block, *, n_bytes: int) -> Record:
        """Return a record that ends so many bytes into the buffer, and go there."""
        position = self._position(start)
        self._buffer = self._buffer[n_bytes:]
        self.offset += n_bytes
        return Record(position, self._position(self.offset), value)

    def _position(self, offset: int) -> Position:
        length = min(offset, _HEAD)
        if self._head[0] != length:  # once it is as long as it gets it stays
            self._head = (length, _digest(self._read_at(0, length)))
        mark = f"{self.inode}:{length}:{self._head[1]}"
        return {"file": self.name, "offset": offset, "mark": mark}

    def _read_header(self, *, last: bool) -> bool:
        """Read the names of the columns, which every record begins with; tell if they are there."""
        head = self._read_at(0, self._max_line)
        end = head.find(b"\n") + 1
        if not end and not last:
            return False
        end = end or len(head)
        self._header = head[:end].rstrip(b"\r\n") + b"\n"
        self.offset = max(self.offset, end)
        return True

    def _read_at(self, offset: int, length: int) -> bytes:
        self._file.seek(offset)
        return self._file.read(length)


class _GroupFile:
    """A file of groups of rows, written whole: Parquet or Arrow."""

    def __init__(self, path: Path, name: str, *, format: str, position: Position) -> None:
        self.path = path
        self.name = name
        self.inode = path.stat().st_ino
        self.offset = 0
        self._format = format
        self._group = position.get("group", 0)  # None: behind the last
        self._row = position.get("row", 0)
        self._groups: Any = None
        self._table: Any = None  # the current group

    def take(self, *, last: bool) -> Record | None:
        """Return the next rows; a file that cannot be read yet is waited for, unless it is last."""
        from scstream.stream.arrow import group_bytes

        try:
            if not self._find_rows():
                return None
        except ValueError as error:
            if self._groups is None and not last:
                return None
            return self._record(None, 0, Block.refused(f"{error}.", self.name))
        stop = min(self._row + _RECORD_ROWS, self._table.num_rows)
        return self._record(self._group, stop, group_bytes(self._table, self._row, stop))

    def mark(self) -> str:
        """Return what tells this file from others."""
        return _mark(self.path, _HEAD)

    def verify(self) -> None:
        """Do nothing: the file was written whole."""

    def close(self) -> None:
        """Let go of the file."""
        if self._groups is not None:
            self._groups.close()

    def _find_rows(self) -> bool:
        """Make the group that has the next row the current one; tell if there is one."""
        from scstream.stream.arrow import open_groups

        if self._group is not None and self._groups is None:
            self._groups = open_groups(self.path, self._format)
        while self._group is not None:
            if self._table is None:
                self._table = self._groups.group(self._group)
            if self._table is None:
                return False
            if self._row < self._table.num_rows:
                return True
            self._group, self._row, self._table = self._group + 1, 0, None
        return False

    def _record(self, group: int | None, row: int, value: bytes | Block) -> Record:
        """Return a record that ends there, and go there."""
        position = self._position()
        self._group, self._row = group, row
        return Record(position, self._position(), value)

    def _position(self) -> Position:
        place = {"file": self.name, "group": self._group, "row": self._row}
        return place | {"mark": self.mark()}


class CsvReader:
    r"""Reads lines of CSV, the first of which has the names of the columns.

    Parameters
    ----------
    schema : Schema
        Which columns are what. Columns that are kept stay text.
    delimiter : str
        Between fields.

    Examples
    --------
    >>> from scstream.stream.connectors.files import CsvReader
    >>> from scstream.stream.messages import Schema
    >>> block = CsvReader(Schema(keep=("name",))).read(b'x,name\n1,"a,b"\n?,c\n')
    >>> block.X.tolist(), block.kept["name"].tolist(), block.rejects[0].reason
    ([[1.0]], ['a,b'], "column 'x' holds '?', which is not a number.")
    """

    def __init__(self, schema: Schema, *, delimiter: str = ",") -> None:
        self.schema = schema
        self._delimiter = delimiter

    def read(self, value: bytes) -> Block:
        """Return the rows of some lines after the line of names."""
        head, _, rest = value.partition(b"\n")
        names = self._names(head)
        lines, broken = text_lines(rest, blank="\r\ufeff")
        rows: list[list[str]] = []
        at: list[int] = []
        for i, line in enumerate(lines):
            row = broken.get(i) or self._fields(line, names)
            if not isinstance(row, str) and self.schema.features is None:
                row = self._settle(names, row)
            if isinstance(row, str):
                broken[i] = row
            else:
                rows.append(row)
                at.append(i)
        block = _block_of_fields(self.schema, names, rows, lambda i: lines[at[i]])
        return among(block, at, lines, broken=broken)

    def _names(self, head: bytes) -> list[str]:
        """Return names of columns; no names where that line is no CSV, and so no sound rows."""
        names = self._split(head.decode(errors="replace").strip("\r\ufeff"))
        names = [] if isinstance(names, str) else [name.strip() for name in names]
        return names if len(set(names)) == len(names) else []

    def _fields(self, line: str, names: list[str]) -> list[str] | str:
        if not names:
            return "the file does not begin with different names of columns."
        fields = self._split(line)
        if isinstance(fields, str) or len(fields) == len(names):
            return fields
        return f"the line has {len(fields)} fields where the header has {len(names)}."

    def _split(self, line: str) -> list[str] | str:
        """Return the fields of a line, or why it has none; each line is read on its own."""
        if '"' not in line:
            return line.split(self._delimiter)
        try:
            return next(csv.reader([line], delimiter=self._delimiter, strict=True))
        except csv.Error as error:
            return f"the line is not CSV: {error}."

    def _settle(self, names: list[str], row: list[str]) -> list[str] | str:
        """Take the columns of numbers of the first sound row for the features."""
        numeric = [
            n for n, field in zip(names, row, strict=True) if isinstance(_cell(field), float)
        ]
        trial = self.schema.settle(numeric)
        if trial.is_empty:
            return "the line has no column of numbers."
        block = _block_of_fields(trial, names, [row], lambda i: "")
        if block.rejects:
            return block.rejects[0].reason
        self.schema = trial
        return row


def _block_of_fields(
    schema: Schema, names: list[str], rows: list[list[str]], content: Callable[[int], str]
) -> Block:
    column = {name: j for j, name in enumerate(names)}
    bad: dict[int, str] = {}

    def fields(name: str) -> list[str] | list[None]:
        return [row[column[name]] for row in rows] if name in column else [None] * len(rows)

    features = schema.features or ()
    X = np.empty((len(rows), len(features)))  # (N, D)
    for j, name in enumerate(features):
        X[:, j] = number_column(name, _cells(fields(name)), bad, missing=schema.missing)
    kept = passed_on(schema, lambda n: _cells(fields(n)) if n == schema.time else fields(n), bad)
    return judged(schema, X, kept, bad=bad, content=content)


def _cells(fields: Sequence[str | None]) -> list[float | str | None]:
    """Return the numbers of a column: all at once if it has nothing else."""
    try:
        if not any("_" in field for field in fields if field):  # Python reads 1_000 as a number
            return list(map(float, fields))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        pass
    return [None if field is None else _cell(field) for field in fields]


def _cell(field: str) -> float | str | None:
    """Return a field as a number, as nothing, or as the text that it is."""
    if not field.strip():
        return None
    try:
        return field if "_" in field else float(field)
    except ValueError:
        return field


def _compare(
    path: Path, position: Position, *, inode: int, size: int, head: Callable[[int], bytes]
) -> None:
    """Check that a file is the one of a position, and reaches it."""
    known, length, digest = _read_mark(position.get("mark"))
    place = (
        f"byte {position['offset']}" if "offset" in position else f"group {position.get('group')}"
    )
    advice = "Bring the old file back, or start with --accept-gap to read this one from its start."
    if known not in ("", str(inode)):
        raise SourceChanged(
            f"{path} is another file than the one that was read to {place}: inode {inode}, not "
            f"{known}. {advice}"
        )
    if size < max(position.get("offset", 0), length):
        raise SourceRegressed(
            f"{path} was read to {place} and now ends at byte {size}: it was cut. {advice}"
        )
    if known and _digest(head(length)) != digest:
        raise SourceChanged(
            f"{path} was read to {place} and now begins with other bytes: it was written anew. "
            f"{advice}"
        )


def _read_mark(mark: Any) -> tuple[str, int, str]:
    if not mark:
        return "", 0, ""
    inode, length, digest = str(mark).split(":")
    return inode, int(length), digest


def _mark(path: Path, most: int) -> str:
    with path.open("rb") as file:
        head = file.read(most)
        return f"{os.fstat(file.fileno()).st_ino}:{len(head)}:{_digest(head)}"


def _digest(head: bytes) -> str:
    return hashlib.sha256(head).hexdigest()[:32]


def _head_of_lines(head: bytes) -> int:
    """Return how much of a head stays as it is: whole lines, or all there is room for."""
    return len(head) if len(head) == _HEAD else head.rfind(b"\n") + 1


def _first_line(buffer: bytes) -> int:
    end = buffer.find(b"\n")
    return len(buffer) if end < 0 else end


def _whole_lines(path: Path) -> int:
    """Return the length of a file up to its last line break."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(end - RECORD_BYTES, 0)
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
    return 0


def csv_line(values: Sequence[Any], delimiter: str = ",") -> bytes:
    r"""Return one line of CSV; nothing is an empty field.

    Examples
    --------
    >>> from scstream.stream.connectors.files import csv_line
    >>> csv_line([1.5, None, "a,b"])
    b'1.5,,"a,b"\n'
    """
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter, lineterminator="\n").writerow(values)
    return line.getvalue().encode(errors="replace")


class FileSink:
    """Labels to a file of JSON lines or CSV, or to a folder of Parquet parts; exactly once.

    `open` cuts the file, or removes the parts, behind the position of the checkpoint, and `flush`
    returns when everything is on the disk. The position is the length of the file, or the number
    of parts.

    Parameters
    ----------
    path : path
        A file, or for Parquet a folder. Folders on the way are made.
    format : {"auto", "jsonl", "csv", "parquet"}
        "auto" goes by the ending of the path.
    overwrite : bool
        Whether a run without checkpoint may replace what is there.
    part_rows : int
        Rows of a Parquet part; a flush ends a part also before it has so many.
    disk : Disk, optional
        By default that of the machine.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from scstream.stream.connectors.files import FileSink
    >>> from scstream.stream.sink import Delivery
    >>> columns = {"batch": np.zeros(2, int), "index": np.arange(2), "cluster": np.array([3, 3])}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sink = FileSink(path=Path(folder) / "labels.csv")
    ...     sink.open(None)
    ...     sink.write(Delivery("demo", 0, columns))
    ...     position = sink.flush()
    ...     sink.close()
    ...     position, (Path(folder) / "labels.csv").read_text().split()
    (32, ['batch,index,cluster', '0,0,3', '0,1,3'])
    """

    def __init__(
        self,
        *,
        path: str | os.PathLike[str],
        format: str = "auto",
        overwrite: bool = False,
        part_rows: int = 1_000_000,
        disk: Disk | None = None,
    ) -> None:
        if format == "auto":
            format = _ENDINGS.get(Path(path).suffix.lower(), "")
        if format not in ("jsonl", "csv", "parquet"):
            raise InputError(
                f"labels cannot be written to {path} as {format or 'auto'!r}; set format to jsonl, "
                "csv or parquet."
            )
        place = _Place(Path(path), disk or MachineDisk(), overwrite)
        self._path = Path(path)
        self._written: _Lines | _Parts = (
            _Parts(place, part_rows)
            if format == "parquet"
            else _Lines(place, is_csv=format == "csv")
        )

    def open(self, position: SinkPosition | None) -> None:
        """Undo what was written behind the position; without one the file must be empty."""
        self._written.open(position)

    def write(self, delivery: Delivery) -> None:
        """Write one delivery."""
        if delivery.n_rows:
            self._written.write(delivery)

    def flush(self) -> SinkPosition:
        """Make everything written so far last."""
        return self._written.flush()

    def close(self) -> None:
        """Let go of the file; what was not flushed may be lost."""
        self._written.close()

    def doctor(self) -> list[Finding]:
        """Say whether the path can be written, and what a flush means there."""
        folder = self._path.absolute().parent
        while not folder.exists():
            folder = folder.parent
        if not os.access(folder, os.W_OK):
            return [Finding("warn", "rights", f"{folder} cannot be written to; change that.")]
        free = shutil.disk_usage(folder).free
        room = f"{free // 2**20} MiB are free at {folder}."
        says = "what was flushed survives loss of power, as far as the disk keeps what it says."
        return [
            Finding("ok" if free > 2**30 else "warn", "room", room),
            Finding("ok", "flush", says),
        ]


@dataclass(frozen=True)
class _Place:
    """Where a sink writes, and how it says what went wrong there."""

    path: Path
    disk: Disk
    overwrite: bool

    def make_folder(self, folder: Path) -> list[Path]:
        """Make a folder; return those whose new names have to be synced."""
        changed = [folder]
        while not self._is_there(changed[-1]) and changed[-1] != changed[-1].parent:
            changed.append(changed[-1].parent)
        self.disk.make_folder(folder)
        return changed

    def _is_there(self, folder: Path) -> bool:
        try:
            self.disk.names(folder)
        except FileNotFoundError:
            return False
        return True

    def occupied(self) -> SinkError:
        return SinkError(
            f"{self.path} holds rows already and there is no checkpoint that says how many are of "
            "this pipeline; move them away, or set overwrite = true."
        )

    def lost(self, wanted: str, there: int) -> SinkError:
        return SinkError(
            f"{self.path} should have {wanted} by the checkpoint but has {there}: rows that were "
            "written are gone. Bring them back, or start anew."
        )

    def closed(self) -> SinkError:
        return SinkError(
            f"{self.path} is closed, or a write to it failed before; open it again from the last "
            "checkpoint."
        )

    def failed(self, error: OSError) -> OSError:
        """Return the error with a sentence; the pipeline ends, and goes on from its checkpoint."""
        why = os.strerror(error.errno) if error.errno else str(error)
        says = (
            f"labels could not be written ({why}); make room or repair the disk and start again: "
            "the pipeline goes on from its checkpoint"
        )
        return OSError(error.errno or 0, says, str(self.path))


class _Lines:
    """A file of lines; what is behind the position of a checkpoint is cut off."""

    def __init__(self, place: _Place, *, is_csv: bool) -> None:
        self._place = place
        self._disk = place.disk
        self._is_csv = is_csv
        self._handle: int | None = None
        self._columns: list[str] | None = None  # of CSV, once it has a header
        self._length = 0
        self._flushed = -1  # nothing is known to last
        self._folders: list[Path] = []  # with names that are not known to last

    def open(self, position: SinkPosition | None) -> None:
        self.close()
        path, length = self._place.path, position or 0
        try:
            self._folders = self._place.make_folder(path.parent)
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
        self._length, self._flushed = length, -1

    def write(self, delivery: Delivery) -> None:
        content = self._csv(delivery) if self._is_csv else json_lines(delivery)
        try:
            write_all(self._disk, self._opened(), content)
        except OSError as error:
            self.close()  # it may end in half a line, which only `open` takes away
            raise self._place.failed(error) from error
        self._length += len(content)

    def flush(self) -> SinkPosition:
        handle = self._opened()
        if self._flushed == self._length:
            return self._length
        try:
            self._disk.sync(handle)
            for folder in self._folders:
                self._disk.sync_folder(folder)
        except OSError as error:
            self.close()  # a second sync would succeed although the rows are lost
            raise self._place.failed(error) from error
        self._folders = []
        self._flushed = self._length
        return self._length

    def close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            self._disk.close(handle)

    def _opened(self) -> int:
        if self._handle is None:
            raise self._place.closed()
        return self._handle

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


class _Parts:
    """A folder of numbered Parquet files, each of which appears whole."""

    def __init__(self, place: _Place, part_rows: int) -> None:
        self._place = place
        self._disk = place.disk
        self._part_rows = part_rows
        self._rows: list[Columns] = []
        self._n_parts: int | None = None  # None: not open
        self._folders: list[Path] = []

    def open(self, position: SinkPosition | None) -> None:
        folder, n_parts = self._place.path, position or 0
        self._rows = []
        try:
            self._folders = self._place.make_folder(folder)
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
        self._opened()
        self._rows.append(delivery.columns)
        if sum(len(columns["index"]) for columns in self._rows) >= self._part_rows:
            self._write_part()

    def flush(self) -> SinkPosition:
        if self._rows:
            self._write_part()
        return self._opened()

    def close(self) -> None:
        self._rows = []
        self._n_parts = None

    def _write_part(self) -> None:
        from scstream.stream.arrow import parquet_bytes

        folder, name = self._place.path, _part_name(self._opened())
        content = parquet_bytes(self._rows)
        try:
            write_whole(self._disk, folder / f"{_DRAFT}{name}", content)
            self._disk.replace(folder / f"{_DRAFT}{name}", folder / name)
            for changed in dict.fromkeys((folder, *self._folders)):
                self._disk.sync_folder(changed)
        except OSError as error:
            self.close()
            raise self._place.failed(error) from error
        self._folders = []
        self._rows = []
        self._n_parts = self._opened() + 1

    def _opened(self) -> int:
        if self._n_parts is None:
            raise self._place.closed()
        return self._n_parts


def _part_name(number: int) -> str:
    return f"part-{number:08d}.parquet"


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
