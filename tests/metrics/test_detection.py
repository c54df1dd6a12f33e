"""When a new cluster counts as found."""

import math

import numpy as np
import pytest

from scstream.datasets import births_and_deaths
from scstream.metrics import DetectionDelay, detection_delay

OLD = ([0] * 8, [0] * 8)


@pytest.mark.parametrize(
    ("predicted", "found"),
    [
        ([0] * 8 + [1] * 4, True),
        ([0] * 8 + [1] * 3 + [0], True),
        ([0] * 8 + [1] * 2 + [0] * 2, False),  # half of its rows is not more than half
        ([0] * 8 + [1, 2, 3, 4], False),  # no single id covers it
        ([0] * 12, False),  # its id belongs to the old cluster
        ([0] * 4 + [1] * 8, False),  # an even mix belongs to neither
        ([0] * 5 + [1] * 7, True),
        ([0] * 8 + [-1] * 4, False),  # known to be new, but no cluster yet
    ],
)
def test_found_by_an_id_of_its_own_that_covers_most_of_it(
    predicted: list[int], found: bool
) -> None:
    result = detection_delay([(1, 7)], [OLD, ([0] * 8 + [7] * 4, predicted)])
    assert result.delays == ({7: 0} if found else {})
    assert result.missed == ([] if found else [7])


def test_delay_counts_batches_after_the_birth() -> None:
    rows = [0] * 8 + [7] * 4
    unseen, seen = (rows, [0] * 12), (rows, [0] * 8 + [3] * 4)
    result = detection_delay([(1, 7)], [OLD, unseen, unseen, seen, unseen])
    assert result.delays == {7: 2}
    assert result.mean() == 2.0


def test_a_cluster_without_rows_is_not_found() -> None:
    watch = DetectionDelay([(1, 7), (2, 8)])
    watch.update(1, *OLD)
    watch.update(2, [0, 7, 8], [0, 1, 2])
    assert watch.delays == {7: 1, 8: 0}


def test_nothing_found_has_no_mean() -> None:
    assert math.isnan(detection_delay([(0, 1)], []).mean())
    assert detection_delay([], [OLD]).missed == []


def test_the_oracle_finds_every_birth_at_once() -> None:
    stream = births_and_deaths(5, distance="near", birth_every=3, n_batches=10, random_state=0)
    watch = DetectionDelay(stream.births)
    for batch in stream:
        watch.update(int(batch.time), batch.y, batch.oracle())
    assert watch.missed == []
    assert set(watch.delays.values()) == {0}
    assert np.array_equal(sorted(watch.delays), [5, 6, 7])
