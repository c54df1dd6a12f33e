"""A source and a sink in memory: fakes for laws; the real ones are tested against real servers."""

from collections.abc import Mapping
from typing import Any

from scstream.errors import SourceChanged, SourceGap, SourceRegressed
from scstream.stream.sink import Delivery, plain_rows
from scstream.stream.source import Record


class MemorySource:
    """Messages by lane; survives the pipelines that read it, as a broker does."""

    def __init__(self, lanes: Mapping[str, list[bytes]], *, identity="one", order=None):
        self.lanes = {name: list(messages) for name, messages in lanes.items()}
        self.first = dict.fromkeys(lanes, 0)
        self.name = identity
        self.order = order  # lane to read from, call after call
        self.acknowledged: dict[str, int] = {}
        self._at: dict[str, int] = {}

    def identity(self):
        return {"name": self.name}

    def open(self, resume, *, accept_gap=False):
        positions = dict(resume.positions) if resume else {}
        if resume and resume.identity != self.identity():
            if not accept_gap:
                raise SourceChanged("it is another source")
            positions = {}
        self._at = {lane: max(positions.get(lane, 0), 0) for lane in self.lanes}
        for lane, messages in self.lanes.items():
            end = len(messages)
            if self._at[lane] > end:
                if not accept_gap:
                    raise SourceRegressed("it ends before")
                self._at[lane] = end
            if self._at[lane] < self.first[lane]:
                if not accept_gap and positions:
                    raise SourceGap("messages are gone")
                self._at[lane] = self.first[lane]

    def read(self, most: int, timeout: float):
        lanes = [name for name in self.lanes if self._at[name] < len(self.lanes[name])]
        if not lanes:
            return []
        lane = lanes[0] if self.order is None else self.order(lanes)
        at = self._at[lane]
        stop = min(at + max(most // 400, 1), len(self.lanes[lane]))
        self._at[lane] = stop
        return [Record(i, i + 1, self.lanes[lane][i], lane) for i in range(at, stop)]

    def acknowledge(self, positions):
        self.acknowledged.update(positions)

    @property
    def done(self):
        return all(self._at[name] >= len(self.lanes[name]) for name in self.lanes)

    def lag(self):
        return sum(len(self.lanes[name]) - at for name, at in self._at.items())

    def close(self):
        pass


class MemorySink:
    """Deliveries by batch; those after the position of the checkpoint are kept and not doubled."""

    def __init__(self):
        self.deliveries: dict[int, Delivery] = {}
        self.n_writes = 0

    def open(self, position):
        assert position is not None or not self.deliveries

    def write(self, delivery):
        self.n_writes += 1
        known = self.deliveries.setdefault(delivery.batch, delivery)
        assert plain_rows(known) == plain_rows(delivery), "a replay gave other labels"

    def flush(self) -> Any:
        return max(self.deliveries, default=-1)

    def close(self):
        pass

    @property
    def rows(self):
        return [
            row for batch in sorted(self.deliveries) for row in plain_rows(self.deliveries[batch])
        ]
