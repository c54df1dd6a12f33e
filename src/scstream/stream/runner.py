"""The pipeline: read, batch, learn, deliver, commit; repeated until it is stopped.

`Pipeline.run` is the page to read. Reading ahead and writing behind are two threads with short
queues; without them (`threads=False`) everything happens in order on one thread, as in a simulator,
and the labels are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Event

from scstream.errors import (
    CheckpointCorrupt,
    Fenced,
    LeaseLost,
    SourceChanged,
    SourceGap,
    SourceRegressed,
)
from scstream.io.disk import reports_full_disk
from scstream.io.header import Plain
from scstream.observe.alerts import AlertRules
from scstream.observe.events import (
    AlertRaised,
    BatchLearned,
    CheckpointDamaged,
    EditApplied,
    EventCallback,
    GapAccepted,
    Started,
    Stopped,
    ignore_event,
)
from scstream.stream.batcher import BatchBoundary, Batcher, Batching, SourceBatch
from scstream.stream.checkpoint_log import CheckpointLog
from scstream.stream.clock import Clock, Stopwatch, SystemClock
from scstream.stream.commit import PendingCommit, commit
from scstream.stream.decoders import DecodingReader
from scstream.stream.deliveries import (
    alert_delivery,
    batch_summary,
    chain_digest,
    dead_letter_delivery,
    event_delivery,
    label_delivery,
)
from scstream.stream.edit_queue import EditQueue
from scstream.stream.embedding import Embedder
from scstream.stream.kept_types import KeptTypes
from scstream.stream.lease import GuardedSink, Lease, one_instance
from scstream.stream.processor import Learned, Processor, apply_request
from scstream.stream.progress import Progress
from scstream.stream.queues import AsyncWriter, PrefetchingReader, SyncReader, SyncWriter
from scstream.stream.schema import Reader
from scstream.stream.sink import NullSink, Sink, column_types
from scstream.stream.skips import SkippingSource, read_skips
from scstream.stream.source import Source

BatchCallback = Callable[[SourceBatch, Learned], None]
_GAPS = (SourceChanged, SourceGap, SourceRegressed)
_LINEAGE = 1_000_000_000  # batches that may differ from earlier ones get numbers from here on


def ignore_batch(source_batch: SourceBatch, learned: Learned) -> None:
    """Ignore a batch."""


@dataclass(frozen=True)
class CheckpointPolicy:
    """When to write a checkpoint: after `batches` or `seconds`, whichever comes first.

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

    def records_digest(self, batch: int) -> bool:
        """Whether the digest after a batch is recorded."""
        return self.digests > 0 and batch % self.digests == self.digests - 1


