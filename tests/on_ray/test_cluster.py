"""The cluster that the tests share is what it is taken for."""

from __future__ import annotations

import time

import ray

from tests.on_ray.cluster import Cluster, alive


def test_nodes_come_and_go(cluster: Cluster):
    assert len(alive()) == 1
    node = cluster.add_node()
    assert ray.cluster_resources()["CPU"] == 5
    node.kill()
    deadline = time.monotonic() + 30
    while len(alive()) > 1:
        assert time.monotonic() < deadline
        time.sleep(0.1)
