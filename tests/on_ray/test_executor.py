"""A batch on a cluster: labels, states and events of one process, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from scstream import ScStream
from scstream.compute.ray import RayExecutor
from scstream.core import slices
from scstream.datasets import drifting_gaussians, drifting_multinomials
from tests.digests import digest

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture(autouse=True)
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many slices in few rows."""
    monkeypatch.setattr(slices, "_LEAST", 16)


@pytest.fixture(scope="module")
def executors(cluster: Any) -> Iterator[dict[Any, RayExecutor]]:
    """One of 1, 2, 3 and 4 workers each, and one whose workers add up among themselves."""
    made: dict[Any, RayExecutor] = {
        n: RayExecutor(n_workers=n, n_threads=1 + n % 2, least_rows=1) for n in (1, 2, 3, 4)
    }
    made["scattered"] = RayExecutor(n_workers=3, n_threads=1, least_rows=1, scatter_from=2)
    yield made
    for executor in made.values():
        executor.close()


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
