"""A batch on a cluster: labels, states and events of one process, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow
import pytest
import ray
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from scstream import ScStream
from scstream.compute.ray import RayExecutor
from scstream.compute.ray.crew import Crew
from scstream.core import slices
from scstream.datasets import drifting_gaussians, drifting_multinomials
from scstream.errors import EngineError, InputError
from tests.digests import digest

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture(autouse=True)
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many slices in few rows."""
    monkeypatch.setattr(slices, "_LEAST", 16)


@pytest.fixture(scope="module")
def executors(cluster: Any) -> Iterator[dict[Any, RayExecutor]]:
    """With 1, 2, 3 and 4 of the same workers, and one whose workers add up among themselves."""
    crew = Crew(n_workers=4, n_threads=2, options={}, deadline=60.0)
    made = {n: RayExecutor(least_rows=1) for n in (1, 2, 3, 4)}
    made["scattered"] = RayExecutor(least_rows=1, scatter_from=2)
    for n, executor in made.items():
        few = 3 if n == "scattered" else n
        executor._workers = lambda few=few: crew.muster()[:few]
    yield made
    crew.close()


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
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    seed=st.integers(0, 1000),
    n_rows=st.integers(30, 400),
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
    params = {"family": family, "algorithm": algorithm, "switches": {"start_sweeps": 5}}
    assert run(batches, executors[who], **params) == run(batches, None, **params)


@pytest.mark.parametrize("algorithm", ["default", "paper"])
def test_clusters_are_shared_out_too(cluster, algorithm):
    """Parameters, marginals and unions answered by workers, however few: the same bits."""
    batches = stream(3, 300)
    params = {"algorithm": algorithm, "switches": {"start_sweeps": 5}}
    asked: list[str] = []
    with RayExecutor(n_workers=2, n_threads=1, least_rows=1, least_work=1.0) as executor:
        everywhere = executor.everywhere
        executor.everywhere = lambda questions: asked.append("") or everywhere(questions)
        assert run(batches, executor, **params) == run(batches, None, **params)
    assert len(asked) > 4 * len(batches)


def test_rows_that_are_on_the_cluster_stay_there(executors, monkeypatch):
    """References to blocks of any size, of arrays and tables: the labels of one process."""
    rows = stream(5, 300)[0][0]
    cuts = np.sort(np.random.default_rng(0).integers(0, 300, size=4))
    blocks = [ray.put(part) for part in np.split(rows, cuts) if len(part)]
    plain = ScStream(random_state=0).partial_fit(rows).partial_fit(rows)
    model = ScStream(random_state=0, executor=executors[3])
    model.partial_fit(executors[3].rows(blocks))
    monkeypatch.setattr(
        "scstream.compute.ray.shards.ShardedRows.gathered", None
    )  # only the first batch comes here, for the prior
    model.partial_fit(executors[3].rows(blocks))
    assert len(model.labels_) == 300
    assert digest(model.labels_.gathered()) == digest(plain.labels_)
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


def test_bad_rows_are_refused_at_the_door(executors):
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


def test_small_batches_stay_here(cluster):
    with RayExecutor(n_workers=2) as executor:
        model = ScStream(random_state=0, executor=executor).partial_fit(stream(1, 300)[0][0])
        assert model.n_clusters_ > 1
        assert not executor._crew.workers


def test_a_deadline_says_what_to_do(cluster):
    with (
        RayExecutor(n_workers=1, least_rows=1, deadline=0.5, options={"num_cpus": 99}) as executor,
        pytest.raises(EngineError, match=r"1 of 1 workers did not answer within 0\.5 s"),
    ):
        ScStream(random_state=0, executor=executor).partial_fit(stream(1, 100)[0][0])
