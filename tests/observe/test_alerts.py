"""Alert rules: what raises an alert, what is not repeated, and that restarts change nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import drift

from scstream.errors import InputError
from scstream.observe.alerts import AlertOptions, AlertRules
from scstream.observe.drift import Adwin, PageHinkley
from scstream.observe.events import BatchSummary


def batch_summary(batch: int, **changed: Any) -> BatchSummary:
    return replace(BatchSummary(batch, rows=100, clusters=3, log_density=-4.0), **changed)


def raised(alert_rules: AlertRules, stream: list[BatchSummary]) -> list[tuple[int, str]]:
    """Batches and kinds of all alerts."""
    return [
        (summary.batch, alert.kind) for summary in stream for alert in alert_rules.check(summary)
    ]


def densities(values: Any, **more: Any) -> list[BatchSummary]:
    return [batch_summary(i, log_density=float(x), **more) for i, x in enumerate(values)]


def dropping(by: float, *, n: int = 120, at: int = 80, seed: int = 0) -> np.ndarray:
    """Log densities with a spread of 0.1 that drop by so many spreads."""
    values = -4.0 + 0.1 * np.random.default_rng(seed).standard_normal(n)
    values[at:] -= 0.1 * by
    return values


NEWS = st.builds(
    batch_summary,
    st.integers(0, 1000),
    rows=st.integers(50, 150),
    rejected=st.integers(0, 50),
    clusters=st.integers(0, 3),
    novel=st.integers(0, 50),
    log_density=st.one_of(
        st.sampled_from([-4.0, -4.1, -9.0, -30.0]), st.floats(-1e3, 10.0), st.just(float("nan"))
    ),
    events=st.dictionaries(st.sampled_from(["born", "died", "split"]), st.integers(1, 3)),
)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "novelty": st.sampled_from([False, 0.1, 0.3]),
        "rejected": st.sampled_from([False, 0.1, 0.3]),
        "rows": st.sampled_from([1, 100, 250]),
        "log_density": st.sampled_from([False, "page-hinkley", "adwin"]),
        "memory": st.sampled_from([8, 16]),
        "births": st.sampled_from([False, True, 2]),
        "deaths": st.sampled_from([False, True, 2]),
        "quiet": st.integers(0, 4),
    },
)


@given(OPTIONS, st.lists(NEWS, max_size=60), st.sets(st.integers(0, 60), max_size=4))
def test_saved_and_restored_rules_raise_the_same_alerts(options, stream, at) -> None:
    whole, part = AlertRules.build(options), AlertRules.build(options)
    for i, summary in enumerate(stream):
        if i in at:
            saved = json.loads(json.dumps(part.save(), allow_nan=False))
            part = AlertRules.build(options)
            part.restore(saved)
        assert list(part.check(summary)) == list(whole.check(summary))
    assert part.save() == whole.save()


def test_what_was_saved_does_not_change_any_more() -> None:
    """A checkpoint is written while the next batches are checked."""
    alert_rules = AlertRules.build({"log_density": "adwin", "novelty": 0.2, "births": True})
    raised(alert_rules, densities(dropping(0.0)))
    saved = alert_rules.save()
    before = json.dumps(saved)
    raised(alert_rules, densities(dropping(9.0), novel=30, events={"born": 1}))
    assert json.dumps(saved) == before


def test_without_options_nothing_is_raised_or_saved() -> None:
    alert_rules = AlertRules()
    loud = batch_summary(
        1, novel=100, rejected=100, events={"born": 9, "died": 9}, log_density=-1e9
    )
    assert alert_rules.check(loud) == []
    assert alert_rules.save() == {}
    alert_rules.restore({"rules": {"novelty": {}}, "quiet": {"novelty": 3}})
    assert alert_rules.check(loud) == []


@pytest.mark.parametrize(("option", "column"), [("novelty", "novel"), ("rejected", "rejected")])
def test_a_share_alerts_once_until_it_falls_below_half(option: str, column: str) -> None:
    alert_rules = AlertRules.build({option: 0.2, "quiet": 0})
    shares = [10, 20, 25, 19, 11, 30, 9, 30, 30]
    stream = [batch_summary(i, **{column: share}) for i, share in enumerate(shares)]
    assert raised(alert_rules, stream) == [(1, option), (7, option)]


def test_rows_that_cannot_be_used_are_not_counted_as_known() -> None:
    alert_rules = AlertRules.build({"novelty": 0.5, "rows": 10})
    [alert] = alert_rules.check(batch_summary(0, rows=100, rejected=80, novel=10))
    assert alert.value == 0.5
    assert (
        "50% of the last 20 rows, up to batch 0, belong to no cluster (limit 50%)" in alert.detail
    )


def test_a_share_is_taken_of_enough_rows() -> None:
    """Three rows of ten would be an alert, three of a hundred are not."""
    alert_rules = AlertRules.build({"novelty": 0.2, "rows": 100})
    novel = [3, 0, 0, 0, 0, 0, 0, 0, 0, 0, *[3] * 10]
    stream = [batch_summary(i, rows=10, novel=n) for i, n in enumerate(novel)]
    assert raised(alert_rules, stream) == [(19, "novelty")]


def test_an_alert_is_followed_by_quiet_of_its_own_kind() -> None:
    alert_rules = AlertRules.build({"births": True, "deaths": True, "quiet": 3})
    stream = [batch_summary(i, events={"born": 1}) for i in range(10)]
    stream[3] = batch_summary(3, events={"born": 1, "died": 1})
    assert raised(alert_rules, stream) == [(1, "born"), (3, "died"), (5, "born"), (9, "born")]


def test_a_share_that_stays_high_alerts_again_after_the_quiet_batches() -> None:
    alert_rules = AlertRules.build({"novelty": 0.2, "quiet": 3})
    stream = [batch_summary(i, novel=n) for i, n in enumerate([30, 0, 30, 30, 30, 30])]
    assert raised(alert_rules, stream) == [(0, "novelty"), (4, "novelty")]


def test_the_first_batch_never_alerts() -> None:
    """An empty one is not the first: clusters make it so."""
    alert_rules = AlertRules.build({"births": True, "quiet": 0})
    stream = [
        batch_summary(0, rows=0, clusters=0),
        batch_summary(1, events={"born": 3}),
        batch_summary(2),
        batch_summary(3, clusters=4, events={"born": 1, "split": 2}),
    ]
    assert raised(alert_rules, stream) == [(3, "born")]
    [alert] = AlertRules.build({"births": True}).check(stream[3]) or [None]
    assert alert is None


def test_minimum_numbers_of_births_and_deaths() -> None:
    alert_rules = AlertRules.build({"births": 2, "deaths": 3, "quiet": 0})
    stream = [batch_summary(i, events={"born": i, "died": i}) for i in range(4)]
    assert raised(alert_rules, stream) == [(2, "born"), (3, "born"), (3, "died")]


@pytest.mark.parametrize("detector", ["page-hinkley", "adwin"])
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_a_drop_alerts_in_any_unit(detector: str, scale: float) -> None:
    values = scale * dropping(10.0) + 1000.0 * scale
    found = raised(AlertRules.build({"log_density": detector}), densities(values))
    plain = raised(AlertRules.build({"log_density": detector}), densities(dropping(10.0)))
    assert found == plain
    assert [kind for _, kind in found] == ["log_density"]
    assert 80 <= found[0][0] <= (81 if detector == "page-hinkley" else 87)


@pytest.mark.parametrize("detector", ["page-hinkley", "adwin", drift.ADWIN(clock=1)])
def test_a_rise_is_no_alert(detector: Any) -> None:
    alert_rules = AlertRules(AlertOptions(log_density=detector, quiet=0))
    assert raised(alert_rules, densities(dropping(-10.0))) == []


def test_one_extreme_batch_alerts_with_page_hinkley_only() -> None:
    values = dropping(0.0)
    values[80] -= 2.0
    assert raised(AlertRules.build({"log_density": "page-hinkley"}), densities(values)) == [
        (80, "log_density")
    ]
    assert raised(AlertRules.build({"log_density": "adwin"}), densities(values)) == []


def test_extreme_batches_do_not_change_the_usual_values() -> None:
    """A quarter of the batches far above does not hide a drop of the others."""
    values = dropping(10.0)
    values[3:70:4] += 50.0
    found = raised(AlertRules.build({"log_density": "page-hinkley"}), densities(values))
    assert [kind for _, kind in found] == ["log_density"]
    assert 80 <= found[0][0] <= 84


def test_small_batches_vary_more_and_do_not_alert() -> None:
    """Log densities of single rows have a spread of 1; every eighth batch has 4 rows, not 400."""
    rng = np.random.default_rng(0)
    rows = [4 if i % 8 == 7 else 400 for i in range(400)]
    stream = [
        batch_summary(i, rows=n, log_density=float(-4.0 + rng.standard_normal() / np.sqrt(n)))
        for i, n in enumerate(rows)
    ]
    assert raised(AlertRules.build({"log_density": "page-hinkley"}), stream) == []
    alike = [replace(summary, rows=400) for summary in stream]
    assert raised(AlertRules.build({"log_density": "page-hinkley"}), alike)


def test_identical_batches_have_a_minimum_deviation() -> None:
    values = np.full(100, -4.0)
    values[50:] -= 0.005
    assert raised(AlertRules.build({"log_density": "page-hinkley"}), densities(values)) == []
    values[80:] -= 1.0
    assert raised(AlertRules.build({"log_density": "page-hinkley"}), densities(values))


def test_a_batch_without_a_density_is_ignored() -> None:
    values = dropping(10.0)
    holes = [x for value in values for x in (value, np.nan)]
    found = raised(AlertRules.build({"log_density": "page-hinkley"}), densities(holes))
    plain = raised(AlertRules.build({"log_density": "page-hinkley"}), densities(values))
    assert found == [(2 * batch, kind) for batch, kind in plain] != []


@pytest.mark.parametrize(
    "detector",
    [
        drift.ADWIN(clock=1),
        drift.PageHinkley(min_instances=5, delta=1.0, threshold=10.0, mode="down"),
        drift.KSWIN(window_size=60, stat_size=15, seed=0),
        PageHinkley(delta=1.0, threshold=12.0, mode="down"),
        Adwin(delta=0.01, clock=1),
    ],
    ids=lambda detector: type(detector).__module__ + type(detector).__name__,
)
def test_any_detector_with_rivers_interface_works(detector: Any) -> None:
    alert_rules = AlertRules(AlertOptions(log_density=detector))
    found = raised(alert_rules, densities(dropping(10.0)))
    assert found and 80 <= found[0][0] <= 95
    is_ours = isinstance(detector, PageHinkley | Adwin)
    assert (alert_rules.save()["rules"]["log_density"]["detector"] is not None) == is_ours
    json.dumps(alert_rules.save(), allow_nan=False)


def test_options_may_differ_from_those_of_the_checkpoint() -> None:
    alert_rules = AlertRules.build({"log_density": "adwin", "novelty": 0.2, "births": True})
    raised(alert_rules, densities(dropping(0.0)))
    for options in (
        {"log_density": "page-hinkley", "memory": 8},
        {"rejected": 0.1},
        {"log_density": "adwin", "novelty": 0.4, "deaths": True},
        {},
    ):
        other = AlertRules.build(options)
        other.restore(alert_rules.save())
        raised(other, densities(dropping(0.0)))
    page_hinkley = AlertRules.build({"log_density": "page-hinkley"})
    page_hinkley.restore(alert_rules.save())  # knows the usual values already
    assert raised(page_hinkley, densities([-4.0] * 6 + [-9.0])) == [(6, "log_density")]


@pytest.mark.parametrize(
    ("options", "detail"),
    [
        ({"novelty": 20}, "alerts.novelty must be a share of rows"),
        ({"novelty": True}, "alerts.novelty must be a share of rows"),
        ({"novelty": 0}, "alerts.novelty must be a share of rows"),
        ({"novelty": float("nan")}, "alerts.novelty must be a share of rows"),
        ({"rejected": "0.1"}, "alerts.rejected must be a share of rows"),
        ({"rows": 0}, "alerts.rows must be a whole number, 1 or more"),
        ({"rows": 1.5}, "alerts.rows must be a whole number"),
        ({"memory": 7}, "alerts.memory must be a whole number, 8 or more"),
        ({"quiet": -1}, "alerts.quiet must be a whole number, 0 or more"),
        ({"quiet": True}, "alerts.quiet must be a whole number"),
        ({"births": 0}, "alerts.births must be true, false, or a whole number"),
        ({"deaths": 1.5}, "alerts.deaths must be true, false, or a whole number"),
        ({"log_density": "ddm"}, 'alerts.log_density must be "page-hinkley", "adwin" or false'),
        ({"log_density": True}, "alerts.log_density must be"),
        ({"log_density": 0}, "alerts.log_density must be"),
        ({"novelti": 0.2}, "alerts has no option 'novelti'; its options are: novelty, rejected"),
    ],
)
def test_invalid_options_raise(options: dict[str, Any], detail: str) -> None:
    with pytest.raises(InputError, match=detail):
        AlertRules.build(options)


@pytest.mark.statistics
@pytest.mark.parametrize("detector", ["page-hinkley", "adwin"])
def test_false_alarms_of_a_stream_that_stays_as_it_is(detector: str) -> None:
    """Normal log densities, 4,000 batches: benchmarks/results/drift.md counts none in 50,000.

    At the rate of one in 10,000, which nobody would mind, two or more come with probability 6 %.
    """
    values = np.random.default_rng(0).standard_normal(4000)
    assert len(raised(AlertRules.build({"log_density": detector}), densities(values))) <= 1


@pytest.mark.statistics
@pytest.mark.parametrize(
    ("detector", "by", "within"),
    [("page-hinkley", 5, 6), ("page-hinkley", 10, 4), ("adwin", 5, 18), ("adwin", 10, 8)],
)
def test_delays_of_a_drop(detector: str, by: float, within: int) -> None:
    """Twenty streams; benchmarks/results/drift.md has medians of 3 and 2, 9 and 6 batches.

    A CUSUM that grows by 4 or 9 a batch, of spread 1, passes 10 after 3 or 2. The bars are twice
    that for drops of 5 spreads, and two batches above the median for drops of 10.
    """
    for seed in range(20):
        alert_rules = AlertRules.build({"log_density": detector})
        found = raised(alert_rules, densities(dropping(by, seed=seed)))
        assert [kind for _, kind in found] == ["log_density"]
        assert 80 <= found[0][0] < 80 + within
