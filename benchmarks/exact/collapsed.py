"""A collapsed Gibbs sampler for Gaussian clusters (Neal 2000, algorithm 3), for comparison.

One row after another leaves its cluster and draws a new one given all others. Densities of all
clusters are one array operation; a cluster that gains or loses a row gets a rank-one update of its
inverse scale matrix. It shares no code with the package.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]


class CollapsedGibbs:
    """Labels, and for every cluster its count, mean, inverse scale and log determinant."""

    def __init__(
        self,
        X: Array,
        labels: Labels,
        *,
        alpha: float,
        mean: Array,
        kappa: float,
        nu: float,
        psi: Array,
        seed: int,
    ) -> None:
        self.X, self.labels, self.alpha = X, labels.copy(), alpha
        self.prior = mean, kappa, nu, nu * psi
        self.rng = np.random.default_rng(seed)
        n, d = X.shape
        count = np.arange(n + 1)
        kappas, nus = kappa + count, nu + count
        self.shrink = kappas / (kappas + 1.0)
        self.power = 0.5 * (nus + 1.0)
        self.constant = (  # of the predictive density, by the count of the cluster
            gammaln(self.power)
            - gammaln(self.power - 0.5 * d)
            - 0.5 * d * np.log(np.pi)
            + 0.5 * d * np.log(self.shrink)
        )
        self.log_count = np.log(np.maximum(count, 1))
        inverse = np.linalg.inv(nu * psi)
        log_det = np.linalg.slogdet(nu * psi)[1]
        centred = X - mean
        square = np.einsum("ni,ij,nj->n", centred, inverse, centred)
        self.alone = (  # log alpha p(x) of every row
            np.log(alpha)
            + self.constant[0]
            - 0.5 * log_det
            - self.power[0] * np.log1p(self.shrink[0] * square)
        )
        self.refresh()

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return len(self.count)

    def refresh(self) -> None:
        """Compute the clusters from the labels, so that rounding does not add up."""
        self.labels = np.unique(self.labels, return_inverse=True)[1]
        k, (m, kappa, _, scale) = int(self.labels.max()) + 1, self.prior
        d = self.X.shape[1]
        self.count = np.bincount(self.labels, minlength=k)
        self.mean, self.inverse, self.log_det = np.empty((k, d)), np.empty((k, d, d)), np.empty(k)
        for c in range(k):
            rows = self.X[self.labels == c]
            mean = (kappa * m + rows.sum(axis=0)) / (kappa + len(rows))
            centred, offset = rows - mean, m - mean
            full = scale + centred.T @ centred + kappa * np.outer(offset, offset)
            self.mean[c], self.inverse[c] = mean, np.linalg.inv(full)
            self.log_det[c] = np.linalg.slogdet(full)[1]

    def sweep(self) -> None:
        """Draw the label of every row once, in a random order."""
        chance = self.rng.random(len(self.X))
        for i in self.rng.permutation(len(self.X)):
            self._leave(i)
            self._join(i, chance[i])
        self.refresh()

    def _leave(self, i: int) -> None:
        c = self.labels[i]
        if self.count[c] == 1:
            self._drop(c)
            return
        kappa = self.prior[1] + self.count[c]
        offset = self.X[i] - self.mean[c]
        self._update(c, offset, -kappa / (kappa - 1.0))
        self.mean[c] -= offset / (kappa - 1.0)
        self.count[c] -= 1

    def _join(self, i: int, chance: float) -> None:
        offset = self.X[i] - self.mean
        square = np.einsum("ki,kij,kj->k", offset, self.inverse, offset)
        n = self.count
        scores = np.empty(len(n) + 1)
        scores[:-1] = (
            self.log_count[n]
            + self.constant[n]
            - 0.5 * self.log_det
            - self.power[n] * np.log1p(self.shrink[n] * square)
        )
        scores[-1] = self.alone[i]
        mass = np.exp(scores - scores.max()).cumsum()
        c = int(np.searchsorted(mass, chance * mass[-1]))
        self.labels[i] = c
        if c == len(n):
            self._add()
        kappa = self.prior[1] + self.count[c]
        offset_c = self.X[i] - self.mean[c]
        self._update(c, offset_c, kappa / (kappa + 1.0))
        self.mean[c] += offset_c / (kappa + 1.0)
        self.count[c] += 1

    def _update(self, c: int, offset: Array, factor: float) -> None:
        """Add `factor` times the outer product of `offset` to the scale matrix of a cluster."""
        moved = self.inverse[c] @ offset
        change = 1.0 + factor * float(offset @ moved)
        self.inverse[c] -= np.outer(moved, moved) * (factor / change)
        self.log_det[c] += np.log(change)

    def _add(self) -> None:
        m, _, _, scale = self.prior
        self.count = np.append(self.count, 0)
        self.mean = np.concatenate([self.mean, m[None]])
        self.inverse = np.concatenate([self.inverse, np.linalg.inv(scale)[None]])
        self.log_det = np.append(self.log_det, np.linalg.slogdet(scale)[1])

    def _drop(self, c: int) -> None:
        last = len(self.count) - 1
        self.labels[self.labels == last] = c
        for name in ("count", "mean", "inverse", "log_det"):
            values = getattr(self, name)
            values[c] = values[last]
            setattr(self, name, values[:-1])
