"""The lease of a pipeline: which instance works, renewed in the store while it does.

A lease decides who works and when a standby takes over; it does not protect the results. What does
is the version that each checkpoint takes (`CheckpointLog`), whatever clocks and networks do.

No clock is compared with that of another machine. The holder counts from the moment before it sent
a renewal, and stops itself before its lease is over. An observer counts from the moment when it
saw the renewal, which is later, and regards the lease as expired when it has seen no other renewal
for the whole duration.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from threading import Event, Thread
from typing import Self

from scstream.errors import CheckpointCorrupt, InputError, LeaseLost
from scstream.observe.events import EventCallback, LeaseAcquired, StandingBy
from scstream.stream.clock import Clock
from scstream.stream.sink import Delivery, Sink, SinkPosition
from scstream.stream.store import Store

LEASE = "lease"  # name in the store
SHORTEST = 0.5  # seconds
_RENEWALS = 4  # renewals in the duration of a lease
_POLLS = 10  # looks of a standby in the duration of a lease
_LONGEST_POLL = 2.0  # seconds
_TRIES = 3  # to write, if answers of the store are lost
_STOP = 0.75  # part of the duration after which the holder writes nothing more
_ABANDON = 0.9  # part after which the process ends, even if it waits for a server


@dataclass(frozen=True)
class LeaseRecord:
    """The lease as it is in the store.

    Parameters
    ----------
    holder : str
        Which process holds it; empty once it has given the lease back.
    number : int
        How many instances have had the lease before.
    seconds : float
        How long the lease is valid after a renewal.
    renewals : int
        How many times this holder has renewed it.

    Examples
    --------
    >>> from scstream.stream.lease import LeaseRecord
    >>> record = LeaseRecord("process 7 on alpha", number=2, seconds=10.0)
    >>> LeaseRecord.from_json(record.to_json()) == record
    True
    """

    holder: str
    number: int
    seconds: float
    renewals: int = 0

    def to_json(self) -> bytes:
        """Return the record as JSON."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, content: bytes) -> Self:
        """Undo `to_json`; raises `CheckpointCorrupt` if that is impossible."""
        try:
            values = json.loads(content)
            return cls(
                holder=str(values["holder"]),
                number=int(values["number"]),
                seconds=float(values["seconds"]),
                renewals=int(values["renewals"]),
            )
        except (ValueError, LookupError, TypeError) as error:
            raise CheckpointCorrupt(
                "the lease in the store is damaged; stop all instances, delete the objects whose "
                f"names begin with {LEASE!r} and start again."
            ) from error


