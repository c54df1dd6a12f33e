"""Short streams of fixed data that between them use everything a model can do.

Every stream is a function that returns a `Run`; `STREAMS` has them by name. Data are made here, of
fixed seeds, so that no change of `scstream.datasets` can change them. Only public faces are used.
"""

from __future__ import annotations

import csv
import json
import tempfile
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from scstream import Box, ScStream
from tests.frozen.digests import Trace

Array = Any


@dataclass
class Run:
    """What is left of a stream: labels, what the model knew after each batch, and its answers."""

    labels: list[Array] = field(default_factory=list)
    trace: Trace = field(default_factory=Trace)
    answers: list[Array] = field(default_factory=list)
    model: Any = None

    def after(self, model: Any) -> None:
        """Note what a model says after a batch."""
        self.labels.append(np.asarray(model.labels_))
        self.trace.add(model)
        self.model = model

    def ask(self, rows: Any, **when: Any) -> None:
        """Note what the model answers about rows that it does not learn."""
        self.answers += [
            ask(rows, **when)
            for ask in (self.model.predict, self.model.predict_proba, self.model.score_samples)
        ]


@dataclass(frozen=True)
class Item:
    """One batch and what comes with it."""

    rows: Any
    options: dict[str, Any] = field(default_factory=dict)


STREAMS: dict[str, Callable[..., Run]] = {}


def named(function: Callable[..., Run]) -> Callable[..., Run]:
    STREAMS[function.__name__] = function
    return function


def learn(items: Iterable[Any], *, reload_at: int | None = None, **params: Any) -> Run:
    """Learn batches one by one, one unit of time apart, then ask about the first, now and later."""
    params = {"random_state": 7, "n_jobs": 1, "min_batch": 1} | params
    items = [item if isinstance(item, Item) else Item(item) for item in items]
    run, model = Run(), ScStream(**params)
    for i, item in enumerate(items):
        if i == reload_at:
            with tempfile.TemporaryDirectory() as folder:
                model.save(Path(folder, "model"))
                model = ScStream.load(Path(folder, "model"))
        run.after(model.partial_fit(item.rows, **({"time": float(i)} | item.options)))
    run.ask(items[0].rows)
    if not items[-1].options:
        run.ask(items[0].rows[:20], time=len(items) + 3.0)
    return run


# Data ---------------------------------------------------------------------------------------------


def clouds(seed: int, *, n: int = 150, d: int = 2, k: int = 3, batches: int = 6) -> list[Array]:
    """Gaussian clouds that drift, each with a covariance of its own."""
    rng = np.random.default_rng(seed)
    centre, drift = 6.0 * rng.normal(size=(k, d)), 0.2 * rng.normal(size=(k, d))
    shape = np.eye(d) + 0.4 * rng.normal(size=(k, d, d))
    which = rng.integers(k, size=(batches, n))
    noise = np.einsum("bni,bnij->bnj", rng.normal(size=(batches, n, d)), shape[which])
    return list(centre[which] + noise + np.arange(batches)[:, None, None] * drift[which])


def counts(seed: int, *, n: int = 120, d: int = 12, k: int = 3, batches: int = 6) -> list[Array]:
    """Rows of 30 words each, of topics that do not change."""
    rng = np.random.default_rng(seed)
    topic = rng.dirichlet(np.full(d, 0.3), size=k)
    which = rng.integers(k, size=(batches, n))
    return list(rng.multinomial(30, topic[which]).astype(float))


def levels(seed: int, *, n: int = 150, d: int = 6, most: int = 2, k: int = 3) -> list[Array]:
    """Columns with `most` levels, of which a cluster prefers one."""
    rng = np.random.default_rng(seed)
    liked = rng.integers(most, size=(k, d))
    which = rng.integers(k, size=(6, n))
    strays = rng.random((6, n, d)) < 0.12
    return list(np.where(strays, rng.integers(most, size=(6, n, d)), liked[which]).astype(float))


