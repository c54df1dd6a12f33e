"""Random parameters of a pass over random rows, to compare compiled kernels with the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from scstream.core.assign import AssignmentParams
from scstream.families import Diagonal, Direction, Gaussian, Multinomial, Subspace
from scstream.kernels import ClusterDraws

MODES: dict[str, dict[str, Any]] = {
    "sampling": {"predictive": False, "key": 11},
    "reporting": {"predictive": True, "key": 12, "report_map": True},
    "most probable": {"predictive": True, "key": None},
    "first labels": {"predictive": True, "key": 13, "report_map": True, "collect_evidence": True},
    "evidence": {"predictive": True, "key": None, "collect_evidence": True},
    "bad fits": {
        "predictive": True,
        "key": 14,
        "report_map": True,
        "collect_evidence": True,
        "bad_fits": True,
    },
}


def gaussian_rows(rng: np.random.Generator, n: int, d: int, k: int):
    centre = rng.normal(size=(k, d)) * 8.0 / np.sqrt(d)
    label = rng.integers(k, size=n)
    family = Gaussian(
        mean=np.zeros(d), kappa=0.05, nu=d + 3.0, psi=np.eye(d), origin=np.full(d, 0.1)
    )
    return family, centre[label] + rng.normal(size=(n, d)), label


def diagonal_rows(rng: np.random.Generator, n: int, d: int, k: int):
    _, X, label = gaussian_rows(rng, n, d, k)
    X[rng.random(X.shape) < 0.1] = np.nan
    family = Diagonal(mean=np.zeros(d), kappa=np.full(d, 0.05), nu=4.0, psi=np.ones(d))
    return family, X, label


def count_rows(rng: np.random.Generator, n: int, d: int, k: int, *, dense: bool = True):
    d = max(d, 2)  # a single count says nothing: all clusters tie
    share = rng.dirichlet(np.full(d, 0.3), size=k)
    label = rng.integers(k, size=n)
    X = np.stack([rng.multinomial(rng.integers(0, 60), share[z]) for z in label]).astype(float)
    X[rng.random(X.shape) < 0.02] += 0.5
    family = Multinomial(concentration=0.2 + rng.random(d))
    return family, X if dense else sparse.csr_array(X), label


def sparse_count_rows(rng: np.random.Generator, n: int, d: int, k: int):
    return count_rows(rng, n, d, k, dense=False)


def direction_rows(rng: np.random.Generator, n: int, d: int, k: int):
    d = d + 50  # with fewer columns there is no compiled form
    centre = rng.normal(size=(k, d)) / np.sqrt(d)
    label = rng.integers(k, size=n)
    family = Direction(
        centre=np.ones(d), strength=3.0, kappa=[20.0, 60.0, 90.0], shares=[0.5, 0.3, 0.2], power=0.6
    )
    return family, centre[label] + 0.8 * rng.normal(size=(n, d)) / np.sqrt(d), label


def subspace_rows(rng: np.random.Generator, n: int, d: int, k: int):
    _, X, label = gaussian_rows(rng, n, d, k)
    q = max(1, d // 2)
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0][:, :q]
    scale = 0.5 + rng.random(d)
    inside = {"kappa": 0.05, "nu": q + 3.0, "psi": np.eye(q)}
    family = Subspace(
        np.zeros(d), basis=basis, outer_kappa=0.5, outer_variance=0.8, scale=scale, **inside
    )
    return family, X, label


ROWS = {
    "gaussian": gaussian_rows,
    "diagonal": diagonal_rows,
    "multinomial": count_rows,
    "multinomial, CSR": sparse_count_rows,
    "direction": direction_rows,
    "subspace": subspace_rows,
}


def params_for(
    family: Any,
    X: Any,
    label: Any,
    k: int,
    *,
    single: bool = False,
    bad_fits: bool = False,
    **mode: Any,
) -> AssignmentParams:
    """Parameters of clusters with these labels, whose sub-clusters are random.

    With `bad_fits`, rows leave their clusters where their density is below a typical one.
    """
    side = np.arange(len(label)) % 2
    stats = family.stats(X, 2 * label + side, 2 * k)
    whole = stats[0::2] + stats[1::2]
    if mode["predictive"]:
        tables = family.predictive_params(whole), family.predictive_params(stats)
    else:
        tables = (
            family.sample_posterior(whole, ClusterDraws(family.kernels, 7, np.arange(k))),
            family.sample_posterior(stats, ClusterDraws(family.kernels, 8, np.arange(2 * k))),
        )
    pairs = np.array([(i, i + 1) for i in range(0, k - 1, 2)], dtype=np.int64).reshape(-1, 2)
    pairs = pairs if mode.get("collect_evidence") else pairs[:0]
    unions = family.predictive_params(whole[pairs[:, 0]] + whole[pairs[:, 1]])
    subclusters = stats[:, 0].reshape(k, 2)
    return AssignmentParams(
        clusters=tables[0],
        subclusters=tables[1],
        log_weight=np.log(whole[:, 0] + 0.1),
        log_subweight=np.log(subclusters + 0.5) - np.log(whole[:, :1] + 1.0),
        log_new=0.0,
        prior=family.prior_predictive,
        pairs=pairs,
        unions=unions,
        single=single,
        typical=family.typical_params if bad_fits else None,
        **mode,
    )
