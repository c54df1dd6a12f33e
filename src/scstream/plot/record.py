"""The recorder of a run: what the pictures over time are drawn from."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from scstream.core.state import Event
from scstream.errors import InputError
from scstream.families.base import Array, Labels
from scstream.model import Model
from scstream.plot.reading import model_of


@dataclass(frozen=True, eq=False)
class Moment:
    """What is kept of the model after one batch."""

    time: float
    number: int  # of the batch, from 1
    ids: Labels  # (K,)
    share: Array  # (K,) of the faded number of all rows
    fresh: Array  # (K,) of the rows of this batch
    novelty: float  # share of the rows of this batch that belong to no cluster
    mean_log_density: float  # of the rows of this batch


class History:
    """Remember how a model changes, batch by batch; memory is bounded.

    Call `see` after each batch. Of a batch a few numbers per cluster are kept, no rows.

    Parameters
    ----------
    max_batches : int
        How many batches are remembered, the newest ones.
    max_events : int
        How many events are remembered, the newest ones.

    Examples
    --------
    >>> from scstream import ScStream
    >>> from scstream.datasets import drifting_gaussians
    >>> from scstream.plot import History
    >>> history, model = History(), ScStream(random_state=0)
    >>> for batch in drifting_gaussians(n_clusters=3, n_batches=5, random_state=1):
    ...     history.see(model.partial_fit(batch.X))
    >>> len(history), history.n_clusters.tolist()
    (5, [3, 3, 3, 3, 3])
    """

    def __init__(self, max_batches: int = 1000, max_events: int = 10_000) -> None:
        for name, value in (("max_batches", max_batches), ("max_events", max_events)):
            if value < 1:
                raise InputError(f"{name} must be a whole number from 1, got {value!r}.")
        self._moments: deque[Moment] = deque(maxlen=max_batches)
        self._events: deque[Event] = deque(maxlen=max_events)

    def see(self, model: Any) -> None:
        """Remember the model as it is; a batch that was seen already changes nothing.

        Parameters
        ----------
        model : ScStream or Model
            A model that has learned at least one batch.
        """
        snapshot = model_of(model)
        last = self._moments[-1] if self._moments else None
        number = snapshot.state.n_batches
        if last is not None and number < last.number:
            raise InputError(
                f"the model has learned {number} batches but this history has seen {last.number}: "
                "a history belongs to one model; start a new History()."
            )
        if last is not None and number == last.number:
            return
        self._events.extend(_new_events(snapshot, last))
        self._moments.append(_moment(snapshot))

    def __len__(self) -> int:
        return len(self._moments)

    @property
    def time(self) -> Array:  # (B,)
        """Time of each batch."""
        return np.array([moment.time for moment in self._moments])

    @property
    def n_clusters(self) -> Labels:  # (B,)
        """Number of clusters after each batch."""
        return np.array([len(moment.ids) for moment in self._moments], dtype=np.int64)

    @property
    def novelty(self) -> Array:  # (B,)
        """Share of the rows of each batch that belong to no cluster; nan without rows."""
        return np.array([moment.novelty for moment in self._moments])

    @property
    def mean_log_density(self) -> Array:  # (B,)
        """Mean log density of the rows of each batch, after they were learned."""
        return np.array([moment.mean_log_density for moment in self._moments])

    @property
    def events(self) -> list[Event]:
        """What was born, split, merged, died or returned; the newest last."""
        return list(self._events)

    @property
    def ids(self) -> Labels:  # (I,)
        """Every id that was seen, in increasing order."""
        return np.unique(np.concatenate([np.zeros(0, np.int64), *(m.ids for m in self._moments)]))

    def share(self) -> Array:  # (B, I)
        """Share of the faded number of all rows; nan where a cluster was not there.

        Returns
        -------
        array of shape (B, I)
            A line per batch, a column per entry of `ids`.

        Examples
        --------
        >>> from scstream import ScStream
        >>> from scstream.plot import History
        >>> history = History()
        >>> history.see(ScStream(random_state=0).fit([[0.1], [0.2], [0.3], [0.4], [0.5]]))
        >>> history.share()
        array([[1.]])
        """
        return self._table("share")

    def fresh(self) -> Array:  # (B, I)
        """Share of the rows of the batch; nan where a cluster was not there.

        Returns
        -------
        array of shape (B, I)
            A line per batch, a column per entry of `ids`.

        Examples
        --------
        >>> from scstream import ScStream
        >>> from scstream.plot import History
        >>> history = History()
        >>> history.see(ScStream(random_state=0).fit([[0.1], [0.2], [0.3], [0.4], [0.5]]))
        >>> history.fresh()
        array([[1.]])
        """
        return self._table("fresh")

    def _table(self, name: str) -> Array:
        ids = self.ids
        table = np.full((len(self), len(ids)), np.nan)
        for line, moment in zip(table, self._moments, strict=True):
            line[np.searchsorted(ids, moment.ids)] = getattr(moment, name)
        return table


def seen(history: History) -> History:
    """Raise `InputError` for a history of nothing."""
    if not len(history):
        raise InputError("this history has seen nothing; call history.see(model) after a batch.")
    return history


def _moment(snapshot: Model) -> Moment:
    state = snapshot.state
    rows = state.current[:, :, 0].sum(axis=1)  # (K,)
    total = float(rows.sum()) + state.unassigned_now
    return Moment(
        time=state.time,
        number=state.n_batches,
        ids=state.ids.copy(),
        share=state.share,
        fresh=rows / total if total > 0 else np.zeros_like(rows),
        novelty=state.unassigned_now / total if total > 0 else float("nan"),
        mean_log_density=snapshot.info.mean_log_density,
    )


def _new_events(snapshot: Model, last: Moment | None) -> tuple[Event, ...]:
    """What happened since the batch that was seen last, as far as the model remembers it."""
    if last is None:
        return snapshot.events
    if snapshot.state.n_batches == last.number + 1:
        return snapshot.info.events
    return tuple(event for event in snapshot.events if event.time > last.time)
