"""One run of one case: prequential scores of a model on a stream, as a flat row of numbers."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy
import sklearn

import scstream
from benchmarks.cases import Case
from scstream import ScStream
from scstream.metrics import DetectionDelay, prequential

Row = dict[str, Any]


def run(case: Case, seed: int, choices: dict[str, Any] | None = None) -> Row:
    """Score `ScStream` with its defaults (and the case's family) on one seed of a case."""
    settings: dict[str, Any] = case.choices | (choices or {}) | {"random_state": seed}
    row = score(ScStream(**settings), case.stream(seed), oracle=case.oracle)
    if case.rival is not None:
        rival = score(kmeans(case.rival, seed), case.stream(seed), oracle=case.oracle)
        row["full_nmi_above_kmeans"] = row["full_nmi"] - rival["full_nmi"]
    if "ari_above_vague" in case.bars:
        vague = score(ScStream(**settings | {"prior": "weak"}), case.stream(seed), oracle=False)
        row["ari_above_vague"] = row["ari"] - vague["ari"]
    return row


def score(model: Any, stream: Any, *, oracle: bool) -> Row:
    """Run the prequential loop and add what is learned of K and of births on the way."""
    delay = DetectionDelay(getattr(stream, "births", []))
    excess, relative = [], []

    def watch(step: Any) -> None:
        delay.update(step.number, step.batch.y, step.model.labels_)
        k, truth = getattr(step.model, "n_clusters_", 0), len(np.unique(step.batch.y))
        excess.append(k - truth)
        relative.append(k / truth)

    result = prequential(model, stream, oracle=oracle, callback=watch)
    row = {name: float(value) for name, value in result.summary().items() if value is not None}
    row |= {
        "inflation": float(np.mean(excess)),
        "k_error": abs(float(np.mean(relative)) - 1.0),
        "k_is_one": float(np.mean(np.array(excess) == 0)),
    }
    if delay.delays or delay.missed:
        row |= {"delay": float(delay.mean()), "missed": float(len(delay.missed))}
    return row


def kmeans(n_clusters: int, seed: int) -> Any:
    """`MiniBatchKMeans` given the true number of clusters."""
    from sklearn.cluster import MiniBatchKMeans

    return MiniBatchKMeans(n_clusters, n_init=3, random_state=seed)


def mean_and_error(rows: Iterable[Row], name: str) -> tuple[float, float, int]:
    """Mean, standard error and number of the rows that have this entry."""
    values = np.array([row[name] for row in rows if name in row])
    error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
    return float(values.mean()), error, len(values)


def provenance() -> str:
    """Versions and machine, for the head of a table."""
    return (
        f"scstream {scstream.__version__}, numpy {np.__version__}, scipy {scipy.__version__}, "
        f"scikit-learn {sklearn.__version__}, Python {platform.python_version()}, "
        f"{platform.machine()}"
    )
