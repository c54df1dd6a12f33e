"""The model: settings before the first batch, then a mixture that every batch updates."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from scstream.compute.rows import check_rows
from scstream.compute.threads import one_blas_thread
from scstream.core.algorithms import ALGORITHMS
from scstream.core.calibration import Calibration
from scstream.core.config import Config
from scstream.core.exemplars import Exemplar, Exemplars, Keep, best, read_keep
from scstream.core.groups import Groups, Hierarchy, build_hierarchy, group_events
from scstream.core.held import Held
from scstream.core.notes import Notes
from scstream.core.predictor import Predictor
from scstream.core.state import Event, Info, State
from scstream.core.steering import Edit
from scstream.core.trial import Choice
from scstream.core.window import Exponential
from scstream.editing import edit_model, with_seeds
from scstream.errors import CheckpointCorrupt, InputError
from scstream.families.base import Array, Family, Rows
from scstream.first_batch import choose_family, learn_table
from scstream.io.column_types import Levels
from scstream.io.header import PipelineState
from scstream.io.model_file import pack_model, pack_pipeline, unpack_model, unpack_pipeline
from scstream.io.parameters import changed_config, family_kind, read_config, read_resolution
from scstream.io.schema import check_entries, name_column, read_notes, read_time, read_weight
from scstream.kernels import choose_kernels
from scstream.learning import Update, computing, learn, read_only, suited


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
    coarseness, precision, config, n_jobs, executor, max_events, exemplars, random_state : object
        As in `scstream.ScStream`.
    feature_names : tuple of str or None
        Names of the columns.
    levels : tuple or None
        Levels of every column of a table, None for a column of numbers.
    seeds : tuple of Edit
        Clusters that are known before the first batch.

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
    half_life: float | str | timedelta | np.timedelta64 | None = Exponential.half_life
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
    exemplars: Any = 0
    random_state: Any = None
    feature_names: tuple[str, ...] | None = field(default=None, kw_only=True)
    levels: Levels | None = field(default=None, kw_only=True)
    seeds: tuple[Edit, ...] = field(default=(), kw_only=True)

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

    @cached_property
    def values(self) -> tuple[Any, ...]:
        """The values of the parameters, in the order of `PARAMETERS`."""
        return tuple(getattr(self, name) for name in PARAMETERS)

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
        """Return a model without clusters, whose prior fits the rows of the first batch.

        It has the clusters of the seeds, and no others.
        """
        config = config or self.to_config()
        read_keep(self.exemplars)
        settings = self
        if self.seeds:
            settings = replace(self, seeds=())
            rows, weight = with_seeds(self.seeds, rows, weight)
        family, choice = choose_family(settings, config, rows, weight)
        model = Model(family, config, State.empty(family), settings=settings, choice=choice)
        for seed in self.seeds:
            model, _ = model.edit(seed)
        return model

    def update(
        self,
        rows: Rows,
        *,
        time: Any = None,
        weight: Any = None,
        ids: Any = None,
        texts: Any = None,
        complete: bool = False,
    ) -> Update:
        """Learn the first batch; see `Model.update`.

        With `complete` the rows are a whole table: the model is the most probable one of several
        starts, or learns the rows in two halves, and does not hold them.
        """
        try:
            check_rows(rows, check_entries, family=self.family_kind)
            weight = read_weight(weight, rows.shape[0])
            notes = _notes(self, ids, texts, rows.shape[0])
            with computing(self, choose_kernels()):
                if not complete or self.seeds:
                    return learn(self.start(rows, weight), rows, weight, time, notes)
                update = learn_table(self, rows, weight, time, notes)
                return update._replace(model=update.model.replace(held=None))
        except InputError as error:
            name_column(error, self.feature_names)
            raise


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
    exemplars : Exemplars or None
        Typical rows of the clusters, if they are kept.

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
    exemplars: Exemplars | None = None

    @property
    def time(self) -> float:
        """Time of the newest row; minus infinity before the first."""
        return self.state.time if self.held is None else self.held.newest

    @property
    def is_young(self) -> bool:
        """Whether more rows may still show another family or prior."""
        return self.held is not None and self.held.young

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
                state = self.state
                tree = build_hierarchy(self.family, state.ids, self.shapes, state.steering)
            vars(self)["_hierarchy"] = tree
        return tree

    @property
    def names(self) -> Mapping[int, str]:
        """Names that people gave to clusters, by id."""
        return self.state.steering.names

    @property
    def named_shares(self) -> dict[str, float]:
        """Share of the weight of all rows of the clusters with each name."""
        found: dict[str, float] = {}
        names = self.names
        if names:
            for id_, share in zip(self.state.ids.tolist(), self.state.share.tolist(), strict=True):
                if id_ in names:
                    found[names[id_]] = found.get(names[id_], 0.0) + share
        return found

    @property
    def keep(self) -> Keep:
        """How many exemplars the model keeps, and what of them."""
        return read_keep(self.settings.exemplars)

    def exemplars_at(
        self, *, level: str = "cluster", resolution: float = 1.0
    ) -> dict[int, list[Exemplar]]:
        """Return the exemplars of every cluster or group, the best first, by id."""
        known, n = self.exemplars, self.keep.n
        if known is None:
            return {}
        if level == "group":
            groups = self.groups(resolution)
            place = np.searchsorted(self.state.ids, known.cluster)
            known = known.relabelled(groups.id[groups.index[place]])
        elif level != "cluster":
            raise InputError(f"level must be 'cluster' or 'group', got {level!r}.")
        return best(known, n, kernel=self.config.kernel, time=self.state.time).by_cluster()

    def edit(self, edit: Edit) -> tuple[Model, tuple[Event, ...]]:
        """Change clusters as a person decided; return the model after it, and its events.

        Parameters
        ----------
        edit : Edit
            What to change.

        Returns
        -------
        tuple of Model and of events
            This model is unchanged. If the edit cannot be done, `InputError` is raised.
        """
        return edit_model(self, edit)

    def groups(self, resolution: float = 1.0) -> Groups:
        """Return the groups of clusters; a larger resolution gives more and finer groups."""
        return self.hierarchy.cut(read_resolution(resolution))

    def group_events(self, before: Groups) -> list[Event]:
        """Return what happened to groups since earlier ones of the same resolution."""
        return group_events(before, self.groups(before.resolution), self.events, self.state.time)

    def update(
        self,
        rows: Rows,
        *,
        time: Any = None,
        weight: Any = None,
        ids: Any = None,
        texts: Any = None,
    ) -> Update:
        """Learn one batch. If it raises, this model is still valid and unchanged.

        Parameters
        ----------
        rows : array or CSR array of shape (N, D)
            The rows, float64.
        time : number, datetime or numpy.datetime64, optional
            Time of the batch; by default a thousand rows are one unit, and so is a larger batch.
        weight : array of shape (N,), optional
            How much each row counts.
        ids, texts : sequences of length N, optional
            Ids and texts of the rows, which exemplars keep.

        Returns
        -------
        Update
            The new model, the id of the cluster of every row, and an `Info` record.
        """
        try:
            model = suited(self, rows)
            notes = _notes(self.settings, ids, texts, rows.shape[0])
            return learn(model, rows, read_weight(weight, rows.shape[0]), time, notes)
        except InputError as error:
            name_column(error, self.settings.feature_names)
            raise

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

    def replace(self, *, keep_cached: bool = False, **changes: Any) -> Model:
        """Return a copy with some fields changed; it is faster than `dataclasses.replace`.

        With `keep_cached` the clusters are the same, and so are the mixture and the groups.
        """
        known = self.__dataclass_fields__
        if not changes.keys() <= known.keys():
            raise TypeError(f"Model has no field {min(changes.keys() - known.keys())!r}")
        other = object.__new__(Model)
        vars(other).update(vars(self) if keep_cached else self.__getstate__())
        vars(other).update(changes)
        return other

    def named(self, feature_names: tuple[str, ...] | None) -> Model:
        """Return this model with other names of the columns."""
        return self.replace(settings=self.settings.named(feature_names))

    def events_since(self, time: float, *, next_batch: bool) -> tuple[Event, ...]:
        """Return the events after an earlier batch at this time, as far as they are kept.

        `next_batch` says that this model learned the next batch, which may have the same time.
        """
        if next_batch:
            return self.info.events
        return tuple(event for event in self.events if event.time > time)

    def with_parameters(self, **parameters: Any) -> Model:
        """Return this model with other values of parameters, for the batches that follow.

        Raises `InputError` for a value that cannot work, and for a parameter that only a first
        batch reads: family, prior, kernel, algorithm, config or random_state.
        """
        before = self.settings
        if all(getattr(before, name) is value for name, value in parameters.items()):
            return self
        after = replace(before, **parameters)
        read_keep(after.exemplars)
        config = changed_config(
            self.config, before.parameters(), after.parameters(), defaults=PARAMETERS
        )
        return self.replace(settings=after, config=config)

    def to_bytes(
        self, pipeline: PipelineState | None = None, *, exemplars: bool | None = None
    ) -> bytes:
        """Return the content of a model file; the same model gives the same bytes.

        It contains exemplars if `exemplars` is True or, by default, if the parameter of that name
        has ``"save": True``.
        """
        saved = self.keep.save if exemplars is None else exemplars
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
            exemplars=self.exemplars if saved else None,
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


def _notes(settings: Settings, ids: Any, texts: Any, n_rows: int) -> Notes | None:
    """Return what the caller says about rows, None for nothing."""
    if ids is None and texts is None:
        return None
    if not settings.exemplars:
        raise InputError(
            "ids and texts are kept with exemplars only; make the model with exemplars=5, or leave "
            "them out."
        )
    return read_notes(ids, texts, n_rows)


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
        parts.exemplars,
    )
    return model, parts.pipeline
