"""An executor whose rows wait on the workers of a Ray cluster; only plans and sums travel."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self, TypeVar

import numpy as np

from scstream.compute.rows import RemoteRows
from scstream.compute.threads import ThreadExecutor
from scstream.core.assign import AssignmentParams, AssignmentStats, LoadedRows
from scstream.core.rng import sample_rows
from scstream.core.row_ranges import RowRange, add_row_ranges
from scstream.core.state import Batch
from scstream.distributed.engine import put
from scstream.distributed.family_kernel import with_kernels
from scstream.distributed.shards import ShardedLabels, ShardedRows, blocks_of
from scstream.distributed.worker import Part, Share, Told
from scstream.distributed.worker_pool import Crew, ask
from scstream.errors import InputError, PartsLost
from scstream.families.base import Array, Family, Labels, Rows
from scstream.machine import usable_cores

_LEAST_WORK = 5e9  # clusters times features cubed that are worth to be sent
_WIDE = 20  # features per thread of this process, from which on they are
_MOST_CLUSTERS = 1e5  # what one call could ever be about
_TRIES = 10  # times that a pass is begun because parts of what it found were lost

T = TypeVar("T")


class RayExecutor:
    """Share the rows of large batches among the nodes of a Ray cluster.

    Labels, states and events are those of one process, bit for bit, for any number of workers, and
    whoever fails on the way.

    Parameters
    ----------
    address : str or None
        Of the cluster; None for the one that RAY_ADDRESS names, or else a new one on this machine.
        A process that is connected already stays where it is.
    n_workers : int or None
        How many workers; None for one on every node, however many there are at each batch.
    n_threads : int or None
        Threads of a worker; None for one per processor of its node.
    least_rows : int
        Smaller batches are learned by threads of this process: to send them costs more.
    scatter_from : int
        From so many workers on, the workers add the sums up among themselves, each a part of them.
    least_work : float or None
        Clusters times features cubed from which on parameters, marginals and unions of clusters
        are shared out too; by default where features are so many that it pays.
    deadline : float
        Seconds that one pass over the rows may take.
    options : mapping
        Further options of the Ray actors, such as ``{"num_cpus": 8}`` to reserve processors.

    Examples
    --------
    >>> from scstream import ScStream
    >>> from scstream.distributed import RayExecutor
    >>> executor = RayExecutor("10.0.0.1:6379")
    >>> model = ScStream(executor=executor)
    >>> executor
    RayExecutor('10.0.0.1:6379')
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        n_workers: int | None = None,
        n_threads: int | None = None,
        least_rows: int = 1 << 15,
        scatter_from: int = 8,
        least_work: float | None = None,
        deadline: float = 600.0,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        for name, value in {"n_workers": n_workers, "n_jobs": n_threads}.items():
            if value is not None and (type(value) is not int or value < 1):
                raise InputError(f"{name} must be a whole number from 1, or None, got {value!r}.")
        if not deadline > 0:
            raise InputError(f"deadline must be a number of seconds, got {deadline!r}.")
        self._least_rows = least_rows
        self.scatter_from = scatter_from
        self.deadline = deadline
        self._least_work = least_work
        self._crew = Crew(address, n_workers, n_threads, dict(options or {}))
        self._here = ThreadExecutor(usable_cores())

    @property
    def n_threads(self) -> int:
        """Threads of this process, for small batches and for what is not shared out."""
        return self._here.n_threads

    def load(self, family: Family, batch: Batch) -> LoadedRows:
        """Take the rows of a batch in: here if they are few, else on the workers."""
        if batch.n_rows < self._least_rows and not isinstance(batch.rows, RemoteRows):
            return self._here.load(family, batch)
        return RayRows(self, self._crew, family, batch)

    def with_kernels(self, family: Family) -> Family:
        """Return the family with kernels that let the workers answer what is large."""
        least = self._least_work
        if least is None:
            # To send matrices takes D², to factor them D³, and this process has threads too.
            least = _LEAST_WORK if family.n_features >= _WIDE * self.n_threads else np.inf
        if least / family.n_features**3 > _MOST_CLUSTERS:
            return family
        return with_kernels(family, self, n_parts=len(self._crew.muster()), least=least)

    def rows(self, source: Any, *, columns: Sequence[str] | None = None) -> ShardedRows:
        """Make rows of what is in the object store already; they never come to this process.

        Parameters
        ----------
        source : ray.data.Dataset or sequence of references
            Its blocks, or references to arrays, Arrow tables or data frames.
        columns : sequence of str, optional
            The columns of tables to take; all by default.

        Returns
        -------
        ShardedRows
            To be given to `partial_fit`. Of a first batch the rows do come here, once, because the
            prior is chosen by them; give a family with a prior of its own to avoid that.
        """
        self._crew.muster()
        return ShardedRows(self, *blocks_of(source, columns, deadline=self.deadline))

    def everywhere(self, questions: Sequence[Callable[[Any], Any]]) -> list[Any]:
        """Put every question to some worker and return the answers in order."""
        workers = self._crew.muster()
        homes = [workers[place % len(workers)] for place in range(len(questions))]
        return ask(self._crew, homes, questions, deadline=self.deadline)

    def close(self) -> None:
        """Let the workers go; the next batch would hire new ones."""
        self._crew.close()

    def __repr__(self) -> str:
        return f"RayExecutor({self._crew.address!r})"

    def __deepcopy__(self, memo: Any) -> Self:
        return self  # models that are copied share the workers

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class RayRows:
    """The rows of a batch on workers, with the choices they made last."""

    def __init__(self, executor: RayExecutor, crew: Crew, family: Family, batch: Batch) -> None:
        self._executor = executor
        self._crew = crew
        self._family = family
        self._batch = batch
        self._name = uuid.uuid4().hex
        self._n_plans, self._told = 0, None
        workers, about = crew.muster(), put(family)
        self._shares = [
            Share(self._name, row_range, self._parts(row_range), self._weight(row_range), about)
            for row_range in RowRange.full(batch.n_rows).shared(len(workers))
        ]
        self._homes = workers[: len(self._shares)]

    def sample(self, max_n: int, key: int) -> tuple[LoadedRows, float]:
        """Return at most so many of the rows, at random, and how many each of them stands for."""
        if self._batch.n_rows <= max_n:
            return self, 1.0
        batch, share = self._batch.sample(self._family.kernels, max_n, key)
        return self._executor.load(self._family, batch), share

    def assign(self, plan: AssignmentParams) -> AssignmentStats:
        """Let every row choose; remember the choices."""
        self._n_plans += 1
        self._told = put(Told(self._n_plans, plan))
        many = len(self._shares) >= self._executor.scatter_from
        sums = self._at_last(self._scattered if many else self._gathered)
        return AssignmentStats.unpacked(sums, len(plan.clusters), len(plan.pairs))

    def novel(self, max_n: int, key: int) -> tuple[Rows, Array | None]:
        """Return rows that chose no cluster, a random `max_n` of them, with their weights."""
        places = self._at_last(
            lambda: self._ask(lambda worker, share: worker.novel_places.remote(share, self._told))
        )
        picked = sample_rows(self._family.kernels, key, np.concatenate(places), max_n)
        rows = self._at_last(lambda: self._batch.rows[picked])
        weight = self._batch.weight
        return rows, None if weight is None else weight[picked]

    def labels(self, names: Labels) -> tuple[Any, int]:
        """Return the ids of the rows by the names of the halves they chose; the end of a batch."""
        stay = isinstance(self._batch.rows, RemoteRows)  # the labels, with their rows
        n_returns = 2 if stay else 1
        answers = self._at_last(
            lambda: self._ask(
                lambda worker, share: worker.labels.options(num_returns=n_returns).remote(
                    share, self._told, names
                )
            )
        )
        self._crew.release(self._name)
        n_novel = sum(n for _, n in answers)
        if not stay:
            return np.concatenate([ids for ids, _ in answers]), n_novel
        lengths = [len(share.row_range.rows) for share in self._shares]
        pieces = [ids for (ids,), _ in answers]
        return ShardedLabels(pieces, lengths, deadline=self._executor.deadline), n_novel

    def _at_last(self, find: Callable[[], T]) -> T:
        """Find something, and try again where parts of it went with a node."""
        try:
            for _ in range(_TRIES - 1):
                with suppress(PartsLost):
                    return find()
            return find()
        except BaseException:
            self._crew.release(self._name)
            raise

    def _gathered(self) -> Array:
        """Sums of all workers, added here."""
        found = self._ask(lambda worker, share: worker.sums.remote(share, self._told))
        sums = add_row_ranges(self._stretches(), found)
        return np.require(sums, requirements="W")  # a copy, if it is still that of the store

    def _scattered(self) -> Array:
        """Sums of all workers, a part of them added by each."""
        n = len(self._shares)
        cut = self._ask(
            lambda worker, share: worker.scattered.options(num_returns=n + 1).remote(
                share, self._told, n
            )
        )

        def question(part: int) -> Callable[[Any], Any]:
            pieces = [references[part] for references, _ in cut]
            return lambda worker: worker.added.remote(self._stretches(), *pieces)

        return np.concatenate(self._executor.everywhere([question(part) for part in range(n)]))

    def _stretches(self) -> list[RowRange]:
        return [share.row_range for share in self._shares]

    def _ask(self, question: Callable[[Any, Share], Any]) -> list[Any]:
        """Ask about every share, whoever has it."""
        questions = [lambda worker, share=share: question(worker, share) for share in self._shares]
        return ask(self._crew, self._homes, questions, deadline=self._executor.deadline)

    def _parts(self, row_range: RowRange) -> tuple[Part, ...]:
        if isinstance(self._batch.rows, ShardedRows):
            return self._batch.rows.parts(row_range.rows)
        rows = self._batch.rows[row_range.rows.start : row_range.rows.stop]
        return (Part(put(rows), 0, rows.shape[0]),)

    def _weight(self, row_range: RowRange) -> Any:
        if self._batch.weight is None:
            return None
        return put(self._batch.weight[row_range.rows.start : row_range.rows.stop])
