"""The model: settings before the first batch, then a mixture that every batch updates."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, Self, cast

import numpy as np

from scstream.compute.rows import RemoteRows
from scstream.compute.threads import ThreadExecutor, one_blas_thread
from scstream.core import default, exact, paper, printed
from scstream.core.assign import Executor
from scstream.core.calibration import EVERY, N_CALIBRATED, Calibration, calibrate
from scstream.core.config import Config
from scstream.core.dither import dithered
from scstream.core.groups import Groups, Hierarchy, build_hierarchy, group_events
from scstream.core.held import Held, elapsed, enough_rows, holds, is_young
from scstream.core.inherit import inherit_ids
from scstream.core.predictor import Prediction, Predictor
from scstream.core.ratios import log_joint
from scstream.core.retype import retyped
from scstream.core.rng import key_for
from scstream.core.state import NOVEL, Batch, Event, Info, Moves, State
from scstream.core.trial import MAX_ROWS, SAMPLE, Choice, Learned, Rival, judge, learn
from scstream.core.window import Exponential
from scstream.errors import CheckpointCorrupt, DataWarning, InputError, TimeError
from scstream.families.base import Array, Family, Labels, Rows, unit_weight
from scstream.families.scales import TooFar
from scstream.io.column_types import Auto, Levels, column_types
from scstream.io.header import PipelineState
from scstream.io.model_file import pack_model, pack_pipeline, unpack_model, unpack_pipeline
from scstream.io.parameters import (
    family_kind,
    first_family,
    read_config,
    read_count,
    read_resolution,
)
from scstream.io.schema import check_entries, read_time, read_weight
from scstream.kernels import choose_kernels
from scstream.machine import usable_cores

_LARGE_TABLE = 1000  # rows of a table that is learned in two halves
_STARTS = 5  # for a smaller table
_MANY_ROWS = 20  # of which a few that lie far out are errors


class Algorithm(Protocol):
    """What the modules `default`, `paper`, `printed` and `exact` of `scstream.core` offer."""

    def step(
        self, family: Family, config: Config, state: State, batch: Batch, executor: Executor
    ) -> tuple[State, Labels, Info]:
        """Update the clusters with one batch of rows."""

    def predictor(
        self, family: Family, config: Config, state: State, time: float | None
    ) -> Predictor:
        """Return the mixture at a time, by default when the next batch is due."""

    def shapes(self, config: Config, state: State) -> State:
        """Return the state whose statistics describe the shapes of the clusters."""


ALGORITHMS: Mapping[str, Algorithm] = MappingProxyType(
    {"default": default, "paper": paper, "printed": printed, "exact": exact}
)


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


@dataclass(frozen=True)
class Settings:
    """The parameters of `scstream.ScStream`, which documents them, and the names of the columns.

    It is what a model knows before the first batch; `update` with that batch returns a `Model`.

    Parameters
    ----------
    family, prior, alpha, half_life, kernel, n_sweeps, algorithm, max_clusters, late : object
        As in `scstream.ScStream`.
    births, motion, archive, min_birth_weight, min_weight, min_batch : object
        As in `scstream.ScStream`.
    coarseness, precision, config, n_jobs, executor, max_events, random_state : object
        As in `scstream.ScStream`.
    feature_names : tuple of str or None
        Names of the columns.
    levels : tuple or None
        Levels of every column of a table, None for a column of numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.model import Settings
    >>> settings = Settings(half_life=20.0, random_state=0)
    >>> settings.update(np.array([[0.1], [0.2], [0.3]])).model.state.n_clusters
    1
    """

    family: Any = "auto"
    prior: Any = "auto"
    alpha: float = 1.0
    half_life: float | None = Exponential.half_life
    kernel: Any = None
    n_sweeps: int | None = None
    algorithm: str = "default"
    max_clusters: int = 1000
    late: str = "error"
    births: bool = True
    motion: bool = True
    archive: bool = False
    min_birth_weight: float = 5.0
    min_weight: float = 1.0
    min_batch: int = 100
    coarseness: float = 0.3
    precision: str = "float64"
    config: Config | None = None
    n_jobs: int | None = -1
    executor: Any = None
    max_events: int = 1000
    random_state: Any = None
    feature_names: tuple[str, ...] | None = field(default=None, kw_only=True)
    levels: Levels | None = field(default=None, kw_only=True)

    @classmethod
    def of(
        cls,
        parameters: Mapping[str, Any],
        feature_names: Sequence[str] | None = None,
        levels: Levels | None = None,
    ) -> Self:
        """Build settings from parameters by name; raise `InputError` for an unknown name."""
        unknown = [name for name in parameters if name not in PARAMETERS]
        if unknown:
            raise InputError(
                f"a model has no parameter {unknown[0]!r}; it has {', '.join(PARAMETERS)}."
            )
        column_names = None if feature_names is None else tuple(feature_names)
        return cls(**parameters, feature_names=column_names, levels=levels)

    def named(self, feature_names: tuple[str, ...] | None) -> Settings:
        """Return these settings with the names of the columns."""
        return replace(self, feature_names=feature_names)

    def parameters(self) -> dict[str, Any]:
        """Return the parameters by name, without the names of the columns."""
        return {name: getattr(self, name) for name in PARAMETERS}

    @property
    def family_kind(self) -> Family | type[Family]:
        """The family, or its class, before the prior is known."""
        return family_kind(self.family)

    def to_config(self) -> Config:
        """Return the settings of the algorithm; raise `InputError` for a value that cannot work."""
        return read_config(self.parameters(), defaults=PARAMETERS)

    def start(
        self, rows: Rows, weight: Array | None = None, *, config: Config | None = None
    ) -> Model:
        """Return a model without clusters, whose prior fits the rows of the first batch."""
        if weight is not None and not weight.sum() > 0:
            raise InputError("every row of the first batch has weight zero; give some a weight.")
        is_remote = isinstance(rows, RemoteRows)
        if is_remote and not isinstance(self.family_kind, Family):
            rows = rows.gathered()  # the prior is fitted to them
        config = config or self.to_config()
        if self.family_kind is not Auto:
            family = self._first_family(self.family, config, rows, weight)
            return Model(family, config, State.empty(family), settings=self)
        return self._start_auto(config, rows, weight, may_dither=not is_remote)

    def _start_auto(
        self, config: Config, rows: Rows, weight: Array | None, *, may_dither: bool
    ) -> Model:
        """Choose the family by the columns of the first batch."""
        if isinstance(self.prior, Mapping):
            choice = Choice("gaussian", "the prior, which names hyperparameters of this family")
            family = self._first_family("gaussian", config, rows, weight)
            return Model(family, config, State.empty(family), settings=self, choice=choice)
        types = column_types(rows, self.levels)
        widths = types.widths if may_dither else None
        if widths is not None:
            rows = dithered(choose_kernels(), config, Batch(rows, 0.0), widths, number=0).rows
        names = types.families if config.algorithm == "default" else types.families[:1]
        families = [self._first_family(types.spec(n), config, rows, weight) for n in names]
        name, family = names[0], families[0]
        rivals = tuple(
            Rival(names[rank], families[rank], State.empty(families[rank]), rank)
            for rank in range(1, len(names))
        )
        choice = Choice(name, types.reason, rivals=rivals, widths=widths)
        return Model(family, config, State.empty(family), settings=self, choice=choice)

    def _first_family(
        self, family: Any, config: Config, rows: Rows, weight: Array | None
    ) -> Family:
        return first_family(
            family,
            self.prior,
            config,
            rows,
            weight,
            column_names=self.feature_names,
            levels=self.levels,
            kernels=choose_kernels(),
        )

    def update(
        self, rows: Rows, *, time: Any = None, weight: Any = None, complete: bool = False
    ) -> Update:
        """Learn the first batch; see `Model.update`.

        With `complete` the rows are a whole table: the model is the most probable one of several
        starts, or learns the rows in two halves, and does not hold them.
        """
        check_rows(rows, partial(check_entries, family=self.family_kind))
        weight = read_weight(weight, rows.shape[0])
        executor = choose_executor(self.executor, self.n_jobs)
        with one_blas_thread, choose_kernels().threads(executor.n_threads):
            if not complete:
                return self.start(rows, weight).learn(rows, weight, time, executor)
            update = self._fit(rows, weight, time, executor)
            return update._replace(model=replace(update.model, held=None))

    def _fit(self, rows: Rows, weight: Array | None, time: Any, executor: Executor) -> Update:
        """Learn a whole table.

        Of a small table several starts are tried, and the most probable partition is kept. A large
        one is learned in two random halves, so that the second half is evidence for splits and
        merges of clusters that overlap.
        """
        config = self.to_config()
        if config.algorithm != "default" or isinstance(rows, RemoteRows):
            return self.start(rows, weight, config=config).learn(rows, weight, time, executor)
        if rows.shape[0] < _LARGE_TABLE:
            starts = [replace(config, seed=(config.seed + i) % 2**63) for i in range(_STARTS)]
            found = [
                self.start(rows, weight, config=start).learn(rows, weight, time, executor)
                for start in starts
            ]
            best = max(found, key=lambda update: _log_posterior(update, rows, weight))
            return best._replace(model=replace(best.model, config=config))
        model = self.start(rows, weight, config=config)
        key = key_for(config.seed, batch=0, sweep=0, purpose="pool")
        order = np.argsort(model.family.kernels.uniforms(key, np.arange(rows.shape[0]))[:, 0])
        for half in map(np.sort, np.array_split(order, 2)):
            half_weight = None if weight is None else weight[half]
            update = model.learn(rows[half], half_weight, time or 0.0, executor)
            model = replace(update.model, held=None)
        labels = model.at().labels(rows)
        info = replace(update.info, n_novel=int((labels == NOVEL).sum()))
        return Update(replace(model, info=info), labels, info)


def _log_posterior(update: Update, rows: Rows, weight: Array | None) -> float:
    """Log of the probability of a partition, up to a constant; a novel row is a cluster alone."""
    family, state = update.model.family, update.model.state
    novel = update.labels == NOVEL
    group = np.searchsorted(state.ids, update.labels)
    group[novel] = state.n_clusters + np.arange(novel.sum())
    stats = family.stats(rows, group, state.n_clusters + int(novel.sum()), weight)
    return log_joint(family, update.model.config.alpha, stats[stats[:, 0] > 0])


PARAMETERS: Mapping[str, Any] = MappingProxyType(  # of `scstream.ScStream`, with their defaults
    {each.name: each.default for each in fields(Settings) if not each.kw_only}
)


@dataclass(frozen=True)
class Model:
    """A fitted mixture between two batches. It never changes: updating returns a new model.

    Parameters
    ----------
    family : Family
        The family with its prior.
    config : Config
        The settings of the algorithm.
    state : State
        The clusters.
    info : Info
        What happened in the last batch.
    events : tuple of Event
        What happened so far: the last `max_events` events.
    settings : Settings
        The parameters that the model was made with.
    choice : Choice or None
        Why it has its family, if that was chosen by ``family="auto"``.
    held : Held or None
        Rows of small batches that are not learned yet.
    calibration : Calibration or None
        How dense rows of known clusters usually are.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.model import Settings
    >>> rows = np.array([[0.1], [0.2], [0.3], [0.4], [0.5], [0.6]])
    >>> model, labels, info = Settings(random_state=0).update(rows)
    >>> model.at().labels(np.array([[0.35], [50.0]]))
    array([ 0, -1])
    """

    family: Family
    config: Config
    state: State
    info: Info = field(default_factory=Info)
    events: tuple[Event, ...] = ()
    settings: Settings = field(default_factory=Settings)
    choice: Choice | None = None
    held: Held | None = None
    calibration: Calibration | None = None

    @property
    def time(self) -> float:
        """Time of the newest row; minus infinity before the first."""
        return self.state.time if self.held is None else float(self.held.time.max())

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features; ``x0``, ``x1``, ... if the rows had none."""
        return self.settings.feature_names or tuple(f"x{d}" for d in range(self.family.n_features))

    @property
    def why(self) -> str:
        """Why the model has its family, in a sentence."""
        if self.choice is None:
            return f"{self.family.name}, as the parameter family says."
        return f"{self.family.name}, {self.choice.sentence}."

    @property
    def shapes(self) -> Array:  # (K, P)
        """Statistics that describe the shapes of the clusters."""
        return ALGORITHMS[self.config.algorithm].shapes(self.config, self.state).cluster_stats

    @property
    def hierarchy(self) -> Hierarchy:
        """The tree in which clusters are joined into groups."""
        tree: Hierarchy | None = vars(self).get("_hierarchy")
        if tree is None:
            with one_blas_thread:
                tree = build_hierarchy(self.family, self.state.ids, self.shapes)
            vars(self)["_hierarchy"] = tree
        return tree

    def groups(self, resolution: float = 1.0) -> Groups:
        """Return the groups of clusters; a larger resolution gives more and finer groups."""
        return self.hierarchy.cut(read_resolution(resolution))

    def group_events(self, before: Groups) -> list[Event]:
        """Return what happened to groups since earlier ones of the same resolution."""
        return group_events(before, self.groups(before.resolution), self.events, self.state.time)

    def update(self, rows: Rows, *, time: Any = None, weight: Any = None) -> Update:
        """Learn one batch. If it raises, this model is still valid and unchanged.

        Parameters
        ----------
        rows : array or CSR array of shape (N, D)
            The rows, float64.
        time : number, datetime or numpy.datetime64, optional
            Time of the batch; by default a thousand rows are one unit, and so is a larger batch.
        weight : array of shape (N,), optional
            How much each row counts.

        Returns
        -------
        Update
            The new model, the id of the cluster of every row, and an `Info` record.
        """
        family = self.settings.family_kind if self._is_young else self.family
        try:
            check_rows(rows, partial(check_entries, family=family))
        except InputError:
            model = self._retyped(rows)
            if model is self:
                raise
            return model.update(rows, time=time, weight=weight)
        weight = read_weight(weight, rows.shape[0])
        executor = choose_executor(self.settings.executor, self.settings.n_jobs)
        with one_blas_thread, self.family.kernels.threads(executor.n_threads):
            return self.learn(rows, weight, time, executor)

    def learn(self, rows: Rows, weight: Array | None, time: Any, executor: Executor) -> Update:
        """Learn a batch whose entries and weights are checked; `update` is the public method."""
        batch = self._batch(rows, weight, time)
        try:
            if self._is_young:  # the entries were checked for any family
                check_rows(rows, partial(check_entries, family=self.family))
            check_rows(rows, self.family.check)
        except InputError as error:
            return self._learn_unsuitable(batch, error, executor)
        return self._learn_suitable(batch, executor)

    @property
    def _is_young(self) -> bool:
        """Whether more rows may still show another family or prior."""
        return self.held is not None and self.held.young

    def _learn_suitable(self, batch: Batch, executor: Executor) -> Update:
        """Learn or hold rows that the family accepts."""
        if isinstance(batch.rows, RemoteRows):
            model = self
            if self.held is not None:
                model = self._learn_held(self.held, batch.time, executor).model
            return model.step(batch, executor)
        if self.state.is_new:
            update = self.step(batch, executor)
            if not is_young(self.config, batch):
                return update
            held = Held.of(batch, update.labels, n_tried=batch.n_rows, young=True)
            return update._replace(model=replace(update.model, held=held))
        if self.held is None and not holds(self.config, batch):
            return self.step(batch, executor)
        return self._learn_small(batch, executor)

    def _learn_unsuitable(self, batch: Batch, error: InputError, executor: Executor) -> Update:
        """Learn rows that the family does not accept, if it can be changed."""
        if isinstance(batch.rows, RemoteRows) or batch.rows.shape[1] != self.family.n_features:
            raise error
        if self.held is not None and self.held.young:
            held = self.held.joined(Held.of(batch, np.full(batch.n_rows, NOVEL)))
            if isinstance(error, TooFar) and _is_stray(self.family, held):
                raise error
            try:
                return self._restarted(held, batch, executor)
            except InputError:
                raise error from None
        if isinstance(error, TooFar):
            return self._widened(batch.rows)._learn_suitable(batch, executor)
        model = self._retyped(batch.rows)
        if model is self:
            raise error
        return model.learn(batch.rows, batch.weight, batch.time, executor)

    def _widened(self, rows: Rows) -> Model:
        """Return this model for columns that hardly varied in the first rows, but do now."""
        family = self.family.widened(rows)
        family.check(rows)
        warnings.warn(
            "some columns vary ten million times as much as in the first rows; the prior is wider "
            "in them from now on. Start with rows that are typical of the stream, or leave a "
            "column out until it varies.",
            DataWarning,
            stacklevel=2,
        )
        choice = self.choice
        if choice is not None:
            wider = (replace(r, family=r.family.widened(rows)) for r in choice.rivals)
            choice = replace(choice, rivals=tuple(wider))
        return replace(self, family=family, choice=choice)

    def _retyped(self, rows: Rows) -> Model:
        """Return this model for columns that are not of the type that "auto" found."""
        choice = self.choice
        if choice is None or not isinstance(rows, np.ndarray):
            return self
        if rows.shape[1] != self.family.n_features:
            return self
        family, state = retyped(self.family, self.state, rows)
        if family is self.family:
            return self
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
        return replace(self, family=family, state=read_only(state), choice=choice)

    def step(self, batch: Batch, executor: Executor) -> Update:
        """Learn a batch now, and note how dense its rows were."""
        update = self._step(batch, executor)
        calibration = self._calibrated(update.model, batch)
        return update._replace(model=replace(update.model, calibration=calibration))

    def _calibrated(self, after: Model, batch: Batch) -> Calibration | None:
        """Return how dense rows are before they are learned; for a first batch, after that."""
        old = self.state.n_batches
        skips = old >= 2 * EVERY and old % EVERY
        if self.config.algorithm != "default" or skips or not batch.n_rows:
            return self.calibration
        if isinstance(batch.rows, RemoteRows):
            return self.calibration
        rows = batch.rows[:: -(-batch.n_rows // N_CALIBRATED)]
        found = (after if self.state.is_new else self).at().predict(rows)
        left = self.config.kernel.weight(np.array([max(batch.time - self.time, 0.0)]))[0]
        if self.state.is_new:
            left = 1.0
        return calibrate(self.calibration, found.log_density, found.label, left=float(left))

    def _step(self, batch: Batch, executor: Executor) -> Update:
        """Learn a batch now; families that are on trial learn it too."""
        choice = self.choice
        if choice is None:
            return self._updated(self._learned(self.family, self.state, batch, executor))
        if choice.rivals and self.state.is_new and batch.n_rows > MAX_ROWS:
            return self._decided(batch, executor)._step(batch, executor)
        if choice.widths is not None and not isinstance(batch.rows, RemoteRows):
            number = self.state.n_batches
            batch = dithered(self.family.kernels, self.config, batch, choice.widths, number=number)
        own = self._learned(self.family, self.state, batch, executor)
        if choice.rivals:
            others = [self._learned(r.family, r.state, batch, executor) for r in choice.rivals]
            own, choice = judge(self.config, choice, own, others, batch)
        return self._updated(own, choice)

    def _learned(self, family: Family, state: State, batch: Batch, executor: Executor) -> Learned:
        step = ALGORITHMS[self.config.algorithm].step
        return learn(step, family, self.config, state, batch, executor)

    def _decided(self, batch: Batch, executor: Executor) -> Model:
        """Return this new model with the family that a sample of a large first batch chooses."""
        assert self.choice is not None
        key = key_for(self.config.seed, batch=0, sweep=0, purpose="sample")
        sample, _ = batch.sample(self.family.kernels, SAMPLE, key)
        chosen = self._step(sample, executor).model.choice
        assert chosen is not None
        families = {rival.name: rival.family for rival in self.choice.rivals}
        family = families.get(chosen.name, self.family)
        choice = replace(chosen, rivals=(), n_rows=batch.n_rows)
        return replace(self, family=family, state=State.empty(family), choice=choice)

    def _updated(self, learned: Learned, choice: Choice | None = None) -> Update:
        """Return the model after a batch."""
        family, state, labels, info = learned
        events = (*self.events, *info.events)
        kept = events[max(len(events) - read_count("max_events", self.settings.max_events), 0) :]
        model = Model(family, self.config, read_only(state), info, kept, self.settings, choice)
        return Update(model, labels, info)

    def _learn_small(self, batch: Batch, executor: Executor) -> Update:
        """Hold the rows of a small batch, or learn them with those that were held before."""
        if not batch.n_rows:
            update = self.step(batch, executor)
            return update._replace(model=replace(update.model, held=self.held))
        near = batch.time <= self.state.time + self.state.batch_interval
        found = self.at(None if near else batch.time).predict(batch.rows)
        held = Held.of(batch, found.label)
        if self.held is not None:
            held = self.held.joined(held)
        if held.young and held.may_start(self.config):
            with suppress(InputError):  # rows that have faded are too far out for the others
                return _with_density(self._restarted(held, batch, executor), found)
        elif not held.must_learn(self.config, batch.time):
            return self._hold(held, found)
        return _newest(self._learn_held(held, batch.time, executor), batch.n_rows)

    def _hold(self, held: Held, found: Prediction) -> Update:
        """Keep rows for later; they have the labels that the clusters predict."""
        density, novel = _density(found)
        n_novel = int((found.label == NOVEL).sum())
        info = Info((), n_novel, density, Moves(), density, novel)
        state = self.state.replace(n_batches=self.state.n_batches + 1)
        model = replace(self, state=read_only(state), info=info, held=held)
        vars(model)["_ready"] = vars(self)["_ready"]  # the clusters have not changed
        return Update(model, found.label, info)

    def _learn_held(self, held: Held, time: float, executor: Executor) -> Update:
        """Learn the rows that are held; keep those that no cluster explains."""
        if held.young:  # the first rows are learned already
            held = held.take(slice(held.n_tried, None))
        update = self.step(held.as_batch(self.config, time), executor)
        state = update.model.state
        keep = held.unexplained(self.config, time, update.labels)
        if not keep.any():
            return update
        waiting = replace(held, label=update.labels).take(keep, n_tried=int(keep.sum()))
        lost = float(waiting.as_batch(self.config, time).total_weight)
        state = state.replace(unassigned_now=max(state.unassigned_now - lost, 0.0))
        return update._replace(model=replace(update.model, state=state, held=waiting))

    def _restarted(self, held: Held, batch: Batch, executor: Executor) -> Update:
        """Start a young model again with all rows; clusters keep the ids of their rows."""
        n_rows, batch = batch.n_rows, held.as_batch(self.config, batch.time)
        fresh = self.settings.start(batch.rows, batch.weight, config=self.config)
        kernels = self.family.kernels
        choice = fresh.choice and fresh.choice.with_kernels(kernels)
        fresh = replace(fresh, family=fresh.family.with_kernels(kernels), choice=choice)
        model, labels, info = fresh.step(batch, executor)
        weight = unit_weight(batch.rows, batch.weight)
        state, labels, info = inherit_ids(self.state, held.label, model.state, labels, info, weight)
        update = self._updated(Learned(model.family, state, labels, info), model.choice)
        young = None
        if len(held) < enough_rows(self.config):
            young = replace(held, label=labels, n_tried=len(held))
        known = replace(update.model, held=young, calibration=model.calibration)
        return _newest(update._replace(model=known), n_rows)

    def at(self, time: Any = None, *, level: str = "cluster", resolution: float = 1.0) -> Predictor:
        """Return the mixture at a time, by default when the next batch is due, to predict with.

        Parameters
        ----------
        time : number, datetime or numpy.datetime64, optional
            Clusters lose weight and move until then.
        level : {"cluster", "group"}
            Predict clusters, or groups of them.
        resolution : float
            Of groups: a larger resolution gives more and finer groups.

        Returns
        -------
        Predictor
            Labels, probabilities and log densities of rows.
        """
        if level == "group":
            return self.at(time).grouped(self.groups(resolution))
        if level != "cluster":
            raise InputError(f"level must be 'cluster' or 'group', got {level!r}.")
        time = None if time is None else read_time(time)
        ready: tuple[float | None, Predictor] | None = vars(self).get("_ready")
        if ready is None or ready[0] != time:
            predictor = ALGORITHMS[self.config.algorithm].predictor
            with one_blas_thread:
                ready = time, predictor(self.family, self.config, self.state, time)
            vars(self)["_ready"] = ready  # for callers that predict row by row
        return ready[1]

    def named(self, feature_names: tuple[str, ...] | None) -> Model:
        """Return this model with other names of the columns."""
        return replace(self, settings=self.settings.named(feature_names))

    def events_since(self, time: float, *, next_batch: bool) -> tuple[Event, ...]:
        """Return the events after an earlier batch at this time, as far as they are kept.

        `next_batch` says that this model learned the next batch, which may have the same time.
        """
        if next_batch:
            return self.info.events
        return tuple(event for event in self.events if event.time > time)

    def with_parameters(self, **parameters: Any) -> Model:
        """Return this model with other values of parameters that every batch reads."""
        settings = self.settings
        if all(getattr(settings, name) is value for name, value in parameters.items()):
            return self
        return replace(self, settings=replace(settings, **parameters))

    def to_bytes(self, pipeline: PipelineState | None = None) -> bytes:
        """Return the content of a model file; the same model gives the same bytes."""
        return pack_model(
            self.family,
            self.config,
            self.state,
            self.info,
            self.events,
            parameters=self.settings.parameters(),
            feature_names=self.settings.feature_names,
            held=self.held,
            calibration=self.calibration,
            levels=self.settings.levels,
            choice=self.choice,
            pipeline=pipeline or {},
        )

    @classmethod
    def from_bytes(cls, content: bytes, *, name: str = "the model", kernel: Any = None) -> Model:
        """Read the content of a model file; `name` says in errors which file it is.

        Raises `CheckpointCorrupt` for damaged content, `CheckpointTooNew` for a later format.
        `kernel` is the forgetting kernel, if it was a function: a file cannot hold one.
        """
        model, _ = read_checkpoint(content, name=name, kernel=kernel)
        if model is None:
            raise CheckpointCorrupt(f"{name} is a checkpoint that holds no model yet.")
        return model

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def _batch(self, rows: Rows, weight: Array | None, time: Any) -> Batch:
        """Return the rows as a batch at its own time, or at the model's time if it is late."""
        now = self.time
        if time is None:
            return Batch(rows, 0.0 if self.state.is_new else now + self._elapsed(rows), weight)
        time = read_time(time)
        if time >= now:
            return Batch(rows, time, weight)
        if self.config.late == "error":
            raise TimeError(
                f"the batch is from time {time:g} but the model has seen time {now:g}; pass "
                "batches in order of time, or use late='add'."
            )
        left = self.config.kernel.weight(np.array([now - time]))
        return Batch(rows, now, left * (np.ones(rows.shape[0]) if weight is None else weight))

    def _elapsed(self, rows: Rows) -> float:
        """Time that a batch without a time takes: one, or less for less than a thousand rows."""
        if self.config.algorithm != "default":
            return 1.0
        return elapsed(rows.shape[0])


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


def load_model(path: Path, *, kernel: Any = None) -> Model:
    """Read a model file for use from Python; warn if a pipeline preprocessed its rows."""
    model, pipeline = read_checkpoint(path.read_bytes(), name=str(path), kernel=kernel)
    if model is None:
        raise CheckpointCorrupt(f"{path} is a checkpoint that holds no model yet.")
    steps = pipeline.get("steps", {}).get("options")
    if steps:
        kinds = ", ".join(step["step"] for step in steps)
        warnings.warn(
            f"{path} was learned from rows that a pipeline had preprocessed ({kinds}); this model "
            "takes rows after these steps. `scstream predict` and `scstream serve` take raw rows.",
            stacklevel=3,
        )
    return model


def checkpoint_bytes(model: Model | None, pipeline: PipelineState) -> bytes:
    """Return the content of a checkpoint: a model, or none yet, and what a pipeline stores."""
    return pack_pipeline(pipeline) if model is None else model.to_bytes(pipeline)


def read_checkpoint(
    content: bytes, *, name: str, kernel: Any = None
) -> tuple[Model | None, PipelineState]:
    """Read the content of a checkpoint or of a model file; raise `CheckpointCorrupt`."""
    pipeline = unpack_pipeline(content, name=name)
    if pipeline is not None:
        return None, pipeline
    parts = unpack_model(content, name=name, kernel=kernel)
    family = parts.family.with_kernels(choose_kernels())
    try:
        settings = Settings.of(parts.parameters, parts.feature_names, parts.levels)
    except InputError as error:
        raise CheckpointCorrupt(
            f"{name} is not a valid model file: {str(error).rstrip('.')}; restore an older copy."
        ) from error
    model = Model(
        family,
        parts.config,
        read_only(parts.state),
        parts.info,
        parts.events,
        settings,
        parts.choice and parts.choice.with_kernels(choose_kernels()),
        parts.held,
        parts.calibration,
    )
    return model, parts.pipeline


def thread_executor(n_jobs: Any) -> ThreadExecutor:
    """Return the executor with so many threads; as in scikit-learn, -1 is one per core."""
    if n_jobs is None:
        return _shared_executor(1)
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs == 0:
        raise InputError(
            f"n_jobs must be a whole number other than 0, or None for one thread, got {n_jobs!r}."
        )
    return _shared_executor(int(n_jobs) if n_jobs > 0 else max(usable_cores() + 1 + n_jobs, 1))


def choose_executor(executor: Any, n_jobs: Any) -> Executor:
    """Return what runs the passes: threads, the workers of a Ray cluster, or a given executor."""
    if executor is None or executor == "threads":
        return thread_executor(n_jobs)
    if executor == "ray":
        return _shared_ray_executor()
    if callable(getattr(executor, "load", None)) and not isinstance(executor, type):
        return cast(Executor, executor)
    raise InputError(
        f"executor must be 'threads', 'ray' or an executor such as RayExecutor(), got {executor!r}."
    )


def check_rows(rows: Rows, check: Callable[[Rows], None]) -> None:
    """Check rows where they are: in this process, or on the nodes of a cluster."""
    if isinstance(rows, RemoteRows):
        rows.each(check)
    else:
        check(rows)


def read_only(state: State) -> State:
    """Return the state with every array closed to writing."""
    for value in (*vars(state).values(), *vars(state.archive).values()):
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
    return state


@cache
def _shared_executor(n_threads: int) -> ThreadExecutor:
    """Thousands of models share one executor: finding the BLAS libraries takes milliseconds."""
    return ThreadExecutor(n_threads)


@cache
def _shared_ray_executor() -> Executor:
    executor: Executor = import_module("scstream.distributed.executor").RayExecutor()
    return executor
