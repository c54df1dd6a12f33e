"""ScStream: what goes in, what comes out, what is refused, and what never changes."""

import pickle
import tomllib
import warnings
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import logsumexp
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import scstream
from scstream import Box, Config, Exponential, ScStream, Windowed
from scstream.compute.choose import thread_executor
from scstream.compute.threads import ThreadExecutor
from scstream.core import default
from scstream.core.state import State
from scstream.errors import DataWarning, InputError, TimeError
from scstream.families import Gaussian, Multinomial, Poisson, Product
from scstream.io import estimator_input
from tests.digests import digest

Batches = list[NDArray[np.float64]]
CENTRES = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])


def blobs(n_batches: int, *, n_rows: int = 60, seed: int = 0) -> Batches:
    rng = np.random.default_rng(seed)
    moved = [CENTRES + 0.1 * t for t in range(n_batches)]
    return [c[rng.integers(3, size=n_rows)] + rng.normal(size=(n_rows, 2)) for c in moved]


def counts(n_batches: int, *, n_rows: int = 60, seed: int = 0) -> Batches:
    rng = np.random.default_rng(seed)
    share = rng.dirichlet(np.full(6, 0.3), size=3)
    draws = [[rng.multinomial(40, share[k]) for k in range(3)] * 20 for _ in range(n_batches)]
    return [np.array(rows, dtype=np.float64)[:n_rows] for rows in draws]


def arrays_of(state: Any) -> list[NDArray[Any]]:
    values = [getattr(state, name) for name in state.__dataclass_fields__]
    nested = [array for v in values if hasattr(v, "__dataclass_fields__") for array in arrays_of(v)]
    return [v for v in values if isinstance(v, np.ndarray)] + nested


def assert_sound(model: ScStream) -> None:
    state: State = model.state_
    assert all(np.isfinite(array).all() for array in arrays_of(state))
    assert np.isfinite(
        [state.unassigned_weight, state.unassigned_now, state.time, state.batch_interval]
    ).all()
    assert (state.subclusters[..., 0] >= 0).all()
    assert set(model.labels_) <= {*state.ids.tolist(), -1}


@pytest.fixture(scope="module")
def fitted() -> ScStream:
    model = ScStream(random_state=0)
    for X in blobs(4):
        model.partial_fit(X)
    return model


# Front door and parameters


def test_front_door() -> None:
    project = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text())
    assert scstream.__version__ == project["project"]["version"]
    assert set(scstream.__all__) <= set(dir(scstream))
    assert all(getattr(scstream, name) is not None for name in scstream.__all__)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = scstream.nonsense


def test_defaults_are_those_of_the_core() -> None:
    model, config = ScStream(), Config()
    assert isinstance(config.kernel, Exponential)
    assert model.half_life == config.kernel.half_life
    for name in ("alpha", "max_clusters", "late"):
        assert getattr(model, name) == getattr(config, name)


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"family": "gauss"}, "no family is called 'gauss'"),
        ({"family": 3}, "family must be one of"),
        ({"family": "product"}, "needs to know its columns"),
        ({"family": ["gaussian"]}, "pairs"),
        ({"family": {"diagonal": ["height"]}}, "no column names"),
        ({"family": [("diagonal", [0])]}, "columns"),
        ({"family": [("diagonal", [0, 7])]}, "no column 7"),
        ({"prior": "strong"}, "prior must be"),
        ({"prior": {"phi": 1.0}}, "no hyperparameter 'phi'; it has mean, kappa"),
        ({"prior": {"psi": "wide"}}, "psi must hold numbers"),
        ({"prior": {"psi": np.nan}}, "finite"),
        ({"prior": {"psi": -1.0}}, "positive definite"),
        ({"prior": {"psi": np.ones((3, 3))}}, "psi"),
        ({"family": {"diagonal": [0, 1]}, "prior": {"nu": 4}}, "Product"),
        ({"family": Multinomial(np.ones(2)), "prior": {"a": 1}}, "brings its own prior"),
        ({"alpha": 0}, "alpha"),
        ({"alpha": "much"}, "alpha must be a number"),
        ({"half_life": -1.0}, "half_life"),
        ({"half_life": "long"}, "half_life"),
        ({"kernel": 5}, "kernel must be"),
        ({"kernel": Box}, "kernel must be"),
        ({"kernel": lambda age: 0.5 + 0 * age}, "weight 1 to age 0"),
        ({"kernel": lambda age: 2.0 + 0 * age}, "between 0 and 1"),
        ({"n_sweeps": -1}, "n_sweeps"),
        ({"n_sweeps": 1.5}, "whole number"),
        ({"algorithm": "papers"}, "'paper', 'printed' or 'exact'"),
        ({"max_clusters": 0}, "max_clusters"),
        ({"late": "drop"}, "'error' or 'add'"),
        ({"max_clusters": 2.5}, "max_clusters must be a whole number"),
        ({"births": 1}, "births must be True or False, got 1"),
        ({"motion": "no"}, "motion must be True or False"),
        ({"archive": None}, "archive must be True or False"),
        ({"min_birth_weight": "five"}, "min_birth_weight must be a number"),
        ({"min_birth_weight": 0.0}, "min_birth_weight must be a positive number"),
        ({"min_weight": True}, "min_weight must be a number"),
        ({"min_weight": -1.0}, "min_weight must be a positive number"),
        ({"coarseness": None}, "coarseness must be a number"),
        ({"coarseness": -0.1}, "coarseness must not be negative"),
        ({"precision": "float16"}, "'float64' or 'float32'"),
        ({"config": {"motion": False}}, "config must be a scstream.Config"),
        ({"config": Config(min_weight=-1.0)}, "min_weight must be a positive number"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"n_jobs": "two"}, "n_jobs"),
        ({"n_jobs": True}, "n_jobs"),
        ({"executor": "spark"}, "executor must be"),
        ({"executor": ThreadExecutor}, "executor must be"),
        ({"max_events": -1}, "max_events"),
        ({"max_events": None}, "max_events"),
        ({"random_state": -1}, "random_state"),
        ({"random_state": "seed"}, "random_state"),
    ],
)
def test_a_wrong_parameter_gets_a_sentence(params: dict[str, Any], sentence: str) -> None:
    model = ScStream(**params)
    with pytest.raises(InputError, match=sentence):
        model.fit(blobs(1)[0])
    assert not hasattr(model, "state_")


