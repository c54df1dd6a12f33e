"""A model as a value: learn a batch, get the next model. No estimator, no tables, no files.

`scstream.ScStream` is this with the manners of scikit-learn; `scstream.stream` runs it for a year.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, cast

import numpy as np

from scstream.compute.rows import RemoteRows
from scstream.compute.threads import ThreadExecutor, one_blas_thread
from scstream.core.assign import Executor
from scstream.core.state import Batch, Config, Event, State
from scstream.core.step import step
from scstream.core.window import Exponential
from scstream.errors import InputError, TimeError
from scstream.families.base import Array, Family, Labels, Rows
from scstream.io.checkpoint import Snapshot
from scstream.io.choices import family_kind, first_family, read_config
from scstream.io.schema import check_entries, read_time, read_weight
from scstream.machine import usable_cores
from scstream.native import threads

PARAMETERS: Mapping[str, Any] = {  # of `scstream.ScStream`, with their defaults
    "family": "gaussian",
    "prior": "auto",
    "alpha": 1.0,
    "half_life": Exponential.half_life,
    "kernel": None,
    "n_sweeps": None,
    "algorithm": "default",
    "max_clusters": 1000,
    "late": "error",
    "switches": None,
    "n_threads": -1,
    "executor": None,
    "max_events": 1000,
    "random_state": None,
}


@dataclass(frozen=True)
class Learner:
    """A model between two batches; learning gives a new one and leaves this one as it is.

    Parameters
    ----------
    params : mapping
        Parameters of `scstream.ScStream` by name; those left out have their defaults.
    names : tuple of str or None
        Names of the columns.
    snapshot : Snapshot or None
        What was learned so far; None before the first batch.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.learner import Learner
    >>> learner = Learner({"random_state": 0})
    >>> learner, labels = learner.learn(np.array([[0.1], [0.2], [0.3], [0.4], [0.5], [0.6]]))
    >>> labels
    array([0, 0, 0, 0, 0, 0])
    >>> learner.snapshot.state.n_clusters
    1
    """

    params: Mapping[str, Any] = field(default_factory=dict)
    names: tuple[str, ...] | None = None
    snapshot: Snapshot | None = None

    def __post_init__(self) -> None:
        unknown = [name for name in self.params if name not in PARAMETERS]
        if unknown:
            raise InputError(
                f"a model has no parameter {unknown[0]!r}; it has {', '.join(PARAMETERS)}."
            )

    @classmethod
    def of(cls, snapshot: Snapshot) -> Learner:
        """Go on from what a model file holds."""
        read_only(snapshot.state)
        return cls(snapshot.params, snapshot.feature_names, snapshot)

    @property
    def kind(self) -> Family | type[Family]:
        """The family, or its class before the first batch."""
        return self.snapshot.family if self.snapshot else family_kind(self._choice("family"))

    def learn(
        self, rows: Rows, *, time: Any = None, weight: Any = None
    ) -> tuple[Learner, Labels]:  # (N,)
        """Learn one batch; a batch that cannot be learned raises, and this model is as it was.

        Parameters
        ----------
        rows : array or CSR array of shape (N, D)
            The rows, float64.
        time : number, datetime or numpy.datetime64, optional
            When the batch came; by default one later than the last.
        weight : array of shape (N,), optional
            How much each row counts.

        Returns
        -------
        Learner, array of shape (N,)
            The model after the batch, and the id of the cluster of every row.
        """
        check_rows(rows, partial(check_entries, family=self.kind))
        weight = read_weight(weight, rows.shape[0])
        executor = chosen_executor(self._choice("executor"), self._choice("n_threads"))
        with one_blas_thread, threads(executor.n_threads):
            before = self.snapshot or begin(self.params, rows, weight, names=self.names)
            check_rows(rows, before.family.check)
            batch = arriving(before.config, before.state, rows, weight, time)
            family = executor.with_kernels(before.family)
            state, labels, info = step(family, before.config, before.state, batch, executor)
        after = replace(
            before,
            state=read_only(state),
            info=info,
            events=newest(before.events, info.events, self._choice("max_events")),
        )
        return replace(self, snapshot=after), labels

    def _choice(self, name: str) -> Any:
        return self.params.get(name, PARAMETERS[name])


def begin(
    params: Mapping[str, Any], rows: Rows, weight: Array | None, *, names: Sequence[str] | None
) -> Snapshot:
    """Return a model that has learned nothing yet; its prior is that of the first batch.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.learner import begin
    >>> begin({"prior": "vague"}, np.array([[0.0], [1.0]]), None, names=None).state.n_clusters
    0
    """
    if weight is not None and not weight.sum() > 0:
        raise InputError("every row of the first batch has weight zero; give some a weight.")
    chosen = {**PARAMETERS, **params}
    if isinstance(rows, RemoteRows) and not isinstance(family_kind(chosen["family"]), Family):
        rows = rows.gathered()  # the prior is chosen by them
    config = config_of(chosen)
    family = first_family(chosen["family"], chosen["prior"], config, rows, weight, names=names)
    return Snapshot(
        family=family,
        config=config,
        state=State.empty(family),
        params=chosen,
        feature_names=None if names is None else tuple(names),
    )


def config_of(params: Mapping[str, Any]) -> Config:
    """Return the configuration that parameters stand for; raises `InputError` with a sentence.

    Examples
    --------
    >>> from scstream.learner import config_of
    >>> config_of({"alpha": 2.0}).alpha
    2.0
    """
    own = ("family", "prior", "n_threads", "executor", "max_events")
    chosen = {**PARAMETERS, **params}
    return read_config(**{name: value for name, value in chosen.items() if name not in own})


def arriving(
    config: Config, state: State, rows: Rows, weight: Array | None, time: Any = None
) -> Batch:
    """Return the rows as a batch: of its own time, or of now if it is late and may be added.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream import Config
    >>> from scstream.core.state import State
    >>> from scstream.families import Multinomial
    >>> from scstream.learner import arriving
    >>> state = State.empty(Multinomial(np.ones(3)))
    >>> arriving(Config(), state, np.ones((2, 3)), None).time
    0.0
    """
    now = state.time
    if time is None:
        return Batch(rows, 0.0 if state.is_new else now + 1.0, weight)
    time = read_time(time)
    if time >= now:
        return Batch(rows, time, weight)
    if config.late == "error":
        raise TimeError(
            f"the batch is from time {time:g} but the model has seen time {now:g}; pass batches "
            "in order of time, or use late='add'."
        )
    left = config.kernel.weight(np.array([now - time]))
    return Batch(rows, now, left * (np.ones(rows.shape[0]) if weight is None else weight))


def newest(old: Sequence[Event], new: Sequence[Event], max_n: Any) -> tuple[Event, ...]:
    """Return the last `max_n` events.

    Examples
    --------
    >>> from scstream.learner import newest
    >>> newest((), (), 5)
    ()
    """
    if not isinstance(max_n, int | np.integer) or max_n < 0:
        raise InputError(f"max_events must be a whole number from 0, got {max_n!r}.")
    events = (*old, *new)
    return events[max(len(events) - max_n, 0) :]


def executor_for(n_threads: Any) -> ThreadExecutor:
    """Return the executor of so many threads, -1 for one per core.

    Examples
    --------
    >>> from scstream.learner import executor_for
    >>> executor_for(2).n_threads
    2
    """
    if not isinstance(n_threads, int | np.integer) or (n_threads < 1 and n_threads != -1):
        raise InputError(f"n_threads must be a whole number from 1, or -1, got {n_threads!r}.")
    return _shared_executor(usable_cores() if n_threads == -1 else int(n_threads))


def chosen_executor(executor: Any, n_threads: Any) -> Executor:
    """Return who does the work: threads, the workers of a Ray cluster, or who is given.

    Examples
    --------
    >>> from scstream.learner import chosen_executor
    >>> chosen_executor(None, 2).n_threads
    2
    """
    if executor is None or executor == "threads":
        return executor_for(n_threads)
    if executor == "ray":
        return _shared_ray_executor()
    if callable(getattr(executor, "load", None)) and not isinstance(executor, type):
        return cast(Executor, executor)
    raise InputError(
        f"executor must be 'threads', 'ray' or an executor such as RayExecutor(), got {executor!r}."
    )


def check_rows(rows: Rows, check: Callable[[Rows], None]) -> None:
    """Check rows where they are: here, or on the nodes of a cluster.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.families import Multinomial
    >>> from scstream.learner import check_rows
    >>> check_rows(np.ones((2, 3)), Multinomial(np.ones(3)).check)
    """
    if isinstance(rows, RemoteRows):
        rows.each(check)
    else:
        check(rows)


@cache
def _shared_executor(n_threads: int) -> ThreadExecutor:
    """Thousands of models share one: to look for the BLAS libraries takes milliseconds."""
    return ThreadExecutor(n_threads)


@cache
def _shared_ray_executor() -> Executor:
    from scstream.distributed import RayExecutor

    return RayExecutor()


def read_only(state: State) -> State:
    """Return the state with every array closed to writing.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.core.state import State
    >>> from scstream.families import Multinomial
    >>> from scstream.learner import read_only
    >>> read_only(State.empty(Multinomial(np.ones(3)))).ids.flags.writeable
    False
    """
    for value in (*vars(state).values(), *vars(state.archive).values()):
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
    return state
