"""The numpy kernels. They specify what the compiled kernels (`scstream.kernels.native`) compute.

Functions that take a `family` also work on the compiled form of that family, if it has one.
Shapes: K clusters, D features, P statistics, G groups, M pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtri

Array = NDArray[np.float64]
Ids = NDArray[np.int64]
Words = NDArray[np.uint64]
F = TypeVar("F", bound=Callable[..., Any])

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_ATTEMPT = 1 << 32  # counters between two attempts of a rejection sampler
_TINY = np.finfo(float).tiny  # stands for the count of a group that has faded away
_EMPTY = 1e-100  # weight of an empty cluster; log U / _EMPTY is still finite

# Motion: an alpha-beta filter with these gains.
_GAIN = 0.3  # share of an innovation that goes into the velocity
_FIRST_GAIN = 0.7  # the same one batch after birth, when nothing is known yet
_STEADY = 20.0  # rows whose mean is trusted half as much as that of very many rows
_PLACE_GAIN = 0.3  # share of a shrunken innovation by which the past is moved


class _NeverRaised(Exception):
    """The reference never refuses."""


def accelerated(method: F) -> F:
    """Let the compiled form of a family compute; the decorated method is its specification.

    The family is `self` of a method of a family, or the first argument of a method of `Kernels`.
    The method itself runs if the family has no compiled form, or if that refuses.
    """
    name = method.__name__

    @wraps(method)
    def call(self: Any, *args: Any) -> Any:
        family, arguments = (args[0], args[1:]) if isinstance(self, Kernels) else (self, args)
        compiled = getattr(family.compiled, name, None)
        if compiled is None:
            return method(self, *args)
        try:
            return compiled(*arguments)
        except family.kernels.refused:
            return method(self, *args)

    return cast(F, call)


class Kernels:
    """The numerical work of a model, in numpy; a subclass replaces single methods."""

    refused: type[Exception] = _NeverRaised

    @property
    def name(self) -> str:
        """Name of the implementation: "numpy", or an instruction set."""
        return "numpy"

    def compile(self, family: Any) -> Any:
        """Return the compiled form of a family, or None if it has none."""
        return None

    def threads(self, n: int) -> AbstractContextManager[None]:
        """Return a context in which compiled code may use up to `n` threads."""
        return nullcontext()

    def reader(self, family: Any, *mixture: Any) -> Any:
        """Return the compiled form of a mixture to predict with, or None if it has none."""
        return None

    def __reduce__(self) -> str | tuple[Any, ...]:
        return "REFERENCE"  # a copy of a model has the same kernels, not a copy of them

    def uniforms(self, key: int, index: Ids, counter: int | Ids = 0) -> Array:
        """Two uniforms in the open unit interval for every (index, counter); shape (..., 2)."""
        words = _philox(key, np.asarray(index, np.uint64), np.asarray(counter, np.uint64))
        bits = np.stack(words, axis=-1) >> np.uint64(11)
        return (bits.astype(np.float64) + 0.5) * 2.0**-53

    def normals(self, key: int, ids: Ids, counter: int, n: int) -> Array:  # (G, n)
        """Standard normals, two per counter from `counter` upwards."""
        counters = np.arange(counter, counter + (n + 1) // 2)
        pairs = self.uniforms(key, ids[:, None], counters)
        return np.asarray(ndtri(pairs.reshape(len(ids), -1)[:, :n]))

    def log_gammas(self, key: int, ids: Ids, counter: int, shape: Array) -> Array:  # (G, n)
        """Logarithms of Gamma(shape, 1) variates (Marsaglia and Tsang), one per counter.

        A rejected attempt uses counters of its own, above all others. Below shape 1 the variate is
        that of shape + 1 times U^(1/shape), which for tiny shapes only the logarithm represents.
        """
        index, counters = ids[:, None], np.arange(counter, counter + shape.shape[1])
        boost = self.uniforms(key, index, counters)[..., 0]
        d = np.where(shape < 1.0, shape + 1.0, shape) - 1.0 / 3.0
        c = 1.0 / np.sqrt(9.0 * d)
        out = np.zeros(shape.shape)
        waiting = np.ones(shape.shape, dtype=bool)
        attempt = 0
        while waiting.any():
            attempt += 1
            pair = self.uniforms(key, index, counters + attempt * _ATTEMPT)
            x = ndtri(pair[..., 0])
            v = np.maximum(1.0 + c * x, 1e-100) ** 3  # never accepted at the bound
            accept = np.log(pair[..., 1]) < 0.5 * x**2 + d * (1.0 - v + np.log(v))
            out = np.where(waiting & accept, np.log(d * v), out)
            waiting &= ~accept
        return np.where(shape < 1.0, out + np.log(boost) / shape, out)

    def log_mean_weights(self, counts: Array, alpha: float) -> tuple[Array, Array]:
        """Logarithms of the mean weights of clusters (K,) and sub-clusters (K, 2).

        Unnormalised N_k for clusters, (N_j + alpha/2) / (N_k + alpha) for sub-clusters j, by the
        counts (K, 2) of the sub-clusters. These are means of Dirichlet distributions.
        """
        weight = counts[:, 0] + counts[:, 1]
        log_subweight = np.log(counts + alpha / 2.0) - np.log(weight + alpha)[:, None]
        return np.log(np.maximum(weight, _EMPTY)), log_subweight

    def sample_log_weights(
        self, counts: Array, alpha: float, key: int, ids: Ids
    ) -> tuple[Array, float, Array]:
        """Logarithms of weights drawn from Dir(N_1 .. N_K, alpha) and Dir(N_l + a/2, N_r + a/2).

        For clusters (K,), for a cluster not seen yet, and for sub-clusters (K, 2).
        """
        shape = np.ones((len(counts) + 1, 3))  # a cluster and its two sub-clusters in every line
        shape[:-1, 0] = np.maximum(counts[:, 0] + counts[:, 1], _EMPTY)
        shape[:-1, 1:] = counts + alpha / 2.0
        # The cluster not seen yet draws under -1, an id that no cluster ever has.
        shape[-1, 0] = alpha
        drawn = self.log_gammas(key, np.append(ids, -1), 0, shape)
        log_sub = drawn[:-1, 1:]
        log_sub = log_sub - np.logaddexp(log_sub[:, 0], log_sub[:, 1])[:, None]
        return drawn[:-1, 0].copy(), float(drawn[-1, 0]), log_sub

    def log_odds_of_two(
        self,
        alpha: float,
        n_left: Array,
        n_right: Array,
        log_left: Array,
        log_right: Array,
        log_union: Array,
    ) -> Array:  # (G,)
        """Log odds of two clusters against one: the paper's H_split with the correct marginals f.

        log alpha + lgamma(N_l) + lgamma(N_r) - lgamma(N) + log f(l) + log f(r) - log f(l + r)
        """
        n_left, n_right = np.maximum(n_left, _TINY), np.maximum(n_right, _TINY)
        prior = np.log(alpha) + gammaln(n_left) + gammaln(n_right) - gammaln(n_left + n_right)
        return np.asarray(prior + log_left + log_right - log_union)

    def neighbour_pairs(self, points: Array, n_neighbours: int) -> tuple[Ids, Ids]:
        """Pairs (i < j) of points of which one is among the other's nearest, in order."""
        distances = square_distances(points, points)
        np.fill_diagonal(distances, np.inf)
        n = min(n_neighbours, len(points) - 1)
        near = np.argpartition(distances, n - 1, axis=1)[:, :n]
        first = np.repeat(np.arange(len(points)), n)
        pairs = np.sort(np.column_stack([first, near.ravel()]), axis=1)
        pairs = np.unique(pairs, axis=0)
        return pairs[:, 0], pairs[:, 1]

    def shrink(self, vectors: Array, stds: Array, noise: Array) -> Array:  # (K, D)
        """Shrink vectors towards zero by what noise alone would explain (James and Stein).

        `noise` (K,) is the mean square length, in standard deviations, of a vector of noise. With
        many features noise is long, and without shrinkage it would move clusters.
        """
        size = np.square(vectors / stds).sum(axis=1)
        share = np.maximum(0.0, 1.0 - noise / np.maximum(size, 1e-100))
        return np.asarray(vectors * share[:, None])

    @accelerated
    def log_split_ratio(self, family: Any, alpha: float, left: Array, right: Array) -> Array:
        """Log odds (G,) of splitting clusters into sub-clusters with these statistics (G, P)."""
        marginals = family.log_marginal(np.concatenate([left, right, left + right]))
        return self.log_odds_of_two(alpha, left[:, 0], right[:, 0], *marginals.reshape(3, -1))

    @accelerated
    def likely_unions(
        self, family: Any, alpha: float, stats: Array, n_neighbours: int
    ) -> tuple[Ids, Ids]:
        """Pairs of neighbouring groups whose union is more probable than the two."""
        first, second = self.neighbour_pairs(family.coordinates_of(stats), n_neighbours)
        own = family.log_marginal(stats)
        union = family.log_marginal_of_unions(stats, first, second)
        counts = stats[first, 0], stats[second, 0]
        likely = -self.log_odds_of_two(alpha, *counts, own[first], own[second], union) > 0
        return first[likely], second[likely]

    @accelerated
    def sample_cluster_params(
        self, family: Any, stats: Array, ids: Ids, cluster_key: int, subcluster_key: int
    ) -> tuple[Array, Array]:
        """Draw parameters of clusters (K, Q) and of sub-clusters (2K, Q) from their posteriors.

        `stats` (K, 2, P). A sub-cluster draws under twice the id of its cluster, plus its side.
        """
        sub_ids = (2 * ids[:, None] + np.arange(2)).reshape(-1)
        flat = stats.reshape(-1, stats.shape[-1])
        return (
            family.sample_posterior(
                stats[:, 0] + stats[:, 1], ClusterDraws(self, cluster_key, ids)
            ),
            family.sample_posterior(flat, ClusterDraws(self, subcluster_key, sub_ids)),
        )

    @accelerated
    def move_clusters(
        self,
        family: Any,
        subclusters: Array,
        velocity: Array,
        velocity_noise: Array,
        active: NDArray[np.bool_],
        elapsed: float,
    ) -> Array:  # (K, 2, P)
        """Move the statistics of active clusters along their velocities; the others stay."""
        stds = family.stds(subclusters[:, 0] + subclusters[:, 1])
        shift = self.shrink(velocity, stds, velocity_noise) * (elapsed * active)[:, None]
        flat = subclusters.reshape(-1, subclusters.shape[-1])
        return np.asarray(
            family.translate(flat, shift.repeat(2, axis=0)).reshape(subclusters.shape)
        )

    @accelerated
    def estimate_motion(
        self,
        family: Any,
        past: Array,
        current: Array,
        velocity: Array,
        velocity_noise: Array,
        age: Array,
        elapsed: float,
    ) -> tuple[Array, Array, Array]:  # (K, D), (K, D), (K,)
        """Shift of the past, new velocity and new velocity noise of every cluster.

        An alpha-beta filter. The innovation is the distance of the new rows from where the past was
        expected. Its size under chance alone, in standard deviations, follows from the counts.
        """
        past, current = (layer[:, 0] + layer[:, 1] for layer in (past, current))
        n_new, n_old = current[:, 0], past[:, 0]
        trust = n_new / (n_new + _STEADY) * n_old / (n_old + _STEADY)
        n_before = np.maximum(age / elapsed, 1.0)
        gain = np.maximum(_GAIN, _FIRST_GAIN / n_before) * trust / elapsed
        innovation = family.means(current) - family.means(past)
        noise = innovation.shape[1] * (1.0 / np.maximum(n_new, 1.0) + 1.0 / np.maximum(n_old, 1.0))
        believed = self.shrink(innovation, family.stds(past + current), noise)
        return (
            believed * (_PLACE_GAIN * trust)[:, None],
            velocity + gain[:, None] * innovation,
            np.where(n_new > 0, noise * gain / elapsed, velocity_noise),
        )