def test_prior_by_hand() -> None:
    X = blobs(1)[0]
    hyper = {"kappa": 1, "mean": 0, "nu": 4, "psi": 1.02}
    family = ScStream(prior=hyper, random_state=0).fit(X).family_
    assert isinstance(family, Gaussian)
    assert np.array_equal(family.mean, [0, 0])
    assert np.array_equal(family.psi, 1.02 * np.eye(2))
    assert (family.kappa, family.nu) == (1.0, 4.0)
    vector = ScStream(prior={"psi": [1.0, 2.0]}, random_state=0).fit(X).family_
    assert np.array_equal(vector.psi, np.diag([1.0, 2.0]))


def test_prior_of_levels_that_come_later() -> None:
    X = np.array([[0.0, 1.0], [1.0, 0.0]] * 5)
    model = ScStream("categorical", prior={"n_levels": 4}, random_state=0).fit(X)
    model.partial_fit([[3.0, 2.0]])
    assert model.family_.n_levels == (4, 4)
    with pytest.raises(InputError, match="level 4"):
        model.partial_fit([[4.0, 2.0]])


def test_family_instance_keeps_its_prior() -> None:
    family = Gaussian(mean=np.zeros(2), kappa=0.1, nu=5.0, psi=np.eye(2))
    found = ScStream(family, random_state=0).fit(blobs(1)[0]).family_
    assert type(found) is Gaussian
    assert digest(found.hyperparameters()) == digest(family.hyperparameters())
    assert isinstance(ScStream(Gaussian, random_state=0).fit(blobs(1)[0]).family_, Gaussian)


def test_mixed_columns_by_name_and_by_position() -> None:
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=80)
    table = pd.DataFrame(
        {"size": rng.normal(10.0 * kind), "visits": rng.poisson(2 + 20 * kind), "yes": kind == 1}
    )
    named = ScStream({"diagonal": "size", "poisson": ["visits"], "bernoulli": ["yes"]})
    placed = ScStream([("diagonal", 0), ("poisson", [1]), ("bernoulli", [2])])
    labels = [m.set_params(random_state=0).fit_predict(table) for m in (named, placed)]
    assert np.array_equal(*labels)
    assert named.n_clusters_ == 2
    assert isinstance(named.family_, Product)
    with pytest.raises(InputError, match="no column 'length'; it has size, visits, yes"):
        ScStream({"diagonal": "length"}).fit(table)


FLAT: dict[str, Any] = {  # every parameter of the algorithm with another value than its default
    "alpha": 2.0,
    "half_life": 3.0,
    "kernel": Box(length=4.0),
    "n_sweeps": 2,
    "algorithm": "paper",
    "max_clusters": 50,
    "late": "add",
    "births": False,
    "motion": False,
    "archive": True,
    "min_birth_weight": 7.0,
    "min_weight": 2.0,
    "coarseness": 0.1,
    "precision": "float32",
}


def test_parameters_reach_the_configuration() -> None:
    X = blobs(1)[0]
    same = {
        name: value
        for name, value in FLAT.items()
        if name not in ("half_life", "kernel", "algorithm")
    }
    config = ScStream(**same, half_life=3.0, random_state=5).fit(X).config_
    assert config == Config(**same, kernel=Exponential(3.0), seed=5)
    paper = ScStream(algorithm="paper", random_state=5).fit(X).config_
    assert paper == Config.paper(seed=5)


def test_a_config_replaces_the_parameters_of_the_algorithm() -> None:
    X = blobs(1)[0]
    config = Config(split_evidence=None, motion=False, seed=3)
    assert ScStream(config=config).fit(X).config_ == config
    assert ScStream(config=config, random_state=5).fit(X).config_ == replace(config, seed=5)
    flat = ScStream(motion=False, alpha=2.0, random_state=5).fit(X)
    given = ScStream(config=Config(motion=False, alpha=2.0), random_state=5).fit(X)
    assert digest(given.state_) == digest(flat.state_)


@pytest.mark.parametrize("name", FLAT)
def test_a_config_and_a_parameter_of_the_algorithm_exclude_each_other(name: str) -> None:
    model = ScStream(config=Config(), **{name: FLAT[name]})
    with pytest.raises(InputError, match=f"config= replaces {name}="):
        model.fit(blobs(1)[0])


