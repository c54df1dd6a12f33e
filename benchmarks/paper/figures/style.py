"""One look for all figures: colours that the colour-blind can tell apart, and little else."""

from __future__ import annotations

from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from benchmarks.paper.standings import OURS, PAPER

BLUE, ORANGE, GREEN, GREY, RED, BLACK = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#999999",
    "#D55E00",
    "#222222",
)
WIDTH = 9.0  # inches; 900 pixels on a page
_SIZES = {"font.size": 10.0, "axes.titlesize": 11.0, "axes.titleweight": "bold"}
WHO = {  # in legends
    OURS: "scstream",
    PAPER: "scstream, paper's algorithm",
    False: "peer that infers K",
    True: "peer that is given K",
}


def sheet(height: float) -> Figure:
    """An empty figure of the common width."""
    from matplotlib import rcParams

    rcParams.update(_SIZES)
    return Figure(figsize=(WIDTH, height), layout="constrained")


def save(figure: Figure, path: Path) -> None:
    """Write a PNG of few colours: a third of the bytes, and nobody sees it."""
    from PIL import Image

    drawn = BytesIO()
    figure.savefig(drawn, dpi=130)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.open(drawn).convert("RGB").quantize(96, dither=Image.Dither.NONE).save(
        path, optimize=True
    )


def tidy(axes: Axes, *, grid: str = "y") -> None:
    """Take away what says nothing."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis=grid, color="#dddddd", linewidth=0.7)  # type: ignore[arg-type]
    axes.set_axisbelow(True)


def kind(method: str, given_k: bool) -> Any:
    """Whose a method is: a key of `WHO`."""
    return method if method in (OURS, PAPER) else bool(given_k)


def colour(method: str, given_k: bool = False) -> str:
    """Ours blue, the paper's orange, peers that infer K green, those given K grey."""
    return {OURS: BLUE, PAPER: ORANGE, False: GREEN, True: GREY}[kind(method, given_k)]


def brief(method: str) -> str:
    """A name for a narrow place: without the best-known package."""
    return method.replace("scikit-learn ", "")


def small_title(axes: Axes, text: str) -> None:
    """Give a small panel its title, on two lines if it is long."""
    axes.set_title(fill(text, 28), fontsize="medium")


def smooth(values: npt.ArrayLike, width: int) -> npt.NDArray[np.float64]:
    """Centred running mean; shorter at the ends."""
    series = pd.Series(np.asarray(values, dtype=float))
    return series.rolling(max(1, width), min_periods=1, center=True).mean().to_numpy()


def plain_log(axis: Any, ticks: Iterable[float]) -> None:
    """Label a logarithmic axis with plain numbers."""
    axis.set_ticks(list(ticks))
    axis.set_major_formatter(FuncFormatter(lambda value, _: amount(value)))
    axis.set_minor_formatter(NullFormatter())


def amount(value: float) -> str:
    """A number for an axis: 0.3, 30, 3k, 1M."""
    for letter, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
