"""The events of a model as a list that can be turned into a table."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from scstream.core.state import Event
from scstream.io.tables import Tabular, html_table, one_line

_MAX_ROWS = 30  # events that a notebook shows


class EventList(list[Event], Tabular):
    """Events, the newest last: a list that can be turned into a table.

    Parameters
    ----------
    iterable : iterable of Event
        The events.

    Examples
    --------
    >>> from scstream import ScStream
    >>> events = ScStream(random_state=0).fit([[0.0], [1.0], [2.0]]).events_
    >>> events
    [Event(kind='born', time=0.0, id=0, weight=3.0, other=None)]
    >>> list(events.to_dict())
    ['kind', 'time', 'id', 'weight', 'other', 'author', 'name']
    """

    def to_dict(self) -> dict[str, Any]:
        """Return one column for each field of an event, by name.

        Returns
        -------
        dict of arrays
            What ``pandas.DataFrame``, ``polars.DataFrame`` and ``pyarrow.table`` take.

        Examples
        --------
        >>> from scstream import ScStream
        >>> ScStream(random_state=0).fit([[0.0], [1.0], [2.0]]).events_.to_dict()["id"]
        array([0])
        """
        columns = {
            field.name: [getattr(event, field.name) for event in self] for field in fields(Event)
        }
        types = {"time": np.float64, "id": np.int64, "weight": np.float64}
        return {
            name: np.array(values, dtype=types.get(name, object))
            for name, values in columns.items()
        }

    def _repr_html_(self) -> str:
        names = [field.name for field in fields(Event)]
        shown = self[: -_MAX_ROWS - 1 : -1]
        rows = [[_cell(getattr(event, name)) for name in names] for event in shown]
        n_more = len(self) - len(shown)
        return html_table(names, rows, note=f"... and {n_more} earlier ones" if n_more else "")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else one_line(str(value))
