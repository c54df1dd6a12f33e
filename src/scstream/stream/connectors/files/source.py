"""Read the rows of files, in the order of their names."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from scstream.errors import InputError, SourceChanged, SourceGap, SourceRegressed
from scstream.io.disk import MachineDisk
from scstream.stream.connectors.files.csv_lines import CsvReader, csv_line
from scstream.stream.connectors.files.fingerprint import (
    HEAD,
    Fingerprint,
    check_progress,
    check_same_file,
    progress_text,
)
from scstream.stream.connectors.files.group_file import GroupFile
from scstream.stream.connectors.files.paths import Folder, format_of
from scstream.stream.connectors.files.text_file import (
    TextFile,
    length_of_whole_lines,
    n_records,
)
from scstream.stream.findings import Finding
from scstream.stream.messages import reader
from scstream.stream.schema import Reader, Schema
from scstream.stream.source import Position, Positions, Record, Resume

_TEXT = ("csv", "jsonl")
_GROUPED = ("parquet", "arrow")
_READ_BYTES = 2**20  # size after which a read adds no more records
_POLL = 0.05  # seconds between two checks of a file that is followed


class FileSource:
    r"""Read a file, or the files of a folder or pattern in the order of their names.

    A position is `{"file": name, "offset": bytes}` for text and `{"file": name, "group": number,
    "row": row}` for Parquet and Arrow, with a "fingerprint" of the file: its inode and a
    hash of its first bytes, as far as they were read. A line is a row, also in CSV: fields cannot
    have line breaks.

    In addition to the protocol it has `reader(schema)`: the source knows the format of its files,
    so a pipeline parses its records with that reader.

    Parameters
    ----------
    path : path
        A file, a folder, or a pattern such as ``rows/*.csv``. Names that begin with a dot or an
        underscore are ignored.
    format : {"auto", "csv", "jsonl", "parquet", "arrow"}
        "auto" uses the ending of the first name.
    follow : bool
        Whether to wait at the end for more lines of the last file and for files with later names.
        A file is finished once there is one with a later name.
    start : {"first", "last"} or position
        Where a pipeline without a checkpoint begins.
    columns : sequence of str, optional
        Names of the columns of CSV files without a header; by default the first line has them.
    delimiter : str
        Separator of the fields of CSV.
    max_line : int
        Maximum number of bytes of a line; longer lines are rejected.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from scstream.stream.connectors.files import FileSource
    >>> from scstream.stream.schema import Schema
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
            raise InputError(
                f"delimiter must be one character, and no quote or line break, got {delimiter!r}."
            )
        self._folder = Folder(path)
        self._given_format = format
        self._follow = follow
        self._start = start
        self._columns = None if columns is None else tuple(columns)
        self._delimiter = delimiter
        self._max_line = max_line
        self._current: TextFile | GroupFile | None = None
        self._name = ""  # of the current file, or of the last finished one
        self._fingerprint = ""  # of the current file, for other threads
        self._progress: tuple[str, Path, int] | None = None  # name, path and offset of a file
        self._schema: Schema | None = None  # of the reader, which says which columns are needed
        self._finished = False
        self._stop = threading.Event()

    def identity(self) -> Mapping[str, str]:
        """Return the path, the fingerprint of a single file, and how far files were read."""
        path = self._folder.path
        identity = {"path": str(path)}
        if self._progress is not None:
            with contextlib.suppress(FileNotFoundError):
                identity["reached"] = progress_text(*self._progress)
        if not self._folder.is_single:
            return identity
        if not self._fingerprint and path.exists():
            length = min(length_of_whole_lines(path), HEAD)
            self._fingerprint = str(Fingerprint.of_file(path, length))
        return {**identity, "file": self._fingerprint}

    def open(self, resume: Resume | None, *, accept_gap: bool = False) -> None:
        """Go to a position, and check that its file still has what was read."""
        self._finished = False
        self._fingerprint = ""
        self._progress = None
        self._stop.clear()
        files = self._folder.files()
        if not files and not self._follow:
            raise InputError(f"there is no file at {self._folder.path}; check the path.")
        position = resume.positions.get("") if resume else None
        if position is None and resume is not None and self._folder.is_single:
            position = {
                "file": self._folder.path.name,
                "fingerprint": resume.identity.get("file", ""),
            }
        if position is None and isinstance(self._start, Mapping):
            position = self._start
        if position is not None:
            progress = resume.identity.get("reached") if resume else None
            position = self._checked(position, files, progress=progress, accept_gap=accept_gap)
        elif self._start == "last" and files:
            position = self._end(files)
        self._seek(position, files)

    def read(self, max_n: int, timeout: float) -> list[Record]:
        """Return the next records, each of several lines or rows."""
        deadline = time.monotonic() + timeout
        while True:
            records = self._take(max_n)
            left = deadline - time.monotonic()
            if records or self._finished or left <= 0:
                return records
            if self._stop.wait(min(left, _POLL)):
                return []

    def reader(self, schema: Schema) -> Reader:
        """Return the reader for the records of these files."""
        self._schema = schema
        format = self._format(self._folder.files())
        if format == "csv":
            return CsvReader(schema, delimiter=self._delimiter)
        return reader("json" if format == "jsonl" else "arrow", schema)

    def acknowledge(self, positions: Positions) -> None:
        """Do nothing: files are not changed."""

    @property
    def done(self) -> bool:
        """Whether the last file was read to its end and `follow` is off."""
        return self._finished

    def lag(self) -> int | None:
        """Return the number of unread records of 64 kB of text; None for Parquet and Arrow."""
        current = self._current
        if not isinstance(current, TextFile):
            return None
        left = [path for name, path in self._folder.files().items() if name >= current.name]
        try:
            n_bytes = sum(path.stat().st_size for path in left) - current.offset
        except FileNotFoundError:  # removed a moment ago
            return None
        return n_records(max(n_bytes, 0))

    def close(self) -> None:
        """Close the file."""
        self._stop.set()
        if self._current is not None:
            self._current.close()
            self._current = None

    def doctor(self) -> list[Finding]:
        """Explain what is at the path and what `follow` depends on."""
        files = self._folder.files()
        if not files:
            detail = f"there is no file at {self._folder.path} yet."
            return [Finding("note" if self._follow else "warn", "path", detail)]
        total = sum(path.stat().st_size for path in files.values())
        found = [
            Finding("ok", "path", f"{len(files)} files, {total} bytes, as {self._format(files)}.")
        ]
        unreadable = [name for name, path in files.items() if not os.access(path, os.R_OK)]
        if unreadable:
            found.append(
                Finding("warn", "permissions", f"{unreadable[0]} is not readable; change that.")
            )
        if self._follow:
            detail = (
                "on: lines must only be appended, and new files must have later names; a file that "
                "is renamed and created again stops the pipeline."
            )
            found.append(Finding("note", "follow", detail))
        return found

    def _format(self, files: Mapping[str, Path]) -> str:
        if self._given_format != "auto":
            return self._given_format
        name = next(iter(files), self._folder.path.name)
        format = format_of(name)
        if format is None:
            raise InputError(
                f"the format of {name!r} in {self._folder.path} is unknown from its name; set "
                "format to csv, jsonl, parquet or arrow."
            )
        return format

    def _take(self, max_n: int) -> list[Record]:
        records: list[Record] = []
        n_bytes = 0
        if self._follow and self._current is not None:
            self._current.verify()
        while len(records) < max_n and n_bytes < _READ_BYTES and not self._finished:
            if self._current is None and not self._next_file():
                self._finished = not self._follow
                break
            record = self._take_one()
            if record is not None:
                records.append(record)
                n_bytes += len(record.value) if isinstance(record.value, bytes) else 0
            elif self._current is not None:
                break
        return records

    def _take_one(self) -> Record | None:
        """Return a record of the current file; close the file if it is finished."""
        current = self._current
        if current is None:
            return None
        record = current.take(last=False)
        if record is None and self._follow and not self._later():
            self._check_replaced(current)
            return None
        if record is None:
            record = current.take(last=True)
        self._fingerprint = current.fingerprint
        self._progress = current.name, current.path, current.offset
        if record is None:
            current.close()
            self._current = None
        return record

    def _check_replaced(self, current: TextFile | GroupFile) -> None:
        """Raise if the name now belongs to another file."""
        if current.path.exists() and current.path.stat().st_ino != current.inode:
            raise SourceChanged(
                f"{current.path} was renamed or removed and created again while it was read; it "
                f"was read to byte {current.offset}. Start with --accept-gap to read the new one."
            )

    def _later(self) -> list[str]:
        return [name for name in self._folder.files() if name > self._name]

    def _next_file(self) -> bool:
        later = self._later()
        if later:
            self._seek({"file": later[0]}, self._folder.files())
        return bool(later)

    def _seek(self, position: Position, files: Mapping[str, Path]) -> None:
        """Open the file of a position, or prepare to open the first one."""
        if self._current is not None:
            self._current.close()
            self._current = None
        self._name = "" if position is None else str(position["file"])
        path = files.get(self._name)
        if path is None:
            return
        format = self._format(files)
        if format in _GROUPED:
            self._current = GroupFile(
                path, self._name, format=format, position=position, schema=self._schema
            )
        else:
            self._current = TextFile(
                path,
                self._name,
                offset=position.get("offset", 0),
                max_line=self._max_line,
                header=self._header() if format == "csv" else b"",
            )
        self._fingerprint = self._current.fingerprint

    def _header(self) -> bytes | None:
        """Return the names of the columns as a line of CSV; None if the file has them."""
        return csv_line(self._columns, self._delimiter) if self._columns else None

    def _checked(
        self,
        position: Position,
        files: Mapping[str, Path],
        *,
        progress: str | None,
        accept_gap: bool,
    ) -> Position:
        """Return the position if its file is unchanged, or where to continue after a gap."""
        path = files.get(position["file"])
        try:
            if path is not None:
                check_same_file(
                    path,
                    position,
                    inode=path.stat().st_ino,
                    size=path.stat().st_size,
                    head=lambda length: MachineDisk().read(path, 0, length),
                )
            elif position.get("fingerprint") or not self._folder.is_single:
                raise SourceGap(
                    f"{self._folder.path} has no file {position['file']!r} any more, which may not "
                    "have been read completely. Restore it, or start with --accept-gap to continue "
                    "with the next file."
                )
            if progress is not None:
                check_progress(files, progress)
        except (SourceChanged, SourceRegressed, SourceGap):
            if not accept_gap:
                raise
            return {"file": position["file"]}
        return position

    def _end(self, files: Mapping[str, Path]) -> Position:
        """Return the position after all existing rows."""
        name, path = list(files.items())[-1]
        if self._format(files) in _GROUPED:
            return {"file": name, "group": None, "row": 0}
        return {"file": name, "offset": length_of_whole_lines(path)}
