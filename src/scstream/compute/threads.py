"""Assignment passes on the threads of this process."""

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
    """Limit BLAS to one thread while any thread of this process is inside; then restore it.

    The last bits of a matrix product depend on the number of BLAS threads.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._before: list[tuple[Any, int]] = []

    @cached_property
    def _libraries(self) -> list[Any]:
        found = ThreadpoolController().lib_controllers
        return [library for library in found if library.user_api == "blas"]

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                threads = [(library, library.num_threads) for library in self._libraries]
                self._before = [(library, n) for library, n in threads if n != 1]
                for library, _ in self._before:
                    library.set_num_threads(1)
            self._inside += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                for library, n in self._before:
                    library.set_num_threads(n)


one_blas_thread = _OneBlasThread()


@dataclass
class ThreadExecutor:
    """Run passes on threads of this process. Other executors must give the same results.

    Parameters
    ----------
    n_threads : int
        Threads to use; one by default.
    """

    n_threads: int = 1

    def load(self, family: Family, batch: Batch) -> LocalRows:
        """Load the rows of a batch."""
        if isinstance(batch.rows, RemoteRows):
            raise InputError(
                "the rows are on a Ray cluster, but the model runs on threads of this process; "
                "give the model the executor that loaded the rows, or pass rows.gathered()."
            )
        return self.hold(family, batch, RowRange.full(batch.n_rows))

    def with_kernels(self, family: Family) -> Family:
        """Return the family as it is: its kernels use the threads of this process."""
        return family

    def hold(self, family: Family, batch: Batch, row_range: RowRange) -> LocalRows:
        """Load rows that are a range of a batch."""
        kind = NumpyRows if family.compiled is None else CompiledRows
        return kind(self, family, batch, row_range)

    def map(self, function: Callable[[S], T], tasks: Sequence[S]) -> list[T]:
        """Apply a function to tasks, each with one BLAS thread; results in the order of tasks."""
        with one_blas_thread:
            if self.n_threads == 1 or len(tasks) == 1:
                return [function(task) for task in tasks]
            with ThreadPoolExecutor(self.n_threads) as pool:
                return list(pool.map(function, tasks))
