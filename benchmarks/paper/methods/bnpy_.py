"""bnpy: stochastic online variational inference (soVB) of a Dirichlet process mixture.

The package's own driver wants a whole data set and laps over it. Here its model and its updates
are called batch by batch, in the order of its `SOVBAlg.fit`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from bnpy.data import BagOfWordsData, XData
from bnpy.HModel import HModel
from scipy import sparse

_START = {"init_NiterForBregmanKMeans": 1}  # as in the package's init.conf


class SoVB:
    """A mixture of at most `truncation` components; a component without a row is no cluster."""

    def __init__(
        self,
        kind: str,
        seed: int,
        prior: dict[str, Any],
        *,
        truncation: int,
        initname: str,
        population: int,
        gamma0: float,
        rhodelay: float,
        rhoexp: float,
    ) -> None:
        self.kind, self.prior, self.gamma0 = kind, prior, gamma0
        self.start = {"K": truncation, "initname": initname, "seed": seed} | _START
        self.population, self.rhodelay, self.rhoexp = population, rhodelay, rhoexp
        self.model: Any = None
        self.n_batches, self.n_clusters = 0, 0

    def learn(self, X: Any) -> None:
        """A local step on the batch, and a step of the global parameters towards what it says."""
        rows = self._rows(X)
        if self.model is None:
            self._begin(rows)
        local = self.model.calc_local_params(rows)
        stats = self.model.get_global_suff_stats(rows, local)
        stats.applyAmpFactor(self.population / X.shape[0])
        rate = (1 + self.n_batches + self.rhodelay) ** -self.rhoexp
        self.model.update_global_params(stats, rate)
        self.n_batches += 1
        self.n_clusters = len(np.unique(local["resp"].argmax(axis=1)))

    def predict(self, X: Any) -> np.ndarray:
        """Most probable component of each row."""
        return self.model.calc_local_params(self._rows(X))["resp"].argmax(axis=1)

    def _begin(self, rows: Any) -> None:
        family = "Mult" if self.kind == "counts" else "Gauss"
        stick = {"gamma0": self.gamma0}
        self.model = HModel.CreateEntireModel(
            "soVB", "DPMixtureModel", family, stick, self.prior, rows
        )
        start = {**self.start, "K": min(self.start["K"], rows.get_size())}
        self.model.init_global_params(rows, **start)

    def _rows(self, X: Any) -> Any:
        if self.kind != "counts":
            return XData(X, nObsTotal=self.population)
        X = sparse.csr_matrix(X)
        return BagOfWordsData(
            word_id=X.indices,
            word_count=X.data,
            doc_range=X.indptr,
            vocab_size=X.shape[1],
            nDocTotal=self.population,
        )


def sovb(*, n_features: int, k: int, kind: str, seed: int, **params: Any) -> SoVB:
    """Counts have a Dirichlet prior, real rows a normal Wishart one."""
    names = ("lam",) if kind == "counts" else ("sF", "kappa", "ECovMat")
    prior = {name: params.pop(name) for name in names}
    return SoVB(kind, seed, prior, **params)