def rates(seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    rate = rng.gamma(1.0, 8.0, size=(3, 4)) + 0.5
    return list(rng.poisson(rate[rng.integers(3, size=(6, 120))]).astype(float))


def holes(batches: list[Array], seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [np.where(rng.random(rows.shape) < 0.1, np.nan, rows) for rows in batches]


def mixed() -> list[Array]:
    """Two columns of numbers, two of levels, one of counts and one of yes and no, with holes."""
    rng = np.random.default_rng(31)
    centre, rate = np.array([[0.0, 0.0], [7.0, 2.0], [-4.0, 8.0]]), np.array([2.0, 9.0, 30.0])
    out = []
    for _ in range(5):
        z = rng.integers(3, size=130)
        stray = rng.integers(3, size=(130, 2))
        level = np.where(rng.random((130, 2)) < 0.2, stray, z[:, None])
        place, count = centre[z] + rng.normal(size=(130, 2)), rng.poisson(rate[z])
        yes = rng.random(130) < np.array([0.1, 0.5, 0.9])[z]
        out.append(np.column_stack([place, level, count, yes]))
    return holes(out, 32)


def lives() -> list[Array]:
    """Clusters that appear, move, part, join and vanish."""
    rng = np.random.default_rng(17)
    out = []
    for t in range(30):
        places = [(0.0, 0.0, 60), (-12.0 + 0.5 * t, 14.0, 50)]  # one stays, one moves
        apart = min(max(0.0, 0.35 * (t - 6)), 4.0)
        places += [(14.0, -apart, 40), (14.0, apart, 40)]  # one parts in two
        near = max(0.0, 5.0 - 0.4 * t)
        places += [(-16.0 - near, -8.0, 45), (-16.0 + near, -8.0, 45)]  # two join
        if 4 <= t < 14:
            places += [(3.0, -17.0, 40)]  # one appears and vanishes
        rows = [np.array([x, y]) + rng.normal(size=(n, 2)) for x, y, n in places]
        out.append(rng.permutation(np.concatenate(rows)))
    return out


def topics() -> list[Array]:
    """Topics that appear, vanish, part and join."""
    rng = np.random.default_rng(43)
    topic = rng.dirichlet(np.full(15, 0.4), size=5)
    out = []
    for t in range(16):
        part = min(max(0.0, 0.1 * (t - 3)), 1.0)  # the last grows out of the first
        join = min(0.12 * t, 1.0)  # the third becomes the second
        now = topic.copy()
        now[2] = join * topic[1] + (1 - join) * topic[2]
        now[4] = part * topic[4] + (1 - part) * topic[0]
        share = np.array([0.25, 0.2, 0.2, 0.2 if 3 <= t < 8 else 0.0, 0.25])
        out.append(rng.multinomial(25, now[rng.choice(5, size=200, p=share / share.sum())]) + 0.0)
    return out


def many_rows() -> list[Array]:
    return clouds(41, n=20_000, k=4, d=3, batches=2)


# Streams ------------------------------------------------------------------------------------------


def at(times: Iterable[Any], batches: list[Any]) -> list[Item]:
    return [Item(rows, {"time": t}) for rows, t in zip(batches, times, strict=True)]


def weighed(seed: int, batches: list[Any]) -> list[Item]:
    """Batches with weights of rows, some of them zero."""
    rng = np.random.default_rng(seed)
    weights = [np.maximum(3.0 * rng.random(rows.shape[0]) - 0.3, 0.0) for rows in batches]
    return [Item(rows, {"sample_weight": w}) for rows, w in zip(batches, weights, strict=True)]


def csr(batches: list[Array]) -> list[Any]:
    return [sparse.csr_array(rows) for rows in batches]


def with_pauses(batches: list[Array]) -> list[Array]:
    none = batches[0][:0]
    return [*batches[:2], none, *batches[2:4], none, none, *batches[4:]]


def beside(left: list[Array], right: list[Array]) -> list[Array]:
    return [np.hstack(pair) for pair in zip(left, right, strict=True)]


DATES = np.datetime64("2024-02-28T23:59:30") + np.array([0, 60, 75, 3600, 3660, 90000])
BY_HAND = {"kappa": 0.05, "mean": 0, "nu": 6, "psi": 1.5}
PARTS = [("diagonal", [0, 1]), ("categorical", [2, 3]), ("poisson", [4]), ("bernoulli", [5])]
PAIR = {"gaussian": [0, 1], "categorical": [2, 3]}


def keep(name: str, data: Callable[[], list[Any]], family: Any = "gaussian", **params: Any) -> None:
    STREAMS[name] = lambda **more: learn(data(), family=family, **params, **more)


keep("gaussian", lambda: clouds(1, d=3))
keep("gaussian_many_columns", lambda: clouds(2, d=12, n=200, batches=4))
keep("gaussian_vague", lambda: clouds(3), prior="weak")
keep("gaussian_prior_by_hand", lambda: clouds(4), prior=BY_HAND, alpha=10.0)
keep("gaussian_sweeps", lambda: clouds(5), n_sweeps=2)
keep("gaussian_few_clusters", lambda: clouds(6, k=6), max_clusters=3)
keep("gaussian_paper", lambda: clouds(7, n=120, batches=5), algorithm="paper")
keep("gaussian_printed", lambda: clouds(7, n=120, batches=5), algorithm="printed")
keep("diagonal", lambda: clouds(8, d=4), "diagonal")
keep("diagonal_holes", lambda: holes(clouds(9, d=4), 10), "diagonal")
keep("multinomial", lambda: counts(11), "multinomial")
keep("multinomial_csr", lambda: csr(counts(12, d=40)), "multinomial")
keep("multinomial_vague", lambda: counts(13), "multinomial", prior="weak")
keep("multinomial_paper", lambda: counts(14, n=80, batches=4), "multinomial", algorithm="paper")
keep("multinomial_printed", lambda: counts(14, n=80, batches=4), "multinomial", algorithm="printed")
keep("bernoulli", lambda: levels(15, d=10), "bernoulli")
keep("categorical", lambda: levels(16, most=4), "categorical")
keep("categorical_holes", lambda: holes(levels(18, most=4), 19), "categorical")
keep("poisson", lambda: rates(20), "poisson")
keep("mixed", mixed, PARTS)
keep("two_parts", lambda: beside(clouds(21), levels(22, d=2, most=3)), PAIR, prior="weak")
keep("box", lambda: clouds(23, batches=8), kernel=Box(3.0))
keep("box_multinomial", lambda: counts(24, batches=8), "multinomial", kernel=Box(4.0, capacity=2))
keep("kernel_function", lambda: clouds(25), kernel=lambda age: 1.0 / (1.0 + age))
keep("never_forgets", lambda: clouds(26), half_life=None)
keep("weights", lambda: weighed(27, clouds(28)))
keep("weights_csr", lambda: weighed(29, csr(counts(30))), "multinomial")
keep("irregular_times", lambda: at((10.0, 10.5, 10.5, 17.25, 17.5, 40.0), clouds(33)))
keep("dates", lambda: at(DATES, clouds(34)), half_life=600.0)
keep("late", lambda: at((0.0, 3.0, 1.0, 4.0, 2.5, 6.0), clouds(35)), late="add")
keep("empty_batches", lambda: with_pauses(clouds(36)))
keep("lives", lives, half_life=2.0)
keep("lives_saved", lives, half_life=2.0, reload_at=11)
keep("lives_diagonal", lives, "diagonal", half_life=2.0)
keep("lives_multinomial", topics, "multinomial", half_life=1.0)
keep("lives_box", lives, kernel=Box(4.0))
keep("lives_paper", lives, half_life=2.0, algorithm="paper")
keep("lives_printed", lives, half_life=2.0, algorithm="printed")
keep("many_rows", many_rows)
keep("many_rows_two_threads", many_rows, n_jobs=2)


@named
def all_at_once() -> Run:
    run = Run()
    rows = np.concatenate(clouds(37, k=5))
    run.after(ScStream(random_state=7, n_jobs=1).fit(rows))
    run.ask(rows[:100])
    return run


# Faces --------------------------------------------------------------------------------------------


@named
def small_batches() -> Run:
    """Batches of seven rows, saved and read while rows are held."""
    rows = np.concatenate(clouds(44, batches=5))[:700]
    run = learn([Item(rows[:7])], min_batch=100)
    model = run.model
    for start in range(7, len(rows), 7):
        if start == 630:
            with tempfile.TemporaryDirectory() as folder:
                model.save(Path(folder, "model"))
                model = ScStream.load(Path(folder, "model"))
        run.after(model.partial_fit(rows[start : start + 7]))
    run.ask(rows[:50])
    return run


@named
def river() -> Run:
    from scstream.river import ScStreamClusterer

    adapter, run = ScStreamClusterer(buffer_size=100, seed=7, n_jobs=1), Run()
    rows = [{"a": float(a), "b": float(b)} for a, b in np.concatenate(clouds(38))]
    for i, row in enumerate(rows):
        adapter.learn_one(row)
        if i % 100 == 99:
            run.after(adapter.model)
    run.answers = [np.array([adapter.predict_one(row) for row in rows[:60]])]
    return run


def _pipeline(folder: str, rows: Array, stops: tuple[int | None, ...], **settings: Any) -> Array:
    """Run a pipeline from a file of rows to a file of labels; return the labels."""
    from scstream.stream.config import build

    source, sink = Path(folder, "rows.jsonl"), Path(folder, "labels.csv")
    lines = [{"x": x, "y": y, "who": "abc"[i % 7 % 3]} for i, (x, y) in enumerate(rows.tolist())]
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    settings = {
        "source": {"kind": "file", "path": str(source)},
        "sink": {"kind": "file", "path": str(sink)},
        "checkpoint": {"folder": f"{folder}/state", "batches": 2},
        "model": {"random_state": 7, "n_jobs": 1},
        "batch": {"rows": 100},
        **settings,
    }
    for until in stops:
        build(settings).run(until=until)
    with sink.open() as lines:
        return np.array([int(row["cluster"]) for row in csv.DictReader(lines)])


@named
def pipeline() -> Run:
    """From a file, stopped once on its way; its last checkpoint is a model."""
    run, rows = Run(), np.concatenate(clouds(39))
    with tempfile.TemporaryDirectory() as folder:
        labels = _pipeline(folder, rows, (4, None), schema={"features": ["x", "y"]})
        run.model = ScStream.load(max(Path(folder, "state").glob("version-*")))
    run.labels = [labels]
    run.trace.add(run.model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # these rows have no names
        run.ask(rows[:50])
    return run


@named
def keyed_pipeline() -> Run:
    """One model for every key, of which memory holds one at a time, after a step."""
    with tempfile.TemporaryDirectory() as folder:
        labels = _pipeline(
            folder,
            np.concatenate(clouds(40, n=200)),
            (5, None),
            schema={"features": ["x", "y"], "key": "who"},
            steps=[{"step": "standardise", "mode": "running"}],
            keys={"memory": 1, "segment": "20kB"},
            batch={"rows": 150},
        )
    return Run([labels])


# Rows of the table that must be equal, and streams that are learned on Ray too.
ALIKE = (("lives", "lives_saved"), ("many_rows", "many_rows_two_threads"))
ON_RAY = ("lives", "many_rows", "multinomial_csr", "multinomial_paper", "mixed")
