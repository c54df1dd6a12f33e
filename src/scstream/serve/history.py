"""The history that the live page shows: summaries of batches, events, lineage of clusters."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TypedDict

import numpy as np

from scstream.core.state import NOVEL, Event, State
from scstream.families.base import Labels
from scstream.io.header import Json
from scstream.serve.memory import NO_SHARES, Lineage, Shares, Summaries, Summary
from scstream.serve.picture import clock_of
from scstream.stream.model_version import ModelVersion

N_EVENTS = 500
N_CLUSTERS = 400
_PRESENT = 0.2  # part of the newest batch in the present shares


@dataclass
class HistoryCursor:
    """How much of a history a reader has."""

    epoch: int = -1
    summaries: int = 0
    events: int = 0
    lineage: int = -1


class HistoryChanges(TypedDict):
    """What a reader of a history lacks, for JSON."""

    reset: bool  # forget what was sent before
    clock: str
    age: float | None  # seconds since the model was updated
    summaries: list[Json]
    events: list[Json]
    lineage: list[Json] | None  # None if it has not changed
    dropped: int  # clusters that are not in the lineage any more


class History:
    """Summaries, events and lineage, in bounded memory."""

    def __init__(self, n_summaries: int) -> None:
        self.n_summaries = n_summaries
        self.version: ModelVersion | None = None
        self.epoch = 0
        self.present = NO_SHARES  # of the rows of the newest batches
        self._summaries, self._lineage = Summaries(n_summaries), Lineage(N_CLUSTERS)
        self._events: deque[Event] = deque(maxlen=N_EVENTS)
        self._n_events = 0
        self.pending: Summary | None = None  # what was counted since the last summary

    def add(self, version: ModelVersion, labels: Labels | None) -> Sequence[Event]:
        """Add a version and the labels of its last batch; return the events since the last version.

        Of a version of the same batch only edits are new; an older one starts a new history.
        """
        before = self.version
        if before is not None and version.batch < before.batch:
            self._restart()
            before = None
        self.version = version
        if version.model.state.is_new:
            return ()
        is_new = before is None or version.batch > before.batch
        events = _events_since(before, version) if is_new else []
        events += self._edits_since(before, version)
        events.sort(key=lambda event: event.time)
        self._events.extend(events)
        self._n_events += len(events)
        self._lineage.add_events(events)
        if is_new:
            summary = _summary_of(version, labels)
            if before is not None:
                summary = replace(summary, batches=version.batch - before.batch)
            self.pending = summary if self.pending is None else self.pending.merged_with(summary)
        return events

    def _edits_since(self, before: ModelVersion | None, version: ModelVersion) -> list[Event]:
        """Return edits after the batch of an earlier version, in which they have their time."""
        if before is None or before.model.events == version.model.events:
            return []
        found: list[Event] = []
        for event in reversed(version.model.events):
            if event.time < before.model.state.time:
                break
            if event.author is not None and event not in self._events:
                found.insert(0, event)
        return found

    def close_summary(self) -> None:
        """Add what was counted as a summary, with the current shares."""
        if self.pending is None or self.version is None:
            return
        state = self.version.model.state
        shares = Shares.of(state.ids, state.share)
        outside = max(1.0 - float(state.share.sum()), 0.0)
        ids, born = shares.id.tolist(), state.born[np.searchsorted(state.ids, shares.id)]
        self._lineage.update_shares(
            dict(zip(ids, shares.share.tolist(), strict=True)),
            dict(zip(ids, born.tolist(), strict=True)),
        )
        self._summaries.add(replace(self.pending, outside=outside, shares=shares))
        self._update_present(state)
        self.pending = None

    def _update_present(self, state: State) -> None:
        """Take the shares of the rows of the newest batch into the mean over recent batches."""
        rows = state.current[:, :, 0].sum(axis=1)
        total = float(rows.sum()) + state.unassigned_now
        if total > 0:
            part = max(_PRESENT, 1.0 / self._summaries.n_seen)
            share = (1.0 - part) * self.present.at(state.ids) + part * rows / total
            self.present = Shares(state.ids, share)

    def changes(self, cursor: HistoryCursor, *, now: float) -> HistoryChanges:
        """Return what the reader lacks at a time, or everything, and move its cursor."""
        at = 0.0 if self.version is None else self.version.at
        summaries = self._summaries.since(cursor.summaries)
        reset = cursor.epoch != self.epoch or summaries is None
        if reset:
            cursor.epoch, cursor.events, cursor.lineage = self.epoch, 0, -1
            summaries = list(self._summaries)
        n_new = min(self._n_events - cursor.events, len(self._events))
        events = list(self._events)[len(self._events) - n_new :]
        lineage = None if cursor.lineage == self._lineage.changes else list(self._lineage)
        cursor.summaries, cursor.events = self._summaries.n_seen, self._n_events
        cursor.lineage = self._lineage.changes
        return {
            "reset": reset,
            "clock": "number" if self.version is None else clock_of(self.version),
            "age": None if at <= 0 else round(max(now - at, 0.0), 1),
            "summaries": [summary.to_dict() for summary in summaries or ()],
            "events": [asdict(event) for event in events],
            "lineage": None if lineage is None else [record.to_dict() for record in lineage],
            "dropped": self._lineage.n_dropped,
        }

    def _restart(self) -> None:
        """Start a new history; readers get all of it."""
        self.epoch += 1
        self._summaries, self._lineage = Summaries(self.n_summaries), Lineage(N_CLUSTERS)
        self._events.clear()
        self._n_events = 0
        self.pending, self.present = None, NO_SHARES


def _events_since(before: ModelVersion | None, version: ModelVersion) -> list[Event]:
    """Return the events of batches between two versions, as far as they are kept."""
    if before is None:
        return list(version.model.events)
    next_batch = version.batch == before.batch + 1
    found = version.model.events_since(before.model.state.time, next_batch=next_batch)
    return [event for event in found if event.author is None]


def _summary_of(version: ModelVersion, labels: Labels | None) -> Summary:
    """Summarise the last batch; without its labels, from the counts in the state."""
    state, info = version.model.state, version.model.info
    if labels is None:
        rows, novel = (
            float(state.current[:, :, 0].sum()) + state.unassigned_now,
            float(info.n_novel),
        )
    else:
        rows, novel = float(len(labels)), float(np.count_nonzero(labels == NOVEL))
    density, n_clusters = info.mean_log_density, state.n_clusters
    return Summary(
        batch=version.batch - 1,
        time=state.time,
        rows=rows,
        novel=min(novel, rows),
        clusters=n_clusters,
        min_clusters=n_clusters,
        max_clusters=n_clusters,
        density=density,
        lowest=density,
        highest=density,
    )