def test_a_parameter_at_its_default_does_not_exclude_a_config() -> None:
    defaults = {name: ScStream().get_params()[name] for name in FLAT}
    model = ScStream(config=Config(seed=1), **defaults).fit(blobs(1)[0])
    assert model.config_ == Config(seed=1)


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(TypeError, match="motions"):
        Config(motions=True)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="switches"):
        ScStream(switches={"motion": False})  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("n_jobs", "n_threads"), [(None, 1), (1, 1), (3, 3), (-1, 4), (-2, 3), (-9, 1)]
)
def test_n_jobs_means_what_it_means_in_scikit_learn(
    n_jobs: int | None, n_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scstream.compute.choose.usable_cores", lambda: 4)
    assert thread_executor(n_jobs).n_threads == n_threads


# A batch that is refused


REFUSED: dict[str, tuple[Any, dict[str, Any]]] = {
    "text": ([["a", "b"], ["c", "d"]], {}),
    "infinity": ([[1.0, np.inf]], {}),
    "one axis": ([1.0, 2.0], {}),
    "a negative weight": ([[1.0, 2.0]], {"sample_weight": [-1.0]}),
    "too many weights": ([[1.0, 2.0]], {"sample_weight": [1.0, 2.0]}),
    "no time": ([[1.0, 2.0]], {"time": "noon"}),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_refused_first_batch_leaves_the_estimator_unchanged(what: str) -> None:
    X, arguments = REFUSED[what]
    model = ScStream(random_state=0)
    before = dict(vars(model))
    for fit in (model.partial_fit, model.fit):
        if fit == model.fit and arguments:
            continue
        with pytest.raises((ValueError, TypeError)):
            fit(X, **arguments)
        assert vars(model) == before
    assert digest(model.partial_fit(blobs(1)[0]).state_) == digest(
        ScStream(random_state=0).partial_fit(blobs(1)[0]).state_
    )


@pytest.mark.parametrize("what", [*REFUSED, "other columns", "late"])
def test_a_refused_later_batch_leaves_the_estimator_unchanged(what: str) -> None:
    late = {"other columns": ([[1.0]], {}), "late": ([[1.0, 2.0]], {"time": -5.0})}
    X, arguments = (REFUSED | late)[what]
    model = ScStream(random_state=0).partial_fit(blobs(1)[0])
    before, content = dict(vars(model)), digest(vars(model))
    with pytest.raises((ValueError, TypeError)):
        model.partial_fit(X, **arguments)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())
    assert digest(vars(model)) == content


def test_a_refused_parameter_leaves_a_fitted_estimator_unchanged() -> None:
    """`fit` starts again; what it refuses does not lose what was learned."""
    model = ScStream(random_state=0).fit(blobs(1)[0])
    before = model.model_, model.labels_
    with pytest.raises(InputError, match="alpha"):
        model.set_params(alpha=-1.0).fit(blobs(2)[1])
    assert model.model_ is before[0]
    assert model.labels_ is before[1]


# Learning


def test_weights_means_and_covariances_are_those_of_the_clusters(fitted: ScStream) -> None:
    table, n = fitted.clusters_, fitted.n_clusters_
    np.testing.assert_array_equal(fitted.weights_, table.share)
    np.testing.assert_array_equal(fitted.means_, table.mean)
    state = fitted.state_
    unassigned = state.unassigned_weight + state.unassigned_now
    missing = unassigned / state.total_weight
    assert fitted.weights_.sum() + missing == pytest.approx(1.0, rel=1e-12)
    assert fitted.covariances_.shape == (n, 2, 2)
    np.testing.assert_allclose(fitted.covariances_, fitted.covariances_.swapaxes(1, 2))
    np.testing.assert_allclose(
        np.sqrt(np.diagonal(fitted.covariances_, axis1=1, axis2=2)), table.std, rtol=1e-9
    )
    diagonal = ScStream("diagonal", random_state=0).fit(blobs(1)[0])
    np.testing.assert_allclose(np.sqrt(diagonal.covariances_), diagonal.clusters_.std, rtol=1e-12)


def test_families_without_covariances_say_so() -> None:
    model = ScStream("multinomial", random_state=0).fit(counts(1)[0])
    assert model.means_.shape == (model.n_clusters_, 6)
    assert not hasattr(model, "covariances_")
    with pytest.raises(AttributeError, match="multinomial family have no covariances_"):
        _ = model.covariances_
    for name in ("weights_", "means_", "covariances_"):
        with pytest.raises(NotFittedError):
            getattr(ScStream(), name)


@pytest.mark.parametrize("algorithm", ["default", "paper"])
def test_info_counts_proposals_and_acceptances(algorithm: str) -> None:
    model = ScStream(algorithm=algorithm, random_state=0)
    for X in blobs(3):
        moves = model.partial_fit(X).info_.moves
        kinds = [event.kind for event in model.info_.events]
        assert 0 <= moves.splits <= moves.split_proposals
        assert 0 <= moves.merges <= moves.merge_proposals
        assert kinds.count("split") <= moves.splits
        assert kinds.count("merged") <= moves.merges
    first = ScStream(algorithm="paper", random_state=0).fit(blobs(1)[0])
    assert first.n_clusters_ - 1 <= first.info_.moves.splits  # it starts from one cluster
    assert first.info_.moves.merge_proposals > 0


def test_finds_the_clusters(fitted: ScStream) -> None:
    assert fitted.n_clusters_ == 3
    assert fitted.n_features_in_ == 2
    order = np.argsort(fitted.clusters_.mean @ [1.0, 2.0])
    assert np.allclose(fitted.clusters_.mean[order], CENTRES + 0.3, atol=0.8)
    assert_sound(fitted)


def test_fit_starts_afresh() -> None:
    first, second = blobs(2)
    model = ScStream(random_state=0).fit(first)
    again = ScStream(random_state=0).fit(second).partial_fit(first).fit(first)
    assert digest(again.state_) == digest(model.state_)
    assert digest(again.events_) == digest(model.events_)
    assert np.array_equal(model.fit_predict(first), model.labels_)


def test_a_first_batch_counts_its_clusters_from_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(default, "RULES", replace(default.RULES, min_subcluster_weight=0.0))
    for seed in range(5):
        model = ScStream(random_state=seed).fit(blobs(1)[0])
        assert model.clusters_.id.tolist() == list(range(model.n_clusters_))
        assert [e.kind for e in model.events_] == ["born"] * model.n_clusters_
        assert model.state_.next_id == model.n_clusters_
        assert len(model.state_.merge_pairs) == len(model.state_.archive.ids) == 0


def test_ids_are_never_reused_and_events_tell_of_them() -> None:
    model = ScStream(half_life=1.0, max_events=10_000, min_batch=1, random_state=0)
    ever: set[int] = set()
    for t in range(12):
        here = CENTRES[[0, 1 + (t > 5)]] * 3  # after t = 5 the second cluster falls silent
        before = set(model.state_.ids.tolist()) if t else set()
        rows = np.repeat(here, 20, axis=0) + blobs(1, n_rows=40, seed=t)[0] * 0.1
        model.partial_fit(rows, time=t)
        now = set(model.state_.ids.tolist())
        assert not (now - before) & ever
        ever |= now
    named = {e.id for e in model.events_} | {e.other for e in model.events_} - {None}
    assert ever <= named
    assert {"born", "died"} <= {e.kind for e in model.events_}


def test_events_are_bounded() -> None:
    for most in (0, 2):
        model = ScStream(max_events=most, random_state=0)
        everything = []
        for X in blobs(3):
            everything += model.partial_fit(X).info_.events
        assert model.events_ == (everything[-most:] if most else [])


def test_max_clusters_is_a_bound() -> None:
    model = ScStream(max_clusters=2, random_state=0)
    for X in blobs(3):
        assert model.partial_fit(X).n_clusters_ <= 2


def test_same_seed_same_labels_and_no_seed_a_fresh_one() -> None:
    X = blobs(1)[0]
    assert ScStream().fit(X).config_.seed != ScStream().fit(X).config_.seed
    fresh = ScStream().fit(X)
    repeated = ScStream(random_state=fresh.config_.seed).fit(X)
    assert digest(fresh.state_) == digest(repeated.state_)
    for make in (np.random.default_rng, np.random.RandomState):
        one, two = (ScStream(random_state=make(7)).fit(X) for _ in range(2))
        assert one.config_.seed == two.config_.seed
        generator = make(7)
        model = ScStream(random_state=generator)
        assert model.fit(X).config_.seed != model.fit(X).config_.seed


@pytest.mark.parametrize("family", ["gaussian", "multinomial"])
def test_results_do_not_depend_on_threads(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scstream.core.row_ranges._TYPICAL", 16)
    monkeypatch.setattr("scstream.core.predictor._CHUNK", 16)
    batches = blobs(4, n_rows=150) if family == "gaussian" else counts(4)
    runs = []
    for n_jobs in (1, 2, 4, -1):
        model = ScStream(family, n_jobs=n_jobs, random_state=0)
        labels = [model.partial_fit(X).labels_ for X in batches]
        asked = [model.predict(batches[0]), model.score_samples(batches[0])]
        runs.append(digest([labels, model.state_, asked]))
    assert all(run == runs[0] for run in runs)


def test_sparse_rows_equal_dense_rows() -> None:
    dense, csr = ScStream("multinomial", random_state=0), ScStream("multinomial", random_state=0)
    for X in counts(3):
        matrix = sparse.csr_matrix(X)
        dense.partial_fit(X)
        csr.partial_fit(matrix)
    assert digest(dense.state_) == digest(csr.state_)
    assert digest(dense.predict_proba(X)) == digest(csr.predict_proba(sparse.coo_array(X)))


def test_duplicate_entries_of_a_sparse_row_are_summed() -> None:
    X = counts(1)[0]
    model = ScStream("multinomial", random_state=0).fit(X)
    index = np.arange(6)
    subclusters = np.r_[X[0], X[0]] / 2
    split = sparse.csr_array((subclusters, np.r_[index, index], [0, 12]), shape=(1, 6))
    before = split.data.copy()
    assert np.allclose(model.score_samples(split), model.score_samples(X[:1]), rtol=1e-12)
    assert np.array_equal(split.data, before)


@pytest.mark.slow
def test_many_models_stay_independent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(default, "_START_SWEEPS", 1)
    quick: dict[str, Any] = {"prior": "weak"}

    def stream(seed: int) -> Batches:
        return blobs(2, n_rows=14, seed=seed)

    models = [ScStream(random_state=seed, **quick) for seed in range(250)]
    streams = [stream(seed) for seed in range(250)]
    for t in range(2):
        for model, batches in zip(models, streams, strict=True):
            model.partial_fit(batches[t])
    for seed in range(0, 250, 10):
        alone = ScStream(random_state=seed, **quick)
        for X in stream(seed):
            alone.partial_fit(X)
        assert digest(alone.state_) == digest(models[seed].state_)
        assert digest(alone.labels_) == digest(models[seed].labels_)


# Questions


def test_questions_change_nothing(fitted: ScStream) -> None:
    X = blobs(1, seed=9)[0]
    before = digest(vars(fitted))
    for time in (None, 4.5, 100.0):
        for ask in (fitted.predict, fitted.predict_proba, fitted.score_samples):
            assert np.array_equal(ask(X, time=time), ask(X, time=time))
    assert digest(vars(fitted)) == before
    for array in arrays_of(fitted.state_):
        assert not array.flags.writeable


def test_probabilities_and_choices_agree(fitted: ScStream) -> None:
    X = np.concatenate([blobs(1, seed=9)[0], [[100.0, 100.0]]])
    share = fitted.predict_proba(X)
    assert share.shape == (len(X), fitted.n_clusters_ + 1)
    assert np.allclose(share.sum(axis=1), 1.0)
    ids = np.append(fitted.clusters_.id, -1)
    assert np.array_equal(ids[share.argmax(axis=1)], fitted.predict(X))
    assert fitted.predict(X)[-1] == -1


def test_density_sums_to_one() -> None:
    model = ScStream(random_state=0).fit(blobs(1)[0][:, :1])
    grid = np.linspace(-60, 80, 200_001)
    assert np.exp(model.score_samples(grid[:, None])).sum() * (grid[1] - grid[0]) == pytest.approx(
        1.0, abs=2e-3
    )
    words = ScStream("multinomial", random_state=0).fit(counts(1)[0][:, :3])
    rows = [[a, b, 5 - a - b] for a in range(6) for b in range(6 - a)]
    assert logsumexp(words.score_samples(rows)) == pytest.approx(0.0, abs=1e-9)


def test_chunks_do_not_matter(fitted: ScStream, monkeypatch: pytest.MonkeyPatch) -> None:
    X = blobs(1, n_rows=50, seed=9)[0]
    whole = fitted.predict(X), fitted.score_samples(X)
    monkeypatch.setattr("scstream.core.predictor._CHUNK", 7)
    assert np.array_equal(fitted.predict(X), whole[0])
    assert np.allclose(fitted.score_samples(X), whole[1], rtol=1e-12)


def test_no_rows_no_answers(fitted: ScStream) -> None:
    nothing = np.empty((0, 2))
    assert fitted.predict(nothing).shape == (0,)
    assert fitted.predict_proba(nothing).shape == (0, fitted.n_clusters_ + 1)
    assert fitted.score_samples(nothing).shape == (0,)


def test_later_questions_see_faded_clusters(fitted: ScStream) -> None:
    model = ScStream(motion=False, random_state=0).fit(blobs(1)[0])
    novelty = [model.predict_proba([[0.0, 0.0]], time=t)[0, -1] for t in (0, 30, 300)]
    assert novelty[0] < novelty[1] < novelty[2]
    early = fitted.predict_proba([[4.0, 4.0]], time=-50.0)
    assert np.array_equal(early, fitted.predict_proba([[4.0, 4.0]], time=fitted.state_.time))


def test_before_the_first_batch() -> None:
    model = ScStream()
    for ask in (model.predict, model.predict_proba, model.score_samples):
        with pytest.raises(NotFittedError):
            ask([[1.0]])
    assert not hasattr(model, "clusters_")
    assert not hasattr(model, "n_clusters_")
    with pytest.raises(NotFittedError):
        model.save("never.scstream")


# Time and weight


def test_weights_fade_with_time() -> None:
    model = ScStream(half_life=2.0, min_batch=1, random_state=0)
    times = [0.0, 1.0, 1.0, 4.5]
    for X, t in zip(blobs(4), times, strict=True):
        model.partial_fit(X, time=t)
    expected = sum(60 * 2 ** (-(4.5 - t) / 2.0) for t in times)
    assert model.state_.total_weight == pytest.approx(expected, rel=1e-12)


def test_without_times_a_thousand_rows_are_one_unit() -> None:
    model, last_seen = ScStream(random_state=0), []
    for n_rows in (60, 600, 1000, 3000, 0):
        model.partial_fit(blobs(1, n_rows=n_rows)[0])
        last_seen.append(model.model_.time)
    assert last_seen == pytest.approx([0.0, 0.6, 1.6, 2.6, 2.6])
    paper = ScStream(algorithm="paper", random_state=0)
    assert [paper.partial_fit(X).state_.time for X in blobs(3)] == [0.0, 1.0, 2.0]
    assert model.partial_fit(blobs(1)[0], time=7.5).partial_fit(blobs(1)[0]).model_.time == 7.56


@pytest.mark.parametrize(
    "time",
    [
        np.datetime64("2024-05-01T12:00:00"),
        np.datetime64("2024-05-01T12:00:00", "ns"),
        datetime(2024, 5, 1, 12),
        datetime(2024, 5, 1, 12, tzinfo=UTC),
    ],
)
def test_dates_count_in_seconds(time: Any) -> None:
    model = ScStream(random_state=0).partial_fit(blobs(1)[0], time=time)
    assert model.state_.time == datetime(2024, 5, 1, 12, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    "time", [np.nan, np.inf, "noon", [1.0, 2.0], np.datetime64("NaT"), None.__class__]
)
def test_a_wrong_time_gets_a_sentence(fitted: ScStream, time: Any) -> None:
    before = digest(vars(fitted))
    with pytest.raises(InputError, match=r"one finite number|names a column|one per row"):
        fitted.partial_fit(blobs(1)[0], time=time)
    with pytest.raises(InputError, match="one finite number"):
        fitted.predict(blobs(1)[0], time=time)
    assert digest(vars(fitted)) == before


def test_time_going_back_is_refused() -> None:
    model = ScStream(random_state=0).partial_fit(blobs(1)[0], time=5)
    with pytest.raises(TimeError, match="time 4 but the model has seen time 5"):
        model.partial_fit(blobs(1)[0], time=4)
    assert model.state_.time == 5.0


def test_late_rows_weigh_what_is_left_of_them() -> None:
    model = ScStream(half_life=2.0, late="add", random_state=0)
    first, second, third = blobs(3)
    model.partial_fit(first, time=10.0).partial_fit(second, time=6.0)
    assert model.state_.time == 10.0
    assert model.state_.total_weight == pytest.approx(60 + 60 / 4)
    model.partial_fit(third, time=12.0)
    assert model.state_.total_weight == pytest.approx(60 + 30 + 60 / 8)
    assert_sound(model)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (Box(length=2.0), 120.0),
        (lambda age: 1.0 / (1.0 + age), 60 * (1 + 1 / 2 + 1 / 3 + 1 / 4)),
        (Windowed(lambda age: 1.0 / (1.0 + age), capacity=2), 60 * (1 + 1 / 2 + 1 / 3)),
        (Exponential(2.0), 60 * sum(2 ** (-a / 2) for a in range(4))),
    ],
)
def test_other_kernels(kernel: Any, expected: float) -> None:
    model = ScStream(kernel=kernel, half_life=1.0, min_batch=1, random_state=0)
    for time, X in enumerate(blobs(4)):
        model.partial_fit(X, time=time)
    assert model.state_.total_weight == pytest.approx(expected)
    assert_sound(model)


