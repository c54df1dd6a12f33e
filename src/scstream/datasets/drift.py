"""The kinds of drift: each yields the true parameters of one batch after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count

import numpy as np
import numpy.typing as npt

from scstream.datasets.emissions import Gaussians
from scstream.datasets.populations import N_CANDIDATES, most_isolated
from scstream.datasets.truth import BatchTruth, E, FloatArray, IntArray, Population
from scstream.errors import InputError

Schedule = Callable[[np.random.Generator, int], Iterator[FloatArray]]

HEADING_STD = 0.05  # radians per batch in each orthogonal direction
NEAR = 4.0  # distance of a near newborn from its neighbour, in standard deviations


def stationary(rng: np.random.Generator, population: Population[E]) -> Iterator[BatchTruth]:
    """Nothing changes."""
    truth = BatchTruth.static(
        population.emission, population.labels, population.weights, population.centres
    )
    while True:
        yield truth


def incremental(
    rng: np.random.Generator, population: Population[Gaussians], *, speed: float, half_width: float
) -> Iterator[BatchTruth]:
    """Incremental drift: means move at constant speed inside a cube."""
    labels, old = population.labels, population.centres
    steps = speed * population.emission.scales(labels)[:, None]
    headings = _normalise(rng.standard_normal(old.shape))
    for batch in count():
        noise = rng.standard_normal(old.shape)
        sideways = noise - (noise * headings).sum(axis=1, keepdims=True) * headings
        headings = _normalise(headings + HEADING_STD * sideways)
        new, mirrored = _reflect(old + steps * headings, half_width)
        starts = np.full(len(labels), float(batch))
        yield BatchTruth(
            population.emission, labels, population.weights, old, new, starts, 1.0, blend=True
        )
        old, headings = new, np.where(mirrored, -headings, headings)


def replacement(
    rng: np.random.Generator,
    population: Population[E],
    *,
    schedule: Schedule,
    width: float,
    blend: bool,
) -> Iterator[BatchTruth]:
    """Abrupt (width 0), gradual (no blend) or incremental (blend) replacement of centres."""
    labels = population.labels
    changes = schedule(rng, len(labels))
    never = np.full(len(labels), np.inf)
    old = new = population.centres
    starts = -never
    for batch in count():
        while batch >= starts.max() + width:
            old, new = new, population.redraw(rng, labels)
            starts = next(changes, never)
        yield BatchTruth(
            population.emission, labels, population.weights, old, new, starts, width, blend
        )


def at_batches(
    rng: np.random.Generator, n_clusters: int, *, batches: Sequence[int]
) -> Iterator[FloatArray]:
    """All clusters change together at the given batches."""
    for batch in sorted(batches):
        yield np.full(n_clusters, float(batch))


def every_period(
    rng: np.random.Generator, n_clusters: int, *, period: int, width: float
) -> Iterator[FloatArray]:
    """Each cluster changes once in every period, at its own time.

    A transition ends before its period does, so two of the same cluster never overlap.
    """
    for first in count(0, period):
        yield first + rng.uniform(0.05 * period, period - width, size=n_clusters)


def middle_of_period(
    rng: np.random.Generator, n_clusters: int, *, period: int
) -> Iterator[FloatArray]:
    """All clusters change together in the middle of every period."""
    for batch in count(period // 2, period):
        yield np.full(n_clusters, float(batch))


def recurring(
    rng: np.random.Generator, population: Population[E], *, n_active: int, phase: int, swap: int
) -> Iterator[BatchTruth]:
    """Recurring drift: every ``phase`` batches ``swap`` active clusters are replaced by others."""
    active = rng.choice(population.labels, size=n_active, replace=False)
    for batch in count():
        if batch % phase == 0:
            if batch > 0:
                active = _swapped(rng, active, population.labels, swap)
            weights = rng.dirichlet(np.full(n_active, 10.0))
        yield BatchTruth.static(population.emission, active, weights, population.centres[active])


def births(
    rng: np.random.Generator,
    population: Population[E],
    *,
    weight: float,
    near: bool,
    every: int,
    deaths: bool,
) -> Iterator[BatchTruth]:
    """Every ``every`` batches a cluster is born; with ``deaths`` the oldest one dies then."""
    truth = BatchTruth.static(
        population.emission, population.labels, population.weights, population.centres
    )
    newborn = len(population.labels)
    for batch in count():
        if batch > 0 and batch % every == 0:
            if deaths:
                truth = _without_oldest(truth)
            centre = _newborn_centre(rng, population, truth, newborn, near=near)
            truth = _with_newborn(truth, newborn, centre, weight)
            newborn += 1
        yield truth


def _swapped(rng: np.random.Generator, active: IntArray, labels: IntArray, swap: int) -> IntArray:
    inactive = np.setdiff1d(labels, active)
    swapped = active.copy()
    out = rng.choice(len(active), size=swap, replace=False)
    swapped[out] = rng.choice(inactive, size=swap, replace=False)
    return swapped


def _without_oldest(truth: BatchTruth) -> BatchTruth:
    weights = truth.weights[1:] / truth.weights[1:].sum()
    return BatchTruth.static(truth.emission, truth.labels[1:], weights, truth.old[1:])


def _with_newborn(truth: BatchTruth, label: int, centre: FloatArray, weight: float) -> BatchTruth:
    labels = np.append(truth.labels, label)
    weights = np.append((1.0 - weight) * truth.weights, weight)
    return BatchTruth.static(truth.emission, labels, weights, np.vstack([truth.old, centre]))


def _newborn_centre(
    rng: np.random.Generator,
    population: Population[E],
    truth: BatchTruth,
    label: int,
    *,
    near: bool,
) -> FloatArray:
    """Return the most isolated candidate: anywhere, or NEAR one of the clusters."""
    tried = population.redraw(rng, np.full(N_CANDIDATES, label))  # (C,D)
    distances = truth.emission.distances(tried, label, truth.old, truth.labels)  # (C,M)
    if near:
        parent = int(rng.integers(len(truth.labels)))
        tried = _pulled_near(tried[distances[:, parent] >= NEAR], truth, label, parent)
        distances = truth.emission.distances(tried, label, truth.old, truth.labels)
    return most_isolated(tried, distances)


def _pulled_near(tried: FloatArray, truth: BatchTruth, label: int, parent: int) -> FloatArray:
    """Pull candidates towards the parent until they are NEAR it."""
    if not len(tried):
        raise InputError(
            f"no centre {NEAR:g} standard deviations from cluster {truth.labels[parent]} found; "
            "the clusters are too crowded; increase separation or n_trials"
        )
    parent_centre, parent_label = truth.old[[parent]], truth.labels[[parent]]
    for _ in range(5):  # fixed-point iteration: Gaussians need one step, counts a few
        distances = truth.emission.distances(tried, label, parent_centre, parent_label)  # (C,1)
        tried = parent_centre + (NEAR / distances) * (tried - parent_centre)
    return tried


def _normalise(vectors: FloatArray) -> FloatArray:
    lengths: FloatArray = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / lengths


def _reflect(centres: FloatArray, half_width: float) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Reflect centres at the walls of the cube; also return which coordinates were reflected."""
    unfolded = np.mod(centres + half_width, 4.0 * half_width)
    mirrored = unfolded > 2.0 * half_width
    return np.where(mirrored, 4.0 * half_width - unfolded, unfolded) - half_width, mirrored
