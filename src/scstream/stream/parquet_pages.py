"""Sizes of the pages of a Parquet column, read from their headers before one is decompressed.

The metadata at the end of a file also has sizes, but a decoder allocates what the headers of the
pages say. They are structs in Thrift's compact protocol: PageHeader (field 2 the uncompressed
size, 3 the compressed size, 5 and 8 the headers of data pages, whose fields 2 and 4 are the
encoding).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeGuard

_HEAD = 2**16  # bytes that are read to find the header of a page; statistics can be long
_DELTA_TEXT = 7  # the encoding DELTA_BYTE_ARRAY: a text shares a prefix with the one before
_MAX_DEPTH = 8
_LENGTHS = {1: 0, 2: 0, 3: 1, 7: 8}  # bytes of true, false, a byte and a double

Read = Callable[[int, int], bytes]  # offset and length to bytes


class Page(NamedTuple):
    """The sizes of a page."""

    n_bytes: int  # uncompressed
    shares_prefixes: bool


def pages(read: Read, start: int, length: int) -> Iterator[Page]:
    """Yield the pages of a column chunk; raises ValueError if a header is damaged."""
    stop = start + length
    while start < stop:
        head, size = _header(read(start, min(_HEAD, stop - start)))
        n_bytes, n_packed = head.get(2), head.get(3)
        if not (_is_size(n_bytes) and _is_size(n_packed)):
            raise ValueError("a page has no size")
        yield Page(n_bytes, _DELTA_TEXT in (_encoding(head, 5, 2), _encoding(head, 8, 4)))
        start += size + n_packed


def _is_size(value: Any) -> TypeGuard[int]:
    return type(value) is int and value >= 0


def _encoding(head: dict[int, Any], kind: int, field: int) -> Any:
    inner = head.get(kind)
    return inner.get(field) if isinstance(inner, dict) else None


def _header(content: bytes) -> tuple[dict[int, Any], int]:
    """Return the fields of a struct by number, and its length."""
    try:
        fields, end = _struct(content, 0, 0)
    except IndexError:
        raise ValueError("the header of a page is cut off") from None
    return fields, end


def _struct(content: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    if depth > _MAX_DEPTH:
        raise ValueError("the header of a page is nested too deeply")
    fields: dict[int, Any] = {}
    number = 0
    while content[at]:
        kind, step = content[at] & 15, content[at] >> 4
        at += 1
        if step:
            number += step
        else:
            number, at = _signed(content, at)
        fields[number], at = _value(content, at, kind, depth)
    return fields, at + 1


def _value(content: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    """Return a value of one of Thrift's types; bytes and lists are skipped."""
    if kind in _LENGTHS:
        return None, at + _LENGTHS[kind]
    if kind in (4, 5, 6):
        return _signed(content, at)
    if kind == 8:
        length, at = _unsigned(content, at)
        return None, at + length
    if kind in (9, 10):
        return None, _skip_list(content, at, depth)
    if kind == 12:
        return _struct(content, at, depth + 1)
    raise ValueError("the header of a page has an unknown type")


def _skip_list(content: bytes, at: int, depth: int) -> int:
    kind, length = content[at] & 15, content[at] >> 4
    at += 1
    if length == 15:
        length, at = _unsigned(content, at)
    if kind in (1, 2):
        return at + length
    for _ in range(min(length, len(content))):
        _, at = _value(content, at, kind, depth + 1)
    return at


def _signed(content: bytes, at: int) -> tuple[int, int]:
    number, at = _unsigned(content, at)
    return (number >> 1) ^ -(number & 1), at


def _unsigned(content: bytes, at: int) -> tuple[int, int]:
    number, shift = 0, 0
    while True:
        byte = content[at]
        number |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return number, at
        shift += 7
        if shift > 63:
            raise ValueError("the header of a page has a number that is too long")
