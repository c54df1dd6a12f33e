"""Exemplars on a cluster are those of one process."""

from __future__ import annotations

import numpy as np
import pytest
import ray

from scstream import ScStream
from scstream.distributed import RayExecutor
from tests.exemplars.test_exemplars import values

pytestmark = pytest.mark.usefixtures("cluster")


def test_any_number_of_workers_and_blocks_gives_the_same() -> None:
    rng = np.random.default_rng(0)
    batches = [
        rng.normal(size=(3000, 3)) + 15.0 * rng.integers(3, size=(3000, 1)) for _ in range(3)
    ]
    ids = np.arange(3000)
    alone = ScStream("gaussian", random_state=0, exemplars=4)
    for rows in batches:
        alone.partial_fit(rows, ids=ids)
    for n_workers in (1, 3):
        with RayExecutor(n_workers=n_workers, n_jobs=1, min_rows=0) as executor:
            model = ScStream("gaussian", random_state=0, exemplars=4, executor=executor)
            for rows in batches:
                parts = [ray.put(part) for part in np.array_split(rows, n_workers + 1)]
                model.partial_fit(executor.rows(parts), ids=ids)
            assert values(model) == values(alone)
