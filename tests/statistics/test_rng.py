"""Random numbers with an address: the right generator, the right distributions, no entanglement.

Every p-value below is of a test at a pinned key, with the bar at 0.001: over the 40 or so of them
a right generator would fail one with probability 4 % at a random key. None of the keys was chosen.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from scstream.core.rng import PURPOSES, key_for
from scstream.kernels import ClusterDraws, choose_kernels

pytestmark = pytest.mark.statistics

N = 20_000
KERNELS = choose_kernels()
SHAPES = (0.01, 0.3, 1.0, 1.5, 7.0, 1e3, 1e6)


def word(*parts):
    return sum(part << (32 * place) for place, part in enumerate(parts))


# Counter, key and output of Philox 4x32-10 as published with Random123 (kat_vectors).
KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (
        (0xFFFFFFFF,) * 4,
        (0xFFFFFFFF,) * 2,
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "output"), KNOWN_ANSWERS)
def test_uniforms_are_the_top_bits_of_philox(counter, key, output):
    index, lane = (np.array([word(*counter[at : at + 2])], dtype=np.uint64) for at in (0, 2))
    found = KERNELS.uniforms(word(*key), index, lane)[0]
    expected = [((word(*output[at : at + 2]) >> 11) + 0.5) / 2.0**53 for at in (0, 2)]
    assert found.tolist() == expected


def test_keys_of_different_addresses_differ():
    addresses = [
        dict(seed=seed, batch=batch, sweep=sweep, purpose=purpose)
        for seed in (0, 1, 2**40, -1)
        for batch in range(20)
        for sweep in range(20)
        for purpose in PURPOSES
    ]
    keys = {key_for(a.pop("seed"), **a) for a in addresses}
    assert len(keys) == len(addresses)
    assert all(0 <= key < 2**64 for key in keys)


HERE = key_for(7, batch=3, sweep=1, purpose="labels")
MANY = np.arange(N)


def by_key(keys):
    return np.concatenate([KERNELS.uniforms(key, np.array([4]))[:, 0] for key in keys])


ALONG = {
    "rows": lambda: KERNELS.uniforms(HERE, MANY)[:, 0],
    "second of a pair": lambda: KERNELS.uniforms(HERE, MANY)[:, 1],
    "lanes": lambda: KERNELS.uniforms(HERE, np.full(N, 5), MANY)[:, 0],
    "sweeps": lambda: by_key(
        key_for(7, batch=n // 50, sweep=n % 50, purpose="labels") for n in range(3_000)
    ),
    "seeds": lambda: by_key(
        key_for(seed, batch=0, sweep=0, purpose="params") for seed in range(3_000)
    ),
}


@pytest.mark.parametrize("part", ALONG)
def test_uniforms_are_uniform_and_uncorrelated_along_every_part_of_an_address(part):
    u = ALONG[part]()
    assert u.min() > 0.0
    assert u.max() < 1.0
    assert stats.kstest(u, "uniform").pvalue > 1e-3
    cell = (u * 16).astype(int)
    table = np.bincount(16 * cell[:-1] + cell[1:], minlength=256)
    assert stats.chisquare(table).pvalue > 1e-3  # neighbours: all 16 x 16 pairs alike


def test_different_purposes_are_independent():
    u = np.array(
        [
            KERNELS.uniforms(key_for(0, batch=0, sweep=0, purpose=p), np.arange(N))[:, 0]
            for p in PURPOSES
        ]
    )
    correlation = np.corrcoef(u)[np.triu_indices(len(PURPOSES), 1)]
    p = 2.0 * stats.norm.sf(np.abs(correlation) * np.sqrt(N))
    assert p.min() > 1e-3 / len(p)


def test_normals_are_normal():
    normals = ClusterDraws(
        KERNELS, key_for(1, batch=0, sweep=0, purpose="params"), np.arange(N // 4)
    )
    drawn = normals.normal(4)
    assert stats.kstest(drawn.ravel(), "norm").pvalue > 1e-3
    correlation = np.corrcoef(drawn.T)[np.triu_indices(4, 1)]
    assert (2.0 * stats.norm.sf(np.abs(correlation) * np.sqrt(N // 4))).min() > 1e-3 / 6


@pytest.mark.parametrize("shape", SHAPES)
def test_log_gammas_are_logarithms_of_gammas(shape):
    """For a tiny shape log x is log U / shape but for a factor that is nearly one."""
    draws = ClusterDraws(KERNELS, key_for(2, batch=0, sweep=0, purpose="weights"), np.arange(N))
    found = draws.log_gamma(np.full((N, 1), shape))[:, 0]
    assert np.isfinite(found).all()
    if shape >= 0.3:
        assert stats.kstest(np.exp(found), stats.gamma(shape).cdf).pvalue > 1e-3
    assert stats.kstest(found, stats.loggamma(shape).cdf).pvalue > 1e-3


def test_successive_draws_of_one_cluster_are_independent():
    draws = ClusterDraws(KERNELS, key_for(3, batch=0, sweep=0, purpose="params"), np.arange(N))
    columns = np.column_stack(
        [
            draws.normal(1),
            draws.log_gamma(np.full((N, 2), [2.0, 0.4])),
            draws.normal(1),
            draws.log_gamma(np.full((N, 1), 5.0)),
        ]
    )
    rank, _ = stats.spearmanr(columns)
    p = 2.0 * stats.norm.sf(np.abs(rank[np.triu_indices(5, 1)]) * np.sqrt(N))
    assert p.min() > 1e-3 / len(p)


def test_draws_of_a_cluster_depend_on_its_own_address_only():
    """In any company, in any order, its numbers are the same to the last bit."""
    key = key_for(4, batch=9, sweep=2, purpose="params")
    ids = np.array([3, 11, 12, 4_000, 70_000])
    shape = np.array([0.02, 0.7, 1.0, 3.3, 900.0])

    def drawn(which):
        draws = ClusterDraws(KERNELS, key, ids[which])
        first = draws.normal(3)
        second = draws.log_gamma(shape[which, None] * np.array([1.0, 2.0]))
        return np.column_stack([first, second, draws.normal(2)])

    everyone = drawn(np.arange(5))
    for which in ([2], [4, 0], [1, 3, 2], [4, 3, 2, 1, 0]):
        np.testing.assert_array_equal(drawn(np.array(which)), everyone[which])


def test_drawn_weights_are_dirichlet():
    """Ratios of weights, and shares of the halves, against beta distributions."""
    counts = np.array([[1.0, 0.5], [4.0, 2.5], [0.0, 0.25]])
    alpha = 0.7
    keys = [key_for(5, batch=b, sweep=0, purpose="weights") for b in range(2_000)]
    drawn = [KERNELS.sample_log_weights(counts, alpha, key, np.arange(3)) for key in keys]
    weight = np.array([np.append(known, new) for known, new, _ in drawn])
    weight = np.exp(weight - weight.max(axis=1, keepdims=True))
    weight /= weight.sum(axis=1, keepdims=True)
    shape = np.array([1.5, 6.5, 0.25, alpha])
    for k in range(4):
        beta = stats.beta(shape[k], shape.sum() - shape[k])
        assert stats.kstest(weight[:, k], beta.cdf).pvalue > 1e-3
    share = np.exp(np.array([half for _, _, half in drawn]))
    np.testing.assert_allclose(share.sum(axis=2), 1.0, rtol=1e-12)
    for k, (left, right) in enumerate(counts + alpha / 2.0):
        assert stats.kstest(share[:, k, 0], stats.beta(left, right).cdf).pvalue > 1e-3
