"""A batch on a cluster: labels, states and events of one process, bit for bit."""

from __future__ import annotations

import copy
import pickle
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow
import pytest
import ray
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from scstream import ScStream
from scstream.compute.rows import LocalRows
from scstream.compute.threads import ThreadExecutor
from scstream.core import default, row_ranges
from scstream.core.assign import AssignmentParams
from scstream.core.state import Batch
from scstream.core.sweep import mean_params
from scstream.datasets import drifting_gaussians, drifting_multinomials
from scstream.distributed import RayExecutor
from scstream.distributed.ray_rows import RaySample, nearest_workers
from scstream.distributed.worker import BlockSlice
from scstream.distributed.worker_pool import WorkerPool
from scstream.errors import EngineError, InputError, PartsLost
from scstream.families import Gaussian
from scstream.kernels import kernels_in_use
from tests.digests import digest
from tests.on_ray.failures import eventually

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture(autouse=True)
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many slices in few rows, and samples of large batches."""
    monkeypatch.setattr(row_ranges, "_TYPICAL", 16)
    monkeypatch.setattr(default, "_MAX_SAMPLED", 64)


@dataclass
class Some:
    """The first workers of a pool."""

    pool: WorkerPool
    n: int

    def __getattr__(self, name: str) -> Any:
        return getattr(self.pool, name)

    def refresh(self) -> list[Any]:
        return self.pool.refresh()[: self.n]


@pytest.fixture(scope="module")
def executors(cluster: Any) -> Iterator[dict[Any, RayExecutor]]:
    """With 1, 2, 3 and 4 of the same workers, and one whose workers add up among themselves.

    With 2 and 3 workers and with the last, samples stay on the workers, which have more threads.
    """
    pool = WorkerPool(None, n_workers=4, n_jobs=2, options={})
    made = {n: RayExecutor(min_rows=1) for n in (1, 2, 3, 4)}
    made["scattered"] = RayExecutor(min_rows=1, scatter_from=2)
    for n, executor in made.items():
        executor._pool = Some(pool, 3 if n == "scattered" else n)
        executor.threads = ThreadExecutor(8 if n in (1, 4) else 1)
    yield made
    pool.close()


def run(batches: list[Any], executor: Any, **params: Any) -> Any:
    """Everything that a model says and knows."""
    model = ScStream(random_state=0, executor=executor, **params)
    said = []
    for rows, weight in batches:
        model.partial_fit(rows, sample_weight=weight)
        said.append([np.asarray(model.labels_), model.events_, model.info_])
    return digest([said, model.state_])


def stream(seed: int, n_rows: int, *, kind: str = "gaussian", weighted: bool = False) -> list[Any]:
    rng = np.random.default_rng(seed)
    choices = {"n_batches": 4, "batch_size": n_rows, "random_state": seed}
    if kind == "gaussian":
        made = [batch.X for batch in drifting_gaussians(4, 3, **choices)]
    else:
        made = [batch.X for batch in drifting_multinomials(4, 6, **choices)]
    if kind == "sparse":
        made = [sparse.csr_array(rows) for rows in made]
    return [(rows, rng.random(rows.shape[0]) if weighted else None) for rows in made]


@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    seed=st.integers(0, 1000),
    n_rows=st.integers(30, 200),
    kind=st.sampled_from(["gaussian", "counts", "sparse"]),
    weighted=st.booleans(),
    algorithm=st.sampled_from(["default", "paper"]),
    who=st.sampled_from([1, 2, 3, 4, "scattered"]),
)
def test_any_number_of_workers_gives_the_bits_of_one_process(
    executors, seed, n_rows, kind, weighted, algorithm, who
):
    batches = stream(seed, n_rows, kind=kind, weighted=weighted)
    family = "gaussian" if kind == "gaussian" else "multinomial"
    params = {"family": family, "algorithm": algorithm}
    assert run(batches, executors[who], **params) == run(batches, None, **params)


@pytest.mark.parametrize("algorithm", ["default", "paper"])
def test_computations_per_cluster_are_distributed(cluster, algorithm):
    """Parameters, marginals and unions answered by workers, however few: the same bits."""
    batches = stream(3, 300)
    params = {"algorithm": algorithm}
    calls: list[str] = []
    with RayExecutor(n_workers=2, n_jobs=1, min_rows=1, min_work=1.0) as executor:
        call_any = executor.call_any
        executor.call_any = lambda requests: calls.append("") or call_any(requests)
        assert run(batches, executor, **params) == run(batches, None, **params)
    assert len(calls) > 4 * len(batches)


def test_rows_that_are_on_the_cluster_stay_there(executors, monkeypatch):
    """References to blocks of any size, of arrays and tables: the labels of one process."""
    rows = stream(5, 300)[0][0]
    cuts = np.sort(np.random.default_rng(0).integers(0, 300, size=4))
    blocks = [ray.put(part) for part in np.split(rows, cuts) if len(part)]
    plain = ScStream(random_state=0).partial_fit(rows).partial_fit(rows)
    model = ScStream(random_state=0, executor=executors[3])
    model.partial_fit(executors[3].rows(blocks))
    monkeypatch.setattr(
        "scstream.distributed.shards.ShardedRows.gathered", None
    )  # only the first batch comes here, for the prior
    model.partial_fit(executors[3].rows(blocks))
    assert len(model.labels_) == 300
    assert digest(model.labels_) == digest(plain.labels_)
    assert digest([model.state_, model.events_]) == digest([plain.state_, plain.events_])


def test_a_dataset_is_learned_where_it_is_and_gets_its_labels(executors):
    import ray.data

    rows = stream(6, 200)[0][0]
    table = pyarrow.table({name: rows[:, i] for i, name in enumerate("abc")} | {"who": range(200)})
    blocks = [table.slice(start, length) for start, length in ((0, 30), (30, 131), (161, 39))]
    taken = executors[3].rows(ray.data.from_arrow(blocks), columns=["a", "b", "c"])
    model = ScStream(random_state=0, executor=executors[3]).partial_fit(taken)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    labelled = taken.labelled(model.labels_, name="cluster").to_pandas().sort_values("who")
    plain = ScStream(random_state=0).partial_fit(rows)
    np.testing.assert_array_equal(labelled["cluster"], plain.labels_)
    np.testing.assert_array_equal(labelled[["a", "b", "c"]], rows)


def test_invalid_rows_raise(executors):
    executor = executors[2]
    good, bad = np.ones((5, 2)), np.array([[1.0, np.nan]])
    model = ScStream(random_state=0, executor=executor).partial_fit(stream(2, 40)[0][0][:, :2])
    before = digest(model.state_)
    with pytest.raises(InputError, match="NaN"):
        model.partial_fit(executor.rows([ray.put(good), ray.put(bad)]))
    assert digest(model.state_) == before
    with pytest.raises(InputError, match="block 1 has other columns"):
        executor.rows([ray.put(good), ray.put(np.ones((5, 3)))])
    with pytest.raises(InputError, match="no column 'z'"):
        executor.rows([ray.put(pyarrow.table({"a": [1.0]}))], columns=["z"])
    with pytest.raises(InputError, match="references"):
        executor.rows([good])


def test_small_batches_stay_in_this_process(cluster):
    with RayExecutor(n_workers=2) as executor:
        model = ScStream(random_state=0, executor=executor).partial_fit(stream(1, 300)[0][0])
        assert model.n_clusters_ > 1
        assert not executor._pool.workers


def test_a_missed_deadline_raises(cluster):
    with (
        RayExecutor(n_workers=1, min_rows=1, deadline=0.5, options={"num_cpus": 99}) as executor,
        pytest.raises(EngineError, match=r"1 of 1 workers did not answer within 0\.5 s"),
    ):
        ScStream(random_state=0, executor=executor).partial_fit(stream(1, 100)[0][0])


def test_workers_use_the_kernels_of_the_driver(cluster, monkeypatch):
    """Whatever their own environment says; other kernels have other last bits."""
    batches = stream(4, 100)
    other = {"runtime_env": {"env_vars": {"SCSTREAM_ISA": "portable"}}}
    with RayExecutor(n_workers=1, min_rows=1, min_work=1.0, options=other) as executor:
        assert run(batches, executor) == run(batches, None)
        assert [kernels for _, kernels in executor._pool.workers] == [kernels_in_use()]
        monkeypatch.setenv("SCSTREAM_KERNELS", "numpy")
        assert run(batches, executor) == run(batches, None)
        assert [kernels for _, kernels in executor._pool.workers] == ["numpy"]


def test_families_without_kernel(executors):
    batches = stream(4, 100)
    family = [("gaussian", [0, 1]), ("diagonal", [2])]
    assert run(batches, executors[3], family=family) == run(batches, None, family=family)


def test_a_worker_that_cannot_start_is_an_error_at_once(cluster, monkeypatch):
    monkeypatch.setattr("scstream.distributed.worker_pool.kernels_in_use", lambda: "abacus")
    rows = stream(1, 100)[0][0]
    began = time.monotonic()
    with RayExecutor(n_workers=1, min_rows=1) as executor:
        with pytest.raises(EngineError, match=r"cannot start .* should be 'abacus', but"):
            ScStream(random_state=0, executor=executor).partial_fit(rows)
        assert time.monotonic() - began < 60.0
        monkeypatch.undo()
        ScStream(random_state=0, executor=executor).partial_fit(rows)


def test_dead_workers_are_replaced(cluster):
    batches = stream(2, 100)
    with RayExecutor(n_workers=2, min_rows=1, deadline=60.0) as executor:
        assert run(batches, executor) == run(batches, None)
        for worker in executor._pool.workers.values():
            ray.kill(worker)
        assert run(batches, executor) == run(batches, None)


def test_lost_parts_are_computed_again(executors, monkeypatch):
    batches = stream(2, 200)
    call_any, n = RayExecutor.call_any, 0

    def forgetful(self: RayExecutor, requests: Any) -> Any:
        nonlocal n
        n += 1
        if n % 3 == 0:
            raise PartsLost("a node is gone")
        return call_any(self, requests)

    monkeypatch.setattr(RayExecutor, "call_any", forgetful)
    assert run(batches, executors["scattered"]) == run(batches, None)
    assert n > 6


def test_models_in_several_threads_share_the_workers(executors):
    streams = [stream(seed, 200, weighted=True) for seed in range(3)]
    alone = [run(batches, None) for batches in streams]
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(lambda batches: run(batches, executors[3]), streams)) == alone


def test_a_batch_that_fails_leaves_nothing_on_the_workers(cluster, monkeypatch):
    rows = stream(2, 100)[0][0]
    with RayExecutor(n_workers=1, min_rows=1) as executor:
        model = ScStream(random_state=0, executor=executor).partial_fit(rows)
        before, (worker,) = digest(model.state_), executor._pool.workers.values()
        n_loaded = lambda: ray.get(worker.__ray_call__.remote(lambda self: len(self._loaded)))  # noqa: E731
        seen = []

        def interrupted(*args: Any) -> None:
            seen.append(n_loaded())
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr("scstream.distributed.ray_rows.add_row_ranges", interrupted)
            with pytest.raises(KeyboardInterrupt):
                model.partial_fit(rows)
        assert (seen, n_loaded()) == ([1], 0)
        assert digest(model.state_) == before
        model.partial_fit(rows)


def test_copies_of_executors(cluster):
    rows = stream(5, 100)[0][0]
    with RayExecutor(n_workers=1, min_rows=1) as executor:
        model = ScStream(random_state=0, executor=executor).partial_fit(rows)
        assert copy.deepcopy(model).executor is executor
        other = pickle.loads(pickle.dumps(model))
        assert not other.executor._pool.workers
        assert len(executor._pool.workers) == 1
        with other.executor:
            other.partial_fit(rows)


def test_with_an_explicit_prior_rows_are_never_copied_to_the_driver(executors, monkeypatch):
    rows = stream(5, 100)[0][0]
    monkeypatch.setattr("scstream.distributed.shards.ShardedRows.gathered", None)
    family = Gaussian(np.zeros(3), 1.0, 5.0, np.eye(3))
    model = ScStream(family, random_state=0, executor=executors[2])
    model.partial_fit(executors[2].rows([ray.put(rows)]))
    plain = ScStream(family, random_state=0).partial_fit(rows)
    assert digest(model.state_) == digest(plain.state_)


def test_sparse_blocks_are_made_canonical(executors):
    """Unsorted columns, and entries in two pieces."""
    dense = stream(5, 60, kind="counts")[0][0]
    data, columns = np.repeat(dense[:, ::-1] / 2, 2, axis=1), np.repeat(np.arange(6)[::-1], 2)
    whole = np.arange(61) * 12
    blocks = [sparse.csr_matrix((data.ravel(), np.tile(columns, 60), whole), shape=(60, 6))]
    taken = executors[2].rows([ray.put(block) for block in blocks])
    model = ScStream("multinomial", random_state=0, executor=executors[2]).partial_fit(taken)
    plain = ScStream("multinomial", random_state=0).partial_fit(sparse.csr_array(dense))
    assert digest(model.state_) == digest(plain.state_)
    with pytest.raises(InputError, match="needs dense rows"):
        ScStream("gaussian", random_state=0, executor=executors[2]).partial_fit(taken)


def test_blocks_without_rows_are_left_out(executors):
    import ray.data

    rows = stream(6, 60)[0][0]
    table = pyarrow.table({name: rows[:, i] for i, name in enumerate("abc")})
    blocks = [ray.put(block) for block in (pyarrow.table({}), table, table.slice(0, 0))]
    taken = executors[2].rows(blocks, columns=["a", "b"])
    assert taken.shape == (60, 2)
    model = ScStream(random_state=0, executor=executors[2]).partial_fit(taken)
    assert taken.labelled(model.labels_).count() == 60
    frames = executors[2].rows([ray.put(table.to_pandas())], columns=["a", "b"])
    assert frames.labelled(model.labels_).count() == 60
    with pytest.raises(InputError, match="no rows"):
        ScStream(executor=executors[2]).partial_fit(executors[2].rows([ray.put(np.ones((0, 2)))]))


def test_unsupported_uses_of_remote_rows_raise(executors):
    rows = stream(6, 60)[0][0]
    taken = executors[2].rows([ray.put(rows)])
    model = ScStream(random_state=0, executor=executors[2]).partial_fit(taken)
    with pytest.raises(InputError, match="not predict them"):
        model.predict(taken)
    with pytest.raises(InputError, match="give the model the executor"):
        ScStream(random_state=0).partial_fit(taken)
    with pytest.raises(InputError, match="only tables"):
        taken.labelled(model.labels_)
    with pytest.raises(InputError, match="columns of tables"):
        executors[2].rows([ray.put(rows)], columns=["a"])
    with pytest.raises(InputError, match="not numbers"):
        executors[2].rows([ray.put(pyarrow.table({"a": ["x"]}))])


@dataclass
class Learned:
    """A model, what rows are compared with next, and the next batch."""

    model: Any
    params: AssignmentParams
    batch: Batch

    def assigned(self, loaded: Any) -> list[Any]:
        """Return everything that a pass over loaded rows gives."""
        sums = loaded.assign(self.params).packed()
        ids = np.arange(2 * len(self.params.clusters)).reshape(-1, 2)
        return [sums, loaded.novel(20, 5), loaded.labels(ids)]

    def expected(self) -> list[Any]:
        return self.assigned(ThreadExecutor().load(self.model.family_, self.batch))


@pytest.fixture
def learned() -> Learned:
    (first, _), (second, weight), *_ = stream(1, 300, weighted=True)
    model = ScStream(random_state=0).partial_fit(first)
    params = mean_params(model.family_, model.config_, model.state_, model.state_, births=True)
    return Learned(model, params, Batch(second, 1.0, weight))


def remote(executor: RayExecutor, batch: Batch) -> Batch:
    """The same batch with rows on the cluster, in blocks of unequal lengths."""
    blocks = [ray.put(part) for part in np.split(batch.rows, [40, 41, 170])]
    return Batch(executor.rows(blocks), batch.time, batch.weight)


@pytest.mark.parametrize("who", [1, 2, 3, 4, "scattered"])
@pytest.mark.parametrize("is_remote", [False, True])
def test_a_sample_is_taken_where_there_are_threads(executors, learned, who, is_remote):
    executor, family = executors[who], learned.model.family_
    batch = remote(executor, learned.batch) if is_remote else learned.batch
    here, scale = ThreadExecutor().load(family, learned.batch).sample(64, 9)
    loaded = executor.load(family, batch)
    sample, same_scale = loaded.sample(64, 9)
    assert isinstance(sample, LocalRows if who in (1, 4) else RaySample)
    assert scale == same_scale
    assert digest(learned.assigned(sample)) == digest(learned.assigned(here))


def test_a_lost_sample_is_taken_again(executors, learned):
    loaded = executors[3].load(learned.model.family_, learned.batch)
    here, _ = ThreadExecutor().load(learned.model.family_, learned.batch).sample(64, 9)
    sample, _ = loaded.sample(64, 9)
    slices = (BlockSlice(lost_object(), 0, 64),)
    sample._shards = [replace(shard, slices=slices) for shard in sample._shards]
    assert digest(learned.assigned(sample)) == digest(learned.assigned(here))


def lost_object() -> Any:
    """Return a reference to an object whose owner has ended."""
    owner = ray.remote(Owner).options(num_cpus=0).remote()
    (lost,) = ray.get(owner.make.remote())
    ray.kill(owner)

    def is_lost() -> bool:
        try:
            ray.get(lost)
        except ray.exceptions.ObjectLostError:
            return True
        return False

    assert eventually(is_lost, 120.0)
    return lost


class Owner:
    """An actor that owns an object."""

    def make(self) -> list[Any]:
        return [ray.put(np.zeros(1_000_000))]


@pytest.mark.parametrize("n_workers", [1, 2])
def test_workers_that_are_killed_amid_a_batch_get_their_rows_again(cluster, learned, n_workers):
    expected = learned.expected()
    with RayExecutor(n_workers=n_workers, min_rows=1, deadline=120.0) as executor:
        loaded = executor.load(learned.model.family_, remote(executor, learned.batch))
        loaded.assign(learned.params)
        for worker in executor._pool.workers.values():
            ray.kill(worker, no_restart=False)
        assert digest(learned.assigned(loaded)) == digest(expected)


def test_a_shard_is_sent_once(executors, learned, monkeypatch):
    calls: list[str] = []
    call = ray.actor.ActorHandle._actor_method_call

    def noted(self: Any, method: str, *args: Any, **options: Any) -> Any:
        calls.append(method)
        return call(self, method, *args, **options)

    monkeypatch.setattr(ray.actor.ActorHandle, "_actor_method_call", noted)
    loaded = executors[2].load(learned.model.family_, learned.batch)
    for _ in range(3):
        loaded.assign(learned.params)
    assert calls == ["load", "sums"] * 2 + ["sums"] * 4


def test_shards_go_to_the_workers_that_store_most_of_their_rows():
    slices = [
        (BlockSlice("a", 0, 10), BlockSlice("b", 0, 30)),
        (BlockSlice("b", 30, 40), BlockSlice("c", 0, 20)),
        (BlockSlice("d", 0, 30),),
    ]
    stored_at = {"a": "y", "b": "x", "c": "x", "d": None}
    assert nearest_workers(slices, ["x", "y", "z"], stored_at) == ["y", "x", "z"]
    assert nearest_workers(slices, ["x", "y", "z"], {}) == ["x", "y", "z"]
    assert nearest_workers(slices[:2], ["x", "y", "z"], stored_at | {"a": "x", "c": "z"}) == [
        "x",
        "z",
    ]


def test_a_state_does_not_live_in_the_object_store(executors):
    """What Ray returns is a view of its store, which is gone when the driver leaves the cluster."""
    model = ScStream(random_state=0).partial_fit(stream(1, 200)[0][0])
    rows = Batch(stream(1, 16)[1][0], 1.0)
    loaded = executors[1].load(model.family_, rows)
    found = loaded.assign(
        mean_params(model.family_, model.config_, model.state_, model.state_, births=True)
    )
    assert found.stats.flags.writeable
