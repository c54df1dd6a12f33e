"""Anomalies and novel rows of real sets: ``python -m benchmarks.anomalies``.

Every batch is scored before it is learned; nothing is set. Writes results/anomalies.md.
"""

from __future__ import annotations

import argparse
import os
from functools import cache
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import numpy.typing as npt
from sklearn.metrics import average_precision_score, roc_auc_score

from benchmarks.paper import sets
from benchmarks.results_io import RESULTS, fill
from benchmarks.runs import provenance
from scstream import ScStream

BATCH = 1000
RARE = 0.01  # classes with a smaller share of the rows are anomalies of KDD 99
SETS = (
    "kdd99",
    "shuttle",
    "imagenet100-recurring",
)  # the first is for development, the others are held out
PAGE = """\
# Anomalies and novel rows

Made by `python -m benchmarks.anomalies` from `anomalies.jsonl`; do not edit. {provenance}.

Every batch of 1,000 rows is scored before it is learned. Nothing is set. Anomalies: KDD 99, rows of
classes with less than 1 % of all rows ({kdd:.1%} of the rows); Shuttle, rows of all classes but the
largest ({shuttle:.1%}), where as usual the second largest takes no part. Novel rows of ImageNet:
rows of classes that no earlier batch had ({imagenet:.1%}). KDD 99 is a development set, the others
are held out. Mean and range of {n_seeds} seeds.

| set | score | AUC | average precision | recall at 5 % false alarms |
|---|---|---|---|---|
{table}

`predict(X, novelty=0.05)` on ImageNet gives the label -1 to {false:.1%} of the rows of known
classes and to {found:.1%} of the rows of new ones.
"""


@cache
def data(name: str) -> tuple[Any, npt.NDArray[np.int64]]:
    """Return the rows and their classes."""
    table = sets.SETS[name].load()
    return table.X, table.y


def anomalous(name: str, y: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which rows a score should find."""
    share = np.bincount(y) / len(y)
    if name == "kdd99":
        return np.asarray(share[y] < RARE)
    if name == "shuttle":
        return np.asarray(y != share.argmax())
    first = {label: int(np.flatnonzero(y == label)[0]) // BATCH for label in np.unique(y)}
    return np.array([first[label] for label in y]) == np.arange(len(y)) // BATCH


def work(name: str, seed: int) -> dict[str, Any]:
    """Score one stream."""
    X, y = data(name)
    model = ScStream(random_state=seed)
    found: dict[str, list[Any]] = {"score_samples": [], "anomaly_score": [], "novel": []}
    for start in range(0, len(X), BATCH):
        rows = X[start : start + BATCH]
        if start:
            found["score_samples"].append(-model.score_samples(rows))
            found["anomaly_score"].append(model.anomaly_score(rows))
            found["novel"].append(model.predict(rows, novelty=0.05) == -1)
        model.partial_fit(rows)
    counted = np.ones(len(y) - BATCH, dtype=bool)
    if name == "shuttle":  # as usual with this set, its second largest class takes no part
        counted = y[BATCH:] != np.argsort(np.bincount(y))[-2]
    odd = anomalous(name, y)[BATCH:][counted]
    novel = np.concatenate(found.pop("novel"))[counted]
    row: dict[str, Any] = {"set": name, "seed": seed, "share": float(odd.mean())}
    row |= {"false": float(novel[~odd].mean()), "found": float(novel[odd].mean())}
    for score, parts in found.items():
        values = np.concatenate(parts)[counted]
        limit = np.quantile(values[~odd], 0.95)
        row[score] = [
            float(roc_auc_score(odd, values)),
            float(average_precision_score(odd, values)),
            float((values[odd] > limit).mean()),
        ]
    return row


def main() -> None:
    """Run what is missing and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    jobs = {f"{name}/{seed}": (name, seed) for name in SETS for seed in range(options.seeds)}
    rows = fill(RESULTS / "anomalies.jsonl", jobs, work, options.jobs).values()
    lines = []
    for name in SETS:
        for score in ("score_samples", "anomaly_score"):
            values = np.array([row[score] for row in rows if row["set"] == name])
            cells = [
                f"{mean:.3f} ({low:.3f} to {high:.3f})"
                for mean, low, high in zip(
                    values.mean(axis=0), values.min(axis=0), values.max(axis=0), strict=True
                )
            ]
            lines.append(f"| {name} | `{score}` | {' | '.join(cells)} |")
    known = {name: [row for row in rows if row["set"] == name] for name in SETS}
    page = PAGE.format(
        provenance=provenance(),
        n_seeds=options.seeds,
        table="\n".join(lines),
        kdd=known["kdd99"][0]["share"],
        shuttle=known["shuttle"][0]["share"],
        imagenet=known["imagenet100-recurring"][0]["share"],
        false=np.mean([row["false"] for row in known["imagenet100-recurring"]]),
        found=np.mean([row["found"] for row in known["imagenet100-recurring"]]),
    )
    (RESULTS / "anomalies.md").write_text(page)
    print(page)


if __name__ == "__main__":
    main()
