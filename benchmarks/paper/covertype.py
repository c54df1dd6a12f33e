"""Why CoverType stays hard: ``python -m benchmarks.paper.covertype``.

Priors of the paper's form are drawn at random, the published one first. Each is run on the batches
that methods are tuned on and on the whole stream. The figure shows what the one tells about the
other, and the classes of one batch beside the clusters.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from sklearn.decomposition import PCA

from benchmarks.cases import Labelled
from benchmarks.paper.figures.style import BLACK, BLUE, GREEN, GREY, ORANGE, RED, save, sheet, tidy
from benchmarks.paper.methods.ours import given_prior
from benchmarks.paper.sets import SETS, Table
from benchmarks.paper.store import FOLDER
from benchmarks.results_io import EVIDENCE
from scstream import ScStream
from scstream.metrics import prequential

PATH = FOLDER / "own-covertype.csv"
FIGURE = EVIDENCE / "own-covertype.png"
_N_PRIORS = 40
_N_TUNING = 10  # batches
_SHOWN = 300  # a batch in the middle of the stream
_COLOURS = np.array([BLUE, ORANGE, GREEN, RED, GREY, BLACK, "#CC79A7", "#56B4E9", "#F0E442"])

Params = dict[str, Any]


def priors() -> Iterator[Params]:
    """The published prior, then priors all over the place."""
    yield dict(SETS["covertype"].published or {})
    rng = np.random.default_rng(0)
    ranges = {"half_life": (0.5, 30.0), "kappa": (0.01, 3.0), "freedom": (2, 300), "psi": (0.1, 2)}
    for _ in range(_N_PRIORS - 1):
        yield {name: float(np.exp(rng.uniform(*np.log(ends)))) for name, ends in ranges.items()}


def model(params: Params) -> ScStream:
    """Our algorithm with a prior of the paper's form."""
    numbers = {name: params[name] for name in ("kappa", "freedom", "psi") if name in params}
    prior = given_prior("gaussian", 10, **numbers)
    return ScStream(prior=prior, half_life=params["half_life"], n_jobs=1, random_state=0)


def score(params: Params, table: Table) -> dict[str, float]:
    """Prequential means over the first batches and over all."""
    result = prequential(model(params), batches(table), oracle=False)
    means = {"first_ari": result.ari[: _N_TUNING - 1], "ari": result.ari, "nmi": result.nmi}
    means["k"] = result.k
    return {name: float(np.mean(each)) for name, each in means.items()} | {
        "full_nmi": result.full_nmi
    }


def batches(table: Table) -> Iterator[Labelled]:
    """The whole batches of the stream."""
    size = SETS["covertype"].batch
    for b in range(len(table.y) // size):
        rows = slice(b * size, (b + 1) * size)
        yield Labelled(table.X[rows], table.y[rows], float(b))


def landscape() -> pd.DataFrame:
    """Scores of all priors: read, or measured if they are not there yet."""
    if not PATH.exists():
        table = SETS["covertype"].load()
        rows = [params | score(params, table) for params in priors()]
        pd.DataFrame(rows).drop(columns="prior").to_csv(PATH, index=False, float_format="%.6g")
    return pd.read_csv(PATH)


def draw(found: pd.DataFrame) -> None:
    """The landscape, and one batch by class and by cluster."""
    figure = sheet(3.2)
    axes = figure.subplots(1, 3)
    draw_landscape(axes[0], found)
    *past, now = islice(batches(SETS["covertype"].load()), _SHOWN + 1)
    ours = ScStream(n_jobs=1, random_state=0)
    for batch in past:
        ours.partial_fit(batch.X)
    flat = PCA(2, random_state=0).fit_transform(now.X)
    draw_rows(axes[1], flat, now.y, "classes")
    draw_rows(axes[2], flat, ours.predict(now.X), "clusters, nothing set")
    save(figure, FIGURE)


def draw_landscape(ax: Axes, found: pd.DataFrame) -> None:
    """What the first batches say about the whole stream."""
    rest, published = found.iloc[1:], tuple(found.loc[0, ["first_ari", "ari"]])
    ax.scatter(rest["first_ari"], rest["ari"], s=18, color=BLUE)
    ax.scatter(*published, s=70, marker="*", color=RED)
    ax.annotate("published", published, (5, 5), textcoords="offset points", color=RED)
    ax.axhline(0.15, color=GREY, lw=1, ls="--")
    ax.set(xlabel="ARI, first ten batches", ylabel="ARI, whole stream")
    ax.set_title(f"{len(found)} priors, r = {found['first_ari'].corr(found['ari']):.2f}")
    tidy(ax)


def draw_rows(ax: Axes, flat: npt.NDArray[Any], label: npt.NDArray[Any], title: str) -> None:
    """Rows in two principal components, a colour for each label."""
    names, index = np.unique(label, return_inverse=True)
    ax.scatter(flat[:, 0], flat[:, 1], s=5, c=_COLOURS[index % len(_COLOURS)], linewidths=0)
    ax.set(xticks=[], yticks=[], title=f"{len(names)} {title}")


if __name__ == "__main__":
    draw(landscape())
