"""The pages of evidence: ranks, fronts and verdicts by hand-made examples, and that pages build."""

import json

import numpy as np
import pandas as pd
import pytest

from benchmarks.paper import bars, page, store, tables
from benchmarks.paper.figures import experiments
from benchmarks.paper.figures.lineage import lineage
from benchmarks.paper.own import DRAWN, SAMPLED, SETTLED, run_own
from benchmarks.paper.standings import (
    OURS,
    PAPER,
    Results,
    enough,
    front,
    in_mode,
    mean_ranks,
    on_front,
    over_same_batches,
)

KMEANS = "scikit-learn MiniBatchKMeans"


def lines(*rows):
    columns = ["set", "unit", "method", "ari"]
    return pd.DataFrame(rows, columns=columns)


def test_equal_scores_share_their_ranks():
    found = mean_ranks(
        lines(("s", "s", "a", 0.5), ("s", "s", "b", 0.5), ("s", "s", "c", 0.1)), "ari"
    )
    assert found["rank"].to_dict() == {"a": 1.5, "b": 1.5, "c": 3.0}


def test_a_method_that_did_not_run_is_left_out_of_the_set():
    found = mean_ranks(
        lines(
            ("s", "s", "a", 0.9),
            ("s", "s", "b", 0.5),
            ("s", "s", "c", 0.1),
            ("t", "t", "a", np.nan),
            ("t", "t", "b", 0.2),
            ("t", "t", "c", 0.3),
        ),
        "ari",
    )
    assert found["rank"].to_dict() == {"a": 1.0, "b": 2.0, "c": 2.0}
    assert found["units"].to_dict() == {"a": 1, "b": 2, "c": 2}
    assert set(enough(found, 3).index) == {"b", "c"}
    assert set(enough(found, 2).index) == {"a", "b", "c"}


def test_the_sets_of_a_group_count_once():
    found = mean_ranks(
        lines(
            ("g1", "g", "a", 0.1),
            ("g1", "g", "b", 0.9),
            ("g2", "g", "a", 0.1),
            ("g2", "g", "b", 0.9),
            ("g3", "g", "a", 0.9),
            ("g3", "g", "b", 0.1),
            ("s", "s", "a", 0.9),
            ("s", "s", "b", 0.1),
        ),
        "ari",
    )
    assert found.loc["a", "rank"] == pytest.approx((5 / 3 + 1) / 2)
    assert found.loc["b", "rank"] == pytest.approx((4 / 3 + 2) / 2)
    assert list(found.index) == ["a", "b"]


def test_who_is_on_the_front():
    cost = [1.0, 2.0, 2.0, 3.0, 3.0, np.nan]
    gain = [0.1, 0.5, 0.4, 0.5, 0.6, 0.9]
    assert on_front(cost, gain).tolist() == [True, True, False, False, True, False]
    assert on_front([1.0, 1.0], [0.5, 0.5]).tolist() == [True, True]


def test_a_method_without_knobs_counts_as_tuned():
    some = pd.DataFrame(
        [("s", "a", "default"), ("s", "a", "tuned"), ("s", "b", "default")],
        columns=["set", "method", "mode"],
    )
    tuned = in_mode(some, "tuned")
    assert sorted(zip(tuned["method"], tuned["mode"], strict=True)) == [
        ("a", "tuned"),
        ("b", "default"),
    ]
    assert len(in_mode(some, "default")) == 2


@pytest.mark.parametrize(
    ("conditions", "word"),
    [
        ((True, True), "reached"),
        ((True, False), "missed"),
        ((True, None), "not measured"),
    ],
)
def test_one_word_for_several_conditions(conditions, word):
    assert bars.judge(*conditions) == word


def test_a_bar_is_reached_as_printed():
    assert bars.at_least(0.1496, 0.15)
    assert not bars.at_least(0.1494, 0.15)
    assert bars.at_least(float("nan"), 0.15) is None


