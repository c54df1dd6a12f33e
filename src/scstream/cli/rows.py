"""Rows of a file, or of the standard input, for commands that go through them once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scstream.cli.settings import (
    Given,
    Layer,
    layered,
    nested,
    read_environment,
    read_file,
    read_sets,
)
from scstream.errors import InputError, SinkError
from scstream.preprocess.block import Block, join
from scstream.stream.batcher import Offsets
from scstream.stream.connectors.files.paths import Folder, format_of
from scstream.stream.schema import Reader
from scstream.stream.source import Source

STDIN = "-"
_TEXT = ("csv", "jsonl")
_CHUNK = 16_384  # rows that are worked on at once, more or less
_WAIT = 0.05  # seconds
_WRONG_PATH = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
_OF_RUN = (
    "sink",
    "dead_letters",
    "checkpoint",
    "keys",
    "alerts",
)  # sections that `run` alone looks at


def row_settings(
    rows: str, *, format: str | None, file: Path | None, sets: list[str] | None, **flags: Layer
) -> dict[str, Any]:
    """Return the settings of a pipeline that reads these rows.

    Parameters
    ----------
    rows : str
        A file, a folder, a pattern, or "-" for the standard input.
    format : str or None
        What it holds; by default its name says so, and the standard input holds JSON lines.
    file : path or None
        Settings of a pipeline; what it says of sinks, checkpoints and keys is left out. So it is
        with variables, and what they say of the source.
    sets : list of str or None
        `section.key=value`.
    **flags : layers
        More of what was given.

    Returns
    -------
    dict
        As `scstream.stream.config.build` takes them.

    Examples
    --------
    >>> from scstream.cli.rows import row_settings
    >>> row_settings("rows.csv", format=None, file=None, sets=["batch.rows=500"])
    {'source': {'kind': 'file', 'path': 'rows.csv'}, 'batch': {'rows': 500}}
    """
    kind = "stdin" if rows == STDIN else "file"
    own: Layer = {("source", "kind"): Given(kind, "ROWS")}
    if kind == "file":
        own["source", "path"] = Given(rows, "ROWS")
    if format is not None:
        own["source", "format"] = Given(format, "--format")
    written = {} if file is None else read_file(file, os.environ)
    written = {key: given for key, given in written.items() if key[0] not in _OF_RUN}
    around = read_environment(os.environ)
    around = {key: given for key, given in around.items() if key[0] not in ("source", *_OF_RUN)}
    from scstream.cli.defaults import settled

    layer = layered(written, around, own, *flags.values(), read_sets(sets or []))
    settings = nested(settled(layer))
    if settings.get("schema", {}).get("key") is not None:
        raise InputError(
            "schema.key asks for one model for each key, and here one model learns all rows; leave "
            "it out, or use scstream run."
        )
    return settings


@dataclass(frozen=True)
class Extent:
    """How much there is to read, for a bar.

    Parameters
    ----------
    sizes : mapping of str to int
        Bytes of the files by name, in their order; nothing where that says nothing.

    Examples
    --------
    >>> from scstream.cli.rows import Extent
    >>> extent = Extent({"a.csv": 100, "b.csv": 50})
    >>> extent.total, extent.at({"file": "b.csv", "offset": 10})
    (150, 110)
    """

    sizes: Mapping[str, int]

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Extent:
        """Look at the files that a source will read."""
        source = settings["source"]
        if source["kind"] != "file":
            return cls({})
        files = Folder(source["path"]).files()
        format = source.get("format", "auto")
        if format == "auto":
            format = format_of(next(iter(files), ""))
        return cls({n: p.stat().st_size for n, p in files.items()} if format in _TEXT else {})

    @property
    def total(self) -> int | None:
        """Bytes in all; None if nobody knows."""
        return sum(self.sizes.values()) or None

    def at(self, position: Any) -> int:
        """Bytes before a position of the source."""
        if not self.sizes or not isinstance(position, Mapping):
            return 0
        name = position.get("file", "")
        before = sum(size for other, size in self.sizes.items() if other < name)
        return before + int(position.get("offset", 0))

    def reached(self, mark: Offsets) -> int:
        """Bytes before where a batch ends."""
        return self.at(mark[""].position) if "" in mark else 0


def chunks(source: Source, reader: Reader) -> Iterator[tuple[Block, Any]]:
    """Yield all rows, some thousands at a time, each time with the position behind them.

    Examples
    --------
    >>> import os
    >>> from scstream.cli.rows import chunks
    >>> from scstream.stream.connectors.pipes import StdinSource
    >>> from scstream.stream.schema import Schema
    >>> end, other_end = os.pipe()
    >>> _ = os.write(other_end, bytes("[1.5] [2.5]".replace(" ", chr(10)), "ascii"))
    >>> os.close(other_end)
    >>> source = StdinSource(descriptor=end)
    >>> [block.X.tolist() for block, _ in chunks(source, source.reader(Schema()))]
    [[[1.5], [2.5]]]
    """
    source.open(None)
    waiting: list[Block] = []
    after: Any = None
    try:
        while not source.done:
            records = source.read(1, _WAIT)
            for record in records:
                value = record.value
                waiting.append(value if isinstance(value, Block) else reader.read(value))
                after = record.after
            n_rows = sum(block.n_rows for block in waiting)
            if n_rows >= _CHUNK or (n_rows and not records):
                yield join(waiting), after
                waiting = []
        if waiting:
            yield join(waiting), after
    finally:
        source.close()


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn what the disk says while a file is written into a sentence.

    Examples
    --------
    >>> from scstream.cli.rows import writing
    >>> with writing("labels.csv"):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    ...
    scstream.errors.SinkError: labels.csv could not be written: No space left on device; ...
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _unwritten(str(path), error) from error


@contextmanager
def reading(rows: str, *, labels: str | None = None) -> Iterator[None]:
    """Turn what the disk says while rows are read, and labels written, into a sentence.

    Examples
    --------
    >>> from scstream.cli.rows import reading
    >>> with reading("secret.csv"):
    ...     raise PermissionError(13, "Permission denied", "secret.csv")
    Traceback (most recent call last):
    ...
    scstream.errors.InputError: secret.csv cannot be read: Permission denied; check the path.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if labels is not None and error.filename == labels:
            raise _unwritten(labels, error) from error
        place = rows if error.filename is None else error.filename
        raise InputError(f"{place} cannot be read: {_why(error)}; check the path.") from error


