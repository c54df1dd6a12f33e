"""The settings of the algorithm. They are saved with the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np

from scstream.core.window import Exponential, Kernel
from scstream.errors import InputError

ALGORITHM_NAMES = ("default", "paper", "printed", "exact")
_NOT_IN_THE_PAPER = {
    "births": False,
    "motion": False,
    "archive": False,
    "split_evidence": None,
    "merge_evidence": None,
    "coarseness": 0.0,
    "screening": False,
}
_FIXED: Mapping[str, Mapping[str, Any]] = {  # fields that an algorithm does not have
    "paper": _NOT_IN_THE_PAPER,
    "printed": _NOT_IN_THE_PAPER,
    "exact": {"kernel": Exponential(None), "precision": "float64", "screening": False},
}


@dataclass(frozen=True)
class Config:
    """Settings of the algorithm.

    Most users set the parameters of `ScStream` instead. `Config` is for experiments: pass it as
    ``ScStream(config=Config(...))``. `docs/explanation/settings.md` gives the measured effect of
    each field.

    Parameters
    ----------
    algorithm : {"default", "paper", "printed", "exact"}
        "paper" runs the system of Dinari and Freifeld (2022), "printed" their Algorithms 1 and 2
        by the letter, for ablations. Both turn the fields from `births` on off. "exact" samples
        the posterior of one table. It reads `seed`, `alpha`, `n_sweeps` and `max_clusters`, and
        never forgets.
    seed : int
        Key of all random numbers.
    alpha : float
        Concentration of the Dirichlet process. Larger values create clusters more easily; change it
        by factors of 10.
    kernel : Kernel
        Weight of an old batch by its age.
    n_sweeps : int
        Gibbs sweeps per batch (the paper's T), before the last, predictive sweep. For "exact":
        sweeps before the first sample.
    max_clusters : int
        Largest number of clusters. It bounds the memory.
    late : {"error", "add"}
        What to do with a batch that is older than the last one.
    precision : {"float64", "float32"}
        Precision in which compiled kernels compare rows with clusters. Statistics are float64.
    min_weight : float
        A cluster without rows in the batch is removed below this weight.
    min_birth_weight : float
        Smallest weight of a new cluster.
    min_batch : int
        Rows that are learned together. Smaller batches are held until so many rows are there; 1
        learns every batch at once, and then a model never contains rows.
    births : bool
        Let rows that no cluster explains form new clusters.
    motion : bool
        Move the statistics of a cluster along its estimated velocity.
    archive : bool
        Keep removed clusters, so that a returning cluster gets its old id.
    split_evidence : float or None
        Split a cluster also when new rows have shown this much log evidence for its two
        sub-clusters. None: only by the ratio of marginals.
    merge_evidence : float or None
        After the first batch, merge two clusters when new rows have shown this much log evidence
        for their union. None: by the ratio of marginals.
    screening : bool
        With many clusters and features, compare rows exactly only with the clusters that a cheap
        score finds. Random rows are compared with all clusters; `Info.screening_error` reports
        what is missed, and more candidates are used if it is more than a thousandth.
    coarseness : float
        Log-likelihood per row by which two sub-clusters must fit better before a large cluster
        splits. Clusters of less than a few thousand rows need no such gain.

    Examples
    --------
    >>> from scstream import Config
    >>> Config().n_sweeps, Config.paper().n_sweeps
    (0, 1)
    """

    algorithm: Literal["default", "paper", "printed", "exact"] = "default"
    seed: int = 0
    alpha: float = 1.0
    kernel: Kernel = field(default_factory=Exponential)
    n_sweeps: int = 0
    max_clusters: int = 1000
    late: Literal["error", "add"] = "error"
    precision: Literal["float64", "float32"] = "float64"
    min_weight: float = 1.0
    min_birth_weight: float = 5.0
    min_batch: int = 100
    births: bool = True
    motion: bool = True
    archive: bool = False
    split_evidence: float | None = 5.0
    merge_evidence: float | None = 1.5
    coarseness: float = 0.3
    screening: bool = True

    def __post_init__(self) -> None:
        for name, value in _FIXED.get(self.algorithm, {}).items():
            object.__setattr__(self, name, value)

    @classmethod
    def paper(cls, **fields: Any) -> Self:
        """Return the settings of the paper's system: one sampling sweep per batch."""
        fields.setdefault("algorithm", "paper")
        fields.setdefault("n_sweeps", 1)
        return cls(**fields)


def check_config(config: Config) -> None:
    """Raise `InputError` for a setting that cannot work."""
    for name in ("alpha", "min_birth_weight", "min_weight"):
        value = getattr(config, name)
        if not (np.isfinite(value) and value > 0):
            raise InputError(f"{name} must be a positive number, got {value!r}.")
    for name in ("n_sweeps", "coarseness"):
        if not getattr(config, name) >= 0:
            raise InputError(f"{name} must not be negative, got {getattr(config, name)!r}.")
    for name in ("max_clusters", "min_batch"):
        if getattr(config, name) < 1:
            raise InputError(f"{name} must be at least 1, got {getattr(config, name)!r}.")
    for name, known in (
        ("algorithm", ALGORITHM_NAMES),
        ("late", ("error", "add")),
        ("precision", ("float64", "float32")),
    ):
        if getattr(config, name) not in known:
            *others, last = map(repr, known)
            raise InputError(
                f"{name} must be {', '.join(others)} or {last}, got {getattr(config, name)!r}."
            )
