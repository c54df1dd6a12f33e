"""Scores of predicted against true labels, computed from a contingency table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scstream.errors import InputError

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


class Pairs(NamedTuple):
    """Numbers of ordered pairs of rows, by whether truth and prediction put them together."""

    both: int
    only_true: int
    only_predicted: int
    neither: int


@dataclass(frozen=True, eq=False)
class Table:
    """A contingency table: its C cells that are not zero, as true index, predicted index, count."""

    true: IntArray  # (C,)
    predicted: IntArray  # (C,)
    cells: IntArray  # (C,)

    @classmethod
    def of_labels(cls, labels_true: npt.ArrayLike, labels_pred: npt.ArrayLike) -> Table:
        """Count the pairs of labels of the rows."""
        return tabulate(labels_true, labels_pred)[0]

    @cached_property
    def n_rows(self) -> int:
        """Number of rows counted."""
        return int(self.cells.sum())

    @cached_property
    def true_sizes(self) -> IntArray:
        """Rows of each true cluster."""
        return _grouped_sum(self.true, self.cells)

    @cached_property
    def predicted_sizes(self) -> IntArray:
        """Rows of each predicted cluster."""
        return _grouped_sum(self.predicted, self.cells)

    def pairs(self) -> Pairs:
        """Count ordered pairs of rows, without rounding for streams of any length."""
        n = self.n_rows
        together = _sum_of_squares(self.cells)
        in_truth, in_prediction = map(_sum_of_squares, (self.true_sizes, self.predicted_sizes))
        return Pairs(
            both=together - n,
            only_true=in_truth - together,
            only_predicted=in_prediction - together,
            neither=n * n - in_truth - in_prediction + together,
        )

    def adjusted_rand(self) -> float:
        """Return the Rand index adjusted for chance."""
        both, fn, fp, neither = self.pairs()
        if fn == 0 and fp == 0:
            return 1.0
        chance = (both + fn) * (fn + neither) + (both + fp) * (fp + neither)
        return 2.0 * (both * neither - fn * fp) / chance

    def normalized_mutual_info(self) -> float:
        """Return mutual information over the mean of both entropies."""
        if len(self.true_sizes) == len(self.predicted_sizes) <= 1:
            return 1.0
        share = self.cells / self.n_rows
        log_ratio = (
            np.log(share)
            - np.log(self.true_sizes[self.true] / self.n_rows)
            - np.log(self.predicted_sizes[self.predicted] / self.n_rows)
        )
        information = float((share * log_ratio).sum())
        if information <= np.finfo(np.float64).eps:
            return 0.0
        entropies = _entropy(self.true_sizes) + _entropy(self.predicted_sizes)
        return 2.0 * information / entropies

    def purity(self) -> float:
        """Return the share of rows in the largest true cluster of their predicted cluster."""
        if self.n_rows == 0:
            return 1.0
        largest = np.zeros(len(self.predicted_sizes), dtype=np.int64)
        np.maximum.at(largest, self.predicted, self.cells)
        return float(largest.sum() / self.n_rows)

    def pairwise_f(self) -> float:
        """Return the harmonic mean of precision and recall over pairs of rows."""
        both, fn, fp, _ = self.pairs()
        return 2.0 * both / (2 * both + fn + fp) if both + fn + fp else 1.0


def tabulate(
    labels_true: npt.ArrayLike, labels_pred: npt.ArrayLike
) -> tuple[Table, npt.NDArray[np.generic], npt.NDArray[np.generic]]:
    """Return the table of two labellings, with the true and the predicted ids of its indices."""
    y, z = np.asarray(labels_true), np.asarray(labels_pred)
    if y.ndim != 1 or y.shape != z.shape:
        raise InputError(
            f"labels must be two arrays of one dimension and equal length, not {y.shape} and "
            f"{z.shape}"
        )
    true_ids, true = np.unique(y, return_inverse=True)
    predicted_ids, predicted = np.unique(z, return_inverse=True)
    width = max(len(predicted_ids), 1)
    codes, cells = np.unique(true * width + predicted, return_counts=True)
    return Table(codes // width, codes % width, cells), true_ids, predicted_ids


def adjusted_rand(labels_true: npt.ArrayLike, labels_pred: npt.ArrayLike) -> float:
    """Return the adjusted Rand index (ARI): 1 for equal partitions, 0 on average by chance.

    Parameters
    ----------
    labels_true, labels_pred
        Labels of the same rows, shape (N,). A prediction of -1 is a label like any other.

    Returns
    -------
    float
        At most 1; below 0 when the agreement is worse than chance.

    Examples
    --------
    >>> from scstream.metrics import adjusted_rand
    >>> adjusted_rand([0, 0, 1, 1], [7, 7, 3, 3])
    1.0
    >>> round(adjusted_rand([0, 0, 1, 1], [0, 0, 1, 2]), 3)
    0.571
    """
    return Table.of_labels(labels_true, labels_pred).adjusted_rand()


def normalized_mutual_info(labels_true: npt.ArrayLike, labels_pred: npt.ArrayLike) -> float:
    """Return the normalised mutual information (NMI), by the arithmetic mean of the entropies.

    Parameters
    ----------
    labels_true, labels_pred
        Labels of the same rows, shape (N,). A prediction of -1 is a label like any other.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from scstream.metrics import normalized_mutual_info
    >>> normalized_mutual_info([0, 0, 1, 1], [0, 1, 0, 1])
    0.0
    >>> round(normalized_mutual_info([0, 0, 1, 1], [0, 0, 1, 2]), 3)
    0.8
    """
    return Table.of_labels(labels_true, labels_pred).normalized_mutual_info()


def purity(labels_true: npt.ArrayLike, labels_pred: npt.ArrayLike) -> float:
    """Return the share of rows that belong to the largest true cluster of their predicted one.

    Purity rewards many small clusters: use it together with other scores.

    Parameters
    ----------
    labels_true, labels_pred
        Labels of the same rows, shape (N,). A prediction of -1 is a label like any other.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from scstream.metrics import purity
    >>> purity([0, 0, 1, 1], [0, 0, 0, 1])
    0.75
    """
    return Table.of_labels(labels_true, labels_pred).purity()


def pairwise_f(labels_true: npt.ArrayLike, labels_pred: npt.ArrayLike) -> float:
    """Return the F measure over pairs of rows: those together in truth against those predicted.

    Parameters
    ----------
    labels_true, labels_pred
        Labels of the same rows, shape (N,). A prediction of -1 is a label like any other.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from scstream.metrics import pairwise_f
    >>> pairwise_f([0, 0, 1, 1], [0, 0, 0, 0])
    0.5
    """
    return Table.of_labels(labels_true, labels_pred).pairwise_f()


class FullStreamScore:
    """Agreement over a whole stream, which penalises ids that change during the stream.

    Scores of single batches do not show whether a cluster keeps its id from batch to batch; the
    score of all rows together does. Memory grows with the number of pairs of ids, not of rows.

    Examples
    --------
    >>> from scstream.metrics import FullStreamScore
    >>> score = FullStreamScore()
    >>> score.update([0, 0, 1, 1], [0, 0, 1, 1])
    >>> score.nmi()
    1.0
    >>> score.update([0, 0, 1, 1], [2, 2, 3, 3])
    >>> round(score.nmi(), 3)
    0.667
    """

    def __init__(self) -> None:
        self._counts: Counter[tuple[object, object]] = Counter()

    def update(self, labels_true: npt.ArrayLike, labels_pred: npt.ArrayLike) -> None:
        """Add the rows of one batch.

        Parameters
        ----------
        labels_true, labels_pred
            Labels of the same rows, shape (N,).
        """
        table, true_ids, predicted_ids = tabulate(labels_true, labels_pred)
        keys = zip(
            true_ids[table.true].tolist(), predicted_ids[table.predicted].tolist(), strict=True
        )
        self._counts.update(dict(zip(keys, table.cells.tolist(), strict=True)))

    @property
    def counts(self) -> Mapping[tuple[object, object], int]:
        """Rows seen of each pair of true and predicted label."""
        return dict(self._counts)

    def nmi(self) -> float:
        """Return the normalised mutual information of all rows so far."""
        return self._table().normalized_mutual_info()

    def ari(self) -> float:
        """Return the adjusted Rand index of all rows so far."""
        return self._table().adjusted_rand()

    def _table(self) -> Table:
        true, predicted = (_indices([key[side] for key in self._counts]) for side in (0, 1))
        return Table(true, predicted, np.array(list(self._counts.values()), dtype=np.int64))


def _indices(keys: list[object]) -> IntArray:
    index: dict[object, int] = {}
    return np.array([index.setdefault(key, len(index)) for key in keys], dtype=np.int64)


def _grouped_sum(index: IntArray, cells: IntArray) -> IntArray:
    # Not bincount with weights: its floats are inexact beyond 2**53 rows.
    sums = np.zeros(int(index.max(initial=-1)) + 1, dtype=np.int64)
    np.add.at(sums, index, cells)
    return sums


def _sum_of_squares(counts: IntArray) -> int:
    # Python's integers: the square of a long stream does not fit into 64 bits.
    return sum(count * count for count in counts.tolist())


def _entropy(sizes: IntArray) -> float:
    share = sizes / sizes.sum()
    return float(-(share * np.log(share)).sum())
