"""Work on clusters, not on rows, shared out too where there are many large matrices.

Parameters, marginals and unions of clusters cost K D³. Every cluster is a matter of its own, with
random numbers by its id, so that it does not matter who answers for which.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from scstream.distributed.engine import put
from scstream.distributed.shards import Asks
from scstream.families.base import Array, Family, Labels
from scstream.kernels.native import Native

# Which arguments of a kernel have one row per cluster.
_BY_CLUSTER = {
    "sample_cluster_params": (0, 1),
    "log_marginal": (0,),
    "log_split_ratio": (1, 2),
    "predictive_params": (0,),
}


def with_kernels(family: Family, asks: Asks, *, n_parts: int, least: float) -> Family:
    """Return the family with a kernel that lets workers answer what is large."""
    kernels = family.kernels
    if family.compiled is None or not isinstance(kernels, Native):
        return family
    return family.with_kernels(RemoteKernels(kernels, family, asks, n_parts=n_parts, least=least))


class RemoteKernels(Native):
    """Compiled kernels, some of whose work on clusters is done by workers."""

    def __init__(
        self, kernels: Native, family: Family, asks: Asks, *, n_parts: int, least: float
    ) -> None:
        super().__init__(kernels.module)
        self._remote = SpreadKernel(family, asks, n_parts=n_parts, least=least)

    def compile(self, family: Any) -> Any:
        """Return the compiled form of the family that computes on workers, too."""
        return self._remote


class SpreadKernel:
    """The compiled form of a family, with help from workers."""

    def __init__(self, family: Family, asks: Asks, *, n_parts: int, least: float) -> None:
        self._family = family
        self._kernel = family.compiled
        self._asks = asks
        self._n_parts = n_parts
        self._least_groups = least / family.n_features**3

    @cached_property
    def _reference(self) -> Any:
        return put(self._family)

    def __getattr__(self, name: str) -> Any:
        here = getattr(self._kernel, name)
        if name in _BY_CLUSTER:
            return partial(self._by_cluster, name, here)
        if name == "log_marginal_of_unions":
            return partial(self._unions, here)
        return partial(self._likely_unions, here) if name == "likely_unions" else here

    def _by_cluster(self, name: str, here: Callable[..., Any], *args: Any) -> Any:
        cut = _BY_CLUSTER[name]
        n = len(args[cut[0]])
        if args[cut[0]].ndim < 2 or n < max(self._least_groups, 2):
            return here(*args)
        parts = np.array_split(np.arange(n), min(self._n_parts, n))
        sampled = [
            [arg[part[0] : part[-1] + 1] if i in cut else arg for i, arg in enumerate(args)]
            for part in parts
        ]
        return _joined(self._ask(name, sampled))

    def _unions(self, here: Callable[..., Any], stats: Array, *pairs: Labels) -> Any:
        n = len(pairs[0])
        if n < max(self._least_groups, 2):
            return here(stats, *pairs)
        sampled = []
        for part in np.array_split(np.stack(pairs), min(self._n_parts, n), axis=1):
            used, inverse = np.unique(part, return_inverse=True)
            first, second = inverse.reshape(part.shape)
            sampled.append([stats[used], first, second])
        return np.concatenate(self._ask("log_marginal_of_unions", sampled))

    def _likely_unions(self, here: Callable[..., Any], *args: Any) -> Any:
        if len(args[1]) < max(self._least_groups, 2):
            return here(*args)
        # The specification asks for marginals and unions one by one, and these are shared out.
        raise self._family.kernels.refused

    def _ask(self, name: str, arguments: Sequence[list[Any]]) -> list[Any]:
        def question(args: list[Any]) -> Callable[[Any], Any]:
            return lambda worker: worker.answer.remote([self._reference], name, args)

        return self._asks.everywhere([question(args) for args in arguments])


def _joined(answers: list[Any]) -> Any:
    if isinstance(answers[0], tuple):
        return tuple(np.concatenate(column) for column in zip(*answers, strict=True))
    return np.concatenate(answers)
