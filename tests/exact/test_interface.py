"""`ScStream(algorithm="exact")`: sampling, summaries, refusals, every family."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from scstream import Box, Config, ScStream
from scstream.core import exact
from scstream.core.partition import Partition
from scstream.errors import InputError
from scstream.posterior import PosteriorSamples, effective_sample_size
from scstream.stream.config import build
from tests.exact.chains import table_of

RNG = np.random.default_rng(0)
GROUP = np.repeat([0, 1], 20)
TABLES = {
    "gaussian": RNG.normal(8.0 * GROUP[:, None], 1.0, (40, 2)),
    "diagonal": RNG.normal(8.0 * GROUP[:, None], 1.0, (40, 2)),
    "multinomial": RNG.multinomial(30, np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])[GROUP]),
    "bernoulli": RNG.random((40, 12)) < np.where(GROUP, 0.1, 0.9)[:, None],
    "categorical": RNG.integers(0, 2, (40, 12)) + 2 * GROUP[:, None],
    "poisson": RNG.poisson(np.where(GROUP, 3.0, 40.0)[:, None], (40, 2)),
}


def fitted(family="gaussian", X=TABLES["gaussian"], **parameters):
    parameters = {"n_sweeps": 30, "random_state": 0, **parameters}
    return ScStream(family, algorithm="exact", **parameters).fit(X)


@pytest.mark.parametrize("family", TABLES)
def test_every_family_separates_two_groups(family):
    X = TABLES[family].astype(float)
    samples = fitted(family, X).sample(30)
    inside, across = samples.co_clustering([[0, 1], [0, 39]])
    assert inside > 0.5 > across


def test_mixed_columns_with_missing_values():
    X = np.column_stack([TABLES["diagonal"], TABLES["poisson"]]).astype(float)
    X[3, 0] = np.nan
    family = [("diagonal", [0, 1]), ("poisson", [2, 3])]
    inside, across = fitted(family, X).sample(30).co_clustering([[0, 1], [0, 39]])
    assert inside > 0.5 > across


def test_sparse_counts_give_the_samples_of_dense_counts():
    X = TABLES["multinomial"].astype(float)
    dense = fitted("multinomial", X).sample(5)
    csr = fitted("multinomial", sparse.csr_array(X)).sample(5)
    np.testing.assert_array_equal(dense.labels, csr.labels)


def test_sampling_goes_on_where_it_stopped_and_does_not_depend_on_threads():
    whole = fitted(n_jobs=1).sample(12)
    model = fitted(n_jobs=2)
    first, second = model.sample(5), model.sample(7)
    np.testing.assert_array_equal(whole.labels, np.concatenate([first.labels, second.labels]))
    thinned = fitted().sample(4, thin=3)
    np.testing.assert_array_equal(whole.labels[2::3], thinned.labels)
    np.testing.assert_array_equal(whole.log_posterior[2::3], thinned.log_posterior)


def test_a_sample_is_described_by_its_numbers():
    model = fitted()
    samples = model.sample(10)
    assert samples.labels.shape == (10, 40)
    np.testing.assert_array_equal(samples.labels.max(axis=1) + 1, samples.n_clusters)
    table = table_of(model.family_, model.alpha, TABLES["gaussian"])
    for labels, value in zip(samples.labels, samples.log_posterior, strict=True):
        expected = Partition.of(table, labels.astype(np.int64)).log_posterior(table)
        assert value == pytest.approx(expected, rel=1e-12)


def test_the_fitted_model_is_a_partition_of_the_rows(tmp_path):
    X = TABLES["gaussian"]
    model = fitted()
    assert set(model.labels_) == set(range(model.n_clusters_))
    np.testing.assert_array_equal(model.clusters_.weight, np.bincount(model.labels_))
    assert np.mean(model.predict(X) == model.labels_) > 0.8
    assert model.predict([[1e3, 1e3]]) == [-1]
    assert model.info_.mean_log_density == pytest.approx(model.score_samples(X).mean())
    model.save(tmp_path / "model")
    loaded = ScStream.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    with pytest.raises(InputError, match="does not hold the rows"):
        loaded.sample(3)


def test_max_clusters_bounds_every_sample():
    samples = fitted(alpha=50.0, max_clusters=6).sample(40)
    assert samples.n_clusters.max() == 6
    assert fitted(max_clusters=1, n_sweeps=0).n_clusters_ == 1
    assert fitted(alpha=50.0).sample(40).n_clusters.max() > 6


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"half_life": 3.0}, "forgets nothing"),
        ({"kernel": Box(length=3)}, "forgets nothing"),
    ],
)
def test_forgetting_is_refused(parameters, says):
    with pytest.raises(InputError, match=says):
        fitted(**parameters)


@pytest.mark.parametrize(
    ("learn", "says"),
    [
        ({"time": 3.0}, "takes no time"),
        ({"sample_weight": np.ones(40)}, "takes no sample_weight"),
    ],
)
def test_times_and_weights_are_refused(learn, says):
    with pytest.raises(InputError, match=says):
        ScStream(algorithm="exact").partial_fit(TABLES["gaussian"], **learn)


def test_a_second_batch_is_refused_and_changes_nothing():
    model, other = fitted(), fitted()
    with pytest.raises(InputError, match="already learned"):
        model.partial_fit(TABLES["gaussian"])
    np.testing.assert_array_equal(model.sample(3).labels, other.sample(3).labels)


def test_a_pipeline_is_refused():
    settings = {
        "source": {"kind": "file", "path": "rows.jsonl"},
        "model": {"algorithm": "exact"},
    }
    with pytest.raises(InputError, match="cannot learn a stream"):
        build(settings)


@pytest.mark.parametrize("algorithm", ["default", "paper"])
def test_other_algorithms_do_not_sample(algorithm):
    model = ScStream(algorithm=algorithm, random_state=0).fit(TABLES["gaussian"])
    with pytest.raises(InputError, match="does not sample"):
        model.sample(3)


def test_a_model_fitted_again_by_another_algorithm_does_not_sample():
    model = fitted().set_params(algorithm="default", n_sweeps=None).fit(TABLES["gaussian"])
    with pytest.raises(InputError, match="does not sample"):
        model.sample(3)


@pytest.mark.parametrize("number", [0, -1, 1.5, True, None])
def test_numbers_of_samples_are_checked(number):
    with pytest.raises(InputError, match="n must be"):
        fitted().sample(number)


def test_config_of_one_table_never_forgets():
    config = Config(algorithm="exact", kernel=Box(length=2), precision="float32")
    assert config.kernel.weight(np.array([1e6])) == 1.0
    assert config.precision == "float64"


def test_a_large_table_begins_with_groups_of_a_sample(monkeypatch):
    table = table_of(fitted().family_, 1.0, TABLES["gaussian"])
    whole = exact.start(table)
    monkeypatch.setattr(exact, "_MAX_GROUPED", 20)
    partition = exact.start(table)
    assert len(partition.labels) == 40
    assert partition.n_clusters <= whole.n_clusters
    assert set(partition.labels[GROUP == 0]).isdisjoint(partition.labels[GROUP == 1])


def test_few_rows():
    assert fitted(X=[[1.0]]).sample(2).labels.tolist() == [[0], [0]]
    assert fitted(X=[[1.0], [2.0]]).sample(20).labels.shape == (20, 2)


def samples_of(labels):
    labels = np.array(labels, dtype=np.int32)
    return PosteriorSamples(labels, labels.max(axis=1) + 1, np.zeros(len(labels)))


def test_consensus_minimises_the_expected_variation_of_information():
    samples = samples_of([[0, 0, 1, 1]] * 5 + [[0, 1, 2, 2]] * 3 + [[0, 0, 0, 0]] * 2)

    def distance(one, two):
        """Variation of information by its definition."""
        total = 0.0
        for a in set(one):
            for b in set(two):
                both = np.mean((one == a) & (two == b))
                if both:
                    total -= both * np.log(both / np.mean(one == a))
                    total -= both * np.log(both / np.mean(two == b))
        return total

    expected = {
        tuple(each): np.mean([distance(each, other) for other in samples.labels])
        for each in samples.labels
    }
    assert tuple(samples.consensus()) == min(expected, key=expected.get)


def test_similarity_matrix_and_co_clustering_agree():
    samples = samples_of([[0, 0, 1, 1], [0, 1, 1, 0], [0, 0, 0, 0], [0, 1, 2, 3]])
    matrix = samples.similarity_matrix()
    pairs = np.array([[i, j] for i in range(4) for j in range(4)])
    np.testing.assert_array_equal(samples.co_clustering(pairs).reshape(4, 4), matrix)
    np.testing.assert_array_equal(matrix[0], [1.0, 0.5, 0.25, 0.5])
    np.testing.assert_array_equal(samples.similarity_matrix([2, 0]), matrix[np.ix_([2, 0], [2, 0])])


def test_interval_holds_its_probability():
    samples = samples_of([[0, 0, 0]] * 5 + [[0, 0, 1]] * 90 + [[0, 1, 2]] * 5)
    assert samples.n_clusters_interval(0.8) == (2, 2)
    assert samples.n_clusters_interval(0.99) == (1, 3)
    with pytest.raises(InputError, match="between 0 and 1"):
        samples.n_clusters_interval(1.0)


def test_effective_sample_size_of_known_chains():
    """An autoregression with coefficient r is worth n (1 - r) / (1 + r)."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=40_000)
    chain = np.zeros(40_000)
    for i in range(1, len(chain)):
        chain[i] = 0.8 * chain[i - 1] + noise[i]
    assert effective_sample_size(noise) == pytest.approx(40_000, rel=0.1)
    assert effective_sample_size(chain) == pytest.approx(40_000 / 9, rel=0.15)
    assert np.isnan(effective_sample_size(np.ones(10)))
