"""Where rows and clusters are in a picture: the columns of a family, seen along one or two axes."""

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
class Picture:
    """A linear map from rows to one axis or two, the same for all that is drawn."""

    columns: Columns
    projection: Projection
    axis_names: tuple[str, ...]

    @classmethod
    def of(cls, snapshots: Sequence[Model]) -> Picture:
        """Choose the picture in which the clusters of all these snapshots differ most."""
        columns = columns_of(snapshots[0].family)
        stats = np.concatenate([shapes(each) for each in snapshots])
        weight = np.concatenate([each.state.weight for each in snapshots])
        share = weight / max(float(weight.sum()), np.finfo(float).tiny)
        pooled = np.sqrt(share @ columns.stds(stats) ** 2)  # (C,)
        projection = Projection.of(
            columns.centres(stats), weight, unit=columns.unit(pooled), stds=pooled
        )
        names = projection.words(columns.column_names(snapshots[0].feature_names))
        return cls(columns, projection, tuple(names))

    @property
    def is_line(self) -> bool:
        """Whether rows have one column, which is the horizontal axis."""
        return self.projection.kind == "line"

    def centres(self, snapshot: Model) -> Array:  # (K, A)
        """Where the clusters are."""
        return self.projection.place(self.columns.centres(shapes(snapshot)))

    def covariances(self, snapshot: Model) -> Array:  # (K, A, A)
        """How the rows of each cluster scatter."""
        return self.columns.covariances(shapes(snapshot), self.projection.lens)

    def points(self, snapshot: Model, X: Rows, labels: Labels) -> Array:  # (N, A)
        """Where rows are. A missing entry is drawn at the mean of the cluster of its row."""
        rows = self.columns.rows(X)
        if sparse.issparse(rows):
            return self.projection.place(rows)
        rows = np.array(rows)
        row, column = np.nonzero(np.isnan(rows))
        if len(row):
            centres = self.columns.centres(shapes(snapshot))  # (K, C)
            weight = snapshot.state.weight
            grand = weight @ centres / weight.sum()
            known = np.append(centres, grand[None], axis=0)
            rows[row, column] = known[_places(snapshot, labels[row]), column]
        return self.projection.place(rows)


def shapes(snapshot: Model) -> Array:  # (K, P)
    """Statistics of the clusters; silent ones as they were when last heard of."""
    return snapshot.shapes


def _places(snapshot: Model, labels: Labels) -> Labels:
    """Place of each label among the clusters; after the last for none."""
    ids = snapshot.state.ids
    place = np.minimum(np.searchsorted(ids, labels), len(ids) - 1)
    return np.where(ids[place] == labels, place, len(ids))
