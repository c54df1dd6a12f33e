"""Distributed computations per cluster, for many features.

Parameters, marginals and merge proposals cost K D³. Each cluster is independent, and its random
numbers depend on its id only, so any worker can compute any cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from scstream.distributed.engine import put
from scstream.distributed.shards import Caller
from scstream.distributed.worker_pool import WorkerCall
from scstream.families.base import Array, Family, Labels
from scstream.kernels.native import Native

# Arguments of a kernel function that have one row per cluster.
_BY_CLUSTER = {
    "sample_cluster_params": (0, 1),
    "log_marginal": (0,),
    "log_split_ratio": (1, 2),
    "predictive_params": (0,),
}


def with_kernels(family: Family, caller: Caller, *, n_parts: int, min_work: float) -> Family:
    """Return the family with kernels that distribute large computations."""
    kernels = family.kernels
    if family.compiled is None or not isinstance(kernels, Native):
        return family
    compiled = DistributedFamily(family, caller, n_parts=n_parts, min_work=min_work)
    return family.with_kernels(DistributedKernels(kernels, compiled))


class DistributedKernels(Native):
    """Native kernels; workers do a part of the computations per cluster."""

    def __init__(self, kernels: Native, compiled: DistributedFamily) -> None:
        super().__init__(kernels.module)
        self._compiled = compiled

    def compile(self, family: Any) -> Any:
        """Return the compiled form of the family."""
        return self._compiled


class DistributedFamily:
    """The compiled form of a family; large calls are split among the workers."""

    def __init__(self, family: Family, caller: Caller, *, n_parts: int, min_work: float) -> None:
        self._family = family
        self._kernel = family.compiled
        self._caller = caller
        self._n_parts = n_parts
        self._min_clusters = max(min_work / family.n_features**3, 2)

    @cached_property
    def _reference(self) -> Any:
        return put(self._family)

    def __getattr__(self, name: str) -> Any:
        local = getattr(self._kernel, name)
        if name in _BY_CLUSTER:
            return partial(self._by_cluster, name, local)
        if name == "log_marginal_of_unions":
            return partial(self._unions, local)
        return partial(self._likely_unions, local) if name == "likely_unions" else local

    def _by_cluster(self, name: str, local: Callable[..., Any], *args: Any) -> Any:
        by_cluster = _BY_CLUSTER[name]
        n = len(args[by_cluster[0]])
        if args[by_cluster[0]].ndim < 2 or n < self._min_clusters:
            return local(*args)
        parts = np.array_split(np.arange(n), min(self._n_parts, n))
        arguments = [
            [arg[part[0] : part[-1] + 1] if i in by_cluster else arg for i, arg in enumerate(args)]
            for part in parts
        ]
        return _concatenated(self._call(name, arguments))

    def _unions(self, local: Callable[..., Any], stats: Array, *pairs: Labels) -> Any:
        n = len(pairs[0])
        if n < self._min_clusters:
            return local(stats, *pairs)
        arguments = []
        for part in np.array_split(np.stack(pairs), min(self._n_parts, n), axis=1):
            used, inverse = np.unique(part, return_inverse=True)
            first, second = inverse.reshape(part.shape)
            arguments.append([stats[used], first, second])
        return np.concatenate(self._call("log_marginal_of_unions", arguments))

    def _likely_unions(self, local: Callable[..., Any], *args: Any) -> Any:
        if len(args[1]) < self._min_clusters:
            return local(*args)
        # The caller then computes marginals and unions one by one, which are distributed.
        raise self._family.kernels.refused

    def _call(self, name: str, arguments: Sequence[list[Any]]) -> list[Any]:
        def request(args: list[Any]) -> WorkerCall:
            return lambda worker: worker.call_kernel.remote([self._reference], name, args)

        return self._caller.call_any([request(args) for args in arguments])


def _concatenated(results: list[Any]) -> Any:
    if isinstance(results[0], tuple):
        return tuple(np.concatenate(column) for column in zip(*results, strict=True))
    return np.concatenate(results)
