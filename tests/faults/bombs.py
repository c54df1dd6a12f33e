"""Small bodies that describe large tables: ``python -m tests.faults.bombs`` lists them.

Each is valid, or nearly, and needs far more memory than its length if a decoder believes it. A
decoder has to reject them by their headers, or read them in little memory.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import ipc, parquet

N = 2**20


class Bomb(NamedTuple):
    """A hostile body; `format` is that of a pipeline, or "parquet", "gzip" or "model"."""

    name: str
    format: str
    content: bytes


def bombs() -> list[Bomb]:
    """Return all bombs; the same ones each time."""
    return [*_arrow(), *_parquet(), *_json(), *_columns(), *_others()]


def stream(table: pa.Table, compression: str | None = None) -> bytes:
    content = pa.BufferOutputStream()
    options = ipc.IpcWriteOptions(compression=compression)
    with ipc.new_stream(content, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(content.getvalue())


def _arrow() -> Iterator[Bomb]:
    small = {"int8": np.int8, "float64": np.float64}
    for compression in ("zstd", "lz4"):
        for name, dtype in small.items():
            for width in (2, 30, 200):
                zeros = pa.array(np.zeros(N, dtype=dtype))
                table = pa.table({f"x{j}": zeros for j in range(width)})
                yield Bomb(f"{compression} {name} {width}", "arrow", stream(table, compression))
    for n_rows in (N, 2 * N, 2**31 - 1):
        yield Bomb(f"nulls {n_rows}", "arrow", stream(pa.table({"x0": pa.nulls(n_rows)})))
    long = pa.array(["a" * 2**20])
    for width in (N // 16, N):
        indices = pa.array(np.zeros(width, dtype=np.int8))
        texts = pa.DictionaryArray.from_arrays(indices, long)
        table = pa.table({"x0": np.zeros(width), "x1": np.zeros(width), "name": texts})
        yield Bomb(f"one text for {width} rows", "arrow", stream(table, "zstd"))
    yield Bomb("many columns", "arrow", stream(pa.table({f"c{j}": [1.0] for j in range(20_000)})))
    fine = stream(pa.table({"x0": np.zeros(1000), "x1": np.zeros(1000)}), "zstd")
    for cut in (9, 100, len(fine) // 2, len(fine) - 9):
        yield Bomb(f"cut at {cut}", "arrow", fine[:cut])


def _parquet() -> Iterator[Bomb]:
    for compression in ("zstd", "snappy", "gzip"):
        for width in (2, 20):
            table = pa.table({f"x{j}": np.zeros(2 * N) for j in range(width)})
            for coded in (True, False) if width == 2 else (True,):
                name = f"{compression} {width} {'dictionary' if coded else 'plain'}"
                yield Bomb(name, "parquet", _file(table, compression, use_dictionary=coded))
    nulls = pa.table({"x0": pa.nulls(2 * N, pa.float64())})
    yield Bomb("nulls", "parquet", _file(nulls, "zstd"))
    zeros = np.zeros(2**16)
    table = pa.table({"x0": zeros, "x1": zeros, "name": ["a" * 2**14] * 2**16})
    yield Bomb("one text for all rows", "parquet", _file(table, "zstd"))
    fine = _file(pa.table({"x0": [1.0], "x1": [1.0]}), "zstd")
    yield Bomb("cut", "parquet", fine[: len(fine) // 2])


def _file(table: pa.Table, compression: str, **how: Any) -> bytes:
    content = pa.BufferOutputStream()
    parquet.write_table(table, content, compression=compression, row_group_size=2 * N, **how)
    return bytes(content.getvalue())


def _json() -> Iterator[Bomb]:
    n_bytes = 2**23
    for line in (b"[]", b"{}", b"1", b"x", b'""', b'{"x0":null}', b'{"x0":1,"x1":1}', b"[NaN,1]"):
        yield Bomb(f"lines of {line.decode()}", "json", (line + b"\n") * (n_bytes // len(line)))
    for part in (b"[", b'{"a":', b"[],", b"{},", b"1,", b'"",', b'{"x0":[],"x1":{}},'):
        content = part * (n_bytes // len(part))
        yield Bomb(f"one line of {part.decode()}", "json", b"[" + content + b"0]")
    yield Bomb("a long number", "json", b"[" + b"9" * n_bytes + b",1]")
    yield Bomb("a wide text", "json", b'{"x0":"' + b"a" * n_bytes + "\U0001f4a3".encode() + b'"}')


def _columns() -> Iterator[Bomb]:
    for entry in (b"null", b"1", b"[]", b"{}", b'""'):
        entries = b",".join([entry] * (2**22 // len(entry)))
        yield Bomb(f"a column of {entry.decode()}", "columns", b'{"x0":[%s]}' % entries)
    names = json.dumps({f"c{j}": [1] for j in range(200_000)}).encode()
    yield Bomb("columns of many names", "columns", names)
    yield Bomb("deep", "columns", b'{"x0":' + b"[" * 2**22)


def _others() -> Iterator[Bomb]:
    yield Bomb("zeros", "floats", bytes(2**26))
    yield Bomb("NaN", "floats32", np.full(2**24, np.nan, dtype="<f4").tobytes())
    yield Bomb("zeros of 256 MiB", "gzip", gzip.compress(bytes(2**28), 9))
    for claimed in (2**20, 2**40, 2**63):
        head = claimed.to_bytes(8, "little") + b'{"__metadata__":{}}'
        yield Bomb(f"a header of {claimed} bytes", "model", head)
    shape = {"dtype": "F64", "shape": [2**40], "data_offsets": [0, 2**43]}
    head = json.dumps({"__metadata__": {"scstream": "x"}, "past": shape}).encode()
    yield Bomb("a large tensor", "model", len(head).to_bytes(8, "little") + head)


def main() -> None:
    for bomb in bombs():
        sys.stdout.write(f"{bomb.format:8} {len(bomb.content):>10,}  {bomb.name}\n")


if __name__ == "__main__":
    main()
