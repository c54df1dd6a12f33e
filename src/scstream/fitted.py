"""The model inside a fitted estimator: its attributes, predictions, samples and file."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from scstream.compute.choose import thread_executor
from scstream.core.calibration import check_rate
from scstream.core.config import Config
from scstream.core.groups import Groups
from scstream.core.predictor import Predictor
from scstream.core.state import NOVEL, Event, Info, State
from scstream.errors import InputError
from scstream.families import Diagonal, Family, Gaussian
from scstream.families.base import Array, Labels, Rows
from scstream.families.scales import TooFar
from scstream.io.advice import MANY_ROWS, Advisor
from scstream.io.disk import write_atomically
from scstream.io.estimator_input import rows_to_predict
from scstream.io.schema import read_notes, read_weight
from scstream.learning import Update
from scstream.model import PARAMETERS, Model, Settings, load_model
from scstream.posterior import Chain, PosteriorSamples

T = TypeVar("T")
_parameters = attrgetter(*PARAMETERS)


class FittedModel:
    """Attributes by scikit-learn's conventions, read from `model_`; `sample`, `save`, `load`."""

    n_jobs: int | None
    model_: Model
    labels_: Labels
    _chain: Chain
    _advisor: Advisor

    def _fitted(self) -> Model:
        if "model_" not in vars(self):  # the check itself is slow
            check_is_fitted(self, "model_")
        return self.model_

    def _current(self) -> Model:
        """Return the model with the current values of all parameters; some may not change."""
        model, now = self._fitted(), _parameters(self)
        try:
            if now == model.settings.values:  # at every batch, so it must be fast
                return model
        except ValueError:  # an array was replaced, and may be another
            pass
        return model.with_parameters(**dict(zip(PARAMETERS, now, strict=True)))

    def _learn(
        self,
        model: Settings | Model,
        rows: Rows,
        time: Any,
        weight: Any,
        ids: Any = None,
        texts: Any = None,
    ) -> Update:
        """Learn a batch; rows that lie too far from all others are left out with a warning."""
        try:
            return model.update(rows, time=time, weight=weight, ids=ids, texts=texts)
        except TooFar:
            if not isinstance(rows, np.ndarray) or isinstance(model, Settings):
                raise
        far = model.family.far_rows(rows)
        self._advisor.of_far_rows(int(far.sum()))
        weight = read_weight(weight, rows.shape[0])
        near = None if weight is None else weight[~far]
        notes = read_notes(ids, texts, rows.shape[0]).take(~far)
        update = model.update(rows[~far], time=time, weight=near, ids=notes.ids, texts=notes.texts)
        labels = np.full(len(far), NOVEL)
        labels[~far] = update.labels
        return update._replace(labels=labels)

    def _advise(self, rows: Rows, *, first: bool) -> None:
        """Warn if rows or parameters make the model learn less than its user may expect."""
        model, n_rows = self.model_, rows.shape[0]
        if first:
            self._advisor = Advisor()
            self._advisor.of_first_rows(model.family, rows, model.feature_names)
            return
        n_held = 0 if model.held is None else len(model.held)
        if 0 < n_rows < min(n_held, MANY_ROWS):  # of which nothing follows yet
            return
        self._advisor.of_batch(model.state, model.info, n_rows=n_rows, n_held=n_held)

    @property
    def family_(self) -> Family:
        """The family with the prior in use."""
        return self._fitted().family

    @property
    def choice_(self) -> str:
        """Why the model has its family."""
        return self._fitted().why

    @property
    def config_(self) -> Config:
        """The settings of the algorithm in use."""
        return self._fitted().config

    @property
    def state_(self) -> State:
        """The statistics of the clusters."""
        return self._fitted().state

    @property
    def info_(self) -> Info:
        """What happened in the last batch."""
        return self._fitted().info

    @property
    def n_clusters_(self) -> int:
        """Number of clusters."""
        return self._fitted().state.n_clusters

    @property
    def weights_(self) -> Array:  # (K,)
        """Share of each cluster of all rows; rows without a cluster have the remaining share."""
        return self._fitted().state.share

    @property
    def means_(self) -> Array:  # (K, D)
        """Mean of each cluster."""
        model = self._fitted()
        return model.family.means(model.state.cluster_stats)

    @property
    def covariances_(self) -> Array:
        """Covariances (K, D, D) of gaussian clusters, or variances (K, D) of diagonal ones."""
        model = self._fitted()
        stats = model.state.cluster_stats
        if isinstance(model.family, Gaussian):
            return model.family.covariance(stats)
        if isinstance(model.family, Diagonal):
            return np.square(model.family.stds(stats))
        raise AttributeError(f"clusters of the {model.family.name} family have no covariances_.")

    @property
    def groups_(self) -> Groups:
        """The clusters joined into groups."""
        return self._fitted().groups()

    @property
    def hierarchy_(self) -> Array:  # (K - 1, 4)
        """The tree of groups as a linkage table; leaves are in the order of ``clusters_.id``."""
        return self._fitted().hierarchy.linkage

    def groups_at(self, resolution: float) -> Groups:
        """Return the groups at a finer or coarser resolution; nothing is learned again.

        Parameters
        ----------
        resolution : float
            1 gives ``groups_``, larger values more and finer groups, 0 a single one. Groups at a
            smaller resolution are unions of groups at a larger one.

        Returns
        -------
        Groups
            The groups: ids, weights and clusters.

        Examples
        --------
        >>> from scstream import ScStream
        >>> from scstream.datasets import drifting_gaussians
        >>> model = ScStream(random_state=0)
        >>> for batch in drifting_gaussians(n_clusters=3, n_batches=5, random_state=1):
        ...     model = model.partial_fit(batch.X)
        >>> len(model.groups_), len(model.groups_at(0))
        (3, 1)
        """
        return self._fitted().groups(resolution)

    def group_events(self, before: Groups) -> list[Event]:
        """Return what happened to groups since earlier ``groups_``.

        A group keeps its id while its oldest cluster lives. If that cluster is gone, the group
        takes the id of its next oldest cluster, and is reported as merged into that.

        Parameters
        ----------
        before : Groups
            ``groups_`` or ``groups_at(resolution)`` after an earlier batch.

        Returns
        -------
        list of Event
            Births, splits, merges and deaths of groups, at the time of the last batch.

        Examples
        --------
        >>> from scstream import ScStream
        >>> model = ScStream(random_state=0).partial_fit([[0.1], [0.2], [0.3], [0.4], [0.5]])
        >>> before = model.groups_
        >>> model = model.partial_fit([[0.2], [0.4], [90.1], [90.2], [90.3], [90.4], [90.5]])
        >>> [(event.kind, event.id) for event in model.group_events(before)]
        [('born', 1)]
        """
        return self._fitted().group_events(before)

    def predict(
        self,
        X: Any,
        *,
        time: Any = None,
        level: str = "cluster",
        resolution: float = 1.0,
        novelty: float | None = None,
    ) -> Labels:  # (N,)
        """Return the most probable cluster, or group of clusters, of every row.

        Nothing is learned.

        Parameters
        ----------
        X : array, table or CSR matrix of shape (N, D)
            The rows.
        time : number, datetime or numpy.datetime64, optional
            Time of the rows: clusters lose weight and move until then. By default the time when
            the next batch is due, one interval after the last.
        level : {"cluster", "group"}
            Predict clusters, or the groups of ``groups_``.
        resolution : float
            Of groups, as in `groups_at`.
        novelty : float, optional
            Share of rows of known clusters that may get the label -1. A row then gets -1 if its
            log density is lower than that of all but this share of the rows so far. By default a
            row gets -1 if it more probably belongs to a cluster not seen yet.

        Returns
        -------
        array of shape (N,)
            Ids of clusters or of groups, -1 for a row that belongs to none.

        Examples
        --------
        >>> from scstream import ScStream
        >>> model = ScStream(random_state=0).fit([[0.1], [0.2], [0.3], [0.4], [0.5], [0.6]])
        >>> model.predict([[0.35], [50.0]])
        array([ 0, -1])
        """
        if novelty is None:
            return self._predict(Predictor.labels, X, time, level, resolution)
        known = self._fitted().calibration
        check_rate(novelty)
        if known is None:
            raise InputError(
                "novelty needs more rows: the model has not seen enough of them to know how dense "
                "rows of its clusters usually are."
            )
        label, density = self._predict(Predictor.known, X, time, level, resolution)
        return np.where(density < known.threshold(novelty), NOVEL, label)

    def predict_proba(
        self, X: Any, *, time: Any = None, level: str = "cluster", resolution: float = 1.0
    ) -> Array:  # (N, K + 1)
        """Return the probability of every cluster for every row; nothing is learned.

        Parameters
        ----------
        X, time, level, resolution : object
            As in `predict`.

        Returns
        -------
        array of shape (N, K + 1)
            One column per cluster in the order of ``clusters_.id``, or per group in the order of
            ``groups_.id``; the last column is a cluster not seen yet. The probability of a group
            is the sum over its clusters.

        Examples
        --------
        >>> from scstream import ScStream
        >>> model = ScStream(random_state=0).fit([[0.1], [0.2], [0.3], [0.4], [0.5], [0.6]])
        >>> model.predict_proba([[50.0]]).round(2)
        array([[0., 1.]])
        """
        return self._predict(Predictor.probabilities, X, time, level, resolution)

    def score_samples(self, X: Any, *, time: Any = None) -> Array:  # (N,)
        """Return the log predictive density of every row: low values are unusual rows.

        Parameters
        ----------
        X, time : object
            As in `predict`.

        Returns
        -------
        array of shape (N,)
            Natural logarithms of densities, or of probabilities for counts and categories.

        Examples
        --------
        >>> from scstream import ScStream
        >>> model = ScStream(random_state=0).fit([[0.1], [0.2], [0.3], [0.4], [0.5], [0.6]])
        >>> near, far = model.score_samples([[0.2], [50.0]])
        >>> bool(near > far)
        True
        """
        return self._predict(Predictor.log_density, X, time)

    def anomaly_score(self, X: Any, *, time: Any = None) -> Array:  # (N,)
        """Return how unusual every row is: high values are anomalies.

        `score_samples` is the log density, in which rows of a small, dense cluster are usual. Here
        the density of every cluster also counts the less the rarer the cluster is, so that
        anomalies that come back stay anomalies: with D columns and shares w, the score is
        ``-log sum(w ** (1 + D / 2) * density)`` over the clusters.

        Parameters
        ----------
        X, time : object
            As in `predict`.

        Returns
        -------
        array of shape (N,)
            Scores; only their order matters.

        Examples
        --------
        >>> from scstream import ScStream
        >>> model = ScStream(random_state=0).fit([[0.1], [0.2], [0.3], [0.4], [0.5], [0.6]])
        >>> near, far = model.anomaly_score([[0.2], [50.0]])
        >>> bool(near < far)
        True
        """
        return self._predict(Predictor.anomaly, X, time)

    def sample(self, n: int, *, thin: int = 1) -> PosteriorSamples:
        """Draw partitions of the rows of `fit` from their posterior; for ``algorithm="exact"``.

        The first call begins at the partition that `fit` ended with. Further calls continue the
        chain.

        Parameters
        ----------
        n : int
            Number of samples.
        thin : int
            Sweeps between two samples. Neighbouring samples are correlated; thinning saves memory.

        Returns
        -------
        PosteriorSamples
            Labels, number of clusters and log posterior of every sample, and summaries of them.

        Examples
        --------
        >>> from scstream import ScStream
        >>> X = [[0.1], [0.2], [0.3], [9.1], [9.2], [9.3]]
        >>> model = ScStream(algorithm="exact", prior="weak", n_sweeps=20, random_state=0).fit(X)
        >>> model.sample(5).labels.shape
        (5, 6)
        """
        algorithm = self._fitted().config.algorithm
        if algorithm != "exact":
            raise InputError(
                f"algorithm={algorithm!r} does not sample a posterior; fit a model with "
                "algorithm='exact' to draw samples."
            )
        if not hasattr(self, "_chain"):
            raise InputError(
                "a model file does not hold the rows, which sampling needs; call fit with the rows "
                "and then sample."
            )
        samples, self._chain = self._chain.sample(n, thin)
        return samples

    def save(self, path: str | os.PathLike[str], *, exemplars: bool | None = None) -> None:
        """Write the model to a file from which it can continue bit for bit.

        The file is safetensors with a JSON header and checksums, no pickle. It appears complete or
        not at all. It does not hold the labels of the last batch.

        Parameters
        ----------
        path : path
            Where to write; a file of that name is replaced.
        exemplars : bool, optional
            Whether the file contains `exemplars_`, with their rows, ids and texts. By default it
            does only if the parameter `exemplars` has ``"save": True``.

        Examples
        --------
        >>> import tempfile
        >>> from scstream import ScStream
        >>> model = ScStream(random_state=0).fit([[0.1], [0.2], [0.3], [0.4], [0.5], [0.6]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/m.scstream")
        ...     ScStream.load(f"{folder}/m.scstream").n_clusters_
        1
        """
        write_atomically(Path(path), self._current().to_bytes(exemplars=exemplars))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, kernel: Any = None) -> Self:
        """Read a model that `save` wrote.

        Parameters
        ----------
        path : path
            The file.
        kernel : Kernel or callable, optional
            The kernel of the model if it was a function: a file cannot hold one.

        Returns
        -------
        ScStream
            A model that continues where the saved one stopped.

        Raises
        ------
        CheckpointCorrupt
            The file is damaged, or is not a model file.
        CheckpointTooNew
            A later version of scstream wrote it.

        Examples
        --------
        >>> import tempfile
        >>> from scstream import ScStream
        >>> model = ScStream(random_state=0).fit([[0.1], [0.2], [0.3], [0.4], [0.5], [0.6]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/m.scstream")
        ...     ScStream.load(f"{folder}/m.scstream").predict([[0.1]])
        array([0])
        """
        model = load_model(Path(path), kernel=kernel)
        estimator = cls(**model.settings.parameters())
        estimator._keep(model)
        return estimator

    def _keep(self, model: Model, rows: Rows = None) -> None:
        """Hold a model, with the attributes that scikit-learn checks the next rows against.

        `rows` are those of `labels_`; a file has none.
        """
        before = vars(self).get("model_")
        self.model_ = model
        if rows is not None and model.config.algorithm == "exact":
            self._chain = Chain.after(model, rows, self.labels_)
        if not hasattr(self, "_advisor"):
            self._advisor = Advisor()
        if before is not None and before.settings is model.settings:
            return
        self.n_features_in_ = model.family.n_features
        if model.settings.feature_names is not None:
            self.feature_names_in_ = np.array(model.settings.feature_names, dtype=object)
        else:
            vars(self).pop("feature_names_in_", None)

    def _predict(
        self,
        compute: Callable[..., T],
        X: Any,
        time: Any,
        level: str = "cluster",
        resolution: float = 1.0,
    ) -> T:
        """Compute a prediction for rows that are checked, on `n_jobs` threads."""
        model = self._fitted()
        rows = rows_to_predict(self, X, model.family, typed=model.choice is not None)
        predictor = model.at(time, level=level, resolution=resolution)
        return compute(predictor, rows, run=self._run)

    def _run(self, function: Callable[[Rows], T], chunks: Sequence[Rows]) -> list[T]:
        return thread_executor(self.n_jobs).map(function, chunks)

    def __sklearn_is_fitted__(self) -> Any:
        return hasattr(self, "model_")
