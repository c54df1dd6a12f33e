"""`ScStream`: a `Model` with the conventions of scikit-learn."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from datetime import timedelta
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import Tags

from scstream.batches import BatchesMixin
from scstream.core.config import Config
from scstream.edit import EditMixin
from scstream.errors import InputError
from scstream.explain import ExplainMixin
from scstream.families.base import Labels
from scstream.fitted import FittedModel
from scstream.io.estimator_input import validate_rows
from scstream.io.parameters import family_kind
from scstream.io.schema import read_notes
from scstream.model import PARAMETERS, Model, Settings
from scstream.row_times import has_row_times, learn_in_order, take_times


class ScStream(FittedModel, BatchesMixin, EditMixin, ExplainMixin, ClusterMixin, BaseEstimator):
    """Cluster a stream batch by batch.

    A Dirichlet process mixture with split and merge moves that forgets old batches. It finds the
    number of clusters, follows drift, and keeps the id of a cluster for as long as it lives. Every
    batch is seen once.

    Parameters
    ----------
    family : str, Family, or pairs of (family, columns)
        Distribution of the rows of a cluster. "auto" chooses it by the columns of the first batch;
        `choice_` says why. Others are "gaussian", "diagonal", "subspace", "direction",
        "multinomial", "bernoulli", "categorical" and "poisson"; an instance of
        `scstream.families.Family`, whose prior is then used as it is; or, for a table of mixed
        columns, a list of pairs or a dict such as ``{"diagonal": ["height", "weight"],
        "categorical": ["colour"]}``, with columns by name or position.
    prior : {"auto", "weak"} or dict
        "auto" fits the prior to the first batch by maximum marginal likelihood (also with
        ``algorithm="paper"``; the paper sets it by hand). "weak" is a weak prior scaled to the
        first batch. A dict sets hyperparameters of the named family: ``dict(kappa=1, mean=0, nu=4,
        psi=1.02)``. One number means a vector of it, or a multiple of the identity matrix.
    alpha : float
        Concentration of the Dirichlet process. Larger values create clusters more easily; change it
        by factors of 10.
    half_life : float, str, timedelta or None
        Time after which a row counts half, in the unit of `time`; without times, in thousands of
        rows. A `datetime.timedelta`, a `numpy.timedelta64` or text such as "90s", "30min", "1h",
        "7d" or "2w" is a duration: times are then dates, or seconds. None never forgets.
    kernel : Kernel, callable or None
        Another way to forget: `scstream.Box`, `scstream.Windowed`, or a function that takes an
        array of ages and returns weights that fall from 1 at age 0. It replaces `half_life`.
    n_sweeps : int or None
        Gibbs sweeps over each batch. None means 1 for ``algorithm="paper"``, 500 for
        ``algorithm="exact"``, where these sweeps come before the first sample, and 0 for the
        default, which gains nothing from more.
    algorithm : {"default", "paper", "printed", "exact"}
        "paper" runs the published system with corrected formulas, "printed" its printed text by
        the letter. They ignore `births`, `motion`, `archive` and `coarseness`. "exact" learns one
        table with `fit` and draws from the posterior of its partitions with `sample`. It forgets
        nothing, and of the parameters from `alpha` on it reads `alpha`, `n_sweeps` and
        `max_clusters` only.
    max_clusters : int
        Largest number of clusters.
    late : {"error", "add"}
        What to do with a batch older than the last one: raise an error, or add its rows with the
        weight that is left of them at their age.
    births : bool
        Let rows that no cluster explains form new clusters. Such rows have the label -1.
    motion : bool
        Estimate the velocity of every cluster and move its statistics along.
    archive : bool
        Keep removed clusters, so that a returning cluster gets its old id.
    min_birth_weight : float
        Smallest number of rows of a new cluster.
    min_weight : float
        A cluster without rows in a batch is removed below this weight.
    min_batch : int
        Rows that are learned together. The rows of smaller batches get the labels that the model
        predicts, and are learned when so many are there; until then the model contains them. 1
        learns every batch at once.
    coarseness : float
        How much better (log-likelihood per row) two halves must fit before a cluster of many
        thousand rows splits.
    precision : {"float64", "float32"}
        "float32" compares rows with clusters faster, with compiled kernels only.
    config : Config or None
        All settings of the algorithm at once, for experiments, in place of the parameters above
        from `alpha` on.
    n_jobs : int or None
        Number of threads, as in scikit-learn: -1 is one per core, None is one. Small batches use
        one. Results do not depend on it.
    executor : "threads", "ray", executor or None
        Where large batches are computed: on threads of this process (the default), or on a Ray
        cluster (`scstream.distributed.RayExecutor`). Results do not depend on it. It is not saved.
    max_events : int
        Number of events that `events_` keeps.
    exemplars : int or dict
        Number of typical rows that are kept of every cluster, in `exemplars_`; 0 keeps none. A dict
        such as ``{"n": 5, "rows": False, "save": True}`` also says whether rows are kept, or only
        the `ids` and `texts` that `partial_fit` gets, and whether model files contain them; by
        default rows are kept in memory and not in files. In a pipeline, "id" and "text" name the
        columns with the ids and texts.
    random_state : int, numpy Generator or RandomState, or None
        An integer makes runs repeatable. None draws a seed, which ``config_.seed`` then shows.

    Attributes
    ----------
    labels_ : array of shape (N,)
        Ids of the clusters of the rows of the last batch, -1 for a row without a cluster.
    n_clusters_ : int
        Number of clusters.
    weights_ : array of shape (K,)
        Share of each cluster of all rows, in the order of ``clusters_.id``.
    means_ : array of shape (K, D)
        Mean of each cluster.
    covariances_ : array of shape (K, D, D) or (K, D)
        Covariance of each cluster, or variances for the diagonal family; other families have none.
    clusters_ : ClusterTable
        The clusters, one line each; ``clusters_[7]`` is the cluster with the id 7.
    groups_ : Groups
        Clusters joined into groups, for clusters whose shape the family does not have.
    hierarchy_ : array of shape (K - 1, 4)
        The tree of these joins, as a linkage table of `scipy.cluster.hierarchy`.
    names_ : dict of int to str
        Names that people gave to clusters, by id.
    events_ : EventList
        Births, splits, merges, deaths and returns of clusters; the newest last.
    exemplars_ : dict of int to list of Exemplar
        Typical rows of every cluster, the best first; for ``exemplars=5`` and the like.
    info_ : Info
        What happened in the last batch.
    model_ : Model
        The fitted model. It holds all of the above except `labels_`.
    state_ : State
        The statistics of the clusters. Its arrays are read-only.
    family_ : Family
        The family with the prior in use.
    choice_ : str
        Why the model has this family.
    config_ : Config
        The settings of the algorithm in use.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array of str
        Names of the columns, if the first batch had them.

    Notes
    -----
    Parameters may change between batches, with `set_params` or by assignment: the next batch uses
    the new values, and what was learned stays. A new `half_life`, say, acts on the time from the
    last batch on. `family`, `prior`, `kernel`, `algorithm`, `config` and `random_state` are read
    with the first batch; `partial_fit` and `save` raise `InputError` if one of them has changed,
    and `fit` starts again with it.

    A batch that raises an error leaves the model unchanged.

    Examples
    --------
    >>> from scstream import ScStream
    >>> from scstream.datasets import drifting_gaussians
    >>> model = ScStream(random_state=0)
    >>> for batch in drifting_gaussians(n_clusters=3, n_batches=5, random_state=1):
    ...     model = model.partial_fit(batch.X)
    >>> model.n_clusters_
    3
    """

    labels_: Labels

    def __init__(
        self,
        family: Any = "auto",
        *,
        prior: Any = "auto",
        alpha: float = 1.0,
        half_life: float | str | timedelta | np.timedelta64 | None = 5.0,
        kernel: Any = None,
        n_sweeps: int | None = None,
        algorithm: str = "default",
        max_clusters: int = 1000,
        late: str = "error",
        births: bool = True,
        motion: bool = True,
        archive: bool = False,
        min_birth_weight: float = 5.0,
        min_weight: float = 1.0,
        min_batch: int = 100,
        coarseness: float = 0.3,
        precision: str = "float64",
        config: Config | None = None,
        n_jobs: int | None = -1,
        executor: Any = None,
        max_events: int = 1000,
        exemplars: Any = 0,
        random_state: Any = None,
    ) -> None:
        self.family = family
        self.prior = prior
        self.alpha = alpha
        self.half_life = half_life
        self.kernel = kernel
        self.n_sweeps = n_sweeps
        self.algorithm = algorithm
        self.max_clusters = max_clusters
        self.late = late
        self.births = births
        self.motion = motion
        self.archive = archive
        self.min_birth_weight = min_birth_weight
        self.min_weight = min_weight
        self.min_batch = min_batch
        self.coarseness = coarseness
        self.precision = precision
        self.config = config
        self.n_jobs = n_jobs
        self.executor = executor
        self.max_events = max_events
        self.exemplars = exemplars
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, *, ids: Any = None, texts: Any = None) -> Self:
        """Start again and learn all rows as one table.

        Of a table of less than 1,000 rows, five starts are tried and the most probable partition
        is kept. A larger one is learned in two random halves: the second half shows which clusters
        overlap, and which are one.

        It takes no `sample_weight`: scikit-learn requires of `fit` that a weight of two gives
        exactly the result of a row given twice, which a method that draws labels cannot promise.
        `partial_fit` takes weights.

        Parameters
        ----------
        X : array, table or CSR matrix of shape (N, D)
            The rows.
        y : None
            Ignored.
        ids, texts : sequences of length N, optional
            As in `partial_fit`.

        Returns
        -------
        ScStream
            The fitted estimator.

        Examples
        --------
        >>> from scstream import ScStream
        >>> ScStream(random_state=0).fit([[0.1], [0.2], [0.3], [0.4], [0.5], [0.6]]).labels_
        array([0, 0, 0, 0, 0, 0])
        """
        return self._update(X, ids=ids, texts=texts, first=True, complete=True)

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        time: Any = None,
        sample_weight: Any = None,
        ids: Any = None,
        texts: Any = None,
    ) -> Self:
        """Learn one batch.

        Parameters
        ----------
        X : array, table or CSR matrix of shape (N, D)
            The rows. After the first batch there may be none: only time passes then.
        y : None
            Ignored.
        time : number, datetime, array of shape (N,) or str, optional
            Time of the batch in the unit of `half_life`; dates count in seconds. By default a
            thousand rows are one unit, and so is a larger batch. An array has a time for every
            row; a string is the name of the column of `X` that holds them. The rows are then
            sorted by time and learned in pieces: each is a batch at the time of its newest row,
            in which older rows count as much as forgetting leaves of them, at least half. Rows
            that are older than the model follow `late`. `labels_` has the order of `X`.
        sample_weight : array of shape (N,), optional
            How many rows each row counts for; ones by default. A weight of 3 adds three times the
            statistics of the row, 0.5 half of them, and 0 labels the row without learning it. Use
            it for rows that are counts of equal rows, for sampled rows (the inverse of the chance
            to be sampled), and for rows that are trusted less. Weights are not normalised: a
            cluster is born of `min_birth_weight`, not of a number of rows.
        ids, texts : sequences of length N, optional
            Ids and texts of the rows, which `exemplars_` has.

        Returns
        -------
        ScStream
            The fitted estimator.

        Examples
        --------
        >>> from scstream import ScStream
        >>> model = ScStream(random_state=0).partial_fit([[0.1], [0.2], [0.3]], time=10)
        >>> model.partial_fit([[0.1], [0.2]], time=15, sample_weight=[1.0, 3.0]).state_.time
        15.0
        >>> model.partial_fit([[0.1], [0.2]], time=[17, 16]).model_.time
        17.0
        """
        first = not hasattr(self, "model_")
        return self._update(X, time, sample_weight, ids=ids, texts=texts, first=first)

    def score(self, X: Any, y: Any = None, *, time: Any = None) -> float:
        """Return the mean of `score_samples`, by which `GridSearchCV` compares parameters.

        Parameters
        ----------
        X, time : object
            As in `predict`.
        y : None
            Ignored.

        Returns
        -------
        float
            Mean log density of the rows; larger is better.

        Examples
        --------
        >>> from scstream import ScStream
        >>> model = ScStream(random_state=0).fit([[0.1], [0.2], [0.3], [0.4], [0.5], [0.6]])
        >>> model.score([[0.2], [0.5]]) > model.score([[0.2], [50.0]])
        True
        """
        density = self.score_samples(X, time=time)
        if not len(density):
            raise InputError("X has no rows; a mean over them needs at least one.")
        return float(density.mean())

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        try:
            kind = family_kind(self.family)
        except InputError:  # raised when the first batch arrives
            return tags
        tags.input_tags.sparse = kind.accepts_sparse
        tags.input_tags.allow_nan = kind.handles_missing
        tags.input_tags.positive_only = kind.name in ("multinomial", "poisson")
        return tags

    def _repr_html_inner(self) -> str:
        return self._picture_html() + str(super()._repr_html_inner())

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] = self._picture_html() + bundle["text/html"]
        return bundle

    def _update(
        self,
        X: Any,
        time: Any = None,
        weight: Any = None,
        *,
        ids: Any = None,
        texts: Any = None,
        first: bool,
        complete: bool = False,
    ) -> Self:
        """Learn a batch; nothing of this estimator changes if that raises."""
        by_row = time is not None and has_row_times(time)
        if by_row:
            X, time = take_times(X, time)
        start: Settings | Model
        if first:
            checked = copy(self)
            rows = validate_rows(checked, X, family_kind(self.family), first=True)
            parameters = {name: getattr(self, name) for name in PARAMETERS}
            column_names = getattr(checked, "feature_names_in_", None)
            levels = getattr(checked, "_levels", None)
            settings = Settings.of(parameters, column_names, levels)
            start = replace(settings, seeds=getattr(self, "_seeds", ()))
        else:
            rows = validate_rows(self, X, self.model_.family, first=False)
            start = self._current()
        if isinstance(start, Settings) and complete:
            update = start.update(
                rows, time=time, weight=weight, ids=ids, texts=texts, complete=True
            )
        elif by_row:
            notes = read_notes(ids, texts, rows.shape[0])
            update = learn_in_order(start, rows, time, weight, self._learn, notes=notes)
        else:
            update = self._learn(start, rows, time, weight, ids, texts)
        self.labels_ = update.labels
        self._keep(update.model, rows)
        self._advise(rows, first=first)
        return self
