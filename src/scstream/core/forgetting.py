"""The passing of time: old batches fade, moving clusters move on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scstream.core.state import Config, State
from scstream.families.base import Array, Family
from scstream.native import twin, twin_function

Mask = NDArray[np.bool_]

_GAIN = 0.3  # share of an innovation that goes into the velocity
_FIRST_GAIN = 0.7  # the same one batch after birth, when nothing is known yet
_STEADY = 20.0  # rows whose mean is trusted half as much as that of very many
_PLACE_GAIN = 0.3  # share of a believed innovation by which the past is moved
_NEGLIGIBLE = 1e-12  # weights below are dropped


def advance(family: Family, config: Config, state: State, time: float) -> State:
    """Let time pass until a batch at `time`: fade, move, and make room for the new rows."""
    if state.is_new:
        return state.replace(time=time)
    elapsed = time - state.time
    factor = float(config.kernel.weight(np.asarray(elapsed)))
    moves = config.motion and family.supports_translation
    if config.kernel.capacity:
        past = _faded_by_ring(config, _moved(family, state, elapsed) if moves else state, time)
    else:
        past = _faded(family, state, elapsed if moves else 0.0, factor)
    return state.replace(
        **past,
        current=np.zeros(state.current.shape),
        unassigned_now=0.0,
        split_evidence=factor * state.split_evidence,
        merge_evidence=factor * state.merge_evidence,
        time=time,
        batch_interval=elapsed if elapsed > 0 else state.batch_interval,
    )


def unfade_inactive(config: Config, state: State) -> State:
    """Return the state with silent clusters as they were when last heard of.

    A cluster that sends no rows grows lighter, but what is known of its shape does not get worse.
    """
    silence = np.maximum(state.time - state.last_seen - state.batch_interval, 0.0)
    if not config.remember_silent or config.kernel.capacity or not silence.any():
        return state
    faded = np.maximum(config.kernel.weight(silence), _NEGLIGIBLE)
    return state.replace(past=state.past / faded[:, None, None])


def learn_motion(family: Family, config: Config, state: State, elapsed: float) -> State:
    """Correct place and velocity of the past by where the new rows lie (row 9)."""
    if not (config.motion and family.supports_translation) or elapsed <= 0 or not state.past.any():
        return state
    age = state.time - state.born
    shift, velocity, velocity_noise = corrections(
        family, state.past, state.current, state.velocity, state.velocity_noise, age, elapsed
    )
    moved = _translated(family, state, shift, ("past", "history"))
    return state.replace(**moved, velocity=velocity, velocity_noise=velocity_noise)


@twin
def corrections(
    family: Family,
    past: Array,
    current: Array,
    velocity: Array,
    velocity_noise: Array,
    age: Array,
    elapsed: float,
) -> tuple[Array, Array, Array]:  # (K, D), (K, D), (K,)
    """Shift of the past, new velocity and new jitter of every cluster.

    An alpha-beta filter: the innovation is how far the rows lie from where the past was expected.
    What chance alone would do to it, in units of the cluster's spread, is known from the counts.
    """
    past, current = (layer[:, 0] + layer[:, 1] for layer in (past, current))
    n_new, n_old = current[:, 0], past[:, 0]
    trust = n_new / (n_new + _STEADY) * n_old / (n_old + _STEADY)
    n_before = np.maximum(age / elapsed, 1.0)
    gain = np.maximum(_GAIN, _FIRST_GAIN / n_before) * trust / elapsed
    innovation = family.means(current) - family.means(past)
    chance = innovation.shape[1] * (1.0 / np.maximum(n_new, 1.0) + 1.0 / np.maximum(n_old, 1.0))
    believed = shrunk(innovation, family.stds(past + current), chance)
    return (
        believed * (_PLACE_GAIN * trust)[:, None],
        velocity + gain[:, None] * innovation,
        np.where(n_new > 0, chance * gain / elapsed, velocity_noise),
    )


def _faded(family: Family, state: State, elapsed: float, factor: float) -> dict[str, Any]:
    """Fields of the past, with the newest batch in it, moved on by `elapsed`."""
    subclusters = state.subclusters
    if elapsed:
        subclusters = drifted(
            family, subclusters, state.velocity, state.velocity_noise, _active(state), elapsed
        )
    past = factor * subclusters
    if past[:, :, 0].min(initial=1.0) < _NEGLIGIBLE:
        past[past[:, :, 0] < _NEGLIGIBLE] = 0.0
    return {
        "past": past,
        "unassigned_weight": factor * (state.unassigned_weight + state.unassigned_now),
    }


@twin
def drifted(
    family: Family,
    subclusters: Array,
    velocity: Array,
    velocity_noise: Array,
    active: Mask,
    elapsed: float,
) -> Array:  # (K, 2, P)
    """Halves of clusters moved along their velocities; those not heard of stay."""
    stds = family.stds(subclusters[:, 0] + subclusters[:, 1])
    shift = _shift(velocity, stds, velocity_noise, active, elapsed)
    flat = subclusters.reshape(-1, subclusters.shape[-1])
    return family.translate(flat, shift.repeat(2, axis=0)).reshape(subclusters.shape)


def _active(state: State) -> Mask:  # (K,)
    """Which clusters had rows in the newest batch."""
    return np.asarray(state.last_seen >= state.time)


def _faded_by_ring(config: Config, state: State, time: float) -> dict[str, Any]:
    """Append the newest batch to the ring, drop what weighs nothing, sum up the rest."""
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


def _moved(family: Family, state: State, elapsed: float) -> State:
    """Every cluster that was heard of in the newest batch, moved along its velocity."""
    stds = family.stds(state.cluster_stats)
    shift = _shift(state.velocity, stds, state.velocity_noise, _active(state), elapsed)
    return state.replace(**_translated(family, state, shift, ("past", "current", "history")))


def _shift(
    velocity: Array, stds: Array, velocity_noise: Array, active: Mask, elapsed: float
) -> Array:  # (K, D)
    """How far clusters move, less what chance explains; those not heard of stay."""
    return shrunk(velocity, stds, velocity_noise) * (elapsed * active)[:, None]


@twin_function
def shrunk(vectors: Array, stds: Array, chance: Array) -> Array:  # (K, D)
    """Shrink towards zero what chance would explain (James and Stein).

    `chance` (K,) is the mean square length, in spreads, of a vector of noise. With many features
    noise is long: it would carry clusters off.
    """
    size = np.square(vectors / stds).sum(axis=1)
    share = np.maximum(0.0, 1.0 - chance / np.maximum(size, 1e-100))
    return np.asarray(vectors * share[:, None])


def _translated(
    family: Family, state: State, shift: Array, layers: tuple[str, ...]
) -> dict[str, Array]:
    """Some layers, with every cluster translated by its own shift (K, D)."""
    by_half = shift.repeat(2, axis=0)  # (2K, D)
    moved = {}
    for layer in layers:
        stats = getattr(state, layer)  # (K, 2, P), or with a batch axis in front
        if stats.size:
            shifts = by_half if stats.ndim == 3 else np.tile(by_half, (len(stats), 1))
            flat = stats.reshape(-1, stats.shape[-1])
            moved[layer] = family.translate(flat, shifts).reshape(stats.shape)
    return moved
