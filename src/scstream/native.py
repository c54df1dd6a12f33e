"""The compiled twin of the kernels, where there is one.

The numpy kernels are the specification; compiled ones, built from `native/`, answer to the same
names with the same labels, only faster. Two environment variables choose, when this is imported:

``SCSTREAM_KERNELS``
    "auto" (the default) takes the compiled kernels if they are there, "native" insists on them,
    "numpy" leaves them alone.
``SCSTREAM_ISA``
    Instruction set of the compiled kernels, such as "avx2"; the best of this machine by default.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import ModuleType
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


class _Choice:
    """Which kernels are in use."""

    module: ModuleType | None = None


def compiled() -> ModuleType | None:
    """Return the compiled kernels if they are in use."""
    return _Choice.module


def twin(function: F) -> F:
    """Let the kernel of a family, the first argument, answer under the same name, if it can.

    The function itself is the specification. It also answers when the kernel refuses, as it does
    with a matrix that round-off made indefinite.
    """
    name = function.__name__

    @wraps(function)
    def answer(family: Any, *args: Any) -> Any:
        kernel = family.kernel
        compiled = None if kernel is None else getattr(kernel, name, None)
        if compiled is None:
            return function(family, *args)
        try:
            return compiled(*args)
        except _Choice.module.Refused:  # type: ignore[union-attr]
            return function(family, *args)

    return cast(F, answer)


def twin_function(function: F) -> F:
    """Let the compiled function of the same name answer; the function is its specification."""
    name = function.__name__

    @wraps(function)
    def answer(*args: Any) -> Any:
        native = _Choice.module
        return function(*args) if native is None else getattr(native, name)(*args)

    return cast(F, answer)


def in_use() -> str:
    """Return which kernels are in use: "numpy", or the instruction set of the compiled ones."""
    return "numpy" if _Choice.module is None else str(_Choice.module.isa())


def use(kernels: str) -> None:
    """Use, from now on, kernels that `in_use` named, here or in another process."""
    _Choice.module = _load("numpy" if kernels == "numpy" else "native")
    if _Choice.module is not None:
        _choose(_Choice.module, kernels)


class threads:
    """Let the kernels use up to `n` threads inside a ``with`` block, on work that is worth it."""

    def __init__(self, n: int) -> None:
        self._n = n

    def __enter__(self) -> None:
        if _Choice.module is not None:
            self._before = _Choice.module.set_threads(self._n)

    def __exit__(self, *exception: object) -> None:
        if _Choice.module is not None:
            _Choice.module.set_threads(self._before)


@contextmanager
def using(kernels: str) -> Iterator[None]:
    """Use "numpy" or "native" kernels inside a ``with`` block; for tests and measurements."""
    before = _Choice.module
    _Choice.module = _load(kernels)
    try:
        yield
    finally:
        _Choice.module = before


def _load(kernels: str) -> ModuleType | None:
    if kernels not in ("auto", "native", "numpy"):
        raise ImportError(f"SCSTREAM_KERNELS must be 'auto', 'native' or 'numpy', not {kernels!r}.")
    if kernels == "numpy":
        return None
    try:
        from scstream import _native
    except ImportError as error:
        if kernels == "native":
            raise ImportError(
                "the compiled kernels are not installed; install a wheel for this platform or a "
                "C++17 compiler, or unset SCSTREAM_KERNELS to use the numpy kernels."
            ) from error
        return None
    return _native


def _begin() -> None:
    _Choice.module = _load(os.environ.get("SCSTREAM_KERNELS", "auto"))
    wanted = os.environ.get("SCSTREAM_ISA")
    if _Choice.module is not None and wanted:
        _choose(_Choice.module, wanted)


def _choose(native: ModuleType, isa: str) -> None:
    if isa not in native.available():
        raise ImportError(
            f"the instruction set should be {isa!r}, but this machine and build offer "
            f"{', '.join(native.available())}; set SCSTREAM_ISA to one of them."
        )
    native.choose(isa)


_begin()