def run(folder, name, method, scores, *, mode="tuned", group="", n_batches=4, speed=1e4, **more):
    """Store a run whose batches have these scores."""
    scores = np.asarray(scores, dtype=float)
    mean = float(scores.mean()) if len(scores) else float("nan")
    figures = dict.fromkeys(("ari", "nmi", "purity", "f", "full_nmi"), mean)
    row = dict.fromkeys(store.FIELDS, "") | figures
    row |= {
        "set": name,
        "group": group,
        "kind": "real",
        "method": method,
        "given_k": method == KMEANS,
        "mode": mode,
        "seed": 0,
        "batches": n_batches,
        "reached": len(scores) + 1,
        "rows": 1000 * len(scores),
        "oracle_ari": 0.9,
        "fraction_of_oracle": mean / 0.9,
        "k_mean": 5.0,
        "k_true_mean": 5.0,
        "labels_used": 7,
        "cpu_seconds": 1.0,
        "rows_per_second": speed,
        "tune_seconds": 1.0,
        "params": {},
        "version": "x 1",
    } | more
    n = len(scores)
    series = dict.fromkeys(("ari", "nmi", "purity", "f"), scores) | {
        "batch": np.arange(1, n + 1),
        "k": np.full(n, 5.0),
        "k_true": np.full(n, 5.0),
        "oracle_ari": np.full(n, 0.9),
        "seconds": np.full(n, 0.1),
    }
    store.add(row, series, folder)


@pytest.fixture
def folder(tmp_path):
    """Three sets, two of them a group; k-means is stopped early on one and fails on another."""
    for name, group in (("gauss2d", ""), ("20news-all-bydate", "20news")):
        run(tmp_path, name, OURS, [0.5, 0.7, 0.9], group=group, speed=2e4)
        run(tmp_path, name, OURS, [0.4, 0.6, 0.8], group=group, mode="default", speed=3e4)
        run(tmp_path, name, PAPER, [0.2, 0.3, 0.4], group=group)
    run(tmp_path, "gauss2d", KMEANS, [0.6], mode="default", speed=1e5)
    run(tmp_path, "20news-all-bydate", KMEANS, [0.1, 0.2, 0.3], mode="default", group="20news")
    run(tmp_path, "20news-nostop-bydate", OURS, [0.3, 0.3, 0.3], group="20news")
    run(
        tmp_path,
        "20news-nostop-bydate",
        KMEANS,
        [],
        group="20news",
        error="It broke.",
        k_mean=float("nan"),
    )
    return tmp_path


def test_a_peer_that_stopped_early_is_met_on_its_own_batches(folder):
    results = Results.read(folder)
    pair = [(OURS, "tuned"), (KMEANS, "default")]
    assert over_same_batches(results, "gauss2d", "ari", pair) == pytest.approx([0.5, 0.6])
    verdict = bars.above_peers(results, "gauss2d", "ari")
    assert verdict.verdict == "missed"
    assert verdict.measured == f"0.500; {KMEANS} 0.600"
    assert bars.above_peers(results, "20news-all-bydate", "ari").verdict == "reached"
    assert bars.above_peers(results, "20news-nostop-bydate", "ari").verdict == "not measured"


def test_verdicts_are_those_of_the_results(folder):
    found = {v.claim: v for v in bars.verdicts(Results.read(folder))}
    assert found["CoverType, tuned"].verdict == "not measured"
    assert found["mean rank by ARI among methods that infer K"].verdict == "reached"
    assert found["20 Newsgroups, all words, by date, tuned"].verdict == "reached"
    assert found["20 Newsgroups, no stop words, by date, tuned"].verdict == "missed"
    (untuned,) = (v for claim, v in found.items() if claim.startswith("sets on which"))
    assert untuned.verdict == "missed"
    assert untuned.measured.startswith("0%")
    (pareto,) = (v for claim, v in found.items() if "Pareto" in claim)
    assert pareto.measured == "on the front of 3 of 3 sets"


