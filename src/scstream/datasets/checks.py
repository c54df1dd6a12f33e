"""Checks of the arguments of the generators."""

from __future__ import annotations

from scstream.errors import InputError


def check_at_least(least: float, **values: float) -> None:
    """Raise if a value is below ``least``."""
    for name, value in values.items():
        if not value >= least:
            raise InputError(f"{name} must be at least {least:g}, not {value!r}")


def check_one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Raise if the value is not allowed."""
    if value not in allowed:
        raise InputError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")


def check_recurrence(n_clusters: int, n_active: int, phase: int, swap: int) -> None:
    """Raise if the active set cannot change as specified."""
    check_at_least(1, n_active=n_active, phase=phase)
    check_at_least(0, swap=swap)
    if n_active > n_clusters:
        raise InputError(f"n_active={n_active} clusters cannot be active among {n_clusters}")
    if swap > min(n_active, n_clusters - n_active):
        raise InputError(
            f"swap={swap} clusters cannot be swapped between {n_active} active and "
            f"{n_clusters - n_active} inactive ones"
        )


def check_births(
    *,
    n_clusters: int,
    weight: float,
    distance: str,
    birth_every: int,
    deaths: bool,
    n_batches: int | None,
) -> None:
    """Raise for invalid options of births, and for an infinite stream without deaths."""
    check_one_of("distance", distance, ("far", "near"))
    check_at_least(1, birth_every=birth_every)
    if not 0.0 < weight < 1.0:
        raise InputError(f"weight must lie between 0 and 1, not {weight!r}")
    if deaths and n_clusters < 2:
        raise InputError("deaths=True needs at least 2 clusters at the beginning")
    if n_batches is None and not deaths:
        raise InputError("an infinite stream of births needs deaths=True")


def periods(
    n_batches: int | None, period: int | None, transition: float | None
) -> tuple[int, float]:
    """Return the period and the width of a transition that fits into it."""
    if period is None:
        period = 50 if n_batches is None else max(n_batches, 1)
    check_at_least(1, period=period)
    width = min(20.0, 0.4 * period) if transition is None else float(transition)
    check_at_least(0.0, transition=width)
    if width > 0.95 * period:
        raise InputError(f"a transition of {width:g} batches does not fit into {period}")
    return period, width
