"""Paper mode against the authors' program: ``python -m benchmarks.paper_rules [--jobs N]``.

The fixed streams and the priors are those on which the authors' program was measured. Each rule
that the text of the paper does not print is left out in turn. Results go to
``benchmarks/results/paper-rules.jsonl`` and ``paper-rules.md``; a run that was cut off goes on.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from benchmarks.ablation import PAPER_2D
from benchmarks.paper import files
from benchmarks.results_io import RESULTS, fill
from benchmarks.runs import Row, mean_and_error, provenance
from scstream import ScStream, learning, model
from scstream.core import default, paper, printed
from scstream.core.paper import PaperRules
from scstream.metrics import prequential
from scstream.metrics.prequential import PrequentialStep

BATCH = 1000
SEEDS = (0, 1, 2)
ABLATION_SEEDS = (0, 1)
FIRST_SEEDS = range(16)
TUNED_2D = {"kappa": 0.01, "mean": 0.0, "nu": 10.0, "psi": 1.0}
TUNED_64D = {"kappa": 0.1, "mean": 0.0, "nu": 200.0, "psi": 0.5}
STREAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "2-D, paper's prior": ("gen_gauss2d", {"prior": PAPER_2D, "half_life": 1.0}),
    "2-D, tuned prior": ("gen_gauss2d", {"prior": TUNED_2D, "half_life": 1.0}),
    "64-D, tuned prior": ("gen_recurring", {"prior": TUNED_64D, "half_life": 5.0}),
}
ORIGINAL = {  # the authors' program: ARI, NMI, full-stream NMI
    "2-D, paper's prior": (0.800, 0.925, 0.600),
    "2-D, tuned prior": (0.910, 0.961, 0.701),
    "64-D, tuned prior": (0.369, 0.667, 0.501),
}
VARIANTS: dict[str, PaperRules | None] = {
    "paper": paper.PROGRAM,
    "sub-clusters are not renewed (no R)": replace(paper.PROGRAM, renew=False),
    "printed merge ratio (no M)": replace(
        paper.PROGRAM, moves=replace(paper.RULES, subcluster_ratio=False)
    ),
    "most probable sub-labels (no A)": replace(paper.PROGRAM, draw_sublabels=False),
    "children in equal halves": replace(
        paper.PROGRAM, moves=replace(paper.RULES, edits=printed.RULES.edits)
    ),
    "patience 50": replace(paper.PROGRAM, patience=50),
    "printed": printed.TEXT,
    "default, own prior": None,
}


def use(variant: str) -> str:
    """Let `algorithm="paper"` of this process run the variant; return the algorithm to ask for."""
    rules = VARIANTS[variant]
    if rules is None:
        return "default"
    changed = SimpleNamespace(
        step=partial(paper.step, rules=rules), predictor=paper.predictor, shapes=paper.shapes
    )
    for module in (learning, model):
        module.ALGORITHMS = {"default": default, "paper": changed}
    return "paper"


@cache
def rows_of(recipe: str) -> tuple[Any, Any]:
    """Rows and labels of a fixed stream."""
    drawn = files.recipe(recipe).generate()
    return drawn["X"].astype(np.float64), drawn["y"]


def work(variant: str, stream: str, seed: int) -> Row:
    """Predict, score and learn a whole stream."""
    recipe, settings = STREAMS[stream]
    algorithm = use(variant)
    if algorithm == "default":
        settings = {"half_life": settings["half_life"]}
    clusterer = ScStream(algorithm=algorithm, random_state=seed, **settings)
    scores = prequential_scores(clusterer, *rows_of(recipe), BATCH)
    return {"variant": variant, "stream": stream, "seed": seed} | scores


def prequential_scores(clusterer: ScStream, X: Any, y: Any, batch: int) -> Row:
    """Predict, score and learn the rows batch by batch."""
    stream = (
        SimpleNamespace(X=X[start : start + batch], y=y[start : start + batch], time=number)
        for number, start in enumerate(range(0, X.shape[0], batch))
    )
    labels: set[int] = set()
    one_sided = []

    def watch(step: PrequentialStep) -> None:
        labels.update([] if step.predicted is None else np.unique(step.predicted).tolist())
        count = step.model.state_.current[:, :, 0]
        live = count[count.sum(axis=1) > 0]
        one_sided.append(float((live.min(axis=1) <= 0).mean()))

    found = prequential(clusterer, stream, oracle=False, callback=watch).summary()
    scores = {name: float(found[name]) for name in ("ari", "nmi", "full_nmi")}
    return scores | {"labels": len(labels), "one_sided": float(np.mean(one_sided))}


def first_batch(variant: str, stream: str, seed: int) -> Row:
    """Return the number of clusters after the first batch."""
    recipe, settings = STREAMS[stream]
    algorithm = use(variant)
    rows = rows_of(recipe)[0][:BATCH]
    fitted = ScStream(algorithm=algorithm, random_state=seed, **settings).partial_fit(rows)
    return {"variant": variant, "stream": stream, "seed": seed, "k": fitted.n_clusters_}


def table(rows: list[Row], first: list[Row]) -> str:
    """The page: a table a stream, then the first batches."""
    lines = ["# Paper mode and the authors' program", ""]
    lines += ["Made by `python -m benchmarks.paper_rules`.", provenance(), ""]
    lines += [
        "Rows are predicted, scored and then learned. ARI and NMI are means over batches, full NMI",
        "is of all labels of the stream, labels counts distinct ones. One-sided is the share of",
        "the clusters with rows in a batch of which one sub-cluster got none. Means over seeds.",
        "",
    ]
    for stream, (ari, nmi, full) in ORIGINAL.items():
        lines += [f"## {stream}", ""]
        lines += [
            "| variant | ARI | by seed | NMI | full NMI | labels | one-sided |",
            "|---" * 7 + "|",
        ]
        lines += [f"| the authors' program | {ari:.3f} | | {nmi:.3f} | {full:.3f} | | |"]
        for variant in VARIANTS:
            found = [r for r in rows if r["variant"] == variant and r["stream"] == stream]
            means = [mean_and_error(found, n)[0] for n in ("ari", "nmi", "full_nmi")]
            seeds = ", ".join(f"{r['ari']:.3f}" for r in sorted(found, key=lambda r: r["seed"]))
            n_labels, one_sided = (mean_and_error(found, n)[0] for n in ("labels", "one_sided"))
            lines.append(
                f"| {variant} | {means[0]:.3f} | {seeds} | {means[1]:.3f} | {means[2]:.3f} "
                f"| {n_labels:.0f} | {one_sided:.0%} |"
            )
        lines.append("")
    lines += ["## Clusters after the first batch, 16 seeds", "", "| variant | stream | K |"]
    lines.append("|---|---|---|")
    for variant in dict.fromkeys(r["variant"] for r in first):
        for stream in dict.fromkeys(r["stream"] for r in first):
            ks = sorted(r["k"] for r in first if (r["variant"], r["stream"]) == (variant, stream))
            lines.append(f"| {variant} | {stream} | {', '.join(map(str, ks))} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run what is missing and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    n_jobs = parser.parse_args().jobs
    jobs = {
        f"{variant} / {stream} / {seed}": (variant, stream, seed)
        for variant in VARIANTS
        for stream in STREAMS
        for seed in (SEEDS if variant == "paper" else ABLATION_SEEDS)
    }
    starts = {
        f"first batch / {variant} / {stream} / {seed}": (variant, stream, seed)
        for variant in ("paper", "patience 50", "printed")
        for stream in ("2-D, paper's prior", "2-D, tuned prior")
        for seed in FIRST_SEEDS
    }
    path = RESULTS / "paper-rules.jsonl"
    first = list(fill(path, starts, first_batch, n_jobs).values())
    page = table(list(fill(path, jobs, work, n_jobs).values()), first)
    print(page)
    (RESULTS / "paper-rules.md").write_text(page)


if __name__ == "__main__":
    main()
