"""A model wherever it is: in a file, or the newest sound checkpoint of a folder or object store."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scstream.cli.places import is_folder
from scstream.cli.veil import Veil
from scstream.errors import CheckpointCorrupt, InputError
from scstream.io._packing import read_header
from scstream.io.model_file import DAMAGE
from scstream.stream.checkpoint_log import VERSION
from scstream.stream.follower import Follower
from scstream.stream.model_version import ModelVersion
from scstream.stream.progress import Progress
from scstream.stream.runner import EventCallback, ignore_event
from scstream.stream.schema import Schema

_TRIES = 10


@dataclass(frozen=True)
class Opened:
    """A model and where it was found.

    Parameters
    ----------
    place : str
        The file, folder or address.
    reading : ModelVersion
        The model.
    n_bytes : int
        Size of its file.
    writer : str
        Version of scstream that wrote it.
    kept : bool
        Whether it is one of the checkpoints of a pipeline, and not a model file.

    Examples
    --------
    >>> from scstream.cli.opened import open_model
    >>> open_model("no-such-file.scstream")
    Traceback (most recent call last):
    ...
    scstream.errors.InputError: there is no file or folder no-such-file.scstream; ...
    """

    place: str
    reading: ModelVersion
    n_bytes: int
    writer: str
    kept: bool

    @property
    def progress(self) -> Progress | None:
        """Progress of the pipeline that wrote it; None if none did."""
        return self.reading.progress

    @property
    def schema(self) -> Schema:
        """Which columns rows must have to be asked about; event times and keys need not come."""
        family = self.reading.model.family
        if self.progress is None:
            return Schema(features=self.reading.columns, missing=family.handles_missing)
        known = self.progress.schema
        return Schema(features=known.features, text=known.text, missing=family.handles_missing)


def open_model(
    place: str, *, options: Mapping[str, Any] | None = None, emit: EventCallback = ignore_event
) -> Opened:
    """Open a model file, or the newest sound checkpoint of a pipeline.

    Parameters
    ----------
    place : str
        A file, a folder of checkpoints, or an address such as "s3://bucket/prefix".
    options : mapping, optional
        As `checkpoint.options` of a pipeline.
    emit : callable
        Is told of checkpoints that are damaged and were passed over.

    Returns
    -------
    Opened
        The model.
    """
    if is_folder(place) and not Path(place).is_dir():
        return _opened_file(Path(place))
    try:
        return _newest(place, Follower.open(place, options=options, emit=emit))
    except OSError as error:
        raise InputError(f"{place} cannot be read: {error.strerror or error}.") from error


def _newest(place: str, follower: Follower) -> Opened:
    for _ in range(_TRIES):
        reading = follower.current()
        with suppress(KeyError):  # pruned by the pipeline that runs; there is a newer one
            content = follower.store.get(f"{VERSION}{reading.version:015d}")
            writer = str(read_header(content)["writer"])
            return Opened(place, reading, len(content), writer, kept=True)
        follower.refresh()
    raise InputError(f"the checkpoints in {place} change faster than they can be read; try again.")


def _opened_file(path: Path) -> Opened:
    content = read_file(path)
    try:
        writer = str(read_header(content)["writer"])
    except DAMAGE as error:
        raise CheckpointCorrupt(
            f"{path} is no model file, or a damaged one ({error}); restore an older copy, or make "
            "one with scstream fit."
        ) from error
    reading = ModelVersion.of(content, name=str(path))
    if reading is None:
        raise InputError(f"{path} holds a pipeline that has learned nothing yet; learn some rows.")
    return Opened(str(path), reading, len(content), writer, kept=False)


def read_file(path: Path) -> bytes:
    """Return what a model file holds.

    Examples
    --------
    >>> from pathlib import Path
    >>> from scstream.cli.opened import read_file
    >>> read_file(Path("no-such-file.scstream"))
    Traceback (most recent call last):
    ...
    scstream.errors.InputError: there is no file or folder no-such-file.scstream; ...
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError(
            f"there is no file or folder {path}; give a model file, or the folder or s3:// address "
            "of a pipeline's checkpoints."
        ) from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error


def passed_over(veil: Veil, *, lines: bool) -> EventCallback:
    r"""Return what tells of checkpoints that could not be used, on the standard error.

    Examples
    --------
    >>> import contextlib, io
    >>> from scstream.cli.opened import passed_over
    >>> from scstream.cli.veil import Veil
    >>> with contextlib.redirect_stderr(io.StringIO()) as shown:
    ...     passed_over(Veil(), lines=False)("damaged", name="version-7", reason="it is torn.")
    >>> shown.getvalue()
    'scstream: version-7 was passed over: it is torn.\n'
    """

    def tell(kind: str, /, **values: Any) -> None:
        if kind not in ("damaged", "too_new"):
            return
        if lines:
            from scstream.cli.logs import Log

            Log(veil).tell(kind, **values)
        else:
            sys.stderr.write(f"scstream: {values['name']} was passed over: {values['reason']}\n")

    return tell
