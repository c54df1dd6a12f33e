"""Draw the pictures of docs/explanation/model-in-pictures.md: `python docs/make_model_pictures.py`.

The pictures show a model that is fitted here to generated rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from scipy.cluster.hierarchy import dendrogram
from sklearn.datasets import make_moons

from scstream import ScStream

FOLDER = Path(__file__).with_name("explanation") / "images"
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")  # Okabe and Ito
GREY = "#777777"
Array = np.ndarray[Any, np.dtype[np.float64]]


def rows(rng: np.random.Generator, centres: Any, n: int = 120) -> Array:
    """Return n rows around each centre."""
    return np.concatenate([centre + rng.normal(size=(n, 2)) for centre in centres])


def figure(n: int, *, height: float = 3.0, limit: float | None = 9.0) -> tuple[Figure, list[Axes]]:
    """Return a row of square panels without ticks, or of plain ones."""
    drawing = Figure(figsize=(3.2 * n, height), layout="constrained")
    panels = list(np.atleast_1d(drawing.subplots(1, n)))
    for panel in panels if limit else []:
        panel.set(xlim=(-limit, limit), ylim=(-limit, limit), xticks=[], yticks=[], aspect="equal")
    return drawing, panels


def draw_model(
    panel: Axes, model: ScStream, X: Array | None = None, *, subclusters: bool = False
) -> None:
    """Draw rows in the colours of their clusters, and two standard deviations of each."""
    if X is not None:
        colour = [COLOURS[i % len(COLOURS)] if i >= 0 else "black" for i in model.labels_]
        panel.scatter(*X.T, s=4, c=colour, alpha=0.5, linewidths=0, rasterized=True)
    state, family = model.state_, model.family_
    groups = state.subclusters if subclusters else state.cluster_stats[:, None]  # (K, 1 or 2, P)
    for name, group in zip(state.ids, groups, strict=True):
        for centre, covariance in zip(family.means(group), family.covariance(group), strict=True):
            ellipse(panel, centre, covariance, COLOURS[name % len(COLOURS)])
    if not subclusters:
        for name, centre in zip(state.ids, family.means(state.cluster_stats), strict=True):
            panel.annotate(str(name), centre, weight="bold", ha="center", va="center")


def ellipse(panel: Axes, centre: Array, covariance: Array, colour: str) -> None:
    """Draw an ellipse of two standard deviations."""
    sizes, axes = np.linalg.eigh(covariance)
    angle = np.degrees(np.arctan2(axes[1, -1], axes[0, -1]))
    width, height = 4 * np.sqrt(np.maximum(sizes[::-1], 0))
    panel.add_patch(Ellipse(centre, width, height, angle=angle, fill=False, ec=colour, lw=1.8))


def mixture() -> Figure:
    """Draw a batch, the clusters, and their sub-clusters."""
    rng = np.random.default_rng(0)
    X = rows(rng, [(-5, 4), (4, 5), (0, -5)])
    model = ScStream(random_state=0).fit(X)
    drawing, (first, second, third) = figure(3)
    first.scatter(*X.T, s=4, c=GREY, linewidths=0, rasterized=True)
    first.set_title("a batch")
    draw_model(second, model, X)
    second.set_title("clusters")
    draw_model(third, model, subclusters=True)
    third.set_title("their sub-clusters")
    return drawing


def forgetting() -> Figure:
    """Draw the weight of a row by its age."""
    drawing, (panel,) = figure(1, height=2.6, limit=None)
    drawing.set_size_inches(6.4, 2.6)
    age = np.linspace(0, 30, 200)
    for half_life, colour in zip((2, 5, 20), COLOURS, strict=False):
        panel.plot(age, 2 ** (-age / half_life), color=colour, label=f"half_life={half_life}")
    panel.set(xlabel="age of a row, in batches", ylabel="weight", ylim=(0, 1.02), xlim=(0, 30))
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(frameon=False)
    return drawing


def split() -> Figure:
    """Draw a cluster that splits."""
    rng = np.random.default_rng(1)
    model = ScStream(random_state=0)
    drawing, panels = figure(4)
    shown = {0: 0, 6: 1, 9: 2, 16: 3}
    for t in range(17):
        gap = min(0.6 * max(t - 1, 0), 8.0)
        X = rows(rng, [(-gap / 2, 0), (gap / 2, 0)], 200)
        model.partial_fit(X)
        if t in shown:
            draw_model(panels[shown[t]], model, X)
            panels[shown[t]].set_title(f"batch {t}")
    return drawing


def novelty() -> Figure:
    """Draw novel rows, and a birth."""
    rng = np.random.default_rng(2)
    known = [(-5, 4), (4, 5)]
    model = ScStream(random_state=0)
    for _ in range(4):
        model.partial_fit(rows(rng, known))
    drawing, panels = figure(3)
    few = np.array([(1.0, -5.0), (1.8, -5.5), (0.4, -4.2)])
    for panel, extra, title in (
        (panels[0], np.zeros((0, 2)), "white: predict returns -1"),
        (panels[1], few, "three novel rows: -1"),
        (panels[2], rows(rng, [(1, -5)], 25), "25 novel rows: a cluster"),
    ):
        X = np.concatenate([rows(rng, known), extra])
        if title.startswith("white"):
            shade(panel, model)
            draw_model(panel, model)
        else:
            model.partial_fit(X)
            draw_model(panel, model, X)
        panel.set_title(title)
    return drawing


def shade(panel: Axes, model: ScStream) -> None:
    """Fill the areas in which a row belongs to a cluster."""
    place = np.linspace(-9, 9, 181)
    grid = np.stack(np.meshgrid(place, place), axis=-1).reshape(-1, 2)
    answer = model.predict(grid).reshape(len(place), -1)
    for name in model.clusters_.id:
        levels = [0.5, 1.5]
        panel.contourf(place, place, answer == name, levels, colors=[COLOURS[name]], alpha=0.25)


def motion() -> Figure:
    """Draw moving clusters with their trails and velocities."""
    rng = np.random.default_rng(3)
    model = ScStream(random_state=0)
    drawing, (panel,) = figure(1)
    path = []
    for t in range(13):
        angle = 0.12 * t
        centres = 5.5 * np.array([(np.cos(angle), np.sin(angle)), (-np.cos(angle), -np.sin(angle))])
        X = rows(rng, centres)
        model.partial_fit(X)
        path.append(model.clusters_.mean.copy())
    draw_model(panel, model, X)
    for name, trail in zip(model.clusters_.id, np.stack(path, axis=1), strict=True):
        panel.plot(*trail.T, color=COLOURS[name], lw=1, marker=".", ms=4)
        step = model.state_.velocity[name]
        panel.annotate(
            "", trail[-1] + 4 * step, trail[-1], arrowprops={"arrowstyle": "->", "lw": 2}
        )
    panel.set_title("trail and velocity")
    drawing.set_size_inches(4.2, 4.2)
    return drawing


def weights_over_time() -> Figure:
    """Draw the weights of clusters over time."""
    rng = np.random.default_rng(4)
    model = ScStream(half_life=3, random_state=0)
    weights: dict[int, Array] = {}
    n = 45
    for t in range(n):
        there = [(-6, 5), *([(5, 6)] if t < 18 else []), *([(0, -6)] if t >= 10 else [])]
        model.partial_fit(rows(rng, there, 60))
        for cluster in model.clusters_:
            weights.setdefault(cluster.id, np.zeros(n))[t] = cluster.weight
    drawing, (panel,) = figure(1, limit=None)
    drawing.set_size_inches(6.4, 2.6)
    panel.stackplot(
        np.arange(n),
        [*weights.values()],
        labels=[f"id {name}" for name in weights],
        colors=[COLOURS[name] for name in weights],
        alpha=0.8,
    )
    panel.set(xlabel="batch", ylabel="weight", xlim=(0, n - 1))
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(frameon=False, loc="upper right", ncols=len(weights))
    return drawing


def levels() -> Figure:
    """Draw the clusters of two moons, their groups, and the tree of all joins."""
    rows, _ = make_moons(6000, noise=0.06, random_state=0)
    model = ScStream(random_state=0)
    for start in range(0, 6000, 500):
        model.partial_fit(rows[start : start + 500])
    drawing, panels = figure(3, limit=None)
    X, groups = rows[-1500:], model.groups_
    titles = f"{model.n_clusters_} clusters", f"{len(groups)} groups"
    for panel, label, title in zip(
        panels, (model.predict(X), model.predict(X, level="group")), titles, strict=False
    ):
        colour = [COLOURS[i % len(COLOURS)] for i in label]
        panel.scatter(*X.T, s=4, c=colour, linewidths=0, rasterized=True)
        panel.set(title=title, xticks=[], yticks=[], aspect="equal")
    tree = dendrogram(model.hierarchy_, labels=model.clusters_.id, no_plot=True)
    for x, y in zip(tree["icoord"], tree["dcoord"], strict=True):
        panels[2].plot(x, y, color=GREY, lw=1.2)
    panels[2].axhline(1.0, color=COLOURS[5], lw=1.2, ls="--")
    places = 10 * np.arange(model.n_clusters_) + 5
    panels[2].set_xticks(places, tree["ivl"])
    for tick, cluster in zip(panels[2].get_xticklabels(), tree["ivl"], strict=True):
        tick.set_color(COLOURS[groups.group[groups.cluster == cluster][0] % len(COLOURS)])
    panels[2].set(title="hierarchy_, cut at resolution 1", xlabel="cluster", ylabel="height")
    panels[2].spines[["top", "right"]].set_visible(False)
    drawing.set_size_inches(11.0, 3.2)
    return drawing


def main() -> None:
    """Draw all pictures."""
    mpl.rcParams.update({"svg.hashsalt": "scstream", "svg.fonttype": "none", "font.size": 9})
    FOLDER.mkdir(exist_ok=True)
    for draw in (mixture, forgetting, split, novelty, motion, weights_over_time, levels):
        path = FOLDER / f"{draw.__name__}.svg"
        draw().savefig(path, dpi=150, metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    main()
