"""Learn one batch: rows that are held, families on trial, columns of another type.

Every function takes a `Model` and returns a new one.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scstream.compute.rows import RemoteRows, check_rows
from scstream.core.algorithms import ALGORITHMS
from scstream.core.assign import Executor
from scstream.core.calibration import EVERY, N_CALIBRATED, Calibration, calibrate
from scstream.core.dither import dithered
from scstream.core.held import Held, elapsed, enough_rows, holds, is_young
from scstream.core.inherit import inherit_ids
from scstream.core.predictor import Prediction
from scstream.core.retype import retyped
from scstream.core.rng import key_for
from scstream.core.state import NOVEL, Batch, Info, Moves, State
from scstream.core.trial import MAX_ROWS, SAMPLE, Choice, Learned, judge
from scstream.core.trial import learn as learn_on_trial
from scstream.errors import DataWarning, InputError, TimeError
from scstream.families.base import Array, Family, Labels, Rows, unit_weight
from scstream.families.scales import TooFar
from scstream.io.parameters import read_count
from scstream.io.schema import check_entries, read_time

if TYPE_CHECKING:
    from scstream.model import Model

_LARGE = 1 << 20  # statistics of a model that is calibrated more seldom
_MANY_ROWS = 20  # of which a few that lie far out are errors


class Update(NamedTuple):
    """The result of learning one batch.

    Parameters
    ----------
    model : Model
        The model after the batch.
    labels : array of shape (N,)
        Id of the cluster of every row, -1 for none.
    info : Info
        What happened in the batch.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.model import Settings
    >>> Settings(random_state=0).update(np.array([[0.1], [0.2], [0.3]])).labels
    array([0, 0, 0])
    """

    model: Model
    labels: Labels  # (N,)
    info: Info


def suited(model: Model, rows: Rows) -> Model:
    """Check the entries of rows; return the model, if need be with a family that accepts them."""
    family = model.settings.family_kind if model.is_young else model.family
    try:
        check_rows(rows, partial(check_entries, family=family))
    except InputError:
        changed = _retyped(model, rows)
        if changed is model:
            raise
        return suited(changed, rows)
    return model


def learn(model: Model, rows: Rows, weight: Array | None, time: Any, executor: Executor) -> Update:
    """Learn a batch whose entries and weights are checked."""
    batch = _batch(model, rows, weight, time)
    try:
        if model.is_young:  # the entries were checked for any family
            check_rows(rows, partial(check_entries, family=model.family))
        check_rows(rows, model.family.check)
    except InputError as error:
        return _learn_unsuitable(model, batch, error, executor)
    return _learn_suitable(model, batch, executor)


def _batch(model: Model, rows: Rows, weight: Array | None, time: Any) -> Batch:
    """Return the rows as a batch at its own time, or at the model's time if it is late."""
    now = model.time
    if time is None:
        # The time that a batch without a time takes: one, or less for less than a thousand rows.
        taken = elapsed(rows.shape[0]) if model.config.algorithm == "default" else 1.0
        return Batch(rows, 0.0 if model.state.is_new else now + taken, weight)
    time = read_time(time)
    if time >= now:
        return Batch(rows, time, weight)
    if model.config.late == "error":
        raise TimeError(
            f"the batch is from time {time:g} but the model has seen time {now:g}; pass "
            "batches in order of time, or use late='add'."
        )
    left = model.config.kernel.weight(np.array([now - time]))
    return Batch(rows, now, left * (np.ones(rows.shape[0]) if weight is None else weight))


def _learn_suitable(model: Model, batch: Batch, executor: Executor) -> Update:
    """Learn or hold rows that the family accepts."""
    if isinstance(batch.rows, RemoteRows):
        if model.held is not None:
            model = _learn_held(model, model.held, batch.time, executor).model
        return _step(model, batch, executor)
    if model.state.is_new:
        update = _step(model, batch, executor)
        if not is_young(model.config, batch):
            return update
        held = Held.of(batch, update.labels, n_tried=batch.n_rows, young=True)
        return update._replace(model=replace(update.model, held=held))
    if model.held is None and not holds(model.config, batch):
        return _step(model, batch, executor)
    return _learn_small(model, batch, executor)


def _learn_unsuitable(model: Model, batch: Batch, error: InputError, executor: Executor) -> Update:
    """Learn rows that the family does not accept, if it can be changed."""
    if isinstance(batch.rows, RemoteRows) or batch.rows.shape[1] != model.family.n_features:
        raise error
    if model.held is not None and model.held.young:
        held = model.held.joined(Held.of(batch, np.full(batch.n_rows, NOVEL)))
        if isinstance(error, TooFar) and _is_stray(model.family, held):
            raise error
        try:
            return _restarted(model, held, batch, executor)
        except InputError:
            raise error from None
    if isinstance(error, TooFar):
        return _learn_suitable(_widened(model, batch.rows), batch, executor)
    changed = _retyped(model, batch.rows)
    if changed is model:
        raise error
    return learn(changed, batch.rows, batch.weight, batch.time, executor)


