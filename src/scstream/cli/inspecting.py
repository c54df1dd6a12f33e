"""What `scstream inspect` knows: what a model is, its clusters, and how healthy it is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from scstream.cli.opened import Opened
from scstream.core.state import Event
from scstream.errors import InputError
from scstream.families import Gaussian
from scstream.families.base import Array, Labels
from scstream.io.clusters import ClusterTable
from scstream.stream.findings import Finding

_SINGULAR = 1e10  # condition of a covariance beyond which its inverse is mostly rounding
_MUCH = 0.1  # share of rows of no cluster that somebody should look at
_WIDE = 10.0  # times as wide as most: a cluster of stray rows
_TINY = np.finfo(float).tiny


def table_of(opened: Opened) -> ClusterTable:
    """Return the clusters of a model; features without names are x0, x1 and so on.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.cli.inspecting import table_of
    >>> from scstream.cli.opened import Opened
    >>> from scstream.model import Settings
    >>> from scstream.preprocess import Steps
    >>> from scstream.stream.model_version import ModelVersion
    >>> model, _, _ = Settings(random_state=0).update(np.arange(20.0)[:, None] % 7)
    >>> opened = Opened(
    ...     "m", ModelVersion(0, 1, 0.0, None, model, Steps()), 900, "0.1.0", kept=False
    ... )
    >>> table_of(opened).feature_names
    ('x0',)
    """
    snapshot = opened.reading.model
    return ClusterTable.of(snapshot.family, snapshot.state, snapshot.feature_names)


def unusual(table: ClusterTable) -> tuple[Array, Array, Array]:  # (K, D), (D,), (D,)
    """How far each mean is from the mean of all clusters, in spreads of all; and these two.

    A cluster much wider than most, such as one of stray rows, does not count in "all": it would
    make everything look usual.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.cli.inspecting import unusual
    >>> from scstream.io.clusters import ClusterTable
    >>> half, mean = np.full(2, 0.5), np.array([[0.0], [8.0]])
    >>> std = np.full((2, 1), 3.0)
    >>> table = ClusterTable(np.arange(2), half, half, half, half, half, mean, std, ("x",))
    >>> unusual(table)
    (array([[-0.8], [ 0.8]]), array([4.]), array([5.]))
    """
    part = table.share[:, None] * (table.std <= _WIDE * _middle(table.std, table.share))
    part = part / np.maximum(part.sum(axis=0), _TINY)  # (K, D)
    centre = (part * table.mean).sum(axis=0)
    std = np.sqrt((part * (table.std**2 + (table.mean - centre) ** 2)).sum(axis=0))
    with np.errstate(divide="ignore", invalid="ignore"):
        far = np.nan_to_num((table.mean - centre) / std, nan=0.0, posinf=0.0, neginf=0.0)
    return far, centre, std


def _middle(values: Array, weight: Array) -> Array:  # (K, D), (K,) -> (D,)
    """Median of every column, by weight."""
    if not len(values):
        return np.zeros(values.shape[1])
    order, column = np.argsort(values, axis=0), np.arange(values.shape[1])
    behind = np.cumsum(weight[order], axis=0) >= weight.sum() / 2  # (K, D)
    return np.asarray(values[order[behind.argmax(axis=0), column], column])


def health(opened: Opened) -> Iterator[Finding]:
    """Yield what somebody should know before relying on the model.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.cli.inspecting import health
    >>> from scstream.cli.opened import Opened
    >>> from scstream.model import Settings
    >>> from scstream.preprocess import Steps
    >>> from scstream.stream.model_version import ModelVersion
    >>> model, _, _ = Settings(random_state=0).update(np.arange(20.0)[:, None] % 7)
    >>> opened = Opened(
    ...     "m", ModelVersion(0, 1, 0.0, None, model, Steps()), 900, "0.1.0", kept=False
    ... )
    >>> [finding.about for finding in health(opened)]
    ['condition', 'weight', 'silence', 'novelty']
    """
    snapshot = opened.reading.model
    state, config = snapshot.state, snapshot.config
    if isinstance(snapshot.family, Gaussian) and state.n_clusters:
        std = np.linalg.eigvalsh(snapshot.family.covariance(state.cluster_stats))  # (K, D)
        condition = std[:, -1] / np.maximum(std[:, 0], _TINY)
        worst = int(condition.argmax())
        detail = (
            f"the worst of a covariance is {condition[worst]:.3g}, of cluster {state.ids[worst]}"
        )
        if condition[worst] > _SINGULAR:
            detail += "; columns that say the same make it so, leave one out"
        yield Finding("note" if condition[worst] > _SINGULAR else "ok", "condition", detail)
    light = state.ids[state.weight < config.min_birth_weight]
    detail = f"{_listed(light)}: less than {config.min_birth_weight:g} rows of weight, may die soon"
    yield Finding("ok", "weight", detail if len(light) else "no cluster is about to die")
    if state.n_clusters:
        yield _silence(opened)
    if state.n_clusters >= config.max_clusters:
        detail = f"there are as many clusters as there may be ({config.max_clusters}): max_clusters"
        yield Finding("warn", "room", detail)
    share = (state.unassigned_weight + state.unassigned_now) / max(state.total_weight, _TINY)
    detail = f"{share:.1%} of what is remembered belongs to no cluster"
    yield Finding("note" if share > _MUCH else "ok", "novelty", detail)


def _silence(opened: Opened) -> Finding:
    state = opened.reading.model.state
    quiet = (state.time - state.last_seen) / max(state.batch_interval, _TINY)  # batches
    silent = state.ids[quiet >= 1]
    if not len(silent):
        return Finding("ok", "silence", "every cluster had rows in the last batch")
    detail = (
        f"{_listed(silent)}: no row in the last batch, the longest for {quiet.max():.0f} batches"
    )
    return Finding("ok", "silence", detail)


def _listed(ids: Labels) -> str:
    shown = ", ".join(map(str, ids[:5])) + (", ..." if len(ids) > 5 else "")
    return f"cluster {shown}" if len(ids) == 1 else f"{len(ids)} clusters ({shown})"


def facts(opened: Opened) -> dict[str, Any]:
    """Return everything that `scstream inspect` says, for JSON.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.cli.inspecting import facts
    >>> from scstream.cli.opened import Opened
    >>> from scstream.model import Settings
    >>> from scstream.preprocess import Steps
    >>> from scstream.stream.model_version import ModelVersion
    >>> model, _, _ = Settings(random_state=0).update(np.arange(20.0)[:, None] % 7)
    >>> opened = Opened(
    ...     "m", ModelVersion(0, 1, 0.0, None, model, Steps()), 900, "0.1.0", kept=False
    ... )
    >>> facts(opened)["n_batches"]
    1
    """
    snapshot, progress = opened.reading.model, opened.progress
    state, table = snapshot.state, table_of(opened)
    return {
        "model": opened.place,
        "bytes": opened.n_bytes,
        "writer": opened.writer,
        "version": opened.reading.version if opened.kept else None,
        "family": snapshot.family.name,
        "features": list(table.feature_names),
        "n_clusters": state.n_clusters,
        "n_batches": state.n_batches,
        "time": None if state.is_new else state.time,
        "half_life": getattr(snapshot.config.kernel, "half_life", None),
        "alpha": snapshot.config.alpha,
        "seed": snapshot.config.seed,
        "log_density": _number(snapshot.info.mean_log_density),
        "novel": snapshot.info.n_novel,
        "steps": opened.reading.steps.options(),
        "pipeline": progress
        and {
            name: progress.to_dict()[name]
            for name in ("job", "batch", "rows", "rejected", "time", "offsets")
        },
        "clusters": [
            {
                "id": each.id,
                "weight": each.weight,
                "share": each.share,
                "born": each.born,
                "last_seen": each.last_seen,
                "mean": each.mean.tolist(),
                "std": each.std.tolist(),
            }
            for each in table
        ],
        "events": [vars(event) for event in snapshot.events],
        "health": [vars(finding) for finding in health(opened)],
    }


def cluster_facts(opened: Opened, cluster: int) -> dict[str, Any]:
    """Return everything about one cluster, for JSON; its most unusual features come first.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.cli.inspecting import cluster_facts
    >>> from scstream.cli.opened import Opened
    >>> from scstream.model import Settings
    >>> from scstream.preprocess import Steps
    >>> from scstream.stream.model_version import ModelVersion
    >>> model, _, _ = Settings(random_state=0).update(np.arange(20.0)[:, None] % 7)
    >>> opened = Opened(
    ...     "m", ModelVersion(0, 1, 0.0, None, model, Steps()), 900, "0.1.0", kept=False
    ... )
    >>> cluster_facts(opened, 0)["features"][0]["name"]
    'x0'
    """
    table = table_of(opened)
    k = place_of(table, cluster)
    far, centre, std = unusual(table)
    return {
        "id": cluster,
        "weight": float(table.weight[k]),
        "share": float(table.share[k]),
        "born": float(table.born[k]),
        "last_seen": float(table.last_seen[k]),
        "features": [
            {
                "name": table.feature_names[d],
                "unusual": float(far[k, d]),
                "mean": float(table.mean[k, d]),
                "std": float(table.std[k, d]),
                "mean_of_all": float(centre[d]),
                "spread_of_all": float(std[d]),
            }
            for d in np.argsort(-np.abs(far[k]), kind="stable")
        ],
        "events": [vars(event) for event in events_of(opened, cluster)],
    }


def place_of(table: ClusterTable, cluster: int) -> int:
    """Return which row of the table a cluster is.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.cli.inspecting import place_of
    >>> from scstream.io.clusters import ClusterTable
    >>> one, two = np.ones(1), np.ones((1, 2))
    >>> place_of(ClusterTable(np.array([7]), one, one, one, one, one, two, two, ("a", "b")), 7)
    0
    """
    found = np.flatnonzero(table.id == cluster)
    if not len(found):
        there = ", ".join(map(str, table.id[:20])) + (", ..." if len(table) > 20 else "")
        raise InputError(f"there is no cluster {cluster}; there are: {there or 'none'}.")
    return int(found[0])


def events_of(opened: Opened, cluster: int) -> list[Event]:
    """Return what happened to a cluster, as far as the model remembers.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.cli.inspecting import events_of
    >>> from scstream.cli.opened import Opened
    >>> from scstream.model import Settings
    >>> from scstream.preprocess import Steps
    >>> from scstream.stream.model_version import ModelVersion
    >>> model, _, _ = Settings(random_state=0).update(np.arange(20.0)[:, None] % 7)
    >>> opened = Opened(
    ...     "m", ModelVersion(0, 1, 0.0, None, model, Steps()), 900, "0.1.0", kept=False
    ... )
    >>> [event.kind for event in events_of(opened, 0)]
    ['born']
    """
    return [e for e in opened.reading.model.events if cluster in (e.id, e.other)]


def _number(value: float) -> float | None:
    """A number for JSON, which knows no NaN."""
    return value if math.isfinite(value) else None
