"""Samples of the posterior of partitions, and what they say about the clusters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from scstream.compute.choose import choose_executor
from scstream.compute.threads import one_blas_thread
from scstream.core.exact import advance
from scstream.core.partition import Partition, Table, numbered
from scstream.core.state import Batch
from scstream.errors import InputError
from scstream.families.base import Array, Labels, Rows
from scstream.io.parameters import read_whole
from scstream.model import Model

_MAX_CANDIDATES = 200  # samples that are compared with all samples to find a consensus


@dataclass(frozen=True, eq=False)
class PosteriorSamples:
    """Partitions drawn from the posterior of a table. `ScStream.sample` makes them.

    Parameters
    ----------
    labels : array of shape (S, N)
        Cluster of every row in every sample. Clusters are numbered from 0 by their first row; the
        same number in two samples does not mean the same cluster.
    n_clusters : array of shape (S,)
        Number of clusters.
    log_posterior : array of shape (S,)
        Logarithm of the posterior, up to a constant.

    Examples
    --------
    >>> from scstream import ScStream
    >>> X = [[0.1], [0.2], [0.3], [9.1], [9.2], [9.3]]
    >>> model = ScStream(algorithm="exact", prior="weak", random_state=0).fit(X)
    >>> samples = model.sample(200)
    >>> samples.labels.shape
    (200, 6)
    """

    labels: NDArray[np.int32]  # (S, N)
    n_clusters: Labels  # (S,)
    log_posterior: Array  # (S,)

    def co_clustering(self, pairs: object) -> Array:  # (M,)
        """Return the posterior probability that two rows are in the same cluster, for each pair.

        Parameters
        ----------
        pairs : array of shape (M, 2)
            Positions of rows.

        Returns
        -------
        array of shape (M,)
            Share of the samples in which the rows of a pair are together.

        Examples
        --------
        >>> from scstream import ScStream
        >>> X = [[0.1], [0.2], [0.3], [9.1], [9.2], [9.3]]
        >>> model = ScStream(algorithm="exact", prior="weak", random_state=0).fit(X)
        >>> near, far = model.sample(200).co_clustering([[0, 1], [0, 5]])
        >>> bool(near > far)
        True
        """
        first, second = np.asarray(pairs, dtype=np.int64).reshape(-1, 2).T
        return np.asarray((self.labels[:, first] == self.labels[:, second]).mean(axis=0))

    def similarity_matrix(self, rows: object = None) -> Array:  # (R, R)
        """Return the posterior similarity matrix: `co_clustering` of all pairs of some rows.

        Parameters
        ----------
        rows : array of shape (R,), optional
            Positions of rows; by default all.

        Returns
        -------
        array of shape (R, R)
            Probabilities; ones on the diagonal.

        Examples
        --------
        >>> from scstream import ScStream
        >>> X = [[0.1], [0.2], [0.3], [9.1], [9.2], [9.3]]
        >>> model = ScStream(algorithm="exact", prior="weak", random_state=0).fit(X)
        >>> model.sample(200).similarity_matrix([0, 1, 5]).shape
        (3, 3)
        """
        labels = self.labels if rows is None else self.labels[:, np.asarray(rows, dtype=np.int64)]
        together = np.zeros((labels.shape[1], labels.shape[1]))
        for sample in labels:
            together += sample[:, None] == sample
        return together / len(labels)

    def consensus(self) -> Labels:  # (N,)
        """Return the sampled partition with the least expected variation of information.

        The variation of information is a distance between partitions; the expectation is over the
        samples. At most 200 of the samples, evenly spaced, are candidates.

        Returns
        -------
        array of shape (N,)
            Labels from 0.

        Examples
        --------
        >>> from scstream import ScStream
        >>> X = [[0.1], [0.2], [0.3], [9.1], [9.2], [9.3]]
        >>> model = ScStream(algorithm="exact", prior="weak", random_state=0).fit(X)
        >>> model.sample(200).consensus().shape
        (6,)
        """
        places = np.linspace(0, len(self.labels) - 1, min(len(self.labels), _MAX_CANDIDATES))
        candidates = np.unique(self.labels[places.astype(np.int64)], axis=0)
        entropy = _entropies(self.labels)
        expected = []
        for candidate, own in zip(candidates, _entropies(candidates), strict=True):
            # Every pair of a label of the sample and one of the candidate is a cluster of the meet.
            meet = self.labels * (int(candidate.max()) + 1) + candidate
            expected.append(np.mean(2.0 * _entropies(meet) - entropy - own))
        return np.asarray(candidates[int(np.argmin(expected))], dtype=np.int64)

    def n_clusters_interval(self, level: float = 0.9) -> tuple[int, int]:
        """Return the equal-tailed credible interval of the number of clusters.

        Parameters
        ----------
        level : float
            Probability of the interval, between 0 and 1.

        Returns
        -------
        tuple of int
            The smallest and the largest number of clusters in the interval.

        Examples
        --------
        >>> from scstream import ScStream
        >>> X = [[0.1], [0.2], [0.3], [9.1], [9.2], [9.3]]
        >>> model = ScStream(algorithm="exact", prior="weak", random_state=0).fit(X)
        >>> low, high = model.sample(200).n_clusters_interval()
        >>> 1 <= low <= high <= 6
        True
        """
        if not 0.0 < level < 1.0:
            raise InputError(f"level must be between 0 and 1, got {level!r}.")
        tails = [(1.0 - level) / 2.0, (1.0 + level) / 2.0]
        low, high = np.quantile(self.n_clusters, tails, method="inverted_cdf")
        return int(low), int(high)

    def effective_sample_size(self) -> dict[str, float]:
        """Return how many independent samples the samples are worth, for two statistics.

        Returns
        -------
        dict
            Effective sample sizes of `n_clusters` and `log_posterior` by Geyer's initial monotone
            sequence; NaN for a statistic that never changes.

        Examples
        --------
        >>> from scstream import ScStream
        >>> X = [[0.1], [0.2], [0.3], [9.1], [9.2], [9.3]]
        >>> model = ScStream(algorithm="exact", prior="weak", random_state=0).fit(X)
        >>> sorted(model.sample(200).effective_sample_size())
        ['log_posterior', 'n_clusters']
        """
        return {
            "n_clusters": effective_sample_size(self.n_clusters),
            "log_posterior": effective_sample_size(self.log_posterior),
        }


@dataclass(frozen=True, eq=False)
class Chain:
    """Where sampling continues: a model of one table, its rows, and their labels."""

    model: Model
    rows: Rows
    labels: Labels  # (N,)
    sweep: int

    @classmethod
    def after(cls, model: Model, rows: Rows, labels: Labels) -> Self:
        """Begin where `Model.update` stopped."""
        return cls(model, rows, labels, model.config.n_sweeps)

    def sample(self, n: object, thin: object) -> tuple[PosteriorSamples, Chain]:
        """Draw `n` samples, `thin` sweeps apart; also return where the chain stands then."""
        n, thin = (_at_least_one(name, value) for name, value in (("n", n), ("thin", thin)))
        model = self.model
        executor = choose_executor(model.settings.executor, model.settings.n_jobs)
        labels = np.empty((n, len(self.labels)), dtype=np.int32)
        n_clusters, log_posterior = np.empty(n, dtype=np.int64), np.empty(n)
        sweep = self.sweep
        with one_blas_thread, model.family.kernels.threads(executor.n_threads):
            family = executor.with_kernels(model.family)
            table = Table.of(family, model.config, Batch(self.rows, 0.0), executor)
            partition = Partition.of(table, self.labels)
            for s in range(n):
                for _ in range(thin):
                    partition = advance(table, partition, sweep)
                    sweep += 1
                labels[s] = numbered(partition.labels)
                n_clusters[s] = partition.n_clusters
                log_posterior[s] = partition.log_posterior(table)
        drawn = PosteriorSamples(labels, n_clusters, log_posterior)
        return drawn, replace(self, labels=partition.labels, sweep=sweep)


def effective_sample_size(values: Array | Labels) -> float:
    """Return the effective sample size of a chain by Geyer's initial monotone sequence."""
    centred = values - float(np.mean(values))
    n = len(centred)
    if not np.any(centred):
        return float("nan")
    spectrum = np.abs(np.fft.rfft(centred, 2 * n)) ** 2
    correlation = np.fft.irfft(spectrum)[:n]
    pairs = (correlation[: n // 2 * 2] / correlation[0]).reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs <= 0.0)
    pairs = pairs[: negative[0]] if len(negative) else pairs
    return float(n / max(2.0 * np.minimum.accumulate(pairs).sum() - 1.0, 1.0 / n))


def _entropies(labels: NDArray[np.integer]) -> Array:  # (S, N) -> (S,)
    """Entropy of the cluster of a random row, for every partition."""
    n_samples, n_rows = labels.shape
    width = int(labels.max()) + 1
    cells = (labels + width * np.arange(n_samples)[:, None]).ravel()
    share = np.bincount(cells, minlength=n_samples * width).reshape(n_samples, width) / n_rows
    return np.asarray(-(share * np.log(np.where(share > 0, share, 1.0))).sum(axis=1))


def _at_least_one(name: str, value: object) -> int:
    number = read_whole(name, value)
    if number < 1:
        raise InputError(f"{name} must be at least 1, got {number}.")
    return number
