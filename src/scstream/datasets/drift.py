"""The kinds of drift. Each turns a population into an endless sequence of scenes, one per batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count

import numpy as np
import numpy.typing as npt

from scstream.datasets.emissions import Gaussians
from scstream.datasets.populations import N_CANDIDATES, roomiest
from scstream.datasets.scene import E, FloatArray, IntArray, Population, Scene
from scstream.errors import InputError

Schedule = Callable[[np.random.Generator, int], Iterator[FloatArray]]

HEADING_SD = 0.05  # radians per batch in each orthogonal direction
NEAR = 4.0  # distance of a near newborn from its neighbour, in standard deviations


def stay(rng: np.random.Generator, population: Population[E]) -> Iterator[Scene]:
    """Nothing ever changes."""
    scene = Scene.still(
        population.emission, population.labels, population.weights, population.places
    )
    while True:
        yield scene


def wander(
    rng: np.random.Generator, population: Population[Gaussians], *, speed: float, half_width: float
) -> Iterator[Scene]:
    """Incremental drift: means move all the time, at constant speed, inside a box."""
    labels, old = population.labels, population.places
    strides = speed * population.emission.scales(labels)[:, None]
    headings = _unit(rng.standard_normal(old.shape))
    for batch in count():
        noise = rng.standard_normal(old.shape)
        sideways = noise - (noise * headings).sum(axis=1, keepdims=True) * headings
        headings = _unit(headings + HEADING_SD * sideways)
        new, mirrored = _fold(old + strides * headings, half_width)
        starts = np.full(len(labels), float(batch))
        yield Scene(
            population.emission, labels, population.weights, old, new, starts, 1.0, blend=True
        )
        old, headings = new, np.where(mirrored, -headings, headings)


def turnover(
    rng: np.random.Generator,
    population: Population[E],
    *,
    schedule: Schedule,
    width: float,
    blend: bool,
) -> Iterator[Scene]:
    """Abrupt (width 0), gradual (no blend) or incremental (blend) replacement by fresh versions."""
    labels = population.labels
    changes = schedule(rng, len(labels))
    never = np.full(len(labels), np.inf)
    old = new = population.places
    starts = -never
    for batch in count():
        while batch >= starts.max() + width:
            old, new = new, population.fresh(rng, labels)
            starts = next(changes, never)
        yield Scene(population.emission, labels, population.weights, old, new, starts, width, blend)


def at_batches(
    rng: np.random.Generator, n_clusters: int, *, batches: Sequence[int]
) -> Iterator[FloatArray]:
    """All clusters change together at the given batches."""
    for batch in sorted(batches):
        yield np.full(n_clusters, float(batch))


def every_period(
    rng: np.random.Generator, n_clusters: int, *, period: int, width: float
) -> Iterator[FloatArray]:
    """Each cluster changes once in every period, at a moment of its own.

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


def recur(
    rng: np.random.Generator, population: Population[E], *, n_active: int, phase: int, swap: int
) -> Iterator[Scene]:
    """Recurring drift: every ``phase`` batches ``swap`` active clusters rest, others return."""
    active = rng.choice(population.labels, size=n_active, replace=False)
    for batch in count():
        if batch % phase == 0:
            if batch > 0:
                active = _swapped(rng, active, population.labels, swap)
            weights = rng.dirichlet(np.full(n_active, 10.0))
        yield Scene.still(population.emission, active, weights, population.places[active])


def births(
    rng: np.random.Generator,
    population: Population[E],
    *,
    weight: float,
    near: bool,
    every: int,
    deaths: bool,
) -> Iterator[Scene]:
    """Every ``every`` batches a cluster is born; with ``deaths`` the oldest one dies then."""
    scene = Scene.still(
        population.emission, population.labels, population.weights, population.places
    )
    newborn = len(population.labels)
    for batch in count():
        if batch > 0 and batch % every == 0:
            if deaths:
                scene = _without_oldest(scene)
            place = _newborn_place(rng, population, scene, newborn, near=near)
            scene = _with_newborn(scene, newborn, place, weight)
            newborn += 1
        yield scene


def _swapped(rng: np.random.Generator, active: IntArray, labels: IntArray, swap: int) -> IntArray:
    resting = np.setdiff1d(labels, active)
    swapped = active.copy()
    out = rng.choice(len(active), size=swap, replace=False)
    swapped[out] = rng.choice(resting, size=swap, replace=False)
    return swapped


def _without_oldest(scene: Scene) -> Scene:
    weights = scene.weights[1:] / scene.weights[1:].sum()
    return Scene.still(scene.emission, scene.labels[1:], weights, scene.old[1:])


def _with_newborn(scene: Scene, label: int, place: FloatArray, weight: float) -> Scene:
    labels = np.append(scene.labels, label)
    weights = np.append((1.0 - weight) * scene.weights, weight)
    return Scene.still(scene.emission, labels, weights, np.vstack([scene.old, place]))


def _newborn_place(
    rng: np.random.Generator, population: Population[E], scene: Scene, label: int, *, near: bool
) -> FloatArray:
    """Return the roomiest of some candidates: anywhere, or NEAR one of the clusters."""
    tried = population.fresh(rng, np.full(N_CANDIDATES, label))  # (C,D)
    gaps = scene.emission.distances(tried, label, scene.old, scene.labels)  # (C,M)
    if near:
        parent = int(rng.integers(len(scene.labels)))
        tried = _drawn_near(tried[gaps[:, parent] >= NEAR], scene, label, parent)
        gaps = scene.emission.distances(tried, label, scene.old, scene.labels)
    return roomiest(tried, gaps)


def _drawn_near(tried: FloatArray, scene: Scene, label: int, parent: int) -> FloatArray:
    """Pull candidates towards the parent until they are NEAR it."""
    if not len(tried):
        raise InputError(
            f"no place {NEAR:g} standard deviations from cluster {scene.labels[parent]} was found: "
            "the clusters are too crowded, raise separation or n_trials"
        )
    home, home_label = scene.old[[parent]], scene.labels[[parent]]
    for _ in range(5):  # a fixed point: Gaussians arrive in one round, counts in a few
        gaps = scene.emission.distances(tried, label, home, home_label)  # (C,1)
        tried = home + (NEAR / gaps) * (tried - home)
    return tried


def _unit(vectors: FloatArray) -> FloatArray:
    lengths: FloatArray = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / lengths


def _fold(places: FloatArray, half_width: float) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Mirror places at the walls of the box; also say which coordinates turned."""
    unfolded = np.mod(places + half_width, 4.0 * half_width)
    mirrored = unfolded > 2.0 * half_width
    return np.where(mirrored, 4.0 * half_width - unfolded, unfolded) - half_width, mirrored
