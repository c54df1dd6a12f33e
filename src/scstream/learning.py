"""Learn one batch: rows that are held, families on trial, columns of another type.

Every function takes a `Model` and returns a new one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from scstream.compute.choose import choose_executor
from scstream.compute.rows import RemoteRows, check_rows
from scstream.compute.threads import one_blas_thread
from scstream.core.algorithms import ALGORITHMS
from scstream.core.assign import Executor
from scstream.core.calibration import EVERY, N_CALIBRATED, Calibration, calibrate
from scstream.core.dither import dithered
from scstream.core.exemplar_choice import learn_exemplars
from scstream.core.exemplars import Exemplars
from scstream.core.held import Held, HeldInfo, elapsed, enough_rows, holds, is_young
from scstream.core.inherit import inherit_ids
from scstream.core.notes import Notes
from scstream.core.predictor import Predictor
from scstream.core.retype import retyped
from scstream.core.rng import key_for
from scstream.core.state import NOVEL, Batch, Event, Info, State
from scstream.core.steering import Steering
from scstream.core.trial import MAX_ROWS, SAMPLE, Choice, Learned, judge
from scstream.core.trial import learn as learn_on_trial
from scstream.errors import DataWarning, InputError, TimeError
from scstream.families.base import Array, Family, Labels, Rows, unit_weight
from scstream.families.scales import TooFar
from scstream.io.durations import is_duration
from scstream.io.parameters import read_count
from scstream.io.schema import check_entries, read_time
from scstream.kernels import Kernels

if TYPE_CHECKING:
    from scstream.model import Model, Settings

T = TypeVar("T")
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


@contextmanager
def computing(settings: Settings, kernels: Kernels) -> Iterator[Executor]:
    """Return the executor of a model, with BLAS and compiled code limited to its threads."""
    executor = choose_executor(settings.executor, settings.n_jobs)
    with one_blas_thread, kernels.threads(executor.n_threads):
        yield executor


def suited(model: Model, rows: Rows) -> Model:
    """Check the entries of rows; return the model, if need be with a family that accepts them."""
    family = model.settings.family_kind if model.is_young else model.family
    try:
        check_rows(rows, check_entries, family=family)
    except InputError:
        changed = _retyped(model, rows)
        if changed is model:
            raise
        return suited(changed, rows)
    return model


def learn(
    model: Model, rows: Rows, weight: Array | None, time: Any, notes: Notes | None = None
) -> Update:
    """Learn a batch whose entries, weights and notes are checked."""
    batch = _batch(model, rows, weight, time)
    if notes is not None:
        batch = replace(batch, notes=notes)
    try:
        if model.is_young:  # the entries were checked for any family
            check_rows(rows, check_entries, family=model.family)
        check_rows(rows, model.family.check)
    except InputError as error:
        return _learn_unsuitable(model, batch, error)
    return _learn_suitable(model, batch)


def _batch(model: Model, rows: Rows, weight: Array | None, time: Any) -> Batch:
    """Return the rows as a batch at its own time, or at the model's time if it is late."""
    now = model.time
    if time is None:
        return Batch(rows, 0.0 if model.state.is_new else now + _taken(model, rows), weight)
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


def _taken(model: Model, rows: Rows) -> float:
    """Return the time that a batch without a time takes: one, or less for few rows.

    None passes if forgetting is measured in seconds: how many is not known.
    """
    settings = model.settings
    if is_duration(settings.half_life) and settings.kernel is None:
        warnings.warn(
            f"half_life={settings.half_life!r} is a duration, but the batch has no time: nothing "
            "is forgotten with it. Pass time= with every batch, or half_life as a number, in "
            "thousands of rows.",
            DataWarning,
            stacklevel=2,
        )
        return 0.0
    return elapsed(rows.shape[0]) if model.config.algorithm == "default" else 1.0


def _learn_suitable(model: Model, batch: Batch) -> Update:
    """Learn or hold rows that the family accepts."""
    if isinstance(batch.rows, RemoteRows):
        if model.held is not None:
            model = _learn_held(model, model.held, batch.time).model
        return _step(model, batch)
    if model.state.is_new:
        if model.state.n_clusters:  # seeds begin with the first batch
            state, known = _begun(model.state, batch.time), model.exemplars
            if known is not None:
                known = known.begun(batch.time)
            return _step(model.replace(state=state, exemplars=known), batch)
        update = _step(model, batch)
        if not is_young(model.config, batch):
            return update
        held = Held.of(batch, update.labels, n_tried=batch.n_rows, young=True)
        return update._replace(model=update.model.replace(held=held))
    if model.held is None and not holds(model.config, batch):
        return _step(model, batch)
    return _learn_small(model, batch)


