"""Kept columns with a type: rows either fit exactly or are rejected with a sentence."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scstream.errors import InputError
from scstream.preprocess.block import Block
from scstream.stream.config import build
from scstream.stream.kept_types import KeptType, KeptTypes
from scstream.stream.schema import Schema

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(max_size=5),
)


def block_of(values: list) -> Block:
    column = np.full(len(values), None, dtype=object)
    column[:] = values
    return Block.of(np.zeros((len(values), 1)), id=column)


@settings(max_examples=200)
@given(values=st.lists(VALUES, min_size=1), kind=st.sampled_from(["int", "float", "bool", "int16"]))
def test_a_value_that_is_kept_is_the_value_that_came(values, kind):
    fitted = KeptTypes({"id": kind}).fit(block_of(values))
    assert len(fitted.row) + len(fitted.rejects) == len(values)
    for row, kept in zip(fitted.row.tolist(), fitted.extra["id"].tolist(), strict=True):
        assert kept == values[row]
        assert kept is None or type(kept).__name__ == kind.removesuffix("16")
    assert all("column 'id' holds" in reject.reason for reject in fitted.rejects)


@settings(max_examples=200)
@given(first=st.lists(VALUES, min_size=1), later=st.lists(VALUES, min_size=1))
def test_the_first_values_fix_the_type(first, later):
    kept = KeptTypes({"id": "auto"})
    whole = kept.fit(block_of(first))
    fixed = kept.types["id"]
    assert (fixed == "auto") == all(value is None for value in first)
    if fixed in ("int", "bool", "text"):
        assert not whole.rejects
    kept.fit(block_of(later))
    assert fixed in ("auto", kept.types["id"])


@pytest.mark.parametrize(
    ("column", "table", "fits"),
    [
        ("int", "int16", True),
        ("int32", "int", False),
        ("float", "float32", True),
        ("float", "int", False),
        ("text", "int", True),
        ("text(5)", "text(5)", True),
        ("text(5)", "text", False),
        ("int not null", "int", False),
        ("int", "int not null", True),
    ],
)
def test_which_columns_store_which_types(column, table, fits):
    assert KeptType.parse(column).stores(KeptType.parse(table)) == fits


@pytest.mark.parametrize("keep", [["id:integer"], {"id": "char"}, ["id:int(3)"], {"id": 3}])
def test_an_unknown_type_is_refused_with_the_known_ones(keep):
    with pytest.raises(InputError, match=r"there is no type .* there are: int,"):
        Schema(keep=keep)


def test_names_with_a_colon_are_written_in_a_table():
    schema = Schema(keep={"a:int": "text", "b": "int"})
    assert schema.keep == ("a:int", "b")
    assert schema.with_features(["x"]).keep_types == {"a:int": "text", "b": "int"}


def test_a_type_holds_for_every_sink_and_after_a_restart(tmp_path):
    rows = [{"x": i, "id": i} for i in range(10)]
    rows[7]["id"] = "seven"
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    made = {
        "source": {"kind": "file", "path": str(tmp_path / "rows.jsonl")},
        "schema": {"keep": ["id:int"]},
        "batch": {"rows": 5},
        "sink": {"kind": "file", "path": str(tmp_path / "labels.jsonl")},
        "dead_letters": {"kind": "file", "path": str(tmp_path / "dead.jsonl")},
        "checkpoint": {"folder": str(tmp_path / "state")},
    }
    build(made).run(until=1)
    build(made).run()
    kept = [json.loads(line)["id"] for line in (tmp_path / "labels.jsonl").open()]
    assert kept == [0, 1, 2, 3, 4, 5, 6, 8, 9]
    letter = json.loads((tmp_path / "dead.jsonl").read_text())
    assert letter["reason"] == "column 'id' holds 'seven', which is not of type int."
    assert json.loads(letter["content"]) == rows[7]
