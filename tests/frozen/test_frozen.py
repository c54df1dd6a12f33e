"""Behaviour is frozen: every stream gives what the table of digests says.

Labels and events must be equal everywhere, all bits of states and answers on a machine like that of
the table, and their norms to six digits on any other. A planted change is found: with `_GAIN` of
`kernels/reference.py` at 0.31, or `min_subcluster_weight` of `core/default.py` at 40, rows fail.

A change that is meant makes the table anew (``python -m tests.frozen.make``); a renamed attribute
is edited in `tests/frozen/digests.py` and changes no row.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.frozen.digests import KERNELS, machine, on_kernels, row_of
from tests.frozen.make import TABLE
from tests.frozen.streams import ALIKE, STREAMS

FROZEN = json.loads(TABLE.read_text())
BITS = ("bits", "answers")


def check(name: str, kernels: str, **choices: Any) -> None:
    """Run a stream and compare it with its row."""
    if kernels == "native" and machine()["native"] is None:
        pytest.skip("no compiled kernels here")
    if name == "river":
        pytest.importorskip("river")
    with on_kernels(kernels):
        row = row_of(STREAMS[name](**choices))
    frozen = FROZEN["streams"][name][kernels]
    for what in ("labels", "events"):
        assert row[what] == frozen[what], f"{what} of {name} on {kernels} kernels changed"
    if machine() == FROZEN["machine"]:
        assert row["summary"] == frozen["summary"]
        for what in BITS:
            assert row[what] == frozen[what], f"{what} of {name} on {kernels} kernels changed"
    else:
        assert_near(row["summary"], frozen["summary"])


def assert_near(value: Any, frozen: Any) -> None:
    if isinstance(frozen, dict):
        assert value.keys() == frozen.keys()
        for name in frozen:
            assert_near(value[name], frozen[name])
    else:
        assert value == pytest.approx(frozen, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("name", STREAMS)
def test_stream_equals_its_digest(name: str, kernels: str) -> None:
    check(name, kernels)


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("pair", ALIKE)
def test_choices_that_must_not_matter_give_equal_digests(
    pair: tuple[str, str], kernels: str
) -> None:
    one, other = (FROZEN["streams"][name][kernels] for name in pair)
    assert one == other


def test_table_has_every_stream_and_every_event_kind() -> None:
    assert FROZEN["streams"].keys() == STREAMS.keys()
    for kernels in KERNELS:
        kinds = FROZEN["streams"]["lives"][kernels]["summary"]["kinds"]
        assert kinds.keys() >= {"born", "split", "merged", "died"}
