"""What was promised, what was measured, and whether the one is the other."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.paper.sets import SETS
from benchmarks.paper.standings import (
    OURS,
    Results,
    enough,
    front,
    in_mode,
    mean_ranks,
    over_same_batches,
    peers,
    title,
)
from benchmarks.paper.store import MODES

CLOSE = 0.03
_COVERTYPE = (
    {"ari": 0.15, "nmi": 0.21, "full_nmi": 0.13},
    {"ari": 0.2, "nmi": 0.25, "full_nmi": 0.2},
)
_NEWS = {"ari": 0.16, "nmi": 0.40, "full_nmi": 0.38}
_NEWS_K = 60.0
_FRAMES = 5.0
_ORACLE = {"gauss2d": 0.98, "multinomial": 0.985}
_NAMES = {"ari": "ARI", "nmi": "NMI", "full_nmi": "full-stream NMI", "k_mean": "K"}


class Verdict(NamedTuple):
    """One line of the table of promises."""

    claim: str
    bar: str
    measured: str
    verdict: str  # reached, missed, not measured


def verdicts(results: Results) -> list[Verdict]:
    """All promises that the stored results can judge."""
    parts: list[Callable[[Results], Iterator[Verdict]]] = [
        complete,
        covertype,
        newsgroups,
        imagenet,
        drawn,
        ranks,
        untuned,
        pareto,
    ]
    return [verdict for part in parts for verdict in part(results)]


def judge(*reached: bool | None) -> str:
    """One word for several conditions; None stands for one that was not measured."""
    if None in reached:
        return "not measured"
    return "reached" if all(reached) else "missed"


def at_least(value: float, bar: float) -> bool | None:
    """Whether a value, as it is printed with three digits, reaches its bar."""
    return None if np.isnan(value) else round(value, 3) >= bar


def complete(results: Results) -> Iterator[Verdict]:
    """Whether every set of the full run was run, tuned and untuned."""
    wanted = [each.name for each in SETS.values() if each.full]
    mine = results.lines[results.lines["method"] == OURS]
    done = [name for name in wanted if set(mine.loc[mine["set"] == name, "mode"]) >= set(MODES)]
    measured = f"{len(done)} of {len(wanted)} sets, {results.lines['method'].nunique()} methods"
    claim = "the full comparison is committed, tuned and untuned"
    yield Verdict(claim, "every set", measured, judge(len(done) == len(wanted)))


def covertype(results: Results) -> Iterator[Verdict]:
    """At least the paper's figures, tuned as the paper tuned; and a goal beyond."""
    for claim, bars in zip(("CoverType, tuned", "CoverType, the goal"), _COVERTYPE, strict=True):
        found = {metric: results.figure("covertype", metric) for metric in bars}
        reached = [at_least(found[metric], bar) for metric, bar in bars.items()]
        yield Verdict(claim, _least(bars), _said(found), judge(*reached))


def newsgroups(results: Results) -> Iterator[Verdict]:
    """All three tokenisings in both orders, untuned and tuned."""
    for name in results.units().get("20news", []):
        for mode, word in (("default", "untuned"), ("tuned", "tuned")):
            names = (*_NEWS, "k_mean")
            found = {metric: results.figure(name, metric, mode=mode) for metric in names}
            few = None if np.isnan(found["k_mean"]) else found["k_mean"] <= _NEWS_K
            reached = [at_least(found[metric], bar) for metric, bar in _NEWS.items()]
            bar = f"{_least(_NEWS)}, K ≤ {_NEWS_K:.0f}"
            yield Verdict(f"{title(name)}, {word}", bar, _said(found), judge(*reached, few))


def imagenet(results: Results) -> Iterator[Verdict]:
    """Above everybody, those that are given K included."""
    for metric in ("ari", "full_nmi"):
        yield above_peers(results, "imagenet100-recurring", metric)


def drawn(results: Results) -> Iterator[Verdict]:
    """Streams whose truth is known: above everybody, and near the Bayes classifier."""
    for name, bar in _ORACLE.items():
        yield above_peers(results, name, "ari")
        found = results.figure(name, "fraction_of_oracle")
        claim = f"{title(name)}: ARI over that of the Bayes classifier"
        yield Verdict(claim, f"≥ {bar:g}", _number(found), judge(at_least(found, bar)))


def above_peers(results: Results, name: str, metric: str) -> Verdict:
    """Whether the default algorithm, tuned, is above the best peer, tuned or not.

    Where one of the two was stopped early they are compared over the batches that both reached. A
    score of the whole stream has no such part: it is compared with peers that got as far as ours.
    """
    claim = f"{title(name)}: {_NAMES[metric]} above every peer"
    mine, reached = (results.figure(name, column) for column in (metric, "reached"))
    rivals = peers(results.of(name)).dropna(subset=[metric])
    if metric not in results.series:
        rivals = rivals[rivals["reached"] >= reached]
    if np.isnan(mine) or rivals.empty:
        return Verdict(claim, "above", _number(mine), "not measured")
    margins, scores = [], []
    for rival in rivals.to_dict("records"):
        ours, theirs = mine, rival[metric]
        if metric in results.series and rival["reached"] != reached:
            pair = [(OURS, "tuned"), (rival["method"], rival["mode"])]
            ours, theirs = over_same_batches(results, name, metric, pair)
        margins.append(ours - theirs)
        scores.append((ours, theirs))
    worst = int(np.argmin(margins))
    ours, theirs = scores[worst]
    measured = f"{ours:.3f}; {rivals['method'].iloc[worst]} {theirs:.3f}"
    return Verdict(claim, "above", measured, judge(margins[worst] > 0))


