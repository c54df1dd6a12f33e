"""Detectors of change: river's detections, a saved state, bounded memory, and honest statistics."""

from __future__ import annotations

import json
from itertools import pairwise
from math import exp, inf, log, nan, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import drift

from scstream.errors import InputError
from scstream.observe.drift import Adwin, Detector, PageHinkley

OURS = [PageHinkley, Adwin]


def detections(detector: Detector, numbers) -> list[int]:
    found = []
    for i, x in enumerate(numbers):
        detector.update(float(x))
        if detector.drift_detected:
            found.append(i)
    return found


def steps(rng: np.random.Generator, *, n_levels: int = 5) -> np.ndarray:
    """Noise about a level that jumps."""
    levels = [rng.normal(2.0 * rng.normal(), 1.0, rng.integers(50, 300)) for _ in range(n_levels)]
    return np.concatenate(levels)


@pytest.mark.parametrize("seed", range(15))
def test_page_hinkley_detects_what_river_detects(seed: int) -> None:
    rng = np.random.default_rng(seed)
    numbers, compared = steps(rng), 0
    for mode in ("up", "down", "both"):
        options = {
            "threshold": rng.uniform(5.0, 50.0),
            "delta": rng.uniform(0.0, 1.0),
            "min_instances": int(rng.integers(1, 40)),
            "alpha": rng.choice([1.0, 0.9999, 0.99]),
            "mode": mode,
        }
        found = detections(PageHinkley(**options), numbers)
        assert found == detections(drift.PageHinkley(**options), numbers)
        compared += len(found)
    assert compared


@pytest.mark.parametrize("seed", range(8))
def test_adwin_detects_what_river_detects(seed: int) -> None:
    rng = np.random.default_rng(seed)
    numbers, compared = steps(rng), 0
    for clock in (1, 8, 32):
        options = {
            "clock": clock,
            "delta": 10.0 ** rng.uniform(-4.0, -0.5),
            "max_buckets": int(rng.integers(2, 9)),
            "min_window_length": int(rng.integers(1, 10)),
            "grace_period": int(rng.integers(2, 40)),
        }
        found = detections(Adwin(**options), numbers)
        assert found == detections(drift.ADWIN(**options), numbers)
        compared += len(found)
    assert compared


@pytest.mark.parametrize("ours", OURS)
def test_options_are_those_of_river(ours: type) -> None:
    theirs = drift.PageHinkley if ours is PageHinkley else drift.ADWIN
    assert ours().options == {name: getattr(theirs(), name) for name in ours().options}


@pytest.mark.parametrize("ours", OURS)
@given(
    numbers=st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32), max_size=80),
    at=st.integers(0, 80),
)
def test_a_saved_detector_continues_unchanged(ours, numbers, at) -> None:
    options = {"threshold": 3.0, "min_instances": 2} if ours is PageHinkley else {"clock": 1}
    whole, part = ours(**options), ours(**options)
    for i, x in enumerate(numbers):
        if i == at:
            part = ours.load(json.loads(json.dumps(part.save(), allow_nan=False)))
        whole.update(x)
        part.update(x)
        assert part.drift_detected == whole.drift_detected
    assert part.save() == whole.save()


@pytest.mark.parametrize("ours", OURS)
@pytest.mark.parametrize("odd", [nan, inf, -inf])
def test_numbers_that_are_not_finite_are_ignored(ours: type, odd: float) -> None:
    options = {"threshold": 8.0} if ours is PageHinkley else {"clock": 1}
    numbers = steps(np.random.default_rng(3))
    doubled = [x for number in numbers for x in (number, odd)]
    found = detections(ours(**options), numbers)
    assert found
    assert detections(ours(**options), doubled) == [2 * i for i in found]


def test_the_memory_of_adwin_is_logarithmic() -> None:
    rng = np.random.default_rng(0)
    detector, numbers = Adwin(), rng.random(20_000)
    assert detections(detector, numbers) == []
    saved = detector.save()
    assert sum(map(len, saved["levels"])) <= 5 * (1 + log(20_000 / 5, 2))
    assert len(json.dumps(saved)) < 4000
    assert detector.width == 20_000
    assert detector.estimation == pytest.approx(numbers.mean(), rel=1e-12)
    assert detector.variance == pytest.approx(numbers.var(), rel=1e-12)


@given(st.lists(st.floats(-4.0, 4.0), min_size=11, max_size=60))
def test_adwin_with_buckets_of_one_is_the_definition(numbers) -> None:
    """Every number has its own bucket: all cuts are tried, on the numbers themselves."""
    detector = Adwin(clock=1, max_buckets=1000)
    found = detections(detector, numbers)
    assert found[:1] == first_cut(numbers)


def first_cut(numbers, *, delta: float = 0.002, fewest: int = 5) -> list[int]:
    for i in range(10, len(numbers)):
        window = np.array(numbers[: i + 1])
        n, log_term = len(window), log(2.0 * log(len(window)) / delta)
        for cut in range(fewest, n - fewest + 1):
            share = 1.0 / (cut - fewest + 1) + 1.0 / (n - cut - fewest + 1)
            chance = sqrt(2.0 * share * window.var() * log_term) + 2.0 / 3.0 * share * log_term
            if abs(window[:cut].mean() - window[cut:].mean()) > chance * (1.0 + 1e-9):
                return [i]
    return []


