"""What `scstream top` sees: a model at some moments, from its checkpoints or from a service."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from scstream.cli.veil import Veil
from scstream.core.state import Event
from scstream.errors import ScStreamError, StreamError
from scstream.model import Model, read_checkpoint
from scstream.stream.checkpoint_log import CheckpointLog
from scstream.stream.follower import NONE, Follower
from scstream.stream.progress import Progress

MOST = 600  # moments that are remembered
_PAST = 3600.0  # seconds of the checkpoints that are there already which are looked at
_BEHIND = 5  # moments back, with which shares and rows are compared


@dataclass(frozen=True)
class Heavy:
    """A cluster as it is listed."""

    id: int
    share: float
    weight: float
    quiet: float  # time since its newest row, as the model counts it


@dataclass(frozen=True)
class Moment:
    """A model at one moment.

    Parameters
    ----------
    at : float
        When these counts were true, in seconds since 1970.
    learned : float
        When the model was learned.
    version, batch : int
        Which checkpoint it is, and the batch that comes next.
    n_clusters : int
        Number of clusters.
    clusters : tuple of Heavy
        The clusters, the heaviest first.
    events : tuple of Event
        What happened to clusters of late, the newest last.
    rows, rejected, asked : int or None
        Rows that were learned, refused and asked about; None if nobody counted them.
    novelty : float
        Share of rows of the last batch that belong to no cluster.
    log_density : float
        Mean over the rows of the last batch.
    n_bytes : int or None
        Size of the checkpoint.
    job : str
        Name of the pipeline.

    Examples
    --------
    >>> from scstream.cli.moments import Moment
    >>> Moment(at=0.0, learned=0.0, version=7, batch=300, n_clusters=5).plain()["novelty"] is None
    True
    """

    at: float
    learned: float
    version: int
    batch: int
    n_clusters: int
    clusters: tuple[Heavy, ...] = ()
    events: tuple[Event, ...] = ()
    rows: int | None = None
    rejected: int | None = None
    asked: int | None = None
    novelty: float = math.nan
    log_density: float = math.nan
    n_bytes: int | None = None
    job: str = ""

    @classmethod
    def of(
        cls,
        snapshot: Model,
        pipeline: Mapping[str, Any],
        *,
        version: int,
        n_bytes: int | None = None,
    ) -> Moment:
        """Look at what a checkpoint holds."""
        state, known = snapshot.state, pipeline.get("progress")
        progress = Progress.from_dict(known) if known else Progress(state.n_batches)
        now = float(state.current[:, :, 0].sum()) + state.unassigned_now  # rows of the last batch
        at = progress.time
        share, weight = state.share, state.weight
        order = np.argsort(-weight, kind="stable").tolist()
        return cls(
            at=at,
            learned=at,
            version=version,
            batch=progress.batch,
            n_clusters=state.n_clusters,
            clusters=tuple(
                Heavy(
                    id=int(state.ids[k]),
                    share=float(share[k]),
                    weight=float(weight[k]),
                    quiet=float(state.time - state.last_seen[k]),
                )
                for k in order
            ),
            events=snapshot.events[-MOST:],
            rows=progress.rows or None,
            rejected=progress.rejected if progress.rows else None,
            novelty=state.unassigned_now / now if now > 0 else math.nan,
            log_density=snapshot.info.mean_log_density,
            n_bytes=n_bytes,
            job=progress.job,
        )

    def plain(self) -> dict[str, Any]:
        """Return it for JSON, which knows no NaN."""
        values = asdict(self)
        for name in ("novelty", "log_density"):
            values[name] = values[name] if math.isfinite(values[name]) else None
        return values


@dataclass
class History:
    """The moments so far, the newest last.

    Examples
    --------
    >>> from scstream.cli.moments import History, Moment
    >>> history = History()
    >>> history.add(Moment(at=0.0, learned=0.0, version=1, batch=10, n_clusters=2, rows=1000))
    >>> history.add(Moment(at=2.0, learned=2.0, version=2, batch=30, n_clusters=3, rows=3000))
    >>> history.rate, history.changes
    (1000.0, {})
    """

    moments: deque[Moment] = field(default_factory=lambda: deque(maxlen=MOST))

    def add(self, moment: Moment) -> None:
        """Remember a moment."""
        self.moments.append(moment)

    @property
    def newest(self) -> Moment:
        """The newest moment."""
        return self.moments[-1]

    @property
    def before(self) -> Moment:
        """The moment that shares are compared with."""
        return self.moments[max(len(self.moments) - 1 - _BEHIND, 0)]

    @property
    def rate(self) -> float:
        """Rows per second of late: learned, or asked about where nothing is learned."""
        return _rate(self.before, self.newest)

    @property
    def rates(self) -> list[float]:
        """Rows per second between moments."""
        return [_rate(earlier, later) for earlier, later in pairwise(self.moments)]

    @property
    def interval(self) -> float:
        """Seconds between two checkpoints, usually."""
        times = sorted({moment.learned for moment in self.moments})
        gaps = sorted(later - earlier for earlier, later in pairwise(times))
        return gaps[len(gaps) // 2] if gaps else math.nan

    def plain(self) -> dict[str, Any]:
        """Return the newest moment for JSON, with what the ones before it tell."""
        rate = self.rate
        return {
            **self.newest.plain(),
            "rows_per_second": rate if math.isfinite(rate) else None,
            "changes": {str(cluster): change for cluster, change in self.changes.items()},
        }

    @property
    def changes(self) -> dict[int, float | None]:
        """How much the share of each cluster has changed; None if it was not there."""
        was = {heavy.id: heavy.share for heavy in self.before.clusters}
        return {
            heavy.id: heavy.share - was[heavy.id] if heavy.id in was else None
            for heavy in self.newest.clusters
        }


def _rate(earlier: Moment, later: Moment) -> float:
    name = "asked" if later.rows is None else "rows"
    before, after = getattr(earlier, name), getattr(later, name)
    if before is None or after is None or later.at <= earlier.at:
        return math.nan
    return float(max(after - before, 0)) / (later.at - earlier.at)


class Watched(Protocol):
    """Something to look at."""

    name: str

    def past(self) -> Iterable[Moment]:
        """Return the moments that are known already, the newest last."""
        ...

    def look(self) -> Moment | None:
        """Return a new moment if there is one; raises `StreamError` where nothing answers."""
        ...


class Kept:
    """The checkpoints of a pipeline, which are only read.

    Parameters
    ----------
    place : str
        A folder, or an address such as "s3://bucket/prefix".
    options : mapping, optional
        As `checkpoint.options` of the pipeline.

    Examples
    --------
    >>> from scstream.cli.moments import Kept
    >>> Kept("no-such-folder")
    Traceback (most recent call last):
    ...
    scstream.errors.InputError: there is no folder 'no-such-folder' with checkpoints here; ...
    """

    def __init__(self, place: str, *, options: Mapping[str, Any] | None = None) -> None:
        self.name = place
        self._follower = Follower.open(place, options=options)
        self._seen = NONE

    def past(self) -> Iterable[Moment]:
        """Return the checkpoints of the last hour that are still kept."""
        found: list[Moment] = []
        kept = CheckpointLog(self._follower.store).checkpoints()
        for name, content in takewhile(lambda _: len(found) < MOST, kept):
            moment = _moment_of(name, content)
            if moment is not None and found and found[0].at - moment.at > _PAST:
                break
            if moment is not None:
                found.append(moment)
        if found:
            self._seen = found[0].version
        return reversed(found)

    def look(self) -> Moment | None:
        """Return the newest checkpoint if it was not seen yet."""
        try:
            self._follower.refresh()
        except (ScStreamError, OSError) as error:
            raise StreamError(f"{self.name} cannot be read now: {error}") from error
        if self._follower.version == self._seen:
            return None
        reading = self._follower.current()
        self._seen = reading.version
        return Moment.of(reading.model, reading.pipeline, version=reading.version)


def _moment_of(name: str, content: bytes) -> Moment | None:
    """What a checkpoint holds; nothing if it is damaged or holds no model."""
    try:
        snapshot, pipeline = read_checkpoint(content, name=name)
    except ScStreamError:
        return None
    if snapshot is None:
        return None
    version = int(name.rpartition("-")[2])
    return Moment.of(snapshot, pipeline, version=version, n_bytes=len(content))


def watched(
    place: str, *, options: Mapping[str, Any] | None, token_file: Path | None, veil: Veil
) -> Watched:
    """Return what a place stands for: checkpoints, or a service.

    Parameters
    ----------
    place : str
        A folder, an address of an object store, or the URL of a service.
    options : mapping or None
        As `checkpoint.options` of a pipeline.
    token_file : path or None
        Holds the token of a service.
    veil : Veil
        Learns the token.

    Returns
    -------
    Watched
        What to look at.
    """
    if place.startswith(("http://", "https://")):
        from scstream.cli.service import Service
        from scstream.cli.token import read_token

        return Service(place, token=read_token(token_file, veil))
    return Kept(place, options=options)
