"""Choose what runs the passes: threads of this process or the workers of a cluster."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, cast

import numpy as np

from scstream.compute.threads import ThreadExecutor
from scstream.core.assign import Executor
from scstream.errors import InputError
from scstream.machine import usable_cores


def thread_executor(n_jobs: Any) -> ThreadExecutor:
    """Return the executor with so many threads; as in scikit-learn, -1 is one per core."""
    if n_jobs is None:
        return _shared_executor(1)
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs == 0:
        raise InputError(
            f"n_jobs must be a whole number other than 0, or None for one thread, got {n_jobs!r}."
        )
    return _shared_executor(int(n_jobs) if n_jobs > 0 else max(usable_cores() + 1 + n_jobs, 1))


def choose_executor(executor: Any, n_jobs: Any) -> Executor:
    """Return what runs the passes: threads, the workers of a Ray cluster, or a given executor."""
    if executor is None or executor == "threads":
        return thread_executor(n_jobs)
    if executor == "ray":
        return _shared_ray_executor()
    if callable(getattr(executor, "load", None)) and not isinstance(executor, type):
        return cast(Executor, executor)
    raise InputError(
        f"executor must be 'threads', 'ray' or an executor such as RayExecutor(), got {executor!r}."
    )


@cache
def _shared_executor(n_threads: int) -> ThreadExecutor:
    """Thousands of models share one executor: finding the BLAS libraries takes milliseconds."""
    return ThreadExecutor(n_threads)


@cache
def _shared_ray_executor() -> Executor:
    executor: Executor = import_module("scstream.distributed.executor").RayExecutor()
    return executor
