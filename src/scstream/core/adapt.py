"""What all clusters share is learned from every batch: bases and hierarchical priors."""

from __future__ import annotations

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

    def transported(stats: Array) -> Array:
        return adapted.transported(stats, family) if stats.size else stats

    layers = {name: transported(getattr(state, name)) for name in _LAYERS}
    archive = replace(state.archive, stats=transported(state.archive.stats))
    return adapted, state.replace(**layers, archive=archive)
