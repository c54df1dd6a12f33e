"""The harness of densities and anomaly scores, on streams whose answer is known."""

import numpy as np
import pytest

pytest.importorskip("pandas")

from benchmarks.density import anomalies, cli, densities, detectors, files, flights, nabscore, page
from benchmarks.density.files import Series
from benchmarks.paper.files import Missing


def clock(n_days=4, per_hour=40, seed=0):
    """Rows at random minutes: a Gaussian in all three columns."""
    rng = np.random.default_rng(seed)
    minute = np.sort(rng.integers(0, n_days * flights.DAY, n_days * 24 * per_hour))
    return minute, rng.multivariate_normal([5.0, -2.0, 0.0], np.diag([4.0, 1.0, 9.0]), len(minute))


def corpus():
    """Two series, one with windows, and one without."""
    rng = np.random.default_rng(0)
    windows = [(400, 449), (700, 760)]
    values = rng.standard_normal(1000)
    for first, last in windows:
        values[first : last + 1] += 8.0
    return [Series("jumps", values, windows), Series("calm", rng.standard_normal(800), [])]


@pytest.mark.parametrize(
    "model",
    [
        densities.Ours(timed=True, half_life=flights.WEEK),
        densities.Windowed(densities.gaussian_mixture(1), batches=7, minutes=np.inf),
        densities.Windowed(densities.OneGaussian, batches=np.inf, minutes=flights.DAY),
        densities.RiverGaussian(),
    ],
    ids=["ours", "mixture", "gaussian", "river"],
)
def test_density_of_a_gaussian_stream_is_its_entropy(model):
    stream = flights.Flights.of(*clock(), warm_days=1)
    course = flights.follow(model, stream.batches(360), warm=stream.warm)
    entropy = 1.5 * np.log(2 * np.pi * np.e)
    scale = np.log(clock()[1][: len(clock()[1]) // 4].std(axis=0) / [2.0, 1.0, 3.0]).sum()
    assert course["rows"].sum() == np.count_nonzero(stream.minute >= flights.DAY)
    mean = np.average(course["log_density"], weights=course["rows"])
    assert mean == pytest.approx(-entropy + scale, abs=0.1)


def test_batches_are_slots_of_the_clock():
    stream = flights.Flights.of(*clock(), warm_days=1)
    batches = list(stream.batches(360))
    assert len(batches) == 16
    assert [batch.time for batch in batches] == [360.0 * (i + 1) for i in range(16)]
    np.testing.assert_array_equal(np.concatenate([b.rows for b in batches]), stream.rows)


def test_flights_are_scaled_by_the_part_that_is_not_scored():
    minute, rows = clock()
    late = rows.copy()
    late[minute >= flights.DAY] += 100.0
    first = minute < flights.DAY
    scaled = [flights.Flights.of(minute, x, warm_days=1).rows[first] for x in (rows, late)]
    np.testing.assert_array_equal(*scaled)
    np.testing.assert_allclose(scaled[0].mean(axis=0), 0.0, atol=1e-12)


def test_a_slow_method_is_stopped_and_compared_on_what_it_reached():
    stream = flights.Flights.of(*clock(), warm_days=1)
    course = flights.follow(densities.RiverGaussian(), stream.batches(60), warm=0, limit=0.05)
    assert 0 < len(course) < 96
    ours = flights.follow(densities.Ours(timed=False), stream.batches(60), warm=60)
    found = flights.summed(course[1:], ours)
    assert found["n_batches"] == len(course) - 1
    assert np.isfinite(found["ours_above"])


def test_a_window_forgets():
    model = densities.Windowed(densities.OneGaussian, batches=2, minutes=np.inf)
    for time, place in enumerate((100.0, 0.0, 0.0)):
        model.learn(np.random.default_rng(time).standard_normal((50, 2)) + place, time)
    assert model.log_density(np.zeros((1, 2)), 3.0)[0] == pytest.approx(-np.log(2 * np.pi), abs=0.5)


def test_a_perfect_detector_scores_100_and_a_silent_one_0():
    series = corpus()
    perfect = [np.zeros(len(one.values)) for one in series]
    for first, _ in series[0].windows:
        perfect[0][first] = 1.0
    found = nabscore.corpus_score(series, perfect)
    assert found.score == pytest.approx(100.0)
    assert found.threshold == 1.0
    silent = nabscore.corpus_score(series, [np.zeros(len(one.values)) for one in series])
    assert silent.score == 0.0
    assert silent.threshold == np.inf


def test_a_late_detection_is_worth_less_and_a_false_one_costs():
    series = corpus()
    first, last = series[0].windows[0]

    def score(*rows):
        marks = [np.zeros(len(one.values)) for one in series]
        for row in rows:
            marks[0][row] = 1.0
        return nabscore.corpus_score(series, marks).score

    assert score(first) == score(first, last) > score(first + 25) > score(last) > 0
    assert score(first) == pytest.approx(50.0)
    far, near = 699, last + 1
    assert score(first, near) > score(first, far)
    assert score(first) - score(first, far) == pytest.approx(100 * nabscore.FALSE / 4)
    assert score(first, 10) == score(first)  # the first rows are not scored


def test_worth_is_the_published_sigmoid():
    value, inside = nabscore.worth(1000, [(400, 449)])
    assert value[400] == pytest.approx(1.0)
    assert value[425] == pytest.approx((2 / (1 + np.exp(-2.5)) - 1) / (2 / (1 + np.exp(-5)) - 1))
    assert value[399] == value[999] == -0.11
    assert value[449 + 49] == pytest.approx(0.11 * (2 / (1 + np.exp(5)) - 1))
    assert (np.flatnonzero(inside == 0) == np.arange(400, 450)).all()


def test_rows_are_scaled_by_the_probationary_part_alone():
    values = np.random.default_rng(1).standard_normal(1000)
    given = nabscore.probation(1000)
    later = values.copy()
    later[given:] += 1000.0
    rows = anomalies.rows_of(values)
    np.testing.assert_array_equal(rows[:given], anomalies.rows_of(later)[:given])
    np.testing.assert_allclose(rows[:given].std(axis=0), 1.0)
    assert np.isfinite(anomalies.rows_of(np.zeros(500))).all()


def test_a_calibrated_score_looks_only_back():
    scores = np.random.default_rng(2).standard_normal(500)
    later = scores.copy()
    later[300:] += 9.0
    ours, other = (anomalies.calibrated(x, 100) for x in (scores, later))
    np.testing.assert_array_equal(ours[:300], other[:300])
    assert (ours[:120] == 0).all()


@pytest.mark.parametrize("entry", detectors.ENTRIES, ids=lambda entry: entry.name)
def test_every_detector_sees_a_jump(entry):
    series = corpus()[0]
    given = nabscore.probation(1000)
    scores = entry.scores(anomalies.rows_of(series.values), series.values, given)
    assert scores.shape == (1000,)
    assert np.isfinite(scores).all()
    assert scores[400] > np.quantile(scores[given:400], 0.98)
    found = anomalies.separation(series, scores)
    assert found["share"] == pytest.approx(111 / 850)
    assert found["auc"] > 0.6


def test_the_command_runs_and_writes_the_page(tmp_path, monkeypatch, capsys):
    names = ["realTraffic/jumps", "realTraffic/calm"]
    series = [one._replace(name=name) for one, name in zip(corpus(), names, strict=True)]
    monkeypatch.setattr(files, "nab", lambda: series)
    monkeypatch.setattr(anomalies, "SHOWN", names[:1])
    monkeypatch.setattr(files, "flights", lambda: clock(n_days=3, per_hour=10))
    monkeypatch.setattr(densities, "by_bic", lambda X: 2)
    slow = ("IsolationForest", "BayesianGaussianMixture", "GaussianMixture, last 1", "river")
    for module in (flights, detectors):
        quick = tuple(entry for entry in module.ENTRIES if not entry.name.startswith(slow))
        monkeypatch.setattr(module, "ENTRIES", quick)
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    monkeypatch.setattr(page, "EVIDENCE", tmp_path)
    tables = {part: cli.measure(part, quick=True) for part in ("flights", "nab")}
    monkeypatch.setattr(cli, "measure", lambda part, quick: tables[part])
    cli.main(["--quick"])
    assert "scstream, nothing set" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
    cli.main([])
    assert "scstream, nothing set" in (tmp_path / "density.md").read_text()
    for figure in ("flights", "nab"):
        assert (tmp_path / f"density-{figure}.png").stat().st_size > 0


def test_our_score_of_nabs_own_detector_is_the_published_one():
    try:
        series = files.nab()
    except Missing as missing:
        pytest.skip(str(missing))
    none = np.zeros((0, 3))
    scores = [detectors.tail_probability(none, one.values, 0) for one in series]
    assert nabscore.corpus_score(series, scores).score == pytest.approx(39.65, abs=0.01)
