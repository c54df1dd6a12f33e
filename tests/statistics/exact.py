"""Tiny problems whose posterior can be written down: every partition of a few rows is weighed.

The weights come from the definition of the model by the chain rule, one row after another, with
scipy's Student-t and plain fractions. They share no code with the package.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import stats
from scipy.special import gammaln, logsumexp

from scstream.families import Gaussian, Multinomial
from scstream.kernels import choose_kernels

LEAST_EXPECTED = 5.0  # cells with fewer expected rows are pooled before a chi-square test


@dataclass(frozen=True, eq=False)
class Problem:
    """A few rows, a family with its prior, and the concentration of the Dirichlet process."""

    family: Gaussian | Multinomial
    X: np.ndarray  # (n, D)
    alpha: float
    log_marginal: Callable[[Problem, np.ndarray], float]

    @property
    def n_rows(self) -> int:
        return len(self.X)

    @cached_property
    def partitions(self) -> np.ndarray:  # (B, n)
        """All partitions, the blocks of each numbered by first appearance."""
        return np.array(list(growth_strings(self.n_rows)))

    @cached_property
    def log_probability(self) -> np.ndarray:  # (B,)
        """Posterior of the Dirichlet process mixture: alpha^K prod Gamma(N_k) f(rows of k)."""
        subsets = itertools.chain.from_iterable(
            itertools.combinations(range(self.n_rows), size) for size in range(1, self.n_rows + 1)
        )
        log_block = {
            rows: np.log(self.alpha)
            + gammaln(len(rows))
            + self.log_marginal(self, self.X[list(rows)])
            for rows in subsets
        }
        joint = np.array([sum(log_block[b] for b in blocks(p)) for p in self.partitions])
        return joint - logsumexp(joint)

    def labellings(self, n_clusters: int) -> tuple[np.ndarray, np.ndarray]:
        """All labellings by exactly 0 .. K-1 (C, n) and their probabilities given K (C,)."""
        some = self.partitions.max(axis=1) == n_clusters - 1
        orders = np.array(list(itertools.permutations(range(n_clusters))))
        labels = orders[:, self.partitions[some]].reshape(-1, self.n_rows)
        log_probability = np.tile(self.log_probability[some], len(orders))
        return labels, np.exp(log_probability - logsumexp(log_probability))

    def halvings(self) -> tuple[np.ndarray, np.ndarray]:
        """All ways to put the rows into two halves (2^n, n), and their probabilities (2^n,).

        The halves are a finite mixture with weights Dir(alpha/2, alpha/2); either may be empty.
        """
        sides = np.array(list(itertools.product((0, 1), repeat=self.n_rows)))
        joint = np.zeros(len(sides))
        for c, side in enumerate(sides):
            for rows in (self.X[side == 0], self.X[side == 1]):
                joint[c] += gammaln(len(rows) + self.alpha / 2) + self.log_marginal(self, rows)
        return sides, np.exp(joint - logsumexp(joint))


def growth_strings(n: int) -> Iterator[tuple[int, ...]]:
    if n == 0:
        yield ()
        return
    for head in growth_strings(n - 1):
        for last in range(max(head, default=-1) + 2):
            yield (*head, last)


def blocks(labels: np.ndarray) -> list[tuple[int, ...]]:
    return [tuple(np.flatnonzero(labels == k).tolist()) for k in range(labels.max() + 1)]


def canonical(labels: np.ndarray) -> np.ndarray:  # (W, n)
    """Number the blocks of every labelling by first appearance."""
    same = labels[:, :, None] == labels[:, None, :]
    leader = same.argmax(axis=2)
    rank = np.cumsum(leader == np.arange(labels.shape[1]), axis=1) - 1
    return np.take_along_axis(rank, leader, axis=1)


def coded(labels: np.ndarray) -> np.ndarray:  # (W, n) -> (W,)
    return labels @ labels.shape[1] ** np.arange(labels.shape[1])


def chi_square(labels: np.ndarray, cells: np.ndarray, probability: np.ndarray) -> float:
    """P-value of labellings (W, n) that should be among `cells` (C, n) with these probabilities."""
    order = np.argsort(coded(cells))
    place = np.searchsorted(coded(cells)[order], coded(labels))
    assert (cells[order][place] == labels).all(), "a labelling outside the support"
    found = np.bincount(place, minlength=len(cells)).astype(float)
    expected = len(labels) * probability[order]
    rare = expected < LEAST_EXPECTED
    if rare.any():
        found = np.append(found[~rare], found[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    return float(stats.chisquare(found, expected).pvalue)


def total_variation(labels: np.ndarray, cells: np.ndarray, probability: np.ndarray) -> float:
    order = np.argsort(coded(cells))
    place = np.searchsorted(coded(cells)[order], coded(labels))
    found = np.bincount(place, minlength=len(cells)) / len(labels)
    return float(0.5 * np.abs(found - probability[order]).sum())


def log_marginal_gaussian(problem: Problem, X: np.ndarray) -> float:
    """Chain rule over Student-t predictives, the prior updated row by row."""
    prior = problem.family
    d = X.shape[1]
    kappa, nu, mean, scale = prior.kappa, prior.nu, prior.mean, prior.nu * prior.psi
    out = 0.0
    for x in X:
        df = nu - d + 1.0
        shape = scale * (kappa + 1.0) / (kappa * df)
        out += stats.multivariate_t.logpdf(x, loc=mean, shape=shape, df=df)
        scale = scale + kappa / (kappa + 1.0) * np.outer(x - mean, x - mean)
        mean = (kappa * mean + x) / (kappa + 1.0)
        kappa, nu = kappa + 1.0, nu + 1.0
    return float(out)


def log_marginal_multinomial(problem: Problem, X: np.ndarray) -> float:
    """Polya's urn: every count is one draw, and adds one ball of its colour."""
    urn = problem.family.concentration.copy()
    out = 0.0
    for row in X:
        for colour, n_draws in enumerate(row):
            for _ in range(int(n_draws)):
                out += np.log(urn[colour] / urn.sum())
                urn[colour] += 1.0
    return float(out)


def gaussian_line() -> Problem:
    """Six numbers in two loose groups, far from the prior mean and from the origin of moments."""
    family = Gaussian(mean=[0.5], kappa=0.3, nu=2.5, psi=[[0.6]], origin=[-1.0])
    X = np.array([[0.7], [1.1], [1.6], [2.9], [3.2], [4.4]])
    return Problem(family.with_kernels(choose_kernels()), X, 0.6, log_marginal_gaussian)


def gaussian_plane() -> Problem:
    family = Gaussian(
        mean=[1.0, -0.5], kappa=0.4, nu=3.5, psi=[[0.8, 0.3], [0.3, 0.5]], origin=[0.3, 0.2]
    )
    X = np.array([[0.2, 0.1], [0.9, 0.8], [1.6, 0.7], [2.6, 2.2], [2.2, 3.1], [3.9, 2.0]])
    return Problem(family.with_kernels(choose_kernels()), X, 1.7, log_marginal_gaussian)


def multinomial_counts() -> Problem:
    family = Multinomial(concentration=np.array([0.4, 0.9, 0.6]))
    X = np.array([[3, 1, 0], [2, 0, 1], [1, 2, 2], [0, 3, 1], [0, 1, 3], [1, 1, 1]], dtype=float)
    return Problem(family.with_kernels(choose_kernels()), X, 0.8, log_marginal_multinomial)


PROBLEMS = {"line": gaussian_line, "plane": gaussian_plane, "counts": multinomial_counts}
