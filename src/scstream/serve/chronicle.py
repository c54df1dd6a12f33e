"""What happened to a model since somebody began to look: moments, events, lives of clusters."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from scstream.core.state import NOVEL, Event
from scstream.families.base import Labels
from scstream.serve.memory import N_SHARES, Lives, Moment, Moments
from scstream.serve.picture import clock_of, heaviest, weights_of
from scstream.stream.model_version import ModelVersion

N_EVENTS = 500
N_LIVES = 400


@dataclass
class Known:
    """How much of a chronicle a reader has been told.

    Examples
    --------
    >>> from scstream.serve.chronicle import Known
    >>> Known().moments
    0
    """

    epoch: int = -1
    moments: int = 0
    events: int = 0
    lives: int = -1


class Chronicle:
    """What happened, in bounded memory.

    Parameters
    ----------
    n_moments : int
        Most moments; older ones are joined, not dropped.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.model import Settings
    >>> from scstream.serve.chronicle import Chronicle, Known
    >>> from scstream.preprocess import Steps
    >>> from scstream.stream.model_version import ModelVersion
    >>> model, labels, _ = Settings(random_state=0).update(np.arange(20.0)[:, None] % 7)
    >>> chronicle = Chronicle(600)
    >>> _ = chronicle.note(ModelVersion(0, 1, 0.0, None, model, Steps()), labels)
    >>> chronicle.close_moment()
    >>> news = chronicle.news(Known())
    >>> [(moment["batch"], moment["rows"]) for moment in news["moments"]]
    [(0, 20.0)]
    >>> [(event["kind"], event["id"]) for event in news["events"]]
    [('born', 0), ('born', 1)]
    """

    def __init__(self, n_moments: int) -> None:
        self.n_moments = n_moments
        self.reading: ModelVersion | None = None
        self._epoch = 0
        self._moments, self._lives = Moments(n_moments), Lives(N_LIVES)
        self._events: deque[Event] = deque(maxlen=N_EVENTS)
        self._n_events = 0
        self.pending: Moment | None = None  # what was counted since the last moment

    def note(self, reading: ModelVersion, labels: Labels | None) -> Sequence[Event]:
        """Take in a state and the labels of its last batch; return what happened since the last.

        A state that is not newer than the last is no batch; an older one begins another chronicle.
        """
        before = self.reading
        if before is not None and reading.batch < before.batch:
            self._begin()
            before = None
        self.reading = reading
        if reading.model.state.is_new or (before and reading.batch == before.batch):
            return ()
        events = _events_since(before, reading)
        self._events.extend(events)
        self._n_events += len(events)
        self._lives.hear(events)
        moment = _moment(reading, labels)
        if before is not None:
            moment = replace(moment, batches=reading.batch - before.batch)
        self.pending = moment if self.pending is None else self.pending.joined(moment)
        return events

    def close_moment(self) -> None:
        """Add what was counted to the moments, with the shares of now."""
        if self.pending is None or self.reading is None:
            return
        state = self.reading.model.state
        _, share = weights_of(state)
        top = np.sort(heaviest(state.ids, share, N_SHARES))
        shares = dict(zip(state.ids[top].tolist(), share[top].tolist(), strict=True))
        outside = max(1.0 - float(share.sum()), 0.0)
        self._lives.weigh(shares, dict(zip(shares, state.born[top].tolist(), strict=True)))
        self._moments.add(replace(self.pending, outside=outside, shares=shares))
        self.pending = None

    def news(self, known: Known) -> dict[str, Any]:
        """Return as JSON what is not known yet, or all of it, and take note that it is known."""
        moments = self._moments.since(known.moments)
        afresh = known.epoch != self._epoch or moments is None
        if afresh:
            known.epoch, known.events, known.lives = self._epoch, 0, -1
            moments = list(self._moments)
        n_new = min(self._n_events - known.events, len(self._events))
        events = list(self._events)[len(self._events) - n_new :]
        lives = None if known.lives == self._lives.changes else list(self._lives)
        known.moments, known.events = self._moments.n_seen, self._n_events
        known.lives = self._lives.changes
        return {
            "afresh": afresh,
            "clock": "number" if self.reading is None else clock_of(self.reading),
            "moments": [moment.plain() for moment in moments or ()],
            "events": [asdict(event) for event in events],
            "lives": None if lives is None else [asdict(life) for life in lives],
            "forgotten": self._lives.n_forgotten,
        }

    def _begin(self) -> None:
        """Forget what happened; readers are told all of what follows."""
        self._epoch += 1
        self._moments, self._lives = Moments(self.n_moments), Lives(N_LIVES)
        self._events.clear()
        self._n_events = 0
        self.pending = None


def _events_since(before: ModelVersion | None, reading: ModelVersion) -> list[Event]:
    """What happened between two states, as far as it is remembered."""
    snapshot = reading.model
    if before is None:
        return list(snapshot.events)
    if reading.batch == before.batch + 1:
        return list(snapshot.info.events)
    return [event for event in snapshot.events if event.time > before.model.state.time]


def _moment(reading: ModelVersion, labels: Labels | None) -> Moment:
    """What the last batch of a state was like; without its labels from what the state knows."""
    state, info = reading.model.state, reading.model.info
    if labels is None:
        rows, novel = (
            float(state.current[:, :, 0].sum()) + state.unassigned_now,
            float(info.n_novel),
        )
    else:
        rows, novel = float(len(labels)), float(np.count_nonzero(labels == NOVEL))
    density, n_clusters = info.mean_log_density, state.n_clusters
    return Moment(
        batch=reading.batch - 1,
        time=state.time,
        rows=rows,
        novel=min(novel, rows),
        clusters=n_clusters,
        fewest=n_clusters,
        max_n=n_clusters,
        density=density,
        lowest=density,
        highest=density,
    )
