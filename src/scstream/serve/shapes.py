"""What the answers look like, for the description of the service; nothing is validated with it."""

from __future__ import annotations

from typing import Literal

from scstream.errors import missing_extra

try:
    from pydantic import BaseModel, Field
except ImportError as error:
    raise missing_extra("pydantic", "serve") from error


class Refused(BaseModel):
    """A request that was not answered, and why."""

    error: str = Field(description="Name of the reason, for programs.")
    detail: str = Field(description="What is wrong and what to do, for people.")


class Origin(BaseModel):
    """Which state of the model answered."""

    version: int = Field(description="Version of the state; it never goes back by itself.")
    batch: int = Field(description="The batch that comes after it.")


class Answered(Origin):
    """What the model says about every row, in the order of the rows."""

    cluster: list[int] = Field(description="Id of the most probable cluster; -1 for none yet.")
    probability: list[float] = Field(description="Probability of that.")
    novelty: list[float] = Field(description="Probability of a cluster not seen yet.")
    log_density: list[float] = Field(
        description="Natural logarithm of the density under the whole mixture: low is unusual."
    )
    ids: list[int] = Field(
        default=[],
        description="Ids of the columns of `probabilities`; the last, -1, is a cluster not seen "
        "yet. Only where they were asked for.",
    )
    probabilities: list[list[float]] = Field(
        default=[],
        description="Probability of every cluster, for every row. Only where asked for.",
    )


class EventRow(BaseModel):
    """One change of the set of clusters."""

    kind: Literal["born", "split", "merged", "died", "returned"]
    time: float = Field(description="Time of the batch, as the model was told.")
    id: int = Field(description="The cluster.")
    weight: float = Field(description="Its weight then.")
    other: int | None = Field(description="Split: the new id. Merged: the id that was absorbed.")


class Learned(Origin):
    """What became of a batch that was learned."""

    cluster: list[int] = Field(description="Id of the cluster of every row; -1 for none yet.")
    clusters: int = Field(description="Number of clusters now.")
    events: list[EventRow] = Field(description="What the batch changed.")


class ClusterRow(BaseModel):
    """One cluster at the time of the last batch."""

    id: int = Field(description="Name of the cluster, given once and never reused.")
    weight: float = Field(description="Faded number of its rows.")
    share: float = Field(description="Share of the faded number of all rows.")
    age: float = Field(description="Time since birth.")
    born: float = Field(description="Time of birth.")
    last_seen: float = Field(description="Time of the newest row.")
    mean: list[float] = Field(description="Mean of every column, after the steps.")
    std: list[float] = Field(description="Standard deviation of every column.")


class ClusterPage(Origin):
    """Some of the clusters."""

    total: int = Field(description="Number of all clusters.")
    limit: int
    offset: int
    columns: list[str] = Field(description="Names of the entries of mean and std.")
    clusters: list[ClusterRow]


class OneCluster(Origin):
    """One cluster, and what happened to it as far as it is remembered."""

    columns: list[str] = Field(description="Names of the entries of mean and std.")
    cluster: ClusterRow
    events: list[EventRow]


class EventPage(Origin):
    """Some of the events, the newest first."""

    total: int = Field(description="Number of events that fit, before the limit.")
    events: list[EventRow]


class Alive(BaseModel):
    """The service runs."""

    status: Literal["ok"]


class Ready(Origin):
    """The service has a model and answers."""

    status: Literal["ready"]
    age: float | None = Field(
        description="Seconds since the state was learned; null for a model file without a time."
    )
