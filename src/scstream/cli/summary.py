"""Summaries of a model over time, for `scstream top`; `CheckpointMonitor` reads checkpoints."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from itertools import pairwise, takewhile

import numpy as np

from scstream.cli.settings import Tables
from scstream.core.state import Event
from scstream.errors import ScStreamError, StreamError
from scstream.io.header import PipelineState
from scstream.model import Model, read_checkpoint
from scstream.stream.checkpoint_log import CheckpointLog
from scstream.stream.follower import NONE, Follower
from scstream.stream.progress import Progress

MAX_SUMMARIES = 600
_PAST_SECONDS = 3600.0  # age up to which existing checkpoints are read
_COMPARED = 5  # summaries back, with which shares and rows are compared


@dataclass(frozen=True)
class ClusterSummary:
    """One cluster."""

    id: int
    share: float
    weight: float
    quiet: float  # time since its newest row, in the model's time
    name: str = ""


@dataclass(frozen=True)
class Summary:
    """A model at one moment."""

    at: float  # when the counts were taken, in seconds since 1970
    learned: float  # when the model was learned
    version: int  # of the checkpoint
    batch: int  # number of the next batch
    n_clusters: int
    clusters: tuple[ClusterSummary, ...] = ()  # the heaviest first
    events: tuple[Event, ...] = ()  # the newest last
    rows: int | None = None  # learned; None if unknown
    rejected: int | None = None
    predicted: int | None = None  # rows predicted by a service
    novelty: float = math.nan  # share of novel rows in the last batch
    log_density: float = math.nan  # mean over the last batch
    n_bytes: int | None = None  # size of the checkpoint
    job: str = ""

    @classmethod
    def of(
        cls, model: Model, pipeline: PipelineState, *, version: int, n_bytes: int | None = None
    ) -> Summary:
        """Summarize a checkpoint."""
        state, known = model.state, pipeline.get("progress")
        progress = Progress.from_dict(known) if known else Progress(state.n_batches)
        n_rows = float(state.current[:, :, 0].sum()) + state.unassigned_now  # of the last batch
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
                ClusterSummary(
                    id=int(state.ids[k]),
                    share=float(share[k]),
                    weight=float(weight[k]),
                    quiet=float(state.time - state.last_seen[k]),
                    name=model.names.get(int(state.ids[k]), ""),
                )
                for k in order
            ),
            events=model.events[-MAX_SUMMARIES:],
            rows=progress.rows or None,
            rejected=progress.rejected if progress.rows else None,
            novelty=state.unassigned_now / n_rows if n_rows > 0 else math.nan,
            log_density=model.info.mean_log_density,
            n_bytes=n_bytes,
            job=progress.job,
        )

    def to_dict(self) -> dict[str, object]:
        """Return it for JSON, with None for NaN."""
        values = asdict(self)
        for name in ("novelty", "log_density"):
            values[name] = values[name] if math.isfinite(values[name]) else None
        return values


@dataclass
class History:
    """The last summaries, the newest last."""

    summaries: deque[Summary] = field(default_factory=lambda: deque(maxlen=MAX_SUMMARIES))

    @property
    def newest(self) -> Summary:
        """The newest summary."""
        return self.summaries[-1]

    @property
    def before(self) -> Summary:
        """The summary that the newest is compared with."""
        return self.summaries[max(len(self.summaries) - 1 - _COMPARED, 0)]

    @property
    def rate(self) -> float:
        """Recent rows per second: learned, or predicted if nothing is learned."""
        return _rate(self.before, self.newest)

    @property
    def rates(self) -> list[float]:
        """Rows per second between consecutive summaries."""
        return [_rate(earlier, later) for earlier, later in pairwise(self.summaries)]

    @property
    def interval(self) -> float:
        """Median seconds between two checkpoints."""
        times = sorted({summary.learned for summary in self.summaries})
        gaps = sorted(later - earlier for earlier, later in pairwise(times))
        return gaps[len(gaps) // 2] if gaps else math.nan

    @property
    def changes(self) -> dict[int, float | None]:
        """Change of the share of each cluster; None for a new cluster."""
        shares = {cluster.id: cluster.share for cluster in self.before.clusters}
        return {
            cluster.id: cluster.share - shares[cluster.id] if cluster.id in shares else None
            for cluster in self.newest.clusters
        }

    def to_dict(self) -> dict[str, object]:
        """Return the newest summary for JSON, with its rate and changes."""
        rate = self.rate
        return {
            **self.newest.to_dict(),
            "rows_per_second": rate if math.isfinite(rate) else None,
            "changes": {str(cluster): change for cluster, change in self.changes.items()},
        }


def _rate(earlier: Summary, later: Summary) -> float:
    name = "predicted" if later.rows is None else "rows"
    before, after = getattr(earlier, name), getattr(later, name)
    if before is None or after is None or later.at <= earlier.at:
        return math.nan
    return float(max(after - before, 0)) / (later.at - earlier.at)


class CheckpointMonitor:
    """Reads the checkpoints of a pipeline."""

    def __init__(self, place: str, *, options: Tables | None = None) -> None:
        self.name = place
        self._follower = Follower.open(place, options=options)
        self._version = NONE

    def past(self) -> Iterable[Summary]:
        """Return the kept checkpoints of the last hour."""
        found: list[Summary] = []
        kept = CheckpointLog(self._follower.store).checkpoints()
        for name, content in takewhile(lambda _: len(found) < MAX_SUMMARIES, kept):
            summary = _summarize(name, content)
            if summary is not None and found and found[0].at - summary.at > _PAST_SECONDS:
                break
            if summary is not None:
                found.append(summary)
        if found:
            self._version = found[0].version
        return reversed(found)

    def poll(self) -> Summary | None:
        """Return the newest checkpoint if it is new."""
        try:
            self._follower.refresh()
        except (ScStreamError, OSError) as error:
            raise StreamError(f"{self.name} cannot be read now: {error}") from error
        if self._follower.version == self._version:
            return None
        current = self._follower.current()
        self._version = current.version
        return Summary.of(current.model, current.pipeline, version=current.version)


def _summarize(name: str, content: bytes) -> Summary | None:
    """Summarize a checkpoint; None if it is damaged or has no model."""
    try:
        model, pipeline = read_checkpoint(content, name=name)
    except ScStreamError:
        return None
    if model is None:
        return None
    version = int(name.rpartition("-")[2])
    return Summary.of(model, pipeline, version=version, n_bytes=len(content))
