"""One batch (Algorithm 1): the page to read first."""

from __future__ import annotations

import numpy as np

from scstream.core.assign import Executor, LoadedRows
from scstream.core.births import propose_births
from scstream.core.cluster_edits import merge_clusters, number_from_zero, remove_clusters
from scstream.core.evidence import accumulate_evidence, watch_merge_pairs
from scstream.core.forgetting import advance, learn_motion
from scstream.core.rng import key_for
from scstream.core.start import single_cluster
from scstream.core.state import Batch, Config, Event, Info, State, Transition
from scstream.core.sweep import (
    learn,
    nearest_to,
    predictive_plan,
    predictive_sweep,
    sampling_sweep,
)
from scstream.families.base import Family, Labels

_TINY = np.finfo(float).tiny
_MOST_ASKED = 1 << 14  # rows


def step(
    family: Family, config: Config, state: State, batch: Batch, executor: Executor
) -> tuple[State, Labels, Info]:
    """Learn one batch: the new state, the id of every row, and what happened.

    The past fades to the time of the batch; rows arrive, and those that no cluster explains found
    new ones; labels are sampled in `n_sweeps` sweeps and settled in a last, predictive one; splits
    and merges follow every sweep; clusters without support are let go. Of the rows only statistics
    are kept.
    """
    first = state.n_clusters == 0
    elapsed = 0.0 if state.is_new else batch.time - state.time
    state = advance(family, config, state, batch.time)
    if batch.n_rows == 0:
        return state.replace(n_batches=state.n_batches + 1), np.zeros(0, dtype=np.int64), Info()
    rows = executor.load(family, batch)
    arrived = initial_assignment(family, config, state, rows)
    sampled, n_sweeps = sample(family, config, arrived, rows, converge=first)
    transition = predictive_sweep(family, config, sampled.state, rows, sweep=n_sweeps + 1)
    transition = prune(family, config, transition)
    transition = transition.replace(events=net_events(sampled.events + transition.events))
    if first:
        transition = number_from_zero(transition)
    labels, n_novel = rows.labels(transition.label_ids)
    state = learn_motion(family, config, transition.state, elapsed)
    return (
        state.replace(n_batches=state.n_batches + 1),
        labels,
        report(config, batch, transition, n_novel),
    )


def initial_assignment(
    family: Family, config: Config, state: State, rows: LoadedRows
) -> Transition:
    """Ask the rows, before they are learned, what they think of the clusters.

    Rows draw a cluster for now; those that like none found new ones. Of very many rows only some
    are asked.
    """
    if state.n_clusters == 0 and not config.segment_start:
        return single_cluster(family, config, Transition.of(state), rows)
    evidence = config.split_evidence is not None or config.merge_evidence is not None
    if state.n_clusters and not config.births and not evidence:
        return Transition.of(state)
    key = key_for(config.seed, batch=state.n_batches, sweep=0, purpose="sample")
    sampled, share = rows.sample(_MOST_ASKED, key)
    plan = predictive_plan(family, config, state, sweep=0, collect_evidence=True)
    state, plan = watch_merge_pairs(family, config, state, plan)
    found = sampled.assign(plan)
    if state.n_clusters == 0:
        return propose_births(family, config, Transition.of(state), sampled)
    transition = learn(accumulate_evidence(config, state, found), found, share)
    enough = found.novel_weight >= config.birth_floor
    return propose_births(family, config, transition, sampled) if enough else transition


def sample(
    family: Family, config: Config, transition: Transition, rows: LoadedRows, *, converge: bool
) -> tuple[Transition, int]:
    """Sampling sweeps, the paper's T: `n_sweeps`, or more where clusters were born.

    On the first batch until clusters come and go no more.
    """
    max_n = max(config.n_sweeps, config.birth_sweeps if transition.events else 0)
    quiet, sweep = 0, 0
    while sweep < (config.start_sweeps if converge else max_n):
        sweep += 1
        swept = sampling_sweep(family, config, transition.state, rows, sweep=sweep)
        transition = swept.replace(events=transition.events + swept.events)
        quiet = 0 if swept.events else quiet + 1
        if converge and quiet >= config.start_patience:
            break
    return transition, sweep


def prune(family: Family, config: Config, transition: Transition) -> Transition:
    """Dissolve newborns without support, bury the silent, make room; one cluster always stays."""
    if transition.state.weight.min() < max(config.death_weight, config.birth_floor):
        transition = remove_unsupported(config, transition)
    state = transition.state
    if 1 < state.n_clusters >= config.max_clusters:
        lightest = int(np.argmin(state.weight))
        transition = merge_clusters(
            config, transition, [(nearest_to(family, state, lightest), lightest)]
        )
    return transition


def remove_unsupported(config: Config, transition: Transition) -> Transition:
    """Bury silent clusters and newborns that are too light."""
    state = transition.state
    gone = (state.current[:, :, 0].sum(axis=1) <= 0) & (state.weight < config.death_weight)
    if config.births:
        newborn = (state.born == state.time) & (state.past[:, :, 0].sum(axis=1) <= 0)
        gone |= newborn & (state.weight < config.birth_floor)
    if gone.all():
        gone[np.argmax(state.weight)] = False
    return remove_clusters(config, transition, gone) if gone.any() else transition


def net_events(events: tuple[Event, ...]) -> tuple[Event, ...]:
    """Leave out clusters that were born and died within the batch.

    A cluster that split off one of these was born, one that was absorbed by it died.
    """
    born: set[int | None] = {e.id for e in events if e.kind == "born"}
    born |= {e.other for e in events if e.kind == "split" and e.other is not None}
    ghosts = born & {e.id for e in events if e.kind == "died"}
    out = []
    for e in events:
        if e.id in ghosts and e.other is not None and e.other not in ghosts:
            out.append(Event("born" if e.kind == "split" else "died", e.time, e.other, e.weight))
        elif not {e.id, e.other} & ghosts:
            out.append(e)
    return tuple(out)


def report(config: Config, batch: Batch, transition: Transition, n_novel: int) -> Info:
    """Sum up what happened."""
    log_total = np.log(transition.state.weight.sum() + config.alpha)
    density = transition.log_density / max(batch.total_weight, _TINY) - log_total
    return Info(transition.events, n_novel, float(density))
