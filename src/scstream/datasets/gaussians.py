"""Streams of Gaussian clusters, one generator per kind of drift.

Lengths are in standard deviations: covariances come from an inverse Wishart law with mean I.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

from scstream.datasets import drift
from scstream.datasets.base import RandomState, Stream, make_stream
from scstream.datasets.checks import check_at_least, check_births, check_recurrence, periods
from scstream.datasets.populations import StandardGaussians, UniformGaussians

SEPARATION = 10.5  # 20 clusters in the plane then have an oracle ARI of about .95


def stationary_gaussians(
    n_clusters: int = 20,
    n_features: int = 2,
    *,
    n_batches: int | None = 100,
    batch_size: int = 1000,
    separation: float = SEPARATION,
    random_state: RandomState = None,
) -> Stream:
    """Generate a stream in which nothing changes; with one cluster, the null stream.

    Parameters
    ----------
    n_clusters
        Number of clusters.
    n_features
        Number of features.
    n_batches
        Number of batches; None for an infinite stream.
    batch_size
        Rows per batch.
    separation
        Space for each cluster, in standard deviations: means are uniform in a cube of side
        ``separation * n_clusters**(1 / n_features) * (2 / n_features)**0.5``.
    random_state
        Seed.

    Returns
    -------
    Stream
        The batches.

    Examples
    --------
    >>> from scstream.datasets import stationary_gaussians
    >>> null = stationary_gaussians(n_clusters=1, n_batches=2, batch_size=50, random_state=0)
    >>> [int(batch.y.max()) for batch in null]
    [0, 0]
    """
    population = UniformGaussians(n_clusters, n_features, separation)
    return make_stream(population, drift.stationary, n_batches, batch_size, random_state)


def drifting_gaussians(
    n_clusters: int = 20,
    n_features: int = 2,
    *,
    n_batches: int | None = 100,
    batch_size: int = 1000,
    speed: float = 0.08,
    separation: float = SEPARATION,
    random_state: RandomState = None,
) -> Stream:
    """Generate a stream with incremental drift: every mean moves all the time.

    Each cluster moves at constant speed. Its heading is a random walk (.05 radians per batch)
    and it is reflected at the walls of a cube; clusters may cross. Inside a batch the drift is
    continuous: each row has its own time.

    Parameters
    ----------
    n_clusters
        Number of clusters.
    n_features
        Number of features.
    n_batches
        Number of batches; None for an infinite stream.
    batch_size
        Rows per batch.
    speed
        Standard deviations that a mean moves per batch, in units of the cluster's own root mean
        square standard deviation.
    separation
        Space for each cluster, in standard deviations; see `stationary_gaussians`.
    random_state
        Seed.

    Returns
    -------
    Stream
        The batches.

    Examples
    --------
    >>> from scstream.datasets import drifting_gaussians
    >>> stream = drifting_gaussians(n_clusters=4, n_batches=3, batch_size=200, random_state=0)
    >>> for batch in stream:
    ...     print(batch.time, batch.X.shape, (batch.oracle() == batch.y).mean() > 0.9)
    0.0 (200, 2) True
    1.0 (200, 2) True
    2.0 (200, 2) True
    """
    check_at_least(0.0, speed=speed)
    population = UniformGaussians(n_clusters, n_features, separation)
    kind = partial(drift.incremental, speed=speed, half_width=population.half_width)
    return make_stream(population, kind, n_batches, batch_size, random_state)


def gradual_gaussians(
    n_clusters: int = 20,
    n_features: int = 2,
    *,
    n_batches: int | None = 100,
    batch_size: int = 1000,
    period: int | None = None,
    transition: float | None = None,
    separation: float = SEPARATION,
    random_state: RandomState = None,
) -> Stream:
    """Generate a stream with gradual drift: clusters move to new means, row by row.

    During a transition a row comes from the old or the new mean, with a rising probability of the
    new one. The label stays the same.

    Parameters
    ----------
    n_clusters
        Number of clusters.
    n_features
        Number of features.
    n_batches
        Number of batches; None for an infinite stream.
    batch_size
        Rows per batch.
    period
        Each cluster changes once in every period of this many batches, at a random moment; None
        for the whole stream, or 50 in an infinite stream.
    transition
        Duration of a change in batches; None for 20, or 40 % of a period shorter than 50.
    separation
        Space for each cluster, in standard deviations; see `stationary_gaussians`.
    random_state
        Seed.

    Returns
    -------
    Stream
        The batches.

    Examples
    --------
    >>> from scstream.datasets import gradual_gaussians
    >>> first, *_, last = gradual_gaussians(1, n_batches=30, batch_size=500, random_state=2)
    >>> bool(abs(first.X.mean(axis=0) - last.X.mean(axis=0)).max() > 1)
    True
    """
    period, width = periods(n_batches, period, transition)
    schedule = partial(drift.every_period, period=period, width=width)
    kind = partial(drift.replacement, schedule=schedule, width=width, blend=False)
    population = UniformGaussians(n_clusters, n_features, separation)
    return make_stream(population, kind, n_batches, batch_size, random_state)


def abrupt_gaussians(
    n_clusters: int = 20,
    n_features: int = 2,
    *,
    jumps: Sequence[int] = (25, 50, 75),
    n_batches: int | None = 100,
    batch_size: int = 1000,
    separation: float = SEPARATION,
    random_state: RandomState = None,
) -> Stream:
    """Generate a stream with abrupt drift: all means jump at once.

    Parameters
    ----------
    n_clusters
        Number of clusters.
    n_features
        Number of features.
    jumps
        Numbers of the batches that begin with a jump.
    n_batches
        Number of batches; None for an infinite stream.
    batch_size
        Rows per batch.
    separation
        Space for each cluster, in standard deviations; see `stationary_gaussians`.
    random_state
        Seed.

    Returns
    -------
    Stream
        The batches.

    Examples
    --------
    >>> from scstream.datasets import abrupt_gaussians
    >>> stream = abrupt_gaussians(1, jumps=[2], n_batches=4, batch_size=500, random_state=0)
    >>> a, b, c, d = (batch.X.mean(axis=0) for batch in stream)
    >>> [bool(abs(step).max() > 1) for step in (b - a, c - b, d - c)]
    [False, True, False]
    """
    schedule = partial(drift.at_batches, batches=tuple(jumps))
    kind = partial(drift.replacement, schedule=schedule, width=0.0, blend=False)
    population = UniformGaussians(n_clusters, n_features, separation)
    return make_stream(population, kind, n_batches, batch_size, random_state)


def recurring_gaussians(
    n_clusters: int = 48,
    n_features: int = 64,
    *,
    n_active: int = 16,
    phase: int = 5,
    swap: int = 8,
    n_batches: int | None = 100,
    batch_size: int = 1000,
    between: tuple[float, float, float] = (0.05, 0.80, 10.0),
    random_state: RandomState = None,
) -> Stream:
    """Generate a stream with recurring drift: clusters become inactive and return, nothing moves.

    Total variance is 1 in every feature, as after standardising; the share that lies between
    the clusters falls from feature to feature, as after a principal component analysis.

    Parameters
    ----------
    n_clusters
        Number of clusters, active and inactive.
    n_features
        Number of features.
    n_active
        Number of clusters that are active at a time; their weights change with the phase.
    phase
        Batches between two changes of the active set.
    swap
        Number of active clusters that are replaced by inactive ones at each change.
    n_batches
        Number of batches; None for an infinite stream.
    batch_size
        Rows per batch.
    between
        ``(floor, height, length)``: the variance between clusters is
        ``floor + height * exp(-d / length)`` in feature d, the rest lies within.
    random_state
        Seed.

    Returns
    -------
    Stream
        The batches.

    Examples
    --------
    >>> from scstream.datasets import recurring_gaussians
    >>> stream = recurring_gaussians(6, 8, n_active=3, swap=2, n_batches=10, random_state=0)
    >>> [len(set(batch.y.tolist())) for batch in stream.take(2)]
    [3, 3]
    >>> len(stream.births)  # clusters first seen after the change at batch 5
    2
    """
    check_recurrence(n_clusters, n_active, phase, swap)
    population = StandardGaussians(n_clusters, n_features, between)
    kind = partial(drift.recurring, n_active=n_active, phase=phase, swap=swap)
    return make_stream(population, kind, n_batches, batch_size, random_state)


def births_and_deaths(
    n_clusters: int = 10,
    n_features: int = 2,
    *,
    weight: float = 0.05,
    distance: Literal["far", "near"] = "far",
    birth_every: int = 10,
    deaths: bool = False,
    n_batches: int | None = 50,
    batch_size: int = 1000,
    separation: float = SEPARATION,
    random_state: RandomState = None,
) -> Stream:
    """Generate a stream in which clusters are born, and optionally die; no cluster moves.

    The initial clusters are well separated. ``births`` of the stream lists batch
    and label of each newborn, ``deaths`` those of each death.

    Parameters
    ----------
    n_clusters
        Initial number of clusters.
    n_features
        Number of features.
    weight
        Share of the rows of a newborn cluster.
    distance
        ``"far"``: a newborn is far from all others. ``"near"``: it lies 4 standard deviations from
        one of the living clusters.
    birth_every
        Batches between two births; the first comes at batch ``birth_every``.
    deaths
        Whether the oldest cluster dies at each birth.
    n_batches
        Number of batches; None for an infinite stream, which needs ``deaths=True``.
    batch_size
        Rows per batch.
    separation
        Space for each initial cluster; see `stationary_gaussians`.
    random_state
        Seed.

    Returns
    -------
    Stream
        The batches.

    Examples
    --------
    >>> from scstream.datasets import births_and_deaths
    >>> stream = births_and_deaths(5, distance="near", birth_every=2, n_batches=6, random_state=0)
    >>> stream.births
    [(2, 5), (4, 6)]
    >>> [sorted(set(batch.y.tolist()))[-1] for batch in stream]
    [4, 4, 5, 5, 6, 6]
    """
    check_births(
        n_clusters=n_clusters,
        weight=weight,
        distance=distance,
        birth_every=birth_every,
        deaths=deaths,
        n_batches=n_batches,
    )
    population = UniformGaussians(n_clusters, n_features, separation, spread_out=True)
    kind = partial(
        drift.births, weight=weight, near=distance == "near", every=birth_every, deaths=deaths
    )
    return make_stream(population, kind, n_batches, batch_size, random_state)
