"""What people ask a fitted model: its clusters, what distinguishes them, why a row is in one."""

from __future__ import annotations

from html import escape
from typing import Any

from scstream.core.exemplars import Exemplar
from scstream.core.reasons import reasons
from scstream.descriptions import describe_clusters, names_of
from scstream.errors import InputError
from scstream.io.clusters import ClusterTable
from scstream.io.description import Description
from scstream.io.estimator_input import rows_to_predict
from scstream.io.event_list import EventList
from scstream.io.explanation import Explanation, check_n
from scstream.io.tables import counted
from scstream.model import Model
from scstream.view.svg import cluster_svg


class ExplainMixin:
    """Tables and explanations of the model inside a fitted estimator."""

    def _fitted(self) -> Model:
        raise NotImplementedError

    @property
    def exemplars_(self) -> dict[int, list[Exemplar]]:
        """Typical rows of every cluster, the best first, by id."""
        try:
            return self.exemplars_at()
        except InputError as error:
            raise AttributeError(str(error)) from None

    def exemplars_at(
        self, level: str = "cluster", *, resolution: float = 1.0
    ) -> dict[int, list[Exemplar]]:
        """Return typical rows of every cluster or group.

        They are the rows at which their cluster is densest, with a preference for new ones.

        Parameters
        ----------
        level : {"cluster", "group"}
            Exemplars of clusters, or of the groups of ``groups_``.
        resolution : float
            Of groups, as in `groups_at`.

        Returns
        -------
        dict of int to list of Exemplar
            At most as many as the parameter `exemplars` says, the best first, by the id of the
            cluster or group. A cluster without any is left out.

        Examples
        --------
        >>> from scstream import ScStream
        >>> X = [[0.0], [0.1], [0.2], [0.3], [0.9]]
        >>> model = ScStream(exemplars=2, random_state=0).fit(X, ids=["a", "b", "c", "d", "e"])
        >>> [exemplar.id for exemplar in model.exemplars_at("group")[0]]
        ['d', 'c']
        """
        model = self._fitted()
        if not model.keep.n:
            raise InputError(
                "this model keeps no exemplars; make it with exemplars=5, or set_params(exemplars="
                "5) before more batches."
            )
        return model.exemplars_at(level=level, resolution=resolution)

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
            names=model.names,
            levels=model.settings.levels,
            exemplars=model.exemplars_at(),
        )

    def describe(
        self, n: int = 5, level: str = "cluster", *, resolution: float = 1.0
    ) -> Description:
        """Say what distinguishes each cluster from all other rows.

        For numbers it is the difference of the means, in standard deviations; for counts, how many
        times as often a word is found; for categories and columns of zeros and ones, the shares.
        Features are ranked by the information in which the cluster and the other rows differ.

        Parameters
        ----------
        n : int
            Number of features, and of typical rows, for each cluster.
        level : {"cluster", "group"}
            Describe clusters, or the groups of ``groups_``.
        resolution : float
            Of groups, as in `groups_at`.

        Returns
        -------
        Description
            It can be printed, ``description[7]`` describes one cluster, and `to_pandas` returns a
            table.

        Examples
        --------
        >>> import numpy as np
        >>> from scstream import ScStream
        >>> X = np.random.default_rng(0).normal(size=(400, 3))
        >>> X[:100, 1] += 20
        >>> model = ScStream(random_state=0).fit(X)
        >>> model.describe(n=1)
        cluster 0: 75.0 % of all rows
          feature  here     others  difference
          x1       0.02551      20    -20.0 sd
        cluster 1: 25.0 % of all rows
          feature  here  others   difference
          x1         20  0.02551    +20.0 sd
        """
        model = self._fitted()
        check_n(n)
        return describe_clusters(model, n=n, level=level, resolution=resolution)

    def explain(
        self,
        X: Any,
        *,
        n: int = 3,
        time: Any = None,
        level: str = "cluster",
        resolution: float = 1.0,
    ) -> Explanation:
        """Say for every row why it belongs to its cluster, and not to the runner-up.

        The log odds of the two clusters are the sum of what every feature contributes and of a
        constant, the log ratio of their weights. Where features are dependent within clusters, as
        in the gaussian family, contributions are Shapley values: what a feature adds given others
        before it, averaged over orders of the features. Nothing is learned.

        Parameters
        ----------
        X : array, table or CSR matrix of shape (N, D)
            The rows.
        n : int
            Number of features for each row, by the size of their contributions.
        time, level, resolution : object
            As in `predict`.

        Returns
        -------
        Explanation
            Clusters, runners-up, probabilities and features; it can be printed, and `to_pandas`
            returns a table. The clusters are those of `predict`. The runner-up is the most
            probable other cluster that is known; if there is none, -1.

        Examples
        --------
        >>> import numpy as np
        >>> from scstream import ScStream
        >>> X = np.random.default_rng(0).normal(size=(400, 3))
        >>> X[:100, 1] += 20
        >>> model = ScStream(random_state=0).fit(X)
        >>> model.explain([[0.5, 20.0, 0.5], [0.0, 1.0, -1.0]], n=1)
        row  cluster  probability  runner-up  log odds  because
          0        1        1.000          0     133.6  x1 20 (+134.3)
          1        0        1.000          1      85.6  x1 1 (+84.0)
        """
        model = self._fitted()
        check_n(n)
        rows = rows_to_predict(self, X, model.family, typed=model.choice is not None)
        found = reasons(model.at(time, level=level, resolution=resolution), rows, n=n)
        return Explanation.of(
            found,
            rows,
            model.feature_names,
            levels=model.settings.levels,
            names=names_of(model, level),
        )

    def _picture_html(self) -> str:
        """Return a small picture of the clusters and a line about them; empty before the fit."""
        if "model_" not in vars(self):
            return ""
        model = self._fitted()
        state = model.state
        svg = cluster_svg(
            model.family,
            state.cluster_stats,
            state.ids,
            features=model.feature_names,
            names=model.names,
        )
        clusters, batches = counted(state.n_clusters, "cluster"), counted(state.n_batches, "batch")
        line = escape(f"{clusters} after {batches}; {model.why}")
        return f"<div>{svg}<br>{line}</div>"
