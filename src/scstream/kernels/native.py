"""The compiled kernels, built from `native/`; `scstream.kernels.reference` specifies them."""

from __future__ import annotations

import os
from functools import cache
from types import ModuleType
from typing import Any

from scstream.errors import InputError
from scstream.kernels.reference import REFERENCE, Array, Ids, Kernels


class Native(Kernels):
    """Kernels that run compiled code.

    A compiled function raises `refused` where it cannot compute a result, for example for a matrix
    that rounding made indefinite. The reference then computes it.
    """

    def __init__(self, module: Any) -> None:
        self.module = module
        self.refused: type[Exception] = module.Refused

    @property
    def name(self) -> str:
        """Name of the instruction set in use."""
        return str(self.module.isa())

    def compile(self, family: Any) -> Any:
        """Return the compiled form of a family, or None if it has none."""
        # A subclass may have changed what the compiled form of its parent would do.
        if "compiled_by" not in vars(type(family)):
            return None
        return family.compiled_by(self.module)

    def threads(self, n: int) -> _Threads:
        """Return a context in which compiled code may use up to `n` threads."""
        return _Threads(self.module, n)

    def reader(self, family: Any, *mixture: Any) -> Any:
        """Return the compiled form of a mixture to predict with, or None if it has none."""
        return None if family.compiled is None else self.module.Reader(family.compiled, *mixture)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, ()

    def uniforms(self, key: int, index: Ids, counter: int | Ids = 0) -> Array:
        """See `Kernels.uniforms`."""
        return self.module.uniforms(key, index, counter)  # type: ignore[no-any-return]

    def normals(self, key: int, ids: Ids, counter: int, n: int) -> Array:
        """See `Kernels.normals`."""
        return self.module.normals(key, ids, counter, n)  # type: ignore[no-any-return]

    def log_gammas(self, key: int, ids: Ids, counter: int, shape: Array) -> Array:
        """See `Kernels.log_gammas`."""
        return self.module.log_gammas(key, ids, counter, shape)  # type: ignore[no-any-return]

    def log_mean_weights(self, counts: Array, alpha: float) -> tuple[Array, Array]:
        """See `Kernels.log_mean_weights`."""
        return self.module.log_mean_weights(counts, alpha)  # type: ignore[no-any-return]

    def sample_log_weights(
        self, counts: Array, alpha: float, key: int, ids: Ids
    ) -> tuple[Array, float, Array]:
        """See `Kernels.sample_log_weights`."""
        sample = self.module.sample_log_weights
        return sample(counts, alpha, key, ids)  # type: ignore[no-any-return]

    def log_odds_of_two(
        self,
        alpha: float,
        n_left: Array,
        n_right: Array,
        log_left: Array,
        log_right: Array,
        log_union: Array,
    ) -> Array:
        """See `Kernels.log_odds_of_two`."""
        odds = self.module.log_odds_of_two
        return odds(  # type: ignore[no-any-return]
            alpha, n_left, n_right, log_left, log_right, log_union
        )

    def neighbour_pairs(self, points: Array, n_neighbours: int) -> tuple[Ids, Ids]:
        """See `Kernels.neighbour_pairs`."""
        return self.module.neighbour_pairs(points, n_neighbours)  # type: ignore[no-any-return]

    def shrink(self, vectors: Array, stds: Array, noise: Array) -> Array:
        """See `Kernels.shrink`."""
        return self.module.shrink(vectors, stds, noise)  # type: ignore[no-any-return]


class _Threads:
    """Set the number of threads of compiled code, and restore it at the end."""

    def __init__(self, module: Any, n: int) -> None:
        self.module = module
        self._n = n

    def __enter__(self) -> None:
        self._before = self.module.set_threads(self._n)

    def __exit__(self, *exception: object) -> None:
        self.module.set_threads(self._before)


@cache
def load_native() -> Native | None:
    """Return the compiled kernels, None if they are not installed."""
    try:
        from scstream import _native
    except ImportError:
        return None
    isa = os.environ.get("SCSTREAM_ISA")
    if isa:
        _choose_isa(_native, isa)
    return Native(_native)


def select_isa(isa: str) -> None:
    """Use an instruction set by name in this process, such as the one that a Ray driver uses."""
    native = load_native()
    if native is None:
        raise InputError("the compiled kernels are not installed, so there is no instruction set.")
    _choose_isa(native.module, isa)


def available_isas() -> list[str]:
    """Return the instruction sets that the compiled kernels offer here, the best first."""
    native = load_native()
    return [] if native is None else native.module.available()


def _choose_isa(module: ModuleType | Any, isa: str) -> None:
    if isa not in module.available():
        raise InputError(
            f"the instruction set should be {isa!r}, but this machine and build offer "
            f"{', '.join(module.available())}; set SCSTREAM_ISA to one of them."
        )
    module.choose(isa)


def _restore() -> Kernels:
    """Kernels of a family that was pickled with compiled ones, perhaps in another environment."""
    return load_native() or REFERENCE
