"""The end of a batch, which both algorithms share: remove clusters, report labels and events."""

from __future__ import annotations

import numpy as np

from scstream.core.assign import LoadedRows
from scstream.core.cluster_edits import EditRules, merge_clusters, remove_clusters
from scstream.core.config import Config
from scstream.core.state import Batch, Event, Info, State, Transition
from scstream.families.base import Family, Labels

_TINY = np.finfo(float).tiny


def skip_batch(state: State) -> tuple[State, Labels, Info]:
    """Return the result of a batch without rows: only time has passed."""
    return state.replace(n_batches=state.n_batches + 1), np.zeros(0, dtype=np.int64), Info()


def remove_unsupported(config: Config, transition: Transition, *, newborn: bool) -> Transition:
    """Remove light clusters without rows in the batch; with `newborn`, also light new clusters.

    At least one cluster stays.
    """
    state = transition.state
    if state.weight.min() >= max(config.min_weight, config.min_birth_weight):
        return transition
    gone = (state.current[:, :, 0].sum(axis=1) <= 0) & (state.weight < config.min_weight)
    if newborn:
        is_new = (state.born == state.time) & (state.past[:, :, 0].sum(axis=1) <= 0)
        gone |= is_new & (state.weight < config.min_birth_weight)
    if state.steering.pinned:
        gone &= state.steering.may_end(state.ids)
    if gone.all():
        gone[np.argmax(state.weight)] = False
    return remove_clusters(config, transition, gone) if gone.any() else transition


def merge_lightest(
    family: Family, config: Config, rules: EditRules, transition: Transition
) -> Transition:
    """Merge the lightest cluster into its nearest one if `max_clusters` is reached."""
    state = transition.state
    if not 1 < state.n_clusters >= config.max_clusters:
        return transition
    may_end = state.steering.may_end(state.ids)
    lightest = int(np.argmin(np.where(may_end, state.weight, np.inf)))
    points = family.coordinates_of(state.cluster_stats)
    distance = np.square(points - points[lightest]).sum(axis=1)
    distance[~may_end] = np.inf
    distance[lightest] = np.inf
    if np.isinf(distance).all():  # all others are pinned
        return transition
    return merge_clusters(rules, transition, [(int(np.argmin(distance)), lightest)])


def finish(
    config: Config,
    batch: Batch,
    transition: Transition,
    rows: LoadedRows,
    *,
    before: tuple[float, float] = (float("nan"), float("nan")),
    screening_error: float = float("nan"),
) -> tuple[State, Labels, Info]:
    """Return the result of a batch: the state, the ids of the rows, and what happened.

    `before` are the mean log density of the rows and the share of novel ones before learning.
    """
    labels, n_novel = rows.labels(transition.label_ids)
    log_total = np.log(transition.state.weight.sum() + config.alpha)
    density = transition.log_density / max(batch.total_weight, _TINY) - log_total
    happened = net_events(transition.events)
    info = Info(happened, n_novel, float(density), transition.moves, *before, screening_error)
    state = transition.state
    return state.replace(n_batches=state.n_batches + 1), labels, info


def net_events(events: tuple[Event, ...]) -> tuple[Event, ...]:
    """Leave out clusters that were born and died within the batch.

    A cluster that split off such a cluster was born; one that such a cluster absorbed died.
    """
    born: set[int | None] = {e.id for e in events if e.kind == "born"}
    born |= {e.other for e in events if e.kind == "split" and e.other is not None}
    brief = born & {e.id for e in events if e.kind == "died"}
    out = []
    for e in events:
        if e.id in brief and e.other is not None and e.other not in brief:
            out.append(Event("born" if e.kind == "split" else "died", e.time, e.other, e.weight))
        elif not {e.id, e.other} & brief:
            out.append(e)
    return tuple(out)
