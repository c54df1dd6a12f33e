"""The delay until a new cluster is found."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from scstream.metrics.agreement import tabulate


class DetectionDelay:
    """Count the batches from the birth of each true cluster until the model has found it.

    A cluster is found in the first batch in which one predicted id covers more than half of its
    rows while it makes up more than half of the rows of that id. A label of -1 (no cluster) does
    not count.

    Parameters
    ----------
    births
        Batch number and true label of each birth, as in ``births`` of a stream.

    Attributes
    ----------
    delays : dict of int to int
        Batches after its birth, for each label found: 0 if found in the batch of its birth.

    Examples
    --------
    >>> from scstream.metrics import DetectionDelay
    >>> delay = DetectionDelay([(1, 5)])
    >>> delay.update(0, [0, 0, 0], [0, 0, 0])
    >>> delay.update(1, [0, 0, 5], [0, 0, 0])
    >>> delay.missed
    [5]
    >>> delay.update(2, [0, 5, 5], [0, 1, 1])
    >>> delay.delays, delay.missed, delay.mean()
    ({5: 1}, [], 1.0)
    """

    def __init__(self, births: Iterable[tuple[int, int]]) -> None:
        self._born = {label: batch for batch, label in births}
        self.delays: dict[int, int] = {}

    @property
    def missed(self) -> list[int]:
        """Labels not found so far."""
        return [label for label in self._born if label not in self.delays]

    def mean(self) -> float:
        """Return the mean delay of the clusters found; nan if there is none."""
        return float(np.mean(list(self.delays.values()))) if self.delays else float("nan")

    def update(self, batch: int, labels_true: npt.ArrayLike, labels_pred: npt.ArrayLike) -> None:
        """Add the labels that the model gave to one batch.

        Parameters
        ----------
        batch
            Number of the batch.
        labels_true, labels_pred
            Labels of the same rows, shape (N,); predictions as of ``partial_fit``, which has seen
            the batch.
        """
        waiting = [label for label in self.missed if self._born[label] <= batch]
        if not waiting:
            return
        found = _found(labels_true, labels_pred)
        for label in waiting:
            if label in found:
                self.delays[label] = int(batch) - self._born[label]


def detection_delay(
    births: Iterable[tuple[int, int]],
    history: Iterable[tuple[npt.ArrayLike, npt.ArrayLike]],
) -> DetectionDelay:
    """Measure how soon each new cluster was found.

    Parameters
    ----------
    births
        Batch number and true label of each birth, as in ``births`` of a stream.
    history
        True and predicted labels of each batch, from batch 0 on.

    Returns
    -------
    DetectionDelay
        With ``delays``, ``missed`` and ``mean()``.

    Examples
    --------
    >>> from scstream.metrics import detection_delay
    >>> history = [([0, 0], [0, 0]), ([0, 5], [0, 0]), ([0, 5], [0, 3])]
    >>> detection_delay([(1, 5)], history).delays
    {5: 1}
    """
    delay = DetectionDelay(births)
    for batch, (labels_true, labels_pred) in enumerate(history):
        delay.update(batch, labels_true, labels_pred)
    return delay


def _found(labels_true: npt.ArrayLike, labels_pred: npt.ArrayLike) -> set[int]:
    """Return the true labels that some predicted id matches in this batch."""
    table, true_ids, predicted_ids = tabulate(labels_true, labels_pred)
    covers = 2 * table.cells > table.true_sizes[table.true]
    is_majority = 2 * table.cells > table.predicted_sizes[table.predicted]
    named = predicted_ids[table.predicted] != -1
    return set(true_ids[table.true[covers & is_majority & named]].tolist())
