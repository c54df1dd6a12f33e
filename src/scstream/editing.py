"""Edit a model as a person decided, between two batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from scstream.compute.rows import RemoteRows, check_rows
from scstream.compute.threads import one_blas_thread
from scstream.core.edits import Editable, apply_edit
from scstream.core.exemplar_edits import Edited, edit_exemplars
from scstream.core.exemplars import Exemplars
from scstream.core.groups import Groups
from scstream.core.held import Held
from scstream.core.state import NOVEL, Event
from scstream.core.steering import Edit
from scstream.errors import InputError
from scstream.families.base import Array, Labels, Rows
from scstream.io.schema import check_entries
from scstream.learning import kept_events, read_only

if TYPE_CHECKING:
    from scstream.model import Model

_NO_LABELS: Labels = np.zeros(0, dtype=np.int64)
_OF_STEERING = ("name", "pin", "unpin")  # edits that change no statistics


def edit_model(model: Model, edit: Edit) -> tuple[Model, tuple[Event, ...]]:
    """Return the model after an edit, and the events of it."""
    if model.config.algorithm == "exact":
        raise InputError("a model with algorithm='exact' samples whole partitions; edit another.")
    rows = edit.rows
    if rows is not None:
        check_rows(rows, check_entries, family=model.family)
        check_rows(rows, model.family.check)
    before = model.state
    with one_blas_thread:
        labels = model.at().labels(rows) if edit.action == "move" else _NO_LABELS
        groups = model.groups() if edit.level == "group" else _no_groups()
        now = Editable(model.family, model.config, before, groups, labels)
        state, events = apply_edit(now, edit)
    after = model.replace(state=read_only(state), events=kept_events(model, events))
    if model.settings.exemplars and model.keep.n:
        edited = Edited(model.family, model.config, state, edit, events)
        after = after.replace(exemplars=_edited(model, edited))
    if edit.action in _OF_STEERING:
        return after, events
    if model.choice is not None and model.choice.rivals:
        after = after.replace(choice=replace(model.choice, rivals=()))
    return after.replace(held=_relabelled(model.held, after, events)), events


def _edited(model: Model, now: Edited) -> Exemplars:
    """Return the exemplars of the model after an edit."""
    keep, known = model.keep, model.exemplars
    if known is None:
        known = Exemplars.empty(model.family.n_features, rows=keep.rows)
    with one_blas_thread:
        return edit_exemplars(known, now, keep=keep)


def _relabelled(held: Held | None, model: Model, events: tuple[Event, ...]) -> Held | None:
    """Return rows that wait, with labels of clusters that are there; the model is not young."""
    if held is None:
        return None
    if held.young:  # the rows at the front are learned already
        if held.n_tried == len(held):
            return None
        held = replace(held.take(slice(held.n_tried, None)), young=False, n_tried=0)
    label = held.label.copy()
    for event in events:
        if event.kind == "merged":
            label[label == event.other] = event.id
    label[~np.isin(label, model.state.ids)] = NOVEL
    return replace(held, label=label)


def with_seeds(
    seeds: Sequence[Edit], rows: Rows, weight: Array | None
) -> tuple[Rows, Array | None]:
    """Return the rows of the first batch and those of the seeds, to fit the prior to."""
    if isinstance(rows, RemoteRows):
        return rows, weight
    parts = [seed.rows for seed in seeds]
    for part in parts:
        if part.shape[1] != rows.shape[1]:
            raise InputError(
                f"the rows of a seed have {part.shape[1]} columns but those of the first batch "
                f"have {rows.shape[1]}; give both the same columns."
            )
    n_seeds = sum(part.shape[0] for part in parts)
    if weight is not None:
        weight = np.append(weight, np.ones(n_seeds))
    if sparse.issparse(rows):
        return sparse.vstack([rows, *parts], format="csr"), weight
    return np.concatenate([rows, *parts]), weight


def _no_groups() -> Groups:
    return Groups(_NO_LABELS, _NO_LABELS, np.zeros(0))
