"""Messages: what was written is read back, and nothing that a message holds can raise."""

import json
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from pyarrow import ipc

from scstream.errors import InputError
from scstream.io.budget import MAX_CONTENT
from scstream.io.schema import LARGEST
from scstream.preprocess.block import Block, join
from scstream.stream.messages import FORMATS, reader, writer
from scstream.stream.schema import Schema
from scstream.stream.sink import Delivery

NAMES = ("x", "y", "z")
SCHEMAS = {
    "free": Schema(),
    "named": Schema(NAMES[:2]),
    "missing": Schema(NAMES[:2], missing=True),
    "roles": Schema(("x",), keep=("name",), key="key", time="time", text="text"),
    "free with roles": Schema(keep=("name",), key="key", time="time"),
    "text": Schema((), text="text"),
}
COLUMNS = ("x", "y", "name", "key", "time", "text")

numbers = st.floats(-1e100, 1e100) | st.integers(-(2**63), 2**63)
plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
surrogates = st.text(st.characters(), max_size=3)  # also halves of pairs
to_tables = st.recursive(
    plain | surrogates,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from(COLUMNS) | surrogates, to_tables, max_size=6)
good_rows = st.fixed_dictionaries(
    {"x": numbers, "y": numbers, "key": st.text(max_size=3), "time": st.integers(0, 10**9)}
)
matrices = hnp.arrays(
    np.float64, st.tuples(st.integers(1, 8), st.just(3)), elements=st.floats(-1e100, 1e100)
)


def readers(chosen: str) -> dict[str, Any]:
    """Every format that can hold what the schema asks for."""
    schema = SCHEMAS[chosen]
    only_features = not schema.other_columns
    return {f: reader(f, schema) for f in FORMATS if only_features or not f.startswith("floats")}


def check(block: Block, schema: Schema) -> None:
    """The laws of every block."""
    assert len(block.row) + len(block.rejects) == block.n_rows
    refused = [reject.row for reject in block.rejects]
    assert sorted([*block.row.tolist(), *refused]) == list(range(block.n_rows))
    assert refused == sorted(refused)
    assert block.X.shape[0] == len(block.row)
    assert block.X.dtype == np.float64
    entries = block.X[~np.isnan(block.X)] if schema.missing else block.X
    assert (np.abs(entries) <= LARGEST).all()
    if len(block.row):
        assert block.X.shape[1] == len(schema.features or ())
        assert set(block.extra) == set(schema.other_columns)
    for name, values in block.extra.items():
        assert len(values) == len(block.row)
        json.dumps(values.tolist()).encode()
        for value in values.tolist():
            assert isinstance(value, str | int | float | None)
            str(value).encode()  # no half of a surrogate pair is left
        if name == schema.time:
            assert np.isfinite(values).all()
    for reject in block.rejects:
        assert reject.reason.endswith(".")
        assert len(reject.content) <= MAX_CONTENT
        f"{reject.reason}{reject.content}".encode()


def same(left: Block, right: Block) -> bool:
    return (
        left.n_rows == right.n_rows
        and left.row.tolist() == right.row.tolist()
        and left.X.tobytes() == right.X.tobytes()
        and {n: v.tolist() for n, v in left.extra.items()}
        == {n: v.tolist() for n, v in right.extra.items()}
        and left.rejects == right.rejects
    )


@given(matrices, st.lists(st.text(max_size=4) | st.none(), min_size=8, max_size=8))
@pytest.mark.parametrize("format", ["json", "columns", "arrow"])
def test_what_was_written_is_read_back(format: str, X: Any, words: list[str | None]) -> None:
    name = np.array(words[: len(X)], dtype=object)
    columns = {"batch": np.zeros(len(X), int), "index": np.arange(len(X)), "name": name}
    columns |= {feature: X[:, j] for j, feature in enumerate(NAMES)}
    messages = writer(format)(Delivery("demo", 0, columns))
    assert len(messages) == (len(X) if format == "json" else 1)
    take = reader(format, Schema(NAMES, keep=("name", "index")))
    block = join([take.read(message) for message in messages])
    assert not block.rejects
    assert block.X.tobytes() == X.tobytes() or (block.X == X).all()  # JSON may turn -0.0 into 0
    assert block.extra["name"].tolist() == name.tolist()
    assert block.extra["index"].tolist() == list(range(len(X)))


