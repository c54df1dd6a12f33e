"""Where keys and partitions belong: the same everywhere, even, moved only where they must be."""

import os
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scstream.distributed.partitions import N_PARTITIONS, BatchTask, assign_partitions, partition_of
from scstream.preprocess.block import Block
from scstream.stream.keyed import rows_by_key

worker_names = st.sets(st.integers(0, 12), min_size=1, max_size=5).map(
    lambda numbers: tuple(f"w{number}" for number in sorted(numbers))
)


@given(workers=worker_names, newcomer=st.integers(0, 12).map(lambda number: f"w{number}"))
def test_adding_a_worker_moves_only_its_own_partitions(workers, newcomer):
    without = tuple(name for name in workers if name != newcomer)
    if not without:
        return
    before, after = assign_partitions(without), assign_partitions((*without, newcomer))
    assert {new for old, new in zip(before, after, strict=True) if old != new} <= {newcomer}


@given(workers=worker_names, order=st.randoms())
def test_the_order_of_workers_does_not_matter(workers, order):
    shuffled = list(workers)
    order.shuffle(shuffled)
    assert assign_partitions(tuple(shuffled)) == assign_partitions(workers)


@pytest.mark.parametrize("n_workers", range(1, 9))
def test_shares_are_even(n_workers):
    shares = Counter(assign_partitions(tuple(f"w{i}" for i in range(n_workers))))
    assert len(shares) == n_workers
    assert max(shares.values()) <= 1.06 * N_PARTITIONS / n_workers


@pytest.mark.parametrize("text", ["device-{:05d}", "{}", "user{}@example"])
def test_keys_are_spread_over_all_partitions(text):
    counts = Counter(partition_of(text.format(i)) for i in range(20 * N_PARTITIONS))
    assert len(counts) == N_PARTITIONS
    assert max(counts.values()) < 40


def test_partitions_are_the_same_in_another_process():
    names = ("w0", "w1", "w2")
    code = (
        "from scstream.distributed.partitions import assign_partitions, partition_of;"
        f"print(partition_of('\\ud800'), partition_of('ä/1'),"
        f"''.join(name[1] for name in assign_partitions({names!r})))"
    )
    other = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert other[0] == str(partition_of("\ud800"))
    assert other[1] == str(partition_of("ä/1"))
    assert other[2] == "".join(name[1] for name in assign_partitions(names))


@given(
    who=st.lists(st.sampled_from(["a", "b", "ä/1", "\ud800", "7", "c"]), max_size=20),
    workers=worker_names,
)
def test_every_row_goes_to_the_worker_of_its_key_in_order(who, workers):
    block = Block.of(np.arange(float(len(who)))[:, None], who=np.array(who, dtype=object))
    rows, _ = rows_by_key(block, "who")
    task, at = BatchTask(block, 1.5, rows, ["gone"]), assign_partitions(workers)
    pieces = task.split(at, task.partitions)
    for name, piece in pieces.items():
        assert (np.diff(piece.block.row) > 0).all()
        assert {at[partition_of(key)] for key in piece.block.extra["who"]} <= {name}
        assert piece.time == 1.5
    assert sorted(row for piece in pieces.values() for row in piece.block.row) == list(
        range(len(who))
    )
    assert [name for name, piece in pieces.items() if piece.expired] == [at[partition_of("gone")]]
    some = {partition_of("a")}
    assert all(set(piece.block.extra["who"]) == {"a"} for piece in task.split(at, some).values())
