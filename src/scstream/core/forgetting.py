"""Forgetting: the weight of old batches decays, and moving clusters move on."""

from __future__ import annotations

import numpy as np

from scstream.core.config import Config
from scstream.core.motion import active_now, move_layers
from scstream.core.state import State
from scstream.families.base import Array, Family

_NEGLIGIBLE = 1e-12  # weights below are dropped


def forget(family: Family, config: Config, state: State, time: float, *, motion: bool) -> State:
    """Decay the statistics to the time of a new batch, and clear those of the current batch.

    With `motion`, active clusters also move along their velocities.
    """
    if state.is_new:
        return state.replace(time=time)
    elapsed = time - state.time
    factor = float(config.kernel.weight(np.asarray(elapsed)))
    moves = motion and family.supports_translation
    if config.kernel.capacity:
        past = _window(config, move_layers(family, state, elapsed) if moves else state, time)
    else:
        past = _decayed(family, state, elapsed if moves else 0.0, factor)
    return state.replace(
        **past,
        current=np.zeros(state.current.shape),
        unassigned_now=0.0,
        split_evidence=factor * state.split_evidence,
        merge_evidence=factor * state.merge_evidence,
        time=time,
        batch_interval=elapsed if elapsed > 0 else state.batch_interval,
    )


def due(family: Family, config: Config, state: State, time: float | None, *, motion: bool) -> State:
    """Return the state at a time; by default at the time when the next batch is due."""
    if state.is_new:
        return state
    at = state.time + state.batch_interval if time is None else max(time, state.time)
    return forget(family, config, state, at, motion=motion)


def unfade_inactive(config: Config, state: State) -> State:
    """Return the state with inactive clusters as they were when their last rows came.

    A cluster without rows loses weight, but what is known about its shape does not get worse. The
    result is for comparing rows with shapes only. It applies to the exponential kernel.
    """
    inactive = np.maximum(state.time - state.last_seen - state.batch_interval, 0.0)
    if config.kernel.capacity or not inactive.any():
        return state
    faded = np.maximum(config.kernel.weight(inactive), _NEGLIGIBLE)
    return state.replace(past=state.past / faded[:, None, None])


def _decayed(
    family: Family, state: State, elapsed: float, factor: float
) -> dict[str, Array | float]:
    """Fields of the past, the last batch included, moved by `elapsed` and decayed by `factor`."""
    subclusters = state.subclusters
    if elapsed:
        subclusters = family.kernels.move_clusters(
            family, subclusters, state.velocity, state.velocity_noise, active_now(state), elapsed
        )
    past = factor * subclusters
    if past[:, :, 0].min(initial=1.0) < _NEGLIGIBLE:
        past[past[:, :, 0] < _NEGLIGIBLE] = 0.0
    return {
        "past": past,
        "unassigned_weight": factor * (state.unassigned_weight + state.unassigned_now),
    }


def _window(config: Config, state: State, time: float) -> dict[str, Array | float]:
    """Append the last batch to the history, drop batches without weight, and sum up the others."""
    history = np.concatenate([state.history, state.current[None]])
    times = np.append(state.history_times, state.time)
    unassigned = np.append(state.history_unassigned, state.unassigned_now)
    weight = config.kernel.weight(time - times)
    keep = np.flatnonzero(weight > 0.0)[-config.kernel.capacity :]
    weight = weight[keep]
    return {
        "history": history[keep],
        "history_times": times[keep],
        "history_unassigned": unassigned[keep],
        "past": np.einsum("h,hkjp->kjp", weight, history[keep]),
        "unassigned_weight": float(weight @ unassigned[keep]),
    }
