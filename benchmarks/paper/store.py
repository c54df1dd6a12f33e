"""Results on disk: a line a run in ``runs.csv``, its batches in ``series.parquet``.

Both are written as each run ends, so that a comparison that was cut off goes on where it stopped.
"""

from __future__ import annotations

import csv
import fcntl
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.results_io import RESULTS

FOLDER = RESULTS / "paper"
MODES = ("default", "tuned")
KEY = ("set", "method", "mode", "seed")
_TEXT = ("set", "group", "kind", "method", "mode", "version", "machine", "python", "error")
_WHOLE = ("seed", "batches", "reached", "rows", "labels_used")
FIELDS = (
    *("set", "group", "kind", "method", "given_k", "mode", "seed", "batches", "reached", "rows"),
    *("ari", "nmi", "purity", "f", "full_nmi", "oracle_ari", "fraction_of_oracle"),
    *("k_mean", "k_true_mean", "labels_used", "cpu_seconds", "rows_per_second", "tune_seconds"),
    *("params", "version", "machine", "python", "error"),
)
_NAME = pa.dictionary(pa.int32(), pa.string())
_FIGURES = ("ari", "nmi", "purity", "f", "k", "k_true", "oracle_ari", "seconds")
_SCHEMA = pa.schema(
    [("set", _NAME), ("method", _NAME), ("mode", _NAME), ("seed", pa.int32())]
    + [("batch", pa.int32())]
    + [(name, pa.float32()) for name in _FIGURES]
)

Row = dict[str, Any]
Key = tuple[Any, ...]


def key(row: Mapping[str, Any]) -> Key:
    """What tells runs apart."""
    return tuple(row[name] for name in KEY)


def runs(folder: Path = FOLDER) -> list[Row]:
    """All runs, their values typed; a figure that is not there is nan."""
    path = folder / "runs.csv"
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [
            {name: _typed(name, text) for name, text in r.items()} for r in csv.DictReader(file)
        ]


def series(folder: Path = FOLDER) -> pa.Table:
    """The scored batches of all runs."""
    path = folder / "series.parquet"
    return pq.read_table(path, schema=_SCHEMA) if path.exists() else _SCHEMA.empty_table()


def add(row: Row, columns: Mapping[str, npt.NDArray[Any]], folder: Path = FOLDER) -> None:
    """Append a run; its batches first, so that a run that is listed has them."""
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        n = len(columns["batch"])
        keys = {name: [row[name]] * n for name in KEY}
        fresh = pa.table({**keys, **columns}).select(_SCHEMA.names).cast(_SCHEMA)
        _replace(pa.concat_tables([_without(series(folder), key(row)), fresh]), folder)
        path = folder / "runs.csv"
        is_new = not path.exists()
        with path.open("a", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            if is_new:
                writer.writeheader()
            writer.writerow({name: _text(row[name]) for name in FIELDS})


def forget(keys: set[Key], folder: Path = FOLDER) -> None:
    """Take runs out of the list, so that they are run again."""
    with _locked(folder):
        kept = [row for row in runs(folder) if key(row) not in keys]
        path = folder / "runs.csv"
        fresh = path.with_suffix(".new")
        with fresh.open("w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows({name: _text(row[name]) for name in FIELDS} for row in kept)
        fresh.replace(path)


def _replace(table: pa.Table, folder: Path) -> None:
    fresh = folder / "series.new"
    pq.write_table(table, fresh, compression="zstd")
    fresh.replace(folder / "series.parquet")


def _without(table: pa.Table, unwanted: Key) -> pa.Table:
    if not len(table):
        return table
    same = [pc.equal(table[name], value) for name, value in zip(KEY, unwanted, strict=True)]
    found = same[0]
    for other in same[1:]:
        found = pc.and_(found, other)
    return table.filter(pc.invert(found))


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one writer in at a time, also from another command."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return json.dumps(value, sort_keys=True)
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.6g}"
    return str(value)


def _typed(name: str, text: str) -> Any:
    if name in _TEXT:
        return text
    if name == "params":
        return json.loads(text)
    if name == "given_k":
        return text == "True"
    if name in _WHOLE:
        return int(text)
    return float(text) if text else math.nan
