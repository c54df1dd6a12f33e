"""What must hold after every batch of every stream: over a thousand random ones, not a violation.

Streams differ in family, algorithm, kernel, seed, number and place of clusters, sizes of batches
(empty and one-row ones among them), times (equal and far apart among them), row weights and
`max_clusters`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass

import numpy as np
import pytest

from scstream.compute.threads import ThreadExecutor
from scstream.core import default, paper
from scstream.core.config import Config
from scstream.core.state import NOVEL, Batch, State
from scstream.core.window import Box, Exponential, Windowed
from scstream.families import Diagonal, Gaussian, Multinomial
from scstream.kernels import choose_kernels
from tests.core.states import step

N_STREAMS = 56  # per combination; 18 combinations
FAMILIES = {"gaussian": Gaussian, "diagonal": Diagonal, "multinomial": Multinomial}
ALGORITHMS = {"default": Config, "paper": Config.paper}
KERNELS = {
    "exponential": lambda rng: Exponential(half_life=rng.choice([0.5, 3.0, 20.0])),
    "box": lambda rng: Box(length=rng.choice([1.5, 4.0]), capacity=int(rng.choice([2, 100]))),
    "windowed": lambda rng: Windowed(
        lambda age: 1.0 / (1.0 + age) ** 2, capacity=int(rng.choice([3, 100])), epsilon=0.02
    ),
}
EXECUTOR = ThreadExecutor()


@pytest.fixture(autouse=True)
def short_start(monkeypatch):
    for algorithm in (default, paper):
        monkeypatch.setattr(algorithm, "_START_SWEEPS", 6)


@dataclass
class Source:
    """A few clusters that wander, and rows from them."""

    name: str
    rng: np.random.Generator

    def __post_init__(self) -> None:
        n_clusters = int(self.rng.integers(1, 5))
        self.centres = self.rng.normal(scale=6.0, size=(n_clusters, 2))
        self.shares = self.rng.dirichlet(np.full(4, 0.5), size=n_clusters)

    def rows(self, n: int) -> np.ndarray:
        cluster = self.rng.choice(len(self.centres), size=n)
        if self.name == "multinomial":
            return self.rng.multinomial(8, self.shares[cluster]).astype(float)
        coincide = self.rng.random() < 0.1
        rows = self.centres[cluster] + (0.0 if coincide else self.rng.normal(size=(n, 2)))
        if self.name == "diagonal":
            rows[self.rng.random(rows.shape) < 0.1] = np.nan
        return rows

    def family(self):
        return FAMILIES[self.name].weak_prior(self.rows(20)).with_kernels(choose_kernels())

    def batches(self) -> Iterator[Batch]:
        """Four to seven batches, at times that stand still or jump."""
        rng = self.rng
        time = float(rng.choice([0.0, -3.0, 1e6]))
        for _ in range(rng.integers(4, 8)):
            n = int(rng.choice([0, 1, 2, *rng.integers(3, 30, size=4)]))
            weight = rng.choice([0.0, 0.5, 1.0, 3.7], size=n) if rng.random() < 0.3 else None
            yield Batch(self.rows(n), time, weight)
            time += float(rng.choice([0.0, 0.3, 1.0, 1.0, 25.0]))
            self.centres = self.centres + rng.normal(scale=0.5, size=self.centres.shape)


def random_config(algorithm: str, kernel: str, rng: np.random.Generator, **choices) -> Config:
    return ALGORITHMS[algorithm](
        seed=int(rng.integers(1000)),
        alpha=float(rng.choice([0.1, 1.0, 10.0])),
        kernel=KERNELS[kernel](rng),
        n_sweeps=int(rng.choice([0, 1, 1, 3])),
        max_clusters=int(rng.choice([1, 3, 1000])),
        archive=bool(rng.choice([False, True])),
        **choices,
    )


@dataclass
class ExpectedTotals:
    """Totals of a stream, computed without the model."""

    times: list[float] = field(default_factory=list)
    entries: list = field(default_factory=list)  # what each batch put in: weight, or statistics
    alive: set[int] = field(default_factory=set)
    retired: set[int] = field(default_factory=set)
    next_id: int = 0

    def add(self, time: float, entry) -> None:
        self.times.append(time)
        self.entries.append(entry)

    def faded(self, kernel):
        """Sum of the entries with their weights now; a ring forgets beyond its capacity."""
        first = max(0, len(self.times) - 1 - kernel.capacity) if kernel.capacity else 0
        age = self.times[-1] - np.array(self.times[first:])
        return np.tensordot(kernel.weight(age), np.array(self.entries[first:]), axes=1)


def numbers(value) -> Iterator[np.ndarray]:
    """All floating-point numbers in a state, whatever its fields are called."""
    if is_dataclass(value):
        for entry in fields(value):
            yield from numbers(getattr(value, entry.name))
    elif value is not None and not isinstance(value, dict):
        yield np.asarray(value, dtype=float)


def check_weight(config: Config, state: State, totals: ExpectedTotals) -> None:
    assert state.total_weight == pytest.approx(totals.faded(config.kernel), rel=1e-9, abs=1e-9)


def check_ids(state: State, totals: ExpectedTotals, info) -> None:
    """Ids rise, new ones are above all earlier ones, and every coming and going is an event.

    Only the archive gives an id again: to the retired cluster that had it.
    """
    ids = set(state.ids.tolist())
    assert (np.diff(state.ids) > 0).all()
    assert state.next_id >= totals.next_id
    new, gone = ids - totals.alive, totals.alive - ids
    returned = {e.id for e in info.events if e.kind == "returned"}
    assert returned <= totals.retired
    assert all(totals.next_id <= i < state.next_id for i in new - returned)
    came = returned | {e.id for e in info.events if e.kind == "born"}
    came |= {e.other for e in info.events if e.kind == "split"}
    went = {e.id for e in info.events if e.kind == "died"}
    went |= {e.other for e in info.events if e.kind == "merged"}
    assert new <= came
    assert gone <= went
    totals.retired = (totals.retired | gone) - ids
    totals.alive, totals.next_id = ids, state.next_id


def check_state(family, config: Config, state: State) -> None:
    assert all(np.isfinite(part).all() for part in numbers(state))
    assert (state.past[:, :, 0] >= 0).all()
    assert (state.current[:, :, 0] >= 0).all()
    assert state.unassigned_weight >= 0
    np.testing.assert_array_equal(
        state.cluster_stats, state.subclusters[:, 0] + state.subclusters[:, 1]
    )
    assert np.isfinite(family.log_marginal(state.subclusters)).all()
    assert np.isfinite(family.predictive_params(state.cluster_stats)).all()
    assert state.n_clusters <= config.max_clusters


def check_labels(batch: Batch, state: State, labels: np.ndarray, info) -> None:
    assert labels.shape == (batch.n_rows,)
    assert np.isin(labels, np.append(state.ids, NOVEL)).all()
    assert info.n_novel == (labels == NOVEL).sum()


def each_step(source: Source, family, config: Config):
    """Run a stream; yield every batch with the state, the labels and the news after it."""
    state = State.empty(family)
    for batch in source.batches():
        state, labels, info = step(family, config, state, batch, EXECUTOR)
        yield batch, state, labels, info


def random_streams(name: str, algorithm: str, kernel: str, *, n_streams: int, **choices):
    for stream in range(n_streams):
        rng = np.random.default_rng([stream, *map(ord, name[0] + algorithm[0] + kernel[0])])
        source = Source(name, rng)
        family = source.family()
        config = random_config(algorithm, kernel, rng, **choices)
        yield family, config, each_step(source, family, config)


@pytest.mark.parametrize(
    "kernel",
    [
        "exponential",
        pytest.param("box", marks=pytest.mark.slow),
        pytest.param("windowed", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("name", FAMILIES)
def test_every_stream_keeps_the_invariants(name, algorithm, kernel):
    streams = random_streams(name, algorithm, kernel, n_streams=N_STREAMS)
    for family, config, steps in streams:
        totals = ExpectedTotals()
        for batch, state, labels, info in steps:
            totals.add(batch.time, batch.total_weight)
            check_weight(config, state, totals)
            check_ids(state, totals, info)
            check_state(family, config, state)
            check_labels(batch, state, labels, info)
            assert state.n_clusters >= 1 or not any(totals.entries)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("name", FAMILIES)
def test_total_statistics_are_conserved(name, algorithm, kernel):
    """Where nothing moves, no row is novel and no cluster dies, all statistics are conserved.

    Splits, merges, cuts through the past and fading only hand them from cluster to cluster.
    """
    still = {"births": False, "motion": False, "min_weight": 1e-12}
    streams = random_streams(name, algorithm, kernel, n_streams=10, **still)
    for family, config, steps in streams:
        totals = ExpectedTotals()
        for batch, state, _, _ in steps:
            one = np.zeros(batch.n_rows, dtype=np.int64)
            totals.add(batch.time, family.stats(batch.rows, one, 1, batch.weight)[0])
            expected = totals.faded(config.kernel)
            scale = np.abs(totals.entries).max() + 1.0
            np.testing.assert_allclose(
                state.cluster_stats.sum(axis=0), expected, rtol=0, atol=1e-9 * scale
            )
