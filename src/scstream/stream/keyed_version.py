"""The models of all keys as a checkpoint has them; each is read when it is needed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from threading import Lock
from typing import Self, TypeAlias

from scstream.errors import CheckpointCorrupt, StreamError, UnknownKey
from scstream.io._packing import record
from scstream.io.header import PipelineState
from scstream.io.model_file import DAMAGE, unpack_pipeline
from scstream.stream.entries import PoolIndex
from scstream.stream.keyed import KeyedModel, n_bytes_of, read_model, read_size
from scstream.stream.model_version import ModelVersion, frozen
from scstream.stream.progress import Progress
from scstream.stream.segments import Extent, Segment, SegmentList, SegmentLog
from scstream.stream.store import Store

_SHOWN = 40  # characters of a key in a message
Location: TypeAlias = tuple[int | None, int, int, int]  # segment, its size, start and length


@dataclass(frozen=True, eq=False)
class KeyedVersion:
    """Where the models of all keys are, as they were after some batch.

    Parameters
    ----------
    version, batch, at, columns
        As of `ModelVersion`; the columns are the same for all keys.
    text : str or None
        Column of text that the preprocessing steps read.
    index : PoolIndex
        The keys, and where the model of each is.
    segments : sequence of Segment
        The segments that `index` refers to.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.preprocess import Steps
    >>> from scstream.preprocess.block import Block
    >>> from scstream.stream.batcher import SourceBatch
    >>> from scstream.stream.keyed_version import KeyedModels, read_version
    >>> from scstream.stream.pool import ModelPool
    >>> from scstream.stream.progress import Progress
    >>> from scstream.stream.store import MemoryStore
    >>> store = MemoryStore()
    >>> pool = ModelPool.build({"random_state": 0}, Steps(), column="pump", store=store)
    >>> rows = Block.of(np.arange(40.0)[:, None] % 7, pump=["p7", "p8"] * 20)
    >>> _ = pool.learn(SourceBatch(0, {}, None, rows, ()))
    >>> found = read_version(pool.freeze()(Progress(1)), name="c", version=5)
    >>> found.version, found.n_keys, found.keys()
    (5, 2, {'p7': 1, 'p8': 1})
    >>> KeyedModels(store).get(found, "p7").compute("labels", [[900.0]]).values
    array([-1])
    """

    version: int
    batch: int
    at: float
    columns: tuple[str, ...] | None
    text: str | None
    index: PoolIndex
    segments: Sequence[Segment]

    @classmethod
    def of(cls, pipeline: PipelineState, *, name: str, version: int) -> Self:
        """Build from the content of a checkpoint; raises `CheckpointCorrupt`."""
        try:
            progress = Progress.from_dict(pipeline["progress"])
            columns = progress.schema.features
            found = cls(
                version=version,
                batch=progress.batch,
                at=progress.time,
                columns=None if columns is None else tuple(columns),
                text=progress.schema.text,
                index=record(PoolIndex, pipeline["pool"]),
                segments=SegmentList(**pipeline["segments"]).segments(),
            )
            found.extents  # noqa: B018  read it now, not during the first request
        except DAMAGE as error:
            raise CheckpointCorrupt(f"{name} is no valid checkpoint of keys: {error!r}.") from error
        return found

    @property
    def n_keys(self) -> int:
        """Number of keys."""
        return self.index.n_keys

    @cached_property
    def n_clusters(self) -> int:
        """Number of clusters of all models."""
        return sum(self.index.column("clusters"))

    def keys(self, start: int = 0, max_n: int | None = None) -> Mapping[str, int]:
        """Return some of the keys, in order of their first rows, with their numbers of clusters."""
        stop = None if max_n is None else start + max_n
        clusters = self.index.column("clusters")
        return dict(islice(zip(self.extents, clusters, strict=True), start, stop))

    @cached_property
    def extents(self) -> Mapping[str, Extent]:
        """Where the model of every key is."""
        return self.index.extents(self.segments)


class KeyedModels:
    """Reads models of keys from segments, and keeps those in memory that were used last.

    A model that a later checkpoint has in the same place is not read again.

    Parameters
    ----------
    store : Store
        Where the segments are.
    memory : int or str
        Bytes that the models may take, such as "512MB".
    """

    def __init__(self, store: Store, *, memory: int | str = "512MB") -> None:
        self.n_hits = self.n_misses = self.n_bytes = 0
        self._log = SegmentLog(store, size=1)
        self._memory = read_size("memory", memory)
        self._cached: OrderedDict[str, tuple[Location, ModelVersion, int]] = OrderedDict()
        self._lock = Lock()  # not held while a model is read

    def get(self, checkpoint: KeyedVersion, key: str) -> ModelVersion:
        """Return the model of a key; raises `UnknownKey`, and KeyError if its segment is gone."""
        extent = checkpoint.extents.get(key)
        if extent is None:
            raise UnknownKey(
                f"there is no model of the key {key[:_SHOWN]!r}; it has had no rows yet, or none "
                "for so long that it was forgotten."
            )
        location = (extent.segment.number, extent.segment.size, extent.start, extent.length)
        with self._lock:
            known, found, n_bytes = self._cached.get(key, (None, None, 0))
            if found is not None and known == location:
                self.n_hits += 1
                self._cached.move_to_end(key)
                if found.version != checkpoint.version:
                    found = _of_checkpoint(found, checkpoint)
                    self._cached[key] = location, found, n_bytes
                return found
            self.n_misses += 1
        found, n_bytes = self._read(checkpoint, key, extent)
        with self._lock:
            self.n_bytes += n_bytes - self._cached.pop(key, (None, None, 0))[2]
            self._cached[key] = location, found, n_bytes
            while self.n_bytes > self._memory and len(self._cached) > 1:
                self.n_bytes -= self._cached.popitem(last=False)[1][2]
        return found

    def _read(self, checkpoint: KeyedVersion, key: str, extent: Extent) -> tuple[ModelVersion, int]:
        model, steps = read_model(self._log.read(extent), key)
        if model is None:
            raise StreamError(
                f"the model of the key {key[:_SHOWN]!r} has no clusters yet; try again later."
            )
        n_bytes = 2 * n_bytes_of(KeyedModel(model, steps))  # the predictor has its own arrays
        version = ModelVersion(0, 0, 0.0, checkpoint.columns, model, frozen(steps))
        model.at()  # compute the predictor now
        return _of_checkpoint(version, checkpoint), n_bytes


Version: TypeAlias = ModelVersion | KeyedVersion


def read_version(content: bytes, *, name: str, version: int) -> Version | None:
    """Read a checkpoint of one model or of one for every key; None if it holds no model yet.

    Raises `CheckpointCorrupt`.
    """
    pipeline = unpack_pipeline(content, name=name)
    if pipeline is None or "pool" not in pipeline:
        return ModelVersion.of(content, name=name, version=version)
    found = KeyedVersion.of(pipeline, name=name, version=version)
    return found if found.batch or found.n_keys else None


def _of_checkpoint(found: ModelVersion, checkpoint: KeyedVersion) -> ModelVersion:
    return replace(found, version=checkpoint.version, batch=checkpoint.batch, at=checkpoint.at)
