"""Efficiency against the number of workers."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

_CASES = (("64", "100"), ("64", "1000"))
_COLOURS = {"262144": "#7f7f7f", "1048576": "#2166ac", "4194304": "#b2182b"}
_TICKS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)
_STYLES = {"star": "--", "reduce-scatter": "-"}


def draw(rows: list[dict[str, str]], path: Path) -> None:
    """One panel for each case: 25 Gb/s, float64, nodes of 16 threads."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    panels = figure.subplots(1, len(_CASES), sharey=True)
    for axes, (d, k) in zip(panels, _CASES, strict=True):
        chosen = [r for r in rows if (r["d"], r["k"], r["precision"]) == (d, k, "float64")]
        _panel(axes, [r for r in chosen if float(r["gigabits"]) == 25.0])
        axes.set_title(f"D = {d}, K = {k}", fontsize=10)
        axes.set(xscale="log", xlabel="workers of 16 threads", ylim=(0, 1.02))
        axes.set_xticks(_TICKS, [f"{n}" for n in _TICKS])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("efficiency")
    panels[-1].legend(frameon=False, fontsize="small")
    figure.savefig(path, dpi=110)


def _panel(axes: Axes, rows: list[dict[str, str]]) -> None:
    for size, colour in _COLOURS.items():
        for scheme, style in _STYLES.items():
            mine = [r for r in rows if (r["rows"], r["scheme"]) == (size, scheme)]
            x = [int(r["workers"]) for r in mine]
            y = [float(r["efficiency"]) for r in mine]
            label = f"{int(size):,} rows, {scheme}"
            axes.plot(x, y, style, color=colour, lw=1.4, marker="o", ms=2.5, label=label)