def _widened(model: Model, rows: Rows) -> Model:
    """Return the model for columns that hardly varied in the first rows, but do now."""
    family = model.family.widened(rows)
    family.check(rows)
    warnings.warn(
        "some columns vary ten million times as much as in the first rows; the prior is wider "
        "in them from now on. Start with rows that are typical of the stream, or leave a "
        "column out until it varies.",
        DataWarning,
        stacklevel=2,
    )
    choice = model.choice
    if choice is not None:
        wider = (replace(r, family=r.family.widened(rows)) for r in choice.rivals)
        choice = replace(choice, rivals=tuple(wider))
    return replace(model, family=family, choice=choice)


def _retyped(model: Model, rows: Rows) -> Model:
    """Return the model for columns that are not of the type that "auto" found."""
    choice = model.choice
    if choice is None or not isinstance(rows, np.ndarray):
        return model
    if rows.shape[1] != model.family.n_features:
        return model
    family, state = retyped(model.family, model.state, rows)
    if family is model.family:
        return model
    warnings.warn(
        "some columns have values or gaps that they did not have in the first rows; "
        "family='auto' describes them as independent numbers from now on.",
        DataWarning,
        stacklevel=2,
    )
    rivals = []
    for rival in choice.rivals:
        other, clusters = retyped(rival.family, rival.state, rows)
        if other.name != family.name or other.n_stats != family.n_stats:
            rivals.append(replace(rival, family=other, state=clusters))
    was_full = choice.name == "gaussian" and np.isnan(rows).any()
    name = "diagonal" if was_full else choice.name
    choice = replace(choice, name=name, rivals=tuple(rivals))
    return replace(model, family=family, state=read_only(state), choice=choice)


def _step(model: Model, batch: Batch, executor: Executor) -> Update:
    """Learn a batch now, and note how dense its rows were."""
    update = _step_on_trial(model, batch, executor)
    calibration = _calibrated(model, update.model, batch)
    return update._replace(model=replace(update.model, calibration=calibration))


