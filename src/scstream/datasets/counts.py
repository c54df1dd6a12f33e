"""Streams of multinomial clusters: rows are counts, for every kind of drift."""

from __future__ import annotations

from functools import partial
from typing import Literal

from scstream.datasets import drift
from scstream.datasets.base import Drift, RandomState, Stream, make_stream
from scstream.datasets.checks import check_births, check_one_of, check_recurrence, periods
from scstream.datasets.populations import RandomMultinomials

KINDS = ("gradual", "incremental", "abrupt", "recurring", "births", "stationary")

Kind = Literal["gradual", "incremental", "abrupt", "recurring", "births", "stationary"]


def drifting_multinomials(
    n_clusters: int = 100,
    n_features: int = 100,
    *,
    n_trials: int = 100,
    kind: Kind = "gradual",
    n_batches: int | None = 50,
    batch_size: int = 1000,
    period: int | None = None,
    transition: float | None = None,
    n_active: int | None = None,
    phase: int = 5,
    swap: int | None = None,
    weight: float = 0.05,
    distance: Literal["far", "near"] = "far",
    birth_every: int = 10,
    deaths: bool = False,
    random_state: RandomState = None,
) -> Stream:
    """Generate a stream of counts with one kind of drift.

    The probabilities of a cluster are Dirichlet with concentrations uniform in 1..20, and in
    30..100 for one outcome of its own. A change replaces them by a new draw; the label stays.

    Parameters
    ----------
    n_clusters
        Number of clusters.
    n_features
        Number of outcomes.
    n_trials
        Sum of each row.
    kind
        ``"gradual"``: in a transition a row comes from the old or the new version, the new one
        with a probability that rises from 0 to 1. ``"incremental"``: the probabilities move from
        the old to the new ones. ``"abrupt"``: all clusters change at once in the middle of each
        period. ``"recurring"``: clusters become inactive and return. ``"births"``: clusters are
        born. ``"stationary"``: nothing changes.
    n_batches
        Number of batches; None for an infinite stream.
    batch_size
        Rows per batch.
    period
        Each cluster changes once in every period of this many batches; None for the whole stream,
        or 50 in an infinite stream (gradual, incremental, abrupt).
    transition
        Duration of a change in batches; None for 20, or 40 % of a period shorter than 50 (gradual,
        incremental).
    n_active
        Number of clusters that are active at a time; None for a third (recurring).
    phase
        Batches between two changes of the active set (recurring).
    swap
        Number of active clusters that are replaced at each change; None for half (recurring).
    weight
        Share of the rows of a newborn cluster (births).
    distance
        Whether a newborn is ``"far"`` from all or ``"near"`` one of the others, 4 standard
        deviations of a row (births).
    birth_every
        Batches between two births (births).
    deaths
        Whether the oldest cluster dies at each birth (births).
    random_state
        Seed.

    Returns
    -------
    Stream
        The batches.

    Examples
    --------
    >>> from scstream.datasets import drifting_multinomials
    >>> stream = drifting_multinomials(5, 10, n_trials=60, n_batches=3, random_state=0)
    >>> batch = next(iter(stream))
    >>> batch.X.shape, set(batch.X.sum(axis=1).tolist())
    ((1000, 10), {60})
    """
    check_one_of("kind", kind, KINDS)
    population = RandomMultinomials(n_clusters, n_features, n_trials)
    chosen: Drift
    if kind == "stationary":
        chosen = drift.stationary
    elif kind == "recurring":
        chosen = _recurring(n_clusters, n_active, phase, swap)
    elif kind == "births":
        check_births(
            n_clusters=n_clusters,
            weight=weight,
            distance=distance,
            birth_every=birth_every,
            deaths=deaths,
            n_batches=n_batches,
        )
        near = distance == "near"
        chosen = partial(drift.births, weight=weight, near=near, every=birth_every, deaths=deaths)
    else:
        chosen = _replacement(kind, n_batches, period, transition)
    return make_stream(population, chosen, n_batches, batch_size, random_state)


def _recurring(n_clusters: int, n_active: int | None, phase: int, swap: int | None) -> Drift:
    if n_active is None:
        n_active = max(1, n_clusters // 3)
    if swap is None:
        swap = min(max(1, n_active // 2), n_clusters - n_active)
    check_recurrence(n_clusters, n_active, phase, swap)
    return partial(drift.recurring, n_active=n_active, phase=phase, swap=swap)


def _replacement(
    kind: str, n_batches: int | None, period: int | None, transition: float | None
) -> Drift:
    period, width = periods(n_batches, period, transition)
    if kind == "abrupt":
        together = partial(drift.middle_of_period, period=period)
        return partial(drift.replacement, schedule=together, width=0.0, blend=False)
    one_by_one = partial(drift.every_period, period=period, width=width)
    return partial(drift.replacement, schedule=one_by_one, width=width, blend=kind == "incremental")
