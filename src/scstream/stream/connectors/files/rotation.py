"""Write a file of lines that is closed when it is long; the oldest of the closed files go.

"dead.jsonl" is the open file, "dead.00000000.jsonl" the first one that was closed. Where a file is
closed follows from the deliveries alone, so a replay closes the same files.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path

from scstream.errors import InputError
from scstream.stream.connectors.files.writers import LinesWriter, Target
from scstream.stream.sink import Delivery, SinkPosition

_DIGITS = 8
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Rotation:
    """When a file is closed, and how many closed files are kept; never without `max_bytes`."""

    max_bytes: int | None
    max_files: int

    def __post_init__(self) -> None:
        for name, value in (("max_bytes", self.max_bytes), ("max_files", self.max_files)):
            is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 1
            if not is_number and (name, value) != ("max_bytes", None):
                raise InputError(f"{name} must be a whole number from 1, got {value!r}.")

    @property
    def max_total(self) -> int | None:
        """Bytes of all files together, for files that are closed at other sizes."""
        return None if self.max_bytes is None else self.max_bytes * (1 + self.max_files)


class RotatingWriter(LinesWriter):
    """A file of lines and the closed ones; `open` undoes what was closed after the checkpoint.

    The position is the length of the open file; after the first closed file, it is the number of
    closed files and the length.
    """

    def __init__(self, target: Target, rotation: Rotation, *, is_csv: bool) -> None:
        super().__init__(target, is_csv=is_csv)
        self._rotation = rotation
        self._n_closed = 0

    def open(self, position: SinkPosition | None) -> None:
        """Go back to the position: reopen the file that was open then, and truncate it."""
        self._n_closed, length = position if isinstance(position, list) else (0, position)
        if self._rotation.max_bytes is not None or self._n_closed:
            try:
                length = self._reopen(length)
            except OSError as error:
                raise self._target.failed(error) from error
        super().open(length)

    def write(self, delivery: Delivery) -> None:
        """Append the rows of a delivery, to a new file if the last one is long enough."""
        max_bytes = self._rotation.max_bytes
        if max_bytes is not None and self._length >= max_bytes:
            self._rotate()
        super().write(delivery)

    def flush(self) -> SinkPosition:
        """Sync the file; return the position after it."""
        length = super().flush()
        return [self._n_closed, length] if self._n_closed else length

    def _reopen(self, length: int | None) -> int | None:
        """Rename the file that was open back, remove later ones; return where to truncate it."""
        later = {
            number: path for number, path in self._closed().items() if number >= self._n_closed
        }
        if length is None and later and not self._target.overwrite:
            raise self._target.occupied()
        before = later.pop(self._n_closed, None)
        for path in later.values():
            self._disk.remove(path)
        if before is not None:
            self._disk.replace(before, self._target.path)
        elif later and length is not None:
            length = 0  # it was closed since and deleted because of its age
        if before is not None or later:
            self._disk.sync_folder(self._target.path.parent)
        return length

    def _rotate(self) -> None:
        super().flush()
        self.close()
        path = self._target.path
        try:
            self._disk.replace(path, self._path_of(self._n_closed))
            self._disk.sync_folder(path.parent)
            self._n_closed += 1
            self._delete_oldest()
        except OSError as error:
            raise self._target.failed(error) from error
        super().open(0)

    def _delete_oldest(self) -> None:
        for number, path in self._closed().items():
            if number < self._n_closed - self._rotation.max_files:
                self._disk.remove(path)
                _log.warning(
                    "%s was deleted: the newest %d closed files are kept (max_files).",
                    path,
                    self._rotation.max_files,
                )

    def _closed(self) -> dict[int, Path]:
        """Return the closed files by number, the oldest first."""
        try:
            names = self._disk.names(self._target.path.parent)
        except FileNotFoundError:
            return {}
        start, end = self._around()
        numbers = {name: name[len(start) : len(name) - len(end)] for name in names}
        return {
            int(number): self._target.path.parent / name
            for name, number in numbers.items()
            if name == f"{start}{number}{end}" and len(number) >= _DIGITS and number.isdecimal()
        }

    def _path_of(self, number: int) -> Path:
        start, end = self._around()
        return self._target.path.parent / f"{start}{number:0{_DIGITS}d}{end}"

    def _around(self) -> tuple[str, str]:
        """Return what is before and after the number in the name of a closed file."""
        stem, ending = os.path.splitext(os.path.basename(self._target.path))
        return f"{stem}.", ending
