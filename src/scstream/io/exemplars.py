"""Exemplars of clusters in a model file, which holds them only if somebody asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from scstream.core.exemplars import Exemplar, Exemplars
from scstream.core.held import Held
from scstream.core.notes import Marks, Notes
from scstream.families.base import Family
from scstream.io._packing import record
from scstream.io.header import Json

_MARKS = ("id", "text")
_SHORT = 10  # features of a row that is shown by its values


def exemplar_values(exemplars: Exemplars) -> Json:
    """Return exemplars as values that `pack` takes."""
    values = {field.name: getattr(exemplars, field.name) for field in fields(Exemplars)}
    undo = [[n, exemplar_values(before)] for n, before in exemplars.undo]
    return values | {name: values[name].tolist() for name in _MARKS} | {"undo": undo}


def note_values(notes: Notes) -> Json:
    """Return ids and texts of rows as values that `pack` takes."""
    parts = {"ids": notes.ids, "texts": notes.texts}
    return {name: None if marks is None else marks.tolist() for name, marks in parts.items()}


def read_exemplars(values: Json, family: Family) -> Exemplars:
    """Undo `exemplar_values`; raises ValueError, TypeError or LookupError if they are damaged."""
    undo = tuple((int(n), read_exemplars(before, family)) for n, before in values.pop("undo"))
    marks = {name: _marks(values.pop(name)) for name in _MARKS}
    found = record(Exemplars, values, undo=undo, **marks)
    columns = (found.cluster, found.score, found.time, found.id, found.text)
    if {len(column) for column in columns} != {len(found)} or found.usual.shape != (
        len(found.usual_of),
        3,
    ):
        raise ValueError("its exemplars do not fit together")
    if found.rows is not None and found.rows.shape != (len(found), family.n_features):
        raise ValueError("the rows of its exemplars do not fit its features")
    return found


def read_notes_of(held: Held, values: Json) -> Held:
    """Return rows that are held with their ids and texts."""
    parts = {name: None if values[name] is None else _marks(values[name]) for name in values}
    notes = record(Notes, {}, **parts)
    if any(len(each) != len(held) for each in parts.values() if each is not None):
        raise ValueError("the ids of the rows that it holds do not fit them")
    return replace(held, notes=notes)


def _marks(values: Any) -> Marks:
    if not all(value is None or type(value) in (str, int) for value in values):
        raise ValueError("an id or a text of an exemplar is neither text nor a whole number")
    marks = np.full(len(values), None, dtype=object)
    marks[:] = values
    return marks


def exemplar_text(exemplar: Exemplar, feature_names: Sequence[str]) -> str:
    """Return an exemplar as a line of text: its id and text, or the values of a short row."""
    known = [str(mark) for mark in (exemplar.id, exemplar.text) if mark is not None]
    row = exemplar.row
    if known or not isinstance(row, np.ndarray) or len(row) > _SHORT:
        return ": ".join(known)
    return ", ".join(f"{name} {value:.4g}" for name, value in zip(feature_names, row, strict=True))
