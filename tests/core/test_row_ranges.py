"""Slices are shared out completely and evenly, and added in one tree whoever has them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scstream.core.row_ranges import RowRange, add_up, slice_length

N_SLICES = st.integers(1, 300)


def range_of(n_slices: int) -> RowRange:
    return RowRange(n_rows=3 * n_slices, length=3, first=0, stop=n_slices)


def rounds(values: list[np.ndarray]) -> np.ndarray:
    """The tree as it is told: pairs, then pairs of pairs; who is left over waits."""
    while len(values) > 1:
        values = [sum(values[i + 1 : i + 2], values[i]) for i in range(0, len(values), 2)]
    return values[0]


@given(n_slices=N_SLICES, cuts=st.lists(st.integers(1, 299), max_size=12))
def test_sums_depend_only_on_the_slices(n_slices, cuts):
    values = np.random.default_rng(n_slices).normal(size=(n_slices, 2)) * 1e3
    bounds = sorted({0, n_slices, *(cut for cut in cuts if cut < n_slices)})
    parts = []
    for first, stop in pairwise(bounds):
        for tree in RowRange(3 * n_slices, 3, first, stop).subtrees():
            parts.append((tree, add_up((range(i, i + 1), values[i]) for i in tree)))
    before = values.copy()
    np.testing.assert_array_equal(add_up(parts), rounds(list(values)))
    np.testing.assert_array_equal(values, before)  # what was given is not changed


@given(n_slices=N_SLICES, n_shards=st.integers(1, 40))
def test_shares_cover_all_rows_and_have_similar_sizes(n_slices, n_shards):
    shares = range_of(n_slices).shards(n_shards)
    sizes = [share.stop - share.first for share in shares]
    assert len(shares) == min(n_shards, n_slices)
    assert min(sizes) >= 1
    assert max(sizes) <= np.ceil(1.125 * n_slices / len(shares))
    assert [i for share in shares for i in range(share.first, share.stop)] == [*range(n_slices)]
    assert [r for share in shares for r in share.rows] == [*range(3 * n_slices)]
    for share in shares:
        trees = share.subtrees()
        assert [i for tree in trees for i in tree] == [*range(share.first, share.stop)]
        assert len(trees) <= 2 * n_slices.bit_length()


@given(n_rows=st.integers(0, 10**8))
def test_the_number_of_slices_is_a_power_of_two(n_rows):
    length, n_slices = slice_length(n_rows), RowRange.full(n_rows).stop
    assert n_slices & (n_slices - 1) == 0
    assert n_slices <= 1024
    assert length <= 6144 or n_slices == 1024
    assert length >= 3072 or n_slices == 1


@given(n_rows=st.integers(2**15, 10**7), n_shards=st.sampled_from([1, 2, 4]))
def test_each_of_two_or_four_workers_has_one_subtree(n_rows, n_shards):
    shares = RowRange.full(n_rows).shards(n_shards)
    assert [len(share.subtrees()) for share in shares] == [1] * n_shards


@pytest.mark.parametrize("n_rows", [0, 1])
def test_a_batch_of_at_most_one_row_has_one_slice(n_rows):
    whole = RowRange.full(n_rows)
    assert whole.subtrees() == [range(0, 1)]
    assert len(whole.rows) == n_rows
