"""Rows of a file or of standard input, for commands that read them once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scstream.cli.defaults import parse_raw
from scstream.cli.settings import (
    Layer,
    Setting,
    Tables,
    merge_layers,
    read_environment,
    read_file,
    read_sets,
    to_tables,
)
from scstream.errors import InputError, SinkError
from scstream.preprocess.block import Block, join
from scstream.stream.batcher import Offsets
from scstream.stream.connectors.files.paths import Folder, format_of
from scstream.stream.schema import Reader
from scstream.stream.source import Source

STDIN = "-"
_TEXT_FORMATS = ("csv", "jsonl")
_CHUNK_ROWS = 16_384  # about
_WAIT_SECONDS = 0.05
_PATH_ERRORS = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
_RUN_SECTIONS = ("sink", "dead_letters", "checkpoint", "keys", "alerts")  # only for `run`


def row_settings(
    rows: str, *, format: str | None, file: Path | None, sets: list[str] | None, flags: Layer
) -> Tables:
    """Return the settings of a pipeline that reads these rows.

    Sections of the settings file that only `run` uses are ignored; so are those sections and the
    source in environment variables.
    """
    kind = "stdin" if rows == STDIN else "file"
    source: Layer = {("source", "kind"): Setting(kind, "ROWS")}
    if kind == "file":
        source["source", "path"] = Setting(rows, "ROWS")
    if format is not None:
        source["source", "format"] = Setting(format, "--format")
    from_file = {} if file is None else read_file(file, os.environ)
    from_file = {key: s for key, s in from_file.items() if key[0] not in _RUN_SECTIONS}
    from_environment = {
        key: setting
        for key, setting in read_environment(os.environ).items()
        if key[0] not in ("source", *_RUN_SECTIONS)
    }
    layer = merge_layers(from_file, from_environment, source, flags, read_sets(sets or []))
    settings = to_tables(parse_raw(layer))
    if settings.get("schema", {}).get("key") is not None:
        raise InputError(
            "schema.key asks for one model per key, but this command uses one model for all rows; "
            "remove it, or use scstream run."
        )
    return settings


@dataclass(frozen=True)
class InputSize:
    """Sizes of the input files in bytes, for a progress bar; empty if unknown."""

    sizes: Mapping[str, int]

    @classmethod
    def of(cls, settings: Tables) -> InputSize:
        """Measure the files that a source will read."""
        source = settings["source"]
        if source["kind"] != "file":
            return cls({})
        files = Folder(source["path"]).files()
        format = source.get("format", "auto")
        if format == "auto":
            format = format_of(next(iter(files), ""))
        if format not in _TEXT_FORMATS:
            return cls({})
        return cls({name: path.stat().st_size for name, path in files.items()})

    @property
    def total(self) -> int | None:
        """Total bytes; None if unknown."""
        return sum(self.sizes.values()) or None

    def before(self, position: Any) -> int:
        """Return the bytes before a position of the source."""
        if not self.sizes or not isinstance(position, Mapping):
            return 0
        name = position.get("file", "")
        before = sum(size for other, size in self.sizes.items() if other < name)
        return before + int(position.get("offset", 0))

    def before_offsets(self, offsets: Offsets) -> int:
        """Return the bytes before the end of a batch."""
        return self.before(offsets[""].position) if "" in offsets else 0


def read_chunks(source: Source, reader: Reader) -> Iterator[tuple[Block, Any]]:
    """Yield all rows in chunks, each with the source position after it."""
    source.open(None)
    blocks: list[Block] = []
    after: Any = None
    try:
        while not source.done:
            records = source.read(1, _WAIT_SECONDS)
            for record in records:
                value = record.value
                blocks.append(value if isinstance(value, Block) else reader.read(value))
                after = record.after
            n_rows = sum(block.n_rows for block in blocks)
            if n_rows >= _CHUNK_ROWS or (n_rows and not records):
                yield join(blocks), after
                blocks = []
        if blocks:
            yield join(blocks), after
    finally:
        source.close()


@contextmanager
def explain_os_errors(rows: str | None = None, *, output: str | None = None) -> Iterator[None]:
    """Turn OS errors into errors that name the file: the rows that are read, or the output."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if output is not None and (rows is None or error.filename == output):
            raise _write_error(output, error) from error
        path = rows if error.filename is None else error.filename
        raise InputError(f"{path} cannot be read: {_reason(error)}; check the path.") from error


def input_name(settings: Tables) -> str:
    """Return the path of the rows."""
    return str(settings["source"].get("path", "standard input"))


def _write_error(path: str, error: OSError) -> InputError | SinkError:
    if isinstance(error, _PATH_ERRORS):
        return InputError(f"{path} cannot be written: {_reason(error)}; check the path.")
    return SinkError(
        f"{path} could not be written: {_reason(error)}; free some space, or write elsewhere."
    )


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else str(error)


def check_output(path: Path, *, force: bool, inputs: Sequence[str] = ()) -> None:
    """Raise before any work is done if a file cannot be written or would be overwritten."""
    if not path.parent.is_dir():
        raise InputError(
            f"there is no folder {path.parent} to write {path.name} to; create it, or use another."
        )
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the name of a file.")
    if path.exists() and any(Path(each).exists() and path.samefile(each) for each in inputs):
        raise InputError(f"{path} is an input of this command; write to another file.")
    if path.exists() and not force:
        raise InputError(f"{path} exists already; replace it with --force, or use another name.")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"the folder {path.parent} is not writable; change its permissions.")


def label_sink(labels: str, inputs: list[str], *, as_json: bool, force: bool) -> Tables:
    """Return the settings of the sink for `--labels`."""
    if labels == STDIN:
        return {"kind": "stdout", "format": "jsonl" if as_json else "csv"}
    if format_of(labels) != "parquet":
        check_output(Path(labels), force=force, inputs=inputs)
    return {"kind": "file", "path": labels, "overwrite": force}
