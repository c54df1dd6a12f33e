"""Read decisions of people about clusters from a model file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from scstream.core.edits import read_name
from scstream.core.state import Event, State
from scstream.core.steering import NO_STEERING, Edit, Steering, Undo
from scstream.io._packing import record
from scstream.io.header import Json

_IDS = ("pinned", "whole")
_PAIRS = ("apart", "together", "separate")
_NAMES = ("names", "group_names")


def read_steering(values: Json, read_state: Callable[[Json], State]) -> Steering:
    """Undo `pack`; raises ValueError, TypeError or LookupError if the values are damaged."""
    if not values:
        return NO_STEERING
    if values.keys() != {field.name for field in fields(Steering)}:
        raise ValueError("its decisions about clusters are not those of this version")
    parts: dict[str, Any] = {name: tuple(map(_whole, values[name])) for name in _IDS}
    for name in _PAIRS:
        parts[name] = tuple((_whole(first), _whole(second)) for first, second in values[name])
    for name in _NAMES:
        parts[name] = {int(id_): _named(text) for id_, text in values[name].items()}
    return Steering(**parts, undo=tuple(_undo(each, read_state) for each in values["undo"]))


def _undo(values: Json, read_state: Callable[[Json], State]) -> Undo:
    return Undo(
        edit=record(Edit, values["edit"]),
        events=tuple(record(Event, event) for event in values["events"]),
        before=read_state(values["before"]),
        after=tuple(map(_whole, values["after"])),
    )


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r} is not the id of a cluster")
    return value


def _named(text: Any) -> str:
    name = read_name(text)
    if name is None:
        raise ValueError("a name is empty")
    return name