@given(matrices)
@pytest.mark.parametrize(("format", "dtype"), [("floats", "<f8"), ("floats32", "<f4")])
def test_raw_numbers_are_read_back(format: str, dtype: str, X: Any) -> None:
    X = np.clip(X, -1e38, 1e38).astype(dtype)
    block = reader(format, Schema(NAMES)).read(X.tobytes())
    assert (block.X == X).all()
    free = reader(format, Schema())
    assert free.read(X[0].tobytes()).X.tolist() == [X[0].tolist()]
    assert free.schema.features == ("x0", "x1", "x2")
    assert free.read(X.tobytes()).n_rows == len(X)
    assert free.read(X.tobytes()[:-1]).rejects[0].row == 0


@given(st.binary(max_size=200))
@pytest.mark.parametrize("chosen", SCHEMAS)
def test_arbitrary_bytes_never_raise(chosen: str, value: bytes) -> None:
    for take in readers(chosen).values():
        check(take.read(value), take.schema)


@settings(max_examples=50)
@given(st.lists(objects | to_tables | good_rows, max_size=5), st.booleans())
@pytest.mark.parametrize("chosen", SCHEMAS)
def test_arbitrary_json_never_raises(chosen: str, rows: list[Any], as_array: bool) -> None:
    take = reader("json", SCHEMAS[chosen])
    block = take.read("\n".join(json.dumps(row) for row in rows).encode())
    check(block, take.schema)
    assert block.n_rows == len(rows)
    take = reader("columns", SCHEMAS[chosen])
    check(take.read(json.dumps(rows if as_array else rows[:1]).encode()), take.schema)


@settings(max_examples=20)  # for each schema; one takes as long as many of the others here
@given(st.dictionaries(st.sampled_from(COLUMNS) | surrogates, st.lists(to_tables) | to_tables))
@pytest.mark.parametrize("chosen", SCHEMAS)
def test_arbitrary_columns_never_raise(chosen: str, columns: dict[str, Any]) -> None:
    take = reader("columns", SCHEMAS[chosen])
    check(take.read(json.dumps(columns).encode()), take.schema)


@settings(max_examples=100)
@given(st.sampled_from([None, "zstd", "lz4"]), st.binary(min_size=1, max_size=4), st.data())
@pytest.mark.parametrize("chosen", SCHEMAS)
def test_damaged_arrow_never_raises(
    chosen: str, compression: str | None, patch: bytes, data: st.DataObject
) -> None:
    value = bytearray(arrow_message(compression))
    at = data.draw(st.integers(0, len(value) - 1))
    value[at : at + len(patch)] = patch
    end = data.draw(st.integers(at, len(value)))
    take = reader("arrow", SCHEMAS[chosen])
    check(take.read(bytes(value[:end])), take.schema)


def arrow_message(compression: str | None = None) -> bytes:
    table = pa.table(
        {
            "x": [1.0, 2.0, None],
            "y": pa.array([1, 2, 3], pa.int16()),
            "name": pa.array(["a", "b", "a"]).dictionary_encode(),
            "key": ["k", "l", "m"],
            "time": pa.array([1, 2, 3], pa.timestamp("ms", tz="UTC")),
            "text": pa.array(["one", "two", "three"], pa.string_view()),
        }
    )
    return packed(table, compression)


def packed(table: Any, compression: str | None = None) -> bytes:
    content = pa.BufferOutputStream()
    options = ipc.IpcWriteOptions(compression=compression)
    with ipc.new_stream(content, table.schema, options=options) as stream:
        stream.write_table(table)
    return bytes(content.getvalue().to_pybytes())


