"""A partition of the rows of one table, and what moves between partitions need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from scstream.core.assign import Executor, LoadedRows
from scstream.core.config import Config
from scstream.core.ratios import log_joint
from scstream.core.rng import key_for
from scstream.core.state import Batch
from scstream.families.base import Array, Family, Labels, Rows

_MAX_NUMBERS = 1 << 25  # coordinates of all rows together: a quarter of a gigabyte


@dataclass(frozen=True, eq=False)
class Table:
    """The rows whose partitions are sampled, with the model and the settings."""

    family: Family
    config: Config
    X: Rows  # (N, D)
    loaded: LoadedRows
    points: Array | None  # (N, C) coordinates of the rows; None if they are too large

    @classmethod
    def of(cls, family: Family, config: Config, batch: Batch, executor: Executor) -> Self:
        """Prepare the rows of a batch."""
        n_coordinates = family.coordinates_of(np.zeros((1, family.n_stats))).shape[1]
        small = batch.n_rows * n_coordinates <= _MAX_NUMBERS
        points = family.coordinates(batch.rows) if small else None
        return cls(family, config, batch.rows, executor.load(family, batch), points)

    @property
    def n_rows(self) -> int:
        """Number of rows N."""
        return int(self.X.shape[0])

    def uniforms(self, sweep: int, purpose: str, index: Labels, counter: int = 0) -> Array:
        """Two uniforms for every index: a row, a cluster, or the number of a proposal."""
        return self.family.kernels.uniforms(self.key(sweep, purpose), index, counter)

    def key(self, sweep: int, purpose: str) -> int:
        """Return the key of one purpose in one sweep."""
        return key_for(self.config.seed, batch=0, sweep=sweep, purpose=purpose)


@dataclass(frozen=True, eq=False)
class Partition:
    """Labels 0 .. K-1 of the rows, each used, and the statistics of the clusters."""

    labels: Labels  # (N,)
    stats: Array  # (K, P)

    @classmethod
    def of(cls, table: Table, labels: Labels) -> Self:
        """Number the clusters by the first row of each, and compute their statistics."""
        label = numbered(labels)
        return cls(label, table.family.stats(table.X, label, int(label.max()) + 1))

    @property
    def n_clusters(self) -> int:
        """Number of clusters K."""
        return len(self.stats)

    def log_posterior(self, table: Table) -> float:
        """Log of prior times marginal likelihood: the log posterior without its normaliser."""
        return log_joint(table.family, table.config.alpha, self.stats)

    def relabel(self, table: Table, rows: Labels, label: int) -> Partition:
        """Give rows another label, which may be the new one K; drop a cluster without rows.

        The statistics of the clusters that change are computed anew, so that no rounding adds up.
        """
        labels = self.labels.copy()
        changed = np.unique(np.append(labels[rows], label))
        labels[rows] = label
        members = np.flatnonzero(np.isin(labels, changed))
        stats = np.zeros((max(self.n_clusters, label + 1), self.stats.shape[1]))
        stats[: self.n_clusters] = self.stats
        stats[changed] = table.family.stats(
            table.X[members], np.searchsorted(changed, labels[members]), len(changed)
        )
        used = stats[:, 0] > 0
        return Partition((np.cumsum(used) - 1)[labels], stats[used])


def numbered(labels: Labels) -> Labels:  # (N,)
    """Number the clusters from 0 by their first row."""
    _, first, label = np.unique(labels, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[label], dtype=np.int64)
