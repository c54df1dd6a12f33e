"""The prequential loop: predict a batch, score the prediction, then learn the batch."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from scstream.errors import InputError
from scstream.metrics.agreement import (
    FloatArray,
    FullStreamScore,
    adjusted_rand,
    normalized_mutual_info,
    pairwise_f,
    purity,
)

Metric = Callable[[npt.ArrayLike, npt.ArrayLike], float]

METRICS: Mapping[str, Metric] = {
    "ari": adjusted_rand,
    "nmi": normalized_mutual_info,
    "purity": purity,
    "f": pairwise_f,
}


class Model(Protocol):
    """The interface of a model that predicts and learns batch by batch."""

    def predict(self, X: Any, /) -> npt.ArrayLike:
        """Return a label for each row."""

    @property
    def partial_fit(self) -> Callable[..., Any]:
        """Learn a batch."""


class Batch(Protocol):
    """The interface of a batch; ``oracle()`` is needed only with ``oracle=True``."""

    @property
    def X(self) -> Any:
        """Rows."""

    @property
    def y(self) -> npt.NDArray[Any]:
        """True labels."""

    @property
    def time(self) -> float:
        """Time of the batch."""


@dataclass(frozen=True, eq=False)
class PrequentialStep:
    """The argument of the callback, after a batch has been learned.

    Attributes
    ----------
    number
        Number of the batch, from 0.
    batch
        The batch.
    predicted
        Labels predicted before learning; None for the first batch.
    model
        The model after learning.

    Examples
    --------
    >>> from sklearn.cluster import MiniBatchKMeans
    >>> from scstream.datasets import stationary_gaussians
    >>> from scstream.metrics import prequential
    >>> stream = stationary_gaussians(3, n_batches=2, batch_size=100, random_state=0)
    >>> def report(step):
    ...     print(step.number, None if step.predicted is None else len(step.predicted))
    >>> model = MiniBatchKMeans(3, n_init=1, random_state=0)
    >>> _ = prequential(model, stream, callback=report)
    0 None
    1 100
    """

    number: int
    batch: Any
    predicted: npt.NDArray[Any] | None
    model: Any


@dataclass(frozen=True, eq=False)
class PrequentialResult:
    """Scores of every batch but the first, and of the whole stream.

    Attributes
    ----------
    time
        Time of each scored batch, shape (B,).
    scores
        The columns of scores, by name, each of shape (B,).
    oracle
        The same scores of the Bayes oracle; empty without ``oracle=True``.
    k
        Clusters of the model (``n_clusters_``) after learning each batch; nan if it has none.
    k_true
        True clusters with rows in each batch.
    seconds
        Wall time to predict and learn each batch.
    n_rows
        Number of rows scored.
    full_nmi, oracle_full_nmi
        Normalised mutual information of all scored rows together.

    Examples
    --------
    >>> from sklearn.cluster import MiniBatchKMeans
    >>> from scstream.datasets import stationary_gaussians
    >>> from scstream.metrics import prequential
    >>> stream = stationary_gaussians(3, n_batches=4, batch_size=100, random_state=1)
    >>> result = prequential(MiniBatchKMeans(3, n_init=1, random_state=0), stream)
    >>> result.time.tolist(), result.ari.shape
    ([1.0, 2.0, 3.0], (3,))
    >>> sorted(result.summary())[:4]
    ['ari', 'f', 'fraction_of_oracle', 'full_nmi']
    """

    time: FloatArray
    scores: Mapping[str, FloatArray]
    oracle: Mapping[str, FloatArray]
    k: FloatArray
    k_true: FloatArray
    seconds: FloatArray
    n_rows: int
    full_nmi: float
    oracle_full_nmi: float

    @property
    def ari(self) -> FloatArray:
        """Adjusted Rand index of each batch."""
        return self.scores["ari"]

    @property
    def nmi(self) -> FloatArray:
        """Normalised mutual information of each batch."""
        return self.scores["nmi"]

    @property
    def purity(self) -> FloatArray:
        """Purity of each batch."""
        return self.scores["purity"]

    @property
    def f(self) -> FloatArray:
        """Pairwise F of each batch."""
        return self.scores["f"]

    @property
    def oracle_ari(self) -> FloatArray:
        """Adjusted Rand index of the oracle."""
        return self.oracle["ari"]

    @property
    def oracle_nmi(self) -> FloatArray:
        """Normalised mutual information of the oracle."""
        return self.oracle["nmi"]

    def summary(self) -> dict[str, float]:
        """Return the means of all columns and the scores of the whole stream.

        Returns
        -------
        dict of str to float
            Means under the names of the columns (``oracle_`` before those of the oracle),
            ``full_nmi`` and ``oracle_full_nmi``, ``fraction_of_oracle`` (mean ARI over the
            oracle's mean ARI) and ``rows_per_second``. Without scored batches all are nan.
        """
        columns = {"k": self.k, "k_true": self.k_true, "seconds": self.seconds, **self.scores}
        columns |= {f"oracle_{name}": column for name, column in self.oracle.items()}
        means = {name: _mean(column) for name, column in columns.items()}
        means["rows_per_second"] = _ratio(self.n_rows, float(self.seconds.sum()))
        means["full_nmi"] = self.full_nmi
        if self.oracle:
            means["oracle_full_nmi"] = self.oracle_full_nmi
        if "oracle_ari" in means:
            means["fraction_of_oracle"] = _ratio(means["ari"], means["oracle_ari"])
        return means


def prequential(
    model: Model,
    stream: Iterable[Batch],
    *,
    metrics: Mapping[str, Metric] = METRICS,
    oracle: bool = True,
    callback: Callable[[PrequentialStep], object] | None = None,
) -> PrequentialResult:
    """Run a model over a stream: predict each batch, score the prediction, then learn the batch.

    The first batch is learned without being scored. The time of a batch is given to
    ``model.partial_fit`` if that has an argument ``time``. A prediction of -1 counts
    as one more label.

    Parameters
    ----------
    model
        Has ``predict(X)`` and ``partial_fit(X)``. It is changed.
    stream
        Batches with ``X``, ``y`` and ``time``, such as a `scstream.datasets.Stream`; it must end.
    metrics
        Functions of true and predicted labels, by the name of their column.
    oracle
        Whether to score ``batch.oracle()`` as well.
    callback
        Called with a `PrequentialStep` after each batch has been learned, the first included.

    Returns
    -------
    PrequentialResult
        A column of each score, and their summary.

    Examples
    --------
    >>> from sklearn.cluster import MiniBatchKMeans
    >>> from scstream.datasets import drifting_gaussians
    >>> from scstream.metrics import prequential
    >>> stream = drifting_gaussians(5, n_batches=5, batch_size=200, random_state=3)
    >>> summary = prequential(MiniBatchKMeans(5, n_init=3, random_state=0), stream).summary()
    >>> 0 < summary["fraction_of_oracle"] <= 1
    True
    """
    recorder = _Recorder(metrics, oracle)
    takes_time = "time" in inspect.signature(model.partial_fit).parameters
    for number, batch in enumerate(stream):
        begin = time.perf_counter()
        predicted = np.asarray(model.predict(batch.X)) if number else None
        model.partial_fit(batch.X, **({"time": batch.time} if takes_time else {}))
        seconds = time.perf_counter() - begin
        if predicted is not None:
            recorder.add(batch, predicted, k=_n_clusters(model), seconds=seconds)
        if callback is not None:
            callback(PrequentialStep(number, batch, predicted, model))
    return recorder.result()


class _Recorder:
    """Collects the scores of the batches."""

    def __init__(self, metrics: Mapping[str, Metric], oracle: bool) -> None:
        self._metrics = dict(metrics)
        self._wants_oracle = oracle
        self._batches: list[tuple[float, float, float, float]] = []  # time, k, k_true, seconds
        self._scores: list[list[float]] = []
        self._oracle: list[list[float]] = []
        self._n_rows = 0
        self._full = FullStreamScore()
        self._oracle_full = FullStreamScore()

    def add(self, batch: Batch, predicted: npt.NDArray[Any], *, k: float, seconds: float) -> None:
        """Score one batch."""
        k_true = float(len(np.unique(batch.y)))
        self._batches.append((float(batch.time), k, k_true, seconds))
        self._n_rows += len(batch.y)
        self._full.update(batch.y, predicted)
        self._scores.append([metric(batch.y, predicted) for metric in self._metrics.values()])
        if self._wants_oracle:
            best = _oracle_labels(batch)
            self._oracle_full.update(batch.y, best)
            self._oracle.append([metric(batch.y, best) for metric in self._metrics.values()])

    def result(self) -> PrequentialResult:
        """Return the scores by column."""
        time, k, k_true, seconds = _columns(self._batches, 4)
        return PrequentialResult(
            time=time,
            scores=self._named(self._scores),
            oracle=self._named(self._oracle) if self._wants_oracle else {},
            k=k,
            k_true=k_true,
            seconds=seconds,
            n_rows=self._n_rows,
            full_nmi=self._full.nmi() if self._scores else float("nan"),
            oracle_full_nmi=self._oracle_full.nmi() if self._oracle else float("nan"),
        )

    def _named(self, lines: list[list[float]]) -> dict[str, FloatArray]:
        return dict(zip(self._metrics, _columns(lines, len(self._metrics)), strict=True))


def _columns(lines: Sequence[Sequence[float]], width: int) -> list[FloatArray]:
    return list(np.array(lines, dtype=np.float64).reshape(-1, width).T)


def _n_clusters(model: Model) -> float:
    return float(getattr(model, "n_clusters_", float("nan")))


def _oracle_labels(batch: Batch) -> npt.NDArray[Any]:
    if not hasattr(batch, "oracle"):
        raise InputError("the batches of this stream have no oracle(): pass oracle=False")
    return np.asarray(batch.oracle())


def _mean(column: FloatArray) -> float:
    return float(column.mean()) if len(column) else float("nan")


def _ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else float("nan")
