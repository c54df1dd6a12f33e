"""The stored results as tables of numbers: means over seeds, ranks, Pareto fronts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchmarks.paper import store
from benchmarks.paper.sets import SETS

OURS, PAPER = "scstream", "scstream, paper's algorithm"
_LINE = ["set", "method", "mode"]
_FIGURES = [
    "batches reached rows ari nmi purity f full_nmi oracle_ari fraction_of_oracle k_mean",
    "k_true_mean labels_used cpu_seconds rows_per_second tune_seconds",
]


@dataclass(frozen=True)
class Results:
    """All runs and their batches."""

    runs: pd.DataFrame
    series: pd.DataFrame

    @classmethod
    def read(cls, folder: Path) -> Results:
        """Read `runs.csv` and `series.parquet` of a folder."""
        series = store.series(folder).to_pandas()
        names = dict.fromkeys(["set", "method", "mode"], "object")
        return cls(pd.DataFrame(store.runs(folder)), series.astype(names))

    @cached_property
    def lines(self) -> pd.DataFrame:
        """Means over seeds: one line per set, method and mode that has a score."""
        runs = self.runs.dropna(subset=["ari"])
        figures = " ".join(_FIGURES).split()
        facts = ["group", "kind", "given_k"]
        how = dict.fromkeys(figures, "mean") | dict.fromkeys(facts, "first")
        lines = runs.groupby(_LINE, sort=False).agg(how).reset_index()
        lines["unit"] = [unit(s, g) for s, g in zip(lines["set"], lines["group"], strict=True)]
        return lines

    @cached_property
    def failures(self) -> pd.DataFrame:
        """Runs without a score, and why."""
        return self.runs[self.runs["ari"].isna()]

    @cached_property
    def ranked(self) -> pd.DataFrame:
        """The lines of the full comparison, without sets that are run on request only."""
        wanted = [name not in SETS or SETS[name].full for name in self.lines["set"]]
        return self.lines[wanted]

    def of(self, name: str) -> pd.DataFrame:
        """The lines of one set, best ARI first."""
        mine = self.lines[self.lines["set"] == name]
        return mine.sort_values(["ari", "nmi"], ascending=False, kind="stable")

    def figure(self, name: str, column: str, *, method: str = OURS, mode: str = "tuned") -> float:
        """One number; nan if it was not measured."""
        lines = self.lines
        at = (lines["set"] == name) & (lines["method"] == method) & (lines["mode"] == mode)
        return float(lines.loc[at, column].iloc[0]) if at.any() else float("nan")

    def units(self, lines: pd.DataFrame | None = None) -> dict[str, list[str]]:
        """Names of sets by what counts once: a group of sets, or a set alone."""
        pairs = (self.lines if lines is None else lines)[["unit", "set"]].drop_duplicates()
        order = {name: place for place, name in enumerate(SETS)}
        pairs = pairs.sort_values("set", key=lambda names: names.map(order), kind="stable")
        return {str(u): list(names) for u, names in pairs.groupby("unit", sort=False)["set"]}


def unit(name: str, group: str) -> str:
    """What a set counts as in means over sets."""
    return group or name


def title(name: str) -> str:
    """What to call a set, or a group of them."""
    if name == "20news":
        return "20 Newsgroups"
    return SETS[name].title if name in SETS else name


def in_mode(lines: pd.DataFrame, mode: str) -> pd.DataFrame:
    """One line per set and method: in this mode, or as it is if there was nothing to tune."""
    if mode != "tuned":
        return lines[lines["mode"] == mode]
    order = lines["mode"].map({"tuned": 0, "default": 1})
    lines = lines.assign(order=order).sort_values("order", kind="stable")
    return lines.drop_duplicates(["set", "method"]).drop(columns="order")


def mean_ranks(lines: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Mean rank of every method over units, best first, with the number of units it ran on.

    Ranks are among the methods that have a score on the set; equal scores share the mean of their
    ranks. The sets of one group are averaged before they count.
    """
    lines = lines.dropna(subset=[metric])
    ranks = lines.groupby("set")[metric].rank(ascending=False, method="average")
    by_unit = lines.assign(rank=ranks).groupby(["unit", "method"])["rank"].mean()
    found = by_unit.groupby("method").agg(["mean", "count"])
    found.columns = pd.Index(["rank", "units"])
    return found.sort_values("rank", kind="stable")


def enough(ranks: pd.DataFrame, n_units: int) -> pd.DataFrame:
    """The methods that ran on at least half of the units: a mean over fewer says little."""
    return ranks[2 * ranks["units"] >= n_units]


def on_front(cost: npt.ArrayLike, gain: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Which points no other beats: none costs no more and gains no less, and is better in one."""
    costs, gains = np.asarray(cost, dtype=float), np.asarray(gain, dtype=float)
    as_cheap, as_good = costs[:, None] <= costs, gains[:, None] >= gains  # (other, point)
    better = (costs[:, None] < costs) | (gains[:, None] > gains)
    known = np.isfinite(costs) & np.isfinite(gains)
    beaten = (as_cheap & as_good & better & known[:, None]).any(axis=0)
    return known & ~beaten


def front(lines: pd.DataFrame) -> pd.DataFrame:
    """The lines of a set on the Pareto front of ARI and CPU time, fastest first."""
    best = lines[on_front(1.0 / lines["rows_per_second"], lines["ari"])]
    return best.sort_values("rows_per_second", ascending=False)


def peers(lines: pd.DataFrame) -> pd.DataFrame:
    """The lines of other people's methods."""
    return lines[~lines["method"].isin((OURS, PAPER))]


def over_same_batches(
    results: Results, name: str, metric: str, methods: Iterable[tuple[str, str]]
) -> list[float]:
    """Means of methods (with their modes) over the batches that all of them reached."""
    series = results.series[results.series["set"] == name]
    wide = series.pivot_table(index="batch", columns=["method", "mode"], values=metric)
    wanted = list(methods)
    if not set(wanted) <= set(wide.columns):
        return [float("nan")] * len(wanted)
    return [float(value) for value in wide[wanted].dropna().mean()]
