"""Render a model for the live page: clusters as ellipses, recent rows as points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
from scipy import sparse

from scstream.families.base import Array, Family, Labels, Rows
from scstream.io.header import Json
from scstream.serve.memory import LabelledRows, Shares
from scstream.stream.model_version import ModelVersion
from scstream.view.columns import Columns, columns_of
from scstream.view.projection import Projection

N_SHOWN = 400  # clusters that are drawn
_WORK = 5_000_000  # operations for the centres, and for the ellipses, of one picture
_MIN_SHOWN = 8  # clusters that are drawn even if they take more
_TRAITS = 4  # columns that describe a cluster
_YEARS = (6e8, 6e9)  # times between 1989 and 2160, in seconds since 1970


class ShownClusters(TypedDict):
    """The clusters that are drawn, by their present share; every list has an entry for each."""

    id: list[int]
    name: list[str | None]
    present: list[float]  # share of the rows of the newest batches
    share: list[float]  # of the weight of all rows, faded
    weight: list[float]
    born: list[float]
    last_seen: list[float]
    place: list[list[float]]  # x and y of the centre
    covariance: list[list[float]]  # of the ellipse; only the first clusters have one
    traits: list[list[tuple[int, float, float | None]]]  # column, mean and std


class ShownRows(TypedDict):
    """The rows that are drawn, the oldest first; every list has an entry for each."""

    place: list[list[float]]  # x and y
    id: list[int]  # of the cluster
    predicted: list[int]  # 1 if the row was predicted, 0 if it was learned


class PictureValues(TypedDict, total=False):
    """What the page draws, for JSON; empty before the first version."""

    version: int
    batch: int
    time: float | None
    family: str
    features: int  # number of columns
    clusters: int  # number of clusters
    kind: str  # of the projection
    axes: list[str]
    scatter: float  # share of the differences between clusters that the axes show
    shown: ShownClusters | list[int]  # an empty list without clusters
    groups: dict[int, str]  # names of groups that have one
    pinned: list[int]  # ids of clusters that people pinned
    names: dict[int, str]  # of the columns in `traits`
    rows: ShownRows | None
    view: Json  # its number, the batch that its axes were fitted to, and whether they are poor now
    editable: bool  # whether clusters can be named
    exemplars: bool  # whether the model keeps typical rows


@dataclass(frozen=True)
class Picture:
    """A picture, and its projection."""

    values: PictureValues
    projection: Projection | None = None


def render(
    version: ModelVersion,
    *,
    learned: LabelledRows | None = None,
    predicted: LabelledRows | None = None,
    before: Projection | None = None,
    hold: bool = False,
    present: Shares | None = None,
) -> Picture:
    """Render a model and rows that it learned or predicted.

    `before` is the last projection; with `hold` it stays as long as the model has its columns.
    `present` has the shares of the newest batches.
    """
    model = version.model
    family, state = model.family, model.state
    features = model.feature_names
    facts = _facts(version, features)
    if not state.n_clusters:
        return Picture({**facts, "shown": [], "rows": None})
    columns = columns_of(family)
    column_names = columns.column_names(features)
    n_columns = len(column_names)
    weight, share = state.weight, state.share
    now = share if present is None else present.at(state.ids)
    shown = heaviest(state.ids, now, int(np.clip(_WORK // n_columns, _MIN_SHOWN, N_SHOWN)))
    stats = state.subclusters_at(shown).sum(axis=1)
    centres = columns.centres(stats)  # (k, C)
    n_round = int(np.clip(_WORK // (n_columns * columns.work), _MIN_SHOWN, N_SHOWN))
    stds = columns.stds(stats[:n_round])
    pooled = np.sqrt(np.average(stds**2, axis=0, weights=weight[shown[:n_round]] + 1e-300))
    projection = before
    if projection is None or not hold or not projection.is_for(n_columns):
        projection = Projection.of(
            centres, weight[shown], unit=columns.unit(pooled), stds=pooled, before=before
        )
    ellipses = columns.covariances(stats[:n_round], projection.lens)
    clusters: ShownClusters = {
        "id": state.ids[shown].tolist(),
        "name": [model.names.get(each) for each in state.ids[shown].tolist()],
        "present": _short(now[shown]),
        "share": _short(share[shown]),
        "weight": _short(weight[shown]),
        "born": state.born[shown].tolist(),
        "last_seen": state.last_seen[shown].tolist(),
        "place": _short(projection.place(centres)),
        "covariance": _short(ellipses.reshape(len(ellipses), -1)),
        "traits": _traits(centres, stds, pooled),
    }
    shown_rows = {int(d) for traits in clusters["traits"] for d, _, _ in traits}
    middle = np.average(centres, axis=0, weights=weight[shown] + 1e-300)
    fill = dict(zip(state.ids[shown].tolist(), centres, strict=True))
    return Picture(
        {
            **facts,
            "kind": projection.kind,
            "axes": projection.words(column_names),
            "scatter": round(projection.shown(centres, weight[shown]), 3),
            "shown": clusters,
            "groups": dict(state.steering.group_names),
            "pinned": list(state.steering.pinned),
            "exemplars": model.exemplars is not None,
            "names": {d: column_names[d] for d in sorted(shown_rows)},
            "rows": _rows(family, columns, projection, (learned, predicted), (fill, middle)),
        },
        projection,
    )


def heaviest(ids: Labels, share: Array, n: int) -> Labels:  # (K,), (K,) -> (n,)
    """Return the indices of the largest shares, the largest first, ties by id."""
    picked = np.argpartition(-share, n - 1)[:n] if len(share) > n else np.arange(len(share))
    return picked[np.lexsort((ids[picked], -share[picked]))]


def _facts(version: ModelVersion, features: Sequence[str]) -> PictureValues:
    model = version.model
    state = model.state
    return {
        "version": version.version,
        "batch": version.batch,
        "time": None if state.is_new else state.time,
        "family": model.family.name,
        "features": len(features),
        "clusters": state.n_clusters,
    }


def clock_of(version: ModelVersion) -> str:
    """Return the kind of the times of a model: "batch" numbers, "date" or "number"."""
    state = version.model.state
    if state.time == state.n_batches - 1 == version.batch - 1:
        return "batch"
    return "date" if _YEARS[0] < state.time < _YEARS[1] else "number"


def _traits(centres: Array, stds: Array, pooled: Array) -> list[list[tuple[int, Any, Any]]]:
    """Return mean and std of the columns in which a cluster differs most from the others."""
    n_columns = centres.shape[1]
    if n_columns <= _TRAITS:
        order = np.tile(np.arange(n_columns), (len(centres), 1))
    else:
        apart = np.abs(centres - centres.mean(axis=0)) / np.maximum(pooled, 1e-300)
        order = np.argpartition(-apart, _TRAITS, axis=1)[:, :_TRAITS]
        first = np.argsort(-np.take_along_axis(apart, order, axis=1), axis=1, kind="stable")
        order = np.take_along_axis(order, first, axis=1)
    means = _short(np.take_along_axis(centres, order, axis=1))
    wide = _short(np.take_along_axis(stds, order[: len(stds)], axis=1))
    wide += [[None] * order.shape[1]] * (len(centres) - len(stds))
    return [list(zip(*each, strict=True)) for each in zip(order.tolist(), means, wide, strict=True)]


def _rows(
    family: Family,
    columns: Columns,
    projection: Projection,
    shown_rows: Sequence[LabelledRows | None],
    fill: tuple[dict[int, Array], Array],
) -> ShownRows | None:
    """Return positions and labels of learned and predicted rows, in the order of time."""
    usable = [
        (kind, rows)
        for kind, rows in enumerate(shown_rows)
        if rows is not None and rows.rows.shape[1] == family.n_features
    ]
    if not usable:
        return None
    places = np.concatenate(
        [
            projection.place(_filled(columns.rows(rows.rows), rows.labels, fill))
            for _, rows in usable
        ]
    )
    order = np.argsort(np.concatenate([rows.at for _, rows in usable]), kind="stable")
    kinds = np.concatenate([np.full(len(rows.labels), kind) for kind, rows in usable])
    labels = np.concatenate([rows.labels for _, rows in usable])
    return {
        "place": _short(places[order]),
        "id": labels[order].tolist(),
        "predicted": kinds[order].tolist(),
    }


def _filled(points: Rows, labels: Labels, fill: tuple[dict[int, Array], Array]) -> Rows:
    """Replace missing entries by the centre of the cluster of their row."""
    if sparse.issparse(points) or not np.isnan(points).any():
        return points
    centres, middle = fill
    there = np.array([centres.get(label, middle) for label in labels.tolist()])
    return np.where(np.isnan(points), there, points)


def _short(values: Array) -> Any:
    """Return an array as lists of numbers with six digits, None for those that are not finite."""
    values = np.asarray(values, dtype=np.float64)
    finite = np.isfinite(values)
    size = np.where(finite & (values != 0), np.abs(values), 1.0)
    scale = 10.0 ** (5.0 - np.floor(np.log10(np.maximum(size, 1e-290))))
    short = np.rint(np.where(finite, values, 0.0) * scale) / scale
    if not finite.all():
        short = short.astype(object)
        short[~finite] = None
    return short.tolist()
