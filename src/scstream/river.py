"""Adapter for river: rows one by one in, batches of a buffer learned; extra ``river``."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from scstream.core.state import NOVEL
from scstream.errors import InputError, missing_extra
from scstream.estimator import ScStream
from scstream.families import Family, Product
from scstream.families.base import Array
from scstream.io.frames import column_names, labels_like, table_rows
from scstream.io.parameters import family_kind, read_parts
from scstream.io.schema import check_entries

try:
    from river import base
except ImportError as error:
    raise missing_extra("river", "river") from error

__all__ = ["ScStreamClusterer"]


class ScStreamClusterer(base.Clusterer):
    """`ScStream` as a clusterer of river.

    Rows are kept in a buffer; when it is full they are learned as one batch, so that time counts in
    full buffers and `half_life` too. Rows that wait in the buffer do not yet count in predictions.

    Parameters
    ----------
    buffer_size : int
        Rows of a batch. The model learns from the shape of a batch as a whole: tens of rows per
        cluster are good, one is not.
    seed : int or None
        Seed of the model.
    **choices : object
        Any other parameter of `ScStream`: ``family``, ``alpha``, ``half_life``, ...

    Attributes
    ----------
    model : ScStream
        The model, with its ``clusters_`` and ``events_``.

    Notes
    -----
    The features are those of the first row. A later row without one of them is accepted where the
    family handles missing values (``family="diagonal"``, say), and refused where it does not; a row
    with a feature that the first one did not have is refused. A refused row changes nothing.

    Examples
    --------
    >>> from river import preprocessing
    >>> from scstream.datasets import drifting_gaussians
    >>> from scstream.river import ScStreamClusterer
    >>> model = preprocessing.StandardScaler() | ScStreamClusterer(buffer_size=200, seed=0)
    >>> for batch in drifting_gaussians(n_clusters=3, n_batches=3, random_state=1):
    ...     for row in batch.X:
    ...         model.learn_one(dict(enumerate(row)))
    >>> model["ScStreamClusterer"].model.n_clusters_
    3
    """

    def __init__(self, buffer_size: int = 100, seed: int | None = None, **choices: Any) -> None:
        if buffer_size < 1:
            raise InputError(f"buffer_size must be a whole number from 1, got {buffer_size!r}.")
        self.buffer_size = buffer_size
        self.seed = seed
        self.choices = choices
        self.model = ScStream(random_state=seed, **choices)
        self._features: tuple[Hashable, ...] | None = None
        self._buffer: list[Array] = []

    def learn_one(self, x: Mapping[Any, Any]) -> None:
        """Put one row into the buffer; learn the buffer when it is full.

        Parameters
        ----------
        x : dict
            Values by feature.

        Examples
        --------
        >>> from scstream.river import ScStreamClusterer
        >>> model = ScStreamClusterer(buffer_size=2, seed=0)
        >>> model.learn_one({"size": 1.0})
        >>> model.learn_one({"size": 1.5})
        >>> model.model.n_clusters_
        1
        """
        self._learn(_names_and_rows(x))

    def learn_many(self, X: Any) -> None:
        """Put the rows of a table into the buffer, as `learn_one` would one after the other.

        Parameters
        ----------
        X : table
            pandas, polars or pyarrow.

        Examples
        --------
        >>> import pandas
        >>> from scstream.river import ScStreamClusterer
        >>> model = ScStreamClusterer(buffer_size=2, seed=0)
        >>> model.learn_many(pandas.DataFrame({"size": [1.0, 1.5, 2.0]}))
        >>> model.model.state_.n_batches
        1
        """
        self._learn((column_names(X), table_rows(X)))

    def flush(self) -> None:
        """Learn now what is in the buffer, full or not.

        Examples
        --------
        >>> from scstream.river import ScStreamClusterer
        >>> model = ScStreamClusterer(seed=0)
        >>> model.learn_one({"size": 1.0})
        >>> model.flush()
        >>> model.model.n_clusters_
        1
        """
        if not self._buffer:
            return
        rows, self._buffer = np.array(self._buffer), []
        self.model.partial_fit(rows)

    def predict_one(self, x: Mapping[Any, Any]) -> int:
        """Id of the most probable cluster of a row.

        Parameters
        ----------
        x : dict
            Values by feature.

        Returns
        -------
        int
            -1 for a row that belongs to no cluster yet, and before the first batch is learned.

        Examples
        --------
        >>> from scstream.river import ScStreamClusterer
        >>> ScStreamClusterer(seed=0).predict_one({"size": 1.0})
        -1
        """
        return int(self._predict(_names_and_rows(x))[0])

    def predict_many(self, X: Any) -> Any:
        """Ids of the most probable clusters of the rows of a table.

        Parameters
        ----------
        X : table
            pandas, polars or pyarrow.

        Returns
        -------
        series
            A column named ``cluster`` of the same library, with the index of `X` if it has one.

        Examples
        --------
        >>> import pandas
        >>> from scstream.river import ScStreamClusterer
        >>> ScStreamClusterer(seed=0).predict_many(pandas.DataFrame({"size": [1.0]})).tolist()
        [-1]
        """
        return labels_like(X, self._predict((column_names(X), table_rows(X))))

    @property
    def centers(self) -> dict[int, dict[Hashable, float]]:
        """Means of the clusters by id and feature, which river's clustering metrics read.

        Examples
        --------
        >>> from scstream.river import ScStreamClusterer
        >>> ScStreamClusterer(seed=0).centers
        {}
        """
        if self._features is None or not hasattr(self.model, "model_"):
            return {}
        return {
            cluster.id: dict(zip(self._features, cluster.mean.tolist(), strict=True))
            for cluster in self.model.clusters_
        }

    @classmethod
    def _unit_test_skips(cls) -> set[str]:
        # Rows whose features come and go are refused, unless the family marginalises them.
        return {
            "check_emerging_features",
            "check_disappearing_features",
            "check_radically_disappearing_features",
        }

    def _learn(self, table: tuple[Sequence[Hashable], Array]) -> None:
        features = tuple(table[0]) if self._features is None else self._features
        rows = self._aligned(table, features)
        if self._features is None and family_kind(self.model.family) is Product:
            # The model will see rows without names.
            self.model.set_params(family=read_parts(self.model.family, [*map(str, features)]))
        self._features = features
        for row in rows:
            self._buffer.append(row)
            if len(self._buffer) >= self.buffer_size:
                self.flush()

    def _predict(self, table: tuple[Sequence[Hashable], Array]) -> Any:
        if self._features is None or "model_" not in vars(self.model):
            return np.full(len(table[1]), NOVEL)
        return self.model.predict(self._aligned(table, self._features))

    def _aligned(
        self, table: tuple[Sequence[Hashable], Array], features: tuple[Hashable, ...]
    ) -> Array:  # (N, D)
        """Rows with the features of the model in their order, checked."""
        names, rows = table
        model = vars(self.model).get("model_")
        kind = family_kind(self.model.family) if model is None else model.family
        if tuple(names) != features:
            rows = self._ordered(names, rows, features, kind)
        check_entries(rows, kind)
        if model is not None:
            model.family.check(rows)
        return rows

    def _ordered(
        self,
        names: Sequence[Hashable],
        values: Array,
        features: tuple[Hashable, ...],
        kind: Family | type[Family],
    ) -> Array:  # (N, D)
        """Columns in the order of the model; what is absent is missing."""
        new = [name for name in names if name not in features]
        if new:
            raise InputError(
                f"the row has a feature {new[0]!r} that the first row did not have; the features "
                f"are {', '.join(map(str, features))}."
            )
        absent = [name for name in features if name not in names]
        if absent and not kind.handles_missing:
            raise InputError(
                f"the row has no feature {absent[0]!r}; the {kind.name} family needs every one: "
                "fill it in, or use a family that handles missing values, such as 'diagonal'."
            )
        rows = np.full((len(values), len(features)), np.nan)
        rows[:, [features.index(name) for name in names]] = values
        return rows


def _names_and_rows(x: Mapping[Any, Any]) -> tuple[list[Hashable], Array]:
    try:
        return list(x), np.array([[*map(float, x.values())]])
    except (TypeError, ValueError) as error:
        raise InputError(f"the row holds something that is not a number: {error}.") from error
