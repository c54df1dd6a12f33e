"""Our own model: as anyone gets it, and the algorithm as the paper published it."""

from __future__ import annotations

from typing import Any

import numpy as np

from scstream import ScStream


class Ours:
    """A model that learns batches on one thread."""

    def __init__(self, **choices: Any) -> None:
        self.model = ScStream(n_jobs=1, **choices)

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


def default(**told: Any) -> Ours:
    """Our algorithm; counts are told apart from real numbers, and nothing else is set."""
    return Ours(**chosen(**told))


def paper(**told: Any) -> Ours:
    """The paper's algorithm with a prior of the paper's form, or with ours from the first batch."""
    return Ours(algorithm="paper", **chosen(**told))


def chosen(
    *, n_features: int, k: int, kind: str, seed: int, half_life: float, prior: Any, **numbers: float
) -> dict[str, Any]:
    """Parameters of the model for the knobs of both."""
    family = "multinomial" if kind == "counts" else "gaussian"
    if prior == "given":
        prior = given_prior(family, n_features, **numbers)
    return {"family": family, "prior": prior, "half_life": half_life, "random_state": seed}


def given_prior(
    family: str,
    n_features: int,
    *,
    kappa: float = 1.0,
    freedom: float = 15.0,
    psi: float = 1.0,
    concentration: float = 1.0,
) -> dict[str, float]:
    """A prior in the form that the paper sets by hand; rows are standardised."""
    if family == "multinomial":
        return {"concentration": concentration}
    return {"kappa": kappa, "mean": 0.0, "nu": n_features + freedom, "psi": psi}