def _calibrated(model: Model, after: Model, batch: Batch) -> Calibration | None:
    """Return how dense rows are before they are learned; for a first batch, after that."""
    old = model.state.n_batches
    every = EVERY if model.state.past.size < _LARGE else 8 * EVERY
    skips = old >= 2 * EVERY and old % every
    if model.config.algorithm != "default" or skips or not batch.n_rows:
        return model.calibration
    rows = batch.rows[np.arange(0, batch.n_rows, -(-batch.n_rows // N_CALIBRATED))]
    found = (after if model.state.is_new else model).at().predict(rows)
    left = model.config.kernel.weight(np.array([max(batch.time - model.time, 0.0)]))[0]
    if model.state.is_new:
        left = 1.0
    return calibrate(model.calibration, found.log_density, found.label, left=float(left))


def _step_on_trial(model: Model, batch: Batch, executor: Executor) -> Update:
    """Learn a batch now; families that are on trial learn it too."""
    choice = model.choice
    if choice is None:
        return _updated(model, _learned(model, model.family, model.state, batch, executor))
    if choice.rivals and model.state.is_new and batch.n_rows > MAX_ROWS:
        return _step_on_trial(_decided(model, choice, batch, executor), batch, executor)
    if choice.widths is not None and not isinstance(batch.rows, RemoteRows):
        number = model.state.n_batches
        batch = dithered(model.family.kernels, model.config, batch, choice.widths, number=number)
    own = _learned(model, model.family, model.state, batch, executor)
    if choice.rivals:
        others = [_learned(model, r.family, r.state, batch, executor) for r in choice.rivals]
        own, choice = judge(model.config, choice, own, others, batch)
    return _updated(model, own, choice)


def _learned(
    model: Model, family: Family, state: State, batch: Batch, executor: Executor
) -> Learned:
    step = ALGORITHMS[model.config.algorithm].step
    return learn_on_trial(step, family, model.config, state, batch, executor)


def _decided(model: Model, choice: Choice, batch: Batch, executor: Executor) -> Model:
    """Return a new model with the family that a sample of a large first batch chooses."""
    key = key_for(model.config.seed, batch=0, sweep=0, purpose="sample")
    sample, _ = batch.sample(model.family.kernels, SAMPLE, key)
    chosen = _step_on_trial(model, sample, executor).model.choice
    assert chosen is not None
    families = {rival.name: rival.family for rival in choice.rivals}
    family = families.get(chosen.name, model.family)
    choice = replace(chosen, rivals=(), n_rows=batch.n_rows)
    return replace(model, family=family, state=State.empty(family), choice=choice)


def _updated(model: Model, learned: Learned, choice: Choice | None = None) -> Update:
    """Return the model after a batch."""
    family, state, labels, info = learned
    events = (*model.events, *info.events)
    kept = events[max(len(events) - read_count("max_events", model.settings.max_events), 0) :]
    after = replace(
        model,
        family=family,
        state=read_only(state),
        info=info,
        events=kept,
        choice=choice,
        held=None,
        calibration=None,
    )
    return Update(after, labels, info)


def _learn_small(model: Model, batch: Batch, executor: Executor) -> Update:
    """Hold the rows of a small batch, or learn them with those that were held before."""
    if not batch.n_rows:
        update = _step(model, batch, executor)
        return update._replace(model=replace(update.model, held=model.held))
    near = batch.time <= model.state.time + model.state.batch_interval
    found = model.at(None if near else batch.time).predict(batch.rows)
    held = Held.of(batch, found.label)
    if model.held is not None:
        held = model.held.joined(held)
    if held.young and held.may_start(model.config):
        with suppress(InputError):  # rows that have faded are too far out for the others
            return _with_density(_restarted(model, held, batch, executor), found)
    elif not held.must_learn(model.config, batch.time):
        return _hold(model, held, found)
    return _newest(_learn_held(model, held, batch.time, executor), batch.n_rows)


def _hold(model: Model, held: Held, found: Prediction) -> Update:
    """Keep rows for later; they have the labels that the clusters predict."""
    density, novel = _density(found)
    n_novel = int((found.label == NOVEL).sum())
    info = Info((), n_novel, density, Moves(), density, novel)
    state = model.state.replace(n_batches=model.state.n_batches + 1)
    after = replace(model, state=read_only(state), info=info, held=held)
    vars(after)["_ready"] = vars(model)["_ready"]  # the clusters have not changed
    return Update(after, found.label, info)


def _learn_held(model: Model, held: Held, time: float, executor: Executor) -> Update:
    """Learn the rows that are held; keep those that no cluster explains."""
    config = model.config
    if held.young:  # the first rows are learned already
        held = held.take(slice(held.n_tried, None))
    update = _step(model, held.as_batch(config, time), executor)
    state = update.model.state
    keep = held.unexplained(config, time, update.labels)
    if not keep.any():
        return update
    waiting = replace(held, label=update.labels).take(keep, n_tried=int(keep.sum()))
    lost = float(waiting.as_batch(config, time).total_weight)
    state = state.replace(unassigned_now=max(state.unassigned_now - lost, 0.0))
    return update._replace(model=replace(update.model, state=state, held=waiting))


def _restarted(model: Model, held: Held, batch: Batch, executor: Executor) -> Update:
    """Start a young model again with all rows; clusters keep the ids of their rows."""
    n_rows, batch = batch.n_rows, held.as_batch(model.config, batch.time)
    fresh = model.settings.start(batch.rows, batch.weight, config=model.config)
    kernels = model.family.kernels
    choice = fresh.choice and fresh.choice.with_kernels(kernels)
    fresh = replace(fresh, family=fresh.family.with_kernels(kernels), choice=choice)
    after, labels, info = _step(fresh, batch, executor)
    weight = unit_weight(batch.rows, batch.weight)
    state, labels, info = inherit_ids(model.state, held.label, after.state, labels, info, weight)
    update = _updated(model, Learned(after.family, state, labels, info), after.choice)
    young = None
    if len(held) < enough_rows(model.config):
        young = replace(held, label=labels, n_tried=len(held))
    known = replace(update.model, held=young, calibration=after.calibration)
    return _newest(update._replace(model=known), n_rows)


def _is_stray(family: Family, held: Held) -> bool:
    """Return True if few of many rows lie far out: these are errors and not a wrong prior."""
    far = family.far_rows(held.rows)
    return len(far) >= _MANY_ROWS and bool(far.mean() <= 0.5)


def _density(found: Prediction) -> tuple[float, float]:
    """Return the mean log density of rows and the share of novel ones."""
    return float(found.log_density.mean()), float((found.label == NOVEL).mean())


def _with_density(update: Update, before: Prediction) -> Update:
    """Return an update that tells how dense and how novel its rows were before."""
    density, novel = _density(before)
    info = replace(update.info, log_density_before=density, novel_before=novel)
    return Update(replace(update.model, info=info), update.labels, info)


def _newest(update: Update, n_rows: int) -> Update:
    """Return an update with the labels of the last rows only."""
    labels = update.labels[-n_rows:]
    info = replace(update.info, n_novel=int((labels == NOVEL).sum()))
    return Update(replace(update.model, info=info), labels, info)


def read_only(state: State) -> State:
    """Return the state with every array closed to writing."""
    for value in (*vars(state).values(), *vars(state.archive).values()):
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
    return state
