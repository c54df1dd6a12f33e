"""Results as JSON lines: a run that was cut off goes on where it stopped."""

from __future__ import annotations

import csv
import json
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
EVIDENCE = Path(__file__).parents[1] / "docs" / "evidence"


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Rows by their key."""
    if not path.exists():
        return {}
    return {row["key"]: row for row in map(json.loads, path.read_text().splitlines())}


def fill(
    path: Path, jobs: dict[str, tuple[Any, ...]], work: Callable[..., dict[str, Any]], n_jobs: int
) -> dict[str, dict[str, Any]]:
    """Run the jobs whose key is not in the file yet; append each result as it comes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    done = read(path)
    open_jobs = {key: args for key, args in jobs.items() if key not in done}
    started = time.monotonic()
    for n, (key, row) in enumerate(_completed(open_jobs, work, n_jobs), 1):
        done[key] = {"key": key} | row
        with path.open("a") as file:
            file.write(json.dumps(done[key]) + "\n")
        seconds = time.monotonic() - started
        print(f"[{n}/{len(open_jobs)}] {seconds:6.0f} s  {key}", file=sys.stderr, flush=True)
    return {key: done[key] for key in jobs}


def _completed(
    jobs: dict[str, tuple[Any, ...]], work: Callable[..., dict[str, Any]], n_jobs: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    if n_jobs == 1:
        for key, args in jobs.items():
            yield key, work(*args)
        return
    with ProcessPoolExecutor(n_jobs) as pool:
        futures = {pool.submit(work, *args): key for key, args in jobs.items()}
        for future in as_completed(futures):
            yield futures[future], future.result()


def write_table(part: str, name: str, rows: list[dict[str, Any]]) -> None:
    """Save the table of a part of an experiment, and show it."""
    names = list(dict.fromkeys(key for row in rows for key in row))
    with (RESULTS / f"{part}-{name}.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, names, lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    for row in rows:
        print(name, row, flush=True)
