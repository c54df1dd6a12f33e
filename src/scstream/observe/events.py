"""Events of a run: what a pipeline, a follower and a service pass to their `emit` callback."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from math import nan
from typing import ClassVar

from scstream.core.state import Event


@dataclass(frozen=True)
class RunEvent:
    """Base class of all events; `event` is the name of the event in logs.

    Examples
    --------
    >>> from scstream.observe.events import GapAccepted
    >>> event = GapAccepted("the source lost 7 messages")
    >>> event.event, event.to_dict()
    ('gap', {'reason': 'the source lost 7 messages'})
    """

    event: ClassVar[str] = ""

    def to_dict(self) -> dict[str, object]:
        """Return the values by name, for a log."""
        return dict(vars(self))


EventCallback = Callable[[RunEvent], None]


def ignore_event(event: RunEvent) -> None:
    """Ignore an event."""


@dataclass(frozen=True)
class Started(RunEvent):
    """A pipeline starts with this batch; `epoch` numbers the instances of the job."""

    event = "started"
    epoch: int
    batch: int
    job: str


@dataclass(frozen=True)
class StandingBy(RunEvent):
    """An instance waits: `holder` has the lease, and renews it within every `seconds`."""

    event = "standby"
    holder: str
    number: int
    seconds: float


@dataclass(frozen=True)
class LeaseAcquired(RunEvent):
    """An instance has the lease, the `number`-th, after it waited for some seconds."""

    event = "lease"
    number: int
    holder: str
    waited: float


@dataclass(frozen=True)
class Stopped(RunEvent):
    """A pipeline has stopped before this batch; `drained` if it was told to stop."""

    event = "stopped"
    batch: int
    drained: bool


@dataclass(frozen=True)
class BatchSummary(RunEvent):
    """The result of a batch in plain numbers.

    Parameters
    ----------
    batch : int
        Number of the batch.
    rows, rejected, future, novel : int
        Number of all rows, of those that could not be used, of those among them whose time is too
        far in the future, and of those in no cluster.
    over_quota : mapping of str to int
        Number of rejected rows over a limit on keys, by option of the table `keys`.
    keys : int or None
        Number of keys that have a model after the batch, None with one model.
    clusters : int
        Number of clusters after the batch.
    log_density : float
        Mean log density of the rows before they were learned, NaN for a first batch.
    screening_error : float
        Share of the mixture that the candidates of rows missed, NaN without screening.
    events : mapping of str to int
        Number of events of clusters, by kind.

    Examples
    --------
    >>> from scstream.observe.events import BatchSummary
    >>> BatchSummary(7, rows=200, novel=60).novel
    60
    """

    batch: int
    rows: int = 0
    rejected: int = 0
    future: int = 0
    over_quota: Mapping[str, int] = field(default_factory=dict)
    keys: int | None = None
    clusters: int = 0
    novel: int = 0
    log_density: float = nan
    screening_error: float = nan
    events: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class BatchLearned(BatchSummary):
    """A batch was learned and delivered; `waiting` rows were read but are in no batch yet."""

    event = "batch"
    waiting: int | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)  # by phase
    time: float = nan  # at its end


@dataclass(frozen=True)
class CheckpointWritten(RunEvent):
    """A checkpoint was written; `batch` is the next batch, `time` the time of its state."""

    event = "checkpoint"
    batch: int
    version: int
    time: float
    bytes: int
    seconds: Mapping[str, float] = field(default_factory=dict)  # by phase


@dataclass(frozen=True)
class AlertRaised(RunEvent):
    """A rule has raised an alert; `kind` is the rule."""

    event = "alert"
    batch: int
    kind: str
    value: float
    detail: str


@dataclass(frozen=True)
class EditApplied(RunEvent):
    """An edit by a person was applied before a batch; `sent` is when it was sent."""

    event = "edit"
    number: int
    batch: int
    action: str
    author: str
    sent: float
    events: tuple[Event, ...] = ()  # of clusters

    def to_dict(self) -> dict[str, object]:
        """Return the values by name, for a log."""
        return super().to_dict() | {"events": [asdict(event) for event in self.events]}


@dataclass(frozen=True)
class EditSent(RunEvent):
    """A client has sent an edit to a service; `number` is that of the edit or of the model."""

    event = "edit_sent"
    number: int
    action: str
    author: str
    client: str


@dataclass(frozen=True)
class EditRefused(RunEvent):
    """An edit by a person could not be applied."""

    event = "edit_refused"
    number: int
    batch: int
    action: str = ""
    author: str = ""
    reason: str = ""


@dataclass(frozen=True)
class GapAccepted(RunEvent):
    """The source has lost messages, and the pipeline continues after them."""

    event = "gap"
    reason: str


@dataclass(frozen=True)
class CheckpointSkipped(RunEvent):
    """A checkpoint cannot be read, and an older one is used."""

    name: str
    reason: str


class CheckpointDamaged(CheckpointSkipped):
    """A damaged checkpoint was skipped."""

    event = "damaged"


class CheckpointNotReadable(CheckpointSkipped):
    """A checkpoint of a later version of scstream was skipped."""

    event = "too_new"


@dataclass(frozen=True)
class CheckpointLoaded(RunEvent):
    """A follower has loaded a newer checkpoint."""

    event = "following"
    version: int
    batch: int


@dataclass(frozen=True)
class StoreUnreachable(RunEvent):
    """The checkpoints cannot be read now; the next attempt is in `again` seconds."""

    event = "unreachable"
    reason: str
    again: float


@dataclass(frozen=True)
class WarningLogged(RunEvent):
    """A warning of a library or of the configuration."""

    event = "warning"
    detail: str


@dataclass(frozen=True)
class ServiceStarted(RunEvent):
    """A service listens at this URL."""

    event = "serving"
    url: str
    model: str


@dataclass(frozen=True)
class ServiceStopped(RunEvent):
    """A service has stopped."""

    event = "stopped"


@dataclass(frozen=True)
class UpdateLearned(RunEvent):
    """A service has learned a batch that a client sent."""

    event = "learned"
    batch: int
    version: int
    rows: int
    clusters: int
    seconds: float


@dataclass(frozen=True)
class RequestServed(RunEvent):
    """A service has sent a response."""

    event = "request"
    method: str
    path: str
    status: int
    seconds: float
    rows: int
    client: str | None


@dataclass(frozen=True)
class Defect(RunEvent):
    """A request failed with a bug."""

    event = "defect"
    trace: str


@dataclass(frozen=True)
class ModelSaved(RunEvent):
    """A service has saved its model."""

    event = "saved"
    path: str
    batch: int


@dataclass(frozen=True)
class ModelNotSaved(RunEvent):
    """A service could not save its model."""

    event = "not_saved"
    path: str
    reason: str