def siegmund(drift_: float, threshold: float) -> float:
    """Mean run of a one-sided CUSUM of unit normals whose increments have this mean."""
    b = threshold + 1.166
    return (exp(-2.0 * drift_ * b) + 2.0 * drift_ * b - 1.0) / (2.0 * drift_**2)


@pytest.mark.statistics
def test_false_alarms_of_page_hinkley() -> None:
    """Against Siegmund's approximation of the CUSUM, whose mean is known and not estimated.

    Runs begin with 30 numbers without a detection, 3 % of the 938 that are foretold. They are about
    exponential, so that the mean of some 100 has an error of 10 %: the band is four of them.
    """
    numbers = np.random.default_rng(0).standard_normal(100_000)
    options = {"min_instances": 30, "delta": 0.5, "threshold": 5.0, "alpha": 1.0}
    runs = np.diff([-1, *detections(PageHinkley(**options, mode="down"), numbers)])
    assert 0.63 < runs.mean() / siegmund(-0.5, 5.0) < 1.43


@pytest.mark.statistics
@pytest.mark.parametrize("shift", [2.0, 3.0, 5.0])
def test_delay_of_page_hinkley(shift: float) -> None:
    """Against the same approximation: a CUSUM that grows by the shift less what is tolerated.

    The running mean of 200 numbers follows the shift a little, by a tenth of it at most. The
    standard error of 100 delays is below 6 % of their mean: the band is -15 to +25 %.
    """
    delays = []
    for seed in range(100):
        numbers = np.random.default_rng(seed).standard_normal(260)
        numbers[200:] -= shift
        found = detections(PageHinkley(delta=1.0, threshold=10.0, alpha=1.0, mode="down"), numbers)
        assert found and found[0] >= 200
        delays.append(found[0] - 199)
    assert 0.85 < np.mean(delays) / siegmund(shift - 1.0, 10.0) < 1.25


@pytest.mark.statistics
def test_false_alarms_of_adwin() -> None:
    """Its bound allows a share `delta` of looks to be false; over a whole stream it holds as well.

    40 streams of 600 looks at delta 0.05: were as many as 5 % of the streams to have a false
    detection, more than 6 of 40 would have with probability 0.3 %.
    """
    n_false = 0
    for seed in range(40):
        numbers = np.random.default_rng(seed).random(600)
        n_false += bool(detections(Adwin(delta=0.05, clock=1), numbers))
    assert n_false <= 6


@pytest.mark.statistics
def test_delay_of_adwin() -> None:
    """A step of half the range after 500 numbers: the bound of a window without chance foretells.

    The variance of the window grows with the step; 30 delays of some 30 numbers have a standard
    error of 1. The band is the foretold delay, -40 and +40 %, which chance leaves in no direction.
    """
    delays = []
    for seed in range(30):
        numbers = np.random.default_rng(seed).random(600)
        numbers[500:] += 0.5
        found = detections(Adwin(clock=1), numbers)
        assert found[0] >= 500
        delays.append(found[0] - 499)
    assert 0.6 < np.mean(delays) / foretold(500, step=0.5, variance=1.0 / 12.0) < 1.4


def foretold(n_old: int, *, step: float, variance: float) -> int:
    """New numbers until means differ by more than chance, if every mean is what it should be."""
    for n_new in range(5, 1000):
        n = n_old + n_new
        log_term = log(2.0 * log(n) / 0.002)
        share = 1.0 / (n_old - 4) + 1.0 / (n_new - 4)
        whole = variance + step**2 * n_old * n_new / n**2
        if step > sqrt(2.0 * share * whole * log_term) + 2.0 / 3.0 * share * log_term:
            return n_new
    raise AssertionError("never")


@pytest.mark.parametrize(
    ("ours", "name", "value"),
    [
        (PageHinkley, "min_instances", 0),
        (PageHinkley, "delta", -0.1),
        (PageHinkley, "threshold", 0.0),
        (PageHinkley, "alpha", 1.5),
        (PageHinkley, "mode", "sideways"),
        (Adwin, "delta", 1.0),
        (Adwin, "clock", 0),
        (Adwin, "max_buckets", 1),
        (Adwin, "min_window_length", 0),
        (Adwin, "grace_period", 0),
    ],
)
def test_invalid_options_raise(ours: type, name: str, value: object) -> None:
    with pytest.raises(InputError, match=f"{name} of a detector must be"):
        ours(**{name: value})


def test_each_change_is_reported_once() -> None:
    rng = np.random.default_rng(1)
    numbers = np.concatenate([rng.random(300) + level for level in (0.0, 1.0, 2.0)])
    for detector in (Adwin(clock=1), PageHinkley(delta=0.1, threshold=5.0)):
        found = detections(detector, numbers)
        assert len(found) == 2
        assert all(after - before > 250 for before, after in pairwise(found))
