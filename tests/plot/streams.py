"""Small sets of rows for every family, three clusters that are easy to find."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

FAMILIES: dict[str, Any] = {
    "line": "gaussian",
    "gaussian": "gaussian",
    "diagonal": "diagonal",
    "multinomial": "multinomial",
    "bernoulli": "bernoulli",
    "categorical": "categorical",
    "poisson": "poisson",
    "product": [("diagonal", [0]), ("categorical", [1]), ("poisson", [2, 3])],
}
_N = 240


@cache
def rows_for(name: str) -> NDArray[np.float64]:  # (N, D)
    """Rows of a family; some entries missing where the family allows it."""
    rng = np.random.default_rng(0)
    k = rng.integers(0, 3, _N)
    plane = 6.0 * np.array([[0, 0, 0], [1, 0, 1], [0, 1, 1]])[k] + rng.standard_normal((_N, 3))
    levels = rng.dirichlet(np.full(4, 0.2), (3, 5))[k]  # (N, 5, 4)
    level = (rng.random((_N, 5, 1)) > levels.cumsum(axis=2)[:, :, :-1]).sum(axis=2)
    counts = rng.poisson(np.array([[2, 20], [20, 3], [20, 20]])[k])
    gaps = np.where(rng.random(plane.shape) < 0.1, np.nan, plane)
    found: dict[str, Any] = {
        "line": plane[:, :1],
        "gaussian": plane,
        "diagonal": gaps,
        "multinomial": rng.multinomial(60, rng.dirichlet(np.full(12, 0.4), 3)[k]),
        "bernoulli": rng.random((_N, 12)) < rng.random((3, 12))[k],
        "categorical": level,
        "poisson": counts,
        "product": np.column_stack([gaps[:, 0], level[:, 0], counts]),
    }
    return np.asarray(found[name], dtype=np.float64)
