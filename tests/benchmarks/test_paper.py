"""The harness of the comparison: its tuning, its scores, its results, and that it goes on."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from scstream import datasets
from scstream.metrics import prequential

pytest.importorskip("optuna")
pytest.importorskip("pyarrow")
pytest.importorskip("fcntl")

from benchmarks.paper import cache, cli, environments, files, run, store
from benchmarks.paper.job import Effort, Job, work
from benchmarks.paper.knobs import Choice, Real, Whole
from benchmarks.paper.method import METHODS, Method
from benchmarks.paper.methods import ours
from benchmarks.paper.sets import SETS
from benchmarks.paper.tune import FAILED, Judgement, tune


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SCSTREAM_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def quick_job(own_cache):
    dataset = SETS["gauss2d-quick"]
    return Job(dataset, cache.stored(dataset), METHODS["scstream"], seed=0)


def child(code):
    """A worker that runs this code instead."""

    def launch(environment, log):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log}
        return subprocess.Popen([sys.executable, "-c", code], text=True, **pipes)

    return launch


class TestTuning:
    METHOD = Method(
        "toy",
        package="toy",
        module="toy",
        factory="toy",
        space=(
            Real("a", 2.0, 0.1, 10.0),
            Whole("b", 3, 1, 9),
            Choice("c", "x", ("x", "y"), kinds=frozenset({"counts"})),
        ),
        defaults={"given": 7},
    )

    def test_the_first_trial_is_the_default_and_the_best_wins(self):
        found = tune(
            self.METHOD,
            "real",
            lambda params, limit: Judgement(-abs(params["a"] - 9.0), 1.0),
            n_trials=12,
            limit=1e3,
            seed=0,
        )
        assert found.trials[0][0] == {"given": 7, "a": 2.0, "b": 3}
        assert (len(found.trials), found.seconds) == (12, 12.0)
        assert found.params == max(found.trials, key=lambda trial: trial[1])[0]
        assert abs(found.params["a"] - 9.0) < 7.0

    def test_of_equals_the_default_wins_and_failures_never_do(self):
        for ari in (0.5, FAILED):
            found = tune(
                self.METHOD,
                "counts",
                lambda params, limit, ari=ari: Judgement(ari, 0.0),
                n_trials=5,
                limit=1.0,
                seed=0,
            )
            assert found.params == self.METHOD.untuned("counts")

    def test_a_hint_comes_second_for_a_method_that_has_its_knobs(self):
        for hint, second in (({"a": 5.0}, 5.0), ({"a": 5.0, "other": 1.0}, None)):
            found = tune(
                self.METHOD,
                "real",
                lambda params, limit: Judgement(0.0, 0.0),
                n_trials=2,
                limit=1.0,
                seed=0,
                hint=hint,
            )
            assert (found.trials[1][0]["a"] == 5.0) is (second is not None)

    def test_seconds_end_it(self):
        limits = []

        def judge(params, limit):
            limits.append(limit)
            return Judgement(0.0, 4.0)

        tune(self.METHOD, "real", judge, n_trials=12, limit=10.0, seed=0)
        assert limits == [10.0, 6.0, 2.0]


class TestStore:
    def row(self, **changes):
        blank = dict.fromkeys(store.FIELDS, 0.5)
        text = dict.fromkeys(("group", "kind", "version", "machine", "python", "error"), "text")
        whole = dict.fromkeys(("batches", "reached", "rows", "labels_used"), 3)
        key = {"set": "s", "method": "m, n", "mode": "default", "seed": 0}
        more = {"given_k": True, "params": {"a": 1.5}, "oracle_ari": float("nan")}
        return blank | text | whole | key | more | changes

    def columns(self, n):
        names = ("ari", "nmi", "purity", "f", "k", "k_true", "oracle_ari", "seconds")
        return {"batch": np.arange(1, n + 1)} | {name: np.full(n, 0.25) for name in names}

    def test_what_is_read_is_what_was_written(self, tmp_path):
        store.add(self.row(), self.columns(2), tmp_path)
        store.add(self.row(mode="tuned"), self.columns(3), tmp_path)
        first, second = store.runs(tmp_path)
        assert np.isnan(first.pop("oracle_ari"))
        assert first == {k: v for k, v in self.row().items() if k != "oracle_ari"}
        assert second["mode"] == "tuned"
        assert store.series(tmp_path).num_rows == 5
        assert store.series(tmp_path)["ari"].to_pylist() == [0.25] * 5

    def test_a_run_that_was_forgotten_replaces_its_batches(self, tmp_path):
        for n in (2, 4):
            store.add(self.row(), self.columns(n), tmp_path)
            store.add(self.row(method="other"), self.columns(1), tmp_path)
            assert store.series(tmp_path).num_rows == n + 1
            assert len(store.runs(tmp_path)) == 2
            store.forget({store.key(self.row())}, tmp_path)
            assert [r["method"] for r in store.runs(tmp_path)] == ["other"]
            store.forget({store.key(self.row(method="other"))}, tmp_path)

    def test_only_what_is_missing_is_run(self, quick_job):
        sets, methods = [(quick_job.dataset, quick_job.stored)], [quick_job.method]
        done = {("gauss2d-quick", "scstream", "default", 0)}
        jobs = cli.open_jobs(sets, methods, range(2), done)
        assert [(job.seed, job.modes) for job in jobs] == [
            (0, ("tuned",)),
            (1, ("default", "tuned")),
        ]
        done |= {("gauss2d-quick", "scstream", "tuned", 0)}
        assert cli.open_jobs(sets, methods, range(1), done) == []


class TestRuns:
    def saved(self, job, effort):
        rows, columns = [], []
        work([job], effort, lambda row, series: (rows.append(row), columns.append(series)))
        return rows, columns

    def test_scores_are_those_of_the_prequential_loop(self, quick_job):
        (row,), (columns,) = self.saved(replace(quick_job, modes=("default",)), Effort(1, 60.0))
        batch_size = quick_job.stored.batch
        stream = datasets.drifting_gaussians(8, 2, batch_size=batch_size, random_state=1).take(20)
        model = ours.default(n_features=2, k=8, kind="real", seed=0, **row["params"])
        expected = prequential(Learner(model), stream)
        for name in ("ari", "nmi", "purity", "f"):
            np.testing.assert_array_equal(columns[name], expected.scores[name])
        np.testing.assert_array_equal(columns["k"], expected.k)
        summary = expected.summary()
        assert row["full_nmi"] == summary["full_nmi"]
        assert row["fraction_of_oracle"] == summary["fraction_of_oracle"]
        assert (row["batches"], row["reached"], row["rows"], row["error"]) == (20, 20, 5000, "")
        assert row["cpu_seconds"] > 0.0
        assert set(store.FIELDS) == set(row)

    @pytest.mark.parametrize("when", ["at once", "later"])
    def test_a_worker_that_dies_is_a_row_with_an_error(self, quick_job, monkeypatch, when):
        wait = "sys.stdin.readline();" if when == "later" else ""
        code = f"import sys; {wait} print('out of memory', file=sys.stderr); sys.exit(3)"
        monkeypatch.setattr(environments, "launch", child(code))
        rows, columns = self.saved(quick_job, Effort(3, 5.0))
        assert [row["mode"] for row in rows] == ["default", "tuned"]
        for row, series in zip(rows, columns, strict=True):
            assert "out of memory" in row["error"]
            assert np.isnan(row["ari"])
            assert row["reached"] == len(series["ari"]) == 0

    def test_a_worker_that_is_silent_is_not_waited_for(self, monkeypatch):
        monkeypatch.setattr(environments, "launch", child("import time; time.sleep(60)"))
        with run.worker("") as at, pytest.raises(run.Died, match="no answer"):
            at.ask({}, patience=0.2)

    def test_nothing_is_a_result_once_all_is_stopped(self, quick_job, monkeypatch):
        monkeypatch.setattr(run, "WORKERS", run.Workers())
        run.WORKERS.stop()
        with pytest.raises(run.Stopped):
            self.saved(quick_job, Effort(1, 5.0))


class TestCommand:
    def test_a_missing_file_is_told_in_a_sentence(self, own_cache, monkeypatch, capsys):
        monkeypatch.setenv("SCSTREAM_DATA", str(own_cache))
        files.stored.cache_clear()
        assert list(cli.at_hand([SETS["outdoor"]])) == []
        assert "set SCSTREAM_DATA" in capsys.readouterr().err
        files.stored.cache_clear()

    def test_the_long_set_runs_only_if_it_is_named(self):
        def names(*parts, quick=False):
            return [each.name for each in cli.chosen_sets(list(parts), quick=quick)]

        assert "gauss2d-1e7" not in names("")
        assert names("gauss2d-1e7") == ["gauss2d-1e7"]
        assert names("gauss2d") == ["gauss2d"]
        assert len(names("20news")) == 6
        assert set(names("", quick=True)) == {"gauss2d-quick", "counts-quick", "outdoor"}

    def test_the_quick_run_needs_no_other_environment(self):
        methods = cli.chosen_methods([""], quick=True)
        assert methods
        assert {method.environment for method in methods} == {""}

    def test_a_table_shows_failures_last(self):
        figures = dict.fromkeys((*cli._SHOWN, "rows_per_second"), 0.5)
        shared = {"set": "s", "mode": "default", "reached": 1, "batches": 2} | figures
        failed = shared | {"method": "bad", "ari": float("nan"), "error": "it died"}
        page = cli.table([failed, shared | {"method": "good", "error": ""}])
        assert page.index("good") < page.index("bad")
        assert "it died" in page


class Learner:
    """An adapter as the prequential loop wants it."""

    def __init__(self, model):
        self.model = model

    def predict(self, X):
        return self.model.predict(X)

    def partial_fit(self, X):
        self.model.learn(X)

    @property
    def n_clusters_(self):
        return self.model.n_clusters
