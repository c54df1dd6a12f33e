"""Compare all methods on all streams: ``python -m benchmarks paper``.

Results go to ``benchmarks/results/paper``; what is there is not run again, so that a comparison
that was cut off goes on where it stopped. ``--quick`` tries the whole harness in less than a minute
and writes no results.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import product
from pathlib import Path
from typing import Any

import numpy.typing as npt

from benchmarks.paper import cache, environments, store
from benchmarks.paper.files import Missing
from benchmarks.paper.job import Effort, Job, Save, work
from benchmarks.paper.method import METHODS, Method
from benchmarks.paper.progress import Progress, progress, say
from benchmarks.paper.run import WORKERS, Row
from benchmarks.paper.sets import SETS, DataSet
from scstream.machine import usable_cores

_QUICK = Effort(n_trials=2, limit=2.0)
_QUICK_MODULES = ("ours", "sk")  # they need no package that the project does not need
_SHOWN = ("ari", "nmi", "purity", "f", "full_nmi", "k_mean")


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks paper", description=__doc__)
    add = parser.add_argument
    add("--quick", action="store_true", help="short streams, no extra environments, no results")
    add("--set", nargs="+", default=[""], metavar="PART", help="sets with this name, or in it")
    add("--method", nargs="+", default=[""], metavar="PART", help="methods with this in the name")
    add("--limit", type=float, default=600.0, help="CPU seconds of a run, and of a tuning")
    add("--trials", type=int, default=12, help="trials of a tuning, the untuned one included")
    add("--seeds", type=int, default=1, help="runs of each kind, with seeds 0, 1, ...")
    cores = usable_cores()
    add("--jobs", type=int, default=cores, help="methods that run at a time, each on one core")
    add("--results", type=Path, default=store.FOLDER, metavar="FOLDER", help="where they go")
    add("--retry", action="store_true", help="run again what ended in an error")
    add("--page", action="store_true", help="make tables, figures and the page from the results")
    add("--list", action="store_true", help="name the sets and the methods")
    return parser.parse_args(arguments)


def chosen_sets(parts: list[str], *, quick: bool) -> list[DataSet]:
    """Sets by name, or those of the run whose name has the part in it."""
    named = [SETS[part] for part in parts if part in SETS]
    usual = [each for each in SETS.values() if (each.quick if quick else each.full)]
    loose = [part for part in parts if part not in SETS]
    return named + [s for s in usual if s not in named and any(p in s.name for p in loose)]


def chosen_methods(parts: list[str], *, quick: bool) -> list[Method]:
    """Methods by name, or those with the part in their name, whatever the case."""
    usual = [m for m in METHODS.values() if not quick or m.module in _QUICK_MODULES]
    loose = [part.lower() for part in parts if part not in METHODS]
    return [m for m in usual if m.name in parts or any(p in m.name.lower() for p in loose)]


def at_hand(sets: list[DataSet]) -> Iterator[tuple[DataSet, cache.Stored]]:
    """The sets whose files are there, written for the workers."""
    for dataset in sets:
        try:
            yield dataset, cache.stored(dataset)
        except Missing as trouble:
            say(f"{dataset.name} is left out. {trouble}")


def installed(methods: list[Method]) -> list[Method]:
    """The methods whose environment can be had; what is not built yet is built."""
    left_out = set()
    for name in {method.environment for method in methods}:
        try:
            environments.interpreter(name)
        except environments.Unavailable as trouble:
            left_out.add(name)
            say(f"The methods of environment {name} are left out. {trouble}")
    return [method for method in methods if method.environment not in left_out]


def open_jobs(
    sets: list[tuple[DataSet, cache.Stored]],
    methods: list[Method],
    seeds: range,
    done: set[store.Key],
) -> list[Job]:
    """What is not done yet, the largest streams first."""
    jobs = []
    for (dataset, stored), method, seed in product(sets, methods, seeds):
        keys = {mode: (dataset.name, method.name, mode, seed) for mode in store.MODES}
        modes = tuple(mode for mode in store.MODES if keys[mode] not in done)
        if modes and dataset.kind in method.kinds:
            jobs.append(Job(dataset, stored, method, seed, modes))
    return sorted(jobs, key=lambda job: -job.stored.size)


def carry_out(groups: list[list[Job]], effort: Effort, save: Save, n_jobs: int) -> None:
    """Do the jobs, several at a time; each group has its own process, the threads only wait."""
    with ThreadPoolExecutor(n_jobs) as pool:
        try:
            waiting = {pool.submit(work, jobs, effort, save): jobs for jobs in groups}
            for future in as_completed(waiting):
                if trouble := future.exception():
                    name = f"{waiting[future][0].dataset.name} / {waiting[future][0].method.name}"
                    say(f"{name} is left out, a fault of the harness: {trouble!r}")
        except BaseException:
            WORKERS.stop()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def told(progress: Progress, save: Save) -> Save:
    """Save, and say what was found."""
    lock = threading.Lock()

    def both(row: Row, columns: Mapping[str, npt.NDArray[Any]]) -> None:
        with lock:
            save(row, columns)
        cut = "" if row["reached"] == row["batches"] else f", {row['reached']} of {row['batches']}"
        figures = f"ARI {row['ari']:.3f}, {row['cpu_seconds']:.0f} CPU s{cut}"
        progress.done(f"{row['set']} / {row['method']} / {row['mode']}: {row['error'] or figures}")

    return both


def table(rows: list[Row]) -> str:
    """The runs as a Markdown table."""
    head = ["set", "method", "mode", *_SHOWN, "rows per CPU second", "batches", "error"]
    lines = [head, ["---"] * len(head)]
    for row in sorted(rows, key=lambda r: (r["set"], -r["ari"] if r["ari"] == r["ari"] else 2.0)):
        figures = [f"{row[name]:.3g}" for name in (*_SHOWN, "rows_per_second")]
        names = [row["set"], row["method"], row["mode"]]
        lines.append([*names, *figures, f"{row['reached']}/{row['batches']}", row["error"]])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def compare(choice: argparse.Namespace) -> list[Row]:
    """Run what the command line asks for, and return all runs that it covers."""
    sets = list(at_hand(chosen_sets(choice.set, quick=choice.quick)))
    methods = installed(chosen_methods(choice.method, quick=choice.quick))
    effort = _QUICK if choice.quick else Effort(choice.trials, choice.limit)
    kept: list[Row] = [] if choice.quick else store.runs(choice.results)
    if choice.retry and any(row["error"] for row in kept):
        store.forget({store.key(row) for row in kept if row["error"]}, choice.results)
        kept = store.runs(choice.results)
    jobs = open_jobs(sets, methods, range(choice.seeds), {store.key(row) for row in kept})

    def save(row: Row, columns: Mapping[str, npt.NDArray[Any]]) -> None:
        kept.append(row)
        if not choice.quick:
            store.add(row, columns, choice.results)

    shared = [jobs[n :: choice.jobs] for n in range(min(choice.jobs, len(jobs)))]
    groups = shared if choice.quick else [[job] for job in jobs]
    with progress(sum(len(job.modes) for job in jobs)) as shown:
        carry_out(groups, effort, told(shown, save), choice.jobs)
    names = {dataset.name for dataset, _ in sets}, {method.name for method in methods}
    return [row for row in kept if row["set"] in names[0] and row["method"] in names[1]]


def main(arguments: list[str] | None = None) -> None:
    """Compare, and print the table."""
    choice = parsed(arguments)
    if choice.list:
        print("\n".join([*SETS, "", *METHODS]))
        return
    if choice.page:
        from benchmarks.paper.page import main as make_page

        make_page(choice.results)
        return
    signal.signal(signal.SIGTERM, _ended)
    try:
        rows = compare(choice)
    except KeyboardInterrupt:
        sys.exit("Cut off; the same command goes on where this one stopped.")
    print(table(rows))
    if choice.quick and any(row["error"] for row in rows):
        sys.exit("A method failed.")


def _ended(*_: Any) -> None:
    raise KeyboardInterrupt
