"""Describe the clusters of a model, for people and for a naming hook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from scstream.errors import InputError
from scstream.families.base import Array, Labels
from scstream.io.description import Description, describe
from scstream.io.exemplars import exemplar_text
from scstream.model import Model


def describe_clusters(
    model: Model, *, n: int, level: str = "cluster", resolution: float = 1.0
) -> Description:
    """Say what distinguishes each cluster, or each group, from all other rows.

    `n` is the number of features, and of typical rows if the model keeps exemplars.
    """
    stats, ids = _statistics(model, level, resolution)
    return describe(
        model.family,
        stats,
        ids,
        total=model.state.total_weight,
        features=model.feature_names,
        n=n,
        named_columns=model.settings.feature_names is not None,
        level=level,
        levels=model.settings.levels,
        names=names_of(model, level),
        exemplars=_exemplar_texts(model, level, resolution),
    )


def names_of(model: Model, level: str = "cluster") -> Mapping[int, str]:
    """Return the names that people gave to clusters or groups, by id."""
    return model.names if level == "cluster" else model.state.steering.group_names


def _statistics(model: Model, level: str, resolution: float) -> tuple[Array, Labels]:
    """Return the statistics and the ids of clusters or of groups."""
    stats, ids = model.state.cluster_stats, model.state.ids
    if level == "cluster":
        return stats, ids
    if level != "group":
        raise InputError(f"level must be 'cluster' or 'group', got {level!r}.")
    groups = model.groups(resolution)
    joined = np.zeros((len(groups), stats.shape[1]))
    np.add.at(joined, groups.index, stats)
    return joined, groups.id


def _exemplar_texts(model: Model, level: str, resolution: float) -> Mapping[int, Sequence[str]]:
    """Return typical rows as text, by id; none if the model keeps none."""
    found, features = model.exemplars_at(level=level, resolution=resolution), model.feature_names
    texts = {id_: [exemplar_text(each, features) for each in own] for id_, own in found.items()}
    return {id_: own for id_, own in texts.items() if any(own)}