@given(st.lists(good_rows | objects, min_size=1, max_size=6), st.randoms())
@pytest.mark.parametrize("chosen", ["named", "missing", "roles"])
def test_rows_do_not_depend_on_the_order_of_columns(
    chosen: str, rows: list[Any], random: Any
) -> None:
    def shuffled(row: dict[str, Any]) -> dict[str, Any]:
        return dict(random.sample(list(row.items()), len(row)))

    lines = [json.dumps(row) for row in rows], [json.dumps(shuffled(row)) for row in rows]
    left, right = (reader("json", SCHEMAS[chosen]).read("\n".join(ls).encode()) for ls in lines)
    assert left.X.tobytes() == right.X.tobytes()
    assert left.row.tolist() == right.row.tolist()
    assert [r.reason for r in left.rejects] == [r.reason for r in right.rejects]


@pytest.mark.parametrize("format", ["columns", "arrow"])
def test_json_columns_may_come_in_any_order(format: str) -> None:
    columns = {"x": [1.0, 2.0, 3.0], "y": [4, 5, 6], "name": ["a", "b", "c"]}
    turned = dict(reversed(columns.items()))
    take = reader(format, Schema(("y", "x"), keep=("name",)))
    write = packed if format == "arrow" else lambda table: json.dumps(table).encode()
    left, right = (
        take.read(write(pa.table(c) if format == "arrow" else c)) for c in (columns, turned)
    )
    assert same(left, right)
    assert left.X[:, 0].tolist() == [4, 5, 6]


@settings(max_examples=50)
@given(st.lists(good_rows | objects | to_tables, min_size=1, max_size=6), st.data())
@pytest.mark.parametrize("chosen", SCHEMAS)
def test_rows_do_not_depend_on_where_messages_end(
    chosen: str, rows: list[Any], data: st.DataObject
) -> None:
    lines = [json.dumps(row) + data.draw(st.sampled_from(["\n", "\r\n", "\n \n"])) for row in rows]
    cut = data.draw(st.integers(0, len(lines)))
    whole = reader("json", SCHEMAS[chosen])
    parts = reader("json", SCHEMAS[chosen])
    together = whole.read("".join(lines).encode())
    halves = [parts.read("".join(part).encode()) for part in (lines[:cut], lines[cut:])]
    assert whole.schema == parts.schema
    assert same(together, join([Block.of(np.zeros((0, together.X.shape[1]))), *halves])) or (
        not len(together.row) and together.rejects == join(halves).rejects
    )


