"""Rows with many columns: ``python -m benchmarks.many_columns`` writes results/many-columns.md.

`family="subspace"` against `family="diagonal"` and k-means with the true number of clusters, five
seeds each, nothing else set. Settings of the family were chosen on the development sets only.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import numpy.typing as npt

from benchmarks.cases import Labelled
from benchmarks.paper import files
from benchmarks.paper.recurring import recurring_order
from benchmarks.paper.sets import standardise
from benchmarks.results_io import RESULTS, fill
from benchmarks.runs import kmeans, provenance, score
from scstream import ScStream

Array = npt.NDArray[Any]
Stream = Callable[[int], Iterator[Labelled]]

SEEDS = range(5)
N_VECTORS = 10  # clusters of drawn unit vectors
METHODS = ("subspace", "diagonal", "k-means")
PAGE = """\
# Rows with many columns

Made by `python -m benchmarks.many_columns` from `many-columns.jsonl`; do not edit. {provenance}.

ARI, mean over the batches of a stream (predict, then learn); one column per seed, which draws the
stream where it can be drawn or shuffled, and seeds the model. *K* is the median number of clusters,
over batches and seeds. Only the family is set; k-means (`MiniBatchKMeans`) is given the true number
of clusters of the stream.

{accuracy}

Digits are scikit-learn's, shuffled, in batches of 200. LSA is the 100 leading components of the
words of 20 Newsgroups by date, as unit vectors. Embeddings are all-MiniLM-L6-v2. Drawn vectors are
ten directions with noise 1.2 times as long as they are. ImageNet is 128 network features of 100
classes that come and go. The sets above the line were used while the family was made.

## Processor time

One thread: seconds for the first batch of 1000 rows, then milliseconds to predict and learn a
batch of 1000 rows (median of five), and the number of clusters at the end.

