"""``python -m benchmarks exact`` writes results/exact.jsonl and results/exact.md."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from benchmarks.exact.collapsed import CollapsedGibbs
from benchmarks.results_io import RESULTS, fill
from benchmarks.runs import provenance
from scstream.compute.threads import ThreadExecutor, one_blas_thread
from scstream.core import exact
from scstream.core.config import Config
from scstream.core.partition import Partition, Table
from scstream.core.segment import seed_cells
from scstream.core.state import Batch
from scstream.families import Gaussian
from scstream.kernels import choose_kernels
from scstream.posterior import effective_sample_size

N_ROWS, N_CLUSTERS, ALPHA = 2_000, 20, 1.0
KAPPA = {2: 0.02, 16: 1.0}  # how far clusters are apart, by the number of features
BURN_IN = 500
N_SWEEPS = {"exact": 3_000, "collapsed": 100}
N_MIXING = 2_000  # sweeps of a chain from a far start; the second half is compared
STARTS = ("one", "hundred")

PAGE = """\
# Exact sampler: effective samples per second

Made by `python -m benchmarks exact`; do not edit. {provenance}.

{n_rows:,} rows of {n_clusters} Gaussian clusters with full covariances, drawn from the prior that
the samplers are given (kappa {kappas}, alpha {alpha:g}). "collapsed" is a collapsed Gibbs sampler
written for this comparison (Neal's algorithm 3): numpy, vectorised over clusters, rank-one updates
of inverse scale matrices. Both start at the partition that {burn_in} sweeps of the exact sampler
reached, then run {n_exact:,} and {n_collapsed:,} sweeps. Effective samples by Geyer's initial
monotone sequence; CPU seconds of one thread, on a machine that was busy with other work.
dpmmpython needs Julia, which was not available here; it was not measured.

"off" compares the mean of a chain with the mean of the chains from far starts below, in standard
errors of the chain by its own effective samples (the error of the far starts is not counted). Far
above 2, a chain was too short to see its slowest changes, and its effective samples are
overestimated. For D=2 both chains hold only 5 to 60 effective samples, so these figures vary by
factors of two to four: in an earlier run, with 1,024 in place of 256 single rows per sweep and
other starts, the exact sampler had 3.4 to 3.7 (K) and 1.5 to 2.1 (log posterior) effective samples
per second, and the collapsed one 2.7 and 1.2 to 1.6, its means off by up to 6 standard errors.

## Effective samples

{ess}

## From far starts

{n_mixing:,} sweeps of the exact sampler from one cluster and from 100 k-means cells. Mean and
standard deviation over the second half, and the split R-hat of both chains (below 1.1 is usual).

{mixing}
"""


def family_of(d: int) -> Gaussian:
    """The prior from which rows are drawn and under which they are clustered."""
    nu = d + 10.0
    psi = np.eye(d) * (nu - d - 1.0) / nu  # the mean covariance is the identity
    family = Gaussian(mean=np.zeros(d), kappa=KAPPA[d], nu=nu, psi=psi)
    return family.with_kernels(choose_kernels())


def rows_of(d: int, seed: int) -> np.ndarray:
    """Rows of clusters of about equal size, their parameters drawn from the prior."""
    rng, family = np.random.default_rng([d, seed]), family_of(d)
    factor = np.linalg.inv(np.linalg.cholesky(family.nu * family.psi))
    label = rng.integers(N_CLUSTERS, size=N_ROWS)
    X = np.empty((N_ROWS, d))
    for k in range(N_CLUSTERS):
        # Sigma^-1 ~ Wishart(nu, (nu Psi)^-1) as a sum of outer products: nu is a whole number.
        spread = rng.normal(size=(int(family.nu), d)) @ factor
        sigma = np.linalg.cholesky(np.linalg.inv(spread.T @ spread))
        centre = sigma @ rng.normal(size=d) / np.sqrt(family.kappa)
        rows = label == k
        X[rows] = centre + rng.normal(size=(rows.sum(), d)) @ sigma.T
    return X


def table_of(d: int, seed: int) -> Table:
    """The rows, ready to be sampled by one thread."""
    config = Config(algorithm="exact", alpha=ALPHA, seed=seed)
    return Table.of(family_of(d), config, Batch(rows_of(d, seed), 0.0), ThreadExecutor())


def traced(
    step: Callable[[int], Partition], table: Table, sweeps: range
) -> tuple[list[int], list[float], float]:
    """Number of clusters and log posterior after every sweep, and CPU seconds of the sweeps."""
    n_clusters, log_posterior, seconds = [], [], 0.0
    for sweep in sweeps:
        started = time.process_time()
        partition = step(sweep)
        seconds += time.process_time() - started
        n_clusters.append(partition.n_clusters)
        log_posterior.append(partition.log_posterior(table))
    return n_clusters, log_posterior, seconds


def exact_chain(table: Table, partition: Partition) -> Callable[[int], Partition]:
    """Sweeps of the exact sampler from a partition on."""

    def step(sweep: int) -> Partition:
        nonlocal partition
        partition = exact.advance(table, partition, sweep)
        return partition

    return step


def collapsed_chain(table: Table, partition: Partition, seed: int) -> Callable[[int], Partition]:
    """Sweeps of the collapsed Gibbs sampler from a partition on."""
    family = table.family
    assert isinstance(family, Gaussian)
    prior: dict[str, Any] = {
        "mean": family.mean,
        "kappa": family.kappa,
        "nu": family.nu,
        "psi": family.psi,
    }
    chain = CollapsedGibbs(table.X, partition.labels, alpha=ALPHA, seed=seed, **prior)

    def step(sweep: int) -> Partition:
        chain.sweep()
        return Partition.of(table, chain.labels)

    return step


def efficiency(sampler: str, d: int, seed: int) -> dict[str, Any]:
    """Effective samples of a sampler at its stationary distribution."""
    with one_blas_thread:
        table = table_of(d, seed)
        partition = exact.start(table)
        for sweep in range(BURN_IN):
            partition = exact.advance(table, partition, sweep)
        if sampler == "exact":
            step = exact_chain(table, partition)
        else:
            step = collapsed_chain(table, partition, seed)
        sweeps = range(BURN_IN, BURN_IN + N_SWEEPS[sampler])
        n_clusters, log_posterior, seconds = traced(step, table, sweeps)
    return {
        "D": d,
        "seed": seed,
        "sampler": sampler,
        "ms": 1e3 * seconds / len(sweeps),
        "n_clusters": float(np.mean(n_clusters)),
        "log_posterior": float(np.mean(log_posterior)),
        "ess_n_clusters": effective_sample_size(np.array(n_clusters)),
        "ess_log_posterior": effective_sample_size(np.array(log_posterior)),
        "n_sweeps": len(sweeps),
        "seconds": seconds,
    }


def mixing(d: int, seed: int) -> dict[str, Any]:
    """Chains from one cluster and from a hundred: do they reach the same distribution?"""
    traces: dict[str, list[Any]] = {"n_clusters": [], "log_posterior": []}
    with one_blas_thread:
        table = table_of(d, seed)
        assert table.points is not None
        cells = seed_cells(
            table.family.kernels, table.points, np.ones(N_ROWS), n_cells=100, key=seed
        )
        for number, labels in enumerate((np.zeros(N_ROWS, np.int64), cells)):
            first = number << 32  # other random numbers for the other chain
            step = exact_chain(table, Partition.of(table, labels))
            ks, logs, _ = traced(step, table, range(first, first + N_MIXING))
            traces["n_clusters"].append(ks)
            traces["log_posterior"].append(logs)
    out: dict[str, Any] = {"D": d, "seed": seed}
    for name, chains in traces.items():
        late = np.array(chains, dtype=float)[:, N_MIXING // 2 :]
        for start, chain in zip(STARTS, late, strict=True):
            out[f"{name} from {start}"] = [float(chain.mean()), float(chain.std())]
        out[f"rhat {name}"] = split_rhat(late)
    return out


def measure(part: str, d: int, seed: int) -> dict[str, Any]:
    """Run one part: a sampler's efficiency, or mixing."""
    return mixing(d, seed) if part == "mixing" else efficiency(part, d, seed)


def split_rhat(chains: np.ndarray) -> float:
    """Potential scale reduction of the halves of chains (C, n)."""
    half = chains.shape[1] // 2
    parts = np.concatenate([chains[:, :half], chains[:, half : 2 * half]])
    within = parts.var(axis=1, ddof=1).mean()
    between = parts.mean(axis=1).var(ddof=1)
    return float(np.sqrt((half - 1) / half + between / within)) if within > 0 else float("nan")


def deviation(name: str, row: dict[str, Any], far: dict[str, Any]) -> float:
    """How many of its own standard errors the mean of a chain is off that of the far starts."""
    mean, std = np.mean([far[f"{name} from {start}"] for start in STARTS], axis=0)
    return float((row[name] - mean) / (std / np.sqrt(row[f"ess_{name}"])))


def ess_table(rows: list[dict[str, Any]], far: dict[tuple[int, int], dict[str, Any]]) -> str:
    """Markdown of the effective samples."""
    lines = [
        "| D | seed | sampler | ms per sweep | mean K | off | mean log posterior | off "
        "| ESS of K per sweep | per s | ESS of log posterior per sweep | per s |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        reference = far[row["D"], row["seed"]]
        off = [deviation(name, row, reference) for name in ("n_clusters", "log_posterior")]
        k, log = row["ess_n_clusters"], row["ess_log_posterior"]
        n, s = row["n_sweeps"], row["seconds"]
        lines.append(
            f"| {row['D']} | {row['seed']} | {row['sampler']} | {row['ms']:.1f} "
            f"| {row['n_clusters']:.2f} | {off[0]:+.1f} "
            f"| {row['log_posterior']:.1f} | {off[1]:+.1f} "
            f"| {k / n:.3f} | {k / s:.2f} | {log / n:.3f} | {log / s:.2f} |"
        )
    return "\n".join(lines)


def mixing_table(rows: list[dict[str, Any]]) -> str:
    """Markdown of the far starts."""
    lines = [
        "| D | seed | K from one | K from 100 | R-hat "
        "| log posterior from one | from 100 | R-hat |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [f"{row['D']}", f"{row['seed']}"]
        for name, digits in (("n_clusters", 2), ("log_posterior", 1)):
            for start in STARTS:
                mean, std = row[f"{name} from {start}"]
                cells.append(f"{mean:.{digits}f} ± {std:.{digits}f}")
            cells.append(f"{row[f'rhat {name}']:.3f}")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    """Run what is missing, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks exact", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args(arguments)
    path = RESULTS / "exact.jsonl"
    jobs = {
        f"{part} {d} {seed}": (part, d, seed)
        for seed in range(options.seeds)
        for d in KAPPA
        for part in (*N_SWEEPS, "mixing")
    }
    rows = fill(path, jobs, measure, options.jobs)
    far = [row for key, row in rows.items() if key.startswith("mixing")]
    near = [row for key, row in rows.items() if not key.startswith("mixing")]
    page = PAGE.format(
        provenance=provenance(),
        n_rows=N_ROWS,
        n_clusters=N_CLUSTERS,
        kappas=" and ".join(f"{kappa:g} for D={d}" for d, kappa in KAPPA.items()),
        alpha=ALPHA,
        burn_in=BURN_IN,
        n_exact=N_SWEEPS["exact"],
        n_collapsed=N_SWEEPS["collapsed"],
        n_mixing=N_MIXING,
        ess=ess_table(near, {(row["D"], row["seed"]): row for row in far}),
        mixing=mixing_table(far),
    )
    Path(RESULTS / "exact.md").write_text(page, encoding="utf-8")
