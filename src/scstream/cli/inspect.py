"""`scstream inspect`: facts about a model, its clusters and its health."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from scstream.cli.load import LoadedModel
from scstream.core.groups import Groups
from scstream.core.state import Event
from scstream.errors import InputError
from scstream.families import Gaussian
from scstream.families.base import Array, Labels
from scstream.io.clusters import ClusterTable
from scstream.stream.findings import Finding

_SINGULAR = 1e10  # condition number above which the inverse is mostly rounding error
_HIGH_NOVELTY = 0.1
_OUTLIER_WIDTH = 10.0  # times the median: a wider cluster collects outliers
_TINY = np.finfo(float).tiny


def cluster_table(loaded: LoadedModel) -> ClusterTable:
    """Return the clusters of a model; unnamed features are called x0, x1 and so on."""
    model = loaded.model
    return ClusterTable.of(model.family, model.state, model.feature_names, names=model.names)


def deviations(table: ClusterTable) -> tuple[Array, Array, Array]:  # (K, D), (D,), (D,)
    """Return the distance of each mean from the overall mean in overall stds, and both of these.

    Clusters much wider than the others collect outliers and are left out of the overall mean and
    std; otherwise every cluster would look usual.
    """
    part = table.share[:, None] * (
        table.std <= _OUTLIER_WIDTH * _weighted_median(table.std, table.share)
    )
    part = part / np.maximum(part.sum(axis=0), _TINY)  # (K, D)
    mean = (part * table.mean).sum(axis=0)
    std = np.sqrt((part * (table.std**2 + (table.mean - mean) ** 2)).sum(axis=0))
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.nan_to_num((table.mean - mean) / std, nan=0.0, posinf=0.0, neginf=0.0)
    return distance, mean, std


def _weighted_median(values: Array, weight: Array) -> Array:  # (K, D), (K,) -> (D,)
    if not len(values):
        return np.zeros(values.shape[1])
    order, column = np.argsort(values, axis=0), np.arange(values.shape[1])
    is_above = np.cumsum(weight[order], axis=0) >= weight.sum() / 2  # (K, D)
    return np.asarray(values[order[is_above.argmax(axis=0), column], column])


def check_health(loaded: LoadedModel) -> Iterator[Finding]:
    """Yield what to know before relying on the model."""
    model = loaded.model
    state, config = model.state, model.config
    if isinstance(model.family, Gaussian) and state.n_clusters:
        yield _check_condition(loaded)
    light = state.ids[state.weight < config.min_birth_weight]
    detail = f"{_list_ids(light)}: weight below {config.min_birth_weight:g} rows, may die soon"
    yield Finding("ok", "weight", detail if len(light) else "no cluster is about to die")
    if state.n_clusters:
        yield _check_silence(loaded)
    if state.n_clusters >= config.max_clusters:
        detail = f"the number of clusters has reached its limit, max_clusters={config.max_clusters}"
        yield Finding("warn", "room", detail)
    share = (state.unassigned_weight + state.unassigned_now) / max(state.total_weight, _TINY)
    detail = f"{share:.1%} of the remembered weight belongs to no cluster"
    yield Finding("note" if share > _HIGH_NOVELTY else "ok", "novelty", detail)


def _check_condition(loaded: LoadedModel) -> Finding:
    family, state = loaded.model.family, loaded.model.state
    assert isinstance(family, Gaussian)
    variances = np.linalg.eigvalsh(family.covariance(state.cluster_stats))  # (K, D), sorted
    condition = variances[:, -1] / np.maximum(variances[:, 0], _TINY)
    worst = int(condition.argmax())
    detail = f"largest condition number {condition[worst]:.3g}, of cluster {state.ids[worst]}"
    if condition[worst] <= _SINGULAR:
        return Finding("ok", "condition", detail)
    return Finding("note", "condition", f"{detail}; redundant columns cause this, remove one")


def _check_silence(loaded: LoadedModel) -> Finding:
    state = loaded.model.state
    batches = (state.time - state.last_seen) / max(state.batch_interval, _TINY)
    inactive = state.ids[batches >= 1]
    if not len(inactive):
        return Finding("ok", "silence", "every cluster had rows in the last batch")
    longest = f"the longest for {batches.max():.0f} batches"
    return Finding("ok", "silence", f"{_list_ids(inactive)}: no row in the last batch, {longest}")


def _list_ids(ids: Labels) -> str:
    shown = ", ".join(map(str, ids[:5])) + (", ..." if len(ids) > 5 else "")
    return f"cluster {shown}" if len(ids) == 1 else f"{len(ids)} clusters ({shown})"


def describe_model(loaded: LoadedModel) -> dict[str, object]:
    """Return everything about a model, for JSON."""
    model, progress = loaded.model, loaded.progress
    state, table = model.state, cluster_table(loaded)
    density = model.info.mean_log_density
    fields = ("job", "batch", "rows", "rejected", "time", "offsets")
    return {
        "model": loaded.place,
        "bytes": loaded.n_bytes,
        "writer": loaded.writer,
        "version": loaded.version.version if loaded.is_checkpoint else None,
        "family": model.family.name,
        "choice": model.why,
        "features": list(table.feature_names),
        "n_clusters": state.n_clusters,
        "n_batches": state.n_batches,
        "time": None if state.is_new else state.time,
        "half_life": getattr(model.config.kernel, "half_life", None),
        "alpha": model.config.alpha,
        "seed": model.config.seed,
        "log_density": density if math.isfinite(density) else None,
        "novel": model.info.n_novel,
        "steps": loaded.version.steps.options(),
        "pipeline": progress and {name: progress.to_dict()[name] for name in fields},
        "clusters": [vars(each) for each in table],
        "groups": describe_groups(model.groups()),
        "events": [vars(event) for event in model.events],
        "health": [vars(finding) for finding in check_health(loaded)],
    }


def describe_groups(groups: Groups) -> list[dict[str, object]]:
    """Return the id, the weight and the clusters of every group, for JSON."""
    return [
        {"id": g, "weight": weight, "clusters": groups.members(g).tolist()}
        for g, weight in zip(groups.id.tolist(), groups.weight.tolist(), strict=True)
    ]


def describe_cluster(loaded: LoadedModel, cluster: int) -> dict[str, object]:
    """Return everything about one cluster, for JSON; its most unusual features come first."""
    table = cluster_table(loaded)
    k = find_cluster(table, cluster)
    distance, mean, std = deviations(table)
    facts = {name: value for name, value in vars(table.row(k)).items() if np.ndim(value) == 0}
    return {
        **facts,
        "features": [
            {
                "name": table.feature_names[d],
                "unusual": distance[k, d],
                "mean": table.mean[k, d],
                "std": table.std[k, d],
                "mean_of_all": mean[d],
                "std_of_all": std[d],
            }
            for d in np.argsort(-np.abs(distance[k]), kind="stable")
        ],
        "events": [vars(event) for event in cluster_events(loaded, cluster)],
    }


def find_cluster(table: ClusterTable, cluster: int) -> int:
    """Return the row of a cluster in the table."""
    found = np.flatnonzero(table.id == cluster)
    if not len(found):
        ids = ", ".join(map(str, table.id[:20])) + (", ..." if len(table) > 20 else "")
        raise InputError(f"there is no cluster {cluster}; there are: {ids or 'none'}.")
    return int(found[0])


def cluster_events(loaded: LoadedModel, cluster: int) -> list[Event]:
    """Return the remembered events of a cluster."""
    return [e for e in loaded.model.events if cluster in (e.id, e.other)]
