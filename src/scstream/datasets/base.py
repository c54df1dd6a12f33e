"""Streams of labelled batches, drawn lazily from a truth that is known at every moment."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import numpy as np

from scstream.datasets.checks import check_at_least
from scstream.datasets.scene import FloatArray, IntArray, Population, Rows, Scene

RandomState = int | np.random.Generator | None


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
    truth: Scene = field(repr=False)

    @property
    def row_times(self) -> FloatArray:
        """The time of each row."""
        return self.time + np.arange(len(self.y)) / len(self.y)

    def oracle(self) -> IntArray:
        """Return the labels of the Bayes classifier.

        It knows the true parameters and weights at each row's own time, so that on average no
        method labels more rows correctly.

        Returns
        -------
        numpy.ndarray
            Labels, shape (N,).
        """
        return self.truth.classify(self.X, self.row_times)


@dataclass(frozen=True, eq=False)
class Stream:
    """A stream of labelled batches that can be read again and again.

    Batches are drawn while they are read; nothing is stored, and every reading gives the same
    batches. Streams come from the generators of `scstream.datasets`.

    Attributes
    ----------
    population
        Draws the clusters at the beginning.
    drift
        Turns them into one scene per batch.
    n_batches
        Length of the stream; None for a stream without end.
    batch_size
        Rows per batch.
    seed
        Seed of everything random in the stream.

    Examples
    --------
    >>> from scstream.datasets import drifting_gaussians
    >>> stream = drifting_gaussians(5, n_batches=None, batch_size=100, random_state=1)
    >>> stream
    Stream(n_batches=None, batch_size=100, seed=1)
    >>> [batch.time for batch in stream.take(3)]
    [0.0, 1.0, 2.0]
    """

    population: Callable[[np.random.Generator], Population[Any]] = field(repr=False)
    drift: Callable[[np.random.Generator, Population[Any]], Iterator[Scene]] = field(repr=False)
    n_batches: int | None
    batch_size: int
    seed: int

    def __len__(self) -> int:
        if self.n_batches is None:
            raise TypeError("an endless stream has no length: cut it with take(n_batches)")
        return self.n_batches

    def __iter__(self) -> Iterator[LabelledBatch]:
        # Rows and drift have generators of their own: the batch size does not change the drift.
        rows_rng = np.random.default_rng(self.seed).spawn(2)[1]
        offsets = np.arange(self.batch_size) / self.batch_size
        for number, scene in self._scenes():
            X, y = scene.draw(rows_rng, number + offsets)
            yield LabelledBatch(X, y, float(number), scene)

    def take(self, n_batches: int) -> Stream:
        """Return the stream of the first batches.

        Parameters
        ----------
        n_batches
            How many; a stream that is shorter already stays as it is.

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
        """Batch and label of each cluster that was not there from the beginning."""
        seen: set[int] = set()
        born = []
        for number, scene in self._finite_scenes():
            fresh = [label for label in scene.labels.tolist() if label not in seen]
            seen.update(fresh)
            born += [(number, label) for label in fresh if number > 0]
        return born

    @property
    def deaths(self) -> list[tuple[int, int]]:
        """Batch and label of each departure: the first batch in which the cluster is absent."""
        alive: set[int] = set()
        died = []
        for number, scene in self._finite_scenes():
            now = set(scene.labels.tolist())
            died += [(number, label) for label in sorted(alive - now)]
            alive = now
        return died

    def _scenes(self) -> Iterator[tuple[int, Scene]]:
        rng = np.random.default_rng(self.seed).spawn(2)[0]
        numbers = count() if self.n_batches is None else range(self.n_batches)
        # Numbers first: zip then asks for no scene beyond the last batch.
        return zip(numbers, self.drift(rng, self.population(rng)), strict=False)

    def _finite_scenes(self) -> Iterator[tuple[int, Scene]]:
        len(self)
        return self._scenes()


def make_stream(
    population: Callable[[np.random.Generator], Population[Any]],
    drift: Callable[[np.random.Generator, Population[Any]], Iterator[Scene]],
    n_batches: int | None,
    batch_size: int,
    random_state: RandomState,
) -> Stream:
    """Return a stream with checked sizes and a seed that is fixed now."""
    check_at_least(1, batch_size=batch_size)
    if n_batches is not None:
        check_at_least(0, n_batches=n_batches)
    return Stream(population, drift, n_batches, batch_size, _seed_of(random_state))


def _seed_of(random_state: RandomState) -> int:
    # An int, never a generator: a generator would advance and the second reading would differ.
    if random_state is None:
        random_state = np.random.default_rng()
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    return operator.index(random_state)
