"""`scstream bench`: how fast this machine reads, learns and predicts, and what limits it."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from scstream import __version__
from scstream.cli.bar import Bar
from scstream.cli.show import console
from scstream.cli.sketch import facts_of, headed, print_drawing
from scstream.cli.strokes import DOWN, QUIET
from scstream.errors import InputError, missing_extra
from scstream.families.base import Array
from scstream.machine import show_config, usable_cores
from scstream.model import Model, Settings
from scstream.preprocess import Steps
from scstream.stream.connectors.files import CsvReader
from scstream.stream.messages import reader
from scstream.stream.model_version import ModelVersion
from scstream.stream.schema import Schema

try:
    from rich.table import Table
except ImportError as error:
    raise missing_extra("rich", "cli") from error

_FAMILIES = ("gaussian", "diagonal")
_ASKED = 20_000  # rows of a large question
_REPEATS = 5
_PHASES = {  # what is measured, and what it means
    "read csv": "text to numbers, always one thread",
    "read json": "the same for JSON lines",
    "first batch": "chooses the prior and the first clusters; once in the life of a model",
    "learn": "one batch after the other, median; what scstream run cannot exceed",
    "predict": f"{_ASKED:,} rows at once: scstream predict, large bodies of a service",
    "predict one": "one row at a time: mostly overhead",
    "save": "the content of a checkpoint, without the disk",
    "load": "the same, read and checked",
}


@dataclass(frozen=True)
class Stream:
    """What is learned: clusters that stay where they are, so that K is known.

    Examples
    --------
    >>> from scstream.cli.benching import Stream
    >>> [batch.shape for batch in Stream(n_features=2, n_rows=10, n_batches=3).batches()]
    [(10, 2), (10, 2), (10, 2)]
    """

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
    """How long a phase takes: seconds each time, and rows per second where it has rows."""

    name: str
    threads: int
    seconds: float
    rows_per_second: float | None


@dataclass(frozen=True)
class Measured:
    """Everything that was measured, and on what."""

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


def measure(stream: Stream, *, shown: bool = True) -> Measured:
    """Learn a stream with one thread and with all, and take the time.

    Parameters
    ----------
    stream : Stream
        What to learn.
    shown : bool
        Draw a bar if the standard error is a terminal.

    Returns
    -------
    Measured
        The figures.

    Examples
    --------
    >>> from scstream.cli.benching import Stream, measure
    >>> small = Stream(n_features=2, n_clusters=3, n_rows=200, n_batches=4)
    >>> measure(small, shown=False).found_clusters
    3
    """
    batches, cores = stream.batches(), usable_cores()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    phases = _reading(batches[0])
    counts = dict.fromkeys((1, cores))  # once where there is one core
    config = show_config(as_dict=True)
    with Bar(len(counts) * len(batches), shown=shown) as bar:
        for number, n_threads in enumerate(counts):

            def tell(n: int, number: int = number, n_threads: int = n_threads) -> None:
                bar.move(number * len(batches) + n, f"{n_threads} threads")

            learner, learned = _learning(stream, batches, n_threads, tell)
            phases += [*learned, *_asking(learner, stream, n_threads)]
    content, kept = _keeping(learner)
    return Measured(
        scstream=__version__,
        kernels=config["kernels"],
        isa=config["isa"],
        cores=cores,
        load=load,
        platform=config["platform"],
        **{name: value for name, value in vars(stream).items() if name != "seed"},
        found_clusters=learner.state.n_clusters,
        bytes=len(content),
        phases=(*phases, *kept),
    )


def _reading(rows: Array) -> list[Phase]:
    """Text of a batch to numbers."""
    names = tuple(f"x{d}" for d in range(rows.shape[1]))
    text = io.BytesIO()
    np.savetxt(text, rows, delimiter=",", fmt="%.6f")
    csv = f"{','.join(names)}\n".encode() + text.getvalue()
    objects = "".join(
        "{" + ",".join(f'"{n}":{x:.6f}' for n, x in zip(names, row, strict=True)) + "}\n"
        for row in rows
    ).encode()
    schema = Schema(features=names)
    return [
        _phase("read csv", 1, _timed(lambda: CsvReader(schema).read(csv)), len(rows)),
        _phase("read json", 1, _timed(lambda: reader("json", schema).read(objects)), len(rows)),
    ]


def _learning(
    stream: Stream, batches: list[Array], n_threads: int, tell: Callable[[int], None]
) -> tuple[Model, list[Phase]]:
    learner: Model | Settings = Settings(family=stream.family, random_state=0, n_jobs=n_threads)
    seconds = []
    for number, batch in enumerate(batches):
        began = time.perf_counter()
        learner = learner.update(batch).model
        seconds.append(time.perf_counter() - began)
        tell(number + 1)
    assert isinstance(learner, Model)
    return learner, [
        _phase("first batch", n_threads, seconds[0], stream.n_rows),
        _phase("learn", n_threads, median(seconds[1:]), stream.n_rows),
    ]


def _asking(learner: Model, stream: Stream, n_threads: int) -> list[Phase]:
    model = ModelVersion(0, 1, 0.0, None, learner, Steps())
    many = stream.rows(_ASKED)
    one = many[:1]

    def ask(rows: Array, times: int = 1) -> None:
        for _ in range(times):
            model.compute("predict", rows, n_jobs=n_threads)

    ask(many)  # the mixture is made when it is first asked
    phases = [_phase("predict", n_threads, _timed(lambda: ask(many)), len(many))]
    if n_threads == 1:
        phases.append(_phase("predict one", 1, _timed(lambda: ask(one, 100)) / 100, 1))
    return phases


def _keeping(learner: Model) -> tuple[bytes, list[Phase]]:
    content = learner.to_bytes()
    return content, [
        _phase("save", 1, _timed(learner.to_bytes)),
        _phase("load", 1, _timed(lambda: Model.from_bytes(content))),
    ]


def _timed(act: Callable[[], Any]) -> float:
    """Seconds that it takes, the median of a few times."""
    times = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        act()
        times.append(time.perf_counter() - began)
    return median(times)


def _phase(name: str, n_threads: int, seconds: float, n_rows: int | None = None) -> Phase:
    return Phase(name, n_threads, seconds, None if n_rows is None else n_rows / seconds)


def show(measured: Measured) -> None:
    """Print the figures and what they mean."""
    out = console()
    isa = "" if measured.isa is None else f", {measured.isa}"
    machine = f"{measured.cores} cores, {measured.kernels} kernels{isa}, {measured.platform}"
    size = f"{measured.n_batches} batches of {measured.n_rows:,} rows, D {measured.n_features}"
    facts_of(
        out,
        [
            ("machine", machine),
            ("stream", f"{measured.family}, {size}, K {measured.n_clusters}"),
            ("found", f"K {measured.found_clusters}, {measured.bytes:,} bytes as a model file"),
        ],
    )
    headed(out, f"one thread and all {measured.cores}")
    print_drawing(out, _table(measured))
    if measured.load > measured.cores / 2:
        busy = f"other programs kept {measured.load:.1f} cores busy: these figures are too low"
        out.print(busy, style=DOWN)


def _table(measured: Measured) -> Table:
    drawn = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("phase", "1 thread", f"{measured.cores} threads", "times"):
        drawn.add_column(name, justify="left" if name == "phase" else "right", no_wrap=True)
    drawn.add_column("what it is", style=QUIET, overflow="fold")
    for name, meaning in _PHASES.items():
        by_threads = {phase.threads: phase for phase in measured.phases if phase.name == name}
        one, all_ = by_threads[1], by_threads.get(measured.cores)
        both = measured.cores > 1 and all_ is not None
        drawn.add_row(
            name,
            _shown(one),
            _shown(all_) if both and all_ is not None else "",
            f"{one.seconds / all_.seconds:.1f}" if both and all_ is not None else "",
            meaning,
        )
    return drawn


def _shown(phase: Phase) -> str:
    if phase.rows_per_second is None or phase.name == "predict one":
        return f"{phase.seconds * 1e3:.2f} ms"
    if phase.name == "first batch":
        return f"{phase.seconds:.2f} s"
    return f"{phase.rows_per_second:,.0f} rows/s"
