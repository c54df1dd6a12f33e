"""Write labels to files, exactly once."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from scstream.errors import InputError
from scstream.io.disk import Disk, MachineDisk
from scstream.stream.connectors.files.paths import format_of
from scstream.stream.connectors.files.rotation import RotatingWriter, Rotation
from scstream.stream.connectors.files.writers import LinesWriter, PartsWriter, Target
from scstream.stream.findings import Finding
from scstream.stream.sink import Delivery, SinkPosition


class FileSink:
    """Write labels to a file of JSON lines or CSV, or to a folder of Parquet parts; exactly once.

    `open` truncates the file, or removes the parts, after the position of the checkpoint, and
    `flush` returns when everything is on disk. The position is the length of the file, or the
    number of parts; with `max_bytes` also the number of closed files.

    Parameters
    ----------
    path : path
        A file, or for Parquet a folder. Missing folders are created.
    format : {"auto", "jsonl", "csv", "parquet"}
        "auto" uses the ending of the path.
    overwrite : bool
        Whether a run without a checkpoint may replace existing rows.
    part_rows : int
        Maximum number of rows of a Parquet part; a flush ends a part earlier.
    max_bytes : int, optional
        Size from which the file is closed, under a name such as "labels.00000000.csv", and a new
        one is begun. By default a file has no limit, but that of `dead_letters` has 64 MiB.
    max_files : int
        With `max_bytes`: how many closed files are kept; older ones are deleted. Of Parquet, the
        newest parts of as many bytes together are kept.
    disk : Disk, optional
        File operations; by default those of the machine.

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
        max_bytes: int | None = None,
        max_files: int = 10,
        disk: Disk | None = None,
    ) -> None:
        if format == "auto":
            format = format_of(path) or ""
        if format not in ("jsonl", "csv", "parquet"):
            raise InputError(
                f"labels cannot be written to {path} as {format or 'auto'!r}; set format to jsonl, "
                "csv or parquet."
            )
        target = Target(Path(path), disk or MachineDisk(), overwrite)
        self._path = Path(path)
        rotation = Rotation(max_bytes, max_files)
        self._writer: LinesWriter | PartsWriter
        if format == "parquet":
            self._writer = PartsWriter(target, part_rows, max_total=rotation.max_total)
        else:
            self._writer = RotatingWriter(target, rotation, is_csv=format == "csv")

    def open(self, position: SinkPosition | None) -> None:
        """Undo what was written after the position; without one the file must be empty."""
        self._writer.open(position)

    def write(self, delivery: Delivery) -> None:
        """Write one delivery."""
        if delivery.n_rows:
            self._writer.write(delivery)

    def flush(self) -> SinkPosition:
        """Sync everything written so far to the disk."""
        return self._writer.flush()

    def close(self) -> None:
        """Close the file; rows that were not flushed may be lost."""
        self._writer.close()

    def doctor(self) -> list[Finding]:
        """Explain whether the path can be written, and what a flush means there."""
        folder = self._path.absolute().parent
        while not folder.exists():
            folder = folder.parent
        if not os.access(folder, os.W_OK):
            return [Finding("warn", "permissions", f"{folder} is not writable; change that.")]
        free = shutil.disk_usage(folder).free
        space = f"{free // 2**20} MiB are free at {folder}."
        detail = "flushed rows survive a power failure, if the disk obeys sync commands."
        return [
            Finding("ok" if free > 2**30 else "warn", "space", space),
            Finding("ok", "flush", detail),
        ]
