"""How old batches lose weight (Eq. 3 of the paper).

The exponential kernel needs no history: fading the sum is the sum of the faded. Any other kernel
keeps the statistics of single batches in a ring of at most `capacity` slots.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from scstream.errors import InputError
from scstream.families.base import Array


class Kernel(Protocol):
    """Weight of a batch by its age; one at age zero and never rising."""

    @property
    def capacity(self) -> int:
        """Most earlier batches to keep one by one; 0 where fading needs no history."""

    def weight(self, age: Array) -> Array:
        """Weight of batches of these ages."""


@dataclass(frozen=True)
class Exponential:
    """Weight ``2 ** (-age / half_life)``; None never forgets.

    Parameters
    ----------
    half_life : float or None
        Age at which a batch weighs half.

    Examples
    --------
    >>> from scstream.core.window import Exponential
    >>> float(Exponential(half_life=5.0).weight(10.0))
    0.25
    """

    half_life: float | None = 5.0
    capacity: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.half_life is not None and not self.half_life > 0:
            raise InputError(
                f"half_life must be positive, got {self.half_life!r}; "
                "pass half_life=None to never forget."
            )

    def weight(self, age: Array) -> Array:
        """Weight of batches of these ages."""
        if self.half_life is None:
            return np.ones_like(age, dtype=np.float64)
        return np.asarray(np.exp2(-np.asarray(age) / self.half_life))


@dataclass(frozen=True)
class Box:
    """Weight one for batches younger than `length`, then zero.

    Parameters
    ----------
    length : float
        Age from which a batch weighs nothing.
    capacity : int
        Most earlier batches kept.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.core.window import Box
    >>> Box(length=3.0).weight(np.array([0.0, 2.0, 3.0]))
    array([1., 1., 0.])
    """

    length: float
    capacity: int = 1000

    def __post_init__(self) -> None:
        if not self.length > 0:
            raise InputError(f"length of a box window must be positive, got {self.length!r}.")

    def weight(self, age: Array) -> Array:
        """Weight of batches of these ages."""
        return (np.asarray(age) < self.length).astype(np.float64)


@dataclass(frozen=True)
class Windowed:
    """Any kernel as a function of age, cut off below `epsilon` and after `capacity` batches.

    Parameters
    ----------
    function : callable
        Takes an array of ages, returns their weights in [0, 1].
    capacity : int
        The paper's q: most earlier batches kept.
    epsilon : float
        Batches with less weight are dropped.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.core.window import Windowed
    >>> kernel = Windowed(lambda age: 1.0 / (1.0 + age), capacity=50, epsilon=0.1)
    >>> kernel.weight(np.array([0.0, 1.0, 99.0]))
    array([1. , 0.5, 0. ])
    """

    function: Callable[[Array], Array]
    capacity: int = 100
    epsilon: float = 1e-8

    def weight(self, age: Array) -> Array:
        """Weight of batches of these ages."""
        weight = np.asarray(self.function(np.asarray(age, dtype=np.float64)), dtype=np.float64)
        if not (np.isfinite(weight) & (weight >= 0.0) & (weight <= 1.0)).all():
            raise InputError("a kernel must return weights between 0 and 1 for every age >= 0.")
        return np.where(weight > self.epsilon, weight, 0.0)
