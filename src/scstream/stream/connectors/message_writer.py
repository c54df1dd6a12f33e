"""The messages that a broker's sink writes for a delivery."""

from __future__ import annotations

import numpy as np

from scstream.errors import InputError, SinkError
from scstream.stream.messages import writer
from scstream.stream.sink import Delivery

_FORMATS = ("arrow", "columns", "json")


class MessageWriter:
    """Turns a delivery into messages: one per row ("json"), or one with all rows."""

    def __init__(self, format: str) -> None:
        if format not in _FORMATS:
            raise InputError(f"format is {format!r}; choose 'arrow', 'columns' or 'json'.")
        self._write = writer(format)
        self.is_per_row = format == "json"

    def messages(self, delivery: Delivery) -> list[tuple[int, bytes]]:
        """Return contents with the index of their row; 0 for a message with all rows."""
        contents = self._write(delivery)
        if not self.is_per_row:
            return [(0, content) for content in contents]
        indices = np.asarray(delivery.columns["index"])
        if np.any(indices[1:] <= indices[:-1]):
            raise SinkError(
                f"Batch {delivery.batch} of {delivery.job!r} has rows that are not in order of "
                "`index`."
            )
        return list(zip(indices.tolist(), contents, strict=True))
