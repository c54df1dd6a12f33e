"""What one worker of a pool on Ray is: a pool of some of the keys, which decides nothing itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scstream.core.state import Info
from scstream.distributed.partitions import partition_of
from scstream.families.base import Labels
from scstream.kernels import adopt_kernels
from scstream.model import Settings
from scstream.preprocess import Steps
from scstream.preprocess.block import Block, Reject
from scstream.stream.batcher import SourceBatch
from scstream.stream.entries import KeyedEntry, PoolState, packed, unpacked
from scstream.stream.keyed import KeyOptions
from scstream.stream.pool import ModelPool
from scstream.stream.segments import Extent, known_segments
from scstream.stream.store import Store

MARK = "workers"  # a name of the store by which a worker sees that it is the right one
_NEVER = 1 << 62

Places = tuple[Mapping[str, Any], Mapping[str, Any]]  # where models are, as in a checkpoint


class Part(NamedTuple):
    """What became of the rows that a worker was given."""

    row: NDArray[np.int64]
    labels: Labels
    rejects: tuple[Reject, ...]
    failed: frozenset[str]
    lost: frozenset[str]  # keys whose models are damaged
    infos: Sequence[tuple[int, Info]]
    n_clusters: int  # of all models of the worker


class Worker(ModelPool):
    """A pool without limits but that of memory; its parameters are those of `ModelPool`.

    It learns whatever it is given, and remembers no failures. Models come to it as places in the
    store, and leave it so.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from scstream.model import Settings
    >>> from scstream.kernels import kernels_in_use
    >>> from scstream.preprocess.block import Block
    >>> from scstream.stream.keyed import KeyOptions
    >>> from scstream.preprocess import Steps
    >>> from scstream.distributed.keyed_worker import Worker
    >>> from scstream.stream.store import FolderStore
    >>> settings = Settings(random_state=0)
    >>> rows = Block.of(np.arange(12.0)[:, None] % 5, who=["a", "b"] * 6)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     make = lambda: Worker(
    ...         settings, Steps(), "who", FolderStore(folder), KeyOptions(), kernels_in_use()
    ...     )
    ...     giver, taker = make(), make()
    ...     _ = giver.learn_part(rows, None, [])
    ...     taker.arrange(set(), giver.snapshot(0, everything=True), memory=1000, first=0)
    2
    """

    def __init__(
        self,
        settings: Settings,
        steps: Steps,
        column: str,
        store: Store,
        keys: KeyOptions,
        kernels: str,
    ) -> None:
        adopt_kernels(kernels)  # those of the driver: others would give other bits
        bare = KeyOptions(
            memory=keys.memory, segment=keys.segment, max_keys=_NEVER, patience=_NEVER
        )
        super().__init__(settings, steps, column=column, store=store, keys=bare)
        self._told: dict[str, Extent | None] = {}  # where the driver believes models to be

    def sees(self, token: bytes) -> bool:
        """Whether the store is the one that the driver has."""
        try:
            return self._log.store.get(MARK) == token
        except KeyError:
            return False

    def learn_part(self, block: Block, time: float | None, forgotten: Iterable[str]) -> Part:
        """Learn rows, then drop keys that have been silent for too long."""
        learned = self.learn(SourceBatch(0, {}, time, block, ()))
        failures, self._failures = self._failures, {}
        self._drop(forgotten)
        return Part(
            row=learned.block.row,
            labels=learned.labels,
            rejects=learned.block.rejects,
            failed=frozenset(key for key, n in failures.items() if n < _NEVER),
            lost=frozenset(key for key, n in failures.items() if n >= _NEVER),
            infos=learned.infos,
            n_clusters=self._n_clusters,
        )

    def arrange(self, give: Set[int], take: Places, *, memory: int, first: int) -> int:
        """Drop the keys of some partitions, and take others; return the number of clusters."""
        self._memory = memory
        self._log.start_at(first)
        self._drop([key for key in self._index if partition_of(key) in give])
        held, index = take
        entries, _, _ = unpacked(
            known_segments(held["held"], held["sizes"], self._log.store), index
        )
        self._index.update(entries)
        self._told.update((key, entry.extent) for key, entry in entries.items())
        self._n_clusters += sum(entry.n_clusters for entry in entries.values())
        return self._n_clusters

    def snapshot(self, first: int, *, everything: bool) -> Places:
        """Write what has changed, and tell where it is; or where everything is."""
        self._log.start_at(first)
        self._put_away(self._index, below=self._log.limit())
        new = {
            key: entry
            for key, entry in self._index.items()
            if everything or self._told.get(key) is not entry.extent
        }
        self._told.update((key, entry.extent) for key, entry in new.items())
        return places(new)

    def _drop(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._told.pop(key, None)
            if key in self._index:
                self._release(key, self._index.pop(key))


def places(index: Mapping[str, KeyedEntry]) -> Places:
    """Return where models are that have been written."""
    return packed(PoolState(index, {}, {}, None, 0, 0))