HOSTILE = {
    "deep": b"[" * 200_000,
    "deep object": b'{"x":' * 100_000,
    "long number": b'{"x": ' + b"9" * 5000 + b"}",
    "huge number": b'{"x": ' + b"9" * 400 + b"}",
    "large": b'{"x": 1e101}',
    "infinite": b'{"x": 1e999}',
    "NaN": b'{"x": NaN}',
    "true": b'{"x": true}',
    "text": b'{"x": "1.0"}',
    "array": b'{"x": [1.0]}',
    "no UTF-8": b'{"x": 1.0, "y": "\xff"}',
    "UTF-16": '{"x": 1.0}'.encode("utf-16"),
    "two values": b'{"x": 1.0} {"x": 2.0}',
    "two values in array": b'{"x": 1.0}, {"x": 2.0}',
    "wide": b"[1.0, 2.0]",
    "number": b"1.0",
    "null": b"null",
    "nothing": b"{}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_one_bad_line_is_one_reject(name: str) -> None:
    take = reader("json", Schema(("x",)))
    block = take.read(b'{"x": 1}\n' + HOSTILE[name] + b'\n{"x": 2}\n')
    assert block.X.tolist() == [[1.0], [2.0]]
    assert [reject.row for reject in block.rejects] == [1]
    check(block, take.schema)


def test_of_two_equal_names_the_last_counts() -> None:
    assert reader("json", Schema(("x",))).read(b'{"x": 1, "x": 2}').X.tolist() == [[2.0]]


def test_a_byte_order_mark_is_skipped() -> None:
    for format, value in (("json", b'{"x": 1}'), ("columns", b'{"x": [1]}')):
        assert reader(format, Schema()).read(b"\xef\xbb\xbf" + value).X.tolist() == [[1.0]]


@pytest.mark.parametrize("format", ["json", "columns", "floats", "floats32"])
def test_an_empty_message_has_no_rows(format: str) -> None:
    assert reader(format, Schema(("x",))).read(b"").n_rows == 0


def test_features_are_inferred_from_the_first_valid_row() -> None:
    take = reader("json", Schema(keep=("name",), time="at"))
    block = take.read(
        b'{"name": "a", "at": 1}\n{"x": 1, "at": "noon"}\n{"y": 1, "s": "t", "x": 2, "at": 5}\n'
        b'{"x": 3, "y": 4, "at": "1970-01-01T00:01:00Z", "name": 7}'
    )
    assert take.schema.features == ("y", "x")
    assert block.row.tolist() == [2, 3]
    assert block.X.tolist() == [[1.0, 2.0], [4.0, 3.0]]
    assert block.extra["at"].tolist() == [5.0, 60.0]
    assert block.extra["name"].tolist() == [None, 7]
    assert "no column of numbers" in block.rejects[0].reason
    assert "'noon'" in block.rejects[1].reason


def test_missing_entries_are_accepted_if_the_family_handles_them() -> None:
    schema = Schema(("x", "y"), missing=True)
    rows = b'{"x": null, "y": 1}\n{"x": NaN, "y": 1}\n{"y": 1}\n{"z": 1}\n{"x": "", "y": 1}'
    block = reader("json", schema).read(rows)
    assert block.row.tolist() == [0, 1, 2]
    assert np.isnan(block.X[:, 0]).all()
    block = reader("columns", schema).read(b'{"y": [1, null, 1e200]}')
    assert block.row.tolist() == [0, 1]
    block = reader("arrow", schema).read(packed(pa.table({"x": [None, 1.0], "y": [1, None]})))
    assert np.isnan(block.X).tolist() == [[True, False], [False, True]]


def test_a_key_is_text_or_a_whole_number() -> None:
    take = reader("json", Schema(("x",), key="key"))
    block = take.read(
        b"\n".join(b'{"x": 1, "key": %s}' % k for k in (b'"a"', b"7", b"1.5", b"null"))
    )
    assert block.extra["key"].tolist() == ["a", "7"]
    assert [reject.row for reject in block.rejects] == [2, 3]


def test_a_lone_surrogate_is_replaced() -> None:
    block = reader("json", Schema(("x",), keep=("n",))).read(b'{"x": 1, "n": "\\ud800 \\u00e9"}')
    assert block.extra["n"].tolist() == ["? é"]


def test_arrow_types_are_converted() -> None:
    table = pa.table(
        {
            "x": pa.array([1, 2], pa.decimal128(10, 2)),
            "half": pa.array(np.array([1, 2], np.float16)),
            "day": pa.array([1, 2], pa.date32()),
            "name": pa.array(["a", None]).dictionary_encode(),
            "when": pa.array([1500, 2500], pa.timestamp("ms")),
        }
    )
    block = reader("arrow", Schema(("x", "half"), keep=("day", "name"), time="when")).read(
        packed(table)
    )
    assert block.X.tolist() == [[1.0, 1.0], [2.0, 2.0]]
    assert block.extra["when"].tolist() == [1.5, 2.5]
    assert block.extra["day"].tolist() == ["1970-01-02", "1970-01-03"]
    assert block.extra["name"].tolist() == ["a", None]


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"x": ["a"]}),
        pa.table({"x": [True]}),
        pa.table({"x": pa.nulls(3)}),
        pa.table({"y": [1.0]}),
        pa.table([pa.array([1.0]), pa.array([2.0])], names=["x", "x"]),
    ],
    ids=["text", "bool", "null", "absent", "twice"],
)
def test_a_column_of_another_type_rejects_the_message(table: Any) -> None:
    block = reader("arrow", Schema(("x",))).read(packed(table))
    assert block.n_rows == 1
    assert (
        "column" in block.rejects[0].reason
        or "'x'" in block.rejects[0].reason
        or ('"x"' in block.rejects[0].reason)
    )


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_compressed_arrow_is_read_up_to_a_limit(compression: str) -> None:
    table = pa.table({"x": np.arange(100.0), "name": ["a"] * 100})
    assert reader("arrow", Schema(("x",))).read(packed(table, compression)).X.shape == (100, 1)
    many = pa.table({f"x{j}": np.zeros(2**20) for j in range(40)})  # 320 MiB from some kilobytes
    block = reader("arrow", Schema()).read(packed(many, compression))
    assert "671 MB of memory when it is decoded" in block.rejects[0].reason


