"""Predictions as the body of a response: JSON, or Arrow if the client prefers it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from scstream.core.predictor import Prediction
from scstream.core.state import NOVEL
from scstream.errors import missing_extra
from scstream.families.base import Array, Labels
from scstream.serve.bodies import ARROW, JSON
from scstream.stream.model_version import ModelVersion

try:
    import orjson
except ImportError as error:
    raise missing_extra("orjson", "serve") from error


def prediction_body(
    reading: ModelVersion,
    prediction: Prediction,
    probabilities: Array | None = None,
    *,
    arrow: bool,
) -> tuple[bytes, str]:
    """Return the content and the type of the response to a prediction request."""
    columns: dict[str, Any] = {
        "cluster": prediction.label,
        "probability": prediction.probability,
        "novelty": prediction.novelty,
        "log_density": prediction.log_density,
    }
    ids = None if probabilities is None else np.append(reading.model.state.ids, NOVEL)
    if arrow:
        return _arrow(columns, ids, probabilities), ARROW.decode()
    columns |= {"version": reading.version, "batch": reading.batch}
    if ids is not None:
        columns |= {"ids": ids, "probabilities": probabilities}
    return to_json(columns), JSON.decode()


def to_json(value: Any) -> bytes:
    """Return JSON; numpy arrays become arrays, NaN and infinity become null."""
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)


def version_headers(reading: ModelVersion) -> dict[str, str]:
    """Return the headers that name the model version of an Arrow response."""
    return {"scstream-version": str(reading.version), "scstream-batch": str(reading.batch)}


def _arrow(columns: Mapping[str, Any], ids: Labels | None, probabilities: Array | None) -> bytes:
    from scstream.stream.arrow import stream_bytes

    if ids is None or probabilities is None:
        return stream_bytes(columns)
    names = ["new" if id == NOVEL else str(id) for id in ids.tolist()]
    each = {f"probability_{name}": probabilities[:, k] for k, name in enumerate(names)}
    return stream_bytes({**columns, **each})
