"""Small bodies that describe large tables: ``python -m tests.faults.bombs`` lists them.

Each is valid, or nearly, and needs far more memory than its length if a decoder believes it. A
decoder has to reject them by their headers, or read them in little memory.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import ipc, parquet

N = 2**20


class Bomb(NamedTuple):
    """A hostile body; `format` is that of a pipeline, or "csv", "parquet", "gzip" or "model"."""

    name: str
    format: str
    make: Callable[[], bytes]

    @property
    def content(self) -> bytes:
        """The body; it is made anew each time, because all of them together are large."""
        return self.make()


def bombs() -> list[Bomb]:
    """Return all bombs; the same ones each time."""
    return [*_arrow(), *_parquet(), *_json(), *_columns(), *_csv(), *_others()]


def stream(table: pa.Table, compression: str | None = None) -> bytes:
    content = pa.BufferOutputStream()
    options = ipc.IpcWriteOptions(compression=compression)
    with ipc.new_stream(content, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(content.getvalue())


def _arrow() -> Iterator[Bomb]:
    for compression in ("zstd", "lz4"):
        for dtype in ("int8", "float64"):
            for width in (2, 30, 200):
                name = f"{compression} {dtype} {width}"
                yield Bomb(name, "arrow", partial(_zeros, width, dtype, compression))
    for n_rows in (N, 2 * N, 2**31 - 1):
        yield Bomb(f"nulls {n_rows}", "arrow", partial(_nulls, n_rows))
    for n_rows in (N // 16, N):
        yield Bomb(f"one text for {n_rows} rows", "arrow", partial(_one_text, n_rows))
    yield Bomb("many columns", "arrow", lambda: stream(pa.table(_names(20_000))))
    fine = stream(pa.table({"x0": np.zeros(1000), "x1": np.zeros(1000)}), "zstd")
    for cut in (9, 100, len(fine) // 2, len(fine) - 9):
        yield Bomb(f"cut at {cut}", "arrow", partial(fine.__getitem__, slice(cut)))


def _names(n_columns: int) -> dict[str, list[float]]:
    return {f"c{j}": [1.0] for j in range(n_columns)}


def _zeros(width: int, dtype: str, compression: str) -> bytes:
    zeros = pa.array(np.zeros(N, dtype=dtype))
    return stream(pa.table({f"x{j}": zeros for j in range(width)}), compression)


def _nulls(n_rows: int) -> bytes:
    return stream(pa.table({"x0": pa.nulls(n_rows)}))


def _one_text(n_rows: int) -> bytes:
    indices = pa.array(np.zeros(n_rows, dtype=np.int8))
    texts = pa.DictionaryArray.from_arrays(indices, pa.array(["a" * 2**20]))
    table = pa.table({"x0": np.zeros(n_rows), "x1": np.zeros(n_rows), "name": texts})
    return stream(table, "zstd")


def _parquet() -> Iterator[Bomb]:
    for compression in ("zstd", "snappy", "gzip"):
        for width, coded in ((2, True), (2, False), (20, True)):
            name = f"{compression} {width} {'dictionary' if coded else 'plain'}"
            yield Bomb(name, "parquet", partial(_zeros_file, width, compression, coded))
    nulls = partial(pa.nulls, 2 * N, pa.float64())
    yield Bomb("nulls", "parquet", lambda: _file(pa.table({"x0": nulls()}), "zstd"))
    zeros = np.zeros(2**16)
    texts = {"x0": zeros, "x1": zeros, "name": ["a" * 2**14] * 2**16}
    yield Bomb("one text for all rows", "parquet", lambda: _file(pa.table(texts), "zstd"))
    fine = _file(pa.table({"x0": [1.0], "x1": [1.0]}), "zstd")
    yield Bomb("cut", "parquet", lambda: fine[: len(fine) // 2])


def _zeros_file(width: int, compression: str, coded: bool) -> bytes:
    table = pa.table({f"x{j}": np.zeros(2 * N) for j in range(width)})
    return _file(table, compression, use_dictionary=coded)


def _file(table: pa.Table, compression: str, **how: Any) -> bytes:
    content = pa.BufferOutputStream()
    parquet.write_table(table, content, compression=compression, row_group_size=2 * N, **how)
    return bytes(content.getvalue())


def _json() -> Iterator[Bomb]:
    for line in (b"[]", b"{}", b"1", b"x", b'""', b'{"x0":null}', b'{"x0":1,"x1":1}', b"[NaN,1]"):
        yield Bomb(f"lines of {line.decode()}", "json", partial(_repeated, line + b"\n"))
    for part in (b"[", b'{"a":', b"[],", b"{},", b"1,", b'"",', b'{"x0":[],"x1":{}},'):
        name = f"one line of {part.decode()}"
        yield Bomb(name, "json", partial(_repeated, part, before=b"[", after=b"0]"))
    number = partial(_repeated, b"9", before=b"[", after=b",1]")
    yield Bomb("a long number", "json", number)
    wide = partial(_repeated, b"a", before=b'{"x0":"', after="\U0001f4a3".encode() + b'"}')
    yield Bomb("a wide text", "json", wide)


def _repeated(part: bytes, *, before: bytes = b"", after: bytes = b"", size: int = 2**23) -> bytes:
    return before + part * (size // len(part)) + after


def _columns() -> Iterator[Bomb]:
    for entry in (b"null", b"1", b"[]", b"{}", b'""'):
        ends = {"before": b'{"x0":[', "after": entry + b"]}"}
        listed = partial(_repeated, entry + b",", **ends, size=2**22)
        yield Bomb(f"a column of {entry.decode()}", "columns", listed)
    many = "columns of many names"
    yield Bomb(many, "columns", lambda: json.dumps(_names(200_000)).encode())
    yield Bomb("deep", "columns", partial(_repeated, b"[", before=b'{"x0":', size=2**22))


def _csv() -> Iterator[Bomb]:
    head = b"x0,x1\n"
    for part in (b",", b"\n", b"1,1\n", b'"', b"\r", b"\xff"):
        name = f"a file of {part.decode(errors='replace')!r}"
        yield Bomb(name, "csv", partial(_repeated, part, before=head, after=b"\n1,1\n"))
    yield Bomb("a head of many names", "csv", partial(_repeated, b"x,", after=b"x0,x1\n1,1\n"))


def _others() -> Iterator[Bomb]:
    yield Bomb("zeros", "floats", lambda: bytes(2**25))
    yield Bomb("NaN", "floats32", lambda: np.full(2**23, np.nan, dtype="<f4").tobytes())
    yield Bomb("zeros of 256 MiB", "gzip", lambda: gzip.compress(bytes(2**28), 1))
    for claimed in (2**20, 2**40, 2**63):
        head = claimed.to_bytes(8, "little") + b'{"__metadata__":{}}'
        yield Bomb(f"a header of {claimed} bytes", "model", partial(bytes, head))
    shape = {"dtype": "F64", "shape": [2**40], "data_offsets": [0, 2**43]}
    head = json.dumps({"__metadata__": {"scstream": "x"}, "past": shape}).encode()
    yield Bomb("a large tensor", "model", lambda: len(head).to_bytes(8, "little") + head)


def main() -> None:
    for bomb in bombs():
        sys.stdout.write(f"{bomb.format:8} {len(bomb.content):>10,}  {bomb.name}\n")


if __name__ == "__main__":
    main()
