"""One picture of a model: heaviest clusters as ellipses, recent rows as points, axes in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from scstream.core.state import State
from scstream.families.base import Array, Family, Labels, Rows
from scstream.serve.memory import Told, in_short
from scstream.stream.model_version import ModelVersion
from scstream.view.columns import Columns, columns_of
from scstream.view.projection import Projection

N_SHOWN = 200  # clusters that are drawn
_WORK = 5_000_000  # operations that the centres, or the ellipses, of one picture may cost
_FEWEST = 8  # clusters that are drawn whatever it costs
_TRAITS = 4  # columns that are told of a cluster
_YEARS = (6e8, 6e9)  # times between 1989 and 2160, in seconds since 1970


@dataclass(frozen=True)
class Drawing:
    """A picture as JSON, and how it was projected.

    Examples
    --------
    >>> from scstream.serve.picture import Drawing
    >>> Drawing({"clusters": 0}).projection is None
    True
    """

    values: dict[str, Any]
    projection: Projection | None = None


def draw(
    reading: ModelVersion,
    *,
    learned: Told | None = None,
    asked: Told | None = None,
    before: Projection | None = None,
) -> Drawing:
    """Draw a model and rows that it learned or was asked about.

    Parameters
    ----------
    reading : ModelVersion
        The model.
    learned, asked : Told, optional
        Prepared rows and their labels.
    before : Projection, optional
        How the last picture was projected.

    Returns
    -------
    Drawing
        What the page shows.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.model import Settings
    >>> from scstream.serve.memory import Told
    >>> from scstream.serve.picture import draw
    >>> from scstream.preprocess import Steps
    >>> from scstream.stream.model_version import ModelVersion
    >>> rows = np.random.default_rng(0).normal(size=(50, 3))
    >>> model, labels, _ = Settings(random_state=0).update(rows)
    >>> told = Told(rows, labels, np.arange(50.0))
    >>> drawing = draw(ModelVersion(0, 1, 0.0, None, model, Steps()), learned=told)
    >>> drawing.values["kind"], drawing.values["clusters"], len(drawing.values["rows"]["id"])
    ('plane', 1, 50)
    """
    snapshot = reading.model
    family, state = snapshot.family, snapshot.state
    features = snapshot.feature_names
    facts = _facts(reading, features)
    if not state.n_clusters:
        return Drawing(facts | {"shown": [], "rows": None})
    columns = columns_of(family)
    names = columns.names(features)
    weight, share = weights_of(state)
    shown = heaviest(state.ids, share, int(np.clip(_WORK // len(names), _FEWEST, N_SHOWN)))
    stats = (state.past[shown] + state.current[shown]).sum(axis=1)
    centres = columns.centres(stats)  # (k, C)
    n_round = int(np.clip(_WORK // (len(names) * columns.work), _FEWEST, N_SHOWN))
    stds = columns.stds(stats[:n_round])
    pooled = np.sqrt(np.average(stds**2, axis=0, weights=weight[shown[:n_round]] + 1e-300))
    projection = Projection.of(
        centres, weight[shown], unit=columns.unit(pooled), stds=pooled, before=before
    )
    ellipses = columns.covariances(stats[:n_round], projection.lens)
    clusters = _clusters(state, shown, weight, share) | {
        "place": _short(projection.place(centres)),
        "covariance": _short(ellipses.reshape(len(ellipses), -1)),
        "traits": _traits(centres, stds, pooled),
    }
    told = {int(d) for traits in clusters["traits"] for d, _, _ in traits}
    middle = np.average(centres, axis=0, weights=weight[shown] + 1e-300)
    fill = dict(zip(state.ids[shown].tolist(), centres, strict=True))
    return Drawing(
        facts
        | {
            "kind": projection.kind,
            "axes": projection.words(names),
            "shown": clusters,
            "names": {d: names[d] for d in sorted(told)},
            "rows": _rows(family, columns, projection, (learned, asked), (fill, middle)),
        },
        projection,
    )


def weights_of(state: State) -> tuple[Array, Array]:  # (K,), (K,)
    """Weights of the clusters and their shares, without adding up all other statistics.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.core.state import State
    >>> from scstream.families import Multinomial
    >>> from scstream.serve.picture import weights_of
    >>> weights_of(State.empty(Multinomial(np.ones(3))))[1].shape
    (0,)
    """
    weight = state.past[:, :, 0].sum(axis=1) + state.current[:, :, 0].sum(axis=1)
    total = float(weight.sum()) + state.unassigned_weight + state.unassigned_now
    return weight, weight / max(total, np.finfo(float).tiny)


def heaviest(ids: Labels, share: Array, n: int) -> Labels:  # (K,), (K,) -> (n,)
    """Return where the largest shares are, the largest first, ties in the order of ids.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.serve.picture import heaviest
    >>> heaviest(np.array([3, 5, 8]), np.array([0.2, 0.5, 0.3]), 2)
    array([1, 2])
    """
    picked = np.argpartition(-share, n - 1)[:n] if len(share) > n else np.arange(len(share))
    return picked[np.lexsort((ids[picked], -share[picked]))]


def _facts(reading: ModelVersion, features: Sequence[str]) -> dict[str, Any]:
    snapshot = reading.model
    state = snapshot.state
    return {
        "version": reading.version,
        "batch": reading.batch,
        "time": None if state.is_new else state.time,
        "family": snapshot.family.name,
        "features": len(features),
        "clusters": state.n_clusters,
    }


def clock_of(reading: ModelVersion) -> str:
    """Tell what the times of a model are: "batch" for numbers of batches, "date", or "number".

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.model import Settings
    >>> from scstream.serve.picture import clock_of
    >>> from scstream.preprocess import Steps
    >>> from scstream.stream.model_version import ModelVersion
    >>> model, _, _ = Settings(random_state=0).update(np.arange(20.0)[:, None] % 7, time=1.7e9)
    >>> clock_of(ModelVersion(0, 1, 0.0, None, model, Steps()))
    'date'
    """
    state = reading.model.state
    if state.time == state.n_batches - 1 == reading.batch - 1:
        return "batch"
    return "date" if _YEARS[0] < state.time < _YEARS[1] else "number"


def _clusters(state: State, shown: Labels, weight: Array, share: Array) -> dict[str, Any]:
    return {
        "id": state.ids[shown].tolist(),
        "share": _short(share[shown]),
        "weight": _short(weight[shown]),
        "born": state.born[shown].tolist(),
        "seen": state.last_seen[shown].tolist(),
    }


def _traits(centres: Array, stds: Array, pooled: Array) -> list[list[tuple[int, Any, Any]]]:
    """Mean and std of the columns in which a cluster differs most from the others."""
    n_columns = centres.shape[1]
    if n_columns <= _TRAITS:
        order = np.tile(np.arange(n_columns), (len(centres), 1))
    else:
        apart = np.abs(centres - centres.mean(axis=0)) / np.maximum(pooled, 1e-300)
        order = np.argsort(-apart, axis=1, kind="stable")[:, :_TRAITS]
    return [
        [(int(d), _short(centre[d]), _short(stds[k, d]) if k < len(stds) else None) for d in picked]
        for k, (centre, picked) in enumerate(zip(centres, order, strict=True))
    ]


def _rows(
    family: Family,
    columns: Columns,
    projection: Projection,
    told: Sequence[Told | None],
    fill: tuple[dict[int, Array], Array],
) -> dict[str, Any] | None:
    """Places and labels of rows that were learned or asked about, as they came."""
    usable = [
        (kind, rows)
        for kind, rows in enumerate(told)
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
    asked = np.concatenate([np.full(len(rows.labels), kind) for kind, rows in usable])
    labels = np.concatenate([rows.labels for _, rows in usable])
    return {
        "place": _short(places[order]),
        "id": labels[order].tolist(),
        "asked": asked[order].tolist(),
    }


def _filled(points: Rows, labels: Labels, fill: tuple[dict[int, Array], Array]) -> Rows:
    """A missing entry is drawn where the cluster of its row is."""
    if sparse.issparse(points) or not np.isnan(points).any():
        return points
    centres, middle = fill
    there = np.array([centres.get(label, middle) for label in labels.tolist()])
    return np.where(np.isnan(points), there, points)


def _short(values: Any) -> Any:
    """Numbers of an array, each as short as a page can show it."""
    if np.ndim(values) == 0:
        return in_short(float(values))
    return [_short(value) for value in values]