class LeaseObserver:
    """Sees whether a lease is renewed, by the clock of this process only.

    Parameters
    ----------
    store : Store
        The store of the pipeline.
    clock : Clock
        The time here.

    Examples
    --------
    >>> from scstream.stream.clock import ManualClock
    >>> from scstream.stream.lease import LEASE, LeaseObserver, LeaseRecord
    >>> from scstream.stream.store import MemoryStore
    >>> store, clock = MemoryStore(), ManualClock()
    >>> record = LeaseRecord("process 7 on alpha", number=0, seconds=10.0)
    >>> _ = store.replace(LEASE, record.to_json(), revision=None)
    >>> observer = LeaseObserver(store, clock)
    >>> observer.look()
    >>> clock.sleep(9.0)
    >>> observer.look()
    >>> observer.age, observer.is_free
    (9.0, False)
    >>> clock.sleep(1.0)
    >>> observer.is_free
    True
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self.record: LeaseRecord | None = None
        self.revision: str | None = None
        self.has_changed = False  # whether a renewal was seen, and not only the record
        self._store = store
        self._clock = clock
        self._since = clock.elapsed()

    def look(self) -> None:
        """Read the lease; an error of the store is raised."""
        try:
            content, revision = self._store.read(LEASE)
        except KeyError:
            self.record = self.revision = None
            return
        if revision != self.revision:
            self.has_changed = self.revision is not None
            self.record, self.revision = LeaseRecord.from_json(content), revision
            self._since = self._clock.elapsed()

    @property
    def age(self) -> float:
        """Seconds since another renewal was seen."""
        return self._clock.elapsed() - self._since

    @property
    def is_free(self) -> bool:
        """Whether nobody holds the lease: none, given back, or not renewed for its duration."""
        record = self.record
        return record is None or not record.holder or self.age >= record.seconds


class Lease:
    """The lease of a pipeline, from the side of an instance that wants to work.

    Parameters
    ----------
    store : Store
        The store of the pipeline.
    seconds : float
        How long the lease is valid after a renewal. A standby takes over within twice that time.
    clock : Clock
        The time here.
    emit : callable
        Called with `StandingBy` and `LeaseAcquired`.
    abandon : callable, optional
        Called by a thread shortly before the lease is over, if the instance has not ended by
        then; the command line ends the process, which may hang in a request to a server.

    Examples
    --------
    >>> from threading import Event
    >>> from scstream.stream.clock import SystemClock
    >>> from scstream.stream.lease import Lease
    >>> from scstream.stream.store import MemoryStore
    >>> lease = Lease(MemoryStore(), 10.0, clock=SystemClock())
    >>> lease.acquire(Event())
    True
    >>> with lease:
    ...     lease.check()
    """

    def __init__(
        self,
        store: Store,
        seconds: float,
        *,
        clock: Clock,
        emit: EventCallback = lambda event: None,
        abandon: Callable[[], None] | None = None,
    ) -> None:
        self.was_expired = False  # whether a holder was replaced that may still run
        self._store = store
        self._clock = clock
        self._emit = emit
        self._abandon = abandon
        token = secrets.token_hex(4)  # a process id may come again
        holder = f"process {os.getpid()} on {socket.gethostname()} ({token})"
        self._record = LeaseRecord(holder, -1, seconds)
        self._revision: str | None = None
        self._sent = 0.0  # when the last successful renewal was sent
        self._is_lost = False
        self._ended = Event()
        self._renewing = Thread(target=self._renew, name="scstream-lease", daemon=True)

    def acquire(self, stop: Event, *, take_over: bool = False) -> bool:
        """Wait until the lease is free and take it; False if `stop` was set before.

        `take_over` takes it from its holder at once.
        """
        observer, start = LeaseObserver(self._store, self._clock), self._clock.elapsed()
        told = None
        while not stop.is_set():
            observer.look()
            record = observer.record
            if (take_over or observer.is_free) and self._take(observer):
                self.was_expired = record is not None and bool(record.holder)
                waited = self._clock.elapsed() - start
                self._emit(LeaseAcquired(self._record.number, self._record.holder, waited))
                return True
            if record is not None and record.number != told:
                told = record.number
                self._emit(StandingBy(record.holder, record.number, record.seconds))
            seconds = self._record.seconds if record is None else record.seconds
            self._clock.sleep(min(seconds / _POLLS, _LONGEST_POLL))
        return False

    def check(self) -> None:
        """Raise `LeaseLost` unless the lease is certainly held for a while."""
        if self._is_lost or self._passed(_STOP):
            raise LeaseLost(
                "this instance could not renew its lease in time, or another one has taken it; it "
                "stops and has committed nothing since. Start it again: it waits as a standby "
                "while the other one works."
            )

    def __enter__(self) -> Self:
        """Renew the lease until the end."""
        self._renewing.start()
        Thread(target=self._watch, name="scstream-lease-watch", daemon=True).start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Give the lease back, so that a standby need not wait."""
        self._ended.set()
        self._renewing.join(self._record.seconds / _RENEWALS)
        if not self._is_lost and not self._passed(_STOP):
            record = replace(self._record, holder="")
            with suppress(Exception):  # it expires
                self._store.replace(LEASE, record.to_json(), revision=self._revision)

    def _take(self, observer: LeaseObserver) -> bool:
        number = 0 if observer.record is None else observer.record.number + 1
        self._record, self._revision = replace(self._record, number=number), observer.revision
        return self._write()

    def _write(self) -> bool:
        """Write the record; False if another instance has."""
        for _ in range(_TRIES):
            sent = self._clock.elapsed()
            revision = self._store.replace(LEASE, self._record.to_json(), revision=self._revision)
            if revision is not None:
                self._sent, self._revision = sent, revision
                return True
            if not self._is_ours():
                return False
        return False

    def _is_ours(self) -> bool:
        """Whether the newest record is a renewal of ours whose answer was lost."""
        content, self._revision = self._store.read(LEASE)
        return LeaseRecord.from_json(content).holder == self._record.holder

    def _passed(self, part: float) -> bool:
        return self._clock.elapsed() - self._sent >= part * self._record.seconds

    def _renew(self) -> None:
        """Renew; a store that does not answer is tried again until the lease is over."""
        while not self._ended.wait(self._record.seconds / _RENEWALS) and not self._is_lost:
            self._record = replace(self._record, renewals=self._record.renewals + 1)
            with suppress(Exception):  # stores raise many kinds
                self._is_lost = not self._write()

    def _watch(self) -> None:
        """Abandon the run before the lease is over."""
        pause = (1.0 - _ABANDON) * self._record.seconds / 2
        while not self._ended.wait(pause):
            if self._passed(_ABANDON):
                if self._abandon is not None:
                    self._abandon()
                return


class GuardedSink:
    """A sink that an instance without a lease does not write to."""

    def __init__(self, sink: Sink, check: Callable[[], None]) -> None:
        self._sink = sink
        self._check = check

    def open(self, position: SinkPosition | None) -> None:
        """Open the sink."""
        self._check()
        self._sink.open(position)

    def write(self, delivery: Delivery) -> None:
        """Write one delivery."""
        self._check()
        self._sink.write(delivery)

    def flush(self) -> SinkPosition:
        """Make everything durable."""
        self._check()
        return self._sink.flush()

    def close(self) -> None:
        """Close the sink."""
        self._sink.close()


@contextmanager
def one_instance(
    store: Store, lease: Lease | None, *, stop: Event, take_over: bool
) -> Iterator[bool]:
    """Keep other instances out while inside; False if `stop` was set while it waited."""
    if lease is None:
        with store.lock(take_over=take_over):
            yield True
    elif not lease.acquire(stop, take_over=take_over):
        yield False
    else:
        with lease, store.lock(take_over=take_over or lease.was_expired):
            yield True


def checked_lease(seconds: float) -> float:
    """Return the duration of a lease; raises `InputError` if it is too short."""
    if not seconds >= SHORTEST:
        raise InputError(
            f"checkpoint.lease must be at least {SHORTEST:g} s, got {seconds:g}; 10s is usual."
        )
    return seconds
