"""`scstream bench`: measure how fast this machine reads, learns, predicts and saves."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from scstream import __version__
from scstream.cli import render
from scstream.cli.progress import ProgressBar
from scstream.errors import InputError
from scstream.families.base import Array
from scstream.machine import show_config, usable_cores
from scstream.model import Model, Settings
from scstream.preprocess import Steps
from scstream.stream.connectors.files import CsvReader
from scstream.stream.messages import reader
from scstream.stream.model_version import ModelVersion
from scstream.stream.schema import Schema

_FAMILIES = ("gaussian", "diagonal")
_PREDICTED_ROWS = 20_000
_REPEATS = 5
_PHASES = {  # what is measured, and its description
    "read csv": "text to numbers, always one thread",
    "read json": "the same for JSON lines",
    "first batch": "chooses the prior and the first clusters; once per model",
    "learn": "one batch, median; the upper limit of scstream run",
    "predict": f"{_PREDICTED_ROWS:,} rows at once: scstream predict, large requests of a service",
    "predict one": "one row at a time: mostly overhead",
    "save": "encode a checkpoint, without the disk",
    "load": "decode and check it",
}


@dataclass(frozen=True)
class SyntheticStream:
    """Random batches of Gaussian clusters that do not move."""

    n_features: int = 16
    n_clusters: int = 20
    n_rows: int = 1000
    n_batches: int = 30
    family: str = "gaussian"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.family not in _FAMILIES:
            raise InputError(f"bench knows the families {', '.join(_FAMILIES)}.")

    def batches(self) -> list[Array]:  # of (N, D)
        """Draw the batches."""
        return np.split(self.rows(self.n_rows * self.n_batches), self.n_batches)

    def rows(self, n: int) -> Array:  # (n, D)
        """Draw some rows."""
        rng = np.random.default_rng(self.seed)
        centres = 10.0 * rng.normal(size=(self.n_clusters, self.n_features))
        which = rng.integers(0, self.n_clusters, n)
        return np.asarray(centres[which] + rng.normal(size=(n, self.n_features)))


@dataclass(frozen=True)
class Phase:
    """Seconds of a phase, and its rows per second if it has rows."""

    name: str
    threads: int
    seconds: float
    rows_per_second: float | None


@dataclass(frozen=True)
class BenchResult:
    """All measurements, and the machine they were taken on."""

    scstream: str
    kernels: str
    isa: str | None
    cores: int
    load: float  # cores that other programs used in the minute before
    platform: str
    n_features: int
    n_clusters: int
    n_rows: int
    n_batches: int
    family: str
    found_clusters: int
    bytes: int
    phases: tuple[Phase, ...]


def measure(stream: SyntheticStream, *, show_bar: bool = True) -> BenchResult:
    """Measure all phases, with one thread and with all."""
    batches, cores = stream.batches(), usable_cores()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    phases = _measure_reading(batches[0])
    counts = dict.fromkeys((1, cores))  # only once if there is one core
    config = show_config(as_dict=True)
    with ProgressBar(len(counts) * len(batches), shown=show_bar) as bar:
        for number, n_threads in enumerate(counts):

            def report(n: int, number: int = number, n_threads: int = n_threads) -> None:
                bar.update(number * len(batches) + n, f"{n_threads} threads")

            model, learning = _measure_learning(stream, batches, n_threads, report)
            phases += [*learning, *_measure_predicting(model, stream, n_threads)]
    content, saving = _measure_saving(model)
    return BenchResult(
        scstream=__version__,
        kernels=config["kernels"],
        isa=config["isa"],
        cores=cores,
        load=load,
        platform=config["platform"],
        **{name: value for name, value in vars(stream).items() if name != "seed"},
        found_clusters=model.state.n_clusters,
        bytes=len(content),
        phases=(*phases, *saving),
    )


def _measure_reading(rows: Array) -> list[Phase]:
    columns = tuple(f"x{d}" for d in range(rows.shape[1]))
    text = io.BytesIO()
    np.savetxt(text, rows, delimiter=",", fmt="%.6f")
    csv = f"{','.join(columns)}\n".encode() + text.getvalue()
    objects = "".join(
        "{" + ",".join(f'"{n}":{x:.6f}' for n, x in zip(columns, row, strict=True)) + "}\n"
        for row in rows
    ).encode()
    schema = Schema(features=columns)
    return [
        _phase("read csv", 1, _seconds(lambda: CsvReader(schema).read(csv)), len(rows)),
        _phase("read json", 1, _seconds(lambda: reader("json", schema).read(objects)), len(rows)),
    ]


def _measure_learning(
    stream: SyntheticStream, batches: list[Array], n_threads: int, report: Callable[[int], None]
) -> tuple[Model, list[Phase]]:
    model: Model | Settings = Settings(family=stream.family, random_state=0, n_jobs=n_threads)
    seconds = []
    for number, batch in enumerate(batches):
        began = time.perf_counter()
        model = model.update(batch).model
        seconds.append(time.perf_counter() - began)
        report(number + 1)
    assert isinstance(model, Model)
    return model, [
        _phase("first batch", n_threads, seconds[0], stream.n_rows),
        _phase("learn", n_threads, median(seconds[1:]), stream.n_rows),
    ]


def _measure_predicting(model: Model, stream: SyntheticStream, n_threads: int) -> list[Phase]:
    version = ModelVersion(0, 1, 0.0, None, model, Steps())
    many = stream.rows(_PREDICTED_ROWS)
    one = many[:1]

    def predict(rows: Array, times: int = 1) -> None:
        for _ in range(times):
            version.compute("predict", rows, n_jobs=n_threads)

    predict(many)  # the first prediction prepares the parameters
    phases = [_phase("predict", n_threads, _seconds(lambda: predict(many)), len(many))]
    if n_threads == 1:
        phases.append(_phase("predict one", 1, _seconds(lambda: predict(one, 100)) / 100, 1))
    return phases


def _measure_saving(model: Model) -> tuple[bytes, list[Phase]]:
    content = model.to_bytes()
    return content, [
        _phase("save", 1, _seconds(model.to_bytes)),
        _phase("load", 1, _seconds(lambda: Model.from_bytes(content))),
    ]


def _seconds(act: Callable[[], Any]) -> float:
    """Return the median seconds over a few repetitions."""
    times = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        act()
        times.append(time.perf_counter() - began)
    return median(times)


def _phase(name: str, n_threads: int, seconds: float, n_rows: int | None = None) -> Phase:
    return Phase(name, n_threads, seconds, None if n_rows is None else n_rows / seconds)


def print_result(result: BenchResult) -> None:
    """Print the measurements as a table."""
    out = render.console()
    isa = "" if result.isa is None else f", {result.isa}"
    machine = f"{result.cores} cores, {result.kernels} kernels{isa}, {result.platform}"
    size = f"{result.n_batches} batches of {result.n_rows:,} rows, D {result.n_features}"
    facts = [
        ("machine", machine),
        ("stream", f"{result.family}, {size}, K {result.n_clusters}"),
        ("found", f"K {result.found_clusters}, {result.bytes:,} bytes as a model file"),
    ]
    render.print_facts(out, facts)
    render.print_heading(out, f"one thread and all {result.cores}")
    render.print_wide(out, _phase_table(result))
    if result.load > result.cores / 2:
        text = f"other programs used {result.load:.1f} cores: these measurements are too low"
        out.print(text, style=render.DOWN)


def _phase_table(result: BenchResult) -> Table:
    numbers = ("1 thread", f"{result.cores} threads", "times")
    table = render.plain_table(["phase", *numbers, "what it is"], right=numbers)
    for name, description in _PHASES.items():
        by_threads = {phase.threads: phase for phase in result.phases if phase.name == name}
        one = by_threads[1]
        parallel = by_threads.get(result.cores) if result.cores > 1 else None
        speedup = "" if parallel is None else f"{one.seconds / parallel.seconds:.1f}"
        cells = (_format_phase(one), "" if parallel is None else _format_phase(parallel))
        table.add_row(name, *cells, speedup, Text(description, style=render.DIM))
    return table


def _format_phase(phase: Phase) -> str:
    if phase.rows_per_second is None or phase.name == "predict one":
        return f"{phase.seconds * 1e3:.2f} ms"
    if phase.name == "first batch":
        return f"{phase.seconds:.2f} s"
    return f"{phase.rows_per_second:,.0f} rows/s"
