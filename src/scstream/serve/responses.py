"""Predictions as the body of a response: JSON, or Arrow if the client prefers it."""

from __future__ import annotations

from typing import Any

import numpy as np

from scstream.core.predictor import Prediction
from scstream.core.state import NOVEL
from scstream.errors import missing_extra
from scstream.families.base import Array, Labels
from scstream.preprocess.block import Columns
from scstream.serve.bodies import ARROW, JSON
from scstream.stream.model_version import ModelVersion

try:
    import orjson
except ImportError as error:
    raise missing_extra("orjson", "serve") from error


def prediction_body(
    version: ModelVersion,
    prediction: Prediction,
    probabilities: Array | None = None,
    *,
    arrow: bool,
) -> tuple[bytes, str]:
    """Return the content and the type of the response to a prediction request."""
    columns = {
        "cluster": prediction.label,
        "probability": prediction.probability,
        "novelty": prediction.novelty,
        "log_density": prediction.log_density,
    }
    ids = None if probabilities is None else np.append(version.model.state.ids, NOVEL)
    if arrow:
        return _arrow(columns, ids, probabilities), ARROW.decode()
    more = {} if ids is None else {"ids": ids, "probabilities": probabilities}
    values = {**columns, "version": version.version, "batch": version.batch, **more}
    return to_json(values), JSON.decode()


def to_json(value: Any) -> bytes:
    """Return JSON; numpy arrays become arrays, NaN and infinity become null."""
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)


def version_headers(version: ModelVersion) -> dict[str, str]:
    """Return the headers that name the model version of an Arrow response."""
    return {"scstream-version": str(version.version), "scstream-batch": str(version.batch)}


def _arrow(columns: Columns, ids: Labels | None, probabilities: Array | None) -> bytes:
    from scstream.stream.arrow import stream_bytes

    if ids is None or probabilities is None:
        return stream_bytes(columns)
    names = ["new" if id == NOVEL else str(id) for id in ids.tolist()]
    each = {f"probability_{name}": probabilities[:, k] for k, name in enumerate(names)}
    return stream_bytes({**columns, **each})
