"""A source and a sink in memory, fakes for laws; and what tests do with those of real servers."""

import shutil
import threading
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from scstream.errors import SinkError, SourceChanged, SourceGap, SourceRegressed
from scstream.stream.messages import reader
from scstream.stream.schema import Schema
from scstream.stream.sink import Delivery, plain_rows
from scstream.stream.source import Record, Resume


class MemorySource:
    """Messages by partition; survives the pipelines that read it, as a broker does."""

    def __init__(self, partitions: Mapping[str, list[bytes]], *, identity="one", order=None):
        self.partitions = {name: list(messages) for name, messages in partitions.items()}
        self.first = dict.fromkeys(partitions, 0)
        self.name = identity
        self.order = order  # partition to read from, call after call
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
        self._at = {partition: max(positions.get(partition, 0), 0) for partition in self.partitions}
        for partition, messages in self.partitions.items():
            end = len(messages)
            if self._at[partition] > end:
                if not accept_gap:
                    raise SourceRegressed("it ends before")
                self._at[partition] = end
            if self._at[partition] < self.first[partition]:
                if not accept_gap and positions:
                    raise SourceGap("messages are gone")
                self._at[partition] = self.first[partition]

    def read(self, max_n: int, timeout: float):
        partitions = [
            name for name in self.partitions if self._at[name] < len(self.partitions[name])
        ]
        if not partitions:
            return []
        partition = partitions[0] if self.order is None else self.order(partitions)
        at = self._at[partition]
        stop = min(at + max(max_n // 400, 1), len(self.partitions[partition]))
        self._at[partition] = stop
        return [Record(i, i + 1, self.partitions[partition][i], partition) for i in range(at, stop)]

    def acknowledge(self, positions):
        self.acknowledged.update(positions)

    @property
    def done(self):
        return all(self._at[name] >= len(self.partitions[name]) for name in self.partitions)

    def lag(self):
        return sum(len(self.partitions[name]) - at for name, at in self._at.items())

    def close(self):
        pass


class MemorySink:
    """Deliveries by batch; those after the position of the checkpoint are kept and not doubled."""

    def __init__(self):
        self.deliveries: dict[int, Delivery] = {}
        self.n_writes = 0

    def open(self, position):
        if position is None and self.deliveries:
            raise SinkError("there are deliveries of an earlier pipeline")

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


def collect(source, n, seconds=20.0):
    """Read until so many messages have come, or the time is over."""
    records = []
    end = time.monotonic() + seconds
    while len(records) < n and time.monotonic() < end:
        records += source.read(n - len(records), 0.1)
    return records


def numbers_of(records):
    return [int(record.value) for record in records]


def opened(source, resume=None, **how):
    source.open(resume, **how)
    return source


def resume_at(source, position):
    return Resume(dict(source.identity()), {"": position})


def with_lost_end(server, source, add):
    """Read ten numbers, of which the server loses the last five; return how to resume."""
    add(range(5))
    server.stop()
    shutil.copytree(server.storage, server.folder / "copy")
    server.start()
    add(range(5, 10))
    source.open(None)
    records = collect(source, 10)
    assert numbers_of(records) == list(range(10))
    server.kill()
    server.wipe()
    shutil.copytree(server.folder / "copy", server.storage)
    server.start()
    return resume_at(source, records[-1].after)


def delivery(batch, n_rows=4, *, job="job", shift=0):
    index = np.arange(n_rows)
    columns = {"batch": np.full(n_rows, batch), "index": index, "cluster": index + batch + shift}
    return Delivery(job, batch, columns)


def written(sink, batches, **how):
    for batch in batches:
        sink.write(delivery(batch, **how))
    return sink.flush()


CLUSTERS = [[0, 1, 2, 3], [1, 2, 3, 4]]  # of the first two deliveries


def clusters_through(sink, source):
    """Clusters of two deliveries that a sink has written as Arrow and a source has read."""
    sink.open(None)
    written(sink, [0, 1])
    source.open(None)
    read = reader("arrow", Schema(features=("cluster",)))
    blocks = [read.read(record.value) for record in collect(source, 2)]
    for one in (sink, source):
        one.close()
    return [block.X[:, 0].tolist() for block in blocks]


def write_at_once(sinks, n_batches, *, flush_every):
    """Let several sinks write the same deliveries, each in a thread of its own."""
    for sink in sinks:
        sink.open(None)

    def write(sink):
        for first in range(0, n_batches, flush_every):
            written(sink, range(first, first + flush_every))

    threads = [threading.Thread(target=write, args=(sink,)) for sink in sinks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for sink in sinks:
        sink.close()


def levels(found):
    return {finding.about: finding.level for finding in found}
