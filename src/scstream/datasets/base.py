"""Streams of labelled batches, generated lazily from known parameters."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import numpy as np

from scstream.datasets.checks import check_at_least
from scstream.datasets.truth import BatchTruth, FloatArray, IntArray, Population, Rows

RandomState = int | np.random.Generator | None
DrawPopulation = Callable[[np.random.Generator], Population[Any]]
Drift = Callable[[np.random.Generator, Population[Any]], Iterator[BatchTruth]]


@dataclass(frozen=True, eq=False)
class LabelledBatch:
    """One batch of a generated stream, with its true labels and its Bayes oracle.

    Attributes
    ----------
    X
        Rows, shape (N, D), in the order of time.
    y
        True labels, shape (N,).
    time
        Number of the batch in the stream; row n was drawn at ``time + n / N``.
    truth
        The clusters that the rows were drawn from.

    Examples
    --------
    >>> from scstream.datasets import stationary_gaussians
    >>> batch = next(iter(stationary_gaussians(3, batch_size=200, random_state=1)))
    >>> batch.X.shape, batch.y.shape, batch.time
    ((200, 2), (200,), 0.0)
    >>> bool((batch.oracle() == batch.y).mean() > 0.95)
    True
    """

    X: Rows
    y: IntArray
    time: float
    truth: BatchTruth = field(repr=False)

    @property
    def row_times(self) -> FloatArray:
        """The time of each row."""
        return self.time + np.arange(len(self.y)) / len(self.y)

    def oracle(self) -> IntArray:
        """Return the labels of the Bayes classifier.

        It uses the true parameters and weights at the time of each row, so no method labels more
        rows correctly on average.

        Returns
        -------
        numpy.ndarray
            Labels, shape (N,).
        """
        return self.truth.classify(self.X, self.row_times)


@dataclass(frozen=True, eq=False)
class Stream:
    """A stream of labelled batches that can be iterated several times.

    Batches are generated during iteration; nothing is stored, and every iteration gives the same
    batches. The functions of `scstream.datasets` return streams.

    Attributes
    ----------
    population
        Draws the clusters at the beginning.
    drift
        Yields the true parameters of each batch.
    n_batches
        Length of the stream; None for an infinite stream.
    batch_size
        Rows per batch.
    seed
        Seed of the stream.

    Examples
    --------
    >>> from scstream.datasets import drifting_gaussians
    >>> stream = drifting_gaussians(5, n_batches=None, batch_size=100, random_state=1)
    >>> stream
    Stream(n_batches=None, batch_size=100, seed=1)
    >>> [batch.time for batch in stream.take(3)]
    [0.0, 1.0, 2.0]
    """

    population: DrawPopulation = field(repr=False)
    drift: Drift = field(repr=False)
    n_batches: int | None
    batch_size: int
    seed: int

    def __len__(self) -> int:
        if self.n_batches is None:
            raise TypeError("an infinite stream has no length; limit it with take(n_batches)")
        return self.n_batches

    def __iter__(self) -> Iterator[LabelledBatch]:
        # Rows and drift have separate generators, so the batch size does not change the drift.
        rows_rng = np.random.default_rng(self.seed).spawn(2)[1]
        offsets = np.arange(self.batch_size) / self.batch_size
        for number, truth in self._truths():
            X, y = truth.sample(rows_rng, number + offsets)
            yield LabelledBatch(X, y, float(number), truth)

    def take(self, n_batches: int) -> Stream:
        """Return the first batches as a stream.

        Parameters
        ----------
        n_batches
            Maximum number of batches.

        Returns
        -------
        Stream
            The same batches, at most ``n_batches`` of them.
        """
        check_at_least(0, n_batches=n_batches)
        known = n_batches if self.n_batches is None else min(n_batches, self.n_batches)
        return replace(self, n_batches=known)

    @property
    def births(self) -> list[tuple[int, int]]:
        """Batch and label of the first appearance of each cluster after batch 0."""
        known: set[int] = set()
        born = []
        for number, truth in self._finite_truths():
            new = [label for label in truth.labels.tolist() if label not in known]
            known.update(new)
            born += [(number, label) for label in new if number > 0]
        return born

    @property
    def deaths(self) -> list[tuple[int, int]]:
        """Batch and label of each death: the first batch in which the cluster is absent."""
        alive: set[int] = set()
        died = []
        for number, truth in self._finite_truths():
            now = set(truth.labels.tolist())
            died += [(number, label) for label in sorted(alive - now)]
            alive = now
        return died

    def _truths(self) -> Iterator[tuple[int, BatchTruth]]:
        rng = np.random.default_rng(self.seed).spawn(2)[0]
        numbers = count() if self.n_batches is None else range(self.n_batches)
        # Numbers first: zip then computes nothing beyond the last batch.
        return zip(numbers, self.drift(rng, self.population(rng)), strict=False)

    def _finite_truths(self) -> Iterator[tuple[int, BatchTruth]]:
        len(self)
        return self._truths()


def make_stream(
    population: DrawPopulation,
    drift: Drift,
    n_batches: int | None,
    batch_size: int,
    random_state: RandomState,
) -> Stream:
    """Check the sizes, fix the seed and return the stream."""
    check_at_least(1, batch_size=batch_size)
    if n_batches is not None:
        check_at_least(0, n_batches=n_batches)
    return Stream(population, drift, n_batches, batch_size, _seed_of(random_state))


def _seed_of(random_state: RandomState) -> int:
    # An int, not a generator: a generator would advance, and the next iteration would differ.
    if random_state is None:
        random_state = np.random.default_rng()
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    return operator.index(random_state)
