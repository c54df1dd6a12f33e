"""The harness of the speed benchmark: that it runs and counts right, not how fast anything is."""

import json
import threading

import numpy as np
import pytest

from benchmarks.paper.files import stored
from benchmarks.speed import alone, engines, scaling
from benchmarks.speed.__main__ import PARTS, main
from benchmarks.speed.page import page
from benchmarks.speed.timing import Budget, by_turns, judged, ratio
from benchmarks.speed.workloads import Workload


@pytest.mark.parametrize("part", PARTS)
def test_every_part_runs(part, capsys):
    main(["--quick", "--json", "--part", part])
    found = json.loads(capsys.readouterr().out)
    rows = found[part]["rows"]
    assert rows
    for row in rows:
        assert {"case", "figure", "verdict"} <= row.keys()
        assert np.isfinite(row["value"]), row
        assert row["verdict"] != "cut off", row
    assert found[part]["machine"]["kernels"] in page(found)


def test_a_ratio_is_that_of_the_work():
    def work(n):
        return lambda: sum(range(n))

    times = by_turns({"long": work(40_000), "short": work(10_000)}, Budget(0.2, 5))
    row = judged(ratio(times, "long", "short"), bar=8.0)
    assert 2.5 < row["minima"] < 6.0
    assert row["verdict"] == "ok"
    assert judged(row, bar=8.0, at_least=True)["verdict"] == "missed"


def test_work_on_other_threads_is_not_overlooked():
    def elsewhere():
        thread = threading.Thread(target=lambda: sum(range(1_000_000)))
        thread.start()
        thread.join()

    with pytest.raises(RuntimeError, match="other threads"):
        by_turns({"elsewhere": elsewhere}, Budget(0.1, 2))


def test_a_matrix_product_in_blocks_leaves_nothing_out(monkeypatch):
    shapes = []

    def multiply(a, b, out):
        shapes.append((a.shape[0], a.shape[1], b.shape[1]))
        assert out.shape == (a.shape[0], b.shape[1])

    monkeypatch.setattr(engines, "_BLOCK", 64)
    task = engines.gemm(50, 3, 20, "float32")
    monkeypatch.setattr(np, "matmul", multiply)
    task()
    assert len(shapes) > 1
    assert sum(np.prod(shape) for shape in shapes) == 50 * 3 * 20


@pytest.mark.parametrize("kind", ["gaussian", "dense", "sparse"])
def test_a_model_in_the_middle_of_a_stream(kind):
    work = Workload(1000, 10, 5, kind, n_batches=20)
    weight = work.state.weight
    learner = engines.Learner(work.model(), work)
    learner()
    assert learner.steady
    assert learner.n_clusters == 5
    assert learner.model.state_.weight.sum() == pytest.approx(weight.sum(), rel=0.1)
    assert alone.state_bytes(work.state) > work.state.subclusters.nbytes


@pytest.mark.parametrize("kind", ["direction", "subspace"])
def test_unit_rows_keep_their_clusters(kind):
    work = Workload(300, 100, 5, kind, n_batches=31)
    learner = engines.Learner(work.model(), work)
    learner()
    assert learner.n_clusters == 5


def test_a_reader_uses_the_newest_model():
    work = Workload(200, 2, 3, n_batches=4)
    learner = engines.Learner(work.model(), work)
    seen = []
    learner.model.predict = lambda rows: seen.append(learner.model.model_)
    tasks = {"fit": learner, "predict": engines.Reader(learner, work)}
    by_turns(tasks, Budget(0.0, 5), after={"predict": "fit"})
    timed = seen[-5:]
    assert len({id(model) for model in timed}) == 5


def test_a_missing_file_is_named(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("SCSTREAM_DATA", str(tmp_path))
    stored.cache_clear()
    main(["--json", "--part", "words", "--case", "news-t"])
    (row,) = json.loads(capsys.readouterr().out)["words"]["rows"]
    stored.cache_clear()
    assert row["verdict"] == "skipped"
    assert "mstream_News-T.jsonl.gz" in row["note"]


def test_speed_is_compared_with_that_before(monkeypatch):
    old = {"case": "many", "figure": "partial_fit", "value": 3.0, "point": {"product": 40.0}}
    monkeypatch.setattr(scaling, "before", lambda: {"commit": "abc", "rows": [old]})
    (row,) = scaling.faster_row("many", {"k": 10_000, "product": 4.0})
    assert (row["value"], row["verdict"]) == (10.0, "ok")
    (row,) = scaling.faster_row("many", {"k": 10_000, "product": 8.0})
    assert row["verdict"] == "missed"


def test_plots_are_drawn(tmp_path):
    times = {"seconds": 1e-3, "engine_seconds": 1e-4}
    points = [{"point": {"k": k, "state": 100 * k}} | times for k in (1, 9)]
    scaling.plot(points, tmp_path / "k.png")
    assert (tmp_path / "k.png").stat().st_size > 0
