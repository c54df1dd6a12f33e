"""Rows of small batches, which are held until there are enough of them to be learned together.

A cluster cannot be born of one row, and a prior cannot be fitted to five. Rows of batches below
`Config.min_batch` therefore get the label that the clusters predict, and are learned when
`min_batch` rows are there. A young model, started with fewer than `enough_rows`, is started again
with all rows so far, until there are enough. Rows that no cluster explains stay for the next time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from scstream.core.config import Config
from scstream.core.notes import NO_NOTES, Notes, join_notes
from scstream.core.state import NOVEL, Batch, Info
from scstream.families.base import Array, Labels, Rows

_UNIT_ROWS = 1000.0
_ENOUGH = 2  # times `min_batch`: rows to fit a prior to
_GROWTH = 1.5  # of the rows of a young model, after which it is started again
_LEAST_LEFT = 0.9  # share of a row's weight below which forgetting does not wait for more rows
_NOVEL_BIRTHS = 2.0  # times `min_birth_weight`: rows without a cluster that do not wait
_MAX_PARTS = 1000  # batches whose arrays are kept one by one


# Rows that were added at a time: rows, weights (None for ones), times or one time, labels, notes.
_Part = tuple[Rows, Array | None, Array | float, Labels, Notes]
# About all rows: their number, the time of the newest, the time of the oldest that was not tried,
# the weight of those that were not tried and have no cluster, and the number of parts.
_Totals = tuple[int, float, float, float, int]
_ARRAYS = ("rows", "weight", "time", "label", "notes")


@dataclass(frozen=True, eq=False)
class Held:
    """Rows of small batches, oldest first.

    Adding a row takes the same time however many are there: the fields that are arrays are put
    together when one of them is read.
    """

    rows: Rows  # (N, D)
    weight: Array  # (N,)
    time: Array  # (N,)
    label: Labels  # (N,) that was reported
    n_tried: int  # that many rows at the front were passed to the algorithm before
    young: bool  # all rows of the stream are here
    # Not a plain default: an attribute of the class would hide `__getattr__`.
    notes: Notes = field(default_factory=lambda: NO_NOTES)

    def __post_init__(self) -> None:
        time, new = self.time, self.label == NOVEL
        new[: self.n_tried] = False
        oldest = float(time[self.n_tried :].min(initial=np.inf))
        totals: _Totals = len(time), float(time.max()), oldest, float(self.weight @ new), 1
        parts = (self.rows, self.weight, time, self.label, self.notes), None
        vars(self).update(_totals=totals, _parts=parts, _wait=0.0)

    @classmethod
    def of(cls, batch: Batch, label: Labels, *, n_tried: int = 0, young: bool = False) -> Self:
        """Return the rows of a batch."""
        notes = batch.notes or NO_NOTES
        part = _joined([(batch.rows, batch.weight, batch.time, label, notes)])
        return cls(*part[:-1], n_tried, young, part[-1])

    def __len__(self) -> int:
        return int(self._totals[0])

    @property
    def newest(self) -> float:
        """Time of the newest row."""
        newest: float = self._totals[1]
        return newest

    @property
    def newest_rows(self) -> Rows:
        """The rows that were added last."""
        return self._parts[0][0]

    def followed_by(self, batch: Batch, label: Labels, *, n_novel: int) -> Self:
        """Return these rows and then the rows of a batch, of which `n_novel` have no cluster."""
        n_rows, newest, oldest, novel, n_parts = self._totals
        older, rows, weight, time = self._parts, batch.rows.copy(), batch.weight, batch.time
        if weight is not None:
            weight = weight.copy()  # the caller may change its arrays later
        novel += n_novel if weight is None else float(weight @ (label == NOVEL))
        if n_parts == _MAX_PARTS:
            older, n_parts = self._whole(), 1
        totals = n_rows + len(label), max(newest, time), min(oldest, time), novel, n_parts + 1
        other = object.__new__(type(self))
        vars(other).update(
            n_tried=self.n_tried,
            young=self.young,
            _totals=totals,
            _parts=((rows, weight, time, label.copy(), batch.notes or NO_NOTES), older),
            _wait=self._wait,
        )
        return other

    def __getattr__(self, name: str) -> Any:
        """Put the arrays together."""
        if name not in _ARRAYS:
            raise AttributeError(f"Held has no attribute {name!r}")
        vars(self).update(zip(_ARRAYS, self._whole()[0], strict=True))
        return vars(self)[name]

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.__post_init__()

    def _whole(self) -> tuple[_Part, None]:
        """Return all parts as one."""
        parts, older = [], self._parts
        while older is not None:
            part, older = older
            parts.append(part)
        return _joined(parts[::-1]), None

    def take(self, rows: NDArray[np.bool_] | slice, *, n_tried: int = 0) -> Self:
        """Return some of the rows; they are no longer all rows of the stream."""
        weight, time, label = self.weight[rows], self.time[rows], self.label[rows]
        notes = self.notes.take(rows)
        return type(self)(self.rows[rows], weight, time, label, n_tried, young=False, notes=notes)

    def as_batch(self, config: Config, time: float) -> Batch:
        """Return the rows as one batch, with the weights that they have left."""
        weight = self.weight * config.kernel.weight(time - self.time)
        return Batch(self.rows, time, weight, replace(self.notes, time=self.time))

    def may_start(self, config: Config) -> bool:
        """Return True if a young model has grown so much that it is to be started again."""
        return len(self) >= min(_GROWTH * self.n_tried, enough_rows(config))

    def must_learn(self, config: Config, time: float) -> bool:
        """Return True if the rows are enough to be learned, or cannot wait for others."""
        n_rows, _, oldest, novel, _ = self._totals
        if time - oldest > self._wait and not self._may_wait(config, time - oldest):
            return True
        enough = n_rows - self.n_tried >= config.min_batch
        return not self.young and bool(enough or novel >= _NOVEL_BIRTHS * config.min_birth_weight)

    def _may_wait(self, config: Config, age: float) -> bool:
        """Whether rows of this age have not lost much; remember an age that is safe, too."""
        now, later = config.kernel.weight(np.array([age, 2.0 * age])) >= _LEAST_LEFT
        vars(self)["_wait"] = 2.0 * age if later else age  # a kernel never rises
        return bool(now)

    def unexplained(self, config: Config, time: float, label: Labels) -> NDArray[np.bool_]:
        """Return which rows may still be part of a new cluster, after they got these labels."""
        keep = (label == NOVEL) & (config.kernel.weight(time - self.time) >= _LEAST_LEFT)
        too_many = np.flatnonzero(keep)[: -enough_rows(config)]
        keep[too_many] = False
        return np.asarray(keep)


class HeldInfo(Info):
    """What is known about a batch that is held. Its density is computed when somebody reads it."""

    @classmethod
    def of(cls, n_novel: int, n_rows: int, compute: Callable[[], float]) -> Self:
        """Return the record of a batch whose mean log density a function computes."""
        info = object.__new__(cls)
        vars(info).update(n_novel=n_novel, novel_before=n_novel / n_rows, _compute=compute)
        return info

    @cached_property
    def mean_log_density(self) -> float:
        """Mean log density of the rows, which are not learned yet."""
        return float(vars(self)["_compute"]())

    @cached_property
    def log_density_before(self) -> float:
        """The same: nothing was learned."""
        return self.mean_log_density

    def __reduce__(self) -> tuple[type[Info], tuple[Any, ...]]:
        return Info, tuple(getattr(self, name) for name in self.__dataclass_fields__)

    def __eq__(self, other: object) -> bool:
        kind, values = self.__reduce__()
        return kind(*values) == other

    def __repr__(self) -> str:
        kind, values = self.__reduce__()
        return repr(kind(*values))

    __hash__ = Info.__hash__


def _joined(parts: Iterable[_Part]) -> tuple[Rows, Array, Array, Labels, Notes]:
    """Put the rows of parts below each other; in CSR if some are sparse."""
    rows, weights, times, labels, notes = zip(*parts, strict=True)
    if all(isinstance(some, np.ndarray) for some in rows):
        stacked = np.concatenate(rows)
    else:
        stacked = sparse.vstack([*map(sparse.csr_array, rows)], format="csr")
    label = np.concatenate(labels)
    weight = np.ones(len(label))
    time = np.empty(len(label))
    start = 0
    for one, own_weight, own_time in zip(labels, weights, times, strict=True):
        stop = start + len(one)
        time[start:stop] = own_time
        if own_weight is not None:
            weight[start:stop] = own_weight
        start = stop
    return stacked, weight, time, label, join_notes(zip(notes, map(len, labels), strict=True))


def holds(config: Config, batch: Batch) -> bool:
    """Return True if the rows of a batch are too few to be learned alone."""
    return config.algorithm == "default" and 0 < batch.n_rows < config.min_batch


def is_young(config: Config, batch: Batch) -> bool:
    """Return True if the rows of a first batch are too few to settle the prior."""
    small = config.min_batch > 1 and batch.n_rows < enough_rows(config)
    return config.algorithm == "default" and small


def elapsed(n_rows: int) -> float:
    """Return the time that a batch without a time takes: a thousand rows, or more, are one unit."""
    return min(n_rows / _UNIT_ROWS, 1.0)


def enough_rows(config: Config) -> int:
    """Return the number of rows that a prior is fitted to."""
    return _ENOUGH * config.min_batch