def ranks(results: Results) -> Iterator[Verdict]:
    """The place of the default algorithm by its mean rank, everybody tuned."""
    lines = in_mode(results.ranked, "tuned")
    for who, worst, some in (
        ("methods that infer K", 1, lines[~lines["given_k"]]),
        ("all methods, those given K included", 2, lines),
    ):
        for metric in ("ari", "nmi"):
            found = enough(mean_ranks(some, metric), some["unit"].nunique())
            claim = f"mean rank by {_NAMES[metric]} among {who}"
            bar = "1st" if worst == 1 else f"at worst {worst}nd"
            if OURS not in found.index:
                yield Verdict(claim, bar, "–", "not measured")
                continue
            place = 1 + int((found["rank"] < found.loc[OURS, "rank"]).sum())
            measured = f"place {place} of {len(found)}, mean rank {found.loc[OURS, 'rank']:.2f}"
            yield Verdict(claim, bar, measured, judge(place <= worst))


def untuned(results: Results) -> Iterator[Verdict]:
    """How often the defaults come close to tuning; groups of sets count once."""
    found = tuning_gain(results)
    if found.empty:
        yield Verdict("untuned default against tuned default", "≥ 80 %", "–", "not measured")
        return
    claim = f"sets on which nothing tuned loses at most {CLOSE:g} ARI to tuned"
    not_worse = _share(found, found["gain"].round(3) <= CLOSE)
    either = _share(found, found["gain"].abs().round(3) <= CLOSE)
    measured = f"{not_worse:.0%} (within {CLOSE:g} in either direction: {either:.0%})"
    yield Verdict(claim, "≥ 80 %", measured, judge(not_worse >= 0.8))


def tuning_gain(results: Results) -> pd.DataFrame:
    """ARI of the default algorithm by set, untuned and tuned, and what tuning gained."""
    mine = results.ranked[results.ranked["method"] == OURS]
    wide = mine.pivot(index=["unit", "set"], columns="mode", values="ari").reset_index()
    if not {"default", "tuned"} <= set(wide.columns):
        return wide.assign(default=np.nan, tuned=np.nan, gain=np.nan).iloc[:0]
    return wide.assign(gain=wide["tuned"] - wide["default"]).dropna(subset=["gain"])


def _share(found: pd.DataFrame, yes: pd.Series) -> float:
    """Share of units, each the mean of its sets."""
    return float(yes.astype(float).groupby(found["unit"]).mean().mean())


def pareto(results: Results) -> Iterator[Verdict]:
    """Whether a setting of the default algorithm is on the front of every set."""
    names = list(results.ranked["set"].unique())
    off = [name for name in names if not on_it(results, name)]
    measured = f"on the front of {len(names) - len(off)} of {len(names)} sets"
    measured += f"; not on {', '.join(map(title, off))}" if off else ""
    claim = "accuracy per CPU second: on the Pareto front, those given K included"
    yield Verdict(claim, "every set", measured, judge(not off if names else None))


def on_it(results: Results, name: str) -> bool:
    """Whether the default algorithm, tuned or not, is on the front of a set."""
    return OURS in set(front(results.of(name))["method"])


def video(path: Path) -> Verdict:
    """Frames per second of the default algorithm, and the surfer, from the figures of the video."""
    claim, bar = "video: decoded and segmented on two cores", f"≥ {_FRAMES:g} frames per second"
    runs = json.loads(path.read_text())["runs"] if path.exists() else []
    mine = [run for run in runs if run["method"] == OURS]
    if not mine:
        return Verdict(claim, bar, "–", "not measured")
    found = pd.DataFrame(mine).mean(numeric_only=True)
    measured = f"{found['frames_per_second']:.1f}; IoU of the surfer {found['chosen_here']:.2f}"
    return Verdict(claim, bar, measured, judge(found["frames_per_second"] >= _FRAMES))


def _least(bars: dict[str, float]) -> str:
    return ", ".join(f"{_NAMES[metric]} ≥ {bar:g}" for metric, bar in bars.items())


def _said(found: dict[str, float]) -> str:
    return ", ".join(f"{_NAMES[metric]} {_number(value)}" for metric, value in found.items())


def _number(value: float) -> str:
    if np.isnan(value):
        return "–"
    return f"{value:.0f}" if value >= 10 else f"{value:.3f}"
