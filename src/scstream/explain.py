"""What people ask a fitted model: its clusters, what distinguishes them, why a row is in one."""

from __future__ import annotations

from collections.abc import Mapping

from scstream.io.clusters import ClusterTable
from scstream.io.event_list import EventList
from scstream.model import Model


class ExplainMixin:
    """Tables and explanations of the model inside a fitted estimator."""

    def _fitted(self) -> Model:
        raise NotImplementedError

    @property
    def _names(self) -> Mapping[int, str]:
        """Names that clusters were given, by id."""
        return self._fitted().names

    @property
    def events_(self) -> EventList:
        """Births, splits, merges, deaths and returns of clusters; the newest last."""
        return EventList(self._fitted().events)

    @property
    def clusters_(self) -> ClusterTable:
        """The clusters as a table, at the time of the last batch."""
        model = self._fitted()
        return ClusterTable.of(
            model.family,
            model.state,
            model.feature_names,
            names=self._names,
            levels=model.settings.levels,
        )
