"""Request and response models: the OpenAPI description of the service comes from them.

Bodies with rows are decoded by `scstream.serve.bodies`, which is much faster than pydantic.
`request_models` describes to clients exactly what that decoder accepts for the current model.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal

from scstream.core.state import Kind
from scstream.errors import missing_extra
from scstream.io.header import Json
from scstream.io.schema import LARGEST
from scstream.serve.bodies import RowFormat

try:
    from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model
except ImportError as error:
    raise missing_extra("pydantic", "serve") from error

_COLUMNS = "One array per column, by name; all have the same length."
_ROWS = "One array per row, with its entries in the order of the columns."


class LearnRequest(BaseModel):
    """A batch of rows to learn."""

    model_config = ConfigDict(extra="forbid")

    time: float | None = Field(
        default=None,
        ge=-LARGEST,
        le=LARGEST,
        description="Time of the rows, on the clock of the batches; by default one interval after "
        "the last batch.",
    )


class PredictRequest(LearnRequest):
    """Rows to predict."""

    probabilities: bool = Field(
        default=False, description="Return the probability of every cluster, too."
    )


class KeyedPredictRequest(PredictRequest):
    """Rows to predict with the model of a key."""

    key: str | int | None = Field(
        default=None, description="Which model; may be given as the parameter `key` instead."
    )


class ErrorBody(BaseModel):
    """Why a request failed."""

    error: str = Field(description="Name of the error, for programs.")
    detail: str = Field(description="What is wrong and what to do, for people.")


class Origin(BaseModel):
    """The version of the model that answered."""

    version: int = Field(description="Version of the model; it never decreases by itself.")
    batch: int = Field(description="Number of batches that the model has learned.")


class Prediction(Origin):
    """One entry per row, in the order of the rows."""

    cluster: list[int] = Field(description="Id of the most probable cluster; -1 for a new one.")
    probability: list[float] = Field(description="Probability of that cluster.")
    novelty: list[float] = Field(description="Probability of a cluster not seen yet.")
    log_density: list[float] = Field(
        description="Natural logarithm of the density of the mixture; low values are unusual rows."
    )
    ids: list[int] = Field(
        default=[],
        description="Ids of the columns of `probabilities`; the last, -1, is a cluster not seen "
        "yet. Only on request.",
    )
    probabilities: list[list[float]] = Field(
        default=[], description="Probability of every cluster, for every row. Only on request."
    )


class EventRow(BaseModel):
    """One change of the set of clusters."""

    kind: Kind
    time: float = Field(description="Time of the batch.")
    id: int = Field(description="The cluster.")
    weight: float = Field(description="Its weight at that time.")
    other: int | None = Field(description="Split: the new id. Merged: the id that was absorbed.")
    author: str | None = Field(default=None, description="Who did it; null for the algorithm.")
    name: str | None = Field(default=None, description="The name that was given.")


class UpdateSummary(Origin):
    """The result of learning a batch."""

    cluster: list[int] = Field(description="Id of the cluster of every row; -1 for none yet.")
    clusters: int = Field(description="Number of clusters after the batch.")
    events: list[EventRow] = Field(description="Changes that the batch caused.")


class ClusterRow(BaseModel):
    """One cluster at the time of the last batch."""

    id: int = Field(description="Id of the cluster; ids are never reused.")
    name: str | None = Field(default=None, description="The name that people gave it.")
    weight: float = Field(description="Number of its rows, after forgetting.")
    share: float = Field(description="Its share of the weight of all rows.")
    age: float = Field(description="Time since birth.")
    born: float = Field(description="Time of birth.")
    last_seen: float = Field(description="Time of the newest row.")
    mean: list[float] = Field(description="Mean of every column, after preprocessing.")
    std: list[float] = Field(description="Standard deviation of every column.")


class ClusterPage(Origin):
    """Some of the clusters."""

    total: int = Field(description="Number of all clusters.")
    limit: int
    offset: int
    columns: list[str] = Field(description="Names of the entries of mean and std.")
    clusters: list[ClusterRow]


class ExemplarRow(BaseModel):
    """A typical row of a cluster, if the model keeps exemplars."""

    row: list[float | None] | None = Field(description="The row after preprocessing, if kept.")
    id: str | int | None = Field(description="The id that came with it.")
    text: str | None = Field(description="The text that came with it.")
    score: float = Field(description="How typical it is; higher is better.")
    time: float = Field(description="Time of the row.")


class ClusterDetail(ClusterRow):
    """One cluster with typical rows."""

    exemplars: list[ExemplarRow] = Field(description="Typical rows, the best first.")


class OneCluster(Origin):
    """One cluster and its events, as far as they are kept."""

    columns: list[str] = Field(description="Names of the entries of mean and std.")
    cluster: ClusterDetail
    events: list[EventRow]


class EventPage(Origin):
    """Some of the events, the newest first."""

    total: int = Field(description="Number of matching events, before the limit.")
    events: list[EventRow]


class KeyRow(BaseModel):
    """One key."""

    key: str
    clusters: int = Field(description="Number of clusters of its model.")


class KeyPage(Origin):
    """Some of the keys."""

    total: int = Field(description="Number of all keys.")
    limit: int
    offset: int
    keys: list[KeyRow]


class Alive(BaseModel):
    """The service runs."""

    status: Literal["ok"]


class Ready(Origin):
    """The service has a model and answers."""

    status: Literal["ready"]
    age: float | None = Field(
        description="Seconds since the model was updated; null for a model file without a time."
    )


def request_schema(
    base: type[LearnRequest],
    row_format: RowFormat | None,
    ranges: Sequence[tuple[float, float]] | None,
    *,
    max_rows: int,
) -> Json:
    """Return the JSON schema of a body for the current model, with its definitions in "$defs"."""
    models = request_models(base, row_format, ranges, max_rows=max_rows)
    adapter: TypeAdapter[Any] = TypeAdapter(reduce(or_, models))
    schema = adapter.json_schema(ref_template="#/components/schemas/{model}")
    if "anyOf" in schema:
        schema["oneOf"] = schema.pop("anyOf")  # a body has either columns or rows
    return schema


def request_models(
    base: type[LearnRequest],
    row_format: RowFormat | None,
    ranges: Sequence[tuple[float, float]] | None,
    *,
    max_rows: int,
) -> list[type[LearnRequest]]:
    """Return `base` with the field "columns", and with the field "rows" unless rows are texts."""
    least = 0 if issubclass(base, PredictRequest) else 1
    length = Field(min_length=least, max_length=max_rows)
    columns: Any = dict[str, list[Any]]
    row: Any = list[float | None]
    if row_format is not None:
        entries: list[Any] = [str]
        if row_format.text is None:
            limits = ranges or [(-LARGEST, LARGEST)] * row_format.width
            entries = [_entry(low, high, missing=row_format.missing) for low, high in limits]
        names = row_format.names if row_format.text is None else (row_format.text,)
        fields: Json = {
            f"column_{j}": (Annotated[list[entry], length], Field(alias=name))  # type: ignore[valid-type]
            for j, (name, entry) in enumerate(zip(names, entries, strict=True))
        }
        config = ConfigDict(extra="forbid")
        columns = create_model(f"{base.__name__}Columns", __config__=config, **fields)
        row = tuple[tuple(entries)]  # type: ignore[misc]
    by_column = create_model(
        f"{base.__name__}ByColumn", __base__=base, columns=(columns, Field(description=_COLUMNS))
    )
    if row_format is not None and row_format.text is not None:
        return [by_column]
    rows: Any = (Annotated[list[row], length], Field(description=_ROWS))
    return [by_column, create_model(f"{base.__name__}ByRow", __base__=base, rows=rows)]


def _entry(low: float, high: float, *, missing: bool) -> Any:
    number = Annotated[float, Field(ge=low, le=high)]
    return number | None if missing else number


class EditBody(BaseModel):
    """What an edit needs besides its path."""

    name: str | None = Field(default=None, max_length=200, description="The name.")
    other: int | None = Field(default=None, ge=0, description="Merge: the one that is absorbed.")
    rows: list[list[float]] | None = Field(default=None, description="Move and seed: the rows.")
    level: Literal["cluster", "group"] = Field(
        default="cluster", description="Whether the id is of a cluster or of a group."
    )
    hold: bool = Field(
        default=True,
        description="Merge and split: the algorithm leaves the result as it is. Seed: pin it.",
    )
    author: str = Field(default="", max_length=200, description="Who makes the change.")
    key: str | None = Field(default=None, description="Which model, of a pipeline with keys.")
    batch: int | None = Field(default=None, ge=0, description="Not before this batch.")


class EditSummary(BaseModel):
    """The result of an edit: applied here, or waiting for the pipeline."""

    applied: bool = Field(description="False: the pipeline applies it between two batches.")
    number: int = Field(description="Number of the edit, or version of the model after it.")
    events: list[EventRow] = Field(description="What happened, if it is applied.")