def _begun(state: State, time: float) -> State:
    """Return a state of seeds at the time of the first batch."""
    at = np.full(state.n_clusters, time)
    return state.replace(born=at, last_seen=at, time=time)


def _learn_unsuitable(model: Model, batch: Batch, error: InputError) -> Update:
    """Learn rows that the family does not accept, if it can be changed."""
    if isinstance(batch.rows, RemoteRows) or batch.rows.shape[1] != model.family.n_features:
        raise error
    if model.held is not None and model.held.young:
        held = model.held.followed_by(batch, np.full(batch.n_rows, NOVEL), n_novel=batch.n_rows)
        if isinstance(error, TooFar) and _is_stray(model.family, held):
            raise error
        try:
            return _restarted(model, held, batch)
        except InputError:
            raise error from None
    if isinstance(error, TooFar):
        return _learn_suitable(_widened(model, batch.rows), batch)
    changed = _retyped(model, batch.rows)
    if changed is model:
        raise error
    return learn(changed, batch.rows, batch.weight, batch.time, batch.notes)


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
    return model.replace(family=family, choice=choice)


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
    return model.replace(family=family, state=read_only(state), choice=choice)


def _step(model: Model, batch: Batch) -> Update:
    """Learn a batch now, and note how dense its rows were."""
    with computing(model.settings, model.family.kernels) as executor:
        update = _step_on_trial(model, batch, executor)
        after = update.model
        calibration, exemplars = _calibrated(model, after, batch), None
        if model.settings.exemplars:
            exemplars = _exemplars(after, model.exemplars, batch, update.labels)
    return update._replace(model=after.replace(calibration=calibration, exemplars=exemplars))


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


def _exemplars(
    model: Model, known: Exemplars | None, batch: Batch, labels: Labels
) -> Exemplars | None:
    """Return the exemplars of the model after a batch, from those before it."""
    keep = model.keep
    if not keep.n:
        return None
    if known is None or (known.rows is None) == keep.rows:
        known = Exemplars.empty(model.family.n_features, rows=keep.rows)
    return learn_exemplars(
        known, model.family, model.config, model.state, batch, labels, model.info.events, keep=keep
    )


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
    return model.replace(family=family, state=State.empty(family), choice=choice)


def _updated(model: Model, learned: Learned, choice: Choice | None = None) -> Update:
    """Return the model after a batch."""
    family, state, labels, info = learned
    if not state.steering.is_empty:
        state = state.replace(steering=_steering_after(model, state, info))
    after = model.replace(
        family=family,
        state=read_only(state),
        info=info,
        events=kept_events(model, info.events),
        choice=choice,
        held=None,
        calibration=None,
    )
    return Update(after, labels, info)


def kept_events(model: Model, events: Sequence[Event]) -> tuple[Event, ...]:
    """Return the events of a model and newer ones: the last `max_events` of them."""
    known = (*model.events, *events)
    return known[max(len(known) - read_count("max_events", model.settings.max_events), 0) :]


def _steering_after(model: Model, state: State, info: Info) -> Steering:
    """Return what people decided, after clusters have merged and ended."""
    merged = [(e.id, e.other) for e in info.events if e.kind == "merged" and e.other is not None]
    steering, alive = state.steering, set(state.ids.tolist())
    lost = [id_ for id_ in steering.group_names if id_ not in alive]
    if lost:  # the group goes on with its next oldest cluster
        groups = model.groups()
        for id_ in lost:
            heirs = [int(k) for k in groups.members(id_) if int(k) in alive]
            if heirs and heirs[0] not in steering.group_names:
                names = {heirs[0]: steering.group_names[id_], id_: None}
                steering = steering.with_names(names, level="group")
    return steering.after(merged, alive)


