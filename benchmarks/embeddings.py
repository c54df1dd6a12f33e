"""Embeddings and drawn unit vectors: ``python -m benchmarks.embeddings [--case PART] [--jobs N]``.

`ScStream(family="direction")` with nothing else set, against fading spherical k-means that is
given the number of classes. Every batch is predicted, then learned. Choices of the family were made
on the development sets; no label of a held-out set was looked at. Results go to
``benchmarks/results/embeddings.jsonl``, one line a run, and the table to ``embeddings.md``.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.metrics import roc_auc_score

from benchmarks.paper.files import stored
from benchmarks.results_io import RESULTS, fill
from benchmarks.runs import Row, mean_and_error, provenance
from scstream import ScStream
from scstream.families.sphere import concentration, sample_direction, unit_rows
from scstream.metrics import FullStreamScore, adjusted_rand, normalized_mutual_info

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SEEDS = range(5)
OUT_OF_SCOPE = -1  # label of rows of no class, which no agreement counts
_FADE = 2.0 ** (-1.0 / 5.0)  # per batch: the default half-life of `ScStream`


@dataclass(frozen=True)
class Set:
    """Rows with labels, by seed, and the bars they must reach."""

    load: Callable[[int], tuple[Floats, Ints]]
    bars: dict[str, float]
    held_out: bool = False
    batch: int = 1000


def embedded(name: str) -> Callable[[int], tuple[Floats, Ints]]:
    """Return a loader of sentence embeddings; the seed is that of the model only."""

    def load(seed: int) -> tuple[Floats, Ints]:
        file = np.load(stored(f"minilm_{name}.npz"))
        label = np.unique(file["y"], return_inverse=True)[1]
        return file["X"].astype(np.float64), np.where(file["y"] == OUT_OF_SCOPE, -1, label)

    return load


def drawn(n_features: int, squares: tuple[float, ...]) -> Callable[[int], tuple[Floats, Ints]]:
    """Return a generator of ten von Mises-Fisher clusters, by squared mean resultant lengths."""

    def load(seed: int) -> tuple[Floats, Ints]:
        rng = np.random.default_rng(1000 + seed)
        means = unit_rows(rng.standard_normal((10, n_features)))
        kappa = concentration(np.sqrt(np.resize(squares, 10)), n_features)
        label = rng.integers(0, 10, 6000)
        normals = rng.standard_normal((6000, n_features + 1))
        return sample_direction(means[label], kappa[label], normals), label

    return load


SETS = {
    "News-T": Set(embedded("news_t"), {"ari": 0.45}),
    "20News bodies by date": Set(embedded("20news_bodies_bydate"), {"ari": 0.34}),
    **{
        f"drawn, D={d}, {name}": Set(drawn(d, squares), {"ari": 0.95})
        for d in (100, 384, 768)
        for name, squares in (("alike", (0.2,)), ("mixed", (0.1, 0.3, 0.6, 0.9)))
    },
    "Tweets-T": Set(embedded("tweets_t"), {"ari": 0.70, "full_nmi": 0.80}, held_out=True),
    "Loghub": Set(embedded("loghub"), {"ari": 0.80, "full_nmi": 0.88}, held_out=True),
    "CLINC150": Set(
        embedded("clinc150"),
        {
            "ari": 0.55,
            "nmi": 0.88,
            "full_nmi": 0.80,
            "auc_out_of_scope": 0.95,
            "auc_new_classes": 0.90,
        },
        held_out=True,
        batch=500,
    ),
}


class SphericalKMeans:
    """K-means by cosine, given the number of clusters; the weight of old batches fades."""

    def __init__(self, n_clusters: int, seed: int) -> None:
        self._k, self._seed = n_clusters, seed
        self._sums = np.zeros((0, 0))

    def predict(self, X: Floats) -> Ints:
        """Return the nearest centre of every row."""
        return np.asarray((unit_rows(X) @ unit_rows(self._sums).T).argmax(axis=1))

    def partial_fit(self, X: Floats) -> None:
        """Fade the centres, then assign and average three times."""
        rows = unit_rows(X)
        if not self._sums.size:
            k = min(self._k, len(rows))
            label = KMeans(k, n_init=1, random_state=self._seed).fit_predict(rows)
            self._sums = np.eye(k)[label].T @ rows
            return
        past = _FADE * self._sums
        for _ in range(3):
            label = self.predict(X)
            self._sums = past + np.eye(len(past))[label].T @ rows


def work(name: str, seed: int) -> Row:
    """Run one seed of a set."""
    case = SETS[name]
    X, y = case.load(seed)
    row = {"set": name, "seed": seed} | scores(ScStream("direction", random_state=seed), X, y, case)
    n_classes = len(np.unique(y[y != OUT_OF_SCOPE]))
    rival = scores(SphericalKMeans(n_classes, seed), X, y, case)
    return row | {f"kmeans_{key}": value for key, value in rival.items()}


def scores(model: Any, X: Floats, y: Ints, case: Set) -> Row:
    """Predict and learn batch by batch; return mean and full-stream agreement, and AUC."""
    full, ari, nmi, scored, density, known = FullStreamScore(), [], [], [], [], []
    seen: set[int] = set()
    for start in range(0, len(X), case.batch):
        rows, label = X[start : start + case.batch], y[start : start + case.batch]
        if start:
            inside = label != OUT_OF_SCOPE
            found = np.asarray(model.predict(rows))
            ari.append(adjusted_rand(label[inside], found[inside]))
            nmi.append(normalized_mutual_info(label[inside], found[inside]))
            full.update(label[inside], found[inside])
            if hasattr(model, "score_samples"):
                density.append(model.score_samples(rows))
                scored.append(label)
                known.append(np.isin(label, list(seen)))
        seen |= set(label[label != OUT_OF_SCOPE].tolist())
        model.partial_fit(rows)
    row = {"ari": float(np.mean(ari)), "nmi": float(np.mean(nmi)), "full_nmi": full.nmi()}
    if density:
        row |= {"k": float(model.n_clusters_)}
        row |= areas(np.concatenate(density), np.concatenate(scored), np.concatenate(known))
    return row


def areas(density: Floats, label: Ints, known: NDArray[np.bool_]) -> Row:
    """Areas under the curve of low density, for rows out of scope and rows of new classes."""
    outside = label == OUT_OF_SCOPE
    new, row = ~known & ~outside, {}
    for name, wanted in (("out_of_scope", outside), ("new_classes", new)):
        kept = wanted | known
        if wanted.any() and known.any():
            row[f"auc_{name}"] = float(roc_auc_score(wanted[kept], -density[kept]))
    return row


def lines(name: str, rows: list[Row]) -> list[str]:
    """Lines of the table for one set: figures, seeds, bars, and k-means."""
    out = []
    for figure, bar in SETS[name].bars.items():
        mean, _, _ = mean_and_error(rows, figure)
        each = ", ".join(f"{row[figure]:.3f}" for row in rows)
        rival = f"{mean_and_error(rows, f'kmeans_{figure}')[0]:.3f}" if "auc" not in figure else ""
        verdict = "reached" if mean >= bar else "**missed**"
        out.append(f"| {name} | {figure} | {mean:.3f} | {each} | {bar:g} | {verdict} | {rival} |")
    return out


def table(results: dict[str, list[Row]]) -> str:
    """The page: development sets and held-out sets apart."""
    head = ["# Embeddings", "", "Made by `python -m benchmarks.embeddings`.", provenance(), ""]
    columns = [
        "| set | figure | mean | by seed | bar | | spherical k-means, given K |",
        "|---|---|---|---|---|---|---|",
    ]
    for title, held_out in (("Development sets", False), ("Held-out sets", True)):
        chosen = {n: rows for n, rows in results.items() if SETS[n].held_out == held_out}
        head += [f"## {title}", "", *columns]
        head += [line for name, rows in chosen.items() for line in lines(name, rows)]
        head += ["", "| set | mean over seeds |", "|---|---|"]
        for name, rows in chosen.items():
            shown = ("ari", "nmi", "full_nmi", "k", "kmeans_ari", "kmeans_nmi", "kmeans_full_nmi")
            figures = (f"{figure} {mean_and_error(rows, figure)[0]:.3f}" for figure in shown)
            head.append(f"| {name} | {', '.join(figures)} |")
        head.append("")
    return "\n".join(head)


def main() -> None:
    """Run what is missing and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", default="", help="only sets whose name contains this")
    parser.add_argument("--jobs", type=int, default=1)
    choice = parser.parse_args()
    names = [name for name in SETS if choice.case in name]
    jobs = {f"{name} / {seed}": (name, seed) for name in names for seed in SEEDS}
    rows = fill(RESULTS / "embeddings.jsonl", jobs, work, choice.jobs)
    page = table({n: [row for row in rows.values() if row["set"] == n] for n in names})
    print(page)
    if not choice.case:
        (RESULTS / "embeddings.md").write_text(page)


if __name__ == "__main__":
    main()
