"""Which columns of a message are features, times, keys and text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

from scstream.errors import InputError
from scstream.preprocess.block import Block
from scstream.stream.kept_types import KeptType
from scstream.stream.vectors import entry_names, open_vectors


@dataclass(frozen=True)
class Schema:
    """The roles of the columns of a message.

    Parameters
    ----------
    features : sequence of str or None
        Columns of numbers, in this order. None: all columns of numbers in the first valid row that
        have no other role, in the order in which they come. Rows that are bare arrays of numbers
        have the columns "x0", "x1" and so on if none are named. "name[]" is a column of arrays of
        the same length D, such as embeddings: the features "name[0]" to "name[D-1]".
    keep : sequence of str, or mapping of str to str
        Columns of plain values that are written to the sink; null where a row has none. "id:int"
        or `{"id": "int"}` gives a column a type: int, int32, int16, float, float32, bool, text,
        text(80) or time. A row whose value does not fit is rejected. Without a type, a column
        takes any value, or the type of the first batch if the sink is a table.
    key : str or None
        Column that names the model of a row: text or a whole number.
    time : str or None
        Column of event time: seconds since 1970, or text in ISO 8601, by default UTC.
    text : str or None
        Column of text, for the text steps of a pipeline.
    missing : bool
        Whether entries of features may be null, NaN or absent.
    keep_types : mapping of str to str
        Types of kept columns, as far as they are known.

    Examples
    --------
    >>> from scstream.stream.schema import Schema
    >>> Schema(keep=["name"]).with_features(["name", "x", "y"]).features
    ('x', 'y')
    >>> Schema(features=["v[]", "x"]).with_widths(lambda name: 2).features
    ('v[0]', 'v[1]', 'x')
    >>> Schema(keep=["id:int", "name"]).keep_types
    {'id': 'int'}
    """

    features: tuple[str, ...] | None = None
    keep: tuple[str, ...] = ()
    key: str | None = None
    time: str | None = None
    text: str | None = None
    missing: bool = False
    keep_types: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.features is not None:
            object.__setattr__(self, "features", _names("features", self.features))
        types = dict(self.keep_types)
        kept = (_typed(column, types) for column in _columns(self.keep, types))
        object.__setattr__(self, "keep", _names("keep", kept))
        object.__setattr__(self, "keep_types", types)
        for role in ("key", "time", "text"):
            name = getattr(self, role)
            if name is not None and (not isinstance(name, str) or not name):
                raise InputError(f"{role} must be the name of a column, got {name!r}.")

    @property
    def other_columns(self) -> tuple[str, ...]:
        """Names of the columns that are read but are no features."""
        roles = [name for name in (self.key, self.time, self.text) if name is not None]
        return tuple(dict.fromkeys((*self.keep, *roles)))

    def with_features(self, names: Iterable[str]) -> Schema:
        """Return the schema with these features, without names that have another role.

        A schema that has features is returned unchanged.
        """
        if self.features is not None:
            return self
        free = (name for name in names if name not in self.other_columns and name and _utf8(name))
        return replace(self, features=tuple(dict.fromkeys(free)))

    @cached_property  # it is asked for every row
    def is_complete(self) -> bool:
        """Whether the features, and the lengths of vectors among them, are known."""
        return self.features is not None and not open_vectors(self.features)

    def with_widths(self, width_of: Callable[[str], int]) -> Schema:
        """Return the schema with a feature for each entry of the columns of vectors.

        `width_of` is called with every column whose vectors have no known length yet.
        """
        if self.features is None or self.is_complete:
            return self
        names: list[str] = []
        for name in self.features:
            found = open_vectors([name])
            names += entry_names(found[0], width_of(found[0])) if found else [name]
        return replace(self, features=tuple(names))

    @property
    def is_empty(self) -> bool:
        """Whether a row would hold nothing to learn from."""
        return self.features == () and self.text is None


class Reader(Protocol):
    """Reads messages of one format; its `schema` has features after the first valid row."""

    schema: Schema

    def read(self, value: bytes) -> Block:
        """Return the rows of a message; a message of white space has none."""


def _columns(keep: Any, types: dict[str, str]) -> Iterable[Any]:
    """Return the columns to keep; a table of types adds to `types`."""
    if not isinstance(keep, Mapping):
        return (keep,) if isinstance(keep, str) else keep
    types |= {name: str(KeptType.parse(kind)) for name, kind in keep.items()}
    return tuple(keep)


def _typed(column: Any, types: dict[str, str]) -> Any:
    """Return the name of a column; one that is written as "name:type" adds to `types`."""
    name, colon, kind = column.rpartition(":") if isinstance(column, str) else ("", "", "")
    if not (name and colon) or column in types:
        return column
    types[name] = str(KeptType.parse(kind.strip()))
    return name


def _names(role: str, names: Any) -> tuple[str, ...]:
    listed = (names,) if isinstance(names, str) else tuple(names)
    seen: set[str] = set()
    for name in listed:
        if not isinstance(name, str) or not name:
            raise InputError(f"{role} must be names of columns, got {name!r} among them.")
        if name in seen:
            raise InputError(f"{role} names column {name!r} twice.")
        seen.add(name)
    return listed


def _utf8(name: str) -> bool:
    """Whether a name can be encoded; one that cannot would fail in every file it is written to."""
    return name.isascii() or name.encode(errors="replace").decode() == name
