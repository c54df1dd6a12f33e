"""How much memory one message, request or file may need when it is decoded, and many together.

A small message can describe a large table: compressed columns, a column of nulls, one text for
many rows. Every decoder therefore asks here before it allocates, with sizes that it takes from the
header of the message or counts in its text.
"""

from __future__ import annotations

import numpy as np

from scstream.families.base import Array

MAX_BYTES = 2**28  # that the decoding of one message may need
MAX_ROWS = 2**20  # of a message
MAX_READ = 2**26  # bytes of the rows of messages that are decoded at once
MAX_LETTERS = 2**16  # rejected rows of a message whose content is kept
MAX_CONTENT = 2**16  # characters of the content of a rejected row; as JSON less than 1 MB
MAX_CONTENTS = 2**25  # characters of the contents of all rejected rows of a message
_COPIES = 2  # of a table: columns as they come, and rows
_SMALL = 2**20  # bytes of a text whose values cannot need more than `MAX_BYTES`
_JSON = {b"[": 64, b"{": 192, b",": 32, b":": 32}  # bytes in memory per mark of a JSON text


class TooLarge(ValueError):
    """A message would need too much memory; its text completes "the message ..."."""


def check_bytes(n_bytes: int, what: str = "") -> None:
    """Raise `TooLarge` if decoding needs more bytes than a message may need."""
    if n_bytes > MAX_BYTES:
        raise TooLarge(
            f"needs {n_bytes / 1e6:,.0f} MB of memory when it is decoded{what}, and "
            f"{MAX_BYTES / 1e6:,.0f} MB are allowed; send it in parts."
        )


def check_rows(n_rows: int) -> None:
    """Raise `TooLarge` if a message has more rows than one may have."""
    if n_rows > MAX_ROWS:
        raise TooLarge(f"has {n_rows:,} rows, and {MAX_ROWS:,} are allowed; send it in parts.")


def check_table(n_rows: int, n_columns: int) -> None:
    """Raise `TooLarge` if a table of float64 needs more memory than a message may need."""
    check_rows(n_rows)
    check_bytes(8 * _COPIES * n_rows * n_columns, f", for {n_rows:,} rows of {n_columns:,} columns")


def new_table(n_rows: int, n_columns: int) -> Array:  # (N, D)
    """Return an uninitialized table of float64; raises `TooLarge`.

    Examples
    --------
    >>> from scstream.io.budget import new_table
    >>> new_table(1000, 3).shape
    (1000, 3)
    >>> new_table(2**20, 100)
    Traceback (most recent call last):
    ...
    scstream.io.budget.TooLarge: needs 1,678 MB of memory when it is decoded, for 1,048,576 rows ...
    """
    check_table(n_rows, n_columns)
    return np.empty((n_rows, n_columns))


def max_rows(n_columns: int, at_most: int) -> int:
    """Return how many rows of so many columns fit into one message, and at least one."""
    return max(1, min(at_most, MAX_BYTES // (8 * _COPIES * max(n_columns, 1))))


def check_json(text: bytes) -> None:
    """Raise `TooLarge` if the values of a JSON text need too much memory; count its marks."""
    if len(text) > _SMALL:
        marks = sum(size * text.count(mark) for mark, size in _JSON.items())
        check_bytes(marks + _text_bytes(text), ", by its brackets and commas")


def check_lines(text: bytes, separator: bytes) -> None:
    """Raise `TooLarge` if the fields of lines of text need too much memory."""
    if len(text) > _SMALL:
        check_bytes(64 * text.count(separator) + _text_bytes(text), ", by its separators")


def check_texts(n_characters: int) -> None:
    """Raise `TooLarge` if the texts of a column, each row's counted, are too long together."""
    check_bytes(n_characters, ", for the texts of a column")


def _text_bytes(text: bytes) -> int:
    """Bytes of a text and a copy; in Python one character beyond ASCII widens all of them."""
    return len(text) * (2 if text.isascii() else 8) + 256 * text.count(b"\n")
