"""Forgetting: the weight of old batches decays, and moving clusters move on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scstream.core.config import Config
from scstream.core.motion import active_now, move_layers
from scstream.core.state import State
from scstream.families.base import Array, Family

_NEGLIGIBLE = 1e-12  # weights below are dropped


def forget(
    family: Family,
    config: Config,
    state: State,
    time: float,
    *,
    motion: bool,
    keep_shapes: bool = False,
) -> State:
    """Decay the statistics to the time of a new batch, and clear those of the current batch.

    With `motion`, active clusters also move along their velocities. With `keep_shapes`, a cluster
    without rows in the last batch keeps its statistics, and only its `fade` decays. Windows have
    no such clusters: their sums contain no batch for longer than the window.
    """
    if state.is_new:
        return state.replace(time=time)
    elapsed = time - state.time
    factor = float(config.kernel.weight(np.asarray(elapsed)))
    moves = motion and family.supports_translation
    if config.kernel.capacity:
        past = _window(config, move_layers(family, state, elapsed) if moves else state, time)
    else:
        active = active_now(state) if keep_shapes else np.ones(state.n_clusters, dtype=np.bool_)
        past = _decayed(family, state, elapsed if moves else 0.0, factor, active)
    forgotten = state.replace(
        **past,
        current=np.zeros(state.current.shape),
        unassigned_now=0.0,
        split_evidence=factor * state.split_evidence,
        merge_evidence=factor * state.merge_evidence,
        time=time,
        batch_interval=elapsed if elapsed > 0 else state.batch_interval,
    )
    return _keep_pinned(config, state, forgotten) if state.steering.pinned else forgotten


def due(
    family: Family,
    config: Config,
    state: State,
    time: float | None,
    *,
    motion: bool,
    keep_shapes: bool = False,
) -> State:
    """Return the state at a time; by default at the time when the next batch is due."""
    if state.is_new:
        return state
    at = state.time + state.batch_interval if time is None else max(time, state.time)
    return forget(family, config, state, at, motion=motion, keep_shapes=keep_shapes)


def unfaded(state: State) -> State:
    """Return the state with inactive clusters as they were when their last rows came.

    A cluster without rows loses weight, but what is known about its shape does not get worse. The
    result is for comparing rows with shapes only.
    """
    fade = np.where(active_now(state), state.fade, 1.0)
    return state if (fade == state.fade).all() else state.replace(fade=fade)


def _decayed(
    family: Family, state: State, elapsed: float, factor: float, active: NDArray[np.bool_]
) -> dict[str, Array | float]:
    """Fields of the past, the last batch included, moved by `elapsed` and decayed by `factor`.

    Statistics of clusters that are not `active` stay as they are, and their `fade` decays.
    """
    every = bool(active.all())
    which = np.flatnonzero(active)
    subclusters = state.subclusters if every else state.subclusters_at(which)
    if elapsed:
        moving = active_now(state)[which]
        velocity, noise = state.velocity[which], state.velocity_noise[which]
        subclusters = family.kernels.move_clusters(
            family, subclusters, velocity, noise, moving, elapsed
        )
    decayed = factor * subclusters
    if decayed[:, :, 0].min(initial=1.0) < _NEGLIGIBLE:
        decayed[decayed[:, :, 0] < _NEGLIGIBLE] = 0.0
    past = decayed
    if not every:
        past = state.past.copy()
        past[which] = decayed
    fade = np.where(active, 1.0, factor * state.fade)
    fade[fade < _NEGLIGIBLE] = 0.0
    return {
        "past": past,
        "fade": fade,
        "unassigned_weight": factor * (state.unassigned_weight + state.unassigned_now),
    }


def _keep_pinned(config: Config, state: State, forgotten: State) -> State:
    """Let pinned clusters keep a weight of `min_weight`, and their shapes of before."""
    past, fade = forgotten.past.copy(), forgotten.fade.copy()
    weight = past[:, :, 0].sum(axis=1)
    pinned = ~state.steering.may_end(state.ids)
    which = np.flatnonzero(pinned & (weight * fade < config.min_weight))
    lost = which[weight[which] < config.min_weight]
    if len(lost):
        past[lost] = state.subclusters_at(lost)
        weight[lost] = past[lost, :, 0].sum(axis=1)
    light = which[weight[which] < config.min_weight]
    past[light] *= (config.min_weight / np.maximum(weight[light], _NEGLIGIBLE))[:, None, None]
    weight[light] = config.min_weight
    fade[which] = config.min_weight / weight[which]
    return forgotten.replace(past=past, fade=fade)


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
