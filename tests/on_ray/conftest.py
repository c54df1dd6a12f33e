"""One cluster for all tests of this folder."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.on_ray.cluster import Cluster


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not os.environ.get("SCSTREAM_OWN_NETWORK"):
        why = "Ray listens on all addresses: run `python -m tests.on_ray`, as .ci/run does"
        for item in items:
            if "on_ray" in item.path.parts:
                item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A head node with four processors; this process is its driver."""
    with Cluster() as running:
        running.connect()
        yield running
