"""Counts as words, and the micro-cluster nearest to each row by the cosine of tf-idf."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse


def words(X: Any) -> Iterator[dict[int, float]]:
    """Rows of counts as dictionaries from word to count."""
    X = sparse.csr_matrix(X)
    for start, end in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        yield dict(zip(X.indices[start:end].tolist(), X.data[start:end].tolist(), strict=True))


class Micro:
    """Micro-clusters of TextClust as a sparse matrix of tf-idf."""

    def __init__(self, term_counts: dict[int, dict[int, dict[str, float]]]) -> None:
        self.ids = np.array(list(term_counts), dtype=np.int64)
        terms = [list(tf) for tf in term_counts.values()]
        bounds = np.cumsum([0, *map(len, terms)])
        columns = np.array([j for row in terms for j in row], dtype=np.int64)
        counts = [each["tf"] for tf in term_counts.values() for each in tf.values()]
        shape = (len(terms), int(columns.max(initial=-1)) + 1)
        self.tf = sparse.csr_matrix((counts, columns, bounds), shape=shape)
        n_with = np.bincount(columns, minlength=shape[1])
        self.idf = np.zeros(shape[1])
        self.idf[n_with > 0] = 1.0 + np.log(len(terms) / n_with[n_with > 0])

    def nearest(self, X: Any) -> np.ndarray:
        """Id of the nearest one for each row; -1 for a row without words."""
        rows = sparse.csr_matrix(X)
        if not len(self.ids):
            return np.full(rows.shape[0], -1)
        weighted = self.tf.multiply(self.idf).tocsr()
        length = np.sqrt(weighted.multiply(weighted).sum(axis=1))
        length[length == 0.0] = 1.0
        shared = rows[:, : self.tf.shape[1]].multiply(self.idf).tocsr()
        likeness = np.asarray((shared @ weighted.T).todense() / length.T)
        found = self.ids[likeness.argmax(axis=1)]
        found[np.diff(rows.indptr) == 0] = -1
        return found