def _learn_small(model: Model, batch: Batch) -> Update:
    """Hold the rows of a small batch, or learn them with those that were held before."""
    if not batch.n_rows:
        update = _step(model, batch)
        return update._replace(model=update.model.replace(held=model.held))
    near = batch.time <= model.state.time + model.state.batch_interval
    predictor = model.at(None if near else batch.time)
    label = _on_one_thread(predictor, Predictor.labels, batch.rows)
    n_novel = int(np.count_nonzero(label == NOVEL))
    held = model.held
    if held is None:
        held = Held.of(batch, label)
    else:
        held = held.followed_by(batch, label, n_novel=n_novel)
    before = HeldInfo.of(n_novel, len(label), partial(_log_density, predictor, held.newest_rows))
    if held.young and held.may_start(model.config):
        with suppress(InputError):  # rows that have faded are too far out for the others
            return _with_density(_restarted(model, held, batch), before)
    elif not held.must_learn(model.config, batch.time):
        return _hold(model, held, label, before)
    return _newest(_learn_held(model, held, batch.time), batch.n_rows)


def _on_one_thread(predictor: Predictor, compute: Callable[..., T], rows: Rows) -> T:
    """Predict rows; BLAS, if numpy computes, uses one thread."""
    if predictor.family.compiled is not None:
        return compute(predictor, rows)
    with one_blas_thread:
        return compute(predictor, rows)


def _log_density(predictor: Predictor, rows: Rows) -> float:
    """Return the mean log density of rows."""
    return float(_on_one_thread(predictor, Predictor.log_density, rows).mean())


def _hold(model: Model, held: Held, label: Labels, info: Info) -> Update:
    """Keep rows for later; they have the labels that the clusters predict."""
    state = model.state.replace(n_batches=model.state.n_batches + 1)
    return Update(model.replace(keep_cached=True, state=state, info=info, held=held), label, info)


def _learn_held(model: Model, held: Held, time: float) -> Update:
    """Learn the rows that are held; keep those that no cluster explains."""
    config = model.config
    if held.young:  # the first rows are learned already
        held = held.take(slice(held.n_tried, None))
    update = _step(model, held.as_batch(config, time))
    state = update.model.state
    keep = held.unexplained(config, time, update.labels)
    if not keep.any():
        return update
    waiting = replace(held, label=update.labels).take(keep, n_tried=int(keep.sum()))
    lost = float(waiting.as_batch(config, time).total_weight)
    state = state.replace(unassigned_now=max(state.unassigned_now - lost, 0.0))
    return update._replace(model=update.model.replace(state=state, held=waiting))


def _restarted(model: Model, held: Held, batch: Batch) -> Update:
    """Start a young model again with all rows; clusters keep the ids of their rows."""
    n_rows, batch = batch.n_rows, held.as_batch(model.config, batch.time)
    kernels = model.family.kernels
    with computing(model.settings, kernels):
        fresh = model.settings.start(batch.rows, batch.weight, config=model.config)
    choice = fresh.choice and fresh.choice.with_kernels(kernels)
    fresh = fresh.replace(family=fresh.family.with_kernels(kernels), choice=choice)
    after, labels, info = _step(fresh, batch)
    weight = unit_weight(batch.rows, batch.weight)
    state, labels, info = inherit_ids(model.state, held.label, after.state, labels, info, weight)
    state = state.replace(steering=model.state.steering)
    update = _updated(model, Learned(after.family, state, labels, info), after.choice)
    young = None
    if len(held) < enough_rows(model.config):
        young = replace(held, label=labels, n_tried=len(held))
    known = update.model.replace(held=young, calibration=after.calibration)
    if known.settings.exemplars:  # with the ids that clusters have now
        with computing(known.settings, kernels):
            kept = _exemplars(known, None, batch, labels)
        known = known.replace(exemplars=kept)
    return _newest(update._replace(model=known), n_rows)


def _is_stray(family: Family, held: Held) -> bool:
    """Return True if few of many rows lie far out: these are errors and not a wrong prior."""
    far = family.far_rows(held.rows)
    return len(far) >= _MANY_ROWS and bool(far.mean() <= 0.5)


def _with_density(update: Update, before: Info) -> Update:
    """Return an update that tells how dense and how novel its rows were before."""
    density, novel = before.log_density_before, before.novel_before
    info = replace(update.info, log_density_before=density, novel_before=novel)
    return Update(update.model.replace(info=info), update.labels, info)


def _newest(update: Update, n_rows: int) -> Update:
    """Return an update with the labels of the last rows only."""
    labels = update.labels[-n_rows:]
    info = replace(update.info, n_novel=int((labels == NOVEL).sum()))
    return Update(update.model.replace(info=info), labels, info)


def read_only(state: State) -> State:
    """Return the state with every array closed to writing."""
    for value in (*vars(state).values(), *vars(state.archive).values()):
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
    return state
