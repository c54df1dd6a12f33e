"""Which partition a key belongs to, and at which worker a partition is at home.

Both follow from names alone, so that every process and every run agrees, and a worker that comes
or goes moves only what it takes or leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from typing import NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from scstream.families.base import Rows
from scstream.preprocess.block import Block
from scstream.stream.keyed import part

N_PARTITIONS = 1024  # they cost nothing, and the more there are the more even are the shares
_SALT = 285  # chosen so that 2 to 8 workers named w0, w1, ... have shares within 6 % of even


def partition_of(key: str) -> int:
    """Return the partition of a key.

    Examples
    --------
    >>> from scstream.distributed.partitions import partition_of
    >>> partition_of("device-17"), partition_of("device-18")
    (248, 361)
    """
    return crc32(key.encode("utf-8", "surrogatepass")) % N_PARTITIONS


@cache
def homes(workers: tuple[str, ...]) -> tuple[str, ...]:
    """Return the worker of every partition: the one whose name goes best with its number.

    Examples
    --------
    >>> from scstream.distributed.partitions import homes
    >>> two, three = homes(("w0", "w1")), homes(("w0", "w1", "w2"))
    >>> {new for old, new in zip(two, three) if old != new}
    {'w2'}
    """
    return tuple(max(workers, key=_draw(number)) for number in range(N_PARTITIONS))


def _draw(number: int) -> Callable[[str], bytes]:
    return lambda name: blake2b(f"{_SALT}/{name}/{number}".encode(), digest_size=8).digest()


class Piece(NamedTuple):
    """What one worker has to do with a batch."""

    block: Block
    time: float | None
    forgotten: list[str]


@dataclass(frozen=True)
class Task:
    """What has to be done with a batch: everything is decided, nothing is learned.

    Parameters
    ----------
    block : Block
        The batch, without columns that no model reads.
    time : float or None
        What the models are told.
    rows : mapping of str to array
        Which rows of the block are to be learned, by key.
    forgotten : sequence of str
        Keys to be dropped afterwards.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.preprocess.block import Block
    >>> from scstream.distributed.partitions import Task, homes
    >>> block = Block.of(np.arange(4.0)[:, None], who=["a", "b", "a", "b"])
    >>> task = Task(block, None, {"a": np.array([0, 2]), "b": np.array([1, 3])}, [])
    >>> pieces = task.split(homes(("w0",)), task.partitions)
    >>> pieces["w0"].block.row
    array([0, 1, 2, 3])
    """

    block: Block
    time: float | None
    rows: Mapping[str, NDArray[np.intp]]
    forgotten: Sequence[str]

    @property
    def partitions(self) -> set[int]:
        """Partitions of its keys."""
        return {partition_of(key) for key in (*self.rows, *self.forgotten)}

    @property
    def n_bytes(self) -> int:
        """About how much memory it takes."""
        extra = sum(int(values.nbytes) for values in self.block.extra.values())
        return _n_bytes(self.block.X) + extra + int(self.block.row.nbytes) * 2

    def split(self, at: Sequence[str], partitions: Set[int]) -> dict[str, Piece]:
        """Return what is to be done for some partitions, by the worker where each is at home."""
        places: dict[str, list[NDArray[np.intp]]] = {}
        forgotten: dict[str, list[str]] = {}
        for key, own in self.rows.items():
            if (number := partition_of(key)) in partitions:
                places.setdefault(at[number], []).append(own)
        for key in self.forgotten:
            if (number := partition_of(key)) in partitions:
                forgotten.setdefault(at[number], []).append(key)
        return {
            name: Piece(self._some(places.get(name, [])), self.time, forgotten.get(name, []))
            for name in sorted({*places, *forgotten})
        }

    def _some(self, places: Sequence[NDArray[np.intp]]) -> Block:
        chosen = np.zeros(len(self.block.row), dtype=bool)
        for own in places:
            chosen[own] = True
        return part(self.block, np.flatnonzero(chosen))


def _n_bytes(X: Rows) -> int:
    return int(X.nbytes) if isinstance(X, np.ndarray) else int(X.data.nbytes + X.indices.nbytes)
