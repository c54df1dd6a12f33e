"""Our own model: as anyone gets it, and the algorithm as the paper published it."""

from __future__ import annotations

from typing import Any

import numpy as np

from scstream import ScStream

_NUMBERS = ("kappa", "freedom", "psi", "concentration")


class Ours:
    """A model that learns batches on one thread."""

    def __init__(self, **choices: Any) -> None:
        self.model = ScStream(n_threads=1, **choices)

    def learn(self, X: Any) -> None:
        """Learn a batch."""
        self.model.partial_fit(X)

    def predict(self, X: Any) -> np.ndarray:
        """Ids of the clusters of the rows."""
        return self.model.predict(X)

    @property
    def n_clusters(self) -> int:
        """Number of clusters now."""
        return int(self.model.n_clusters_)


def default(
    *, n_features: int, k: int, kind: str, seed: int, prior: Any = "auto", **choices: Any
) -> Ours:
    """Our algorithm; counts are told apart from real numbers, and nothing else is set."""
    family = "multinomial" if kind == "counts" else choices.pop("family", "gaussian")
    numbers = {name: choices.pop(name) for name in _NUMBERS if name in choices}
    if prior == "given":
        prior = given_prior(family, n_features, **numbers)
    return Ours(family=family, prior=prior, random_state=seed, **choices)


def paper(
    *, n_features: int, k: int, kind: str, seed: int, half_life: float, prior: Any, **numbers: float
) -> Ours:
    """The paper's algorithm with a prior of the paper's form, or with ours from the first batch."""
    family = "multinomial" if kind == "counts" else "gaussian"
    if prior == "given":
        prior = given_prior(family, n_features, **numbers)
    return Ours(
        family=family, algorithm="paper", prior=prior, half_life=half_life, random_state=seed
    )


def given_prior(
    family: str,
    n_features: int,
    *,
    kappa: float = 1.0,
    freedom: float = 2.0,
    psi: float = 1.0,
    concentration: float = 1.0,
) -> dict[str, float]:
    """A prior in the form that the paper sets by hand; rows are standardised."""
    if family == "multinomial":
        return {"concentration": concentration}
    nu = freedom + (1.0 if family == "diagonal" else n_features)
    return {"kappa": kappa, "mean": 0.0, "nu": nu, "psi": psi}
