"""The files that a path refers to, and their format by their names."""

from __future__ import annotations

import glob
import os
from pathlib import Path

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


def format_of(name: str | os.PathLike[str]) -> str | None:
    """Return the format for the ending of a name, None if the ending is unknown."""
    return _ENDINGS.get(Path(name).suffix.lower())


class Folder:
    """The files of a path: itself, those of a folder, or those that match a pattern."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._is_pattern = glob.has_magic(str(path)) and not self.path.exists()
        parts = self.path.parts
        magic = next((i for i, part in enumerate(parts) if glob.has_magic(part)), len(parts))
        self._root = Path(*parts[:magic]) if self._is_pattern else self.path

    @property
    def is_single(self) -> bool:
        """Whether the path is one file."""
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
