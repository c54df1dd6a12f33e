"""Records of a model after each batch, for plots over time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from scstream.core.state import Event
from scstream.errors import InputError
from scstream.families.base import Array, Labels
from scstream.model import Model
from scstream.plot.inputs import model_of


@dataclass(frozen=True, eq=False)
class BatchRecord:
    """Values of the model after one batch."""

    time: float
    number: int  # of the batch, from 1
    ids: Labels  # (K,)
    share: Array  # (K,) of the total weight
    batch_share: Array  # (K,) of the rows of this batch
    novelty: float  # share of the rows of this batch without a cluster
    mean_log_density: float  # of the rows of this batch


class History:
    """Record how a model changes, batch by batch, with bounded memory.

    Call `record` after each batch. It stores a few numbers per cluster, no rows.

    Parameters
    ----------
    max_batches : int
        Maximum number of batches; the oldest are dropped.
    max_events : int
        Maximum number of events; the oldest are dropped.

    Examples
    --------
    >>> from scstream import ScStream
    >>> from scstream.datasets import drifting_gaussians
    >>> from scstream.plot import History
    >>> history, model = History(), ScStream(random_state=0)
    >>> for batch in drifting_gaussians(n_clusters=3, n_batches=5, random_state=1):
    ...     history.record(model.partial_fit(batch.X))
    >>> len(history), history.n_clusters.tolist()
    (5, [3, 3, 3, 3, 3])
    """

    def __init__(self, max_batches: int = 1000, max_events: int = 10_000) -> None:
        for name, value in (("max_batches", max_batches), ("max_events", max_events)):
            if value < 1:
                raise InputError(f"{name} must be a whole number from 1, got {value!r}.")
        self._records: deque[BatchRecord] = deque(maxlen=max_batches)
        self._events: deque[Event] = deque(maxlen=max_events)

    def record(self, model: Any) -> None:
        """Record the current model; a batch that is recorded already changes nothing.

        Parameters
        ----------
        model : ScStream or Model
            A model that has learned at least one batch.
        """
        model = model_of(model)
        last = self._records[-1] if self._records else None
        number = model.state.n_batches
        if last is not None and number < last.number:
            raise InputError(
                f"the model has learned {number} batches but this history has {last.number}: "
                "use one History() for each model."
            )
        if last is not None and number == last.number:
            return
        self._events.extend(_new_events(model, last))
        self._records.append(_record(model))

    def __len__(self) -> int:
        return len(self._records)

    @property
    def time(self) -> Array:  # (B,)
        """Time of each batch."""
        return np.array([record.time for record in self._records])

    @property
    def n_clusters(self) -> Labels:  # (B,)
        """Number of clusters after each batch."""
        return np.array([len(record.ids) for record in self._records], dtype=np.int64)

    @property
    def novelty(self) -> Array:  # (B,)
        """Share of the rows of each batch that belong to no cluster; nan without rows."""
        return np.array([record.novelty for record in self._records])

    @property
    def mean_log_density(self) -> Array:  # (B,)
        """Mean log density of the rows of each batch, under the model that has learned them."""
        return np.array([record.mean_log_density for record in self._records])

    @property
    def events(self) -> list[Event]:
        """Births, splits, merges, deaths and returns; the newest last."""
        return list(self._events)

    @property
    def ids(self) -> Labels:  # (I,)
        """All cluster ids, in increasing order."""
        return np.unique(np.concatenate([np.zeros(0, np.int64), *(m.ids for m in self._records)]))

    def share(self) -> Array:  # (B, I)
        """Share of each cluster of the total weight; nan if the cluster does not exist.

        Returns
        -------
        array of shape (B, I)
            One row per batch, one column per entry of `ids`.

        Examples
        --------
        >>> from scstream import ScStream
        >>> from scstream.plot import History
        >>> history = History()
        >>> history.record(ScStream(random_state=0).fit([[0.1], [0.2], [0.3], [0.4], [0.5]]))
        >>> history.share()
        array([[1.]])
        """
        return self._table("share")

    def batch_share(self) -> Array:  # (B, I)
        """Share of each cluster of the rows of the batch; the shape is that of `share`."""
        return self._table("batch_share")

    def _table(self, name: str) -> Array:
        ids = self.ids
        table = np.full((len(self), len(ids)), np.nan)
        for line, record in zip(table, self._records, strict=True):
            line[np.searchsorted(ids, record.ids)] = getattr(record, name)
        return table


def require_batches(history: Any) -> History:
    """Return the history; raise `InputError` if it is empty, or is a model without a past."""
    if not isinstance(history, History):
        raise InputError(
            "this plot needs what happened in every batch, which a model does not keep; record it "
            "with history = plot.History() and model.fit_stream(batches, on_batch=history.record), "
            "and pass the history."
        )
    if not len(history):
        raise InputError("this history is empty; call history.record(model) after each batch.")
    return history


def _record(model: Model) -> BatchRecord:
    state = model.state
    rows = state.current[:, :, 0].sum(axis=1)  # (K,)
    total = float(rows.sum()) + state.unassigned_now
    return BatchRecord(
        time=state.time,
        number=state.n_batches,
        ids=state.ids.copy(),
        share=state.share,
        batch_share=rows / total if total > 0 else np.zeros_like(rows),
        novelty=state.unassigned_now / total if total > 0 else float("nan"),
        mean_log_density=model.info.mean_log_density,
    )


def _new_events(model: Model, last: BatchRecord | None) -> tuple[Event, ...]:
    """Return the events since the last recorded batch, as far as the model has them."""
    if last is None:
        return model.events
    return model.events_since(last.time, next_batch=model.state.n_batches == last.number + 1)
