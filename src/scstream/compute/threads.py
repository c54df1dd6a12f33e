"""Passes over the rows of a batch on the threads of this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from scstream.compute.rows import CompiledRows, LocalRows, NumpyRows, RemoteRows
from scstream.core.row_ranges import RowRange
from scstream.core.state import Batch
from scstream.errors import InputError
from scstream.families.base import Family

S = TypeVar("S")
T = TypeVar("T")


class _OneBlasThread:
    """Limit BLAS to one thread while anybody in this process is inside; then put it back.

    Sums of a matrix product depend in their last bits on how many threads share it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._before: list[int] = []

    @cached_property
    def _libraries(self) -> list[Any]:
        found = ThreadpoolController().lib_controllers
        return [library for library in found if library.user_api == "blas"]

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._before = [library.num_threads for library in self._libraries]
                self._set([1] * len(self._before))
            self._inside += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._set(self._before)

    def _set(self, n_threads: list[int]) -> None:
        for library, n in zip(self._libraries, n_threads, strict=True):
            library.set_num_threads(n)


one_blas_thread = _OneBlasThread()


@dataclass
class ThreadExecutor:
    """Slices of rows on a pool of threads; the reference that other executors must equal.

    Parameters
    ----------
    n_threads : int
        Threads to use; one by default.
    """

    n_threads: int = 1

    def load(self, family: Family, batch: Batch) -> LocalRows:
        """Take the rows of a batch in."""
        if isinstance(batch.rows, RemoteRows):
            raise InputError(
                "the rows are on a cluster, but threads of this process should learn them; give "
                "the model the executor that made them, or rows.gathered()."
            )
        return self.hold(family, batch, RowRange.full(batch.n_rows))

    def with_kernels(self, family: Family) -> Family:
        """Return the family as it is: its kernels use the threads of this process."""
        return family

    def hold(self, family: Family, batch: Batch, row_range: RowRange) -> LocalRows:
        """Take rows in that are a stretch of a batch."""
        kind = NumpyRows if family.kernel is None else CompiledRows
        return kind(self, family, batch, row_range)

    def map(self, function: Callable[[S], T], tasks: Sequence[S]) -> list[T]:
        """Apply a function to tasks, each on one thread of BLAS, results in their order."""
        with one_blas_thread:
            if self.n_threads == 1 or len(tasks) == 1:
                return [function(task) for task in tasks]
            with ThreadPoolExecutor(self.n_threads) as pool:
                return list(pool.map(function, tasks))
