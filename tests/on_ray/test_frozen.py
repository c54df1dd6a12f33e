"""Streams learned on a cluster give the rows of the table that one process gave."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from scstream.distributed import RayExecutor
from tests.frozen.digests import KERNELS
from tests.frozen.streams import ON_RAY
from tests.frozen.test_frozen import check


@pytest.fixture(scope="module")
def executor(cluster: Any) -> Iterator[RayExecutor]:
    with RayExecutor(n_workers=2, n_jobs=1, min_rows=1, min_work=1.0) as running:
        yield running


@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize("name", ON_RAY)
def test_stream_on_ray_is_as_it_was(executor: RayExecutor, name: str, kernels: str) -> None:
    check(name, kernels, executor=executor)
    assert executor._pool.workers  # the rows did not stay here
