"""Laws of what the page remembers: bounded, whole, and the newest in the finest detail."""

from __future__ import annotations

import json
from itertools import pairwise
from math import isclose, isnan, nan
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from scstream.core.state import Event
from scstream.serve.memory import (
    N_SHARES,
    Lineage,
    RecentRows,
    Shares,
    Summaries,
    Summary,
    spaced,
)


def moment_of(batch: int, rng: np.random.Generator) -> Summary:
    rows = int(rng.integers(0, 50))
    density = float(rng.normal()) if rows else nan
    ids = np.sort(rng.choice(900, size=int(rng.integers(1, N_SHARES)), replace=False))
    return Summary(
        batch=batch,
        time=float(batch),
        rows=rows,
        novel=int(rng.integers(0, rows + 1)),
        clusters=len(ids),
        min_clusters=len(ids),
        max_clusters=len(ids),
        density=density,
        lowest=density,
        highest=density,
        shares=Shares(ids, np.full(len(ids), 1.0 / len(ids))),
    )


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.integers(2, 40), st.integers(1, 300))
def test_summaries_are_bounded_and_cover_everything(seed: int, max_n: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    summaries, shown_rows = Summaries(max_n), [moment_of(batch, rng) for batch in range(n)]
    for each in shown_rows:
        summaries.add(each)
        assert len(summaries) <= max_n
    kept = list(summaries)
    assert kept[0].first == 0 and kept[-1].last == n - 1
    assert all(a.last + 1 == b.first for a, b in pairwise(kept))
    assert sum(m.batches for m in kept) == n
    assert isclose(sum(m.rows for m in kept), sum(m.rows for m in shown_rows))
    assert isclose(sum(m.novel for m in kept), sum(m.novel for m in shown_rows))
    assert max(m.max_clusters for m in kept) == max(m.max_clusters for m in shown_rows)
    assert min(m.min_clusters for m in kept) == min(m.min_clusters for m in shown_rows)
    total = sum(m.rows * m.density for m in shown_rows if m.rows)
    assert isclose(sum(m.rows * m.density for m in kept if m.rows), total, abs_tol=1e-6)
    assert all(len(m.shares.id) <= N_SHARES and m.shares.share.sum() < 1 + 1e-5 for m in kept)
    assert all((np.diff(m.shares.id) > 0).all() for m in kept)


def test_the_newest_summaries_are_the_finest() -> None:
    summaries = Summaries(600)
    for batch in range(6_000):
        summaries.add(Summary(batch, float(batch)))
    lengths = [m.batches for m in summaries]
    assert lengths[-60:] == [1] * 60
    assert max(lengths) < 0.04 * 6_000  # a coarse moment is still a few pixels of a page
    ages = np.cumsum(lengths[::-1])
    assert all(length <= 1 + 0.06 * age for length, age in zip(lengths[::-1], ages, strict=True))


@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1))
def test_a_fast_subscriber_gets_every_summary_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    summaries, cursor = Summaries(60), 0
    for batch in range(400):
        summaries.add(Summary(batch, float(batch)))
        if batch - cursor >= 2 or rng.random() < 0.5:
            changes = summaries.since(cursor)
            assert changes is not None
            assert [m.batch for m in changes] == list(range(cursor, batch + 1))
            cursor = summaries.n_seen
    assert summaries.since(3) is None  # joined to earlier ones long ago


def test_a_summary_is_json_with_the_full_time() -> None:
    shares = Shares(np.array([1, 3, 8]), np.array([0.5, 1 / 3, 1 / 6]))
    shown_rows = Summary(1, 1_700_000_123.456, density=nan, shares=shares).to_dict()
    shown_rows = json.loads(json.dumps(shown_rows, allow_nan=False))
    assert shown_rows["time"] == 1_700_000_123.456 and shown_rows["density"] is None
    assert shown_rows["ids"] == [1, 2, 5] and shown_rows["shares"] == [50000, 33333, 16667]


def event(kind: Any, time: float, name: int, other: int | None = None) -> Event:
    return Event(kind, time, name, 1.0, other)


def test_lineage_follows_births_splits_merges_deaths_and_returns() -> None:
    lineage = Lineage(10)
    lineage.add_events(
        [
            event("born", 0.0, 0),
            event("split", 1.0, 0, 1),
            event("merged", 2.0, 1, 0),
            event("died", 3.0, 1),
            event("returned", 5.0, 1),
            event("died", 6.0, 7),
        ]
    )
    first, second, unknown = lineage
    assert (first.born, first.end, first.how, first.into) == (0.0, 2.0, "merged", 1)
    assert (second.parent, second.end, second.how, second.away) == (0, None, None, (3.0, 5.0))
    assert (unknown.id, unknown.born, unknown.end) == (7, None, 6.0)


def test_the_lightest_of_too_many_clusters_are_dropped_and_counted() -> None:
    lineage = Lineage(50)
    for name in range(500):
        lineage.add_events([event("born", float(name), name)])
        lineage.update_shares({name: (name % 100) / 100}, {name: float(name)})
        assert len(lineage) <= 50
    assert lineage.n_dropped == 450
    assert min(record.peak for record in lineage) >= 0.5


@settings(max_examples=20)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_recent_rows_are_the_newest_and_few(seed: int, is_sparse: bool) -> None:
    rng = np.random.default_rng(seed)
    recent, shown_rows = RecentRows(30), np.zeros((0, 3))
    for at in range(10):
        rows = rng.integers(0, 3, size=(int(rng.integers(1, 50)), 3)).astype(float)
        shown_rows = np.concatenate([shown_rows, rows])
        given_rows = sparse.csr_array(rows) if is_sparse else rows
        recent.add(given_rows, np.full(len(rows), at), at=float(at))
        kept = recent.rows()
        assert kept is not None and recent.n_rows == min(30, len(shown_rows))
        dense = kept.rows.toarray() if is_sparse else kept.rows
        assert np.array_equal(dense, shown_rows[-30:]) and np.array_equal(kept.labels, kept.at)


def test_long_rows_are_few_and_another_width_begins_anew() -> None:
    recent = RecentRows(600)
    for at in range(20):
        recent.add(*spaced(np.zeros((200, 100_000)), np.zeros(200), 150), at=float(at))
    kept = recent.rows()
    assert kept is not None and kept.rows.size <= 2 << 20
    recent.add(np.zeros((5, 2)), np.zeros(5), at=0.0)
    assert recent.n_rows == 5


def test_rows_of_a_cluster_that_was_merged_go_with_it() -> None:
    recent = RecentRows(10)
    recent.add(np.zeros((4, 1)), np.array([1, 2, 2, -1]), at=0.0)
    recent.rename([event("merged", 1.0, 5, 2), event("died", 1.0, 1)])
    kept = recent.rows()
    assert kept is not None and kept.labels.tolist() == [1, 5, 5, -1]


def test_a_mean_of_nothing_says_nothing() -> None:
    nothing, something = Summary(0, 0.0), Summary(1, 1.0, rows=2, density=3.0, lowest=3.0)
    assert nothing.merged_with(something).density == 3.0 == something.merged_with(nothing).lowest
    assert isnan(nothing.merged_with(nothing).density)
