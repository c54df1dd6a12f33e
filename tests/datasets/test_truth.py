"""The oracle is the Bayes classifier, and the rows follow the law that it knows."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from scipy import special, stats

from scstream.datasets import (
    LabelledBatch,
    Stream,
    births_and_deaths,
    drifting_gaussians,
    drifting_multinomials,
    gradual_gaussians,
    recurring_gaussians,
)
from scstream.datasets.counts import Kind
from scstream.datasets.emissions import Gaussians, Multinomials
from scstream.metrics import adjusted_rand


def share_of_new(batch: LabelledBatch) -> np.ndarray:
    """How far the change has come, by row and cluster, written down a second time."""
    elapsed = batch.row_times[:, None] - batch.truth.starts
    if batch.truth.width == 0:
        return (elapsed >= 0).astype(float)
    return np.clip(elapsed / batch.truth.width, 0, 1)


def log_density(batch: LabelledBatch, row: int, place: np.ndarray, label: int) -> float:
    emission = batch.truth.emission
    if isinstance(emission, Gaussians):
        factor = emission.factors[label % len(emission.factors)]
        return float(stats.multivariate_normal(place, factor @ factor.T).logpdf(batch.X[row]))
    assert isinstance(emission, Multinomials)
    law = stats.multinomial(emission.n_trials, place / place.sum())
    return float(law.logpmf(batch.X[row]))


def log_joint(batch: LabelledBatch) -> np.ndarray:
    """Log probability of row and label under the truth, one row and one cluster at a time."""
    truth, share = batch.truth, share_of_new(batch)
    out = np.empty(share.shape)
    for (n, k), s in np.ndenumerate(share):
        label = int(truth.labels[k])
        if truth.blend:
            place = (1 - s) * truth.old[k] + s * truth.new[k]
            out[n, k] = log_density(batch, n, place, label)
        else:
            either = [log_density(batch, n, at[k], label) for at in (truth.old, truth.new)]
            out[n, k] = special.logsumexp(either, b=[1 - s, s])
    return out + np.log(truth.weights)


def small_counts(kind: Kind) -> Stream:
    return drifting_multinomials(6, 8, n_trials=15, kind=kind, n_batches=9, random_state=0)


SMALL = {
    "incremental": drifting_gaussians(4, 3, speed=2, separation=4, n_batches=3, random_state=0),
    "gradual": gradual_gaussians(4, separation=4, period=9, n_batches=9, random_state=0),
    "recurring": recurring_gaussians(
        6, 5, n_active=3, swap=2, phase=1, n_batches=3, between=(0.2, 0.2, 9.0), random_state=0
    ),
    "births": births_and_deaths(
        3, distance="near", birth_every=1, separation=6, n_batches=4, random_state=0
    ),
    "counts gradual": small_counts("gradual"),
    "counts incremental": small_counts("incremental"),
    "counts abrupt": small_counts("abrupt"),
    "counts recurring": small_counts("recurring"),
}
small_streams = pytest.mark.parametrize("stream", SMALL.values(), ids=SMALL.keys())


@small_streams
def test_oracle_is_the_most_probable_label_by_scipy(stream: Stream) -> None:
    for batch in replace(stream, batch_size=12):
        assert np.array_equal(batch.oracle(), batch.truth.labels[log_joint(batch).argmax(axis=1)])


@small_streams
@pytest.mark.statistics
def test_rows_follow_the_law_that_the_oracle_knows(stream: Stream) -> None:
    """Posterior probabilities are calibrated, which they are only if rows come from that law.

    The sum over rows of (is label k) - P(label k | row) is a sum of independent terms of mean 0,
    and so is that of the oracle's hits. Each is asked to lie within 4.5 of its own standard
    deviations: at most 7 statistics in 8 streams, so a false alarm has probability below
    56 * 7e-6 < 4e-4. Overlapping clusters make a wrong law visible.
    """
    excess, variance = np.zeros(12), np.zeros(12)
    hits, hits_variance = 0.0, 0.0
    for batch in replace(stream, batch_size=60):
        posterior = special.softmax(log_joint(batch), axis=1)
        labels = batch.truth.labels
        is_label = batch.y[:, None] == labels
        np.add.at(excess, labels, (is_label - posterior).sum(axis=0))
        np.add.at(variance, labels, (posterior * (1 - posterior)).sum(axis=0))
        best = posterior.max(axis=1)
        hits += float((batch.oracle() == batch.y).sum() - best.sum())
        hits_variance += float((best * (1 - best)).sum())
    assert hits_variance > 1
    assert (np.abs(excess) <= 4.5 * np.sqrt(variance) + 1e-6).all()
    assert abs(hits) <= 4.5 * np.sqrt(hits_variance)


@pytest.mark.statistics
def test_moments_of_a_cluster_are_those_of_its_parameters() -> None:
    """20,000 whitened rows of one cluster: mean and covariance within 5 standard errors.

    Standard errors are .007 and at most .01; 65 statistics at 5 sigma, false alarm below 4e-5.
    """
    stream = recurring_gaussians(
        1, 10, n_active=1, swap=0, n_batches=1, batch_size=20_000, random_state=0
    )
    (batch,) = stream
    emission = batch.truth.emission
    assert isinstance(emission, Gaussians)
    white = (batch.X - batch.truth.old[0]) @ emission.whiteners[0].T
    assert np.abs(white.mean(axis=0)).max() < 5 * 0.0071
    assert np.abs(np.cov(white.T) - np.eye(10)).max() < 5 * 0.01


@pytest.mark.statistics
@pytest.mark.parametrize(("n_features", "df"), [(1, 8.0), (2, 6.0), (5, 15.0), (64, 104.0)])
def test_covariances_are_inverse_wishart_with_mean_one(n_features: int, df: float) -> None:
    """Log determinants, and variances of the first feature, have the law of the inverse Wishart.

    log|S| = D log(df-D-1) - sum log chi2(df-i) in closed mean and variance; the first variance is
    inverse gamma. Both at p > 1e-3 in 4 settings: a false alarm in 1 of 125 choices of seed.
    """
    n = 2000
    shapes = Gaussians.inverse_wishart(np.random.default_rng(1), n, n_features, df=df)
    halves = (df - np.arange(n_features)) / 2
    scale = df - n_features - 1
    mean = n_features * np.log(scale) - (special.digamma(halves) + np.log(2)).sum()
    sd = np.sqrt(special.polygamma(1, halves).sum() / n)
    assert abs(2 * shapes.log_dets.mean() - mean) < 3.3 * sd
    variances = (shapes.factors[:, 0] ** 2).sum(axis=1)
    law = stats.invgamma((df - n_features + 1) / 2, scale=scale / 2)
    assert stats.kstest(variances, law.cdf).pvalue > 1e-3


@pytest.mark.statistics
@pytest.mark.parametrize("speed", [0.08, 0.25])
def test_oracle_of_the_default_plane_is_about_95(speed: float) -> None:
    """Over 60 seeds the mean is .948 and the spread of a seed .02: the mean of 20 is within .02."""
    scores = [
        np.mean([adjusted_rand(b.y, b.oracle()) for b in islice(stream, 0, None, 20)])
        for stream in (drifting_gaussians(speed=speed, random_state=seed) for seed in range(20))
    ]
    assert np.mean(scores) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize(("n_trials", "least"), [(100, 0.999), (60, 0.99)])
def test_oracle_of_the_default_counts(n_trials: int, least: float) -> None:
    stream = drifting_multinomials(n_trials=n_trials, random_state=0)
    scores = [adjusted_rand(b.y, b.oracle()) for b in islice(stream, 0, None, 10)]
    assert np.mean(scores) > least


def test_oracle_of_the_default_recurring_stream_is_perfect() -> None:
    scores = [adjusted_rand(b.y, b.oracle()) for b in recurring_gaussians(random_state=0).take(7)]
    assert np.mean(scores) > 0.999
