"""What a model says, as the body of an answer: JSON, or Arrow where the client prefers it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from scstream.core.predictor import Prediction
from scstream.core.state import NOVEL
from scstream.errors import missing_extra
from scstream.families.base import Array, Labels
from scstream.serve.bodies import ARROW, JSON
from scstream.serve.refusals import Headers
from scstream.stream.model_version import ModelVersion

try:
    import orjson
except ImportError as error:
    raise missing_extra("orjson", "serve") from error


def verdict_answer(
    reading: ModelVersion, verdict: Prediction, probabilities: Array | None = None, *, arrow: bool
) -> tuple[bytes, bytes]:
    """Return content and type of the answer to a question about rows.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.model import Settings
    >>> from scstream.serve.answers import verdict_answer
    >>> from scstream.preprocess import Steps
    >>> from scstream.stream.model_version import ModelVersion
    >>> model, _, _ = Settings(random_state=0).update(np.arange(20.0)[:, None] % 7)
    >>> reading = ModelVersion(7, 1, 0.0, None, model, Steps())
    >>> verdict = reading.compute("predict", [[900.0]]).values
    >>> verdict_answer(reading, verdict, arrow=False)[0]
    b'{"cluster":[-1],"probability":[1.0],"novelty":[1.0],"log_density":[-25.3...],"version":7,...}'
    """
    columns: dict[str, Any] = {
        "cluster": verdict.label,
        "probability": verdict.probability,
        "novelty": verdict.novelty,
        "log_density": verdict.log_density,
    }
    ids = None if probabilities is None else np.append(reading.model.state.ids, NOVEL)
    if arrow:
        return _arrow(columns, ids, probabilities), ARROW
    columns |= {"version": reading.version, "batch": reading.batch}
    if ids is not None:
        columns |= {"ids": ids, "probabilities": probabilities}
    return to_json(columns), JSON


def to_json(value: Any) -> bytes:
    """Return JSON; arrays of numpy are arrays, and numbers that JSON does not know are null.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.serve.answers import to_json
    >>> to_json({"x": np.array([1.5, np.inf])})
    b'{"x":[1.5,null]}'
    """
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)


def origin(reading: ModelVersion) -> Headers:
    """Return the headers that tell which state answered.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.model import Settings
    >>> from scstream.serve.answers import origin
    >>> from scstream.preprocess import Steps
    >>> from scstream.stream.model_version import ModelVersion
    >>> model, _, _ = Settings(random_state=0).update(np.arange(20.0)[:, None] % 7)
    >>> origin(ModelVersion(7, 300, 0.0, None, model, Steps()))
    [(b'scstream-version', b'7'), (b'scstream-batch', b'300')]
    """
    return [
        (b"scstream-version", b"%d" % reading.version),
        (b"scstream-batch", b"%d" % reading.batch),
    ]


def _arrow(columns: Mapping[str, Any], ids: Labels | None, probabilities: Array | None) -> bytes:
    from scstream.stream.arrow import stream_bytes

    if ids is None or probabilities is None:
        return stream_bytes(columns)
    names = ["new" if id == NOVEL else str(id) for id in ids.tolist()]
    each = {f"probability_{name}": probabilities[:, k] for k, name in enumerate(names)}
    return stream_bytes({**columns, **each})