def test_a_short_message_of_many_columns_is_rejected() -> None:
    """224 bytes: one column of nulls, where a hundred features may be missing."""
    names = tuple(f"x{j}" for j in range(100))
    content = packed(pa.table({"x0": pa.nulls(2**20)}))
    block = reader("arrow", Schema(names, missing=True)).read(content)
    assert block.n_rows == 1
    assert "1,048,576 rows of 100 columns" in block.rejects[0].reason
    lines = b'{"x0": null}\n' * 2**18
    for format, value in (("json", lines), ("columns", b'{"x0": [%s null]}' % (2**18 * b"1,"))):
        block = reader(format, Schema(names, missing=True)).read(value)
        assert "262,14" in block.rejects[0].reason and block.n_rows == 1


def test_only_needed_columns_are_decompressed() -> None:
    """The other column is damaged, and nobody sees it."""
    content = bytearray(packed(pa.table({"x": [1.0], "y": np.zeros(1)}), "zstd"))
    at = content.rindex(b"\x28\xb5\x2f\xfd")  # the magic number of zstd: the data of y
    content[at] ^= 1
    assert reader("arrow", Schema(("x",))).read(bytes(content)).X.tolist() == [[1.0]]
    assert reader("arrow", Schema(("x", "y"))).read(bytes(content)).rejects


def test_columns_of_nulls_are_read_up_to_a_limit() -> None:
    table = pa.table({"x": pa.nulls(2**21)})
    block = reader("arrow", Schema(("x",), missing=True)).read(packed(table))
    assert block.n_rows == 1
    assert "rows" in block.rejects[0].reason


def test_values_that_json_lacks_become_null_or_text() -> None:
    columns = {
        "index": np.arange(2),
        "score": np.array([np.nan, np.inf]),
        "when": np.array(["2026-01-01", "2026-01-02"], dtype="datetime64[D]"),
        "kept": np.array([np.float64(1.5), None], dtype=object),
    }
    for format in ("json", "columns"):
        for message in writer(format)(Delivery("demo", 0, columns)):
            json.loads(message, parse_constant=pytest.fail)


def test_columns_of_mixed_types_are_written_as_arrow() -> None:
    kept = np.array([1, "a", None, 2**70], dtype=object)
    empty = np.full(4, None, dtype=object)
    message = writer("arrow")(Delivery("d", 0, {"index": np.arange(4), "kept": kept, "e": empty}))
    table = ipc.open_stream(message[0]).read_all()
    assert table.column("kept").to_pylist() == ["1", "a", None, str(2**70)]
    assert table.schema.field("e").type == pa.string()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: reader("xml", Schema()),
        lambda: reader("json", Schema(())),
        lambda: reader("floats", Schema(keep=("a",))),
        lambda: reader("floats", Schema((), text="a")),
        lambda: Schema(("a", "a")),
        lambda: Schema(("",)),
        lambda: Schema(key=""),
        lambda: writer("floats"),
    ],
)
def test_invalid_settings_are_rejected(wrong: Any) -> None:
    with pytest.raises(InputError, match=r"\.$"):
        wrong()


@pytest.mark.parametrize("missing", [True, False])
def test_a_signalling_nan_is_read_as_nan(missing: bool) -> None:
    single = np.frombuffer(b"\x00\x00\x81\x7f", "<f4")
    half = np.frombuffer(b"\x01\x7d", "<f2")
    schema = Schema(("x",), missing=missing)
    messages = [("floats32", single.tobytes())]
    messages += [("arrow", packed(pa.table({"x": pa.array(x)}))) for x in (single, half)]
    for format, message in messages:
        block = reader(format, schema).read(message)
        assert len(block.row) == int(missing)
        assert np.isnan(block.X).all()


def test_the_reason_for_incomplete_floats_names_the_width() -> None:
    block = reader("floats", Schema(("x", "y"))).read(struct.pack("<3d", 1, 2, 3))
    assert "rows of 2 numbers" in block.rejects[0].reason