def _unwritten(path: str, error: OSError) -> InputError | SinkError:
    if isinstance(error, _WRONG_PATH):
        return InputError(f"{path} cannot be written: {_why(error)}; check the path.")
    return SinkError(f"{path} could not be written: {_why(error)}; make room, or write elsewhere.")


def _why(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)


def check_output(path: Path, *, force: bool, needed: Sequence[str] = ()) -> None:
    """Refuse to write over a file, or where nothing can be written, before any work is done.

    Parameters
    ----------
    path : path
        The file to write.
    force : bool
        Whether a file that is there may be replaced.
    needed : sequence of str
        Files that are read meanwhile, and may not.

    Examples
    --------
    >>> from pathlib import Path
    >>> from scstream.cli.rows import check_output
    >>> check_output(Path("no-such-folder", "m.scstream"), force=False)
    Traceback (most recent call last):
    ...
    scstream.errors.InputError: there is no folder no-such-folder to write m.scstream to; ...
    """
    if not path.parent.is_dir():
        raise InputError(
            f"there is no folder {path.parent} to write {path.name} to; make it, or name another."
        )
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the name of a file.")
    if path.exists() and any(Path(each).exists() and path.samefile(each) for each in needed):
        raise InputError(f"{path} is read here, and cannot be written at once; name another.")
    if path.exists() and not force:
        raise InputError(f"{path} is there already; replace it with --force, or name another.")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"nothing can be written to the folder {path.parent}; change its rights.")
