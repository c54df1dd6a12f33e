"""Sizes in the header of an Arrow record batch, read before anything is decompressed.

The header is a FlatBuffers table, which pyarrow has verified: Message (field 1 the kind of its
field 2), DictionaryBatch (field 1 a RecordBatch), RecordBatch (field 0 its rows, field 2 its
buffers as pairs of offset and length, field 3 the compression).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

_DICTIONARY = 2  # kind of a message


class BatchSizes(NamedTuple):
    """The sizes that a record batch declares."""

    n_rows: int
    n_bytes: int  # of its buffers once they are decompressed
    is_dictionary: bool


def batch_sizes(head: memoryview, body: memoryview) -> BatchSizes:
    """Return the sizes of a message that is a record batch or a dictionary."""
    message = struct.unpack_from("<I", head, 0)[0]
    kind = head[_field(head, message, 1)]
    batch = _follow(head, _field(head, message, 2))
    if kind == _DICTIONARY:
        batch = _follow(head, _field(head, batch, 1))
    at = _field(head, batch, 0)
    n_rows = struct.unpack_from("<q", head, at)[0] if at else 0
    n_bytes = _decompressed(head, body, batch) if _field(head, batch, 3) else len(body)
    return BatchSizes(n_rows, n_bytes, kind == _DICTIONARY)


def _decompressed(head: memoryview, body: memoryview, batch: int) -> int:
    """Add up the declared sizes of compressed buffers, which begin with them."""
    at = _field(head, batch, 2)
    if not at:
        return 0
    buffers = _follow(head, at)
    total = 0
    for i in range(struct.unpack_from("<I", head, buffers)[0]):
        offset, length = struct.unpack_from("<qq", head, buffers + 4 + 16 * i)
        if length >= 8:
            size = struct.unpack_from("<q", body, offset)[0]
            total += length if size < 0 else size  # -1: not compressed
    return total


def _field(head: memoryview, table: int, number: int) -> int:
    """Return the position of a field of a FlatBuffers table; 0 if it has none."""
    index = table - struct.unpack_from("<i", head, table)[0]
    if 4 + 2 * number >= struct.unpack_from("<H", head, index)[0]:
        return 0
    offset = struct.unpack_from("<H", head, index + 4 + 2 * number)[0]
    return table + offset if offset else 0


def _follow(head: memoryview, at: int) -> int:
    return int(at + struct.unpack_from("<I", head, at)[0])
