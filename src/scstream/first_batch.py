"""The first batch: choose family and prior by its rows; learn a whole table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from scstream.compute.rows import RemoteRows
from scstream.core.config import Config
from scstream.core.dither import dithered
from scstream.core.notes import NO_NOTES, Notes
from scstream.core.ratios import log_joint
from scstream.core.rng import key_for
from scstream.core.state import NOVEL, Batch, State
from scstream.core.trial import Choice, Rival
from scstream.errors import InputError
from scstream.families.base import Array, Family, Rows
from scstream.io.column_types import Auto, column_types
from scstream.io.parameters import first_family
from scstream.kernels import choose_kernels
from scstream.learning import Update, learn

if TYPE_CHECKING:
    from scstream.model import Settings

_LARGE_TABLE = 1000  # rows of a table that is learned in two halves
_STARTS = 5  # for a smaller table


def choose_family(
    settings: Settings, config: Config, rows: Rows, weight: Array | None
) -> tuple[Family, Choice | None]:
    """Return the family with its prior, and why, if ``family="auto"`` chose it."""
    if weight is not None and not weight.sum() > 0:
        raise InputError("every row of the first batch has weight zero; give some a weight.")
    is_remote = isinstance(rows, RemoteRows)
    if is_remote and not isinstance(settings.family_kind, Family):
        rows = rows.gathered()  # the prior is fitted to them
    if settings.family_kind is not Auto:
        return _first_family(settings, settings.family, config, rows, weight), None
    if isinstance(settings.prior, Mapping):
        choice = Choice("gaussian", "the prior, which names hyperparameters of this family")
        return _first_family(settings, "gaussian", config, rows, weight), choice
    return _choose_by_columns(settings, config, rows, weight, may_dither=not is_remote)


def _choose_by_columns(
    settings: Settings, config: Config, rows: Rows, weight: Array | None, *, may_dither: bool
) -> tuple[Family, Choice]:
    """Choose the family by the columns of the first batch; others go on trial."""
    types = column_types(rows, settings.levels)
    widths = types.widths if may_dither else None
    if widths is not None:
        rows = dithered(choose_kernels(), config, Batch(rows, 0.0), widths, number=0).rows
    names = types.families if config.algorithm == "default" else types.families[:1]
    families = [_first_family(settings, types.spec(n), config, rows, weight) for n in names]
    rivals = tuple(
        Rival(names[rank], families[rank], State.empty(families[rank]), rank)
        for rank in range(1, len(names))
    )
    return families[0], Choice(names[0], types.reason, rivals=rivals, widths=widths)


def _first_family(
    settings: Settings, family: Any, config: Config, rows: Rows, weight: Array | None
) -> Family:
    return first_family(
        family,
        settings.prior,
        config,
        rows,
        weight,
        column_names=settings.feature_names,
        levels=settings.levels,
        kernels=choose_kernels(),
    )


def learn_table(
    settings: Settings,
    rows: Rows,
    weight: Array | None,
    time: Any,
    notes: Notes | None = None,
) -> Update:
    """Learn a whole table.

    Of a small table several starts are tried, and the most probable partition is kept. A large
    one is learned in two random halves, so that the second half is evidence for splits and
    merges of clusters that overlap.
    """
    config = settings.to_config()
    if config.algorithm != "default" or isinstance(rows, RemoteRows):
        return learn(settings.start(rows, weight, config=config), rows, weight, time, notes)
    if rows.shape[0] < _LARGE_TABLE:
        starts = [replace(config, seed=(config.seed + i) % 2**63) for i in range(_STARTS)]
        found = [
            learn(settings.start(rows, weight, config=start), rows, weight, time, notes)
            for start in starts
        ]
        best = max(found, key=lambda update: log_posterior(update, rows, weight))
        return best._replace(model=best.model.replace(config=config))
    model = settings.start(rows, weight, config=config)
    key = key_for(config.seed, batch=0, sweep=0, purpose="pool")
    order = np.argsort(model.family.kernels.uniforms(key, np.arange(rows.shape[0]))[:, 0])
    for half in map(np.sort, np.array_split(order, 2)):
        half_weight = None if weight is None else weight[half]
        half_notes = (notes or NO_NOTES).take(half)
        update = learn(model, rows[half], half_weight, time or 0.0, half_notes)
        model = update.model.replace(held=None)
    labels = model.at().labels(rows)
    info = replace(update.info, n_novel=int((labels == NOVEL).sum()))
    return Update(model.replace(info=info), labels, info)


def log_posterior(update: Update, rows: Rows, weight: Array | None) -> float:
    """Log of the probability of a partition, up to a constant; a novel row is a cluster alone."""
    family, state = update.model.family, update.model.state
    novel = update.labels == NOVEL
    group = np.searchsorted(state.ids, update.labels)
    group[novel] = state.n_clusters + np.arange(novel.sum())
    stats = family.stats(rows, group, state.n_clusters + int(novel.sum()), weight)
    return log_joint(family, update.model.config.alpha, stats[stats[:, 0] > 0])
