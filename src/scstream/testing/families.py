"""The laws of families, and `check_family`, which reports the first one that is broken.

Algebraic laws hold to a relative 1e-9 of the size of the summands, those about logarithms to 1e-9
nats at least. The one statistical law, `_law_posterior_samples`, justifies its tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast
from zlib import crc32

import numpy as np
from scipy import sparse

from scstream.errors import InputError
from scstream.families import FAMILIES, Family, family_from
from scstream.families.base import Array, Labels, Rows

_N_GROUPS = 3
_MAX_ROWS = 12  # of the laws that compare every row with every group
_N_DRAWS = 4000
_FOURTH_MOMENT = 30.0
_MAX_ERRORS = 6.0  # allowed deviation of a mean of draws, in standard errors


def check_family(
    family: Family,
    X: Rows,
    *,
    seed: int = 0,
    rtol: float = 1e-9,
    laws: Iterable[str] | None = None,
) -> None:
    """Check that a family obeys the laws on which the core relies.

    Parameters
    ----------
    family : Family
        The family to check, with its prior.
    X : array of shape (N, D), or CSR
        At least four rows of its domain, with missing entries if it supports them.
    seed : int
        Seed of the random groups, weights and draws.
    rtol : float
        Relative tolerance of the algebraic laws.
    laws : iterable of str, optional
        Which of `FAMILY_LAWS` to check; all by default.

    Raises
    ------
    AssertionError
        Names the first law that is broken, and the deviation.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.families import Poisson
    >>> from scstream.testing import check_family
    >>> X = np.random.default_rng(0).poisson(3.0, (20, 2)).astype(float)
    >>> check_family(Poisson(shape=1.0, rate=np.full(2, 0.5)), X)
    """
    if X.shape[0] < 4:
        raise InputError(f"check_family needs at least four rows, got {X.shape[0]}.")
    for law in FAMILY_LAWS if laws is None else laws:
        FAMILY_LAWS[law](_Case(family, X, law, seed, rtol))


@dataclass(frozen=True, eq=False)
class _Case:
    """One law that is checked on one family and some of its rows."""

    family: Family
    X: Rows
    law: str
    seed: int
    rtol: float

    @cached_property
    def rng(self) -> np.random.Generator:
        """Random numbers of this law, independent of the other laws."""
        return np.random.default_rng([self.seed, crc32(self.law.encode())])

    @cached_property
    def few(self) -> Rows:
        return self.X[: min(_MAX_ROWS, self.X.shape[0])]

    @cached_property
    def groups(self) -> Labels:
        """A random group for every row; -1 for no group."""
        return np.asarray(self.rng.integers(-1, _N_GROUPS, self.X.shape[0]))

    @cached_property
    def weights(self) -> Array:
        return np.asarray(self.rng.uniform(0.1, 2.0, self.X.shape[0]))

    @cached_property
    def stats(self) -> Array:
        """Statistics of groups with fractional weights; the last one is empty."""
        return self.family.stats(self.X, self.groups, _N_GROUPS + 1, self.weights)

    def each(self, X: Rows) -> Array:  # (N, P)
        """Return the statistics of every single row."""
        return self.family.stats(X, np.arange(X.shape[0]), X.shape[0])

    def all(self, condition: Any, what: str) -> None:
        if not np.all(condition):
            raise AssertionError(f"{self.family.name} breaks the law '{self.law}': {what}.")

    def shape(self, value: Any, shape: tuple[int | None, ...], what: str) -> None:
        """Check that an array has this shape (None: any length) and finite values."""
        same = len(value.shape) == len(shape) and all(
            wanted in (None, length) for length, wanted in zip(value.shape, shape, strict=True)
        )
        self.all(same, f"{what} has the shape {value.shape} instead of {shape}")
        self.all(np.isfinite(value), f"{what} is not finite")

    def equal(self, left: Array, right: Array, what: str, *, size: Array | float = 1.0) -> None:
        """Check that arrays are equal relative to their size, or to the `size` of the summands."""
        self.shape(left, right.shape, what)
        size = np.maximum(np.maximum(np.abs(right), size), np.finfo(float).tiny)
        worst = float(np.max(np.abs(left - right) / size, initial=0.0))
        self.all(worst <= self.rtol, f"{what}: off by {worst:.1e} relative")


def _law_additivity(case: _Case) -> None:
    """The statistics of rows are the sum of the statistics of their parts, in any order."""
    family, X, group = case.family, case.X, case.groups
    n = X.shape[0]
    stats = family.stats(X, group, _N_GROUPS)
    size = np.abs(case.each(X)).sum(axis=0)
    case.shape(stats, (_N_GROUPS, family.n_stats), "stats")
    counts = np.bincount(group[group >= 0], minlength=_N_GROUPS).astype(np.float64)
    case.equal(stats[:, 0], counts, "column 0 of the statistics is the count")
    kept = np.flatnonzero(group >= 0)
    without = family.stats(X[kept], group[kept], _N_GROUPS)
    case.equal(without, stats, "rows with group -1 are left out", size=size)
    part = case.rng.random(n) < 0.5
    parts = [family.stats(X[np.flatnonzero(p)], group[p], _N_GROUPS) for p in (part, ~part)]
    case.equal(parts[0] + parts[1], stats, "two parts add up to the total", size=size)
    order = case.rng.permutation(n)
    shuffled = family.stats(X[order], group[order], _N_GROUPS)
    case.equal(shuffled, stats, "the order of the rows is irrelevant", size=size)


def _law_weights(case: _Case) -> None:
    """Statistics are linear in the weights; an integer weight repeats the row."""
    family, X, group = case.family, case.X, case.groups
    size = np.abs(case.each(X)).sum(axis=0) * 4.0
    other = case.rng.uniform(0.0, 1.0, X.shape[0])
    mixed = family.stats(X, group, _N_GROUPS, case.weights + 0.5 * other)
    parts = [family.stats(X, group, _N_GROUPS, w) for w in (case.weights, other)]
    case.equal(parts[0] + 0.5 * parts[1], mixed, "weights act linearly", size=size)
    times = case.rng.integers(0, 4, X.shape[0])
    again = np.repeat(np.arange(X.shape[0]), times)
    weighted = family.stats(X, group, _N_GROUPS, times.astype(np.float64))
    repeated = family.stats(X[again], group[again], _N_GROUPS)
    case.equal(weighted, repeated, "an integer weight repeats the row", size=size)


def _law_empty(case: _Case) -> None:
    """A group without rows has zero statistics and marginal likelihood one."""
    family = case.family
    no_group = np.full(case.X.shape[0], -1)
    stats = family.stats(case.X, no_group, 2)
    case.all(stats == 0.0, "the statistics of an empty group are not zero")
    case.equal(
        family.log_marginal(stats), np.zeros(2), "the marginal likelihood of an empty group is one"
    )
    case.shape(family.predictive_params(stats[:0]), (0, None), "the predictive table of no groups")
    several = np.stack([case.stats, 2.0 * case.stats])
    marginals = np.stack([family.log_marginal(stats) for stats in several])
    case.equal(family.log_marginal(several), marginals, "log_marginal accepts (..., P)")


def _law_marginal(case: _Case) -> None:
    """The marginal likelihood is the product of the predictives of the rows, in any order."""
    family, X = case.family, case.few
    n = X.shape[0]
    start = 0.3 * case.stats[:1]
    for past, what in ((np.zeros_like(start), "the prior"), (start, "fractional statistics")):
        each = case.each(X)
        total = family.log_marginal(past + each.sum(axis=0)) - family.log_marginal(past)
        for order in (np.arange(n), case.rng.permutation(n)):
            before = past + np.vstack([0.0 * each[:1], np.cumsum(each[order[:-1]], axis=0)])
            log_p = family.log_predictive(family.predictive_params(before), X[order])
            case.shape(log_p, (n, n), "log_predictive")
            steps = np.diag(log_p)
            size = 1.0 + np.abs(steps).sum() + np.abs(family.log_marginal(before)).max()
            claim = f"the marginal is the product of the predictives, from {what}"
            case.equal(steps.sum()[None], total, claim, size=size)


def _law_leave_one_out(case: _Case) -> None:
    """`log_leave_one_out` is the log marginal with the row minus the one without it."""
    family, X, n = case.family, case.few, case.few.shape[0]
    group, weight = np.arange(n) % 2, case.weights[:n]
    stats = case.stats[:2] + family.stats(X, group, 2, weight)
    found = family.log_leave_one_out(X, weight, group, stats)
    each = family.stats(X, np.arange(n), n, weight)
    marginal = family.log_marginal(stats)[group]
    size = 1.0 + np.abs(marginal)
    without = family.log_marginal(stats[group] - each)
    case.equal(found, marginal - without, "log_leave_one_out", size=size)


def _law_posterior_samples(case: _Case) -> None:
    """The mean likelihood over posterior draws is the predictive.

    More generally, the mean of prod f(x_i)^w_i over the posterior given statistics s is
    marginal(s + sum w_i t_i) / marginal(s), where t_i are the statistics of row i. The law checks
    single rows, pairs and all rows together, from the prior and from the rows themselves. Twice
    and four times the weights give the second and fourth moment exactly, so the standard error of
    the mean is known; weights are halved until the relative fourth moment is at most 30. With that
    bound, a mean of a correct family deviates by six standard errors with probability below 1/400
    for any distribution, and 2e-9 if the mean of 4000 draws is approximately normal.
    """
    family, X = case.family, case.few
    n, each = X.shape[0], case.each(X)
    weights = np.vstack([np.eye(n), 0.5 * (np.eye(n) + np.eye(n, k=1)), np.ones((1, n))])
    for past in (np.zeros_like(case.stats[:1]), case.family.stats(case.X, 0 * case.groups, 1)):
        power, log_mean, variance = _bounded_weights(family, past, weights, each)
        draws = _NumpyDraws(_N_DRAWS, case.rng)
        params = family.sample_posterior(past.repeat(_N_DRAWS, axis=0), draws)
        case.shape(params, (_N_DRAWS, None), "sample_posterior")
        log_f = family.log_likelihood(params, X)
        case.shape(log_f, (n, _N_DRAWS), "log_likelihood")
        ratio = np.exp(power @ log_f - log_mean[:, None]).mean(axis=1)
        allowed = _MAX_ERRORS * np.sqrt(variance / _N_DRAWS) + case.rtol
        worst = float(np.max(np.abs(ratio - 1.0) / allowed))
        case.all(
            worst <= 1.0,
            f"the mean likelihood of the draws is {_MAX_ERRORS * worst:.1f} standard errors "
            "from the predictive",
        )


def _bounded_weights(
    family: Family, past: Array, weights: Array, each: Array
) -> tuple[Array, Array, Array]:
    """Halve weights until the fourth moment is small; return weights, log mean and variance."""
    prior = family.log_marginal(past)
    while True:
        log_mean, log_second, log_fourth = (
            family.log_marginal(past + power * (weights @ each)) - prior for power in (1, 2, 4)
        )
        too_large = ~(log_fourth - 4.0 * log_mean <= np.log(_FOURTH_MOMENT))
        if not too_large.any() or weights.max() < 1e-6:
            variance = np.maximum(np.expm1(log_second - 2.0 * log_mean), 0.0)
            return weights, log_mean, variance
        weights = np.where(too_large[:, None], 0.5 * weights, weights)


class _NumpyDraws:
    """Draws from a numpy generator."""

    def __init__(self, n_groups: int, rng: np.random.Generator) -> None:
        self._n_groups, self._rng = n_groups, rng

    def normal(self, n: int) -> Array:
        return self._rng.standard_normal((self._n_groups, n))

    def log_gamma(self, shape: Array) -> Array:
        # Gamma(a) is Gamma(a + 1) U^(1/a): its logarithm exists however small a is.
        uniform = 1.0 - self._rng.random(shape.shape)
        return np.asarray(np.log(self._rng.standard_gamma(shape + 1.0)) + np.log(uniform) / shape)


def _law_independence(case: _Case) -> None:
    """The density of a row in a group does not depend on other rows or groups."""
    family, X = case.family, case.few
    some, groups = np.array([2, 0]), np.array([1, 3, 0])
    params = family.sample_posterior(case.stats, _NumpyDraws(len(case.stats), case.rng))
    for density, table in (
        (family.log_predictive, family.predictive_params(case.stats)),
        (family.log_likelihood, params),
    ):
        log_p = density(table, X)
        case.shape(log_p, (X.shape[0], len(table)), density.__name__)
        name = density.__name__
        case.equal(density(table[groups], X), log_p[:, groups], f"{name} of some of the groups")
        case.equal(density(table, X[some]), log_p[some], f"{name} of some of the rows")
        case.shape(density(table[:0], X), (X.shape[0], 0), f"{name} of no groups")


def _law_bisect(case: _Case) -> None:
    """`bisect` gives each half the same count, and halves that are valid groups."""
    family, stats = case.family, case.stats
    for along in (stats, stats[::-1].copy()):
        offset = family.bisect(stats, along)
        case.shape(offset, stats.shape, "bisect")
        case.all(offset[:, 0] == 0.0, "bisect gives its halves different counts")
        case.all(stats[-1, 0] * offset[-1] == 0.0, "bisect changes an empty group")
        for sign in (1.0, -1.0):
            half = stats / 2 + sign * stats[:, :1] * offset
            case.shape(family.log_marginal(half), (len(stats),), "log_marginal of a half")
            log_p = family.log_predictive(family.predictive_params(half), case.few)
            case.shape(log_p, (case.few.shape[0], len(stats)), "log_predictive of a half")
    case.shape(family.bisect(stats[:0], stats[:0]), (0, stats.shape[1]), "bisect of no groups")


def _law_translation(case: _Case) -> None:
    """`translate` returns the statistics of translated rows."""
    family = case.family
    if not family.supports_translation:
        return
    X, group = case.X, case.groups
    shift = case.rng.standard_normal((_N_GROUPS, family.n_features))
    moved = X + shift[group] * (group >= 0)[:, None]
    size = np.abs(case.each(moved)).sum(axis=0) + np.abs(case.each(X)).sum(axis=0)
    left = family.translate(family.stats(X, group, _N_GROUPS), shift)
    right = family.stats(moved, group, _N_GROUPS)
    case.equal(left, right, "translate returns the statistics of the moved rows", size=size)


def _law_missing(case: _Case) -> None:
    """Missing entries are integrated out: the parts of a row multiply to the row."""
    family, X = case.family, case.few
    if not family.handles_missing:
        return
    all_missing = np.full_like(X, np.nan)
    change = family.log_marginal(case.stats) - family.log_marginal(
        case.stats + case.each(all_missing)[0]
    )
    case.all(change == 0.0, "a row without entries changes the marginal likelihood")
    params = family.sample_posterior(case.stats, _NumpyDraws(len(case.stats), case.rng))
    table = family.predictive_params(case.stats)
    for density, rows in ((family.log_likelihood, params), (family.log_predictive, table)):
        case.all(
            density(rows, all_missing) == 0.0,
            f"{density.__name__} of a row without entries is not 0",
        )
    past = case.stats[:1]
    for column in range(family.n_features):
        others, single = X.copy(), X.copy()
        others[:, column] = np.nan
        single[:, np.arange(family.n_features) != column] = np.nan
        if not (_in_domain(family, others) and _in_domain(family, single)):
            continue
        what = f"column {column} cannot be integrated out of"
        for density, rows in ((family.log_likelihood, params), (family.log_predictive, table)):
            both = density(rows, others) + density(rows, single)
            case.equal(both, density(rows, X), f"{what} {density.__name__}")
        parts = family.log_marginal(past + case.each(others) + case.each(single))
        case.equal(parts, family.log_marginal(past + case.each(X)), f"{what} log_marginal")


def _in_domain(family: Family, X: Rows) -> bool:
    try:
        family.check(X)
    except InputError:
        return False
    return True


def _law_sparse(case: _Case) -> None:
    """CSR rows give the same results as dense rows."""
    family = case.family
    if not family.accepts_sparse:
        return
    csr = sparse.csr_array(case.X)
    dense = csr.toarray()
    table = family.predictive_params(case.stats)
    params = family.sample_posterior(case.stats, _NumpyDraws(len(case.stats), case.rng))
    computations: tuple[tuple[str, Callable[[Rows], Array]], ...] = (
        ("stats", lambda X: family.stats(X, case.groups, _N_GROUPS, case.weights)),
        ("log_predictive", lambda X: family.log_predictive(table, X)),
        ("log_likelihood", lambda X: family.log_likelihood(params, X)),
        ("log_base", family.log_base),
        ("coordinates", family.coordinates),
    )
    for name, compute in computations:
        case.equal(compute(csr), compute(dense), f"{name} of CSR rows equals that of dense rows")


def _law_hyperparameters(case: _Case) -> None:
    """The hyperparameters are numbers, strings and arrays, and rebuild the family."""
    family = case.family
    described = family.hyperparameters()
    case.all(_is_plain(described), "hyperparameters are numbers, strings, arrays, lists or dicts")
    rebuilt = [cast(Any, type(family))(**described)]
    if type(family) in FAMILIES.values():
        rebuilt.append(family_from(family.name, described))
    for copy in rebuilt:
        stats = copy.stats(case.X, case.groups, _N_GROUPS + 1, case.weights)
        case.all(stats == case.stats, "a rebuilt family has other statistics")
        same = copy.log_marginal(stats) == family.log_marginal(stats)
        case.all(same, "a rebuilt family has another marginal likelihood")


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return all(_is_plain(item) for item in value)
    return value is None or isinstance(value, bool | int | float | str | np.ndarray)


def _law_prior_grid(case: _Case) -> None:
    """`prior_grid` returns the same family with other priors and the same statistics."""
    stats = case.stats[case.stats[:, 0] > 0]
    for candidate in case.family.prior_grid(stats):
        case.all(type(candidate) is type(case.family), "a candidate is of another family")
        case.all(candidate.n_stats == case.family.n_stats, "a candidate has other statistics")
        case.shape(candidate.log_marginal(stats), (len(stats),), "log_marginal of a candidate")
        theirs = candidate.stats(case.X, case.groups, _N_GROUPS + 1, case.weights)
        case.all(theirs == case.stats, "a candidate has other statistics of the same rows")


def _law_summaries(case: _Case) -> None:
    """Means, standard deviations and coordinates are finite and have the right shape."""
    family, X, stats = case.family, case.X, case.stats
    n, g, d = X.shape[0], len(stats), family.n_features
    case.shape(family.means(stats), (g, d), "means")
    case.shape(family.stds(stats), (g, d), "stds")
    case.all(family.stds(stats) >= 0.0, "a standard deviation is negative")
    case.shape(family.log_base(X), (n,), "log_base")
    points = family.coordinates(X)
    case.shape(points, (n, None), "coordinates")
    case.shape(family.coordinates_of(stats), (g, points.shape[1]), "coordinates_of")


def _law_domain(case: _Case) -> None:
    """`check` accepts these rows, and rejects a table with one column more."""
    case.family.check(case.X)
    dense = case.X.toarray() if sparse.issparse(case.X) else case.X
    wider = np.column_stack([dense, dense[:, :1]])
    case.all(not _in_domain(case.family, wider), "check accepts a table with one column more")


def _law_adaptation(case: _Case) -> None:
    """`adapted` is deterministic, and `transported` keeps what the rows of a group have in common.

    Counts and means are those of the rows under the new family; fading commutes with transport,
    which changes nothing if nothing was learned. Second moments need not be exact.
    """
    family, X = case.family, case.X
    adapted, again = (family.adapted(case.stats, X, case.weights) for _ in range(2))
    same = _same(adapted.hyperparameters(), again.hyperparameters())
    case.all(same, "adapting twice to the same rows gives two families")
    case.all(adapted.n_stats == family.n_stats, "an adapted family has other statistics")
    case.equal(family.transported(case.stats, family), case.stats, "transport to the same family")
    moved = adapted.transported(case.stats, family)
    case.shape(moved, case.stats.shape, "transported")
    case.all(moved[:, 0] == case.stats[:, 0], "transport changes counts")
    direct = adapted.stats(X, case.groups, _N_GROUPS + 1, case.weights)
    size = np.abs(np.nan_to_num(X.toarray() if sparse.issparse(X) else X)).max(initial=1.0)
    case.equal(adapted.means(moved), adapted.means(direct), "transported means", size=size)
    faded = adapted.transported(np.stack([case.stats, 0.25 * case.stats]), family)
    case.equal(faded, np.stack([moved, 0.25 * moved]), "transport of faded statistics")
    case.shape(adapted.log_marginal(moved), (len(moved),), "log_marginal after transport")


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return np.array_equal(left, right)


FAMILY_LAWS: dict[str, Callable[[_Case], None]] = {
    "domain": _law_domain,
    "additivity": _law_additivity,
    "weights": _law_weights,
    "empty": _law_empty,
    "marginal": _law_marginal,
    "leave_one_out": _law_leave_one_out,
    "posterior_samples": _law_posterior_samples,
    "independence": _law_independence,
    "bisect": _law_bisect,
    "translation": _law_translation,
    "missing": _law_missing,
    "sparse": _law_sparse,
    "hyperparameters": _law_hyperparameters,
    "prior_grid": _law_prior_grid,
    "summaries": _law_summaries,
    "adaptation": _law_adaptation,
}
