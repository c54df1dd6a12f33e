"""What all clusters share is learned from every batch: bases and hierarchical priors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from scstream.core.state import Batch, State
from scstream.families.base import Array, Family

_LAYERS = ("past", "current", "history")


def adapt(family: Family, state: State, batch: Batch) -> tuple[Family, State]:
    """Return the family after a batch was learned, and the state with its statistics."""
    if not batch.n_rows or type(family).adapted is Family.adapted:
        return family, state
    adapted = family.adapted(state.cluster_stats, batch.rows, batch.weight)
    if adapted is family or type(family).transported is Family.transported:
        return adapted, state

    return adapted, map_stats(state, lambda stats: adapted.transported(stats, family))


def map_stats(state: State, function: Callable[[Array], Array]) -> State:
    """Return the state with all of its statistics (..., P) converted."""
    layers = {name: function(getattr(state, name)) for name in _LAYERS}
    archive = replace(state.archive, stats=function(state.archive.stats))
    return state.replace(**layers, archive=archive)