@dataclass
class Pipeline:
    """Reads rows from a source, learns them and writes their labels to a sink.

    `scstream.stream.config.build` makes one from settings.

    Parameters
    ----------
    job : str
        Name of the pipeline; part of the key of every label.
    source : Source
        Where rows come from.
    reader : Reader
        Reads messages into rows.
    processor : Processor
        Learns the rows: one model, or one for every key.
    sink, dead_letters : Sink
        Where labels, and rows that cannot be used, go.
    checkpoint_log : CheckpointLog
        Where checkpoints are stored.
    batching : Batching
        Where batches end.
    checkpoint_policy : CheckpointPolicy
        When checkpoints are written.
    clock : Clock
        The time.
    emit : callable
        Called with every event, such as `scstream.observe.events.BatchLearned`.
    on_batch : callable
        Called with every batch: its rows and where they came from, and what was learned.
    alert_rules : AlertRules
        The alert rules.
    alerts : Sink
        Where alerts go.
    events : Sink
        Where events of clusters go, edits by people included.
    threads : bool
        Read ahead and write behind on threads of their own.
    decoders : int
        Number of processes that decode messages; 0 or 1 decodes them in this process.
    settings : mapping
        The settings that labels depend on, as the user wrote them; a checkpoint that was written
        with other settings is rejected.
    embedder : Embedder, optional
        Makes vectors of a text column before a batch is learned.
    lease : float, optional
        Seconds for which the lease of the working instance is valid after a renewal, in settings
        also text such as "10s"; without one there are no standby instances and no heartbeat.
    abandon : callable, optional
        Ends the process; called shortly before a lease is over that could not be renewed.

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
    events: Sink = field(default_factory=NullSink)
    threads: bool = True
    decoders: int = 0
    settings: Plain = field(default_factory=dict)
    embedder: Embedder | None = None
    lease: float | None = None
    abandon: Callable[[], None] | None = None
    _check_lease: Callable[[], None] | None = field(default=None, init=False, repr=False)

    def run(
        self,
        *,
        savepoint: str | None = None,
        accept_gap: bool = False,
        take_over: bool = False,
        stop: Event | None = None,
        until: int | None = None,
    ) -> int:
        """Run until the source ends, `stop` is set, or batch `until` is next.

        Parameters
        ----------
        savepoint : str, optional
            Start from this savepoint instead of the newest valid checkpoint or the beginning.
        accept_gap : bool
            Continue although the source has lost messages.
        take_over : bool
            Start although another instance seems to run or holds the lease; it is fenced off.
        stop : Event, optional
            Set it to end after the current batch, with everything committed.
        until : int, optional
            End before this batch.

        Returns
        -------
        int
            Number of batches learned.
        """
        stop = stop or Event()
        store, lease = self.checkpoint_log.store, self._new_lease()
        with (
            reports_full_disk(),
            one_instance(store, lease, stop=stop, take_over=take_over) as is_alone,
        ):
            try:
                if not is_alone:  # told to stop while it waited
                    return 0
                return self._run(savepoint, accept_gap, stop, until)
            except Exception as error:
                # A fenced instance may fail in any way: the other one has pruned its files.
                # One without a lease may not reach the store.
                if isinstance(error, Fenced | LeaseLost) or not self.checkpoint_log.is_fenced():
                    raise
                raise self.checkpoint_log.fenced() from error
            finally:
                self.close()

    def _run(self, savepoint: str | None, accept_gap: bool, stop: Event, until: int | None) -> int:
        epoch = self.checkpoint_log.claim(time=self.clock.now())
        self._restore(savepoint, accept_gap=accept_gap)
        self.emit(Started(epoch, self._batcher.batch, self.job))
        first = self._batcher.batch
        if self.embedder is not None:
            self.embedder.begin(self.checkpoint_log, stop)
        with self._open_reader(stop) as reader, self._open_writer() as writer:
            self._since = self.clock.elapsed()
            while not stop.is_set() and (until is None or self._batcher.batch < until):
                is_first = self._batcher.is_first
                watch = Stopwatch(self.clock)
                self._apply_edits(writer)
                source_batch = self._next_batch(reader, writer, stop)
                if source_batch is None:
                    break
                watch.lap("wait")
                names = self.reader.schema.features
                if self.embedder is not None:
                    source_batch = self.embedder.apply(source_batch, self.checkpoint_log.store)
                    names = self.embedder.feature_names(names)
                    watch.lap("embed")
                if is_first:
                    self.processor.set_columns(names)
                learned = self.processor.learn(source_batch)
                watch.lap("learn")
                self._deliver(source_batch, learned, writer)
                watch.lap("deliver")
                self._report(source_batch, learned, writer, watch)
                if self._is_due():
                    self._commit(writer)
            self._commit(writer)
        self._edits.stop(self._batcher.batch)
        self.emit(Stopped(self._batcher.batch, drained=stop.is_set()))
        return self._batcher.batch - first

    def _new_lease(self) -> Lease | None:
        """Return the lease to acquire; sinks and commits check it from now on."""
        if self.lease is None:
            return None
        store, clock = self.checkpoint_log.store, self.clock
        lease = Lease(store, self.lease, clock=clock, emit=self.emit, abandon=self.abandon)
        self._check_lease = lease.check
        return lease

    def close(self) -> None:
        """Close source, sinks and processor; `run` has done so."""
        self.source.close()
        for sink in self._sinks.values():
            sink.close()
        self.processor.close()

    def _restore(self, savepoint: str | None, *, accept_gap: bool) -> None:
        progress = self._last_progress(savepoint)
        known = progress or Progress(0)
        self._digest, self._n_rows, self._n_rejected = known.digest, known.rows, known.rejected
        self._batcher = Batcher(
            self.batching,
            self.reader.schema.time,
            batch=known.batch,
            offsets=dict(known.offsets),
            watermark=known.watermark,
            is_first=known.rows == 0,
        )
        if progress is not None:
            self.reader.schema = progress.schema
            self.alert_rules.restore(progress.alerts)
        self._edit_events = known.edit_events
        store = self.checkpoint_log.store
        self._edits = EditQueue(store, self.clock, next_edit=known.edits)
        self._edits.prune(self.checkpoint_log.oldest_batch)
        self._boundaries = self.checkpoint_log.boundaries(start=self._batcher.batch)
        if savepoint is not None and self._has_lost_boundaries():
            self._start_lineage()
        self._open_source(progress, accept_gap=accept_gap)
        self._skips = read_skips(store, self.source.identity())
        for name, sink in self._sinks.items():
            sink.open(known.sinks.get(name))
        self._kept_types = KeptTypes(dict(self.reader.schema.keep_types))
        is_new = self._kept_types.adopt(self.reader.schema.keep, column_types(self.sink))
        self._committed = -1 if is_new or not known.sinks else self._batcher.batch
        with SyncWriter(self._sinks, self._finish) as writer:
            self._commit(writer)  # before anything is written, so that sinks know where they began

    def _last_progress(self, savepoint: str | None) -> Progress | None:
        """Restore the processor from the newest valid checkpoint; return the progress in it."""
        if savepoint is not None:
            content = self.checkpoint_log.read_savepoint(savepoint)
            return self._restore_processor(content, savepoint)
        damage: CheckpointCorrupt | None = None
        for name, content in self.checkpoint_log.checkpoints():
            try:
                return self._restore_processor(content, name)
            except CheckpointCorrupt as error:
                damage = error
                self.emit(CheckpointDamaged(name, str(error)))
                self.checkpoint_log.discard(name)
        if damage is not None:
            raise damage
        return None

    def _restore_processor(self, content: bytes, name: str) -> Progress:
        progress = self.processor.restore(content, name=name)
        progress.check(self.job, self.settings)
        return progress

    def _open_source(self, progress: Progress | None, *, accept_gap: bool) -> None:
        resume = None  # a migrated job may begin at the beginning of another source
        if progress is not None and progress.identity:
            resume = progress.resume
        try:
            self.source.open(resume)
        except _GAPS as error:
            if not accept_gap:
                raise
            self.emit(GapAccepted(str(error)))
            self.source.open(resume, accept_gap=True)
            self._start_lineage()
            if not isinstance(error, SourceGap):
                self._batcher.offsets.clear()

    def _has_lost_boundaries(self) -> bool:
        """Whether batches after an old savepoint cannot end where they ended the first time."""
        recorded = self.batching.records_boundaries(self._batcher.offsets)
        return recorded and self._batcher.batch not in self._boundaries

    def _start_lineage(self) -> None:
        """Use new batch numbers: what follows is not what sinks hold under the next numbers."""
        self._batcher.batch = (self._batcher.batch // _LINEAGE + 1) * _LINEAGE
        self._boundaries = {}

    def _next_batch(
        self, reader: SyncReader, writer: SyncWriter, stop: Event
    ) -> SourceBatch | None:
        """Return the next batch; None if the source has ended or `stop` is set."""
        batcher = self._batcher
        while not stop.is_set():
            boundary = self._next_boundary(final=reader.done)
            if boundary is not None:
                source_batch = batcher.take(boundary)
                batcher.restart_timer(self.clock.elapsed())
                return replace(source_batch, block=self._kept_types.fit(source_batch.block))
            if reader.done and (not batcher.n_waiting or batcher.batch in self._boundaries):
                self._check_end()
                return None
            writer.check()
            if self._check_lease is not None:
                self._check_lease()
            if self._is_due():  # commit what was learned although the source is idle
                self._commit(writer)
            self._apply_edits(writer)
            for record, block in reader.read():
                batcher.add(record, block, elapsed=self.clock.elapsed())
        return None

    def _apply_edits(self, writer: SyncWriter) -> None:
        """Apply the edits that people sent, between two batches, and commit them."""
        if not self.processor.has_model:
            return
        batch, before = self._batcher.batch, self._edits.next_edit
        for number, request in self._edits.due(batch):
            applied = apply_request(self.processor, number, request, batch=batch)
            if isinstance(applied, EditApplied):
                self._edit_events = (*self._edit_events, *applied.events)
            self.emit(applied)
        if self._edits.next_edit != before:
            self._committed = -1
            self._commit(writer)

    def _check_end(self) -> None:
        """Raise if the source has ended before rows that are known to exist."""
        batcher = self._batcher
        if batcher.n_waiting:
            raise SourceRegressed(
                f"batch {batcher.batch} was recorded with "
                f"{sum(self._boundaries[batcher.batch].rows.values())} rows, and the source ends "
                f"after {batcher.n_waiting} of them; restore them, or start with a new checkpoint "
                "folder."
            )
        for partition, offset in batcher.offsets.items():
            if offset.row and batcher.batch % _LINEAGE:  # after an accepted gap it is expected
                where = f" of partition {partition}" if partition else ""
                raise SourceRegressed(
                    f"the source ends before row {offset.row} of the message at {offset.position}"
                    f"{where}, which was read before; restore its rows, or start with --accept-gap."
                )

    def _next_boundary(self, *, final: bool) -> BatchBoundary | None:
        batcher = self._batcher
        if batcher.batch not in self._boundaries:
            elapsed, now = self.clock.elapsed(), self.clock.now()
            boundary = batcher.next_boundary(elapsed=elapsed, now=now)
            by_chance = boundary is None or self.batching.records_boundaries(boundary.rows)
            if boundary is None and final:
                boundary = batcher.next_boundary(elapsed=elapsed, now=now, final=True)
            if boundary is None or not (by_chance or boundary.clock is not None):
                return boundary
            self._boundaries[boundary.batch] = self.checkpoint_log.record_boundary(boundary)
        boundary = self._boundaries[batcher.batch]
        return self._boundaries.pop(batcher.batch) if batcher.has_rows_of(boundary) else None

    def _deliver(self, source_batch: SourceBatch, learned: Learned, writer: SyncWriter) -> None:
        batch, block, schema = source_batch.batch, learned.block, self.reader.schema
        self._edits.before_delivery(batch)
        key = () if schema.key is None else (schema.key,)
        labels = label_delivery(self.job, batch, learned, dict.fromkeys((*key, *schema.keep)))
        labels = replace(labels, types=self._kept_types.known)
        self._digest = chain_digest(self._digest, labels)
        if self.checkpoint_policy.records_digest(batch):
            self.checkpoint_log.record_digest(batch, self._digest)
        writer.write("labels", labels)
        if block.rejects:
            letters = dead_letter_delivery(
                self.job, source_batch, learned, features=schema.features or ()
            )
            writer.write("dead_letters", letters)
        self._n_rows += block.n_rows
        self._n_rejected += len(block.rejects)

    def _report(
        self, source_batch: SourceBatch, learned: Learned, writer: SyncWriter, watch: Stopwatch
    ) -> None:
        """Emit the events of a batch; alerts are delivered as labels are."""
        happened = (*self._edit_events, *learned.info.events)
        self._edit_events = ()
        if happened:
            writer.write("events", event_delivery(self.job, source_batch.batch, happened))
        summary = batch_summary(source_batch.batch, learned, n_future=source_batch.n_future)
        alerts = self.alert_rules.check(summary)
        if alerts:
            writer.write("alerts", alert_delivery(self.job, source_batch.batch, alerts))
        self.on_batch(source_batch, learned)
        waiting, now = self._batcher.n_waiting, self.clock.now()
        self.emit(BatchLearned(**vars(summary), waiting=waiting, seconds=watch.laps, time=now))
        for alert in alerts:
            self.emit(AlertRaised(source_batch.batch, **vars(alert)))

    def _is_due(self) -> bool:
        policy, batches = self.checkpoint_policy, self._batcher.batch - self._committed
        return batches >= policy.batches or self.clock.elapsed() - self._since >= policy.seconds

    def _commit(self, writer: SyncWriter) -> None:
        batcher = self._batcher
        if self._committed == batcher.batch:
            return
        progress = Progress(
            batch=batcher.batch,
            time=self.clock.now(),
            job=self.job,
            settings=self.settings,
            identity=dict(self.source.identity()),
            offsets=dict(batcher.offsets),
            schema=replace(self.reader.schema, keep_types=dict(self._kept_types.types)),
            watermark=batcher.watermark,
            digest=self._digest,
            rows=self._n_rows,
            rejected=self._n_rejected,
            alerts=self.alert_rules.save(),
            edits=self._edits.next_edit,
            edit_events=self._edit_events,
        )
        self._edits.prune(self.checkpoint_log.oldest_batch)
        writer.commit(PendingCommit(self.processor.freeze(), progress))
        self._committed, self._since = batcher.batch, self.clock.elapsed()

    @property
    def connections(self) -> dict[str, bool]:
        """Whether "source" and sinks can be used; those without a server are left out."""
        connectors = {"source": self.source, **self._unguarded_sinks}
        found = {name: getattr(each, "connected", None) for name, each in connectors.items()}
        return {name: connected for name, connected in found.items() if connected is not None}

    @property
    def _unguarded_sinks(self) -> dict[str, Sink]:
        return {
            "labels": self.sink,
            "dead_letters": self.dead_letters,
            "alerts": self.alerts,
            "events": self.events,
        }

    @property
    def _sinks(self) -> dict[str, Sink]:
        sinks, check = self._unguarded_sinks, self._check_lease
        if check is None:
            return sinks
        return {name: GuardedSink(sink, check) for name, sink in sinks.items()}

    def _open_reader(self, stop: Event) -> SyncReader:
        source = SkippingSource(self.source, self._skips) if self._skips else self.source
        if self.decoders > 1:
            return DecodingReader(source, self.reader, stop, n_processes=self.decoders)
        return (PrefetchingReader if self.threads else SyncReader)(source, self.reader, stop)

    def _open_writer(self) -> SyncWriter:
        return (AsyncWriter if self.threads else SyncWriter)(self._sinks, self._finish)

    def _finish(self, pending: PendingCommit) -> None:
        commit(
            pending,
            sinks=self._sinks,
            log=self.checkpoint_log,
            source=self.source,
            emit=self.emit,
            clock=self.clock,
        )