def test_never_forgets() -> None:
    for half_life in (None, np.inf):
        model = ScStream(half_life=half_life, min_batch=1, random_state=0)
        for X in blobs(4):
            model.partial_fit(X)
        assert model.state_.total_weight == pytest.approx(240.0)


def test_an_empty_batch_lets_time_pass() -> None:
    model = ScStream(half_life=1.0, random_state=0)
    with pytest.raises(InputError, match="0 sample"):
        model.partial_fit(np.empty((0, 2)))
    model.partial_fit(blobs(1)[0]).partial_fit(np.empty((0, 2)), time=3.0)
    assert model.labels_.shape == (0,)
    assert model.state_.total_weight == pytest.approx(60 / 8)
    assert_sound(model)


def test_sample_weight_counts() -> None:
    first, second = blobs(2)
    weight = np.linspace(0.0, 3.0, 60)
    model = ScStream(half_life=None, random_state=0).partial_fit(first, sample_weight=weight)
    assert model.state_.total_weight == pytest.approx(weight.sum())
    model.partial_fit(second, sample_weight=2.0)
    assert model.state_.total_weight == pytest.approx(weight.sum() + 120)
    model.partial_fit(second, sample_weight=np.zeros(60))
    assert model.state_.total_weight == pytest.approx(weight.sum() + 120)
    assert_sound(model)


