"""A line on standard error that counts what was learned so far."""

from __future__ import annotations

import sys
import time
from typing import TextIO

_SECONDS = 0.2  # between two changes of the line


class ProgressLine:
    """One line that is written again and again: on a terminal or in a notebook, nowhere else."""

    def __init__(self, *, shown: bool, total: int | None = None) -> None:
        self._stream = sys.stderr if shown and _rewrites_lines(sys.stderr) else None
        self._total = total
        self._began = time.monotonic()
        self._next = self._began
        self._text = ""

    def update(self, n_batches: int, n_rows: int, n_clusters: int) -> None:
        """Show the counts, unless the line has just changed."""
        if self._stream is None:
            return
        now = time.monotonic()
        of = "" if self._total is None else f" of {self._total:,}"
        self._text = (
            f"{n_batches:,}{of} batches, {n_rows:,} rows, {n_clusters:,} clusters, "
            f"{now - self._began:.1f} s"
        )
        if now >= self._next:
            self._next = now + _SECONDS
            self._write(f"\r{self._text}")

    def close(self) -> None:
        """Leave the last counts."""
        if self._text:
            self._write(f"\r{self._text}\n")

    def _write(self, text: str) -> None:
        assert self._stream is not None
        self._stream.write(text)
        self._stream.flush()


def _rewrites_lines(stream: TextIO | None) -> bool:
    """Return True if a carriage return goes back to the start of the line, and somebody looks."""
    if stream is None:  # Python without a console
        return False
    return stream.isatty() or type(stream).__module__.startswith("ipykernel")