REFERENCE = Kernels()


class ClusterDraws:
    """Random numbers for posterior draws of groups, addressed by the stable ids of the groups."""

    def __init__(self, kernels: Kernels, key: int, ids: Ids) -> None:
        self.key = key
        self.ids = ids  # (G,)
        self._kernels = kernels
        self._counter = 0

    def normal(self, n: int) -> Array:
        """Return (G, n) standard normals."""
        return self._kernels.normals(self.key, self.ids, self._reserve((n + 1) // 2), n)

    def log_gamma(self, shape: Array) -> Array:
        """Return logarithms of Gamma(shape, 1) variates, shape (G, n)."""
        first = self._reserve(shape.shape[1])
        return self._kernels.log_gammas(self.key, self.ids, first, shape)

    def _reserve(self, n: int) -> int:
        """Take n counters and return the first."""
        first = self._counter
        self._counter += n
        return first


def square_distances(points: Array, centres: Array) -> Array:  # (N, D), (C, D) -> (N, C)
    """Square Euclidean distances between points and centres."""
    squares = (points**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1)
    return np.asarray(np.maximum(squares - 2.0 * (points @ centres.T), 0.0))


def _philox(key: int, index: Words, counter: Words) -> tuple[Words, Words]:
    """Ten rounds of Philox 4x32 on (index, counter): two 64-bit words."""
    index, counter = np.broadcast_arrays(index, counter)
    c0, c1 = index & _LOW, index >> _SHIFT
    c2, c3 = counter & _LOW, counter >> _SHIFT
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0, p1 = _M0 * c0, _M1 * c2
        c0, c1, c2, c3 = (
            (p1 >> _SHIFT) ^ c1 ^ np.uint64(k0),
            p1 & _LOW,
            (p0 >> _SHIFT) ^ c3 ^ np.uint64(k1),
            p0 & _LOW,
        )
        k0, k1 = (k0 + _W0) & 0xFFFFFFFF, (k1 + _W1) & 0xFFFFFFFF
    return (c1 << _SHIFT) | c0, (c3 << _SHIFT) | c2
