"""Motion compensation: every cluster has an estimated velocity, and its statistics move along."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scstream.core.cluster_edits import apply_fade
from scstream.core.config import Config
from scstream.core.state import State
from scstream.families.base import Array, Family


def active_now(state: State) -> NDArray[np.bool_]:  # (K,)
    """Return which clusters had rows in the last batch."""
    return np.asarray(state.last_seen >= state.time)


def move_layers(family: Family, state: State, elapsed: float) -> State:
    """Move every layer of the active clusters along their velocities."""
    stds = family.stds(state.cluster_stats)
    shift = family.kernels.shrink(state.velocity, stds, state.velocity_noise)
    shift = shift * (elapsed * active_now(state))[:, None]
    return state.replace(**_translated(family, state, shift, ("past", "current", "history")))


def correct_motion(family: Family, config: Config, state: State, elapsed: float) -> State:
    """Correct the place and the velocity of the past by the position of the new rows."""
    if not (config.motion and family.supports_translation) or elapsed <= 0 or not state.past.any():
        return state
    state = apply_fade(state, np.flatnonzero(active_now(state)))
    age = state.time - state.born
    shift, velocity, noise = family.kernels.estimate_motion(
        family, state.past, state.current, state.velocity, state.velocity_noise, age, elapsed
    )
    moved = _translated(family, state, shift, ("past", "history"))
    return state.replace(**moved, velocity=velocity, velocity_noise=noise)


def _translated(
    family: Family, state: State, shift: Array, layers: tuple[str, ...]
) -> dict[str, Array]:
    """Translate every cluster of some layers by its own shift (K, D)."""
    shifts = shift.repeat(2, axis=0)  # (2K, D)
    moved = {}
    for layer in layers:
        stats = getattr(state, layer)  # (K, 2, P), or with a batch axis in front
        if stats.size:
            tiled = shifts if stats.ndim == 3 else np.tile(shifts, (len(stats), 1))
            flat = stats.reshape(-1, stats.shape[-1])
            moved[layer] = family.translate(flat, tiled).reshape(stats.shape)
    return moved
