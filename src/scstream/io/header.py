"""Types of the JSON header of a model file."""

from collections.abc import Mapping
from typing import Any, TypeAlias, TypedDict

Json: TypeAlias = dict[str, Any]  # an object of JSON
Plain: TypeAlias = Mapping[str, Any]  # an object of JSON that is not changed


class SavedSteps(TypedDict):
    """The preprocessing steps: the options and the fitted parameters of each."""

    options: list[Json]
    learned: list[Json | None]


class PipelineState(TypedDict, total=False):
    """What a pipeline stores with its model; empty if no pipeline wrote the file."""

    progress: Json  # see `scstream.stream.progress.Progress`
    steps: SavedSteps
    key: str  # of the model of a key
    segments: Any  # of a checkpoint of keys: see `scstream.stream.segments.SegmentList`
    pool: Any  # of a checkpoint of keys: see `scstream.stream.entries.PoolIndex`