{times}
"""


def batches(X: Array, y: Array, size: int) -> Iterator[Labelled]:
    """Cut rows into batches; a short rest is left out."""
    for b in range(len(X) // size):
        rows = slice(b * size, (b + 1) * size)
        yield Labelled(np.asarray(X[rows], dtype=np.float64), y[rows], float(b))


def digits(seed: int) -> Iterator[Labelled]:
    """Handwritten digits, shuffled."""
    from sklearn.datasets import load_digits

    loaded = load_digits()
    order = np.random.default_rng(seed).permutation(len(loaded.target))
    return batches(loaded.data[order], loaded.target[order], 200)


@cache
def _lsa() -> tuple[Array, Array]:
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    with lzma.open(files.stored("20news_bydate.jsonl.xz"), "rt", encoding="utf-8") as file:
        posts = sorted(map(json.loads, file), key=lambda post: post["date"])
    bodies = [post["text"].split("\n\n", 1)[-1] for post in posts]
    words = TfidfVectorizer(
        sublinear_tf=True, max_df=0.5, min_df=5, stop_words="english", max_features=20_000
    )
    X = TruncatedSVD(100, random_state=0).fit_transform(words.fit_transform(bodies))
    return unit(X), np.array([post["y"] for post in posts])


def lsa(seed: int) -> Iterator[Labelled]:
    """Leading components of the words of 20 Newsgroups."""
    return batches(*_lsa(), 1000)


def embedded(seed: int, name: str) -> Iterator[Labelled]:
    """Sentence embeddings in the order of the stream."""
    X, y = files.arrays(f"minilm_{name}")
    return batches(unit(X.astype(np.float64)), y, 1000)


def drawn(seed: int, n_features: int) -> Iterator[Labelled]:
    """Unit vectors around directions."""
    rng = np.random.default_rng(seed)
    centres = unit(rng.standard_normal((N_VECTORS, n_features)))
    for b in range(10):
        y = rng.integers(0, N_VECTORS, 1000)
        noise = rng.standard_normal((1000, n_features)) * (1.2 / np.sqrt(n_features))
        yield Labelled(unit(centres[y] + noise), y, float(b))


def imagenet(seed: int, *, scaled: bool) -> Iterator[Labelled]:
    """Network features of classes that come and go; 128 components, by size or standardised."""
    X, y = files.arrays("tiny_imagenet100_feat")
    rows = recurring_order(y, seed=seed).rows
    return batches(standardise(X[rows]) if scaled else X[rows], y[rows], 1000)


def unit(X: Array) -> Array:
    """Rows of length one."""
    return np.asarray(X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12))


STREAMS: dict[str, tuple[Stream, int]] = {  # with the number of classes
    "digits, D = 64": (digits, 10),
    "LSA of 20 Newsgroups, D = 100": (lsa, 20),
    "News-T embeddings, D = 384": (partial(embedded, name="news_t"), 152),
    "20News embeddings, D = 384": (partial(embedded, name="20news_bodies_bydate"), 20),
    "drawn unit vectors, D = 100": (partial(drawn, n_features=100), N_VECTORS),
    "drawn unit vectors, D = 384": (partial(drawn, n_features=384), N_VECTORS),
    "drawn unit vectors, D = 768": (partial(drawn, n_features=768), N_VECTORS),
    "**held out**: ImageNet, D = 128": (partial(imagenet, scaled=False), 100),
    "**held out**: ImageNet, D = 128, standardised": (partial(imagenet, scaled=True), 100),
}
TIMED: dict[str, Stream] = {
    "20News embeddings, D = 384": STREAMS["20News embeddings, D = 384"][0],
    "News-T embeddings, D = 384": STREAMS["News-T embeddings, D = 384"][0],
    "drawn unit vectors, D = 384": STREAMS["drawn unit vectors, D = 384"][0],
    "drawn unit vectors, D = 1536": partial(drawn, n_features=1536),
}


def accuracy(name: str, method: str, seed: int) -> dict[str, Any]:
    """Score one method on one stream."""
    stream, n_classes = STREAMS[name]
    model = kmeans(n_classes, seed)
    if method != "k-means":
        model = ScStream(method, random_state=seed)
    row = score(model, stream(seed), oracle=False)
    return {part: row[part] for part in ("ari", "nmi", "full_nmi", "k") if part in row}


def timed(name: str) -> dict[str, Any]:
    """Processor time of the subspace family on the first batches of a stream."""
    model = ScStream("subspace", random_state=0, n_jobs=1)
    seconds = []
    for number, batch in enumerate(TIMED[name](0)):
        started = time.process_time()
        if number:
            model.predict(batch.X)
        model.partial_fit(batch.X)
        seconds.append(time.process_time() - started)
        if number == 5:
            break
    later = 1000.0 * float(np.median(seconds[1:]))
    return {"first_s": seconds[0], "later_ms": later, "k": model.n_clusters_}


def accuracy_table(rows: dict[str, dict[str, Any]]) -> str:
    """One line for each stream and method."""
    lines = [f"| stream | method | ARI | {' | '.join(f'seed {s}' for s in SEEDS)} | NMI | K |"]
    lines.append("|---" * (5 + len(SEEDS)) + "|")
    for name in STREAMS:
        for method in METHODS:
            found = [rows[f"{name}/{method}/{seed}"] for seed in SEEDS]
            ari = [row["ari"] for row in found]
            nmi = float(np.mean([row["nmi"] for row in found]))
            k = "-" if method == "k-means" else f"{np.median([row['k'] for row in found]):.0f}"
            each = " | ".join(f"{value:.3f}" for value in ari)
            lines.append(f"| {name} | {method} | {np.mean(ari):.3f} | {each} | {nmi:.3f} | {k} |")
    return "\n".join(lines)


def times_table(rows: dict[str, dict[str, Any]]) -> str:
    """One line for each stream."""
    lines = ["| stream | first batch, s | later batches, ms | K |", "|---|---|---|---|"]
    for name in TIMED:
        row = rows[f"time/{name}"]
        lines.append(f"| {name} | {row['first_s']:.2f} | {row['later_ms']:.0f} | {row['k']} |")
    return "\n".join(lines)


def work(kind: str, *args: Any) -> dict[str, Any]:
    """Run one job."""
    return timed(*args) if kind == "time" else accuracy(*args)


def main() -> None:
    """Run what is not in the results yet, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1)
    jobs: dict[str, tuple[Any, ...]] = {f"time/{name}": ("time", name) for name in TIMED}
    for name in STREAMS:
        for method in METHODS:
            for seed in SEEDS:
                jobs[f"{name}/{method}/{seed}"] = ("accuracy", name, method, seed)
    rows = fill(RESULTS / "many-columns.jsonl", jobs, work, parser.parse_args().jobs)
    page = PAGE.format(
        provenance=provenance(), accuracy=accuracy_table(rows), times=times_table(rows)
    )
    (RESULTS / "many-columns.md").write_text(page)


if __name__ == "__main__":
    main()
