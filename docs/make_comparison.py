"""Draw the comparison of the README from the committed results, wins and losses alike.

``python docs/make_comparison.py`` reads ``benchmarks/results/paper`` and writes
``docs/images/comparison.png``; ``docs/evidence/index.md`` has the same figures as a table.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.paper.figures.style import GREEN, GREY, brief, save  # noqa: E402
from benchmarks.paper.standings import OURS, Results, peers, title  # noqa: E402
from scstream.plot import colour_of  # noqa: E402

PICTURE = Path(__file__).parent / "images" / "comparison.png"
_BLUE, _INK = colour_of(0), "#222222"
_LOOKS: dict[str, dict[str, Any]] = {
    "tuned": {"marker": "D", "markersize": 8, "color": _BLUE, "zorder": 5},
    "untuned": {
        "marker": "D",
        "markersize": 8,
        "color": _BLUE,
        "markerfacecolor": "white",
        "zorder": 4,
    },
    "infers": {"marker": "o", "markersize": 7, "color": GREEN, "zorder": 3},
    "given": {"marker": "s", "markersize": 6.5, "color": GREY, "zorder": 2},
}
_MEANS = {
    "tuned": "scstream, tuned",
    "untuned": "scstream, default settings",
    "infers": "best other that finds the number of clusters",
    "given": "best other that is given it",
}


def by_unit(results: Results) -> pd.DataFrame:
    """Return the mean ARI by unit, method and mode, for methods that ran on all its sets."""
    lines = results.ranked
    sizes = lines.groupby("unit")["set"].nunique()
    table = lines.groupby(["unit", "method", "mode"]).agg(
        ari=("ari", "mean"), sets=("set", "nunique"), given_k=("given_k", "first")
    )
    table = table.reset_index()
    return table[table["sets"] == table["unit"].map(sizes)]


def entry(lines: pd.DataFrame) -> dict[str, Any]:
    """Return the four figures of one unit and the names of the two best other methods."""
    ours = lines[lines["method"] == OURS].set_index("mode")["ari"]
    found: dict[str, Any] = {"untuned": ours["default"], "tuned": ours.get("tuned")}
    for name, is_given in (("infers", False), ("given", True)):
        others = peers(lines[lines["given_k"] == is_given])
        if len(others):
            best = others.loc[others["ari"].idxmax()]
            found |= {name: best["ari"], f"{name}_who": brief(str(best["method"]))}
    return found


def entries(results: Results) -> pd.DataFrame:
    """Return one line per unit, sorted by our lead."""
    table = by_unit(results)
    found = pd.DataFrame({unit: entry(lines) for unit, lines in table.groupby("unit")}).T
    ours = found[["tuned", "untuned"]].astype(float).max(axis=1)
    rivals = found[["infers", "given"]].astype(float).max(axis=1)
    return found.assign(lead=ours - rivals).sort_values("lead", kind="stable")


def draw(ax: Axes, found: pd.DataFrame, n_others: int) -> None:
    """Draw a line per unit with four marks and the name of the best other method."""
    for place, (_, line) in enumerate(found.iterrows()):
        marks = line[list(_LOOKS)].astype(float).dropna()
        ax.plot([marks.min(), marks.max()], [place, place], color="#d5d5d5", lw=2, zorder=1)
        for name, value in marks.items():
            ax.plot(value, place, linestyle="", **_LOOKS[str(name)])
        best = "infers" if float(line.get("infers", 0) or 0) >= float(line["given"]) else "given"
        given = {"infers": "", "given": ", given K"}[best]
        lead = f"{line['lead']:+.2f}".replace("-", "−")
        note = f"{line[f'{best}_who'].split(',')[0]}{given}  {lead}"
        shade = _BLUE if line["lead"] > 0 else "#B04A00"
        ax.text(1.03, place, note, color=shade, va="center", fontsize=9)
    n_behind = int((found["lead"] <= 0).sum())
    ax.axhline(n_behind - 0.5, color=_INK, linewidth=1, linestyle=":")
    names = [title(str(unit)) for unit in found.index]
    ax.set_yticks(range(len(found)), names)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.7, len(found) - 0.3))
    ax.set_xlabel("adjusted Rand index of predictions, mean over batches (1 is perfect)")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="x", color="#e2e2e2", linewidth=0.7)
    ax.set_axisbelow(True)
    heading = f"best of {n_others} others, our lead"
    ax.text(1.03, len(found) - 0.35, heading, fontsize=9, weight="bold")


def main() -> None:
    """Draw the comparison and write it."""
    results = Results.read(ROOT / "benchmarks" / "results" / "paper")
    found = entries(results)
    figure = Figure(figsize=(9.0, 5.6), layout="constrained")
    draw(figure.subplots(), found, peers(results.ranked)["method"].nunique())
    handles = [
        Line2D([], [], linestyle="", label=_MEANS[name], **look) for name, look in _LOOKS.items()
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=2, frameon=False)
    save(figure, PICTURE)
    sys.stdout.write(found.to_string() + f"\n{PICTURE}\n")


if __name__ == "__main__":
    main()