@pytest.mark.parametrize(
    ("weight", "sentence"),
    [
        (np.ones(59), "one weight per row"),
        (np.ones((60, 1)), "one weight per row"),
        (np.r_[np.ones(59), -1.0], "row 59"),
        (np.r_[np.nan, np.ones(59)], "row 0"),
        (np.full(60, np.inf), "finite"),
        (["heavy"] * 60, "numbers"),
    ],
)
def test_a_wrong_weight_gets_a_sentence(fitted: ScStream, weight: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        fitted.partial_fit(blobs(1)[0], sample_weight=weight)


def test_a_first_batch_needs_weight() -> None:
    with pytest.raises(InputError, match="weight zero"):
        ScStream().partial_fit(blobs(1)[0], sample_weight=np.zeros(60))


def test_entries_and_weights_of_a_batch_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []
    for module in (scstream.model, scstream.learning, estimator_input):
        for name in ("check_entries", "read_weight"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, counted(getattr(module, name), checked))
    model = ScStream(min_batch=1, random_state=0)
    for X in blobs(2):
        checked.clear()
        model.partial_fit(X, sample_weight=np.ones(len(X)))
        assert sorted(checked) == ["check_entries", "read_weight"]
    checked.clear()
    model.predict(blobs(1)[0])
    assert checked == ["check_entries"]


def counted(function: Any, calls: list[str]) -> Any:
    def call(*args: Any, **keywords: Any) -> Any:
        calls.append(function.__name__)
        return function(*args, **keywords)

    return call


# Odd batches

BAD_ROWS: list[tuple[Any, str]] = [
    ([[np.nan, 0.0]], "NaN at row 0, column 0"),
    ([[0.0, 0.0], [0.0, np.inf]], "inf.* at row 1, column 1"),
    ([[0.0, -np.inf]], "inf"),
    ([[1e200, 0.0]], "too large"),
    ([[0.0, 0.0, 0.0]], "3 features"),
    ([[0.0]], "1 features"),
    ([0.0, 1.0], "2D"),
    ([["a", "b"]], "convert"),
    ([[1 + 1j, 0.0]], "[Cc]omplex"),
]


@pytest.mark.parametrize(("X", "sentence"), BAD_ROWS)
def test_bad_rows_are_refused_and_leave_no_trace(X: Any, sentence: str) -> None:
    model = ScStream("gaussian", random_state=0).fit(blobs(1)[0])
    before = digest(vars(model))
    with pytest.raises(InputError, match=sentence):
        model.partial_fit(np.array(X) if "1j" in repr(X) else X)
    assert digest(vars(model)) == before
    with pytest.raises(InputError, match=sentence):
        model.predict(np.array(X) if "1j" in repr(X) else X)
    model.partial_fit(blobs(1)[0])
    assert_sound(model)


def test_a_refused_fit_leaves_the_old_model() -> None:
    model = ScStream("gaussian", random_state=0).fit(blobs(1)[0])
    before = digest(vars(model))
    with pytest.raises(InputError, match="NaN"):
        model.fit(np.full((5, 4), np.nan))
    assert digest(vars(model)) == before


@pytest.mark.parametrize(
    ("family", "X", "sentence"),
    [
        ("multinomial", [[1.0, -1.0]], "negative"),
        ("multinomial", [[1.0, np.nan]], "NaN"),
        ("poisson", [[1.0, -1.0]], "negative"),
        ("bernoulli", [[1.0, 0.5]], "0.5"),
        ("categorical", [[1.0, 0.5]], "codes"),
        ("categorical", [[1.0, -1.0]], "codes"),
    ],
)
def test_rows_outside_the_domain(family: str, X: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        ScStream(family, random_state=0).fit(X)
    model = ScStream(family, random_state=0).fit([[1.0, 0.0], [0.0, 1.0]] * 5)
    before = digest(vars(model))
    with pytest.raises(InputError, match=sentence):
        model.partial_fit(X)
    assert digest(vars(model)) == before


def test_negative_counts_in_sparse_rows() -> None:
    with pytest.raises(InputError, match="negative"):
        ScStream("multinomial").fit(sparse.csr_array([[1.0, -1.0]]))
    with pytest.raises(InputError, match="NaN at row 1, column 2"):
        ScStream("multinomial").fit(sparse.csr_array([[1.0, 0.0, 2.0], [0.0, 0.0, np.nan]]))
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        ScStream("gaussian").fit(sparse.csr_array([[1.0, 1.0]]))


ODD: dict[str, NDArray[np.float64]] = {
    "one row": np.array([[1.0, 2.0]]),
    "two equal rows": np.array([[1.0, 2.0]] * 2),
    "constant": np.full((30, 2), 5.0),
    "all zero": np.zeros((30, 2)),
    "one constant column": np.column_stack([np.arange(30.0), np.full(30, 5.0)]),
    "equal columns": np.repeat(np.arange(30.0)[:, None], 2, axis=1),
    "denormal": np.full((30, 2), 5e-324) * np.arange(60).reshape(30, 2),
    "huge": 1e99 * np.random.default_rng(0).normal(size=(30, 2)),
    "far from zero": 1e9 + np.random.default_rng(0).normal(size=(30, 2)),
    "unlike scales": np.random.default_rng(0).normal(size=(30, 2)) * [1e-20, 1e20],
    "an outlier": np.r_[np.random.default_rng(0).normal(size=(30, 2)), [[1e6, 1e6]]],
}


@pytest.mark.parametrize("algorithm", ["default", "paper"])
@pytest.mark.parametrize("family", ["gaussian", "diagonal"])
@pytest.mark.parametrize("name", ODD)
def test_odd_first_batches(name: str, family: str, algorithm: str) -> None:
    model = ScStream(family, algorithm=algorithm, random_state=0)
    for _ in range(3):
        model.partial_fit(ODD[name])
        assert_sound(model)
        assert model.n_clusters_ >= 1
    assert np.isfinite(model.predict_proba(ODD[name])).all()
    assert np.isfinite(model.score_samples(ODD[name])).all()
    assert np.isfinite(model.clusters_.mean).all()


@pytest.mark.parametrize("family", ["gaussian", "diagonal"])
@pytest.mark.parametrize("name", ODD)
def test_odd_later_batches(name: str, family: str) -> None:
    model = ScStream(family, random_state=0).fit(blobs(1)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        assert len(model.partial_fit(ODD[name]).labels_) == len(ODD[name])
        assert_sound(model.partial_fit(blobs(1)[0]))


@pytest.mark.parametrize("family", ["multinomial", "poisson", "bernoulli", "categorical"])
def test_odd_batches_of_whole_numbers(family: str) -> None:
    for X in (np.zeros((20, 3)), np.ones((20, 3)), np.eye(3), np.ones((1, 3))):
        model = ScStream(family, random_state=0).fit(X).partial_fit(np.zeros((1, 3)))
        assert_sound(model)
        assert np.isfinite(model.score_samples(X)).all()


def test_missing_entries_where_the_family_handles_them() -> None:
    rng = np.random.default_rng(0)
    for X in blobs(3):
        X[rng.random(X.shape) < 0.2] = np.nan
        X[0] = np.nan
        model = ScStream("diagonal", random_state=0).fit(X).partial_fit(X)
        assert_sound(model)
        assert np.isfinite(model.score_samples(X)).all()
    blank = np.column_stack([blobs(1)[0], np.full(60, np.nan)])
    assert_sound(ScStream("diagonal", random_state=0).fit(blank))


def test_random_odd_batches_never_break_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    values = np.array([0.0, 1.0, -1.0, 1e-300, 1e12, 1e99, 1e150, np.nan, np.inf, 3.7])
    monkeypatch.setattr(default, "_START_SWEEPS", 2)
    model = ScStream("diagonal", random_state=0)
    refused = 0
    for _ in range(150):
        X = rng.normal(size=(rng.integers(1, 12), 2)) * 10.0 ** rng.integers(-3, 4)
        spots = rng.random(X.shape) < 0.1
        X[spots] = rng.choice(values, size=int(spots.sum()))
        try:
            model.partial_fit(X, time=model.state_.time + rng.choice([0, 1, 1e3]))
        except InputError:
            refused += 1
        except AttributeError:
            model.partial_fit(blobs(1)[0])
        assert_sound(model)
    assert 0 < refused < 150


# Tables


def tables(X: NDArray[np.float64]) -> list[Any]:
    columns = {"height": X[:, 0], "width": X[:, 1]}
    out: list[Any] = [pytest.importorskip("pandas").DataFrame(columns)]
    out.append(pytest.importorskip("polars").DataFrame(columns))
    out.append(pytest.importorskip("pyarrow").table(columns))
    return out


def test_tables_equal_arrays_and_names_are_remembered() -> None:
    batches = blobs(2)
    plain = ScStream(random_state=0).fit(batches[0]).partial_fit(batches[1])
    for first, second in zip(*map(tables, batches), strict=True):
        model = ScStream(random_state=0).fit(first).partial_fit(second)
        assert digest(model.state_) == digest(plain.state_)
        assert model.feature_names_in_.tolist() == ["height", "width"]
        assert np.array_equal(model.predict(second), plain.predict(batches[1]))
        assert list(model.clusters_.to_dict())[-1] == "std_width"


def test_changed_columns_are_refused() -> None:
    for table in tables(blobs(1)[0]):
        model = ScStream(random_state=0).fit(table)
        renamed = (
            type(table)(dict(zip(["height", "depth"], blobs(1)[0].T, strict=True)))
            if ("pyarrow" not in type(table).__module__)
            else table.rename_columns(["height", "depth"])
        )
        with pytest.raises(InputError, match="depth"):
            model.partial_fit(renamed)
        with pytest.raises(InputError, match="depth"):
            model.predict(renamed)


def test_columns_that_are_no_numbers_get_a_sentence() -> None:
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for table in (
        pd.DataFrame({"size": [1.0, 2.0], "colour": ["red", "blue"]}),
        pd.DataFrame({"size": [1.0, 2.0], "colour": pd.Categorical(["red", "blue"])}),
        pd.DataFrame({"size": [1.0, 2.0], "colour": pd.to_datetime(["2024-01-01"] * 2)}),
        pl.DataFrame({"size": [1.0, 2.0], "colour": ["red", "blue"]}),
    ):
        with pytest.raises(InputError, match=r"column 'colour'.* numbers"):
            ScStream("gaussian").fit(table)
    with pytest.raises(InputError, match="lazy"):
        ScStream().fit(pl.DataFrame({"size": [1.0]}).lazy())


def test_nulls_are_missing_entries() -> None:
    pl = pytest.importorskip("polars")
    X = blobs(1)[0]
    X[3, 1] = np.nan
    table = pl.DataFrame({"a": X[:, 0], "b": [None if np.isnan(v) else v for v in X[:, 1]]})
    expected = ScStream("diagonal", random_state=0).fit(X)
    assert digest(ScStream("diagonal", random_state=0).fit(table).state_) == digest(expected.state_)
    assert digest(ScStream(random_state=0).fit(table).state_) == digest(expected.state_)
    with pytest.raises(InputError, match="NaN at row 3, column 1"):
        ScStream("gaussian").fit(table)


# Reports and copies


def test_the_table_of_clusters(fitted: ScStream) -> None:
    table = fitted.clusters_
    assert len(table) == len(list(table)) == 3
    assert table.id.tolist() == fitted.state_.ids.tolist()
    assert table.share.sum() == pytest.approx(
        table.weight.sum() / fitted.state_.total_weight, rel=1e-12
    )
    assert np.array_equal(table.age, fitted.state_.time - table.born)
    lines = repr(table).splitlines()
    assert lines[0].split()[:3] == ["id", "weight", "share"]
    assert len(lines) == 4
    assert table._repr_html_().count("<tr>") == 4
    row = next(iter(table))
    assert (row.id, row.mean.shape) == (int(table.id[0]), (2,))
    for library in ("pandas", "polars"):
        frame = pytest.importorskip(library).DataFrame(table.to_dict())
        assert frame.shape == (3, 10)
    assert pytest.importorskip("pyarrow").table(table.to_dict()).num_rows == 3


def test_a_long_table_is_cut() -> None:
    X = np.repeat(np.arange(40.0) * 1000, 8)[:, None] + np.random.default_rng(0).normal(
        size=(320, 1)
    )
    model = ScStream(random_state=0, prior={"psi": 1.0, "kappa": 1e-8}).fit(X)
    assert model.n_clusters_ > 30
    assert repr(model.clusters_).endswith(f"and {model.n_clusters_ - 30} more")
    assert "more</p>" in model.clusters_._repr_html_()


def test_pickle_goes_on_where_it_stopped() -> None:
    batches = blobs(4)
    model = ScStream(random_state=0).fit(batches[0]).partial_fit(batches[1])
    copy = pickle.loads(pickle.dumps(model))
    for X in batches[2:]:
        model.partial_fit(X)
        copy.partial_fit(X)
    assert digest(vars(model)) == digest(vars(copy))


def test_in_a_pipeline() -> None:
    X = blobs(1)[0]
    pipe = make_pipeline(StandardScaler(), ScStream(random_state=0))
    assert len(set(pipe.fit_predict(X)) - {-1}) == 3
    assert pipe.predict(X).shape == (60,)
    assert pipe.score_samples(X).shape == (60,)


def test_poisson_family_by_instance() -> None:
    rng = np.random.default_rng(0)
    X = rng.poisson(np.where(rng.random((100, 1)) < 0.5, 2.0, 40.0), size=(100, 2))
    model = ScStream(Poisson(shape=np.ones(2), rate=np.full(2, 0.05)), random_state=0).fit(X)
    assert model.n_clusters_ == 2


def test_columns_that_were_constant_at_first_may_vary_later():
    rng = np.random.default_rng(0)
    centre = rng.normal(0, 5, (4, 6))
    first = centre[rng.integers(0, 4, 300)] + rng.normal(size=(300, 6))
    first[:, 2:4] = [0.0, 7.0]
    later = first.copy()
    later[:, 2:4] += 1000.0 * rng.normal(size=(300, 2))
    model = ScStream(random_state=0).partial_fit(first).partial_fit(later)
    assert np.isfinite(model.score_samples(later)).all()


def test_a_model_behind_steps_says_so(tmp_path):
    from scstream.stream.config import build

    (tmp_path / "rows.csv").write_text("x,y\n" + "".join(f"{i % 7},{i % 3}\n" for i in range(60)))
    settings = {
        "source": {"kind": "file", "path": str(tmp_path / "rows.csv")},
        "checkpoint": {"folder": str(tmp_path / "state")},
    }
    build({**settings, "steps": [{"step": "standardise"}]}).run()
    newest = max((tmp_path / "state").glob("version-*"))
    with pytest.warns(UserWarning, match=r"had preprocessed \(standardise\)"):
        ScStream.load(newest)
