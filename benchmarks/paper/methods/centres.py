"""Rows put to the nearest of some centres, for packages that give centres but label row by row."""

from __future__ import annotations

import numpy as np


def nearest(X: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Index of the centre nearest to each row; the first of equals."""
    origin = centres.mean(axis=0)  # so that no digits are lost far from zero
    moved = centres - origin
    return ((moved**2).sum(axis=1) - 2.0 * (X - origin) @ moved.T).argmin(axis=1)


class Labelled:
    """Centres with a label each; rows get the label of the nearest one, -1 where there is none."""

    def __init__(self, centres: np.ndarray, labels: np.ndarray) -> None:
        self.centres, self.labels = centres, labels

    def of(self, X: np.ndarray) -> np.ndarray:
        """Label of each row."""
        if not len(self.labels):
            return np.full(len(X), -1)
        return self.labels[nearest(X, self.centres)]

    @property
    def n_labels(self) -> int:
        """Number of different labels."""
        return len(np.unique(self.labels))
