"""Labels to files, exactly once."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from scstream.errors import InputError
from scstream.io.disk import Disk, MachineDisk
from scstream.stream.connectors.files.paths import format_of
from scstream.stream.connectors.files.written import Lines, Parts, Place
from scstream.stream.findings import Finding
from scstream.stream.sink import Delivery, SinkPosition


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
            format = format_of(path) or ""
        if format not in ("jsonl", "csv", "parquet"):
            raise InputError(
                f"labels cannot be written to {path} as {format or 'auto'!r}; set format to jsonl, "
                "csv or parquet."
            )
        place = Place(Path(path), disk or MachineDisk(), overwrite)
        self._path = Path(path)
        self._written: Lines | Parts = (
            Parts(place, part_rows) if format == "parquet" else Lines(place, is_csv=format == "csv")
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
        detail = "what was flushed survives loss of power, as far as the disk keeps what it says."
        return [
            Finding("ok" if free > 2**30 else "warn", "room", room),
            Finding("ok", "flush", detail),
        ]
