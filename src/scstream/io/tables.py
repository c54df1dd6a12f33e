"""Results as tables: plain text, HTML, and data frames of pandas and polars."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from html import escape
from typing import Any, Literal

import numpy as np

from scstream.errors import InputError, MissingExtra

_SHOWN_IDS = 10  # that an error names


class Tabular:
    """Something with columns: `to_dict` returns them by name, in arrays of one length."""

    def to_dict(self) -> Mapping[str, Any]:
        """Return the columns by name."""
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """Return a data frame of pandas.

        Returns
        -------
        pandas.DataFrame
            The columns of `to_dict`.
        """
        return to_frame(self.to_dict(), "pandas")

    def to_polars(self) -> Any:
        """Return a data frame of polars.

        Returns
        -------
        polars.DataFrame
            The columns of `to_dict`.
        """
        return to_frame(self.to_dict(), "polars")


def to_frame(columns: Mapping[str, Any], library: Literal["pandas", "polars"]) -> Any:
    """Return columns as a data frame of a library, which is imported only now."""
    import narwhals.stable.v2 as nw

    lists = {name: _values(column) for name, column in columns.items()}
    try:
        return nw.from_dict(lists, backend=library).to_native()
    except ImportError as error:
        raise MissingExtra(
            f"{library} is not installed; install it with: pip install {library}", name=library
        ) from error


def _values(column: Any) -> Any:
    """Return a column as a data frame takes it: numbers as an array, others as a list."""
    if isinstance(column, np.ndarray) and column.dtype != object:
        return column
    return list(column)


def text_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, left: Collection[int] = ()
) -> str:
    """Return a table in plain text; numbers are aligned right, the columns `left` to the left."""
    lines = [list(headings), *map(list, rows)]
    widths = [max(len(line[c]) for line in lines) for c in range(len(headings))]
    out = []
    for number, line in enumerate(lines):
        cells = [
            cell.ljust(width) if number == 0 or c in left else cell.rjust(width)
            for c, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        out.append("  ".join(cells).rstrip())
    return "\n".join(out)


def html_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: Collection[int] = (),
    note: str = "",
) -> str:
    """Return a table in HTML with escaped cells, and a note below it."""
    style = [' style="text-align:left"' if c in left else "" for c in range(len(headings))]
    head = "".join(f"<th{s}>{escape(c)}</th>" for s, c in zip(style, headings, strict=True))
    body = "".join(
        "<tr>"
        + "".join(f"<td{s}>{escape(c)}</td>" for s, c in zip(style, line, strict=True))
        + "</tr>"
        for line in rows
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return table + (f"<p>{escape(note)}</p>" if note else "")


def counted(n: int, noun: str) -> str:
    """Return a number and a noun, in the plural unless it is one."""
    plural = "" if n == 1 else "es" if noun.endswith("ch") else "s"
    return f"{n:,} {noun}{plural}"


def one_line(name: str) -> str:
    """Return a name without line breaks and other control characters."""
    return "".join(character if character.isprintable() else " " for character in name)


def position_of(ids: Any, wanted: Any, kind: str = "cluster") -> int:
    """Return the position of an id; raise `InputError` with the known ids if there is none."""
    found = np.flatnonzero(np.asarray(ids) == wanted) if _is_id(wanted) else np.zeros(0, int)
    if len(found) > 0:
        return int(found[0])
    known = [str(each) for each in np.asarray(ids).tolist()]
    more = f", ... ({len(known)} in all)" if len(known) > _SHOWN_IDS else ""
    ids_are = f"the ids are {', '.join(known[:_SHOWN_IDS])}{more}" if known else "there is none"
    raise InputError(f"there is no {kind} {wanted!r}; {ids_are}.")


def _is_id(wanted: Any) -> bool:
    return isinstance(wanted, int | np.integer) and not isinstance(wanted, bool)
