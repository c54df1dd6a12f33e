"""Quotas of keyed jobs: a flood of rows or keys costs its sender, and the same rows every time."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scstream.errors import InputError
from scstream.observe.prometheus import Metrics
from scstream.preprocess import Steps
from scstream.preprocess.block import Block
from scstream.stream.batcher import SourceBatch
from scstream.stream.config import build
from scstream.stream.keyed import KeyOptions
from scstream.stream.pool import ModelPool
from scstream.stream.processor import Learned
from scstream.stream.progress import Progress
from scstream.stream.store import MemoryStore


def a_pool(store: MemoryStore, **options: object) -> ModelPool:
    params = {"random_state": 5, "n_jobs": 1}
    pool = ModelPool.build(params, Steps(), column="who", store=store, **options)
    pool.set_columns(("x", "y"))
    return pool


def a_batch(number: int, who: list[str]) -> SourceBatch:
    X = np.random.default_rng(number).normal(size=(len(who), 2))
    return SourceBatch(number, {}, None, Block.of(X, who=np.array(who, dtype=object)), ())


def refused_keys(learned: Learned, who: list[str]) -> list[str]:
    return [who[reject.row] for reject in learned.block.rejects]


def reasons(learned: Learned) -> set[str]:
    return {reject.reason for reject in learned.block.rejects}


def test_a_key_with_too_many_rows_loses_rows_of_its_own_only() -> None:
    who = ["loud"] * 50 + ["a", "b"] * 3 + ["loud"] * 50
    learned = a_pool(MemoryStore(), max_rows=10).learn(a_batch(0, who))
    assert refused_keys(learned, who) == ["loud"] * 90
    assert learned.block.row.tolist() == [*range(10), *range(50, 56)]
    assert learned.over_quota == {"max_rows": 90}
    assert reasons(learned) == {"key 'loud' has more rows in this batch than keys.max_rows = 10."}


def test_new_keys_come_in_a_few_at_a_time_and_known_keys_are_served() -> None:
    pool = a_pool(MemoryStore(), max_new_keys=2)
    pool.learn(a_batch(0, ["a", "b"]))
    for i in range(1, 3):
        who = [*(f"random {i} {j}" for j in range(20)), "a", "b"]
        learned = pool.learn(a_batch(i, who))
        assert refused_keys(learned, who) == who[2:20]
        assert learned.n_keys == len(pool.keys) == 2 + 2 * i
        assert learned.over_quota == {"max_new_keys": 18}
        assert "is new, and this batch has keys.max_new_keys = 2 new ones" in min(reasons(learned))


def test_a_tenant_that_floods_leaves_other_tenants_alone() -> None:
    quotas = {"tenant": "/", "max_tenant_keys": 3, "max_tenant_rows": 6, "max_new_keys": 2}
    flooded, quiet = a_pool(MemoryStore(), **quotas), a_pool(MemoryStore(), **quotas)
    for i in range(4):
        calm = ["b/1", "b/2", "no tenant"]
        flood = [f"a/{i}/{j}" for j in range(30)] + ["a/0/0"] * 9
        batch = a_batch(i, calm + flood)
        among = flooded.learn(batch)
        alone = quiet.learn(replace(batch, block=batch.block.slice(0, 3)))
        assert {key.partition("/")[0] for key in refused_keys(among, calm + flood)} == {"a"}
        assert among.labels[:3].tolist() == alone.labels.tolist()
        assert sum(row >= 3 for row in among.block.row) <= 6
    assert sorted(flooded.keys) == ["a/0/0", "a/1/0", "a/1/1", "b/1", "b/2", "no tenant"]
    assert {"max_tenant_keys", "max_tenant_rows"} == {*among.over_quota}
    assert any("its tenant 'a' has keys.max_tenant_keys = 3 already" in r for r in reasons(among))
    assert any("tenant 'a' has more rows in this batch" in r for r in reasons(among))


def test_a_new_key_without_rows_within_the_quota_is_not_kept() -> None:
    pool = a_pool(MemoryStore(), max_tenant_rows=2)
    learned = pool.learn(a_batch(0, ["a", "a", "b", "c"]))
    assert (pool.keys, learned.n_keys) == (["a"], 1)


def test_models_of_silent_keys_are_dropped_by_default() -> None:
    assert 0 < KeyOptions().forget_after <= 100_000
    pool, over = a_pool(MemoryStore(), max_keys=20, forget_after=3), set()
    for i in range(6):  # a flood of keys that never come back
        learned = pool.learn(a_batch(i, ["a", *(f"random {i} {j}" for j in range(8))]))
        over |= {*learned.over_quota}
        assert len(pool.keys) <= 20
    assert over == {"max_keys"}
    for i in range(6, 9):
        pool.learn(a_batch(i, ["a"]))
    assert not pool.learn(a_batch(9, ["a", "late but welcome"])).block.rejects
    assert pool.keys == ["a", "late but welcome"]


def test_a_dropped_key_makes_room_for_another_of_its_tenant() -> None:
    pool = a_pool(MemoryStore(), max_tenant_keys=1, forget_after=1)
    for i in range(3):
        assert not pool.learn(a_batch(2 * i, [f"key {i}"])).block.rejects
        pool.learn(a_batch(2 * i + 1, ["key 9"]))  # refused: its batch still has the other key
        assert pool.keys == []


def test_keys_are_kept_for_ever_on_request() -> None:
    pool = a_pool(MemoryStore(), forget_after=0)
    for i in range(5):
        pool.learn(a_batch(i, [f"key {i}"]))
    assert len(pool.keys) == 5


def test_keys_of_a_checkpoint_without_times_are_dropped_later() -> None:
    store = MemoryStore()
    old = a_pool(store, forget_after=0)  # as an earlier version did by default
    for i in range(4):
        old.learn(a_batch(i, ["a", f"once {i}"]))
    pool = a_pool(store, forget_after=2)
    pool.restore(old.freeze()(Progress(4)), name="c")
    pool.learn(a_batch(4, ["a"]))
    assert len(pool.keys) == 5  # they count as silent from the restart on
    pool.learn(a_batch(5, ["a"]))
    assert pool.keys == ["a"]


def test_the_same_rows_are_refused_after_a_restart_at_any_batch() -> None:
    options = {
        "max_keys": 9,
        "max_rows": 2,
        "max_new_keys": 2,
        "tenant": "/",
        "max_tenant_keys": 3,
        "max_tenant_rows": 3,
        "forget_after": 2,
    }
    rng = np.random.default_rng(2)
    keys = [f"{tenant}/{i}" for tenant in "abcd" for i in range(5)]
    batches = [a_batch(i, rng.choice(keys, size=24).tolist()) for i in range(6)]
    store = MemoryStore()
    pool, over = a_pool(store, **options), set()
    for i, batch in enumerate(batches):
        again = a_pool(store, **options)
        again.restore(pool.freeze()(Progress(i)), name="c")
        expected, learned = pool.learn(batch), again.learn(batch)
        assert learned.block.rejects == expected.block.rejects
        assert learned.labels.tolist() == expected.labels.tolist()
        assert learned.over_quota == expected.over_quota
        over |= {*learned.over_quota}
        pool = again if i % 2 else pool
    assert over == {"max_keys", "max_new_keys", "max_rows", "max_tenant_keys", "max_tenant_rows"}


def test_a_pipeline_sends_rows_over_a_quota_to_the_dead_letters(tmp_path: Path) -> None:
    who = [("loud", "loud", "loud", f"random{i}", "a")[i % 5] for i in range(200)]
    rows = (json.dumps({"who": key, "x": i % 7, "y": i % 3}) for i, key in enumerate(who))
    (tmp_path / "rows.jsonl").write_text("".join(f"{row}\n" for row in rows))
    metrics = Metrics()

    def run(name: str, *stops: int | None) -> list[str]:
        folder = tmp_path / name
        folder.mkdir()
        for stop in stops:
            settings = {
                "source": {"kind": "file", "path": str(tmp_path / "rows.jsonl")},
                "schema": {"key": "who"},
                "sink": {"kind": "file", "path": str(folder / "labels.csv")},
                "dead_letters": {"kind": "file", "path": str(folder / "dead.csv")},
                "checkpoint": {"folder": str(folder / "state"), "batches": 2},
                "batch": {"rows": 40},
                "keys": {"max_rows": 9, "max_new_keys": 3},
                "model": {"n_jobs": 1},
            }
            emit = metrics.emit if name == "whole" else lambda event: None
            build(settings, emit=emit).run(until=stop)
        return [(folder / file).read_text() for file in ("labels.csv", "dead.csv")]

    labels, dead = run("whole", None)
    assert run("stopped", 1, 4, None) == [labels, dead]
    assert dead.count("key 'loud' has more rows in this batch than keys.max_rows = 9") == 5 * 15
    assert dead.count("keys.max_new_keys = 3") == 7 + 4 * 5
    assert labels.count(",a\n") == 40
    shown = metrics.exposition()[0].decode()
    assert 'scstream_over_quota_rows_total{option="max_rows"} 75.0' in shown
    assert 'scstream_over_quota_rows_total{option="max_keys"} 0.0' in shown
    assert "scstream_keys " in shown


@pytest.mark.parametrize(
    ("options", "detail"),
    [
        ({"max_new_keys": 0}, "keys.max_new_keys must be a whole number from 1"),
        ({"max_tenant_keys": "3"}, "whole number from 1"),
        ({"max_tenant_rows": True}, "whole number from 1"),
        ({"forget_after": -1}, "whole number from 0"),
        ({"tenant": ""}, "keys.tenant must be a text"),
        ({"tenant": 3}, "keys.tenant must be a text"),
    ],
)
def test_invalid_quotas_raise(options: dict[str, object], detail: str) -> None:
    with pytest.raises(InputError, match=detail):
        a_pool(MemoryStore(), **options)
