"""A column of arrays gives one feature for each entry, in every format and file."""

import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from scstream.errors import InputError
from scstream.stream.arrow import ArrowReader
from scstream.stream.config import build
from scstream.stream.messages import reader
from scstream.stream.schema import Schema
from tests.stream.memory import MemorySource
from tests.stream.test_decoders import results

NAMES = ("v[0]", "v[1]", "v[2]", "x")
ROWS = [{"v": [1.0, 2.0, 3.0], "x": 4.0}, {"v": [5.0, 6.0, 7.0], "x": 8.0}]
TYPES = [pa.list_(pa.float64()), pa.large_list(pa.float32()), pa.list_(pa.int16(), 3)]


def lines(rows):
    return "\n".join(map(json.dumps, rows)).encode()


def columns(rows):
    return json.dumps({name: [row.get(name) for row in rows] for name in ("v", "x")}).encode()


def arrow(rows, kind=TYPES[0]):
    vectors = pa.array([row.get("v") for row in rows], kind)
    table = pa.table({"v": vectors, "x": pa.array([row["x"] for row in rows])})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table, max_chunksize=1)
    return sink.getvalue().to_pybytes()


FORMATS = {"json": lines, "columns": columns, "arrow": arrow}


@pytest.mark.parametrize("format", FORMATS)
def test_entries_become_features_beside_numbers(format):
    messages = reader(format, Schema(features=("v[]", "x")))
    block = messages.read(FORMATS[format](ROWS))
    assert messages.schema.features == NAMES and messages.schema.is_complete
    assert block.X.tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]


@pytest.mark.parametrize("kind", TYPES)
def test_every_list_type_of_arrow(kind):
    block = ArrowReader(Schema(features=("x", "v[]"))).read(arrow(ROWS, kind))
    assert block.X.tolist() == [[4, 1, 2, 3], [8, 5, 6, 7]]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        ([1.0], "column 'v' has 1 entries where 3 are expected."),
        ([1.0, 2.0, 3.0, 4.0], "column 'v' has 4 entries where 3 are expected."),
        ([1.0, None, 3.0], "v[1]"),
    ],
)
def test_rows_with_other_vectors_are_rejected_alone(format, vector, reason):
    rows = [ROWS[0], {"v": vector, "x": 1.0}, ROWS[1]]
    block = reader(format, Schema(features=("v[]", "x"))).read(FORMATS[format](rows))
    assert block.X.tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]
    assert [reject.row for reject in block.rejects] == [1]
    assert reason in block.rejects[0].reason


@pytest.mark.parametrize("format", FORMATS)
def test_a_row_without_its_vector_is_rejected_unless_entries_may_be_missing(format):
    rows = [ROWS[0], {"v": None, "x": 1.0}]
    block = reader(format, Schema(features=("v[]", "x"))).read(FORMATS[format](rows))
    assert [reject.row for reject in block.rejects] == [1]
    block = reader(format, Schema(features=("v[]", "x"), missing=True)).read(FORMATS[format](rows))
    assert block.X[1, 3] == 1.0 and np.isnan(block.X[1, :3]).all()


@pytest.mark.parametrize("value", [b'{"v": 1, "x": 2}', b'{"v": [], "x": 2}', b'{"x": 2}'])
def test_the_first_row_with_a_vector_fixes_the_length(value):
    messages = reader("json", Schema(features=("v[]", "x")))
    block = messages.read(value + b"\n" + lines(ROWS))
    assert len(block.rejects) == 1 and "holds no array" in block.rejects[0].reason
    assert messages.schema.features == NAMES


def test_numbers_that_are_no_lists_are_rejected_with_their_type():
    block = ArrowReader(Schema(features=("x[]",))).read(arrow(ROWS))
    assert "of type double, not of lists of numbers" in block.rejects[0].reason


@pytest.mark.parametrize("format", ["floats", "floats32"])
def test_formats_without_arrays_refuse_them(format):
    with pytest.raises(InputError, match="no arrays"):
        reader(format, Schema(features=("v[]",)))


def test_a_parquet_file_of_embeddings_is_learned_as_its_columns_are(tmp_path):
    X = np.random.default_rng(0).normal(size=(200, 3)) + 9.0 * (np.arange(200) % 2)[:, None]
    parquet.write_table(pa.table({"v": X.tolist()}), tmp_path / "vectors.parquet")
    parquet.write_table(
        pa.table({f"v[{j}]": X[:, j] for j in range(3)}), tmp_path / "numbers.parquet"
    )
    labels = {}
    for name, features in {"vectors": ["v[]"], "numbers": NAMES[:3]}.items():
        build(
            {
                "source": {"kind": "file", "path": str(tmp_path / f"{name}.parquet")},
                "sink": {"kind": "file", "path": str(tmp_path / f"{name}.csv")},
                "checkpoint": {"folder": str(tmp_path / name)},
                "schema": {"features": list(features)},
                "batch": {"rows": 50},
            }
        ).run()
        labels[name] = (tmp_path / f"{name}.csv").read_text()
    assert labels["vectors"] == labels["numbers"] and labels["vectors"].count("\n") == 201


def test_a_run_that_continues_expects_the_same_length(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 3)).tolist()
    messages = [lines([{"v": row, "id": i}]) for i, row in enumerate(X)]
    read = {"reader": reader("json", Schema(features=("v[]",), keep=("id",))), "threads": False}
    results(tmp_path, MemorySource({"": messages}), **read)
    later = [*messages, lines([{"v": [1.0, 2.0], "id": 60}])]
    read["reader"] = reader("json", Schema(features=("v[]",), keep=("id",)))
    _, dead = results(tmp_path, MemorySource({"": later}), **read)
    assert [row["reason"] for row in dead] == ["column 'v' has 2 entries where 3 are expected."]