def test_the_verdict_on_the_video_is_that_of_its_figures(tmp_path):
    path = tmp_path / "video.json"
    assert bars.video(path).verdict == "not measured"
    runs = [{"method": OURS, "frames_per_second": rate, "chosen_here": 0.7} for rate in (4.0, 7.0)]
    runs.append({"method": "k-means", "frames_per_second": 1.0, "chosen_here": 0.1})
    path.write_text(json.dumps({"runs": runs}))
    assert bars.video(path)[2:] == ("5.5; IoU of the surfer 0.70", "reached")


def test_the_best_of_all_and_of_those_that_infer_are_bold(folder):
    run(folder, "outdoor", KMEANS, [0.9, 0.9, 0.9])
    run(folder, "outdoor", OURS, [0.8, 0.8, 0.8])
    run(folder, "outdoor", PAPER, [0.7, 0.7, 0.7])
    table = "\n".join(tables.metric_table(Results.read(folder), "outdoor"))
    assert "**0.900**" in table
    assert "**0.800**" in table
    assert "**0.700**" not in table
    assert list(front(Results.read(folder).of("outdoor"))["method"]) == [KMEANS]


def test_without_results_a_sentence_says_so(tmp_path):
    with pytest.raises(SystemExit, match="no results"):
        page.main(tmp_path, tmp_path)


def test_pages_are_built(folder, tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "video.md").write_text("# Video\n")
    page.main(folder, docs)
    index = (docs / "index.md").read_text()
    assert "[Video](video.md)" in index
    assert "**missed**" in index
    assert f"{KMEANS} †" in index
    news = (docs / "20news.md").read_text()
    assert "It broke." in news
    assert "*published*" in news
    linked = {name for text in (index, news) for name in _pictures(text)}
    assert {"own-pareto.png", "own-oracle.png", "own-pareto-20news.png"} <= linked
    for name in linked:
        assert 0 < (docs / name).stat().st_size < 200_000


def _pictures(text):
    return [part.split(")")[0] for part in text.split("](") if part.split(")")[0].endswith("png")]


def test_figures_of_experiments_are_drawn(tmp_path):
    rng = np.random.default_rng(0)
    streams = ("one", "two")
    sweeps = [
        {"stream": s, "method": m, "seed": 0, "n_sweeps": t, "ari": 0.5, "nmi": 0.6, "seconds": 0.1}
        for s in streams
        for m, t in ((PAPER, 1), (PAPER, 2), (OURS, 0))
    ]
    experiments.sweeps(pd.DataFrame(sweeps), tmp_path / "sweeps.png")
    last = [
        {"stream": s, "variant": v, "seed": 0, "ari": rng.random()}
        for s in streams
        for v in (SETTLED, DRAWN, SAMPLED)
    ]
    experiments.last_sweep(pd.DataFrame(last), tmp_path / "last.png")
    rows = [{"batch": b, "label": b // 5, "id": b // 5, "rows": 50} for b in range(10)]
    events = [("born", 0, 0, -1), ("split", 5, 0, 1), ("died", 8, 0, -1)]
    frame = pd.DataFrame(events, columns=["kind", "batch", "id", "other"])
    lineage(pd.DataFrame(rows), frame, tmp_path / "lineage.png")
    assert len(list(tmp_path.glob("*.png"))) == 3


def test_experiments_run_once(tmp_path, monkeypatch):
    calls = []

    def work(quick):
        calls.append(quick)
        yield {"a": 1}

    monkeypatch.setattr("benchmarks.paper.own.EXPERIMENTS", {"one": work})
    for _ in range(2):
        assert run_own(True, tmp_path)["one"]["a"].tolist() == [1]
    assert calls == [True]
    run_own(True, tmp_path, again="one")
    run_own(True)
    assert len(calls) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["own-one.csv"]
