"""The pipeline: read, batch, learn, deliver, commit; over and over, until it is told to stop.

`Pipeline.run` is the page to read. Reading ahead and writing behind are two threads with short
queues; without them (`threads=False`) everything happens in order on one thread, as in a simulator,
and the labels are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from threading import Event
from typing import Any

from scstream.errors import (
    CheckpointCorrupt,
    Fenced,
    InputError,
    SourceChanged,
    SourceGap,
    SourceRegressed,
)
from scstream.observe.alerts import AlertRules
from scstream.stream.batcher import BatchBoundary, Batcher, Batching, SourceBatch, offsets_from_dict
from scstream.stream.checkpoint_log import CheckpointLog
from scstream.stream.clock import Clock, Stopwatch, SystemClock
from scstream.stream.commit import PendingCommit, commit
from scstream.stream.deliveries import (
    alert_delivery,
    batch_summary,
    chain_digest,
    dead_letter_delivery,
    label_delivery,
)
from scstream.stream.processor import Learned, Processor
from scstream.stream.queues import (
    AsyncWriter,
    Feed,
    Outlet,
    PrefetchingReader,
    SyncReader,
    SyncWriter,
)
from scstream.stream.schema import Reader, Schema
from scstream.stream.sink import NullSink, Sink
from scstream.stream.source import Resume, Source

EventCallback = Callable[..., None]  # kind of event, and its values by name
BatchCallback = Callable[[SourceBatch, Learned], None]
_GAPS = (SourceChanged, SourceGap, SourceRegressed)
_LINEAGE = 1_000_000_000  # batches; what cannot be the same as before has other numbers


def ignore_event(kind: str, /, **values: Any) -> None:
    """Ignore an event."""


def ignore_batch(source_batch: SourceBatch, learned: Learned) -> None:
    """Ignore a batch."""


@dataclass(frozen=True)
class CheckpointPolicy:
    """When to write a checkpoint: after so many batches, or seconds, whichever comes first.

    Parameters
    ----------
    batches : int
        Batches between two checkpoints.
    seconds : float
        Seconds between two checkpoints.
    digests : int
        Batches between two digests that a replay is compared with; 0 for none.

    Examples
    --------
    >>> from scstream.stream.runner import CheckpointPolicy
    >>> CheckpointPolicy(batches=10).seconds
    10.0
    """

    batches: int = 100
    seconds: float = 10.0
    digests: int = 100


@dataclass
class Pipeline:
    """From a source to labels in a sink.

    Parameters
    ----------
    job : str
        Name of the pipeline; part of the key of every label.
    source : Source
        Where rows come from.
    reader : Reader
        Reads messages into rows.
    processor : Processor
        What learns them.
    sink, dead : Sink
        Where labels, and rows that cannot be used, go.
    ledger : Ledger
        Where checkpoints are kept.
    batching : Batching
        Where batches end.
    pace : Pace
        When checkpoints are written.
    clock : Clock
        What time it is.
    emit : callable
        Is told what happens: ``emit("batch", batch=3, rows=1000, ...)``.
    on_batch : callable
        Is shown every batch: where it came from, and what became of its rows.
    alert_rules : AlertRules
        Hears of every batch, and says what somebody should look at.
    alerts : Sink
        Where that goes.
    threads : bool
        Read ahead and write behind on threads of their own.
    settings : mapping
        What the labels depend on, as the user wrote it; a checkpoint of other settings is refused.

    Examples
    --------
    See the tutorial, docs/tutorials/broker-to-table.md.
    """

    job: str
    source: Source
    reader: Reader
    processor: Processor
    sink: Sink
    checkpoint_log: CheckpointLog
    dead_letters: Sink = field(default_factory=NullSink)
    batching: Batching = field(default_factory=Batching)
    checkpoint_policy: CheckpointPolicy = field(default_factory=CheckpointPolicy)
    clock: Clock = field(default_factory=SystemClock)
    emit: EventCallback = ignore_event
    on_batch: BatchCallback = ignore_batch
    alert_rules: AlertRules = field(default_factory=AlertRules)
    alerts: Sink = field(default_factory=NullSink)
    threads: bool = True
    settings: Mapping[str, Any] = field(default_factory=dict)

    def run(
        self,
        *,
        savepoint: str | None = None,
        accept_gap: bool = False,
        take_over: bool = False,
        stop: Event | None = None,
        until: int | None = None,
    ) -> int:
        """Run until the source ends, `stop` is set, or batch `until` is next; return batches done.

        Parameters
        ----------
        savepoint : str, optional
            Start from there, and not from the newest sound checkpoint or the beginning.
        accept_gap : bool
            Go on where the source has lost messages.
        take_over : bool
            Start although another instance on this machine seems to run; it is fenced off.
        stop : Event, optional
            Set it to end after the batch in hand, with everything committed.
        until : int, optional
            End before this batch.

        Returns
        -------
        int
            Number of batches learned.
        """
        stop = stop or Event()
        with nullcontext() if take_over else self.checkpoint_log.store.lock():
            try:
                return self._run(savepoint, accept_gap, stop, until)
            except Exception as error:
                # Who was overtaken may stumble over anything: the other has tidied up meanwhile.
                if isinstance(error, Fenced) or not self.checkpoint_log.is_overtaken():
                    raise
                raise self.checkpoint_log.overtaken() from error
            finally:
                self.close()

    def _run(self, savepoint: str | None, accept_gap: bool, stop: Event, until: int | None) -> int:
        epoch = self.checkpoint_log.claim(at=self.clock.now())
        self._restore(savepoint, accept_gap=accept_gap)
        self.emit("started", epoch=epoch, batch=self._batcher.batch, job=self.job)
        first = self._batcher.batch
        with self._feed(stop) as feed, self._outlet() as outlet:
            self._since = self.clock.elapsed()
            while not stop.is_set() and (until is None or self._batcher.batch < until):
                is_first = self._batcher.is_first
                watch = Stopwatch(self.clock)
                source_batch = self._next_parcel(feed, outlet, stop)
                if source_batch is None:
                    break
                watch.lap("wait")
                if is_first:
                    self.processor.set_columns(self.reader.schema.features)
                learned = self.processor.learn(source_batch)
                watch.lap("learn")
                self._deliver(source_batch, learned, outlet)
                watch.lap("deliver")
                self._tell(source_batch, learned, outlet, watch)
                if self._is_due():
                    self._commit(outlet)
            self._commit(outlet)
        self.emit("stopped", batch=self._batcher.batch, drained=stop.is_set())
        return self._batcher.batch - first

    def close(self) -> None:
        """Close source, sinks and processor; `run` has done so."""
        for end in (self.source, self.sink, self.dead_letters, self.alerts, self.processor):
            end.close()

    def _restore(self, savepoint: str | None, *, accept_gap: bool) -> None:
        progress = self._last_progress(savepoint)
        batching, column = self.batching, self.reader.schema.time
        self._digest = progress.get("digest", "")
        self._n_rows, self._n_rejected = progress.get("rows", 0), progress.get("rejected", 0)
        self._batcher = Batcher(batching, column)
        if progress:
            self._batcher = Batcher(
                batching,
                column,
                batch=progress["batch"],
                mark=offsets_from_dict(progress["mark"]),
                watermark=progress["watermark"],
                is_first=progress["rows"] == 0,
            )
            self.reader.schema = Schema(**progress["schema"])
            self.alert_rules.restore(progress.get("alerts", {}))
        self._planned = self.checkpoint_log.planned(after=self._batcher.batch)
        if savepoint is not None and self._has_lost_cuts():
            self._start_lineage()
        self._open_source(progress, accept_gap=accept_gap)
        for name, sink in self._sinks.items():
            sink.open(progress["sinks"].get(name) if progress else None)
        self._committed = self._batcher.batch if progress else -1
        with SyncWriter(self._sinks, self._finish) as outlet:
            self._commit(outlet)  # before anything is written, so that sinks know where they began

    def _last_progress(self, savepoint: str | None) -> Mapping[str, Any]:
        """Restore the processor from the newest sound checkpoint; return the progress in it."""
        if savepoint is not None:
            content = self.checkpoint_log.read_savepoint(savepoint)
            return self._checked(self.processor.restore(content, name=savepoint))
        damage: CheckpointCorrupt | None = None
        for name, content in self.checkpoint_log.checkpoints():
            try:
                return self._checked(self.processor.restore(content, name=name))
            except CheckpointCorrupt as error:
                damage = error
                self.emit("damaged", name=name, reason=str(error))
                self.checkpoint_log.forget(name)
        if damage is not None:
            raise damage
        return {}

    def _checked(self, progress: Mapping[str, Any]) -> Mapping[str, Any]:
        if progress["job"] != self.job:
            raise InputError(
                f"these checkpoints are of the job {progress['job']!r}, not {self.job!r}; give "
                "every job a folder of its own."
            )
        changed = [
            name
            for name in {**progress["settings"], **self.settings}
            if progress["settings"].get(name) != self.settings.get(name)
        ]
        if changed:
            raise InputError(
                f"the checkpoint was written with other settings of {', '.join(sorted(changed))}; "
                "put them back, or start a new job with checkpoints of its own."
            )
        return progress

    def _open_source(self, progress: Mapping[str, Any], *, accept_gap: bool) -> None:
        resume = None
        if progress:
            positions = {
                partition: place.position for partition, place in self._batcher.mark.items()
            }
            resume = Resume(progress["identity"], positions)
        try:
            self.source.open(resume)
        except _GAPS as error:
            if not accept_gap:
                raise
            self.emit("gap", reason=str(error))
            self.source.open(resume, accept_gap=True)
            self._start_lineage()
            if not isinstance(error, SourceGap):
                self._batcher.mark.clear()

    def _has_lost_cuts(self) -> bool:
        """Whether batches after an old savepoint cannot be cut as they were the first time."""
        logged = self.batching.is_logged(self._batcher.mark)
        return logged and self._batcher.batch not in self._planned

    def _start_lineage(self) -> None:
        """Number batches anew: what follows is not what stands under the next numbers in sinks."""
        self._batcher.batch = (self._batcher.batch // _LINEAGE + 1) * _LINEAGE
        self._planned = {}

    def _next_parcel(self, feed: Feed, outlet: Outlet, stop: Event) -> SourceBatch | None:
        """Rows of the next batch; None if the source has ended or it is time to stop."""
        batcher = self._batcher
        while not stop.is_set():
            cut = self._next_cut(final=feed.done)
            if cut is not None:
                source_batch = batcher.take(cut)
                batcher.restart_timer(self.clock.elapsed())
                return source_batch
            if feed.done and not batcher.n_waiting:
                self._check_reached()
                return None
            if feed.done and batcher.batch in self._planned:
                raise SourceRegressed(
                    f"batch {batcher.batch} was planned with "
                    f"{sum(self._planned[batcher.batch].rows.values())} rows, and the source ends "
                    f"after {batcher.n_waiting} of them; bring them back, or start with a new "
                    "checkpoint folder."
                )
            outlet.check()
            if self._is_due():  # what was learned must last though the source is silent
                self._commit(outlet)
            for record, block in feed.read():
                batcher.add(record, block, elapsed=self.clock.elapsed())
        return None

    def _check_reached(self) -> None:
        """Raise if the source has ended within a message of which rows were read before."""
        for partition, place in self._batcher.mark.items():
            if place.row and self._batcher.batch % _LINEAGE:  # a gap that was accepted begins anew
                raise SourceRegressed(
                    f"the source ends before row {place.row} of the message at {place.position}"
                    f"{f' of partition {partition}' if partition else ''}, which was read already; bring its rows "
                    "back, or start with --accept-gap."
                )

    def _next_cut(self, *, final: bool) -> BatchBoundary | None:
        batcher = self._batcher
        if batcher.batch not in self._planned:
            elapsed, now = self.clock.elapsed(), self.clock.now()
            cut = batcher.propose(elapsed=elapsed, now=now)
            by_chance = cut is None or self.batching.is_logged(cut.rows)
            if cut is None and final:
                cut = batcher.propose(elapsed=elapsed, now=now, final=True)
            if cut is None or not by_chance:
                return cut
            self._planned[cut.batch] = self.checkpoint_log.agree(cut)
        cut = self._planned[batcher.batch]
        return self._planned.pop(batcher.batch) if batcher.covers(cut) else None

    def _deliver(self, source_batch: SourceBatch, learned: Learned, outlet: Outlet) -> None:
        block, schema = learned.block, self.reader.schema
        key = () if schema.key is None else (schema.key,)
        labels = label_delivery(
            self.job, source_batch, learned, dict.fromkeys((*key, *schema.keep))
        )
        self._digest = chain_digest(self._digest, labels)
        if (
            self.checkpoint_policy.digests
            and source_batch.batch % self.checkpoint_policy.digests
            == self.checkpoint_policy.digests - 1
        ):
            self.checkpoint_log.confirm(source_batch.batch, self._digest)
        outlet.write("labels", labels)
        if block.rejects:
            outlet.write("dead_letters", dead_letter_delivery(self.job, source_batch, learned))
        self._n_rows += block.n_rows
        self._n_rejected += len(block.rejects)

    def _tell(
        self, source_batch: SourceBatch, learned: Learned, outlet: Outlet, watch: Stopwatch
    ) -> None:
        """Say what happened, to whoever listens; alerts are delivered as labels are."""
        news = batch_summary(source_batch, learned)
        alerts = self.alert_rules.check(news)
        if alerts:
            outlet.write("alerts", alert_delivery(self.job, source_batch, alerts))
        self.on_batch(source_batch, learned)
        self.emit(
            "batch",
            **news,
            waiting=self._batcher.n_waiting,
            seconds=watch.laps,
            at=self.clock.now(),
        )
        for alert in alerts:
            self.emit("alert", batch=source_batch.batch, **asdict(alert))

    def _is_due(self) -> bool:
        batches = self._batcher.batch - self._committed
        return batches >= self.checkpoint_policy.batches or (
            self.clock.elapsed() - self._since >= self.checkpoint_policy.seconds
        )

    def _commit(self, outlet: Outlet) -> None:
        batcher = self._batcher
        if self._committed == batcher.batch:
            return
        progress = {
            "job": self.job,
            "settings": self.settings,
            "identity": dict(self.source.identity()),
            "watermark": batcher.watermark,
            "schema": asdict(self.reader.schema),
            "digest": self._digest,
            "rows": self._n_rows,
            "rejected": self._n_rejected,
            "alerts": self.alert_rules.save(),
        }
        work = PendingCommit(
            self.processor.freeze(), batcher.batch, dict(batcher.mark), progress, self.clock.now()
        )
        outlet.commit(work)
        self._committed, self._since = batcher.batch, self.clock.elapsed()

    @property
    def _sinks(self) -> dict[str, Sink]:
        return {"labels": self.sink, "dead_letters": self.dead_letters, "alerts": self.alerts}

    def _feed(self, stop: Event) -> Feed:
        return (PrefetchingReader if self.threads else SyncReader)(self.source, self.reader, stop)

    def _outlet(self) -> Outlet:
        return (AsyncWriter if self.threads else SyncWriter)(self._sinks, self._finish)

    def _finish(self, work: PendingCommit) -> None:
        commit(
            work,
            sinks=self._sinks,
            checkpoint_log=self.checkpoint_log,
            source=self.source,
            emit=self.emit,
            clock=self.clock,
        )
