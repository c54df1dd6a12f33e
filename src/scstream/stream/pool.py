"""One model for every key: thousands in a process; models not used lately are in the store.

The model of a key depends on its own rows and batches only: not on other keys, nor on which models
are in memory. A checkpoint writes the models that changed, and the locations of all of them.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from functools import partial
from threading import Lock
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from scstream.core.state import Event, Info
from scstream.errors import CheckpointCorrupt, InputError, StreamError
from scstream.io._packing import record
from scstream.io.model_file import DAMAGE, pack_pipeline, unpack_pipeline
from scstream.io.parameters import Parameters
from scstream.model import Model, Settings
from scstream.preprocess import Steps
from scstream.preprocess.block import Block, Reject
from scstream.stream.batcher import SourceBatch
from scstream.stream.edit_queue import EditRequest
from scstream.stream.entries import KeyedEntry, PoolIndex, PoolState
from scstream.stream.keyed import (
    KeyedModel,
    KeyOptions,
    model_file,
    model_of,
    n_bytes_of,
    part,
    rows_by_key,
    seed_of,
)
from scstream.stream.processor import Learned, edit_prepared, learn_block
from scstream.stream.progress import Progress
from scstream.stream.quotas import KeyQuotas
from scstream.stream.segments import SegmentList, SegmentLog, segment_name
from scstream.stream.store import Store


class ModelPool:
    """Independent models by key, as many in memory as fit; the others are in `store`.

    `column` is the column of keys. The seed of each model follows from its key and from
    `random_state` of the settings, which must be a whole number. Every key has its own
    preprocessing steps.
    """

    options: ClassVar[type[KeyOptions]] = KeyOptions

    def __init__(
        self,
        settings: Settings,
        steps: Steps,
        *,
        column: str,
        store: Store,
        keys: KeyOptions | None = None,
    ) -> None:
        if not isinstance(settings.random_state, int | np.integer):
            raise InputError("random_state must be a whole number: every key makes its seed of it.")
        if settings.kernel is not None:
            raise InputError("a model with a kernel of your own cannot be written; use half_life.")
        self._settings = settings
        self._steps = steps
        self._column = column
        self._limits = keys or KeyOptions()
        self._memory = self._limits.memory_bytes
        self._log = SegmentLog(store, size=self._limits.segment_bytes)
        self._saving = Lock()
        self._n_written = 0  # bytes of the log when the last checkpoint was written
        self._begin(PoolState({}, {}, {}, None, 0, 0))

    @classmethod
    def build(
        cls, model: Parameters, steps: Steps, *, column: str, store: Store, **options: Any
    ) -> ModelPool:
        """Build a pool from parameters of the models and options of the keys."""
        known = [field.name for field in fields(cls.options)]
        unknown = [name for name in options if name not in known]
        if unknown:
            raise InputError(f"there is no keys {unknown[0]!r}; there are: {', '.join(known)}.")
        return cls(
            Settings.of(model), steps, column=column, store=store, keys=cls.options(**options)
        )

    @property
    def keys(self) -> list[str]:
        """All known keys."""
        return list(self._index)

    @property
    def set_aside(self) -> list[str]:
        """Keys whose rows are rejected because they failed too often."""
        patience = self._limits.patience
        return [key for key, n in self._failures.items() if n >= patience]

    @property
    def n_bytes(self) -> int:
        """Bytes of models in memory, including old states that a checkpoint still needs."""
        return self._n_bytes + self._superseded_bytes

    def model(self, key: str) -> KeyedModel:
        """Return the model of a key, from memory or the store; raises KeyError."""
        entry = self._index[key]
        return entry.model or model_of(self._read(key, entry), key, blank=self._blank(key))

    def set_columns(self, names: tuple[str, ...] | None) -> None:
        """Set the names of the columns."""
        self._names = names
        if names is not None:
            self._steps = self._steps.with_columns(names)
            self._settings = self._settings.named(self._steps.feature_names(names))

    def learn(self, source_batch: SourceBatch) -> Learned:
        """Learn a batch, the rows of every key by themselves.

        A key that fails keeps its model, and its rows are rejected. An error of the store is not a
        failure of a key and is raised: the pipeline must restart from a checkpoint.
        """
        self._n_batches += 1
        block = source_batch.block
        rows, refused = rows_by_key(block, self._column)
        admitted = self._admitted(block, rows, refused)
        labels = np.zeros(block.n_rows, dtype=np.int64)
        infos: list[tuple[int, Info]] = []
        for key, model in self._models_of(admitted, block, refused):
            try:
                learned, steps, after, own = learn_block(
                    model.model, model.steps, part(block, admitted[key]), time=source_batch.time
                )
            except Exception as error:
                self._failures[key] = self._failures.get(key, 0) + 1
                refused += _refused(block, admitted[key], f"key {key!r} has failed: {error}")
                continue
            self._failures.pop(key, None)
            self._replace_model(key, KeyedModel(learned, steps))
            labels[after.row] = own
            refused += after.rejects
            if len(own) and isinstance(learned, Model):
                infos.append((len(own), learned.info))
        self._forget()
        return self._result(block.reject(refused), labels, infos)

    @property
    def has_model(self) -> bool:
        """Whether there is a model of any key."""
        return bool(self._index)

    def edit(self, request: EditRequest) -> tuple[Event, ...]:
        """Edit the model of a key."""
        key = request.key
        if key is None or key not in self._index:
            raise InputError(f"there is no model of the key {key!r}; name a key that has rows.")
        found = self.model(key)
        if not isinstance(found.model, Model):
            raise InputError(f"the model of the key {key!r} has no clusters yet.")
        model, events = edit_prepared(found.model, found.steps, request)
        self._replace_model(key, KeyedModel(model, found.steps))
        return events

    def freeze(self) -> Callable[[Progress], bytes]:
        """Fix the state: entries are shared, and later changes do not affect the checkpoint."""
        limit = self._log.limit()
        self._n_freezes += 1
        return partial(self._write, self._state(limit))

    def restore(self, content: bytes, *, name: str) -> Progress:
        """Continue from a checkpoint; models are read when rows of their keys come."""
        pipeline = unpack_pipeline(content, name=name)
        if pipeline is None or "pool" not in pipeline:
            raise InputError(
                f"{name} holds one model, not one for every key; give the pipeline with keys a "
                "checkpoint folder of its own."
            )
        try:
            listed = SegmentList(**pipeline["segments"])
            state = record(PoolIndex, pipeline["pool"]).to_state(listed.open(self._log.store))
            progress = Progress.from_dict(pipeline["progress"])
        except DAMAGE as error:
            raise CheckpointCorrupt(f"{name} is no valid checkpoint of keys: {error!r}.") from error
        # A number that was in use once must not name another content: readers cache by it.
        self._log.start_at(listed.limit)
        self._begin(replace(state, failures={}) if self._limits.retry else state)
        self.set_columns(self._names)
        return progress

    def close(self) -> None:
        """Do nothing: a restart learns again what is not in a checkpoint."""

    def _begin(self, state: PoolState) -> None:
        self._index = dict(state.index)
        self._failures = dict(state.failures)  # consecutive, of keys that have any
        self._last_seen = OrderedDict(state.last_seen)  # batch of the newest rows; oldest first
        if self._limits.forget_after:  # a checkpoint of an earlier version may lack this
            for key in self._index:
                self._last_seen.setdefault(key, state.n_batches)
        self._quotas = KeyQuotas(self._limits, self._index)
        self._names = None if state.names is None else tuple(state.names)
        self._n_batches = state.n_batches
        self._resident: OrderedDict[str, KeyedEntry] = OrderedDict()  # least recently used first
        self._superseded: deque[tuple[str, KeyedEntry]] = (
            deque()
        )  # old states that a checkpoint waits for
        self._n_bytes = self._superseded_bytes = 0
        self._n_freezes = 0
        self._n_clusters = sum(entry.n_clusters for entry in self._index.values())
        self.n_loaded = self.n_evicted = 0

    def _admitted(
        self, block: Block, rows: Mapping[str, NDArray[np.intp]], refused: list[Reject]
    ) -> dict[str, NDArray[np.intp]]:
        """Return the rows within the limits by key; decided before anything is learned."""
        limits, admitted = self._limits, {}
        self._quotas.begin_batch()
        for key, places in rows.items():
            is_new = key not in self._index
            if not is_new and self._failures.get(key, 0) >= limits.patience:
                self._see(key)
                why = f"key {key!r} is set aside: it failed {self._failures[key]} times in a row"
                refused += _refused(block, places, f"{why}; keys.retry gives it another chance")
                continue
            n, why = self._quotas.admit(key, len(places), n_keys=len(self._index), is_new=is_new)
            refused += _refused(block, places[n:], why)
            if n or not is_new:
                self._see(key)
            if n:
                admitted[key] = places[:n]
        return admitted

    def _see(self, key: str) -> None:
        """Note that a key has rows in this batch."""
        self._index.setdefault(key, KeyedEntry(n_freezes=self._n_freezes))
        if self._limits.forget_after:
            self._last_seen[key] = self._n_batches
            self._last_seen.move_to_end(key)

    def _result(
        self, block: Block, labels: NDArray[np.int64], infos: list[tuple[int, Info]]
    ) -> Learned:
        """Return the result of a batch; `labels` has an entry for every row, also for rejects."""
        return Learned(
            block,
            labels[block.row],
            self._n_clusters,
            infos,
            n_keys=len(self._index),
            over_quota=dict(self._quotas.refused),
        )

    def _models_of(
        self, wanted: Mapping[str, NDArray[np.intp]], block: Block, refused: list[Reject]
    ) -> Iterator[tuple[str, KeyedModel]]:
        """Yield the models of keys: first those in memory, before others replace them."""
        waiting = []
        for key in wanted:
            entry = self._index[key]
            if entry.model is None:
                waiting.append((key, entry, entry.extent))
            else:
                yield key, entry.model
        for key, entry, extent in waiting:
            if extent is None:
                yield key, self._admit(key, entry, self._blank(key))
        stored = [(key, entry, extent) for key, entry, extent in waiting if extent is not None]
        for i, content in self._log.read_many([extent for _, _, extent in stored]):
            key, entry, _ = stored[i]
            try:
                model = self._loaded(key, entry, content)
            except CheckpointCorrupt as error:
                refused += _refused(block, wanted[key], f"key {key!r} is set aside: {error}")
                self._set_aside_damaged(key, entry)
            else:
                self.n_loaded += 1
                yield key, self._admit(key, entry, model)

    def _loaded(self, key: str, entry: KeyedEntry, content: bytes) -> KeyedModel:
        """Return the model from its file; a damaged one is read once more."""
        blank = self._blank(key)
        try:
            return model_of(content, key, blank=blank)
        except CheckpointCorrupt:
            return model_of(self._read(key, entry), key, blank=blank)

    def _read(self, key: str, entry: KeyedEntry) -> bytes:
        while True:
            extent = entry.extent
            assert extent is not None
            try:
                return self._log.read(extent)
            except KeyError:
                if entry.extent is not extent:
                    continue  # the writer has moved it and deleted its segment
                raise StreamError(
                    f"{segment_name(extent.segment.number or 0)} with the model of key {key!r} is "
                    "gone while the pipeline runs: another instance has taken over, or its "
                    "checkpoints were deleted. Start it again."
                ) from None

    def _blank(self, key: str) -> KeyedModel:
        """Return the model of a key before its first batch."""
        seed = seed_of(int(self._settings.random_state), key)
        return KeyedModel(replace(self._settings, random_state=seed), self._steps)

    def _admit(self, key: str, entry: KeyedEntry, model: KeyedModel) -> KeyedModel:
        """Take a model into memory."""
        entry.model, entry.n_bytes = model, n_bytes_of(model)
        self._resident[key] = entry
        self._n_bytes += entry.n_bytes
        self._evict()
        return model

    def _replace_model(self, key: str, model: KeyedModel) -> None:
        """Replace the model of a key, which is in memory."""
        before = self._index[key]
        if before.model and all(a is b for a, b in zip(model, before.model, strict=True)):
            self._resident.move_to_end(key)
            return
        self._release(key, before)
        entry = KeyedEntry(n_clusters=model.n_clusters, n_freezes=self._n_freezes)
        self._index[key] = entry
        self._n_clusters += entry.n_clusters
        self._admit(key, entry, model)

    def _set_aside_damaged(self, key: str, entry: KeyedEntry) -> None:
        """Set aside a key whose model is damaged; a retry starts with a new model."""
        self._release(key, entry)
        self._failures[key] = self._limits.patience
        self._index[key] = KeyedEntry(n_freezes=self._n_freezes)
        self._admit(key, self._index[key], self._blank(key))

    def _forget(self) -> list[str]:
        """Drop keys that had no rows for too long; return them."""
        longest, forgotten = self._limits.forget_after, []
        while longest and self._last_seen:
            key, batch = next(iter(self._last_seen.items()))
            if self._n_batches - batch < longest:
                break
            del self._last_seen[key]
            self._failures.pop(key, None)
            self._quotas.forget(key)
            self._release(key, self._index.pop(key))
            forgotten.append(key)
        return forgotten

    def _release(self, key: str, entry: KeyedEntry) -> None:
        """Release a state that is no longer the newest; a checkpoint may still need it."""
        self._n_clusters -= entry.n_clusters
        if entry.model is None:
            return
        del self._resident[key]
        self._n_bytes -= entry.n_bytes
        if entry.extent is None and entry.n_freezes < self._n_freezes:
            self._superseded.append((key, entry))
            self._superseded_bytes += entry.n_bytes
        else:
            entry.model = None

    def _evict(self) -> None:
        """Write models until the rest fits; first those that a checkpoint needs anyway."""
        memory = self._memory
        while self.n_bytes > memory and self._superseded:
            key, old = self._superseded.popleft()
            self._superseded_bytes -= old.n_bytes
            self._save(key, old)
            old.model = None
        while self.n_bytes > memory and len(self._resident) > 1:
            key, entry = self._resident.popitem(last=False)
            self._n_bytes -= entry.n_bytes
            self._save(key, entry)
            entry.model = None
            self.n_evicted += 1

    def _save(self, key: str, entry: KeyedEntry) -> None:
        """Write a state to the log, unless the other thread has."""
        with self._saving:
            if entry.extent is None:
                assert entry.model is not None
                entry.extent = self._log.append(model_file(entry.model, key))
        self._log.put_full()

    def _state(self, limit: int) -> PoolState:
        return PoolState(
            index=dict(self._index),
            failures=dict(self._failures),
            last_seen=dict(self._last_seen),
            names=self._names,
            n_batches=self._n_batches,
            limit=limit,
        )

    def _write(self, state: PoolState, progress: Progress) -> bytes:
        """Write the models; return the content of the checkpoint."""
        self._write_models(state.index, below=state.limit)
        return index_bytes(state, progress)

    def _write_models(self, index: Mapping[str, KeyedEntry], *, below: int) -> None:
        """Write what is not in a segment yet, and compact a little."""
        for key, entry in index.items():
            if entry.extent is None:
                self._save(key, entry)
        new = self._log.n_appended - self._n_written
        # Copying as much as was written is enough: no more than that can have become garbage.
        self._log.compact(list(index.values()), below=below, max_n=max(new, self._log.size))
        self._log.flush()
        self._n_written = self._log.n_appended


def index_bytes(state: PoolState, progress: Progress) -> bytes:
    """Return the content of a checkpoint of models that are all in segments."""
    segments, index = state.to_arrays()
    return pack_pipeline({"progress": progress.to_dict(), "segments": segments, "pool": index})


def _refused(block: Block, places: NDArray[np.intp], why: str) -> list[Reject]:
    why = f"{why.rstrip('.')}."
    return [Reject(int(row), why) for row in block.row[places]]
