"""The clusterer of an online BERTopic; BERTopic itself is not imported."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from scstream.core.state import NOVEL
from scstream.estimator import ScStream

__all__ = ["ScStreamTopics"]


class ScStreamTopics(ScStream):
    """`ScStream` as ``hdbscan_model`` of a BERTopic that learns batch by batch.

    BERTopic numbers topics by the labels of the first batch, and gives every label that it meets
    later the next number. If the first batch has no outlier, outliers that come later become a
    topic like any other. So that -1 stays -1, the row that fits least is labelled -1 here if no
    other row of the first batch is. It is learned all the same, and nothing else differs.

    Parameters
    ----------
    family, prior, alpha, half_life, kernel, n_sweeps, algorithm, max_clusters, late : object
        As in `ScStream`.
    births, motion, archive, min_birth_weight, min_weight, coarseness, precision : object
        As in `ScStream`.
    config, n_jobs, executor, max_events, random_state : object
        As in `ScStream`.

    Attributes
    ----------
    labels_ : array of shape (N,)
        Ids of the clusters of the rows of the last batch, -1 for a row that belongs to none.

    Notes
    -----
    A topic keeps its number for ever, and a cluster its id; ``topic_mapper_.get_mappings()`` of the
    BERTopic says which topic belongs to which cluster. They are the same as long as every cluster
    was born and found by itself.

    Examples
    --------
    >>> from scstream.bertopic import ScStreamTopics
    >>> ScStreamTopics(random_state=0).partial_fit(
    ...     [[0.1], [0.2], [0.3], [0.4], [0.5], [9.0]]
    ... ).labels_
    array([ 0,  0,  0,  0,  0, -1])
    """

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        time: Any = None,
        sample_weight: Any = None,
        ids: Any = None,
        texts: Any = None,
    ) -> Self:
        """Learn one batch; there is a -1 among the labels of the first.

        Parameters
        ----------
        X : array, table or CSR matrix of shape (N, D)
            The rows.
        y : None
            Not used.
        time, sample_weight, ids, texts : object
            As in `ScStream.partial_fit`.

        Returns
        -------
        ScStreamTopics
            The model itself.

        Examples
        --------
        >>> from scstream.bertopic import ScStreamTopics
        >>> rows = [[0.1], [0.2], [0.3], [0.4], [0.5], [0.6]]
        >>> model = ScStreamTopics(random_state=0).partial_fit(rows)
        >>> model.labels_
        array([-1,  0,  0,  0,  0,  0])
        >>> model.partial_fit([[0.15], [0.35], [0.55]]).labels_
        array([0, 0, 0])
        """
        is_first = not hasattr(self, "model_")
        super().partial_fit(X, y, time=time, sample_weight=sample_weight, ids=ids, texts=texts)
        if is_first and NOVEL not in self.labels_:
            self.labels_[np.argmin(self.score_samples(X))] = NOVEL
        return self
