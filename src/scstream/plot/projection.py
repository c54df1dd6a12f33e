"""The projection of rows and clusters to the one or two axes of a plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from scstream.families.base import Array, Labels, Rows
from scstream.model import Model
from scstream.view.columns import Columns, columns_of
from scstream.view.projection import Projection


@dataclass(frozen=True, eq=False)
class PlotProjection:
    """A linear map from rows to one or two axes, shared by all parts of a plot."""

    columns: Columns
    projection: Projection
    axis_names: tuple[str, ...]

    @classmethod
    def of(cls, models: Sequence[Model]) -> PlotProjection:
        """Choose the projection in which the clusters of these models differ most."""
        columns = columns_of(models[0].family)
        stats = np.concatenate([shapes(each) for each in models])
        weight = np.concatenate([each.state.weight for each in models])
        share = weight / max(float(weight.sum()), np.finfo(float).tiny)
        pooled = np.sqrt(share @ columns.stds(stats) ** 2)  # (C,)
        projection = Projection.of(
            columns.centres(stats), weight, unit=columns.unit(pooled), stds=pooled
        )
        axis_names = projection.words(columns.column_names(models[0].feature_names))
        return cls(columns, projection, tuple(axis_names))

    @property
    def is_line(self) -> bool:
        """Return True if rows have one column, drawn along the horizontal axis."""
        return self.projection.kind == "line"

    def centres(self, model: Model) -> Array:  # (K, A)
        """Return the projected means of the clusters."""
        return self.projection.place(self.columns.centres(shapes(model)))

    def covariances(self, model: Model) -> Array:  # (K, A, A)
        """Return the projected covariances of the clusters."""
        return self.columns.covariances(shapes(model), self.projection.lens)

    def points(self, model: Model, X: Rows, labels: Labels) -> Array:  # (N, A)
        """Return the projected rows; a missing entry is replaced by the mean of its cluster."""
        rows = self.columns.rows(X)
        if sparse.issparse(rows):
            return self.projection.place(rows)
        rows = np.array(rows)
        row, column = np.nonzero(np.isnan(rows))
        if len(row):
            centres = self.columns.centres(shapes(model))  # (K, C)
            weight = model.state.weight
            grand = weight @ centres / weight.sum()
            known = np.append(centres, grand[None], axis=0)
            rows[row, column] = known[_cluster_index(model, labels[row]), column]
        return self.projection.place(rows)


def shapes(model: Model) -> Array:  # (K, P)
    """Return the statistics of the clusters; of inactive ones as of their last rows."""
    return model.shapes


def _cluster_index(model: Model, labels: Labels) -> Labels:
    """Return the index of the cluster of each label; K for rows without a cluster."""
    ids = model.state.ids
    place = np.minimum(np.searchsorted(ids, labels), len(ids) - 1)
    return np.where(ids[place] == labels, place, len(ids))
