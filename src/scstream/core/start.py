"""The data-driven prior: fitted to the first rows of a stream."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from scstream.core.births import MAX_COMPARED, group_rows, one_or_many
from scstream.core.config import Config
from scstream.core.ratios import log_joint
from scstream.core.rng import key_for, sample_rows
from scstream.families.base import Array, Family, Rows

_MAX_ROWS = 5_000  # rows of a first batch that the prior is estimated from
_MAX_ROUNDS = 4
_WORTH_A_ROUND = 0.03  # nats per entry of the rows


def data_driven_prior(family: Family, config: Config, X: Rows, weight: Array | None) -> Family:
    """Choose the prior by maximum marginal likelihood on groups of the first batch.

    Grouping needs a prior and the prior needs groups. The weak prior of `family` finds the first
    groups, a prior fitted to them finds better groups, and so on while the fit improves. Guards: if
    the rows show no groups, `family` is returned as it is. After the first round a prior must
    improve the fit clearly, because otherwise it would cut clusters of another shape than the
    family's into ever smaller ones.
    """
    X, weight = _subsample(family, config, X, weight)
    groups = one_or_many(family, config, group_rows(family, config, X, weight, _key(config, 0)))
    if len(groups) == 1:
        return family
    weak, explained = family, log_joint(family, config.alpha, groups)
    for round_ in range(1, _MAX_ROUNDS + 1):
        fitted = _most_probable(weak.prior_grid(groups), groups)
        if family.collapsed:
            return fitted
        regrouped = group_rows(fitted, config, X, weight, _key(config, round_))
        gain = log_joint(fitted, config.alpha, regrouped) - explained
        least = _WORTH_A_ROUND * n_entries(X) if round_ > 1 else 0.0
        if len(regrouped) == 1 or gain < least:
            break
        family, groups, explained = fitted, regrouped, explained + gain
    return family


def _most_probable(candidates: list[Family], groups: Array) -> Family:
    evidence = [float(family.log_marginal(groups).sum()) for family in candidates]
    return candidates[int(np.argmax(evidence))]


def _subsample(
    family: Family, config: Config, X: Rows, weight: Array | None
) -> tuple[Rows, Array | None]:
    """A random subset of a large batch, chosen by the rows' addresses."""
    key = key_for(config.seed, batch=0, sweep=0, purpose="pool")
    max_rows = MAX_COMPARED if family.collapsed else _MAX_ROWS
    rows = sample_rows(family.kernels, key, np.arange(X.shape[0]), max_rows)
    return X[rows], None if weight is None else weight[rows]


def n_entries(X: Rows) -> int:
    """Number of entries that are not zero."""
    return int(X.nnz if sparse.issparse(X) else np.count_nonzero(X))


def _key(config: Config, round_: int) -> int:
    return key_for(config.seed, batch=0, sweep=round_, purpose="chain")
