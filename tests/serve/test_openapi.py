"""The service is held to its own description by schemathesis, with all of its checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import schemathesis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from schemathesis import Case

from scstream.stream.arrow import stream_bytes
from tests.serve import subjects

ARROW = "application/vnd.apache.arrow.stream"
ENTRY = st.floats(-100.0, 100.0)


def stream_of(rows: list[tuple[float, float]]) -> bytes:
    table = np.array(rows)
    return stream_bytes({"y": table[:, 1], "x": table[:, 0]})


schemathesis.openapi.media_type(
    ARROW, st.lists(st.tuples(ENTRY, ENTRY), min_size=1, max_size=40).map(stream_of)
)
TOKEN = {"Authorization": "Bearer hunter2"}
APP = subjects.app(learn=True, rows=40, hosts=("testserver",), token="hunter2")
SCHEMA = schemathesis.openapi.from_asgi("/openapi.json", APP, headers=TOKEN)
SCHEMA.config.generation.update(max_examples=15)


@SCHEMA.auth()
class Bearer:
    """What a client does that has the token."""

    def get(self, case: Case, context: Any) -> str:
        return TOKEN["Authorization"]

    def set(self, case: Case, data: str, context: Any) -> None:
        case.headers["Authorization"] = data


@SCHEMA.parametrize()
@settings(derandomize=True, database=None, suppress_health_check=list(HealthCheck))
def test_the_service_matches_its_description(case: Case) -> None:
    sound = case.meta is None or case.meta.generation.mode.is_positive
    if sound and isinstance(case.body, dict):
        case.body = of_one_length(case.body)
    torn = not sound and case.media_type == ARROW
    if torn:
        case.body = case.body[: len(case.body) // 2]  # schemathesis cannot break a stream itself
    answer = case.call_and_validate()
    assert answer.status_code in ((400, 401, 405) if torn else range(500))


def of_one_length(body: dict[str, Any]) -> dict[str, Any]:
    """Columns must be of one length, which JSON Schema has no words for."""
    columns = body.get("columns")
    if columns is None:
        return body
    shortest = min(map(len, columns.values()))
    return body | {"columns": {name: values[:shortest] for name, values in columns.items()}}
