"""Tables of the pages, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.paper.bars import CLOSE, Verdict, on_it
from benchmarks.paper.published import METRICS, published
from benchmarks.paper.standings import (
    OURS,
    PAPER,
    Results,
    enough,
    front,
    in_mode,
    mean_ranks,
    peers,
    title,
)

GIVEN = " †"
_MODES = {"tuned": "tuned", "default": "untuned"}


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> list[str]:
    """A table; the first column is text, the others are as they come."""
    rule = "|---" * len(head) + "|"
    return [_row(head), rule, *map(_row, lines)]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def name_of(line: Any) -> str:
    """A method by name, marked if it is given K; ours stands out."""
    text = f"{line['method']}{GIVEN if line['given_k'] else ''}"
    return f"**{text}**" if line["method"] == OURS else text


def verdict_table(found: Iterable[Verdict]) -> list[str]:
    """Promises and what became of them."""
    return markdown(
        ["promise", "bar", "measured", "verdict"],
        [[v.claim, v.bar, v.measured, v.verdict.replace("missed", "**missed**")] for v in found],
    )


def metric_table(results: Results, name: str) -> list[str]:
    """Every method on one set, tuned and untuned, with the paper's figures below."""
    lines = results.of(name)
    best = {metric: _best(lines, metric) for metric in METRICS}
    head = ["method", "", "ARI", "NMI", "purity", "F", "full-NMI", "K", "labels", "batches"]
    body = [_metric_row(line, best) for line in lines.to_dict("records")]
    for line in published(str(lines["unit"].iloc[0])):
        mark = GIVEN if line.given_k else ""
        scores = [score(value, 2) for value in line.scores]
        body.append([f"*{line.method}{mark}*", "*published*", *scores, *[""] * 5])
    return markdown([*head, "CPU ms per 1000 rows", "rows per CPU s"], body)


def _metric_row(line: dict[Any, Any], best: dict[str, set[float]]) -> list[str]:
    scores = [_marked(line[metric], best[metric]) for metric in METRICS]
    reached = f"{line['reached']:.0f}"
    if line["reached"] < line["batches"]:
        reached += f" of {line['batches']:.0f}"
    speed = line["rows_per_second"]
    ends = [_count(line["k_mean"]), _count(line["labels_used"]), reached]
    return [
        name_of(line),
        _MODES[line["mode"]],
        *scores,
        *ends,
        two_digits(1e6 / speed),
        short(speed),
    ]


def _best(lines: pd.DataFrame, metric: str) -> set[float]:
    """The best score of all, and the best of those that infer K, as they are printed."""
    inferring = lines.loc[~lines["given_k"], metric].dropna()
    everybody = lines[metric].dropna()
    return {round(float(some.max()), 3) for some in (inferring, everybody) if len(some)}


def _marked(value: float, best: set[float]) -> str:
    text = score(value)
    return f"**{text}**" if not np.isnan(value) and round(float(value), 3) in best else text


def rank_table(results: Results) -> list[str]:
    """Mean ranks: all methods, those that infer K; tuned, untuned."""
    lines = results.ranked
    n_units = lines["unit"].nunique()
    columns = {}
    for mode, how in _MODES.items():
        some = in_mode(lines, mode)
        for who, chosen in (("all", some), ("infer K", some[~some["given_k"]])):
            for metric in ("ari", "nmi"):
                columns[f"{metric.upper()}, {who}, {how}"] = mean_ranks(chosen, metric)
    order = columns["ARI, all, tuned"]
    given = lines.groupby("method")["given_k"].first()
    full = enough(order, n_units).index
    body = []
    for method in [*full, *order.index.difference(full, sort=False)]:
        cells = [_rank(column, method) for column in columns.values()]
        name = name_of({"method": method, "given_k": given[method]})
        body.append([name, *cells, f"{order.loc[method, 'units']:.0f} of {n_units}"])
    return markdown(["method", *columns, "sets"], body)


def _rank(column: pd.DataFrame, method: str) -> str:
    if method not in column.index:
        return ""
    return f"{column.loc[method, 'rank']:.1f}"


def untuned_place(results: Results) -> str:
    """Where the default algorithm stands with nothing tuned among tuned others, in a sentence."""
    lines = results.ranked
    mine = lines["method"] == OURS
    mixed = pd.concat([in_mode(lines[~mine], "tuned"), in_mode(lines[mine], "default")])
    places = []
    for metric in ("ari", "nmi"):
        for some in (mixed[~mixed["given_k"]], mixed):
            found = enough(mean_ranks(some, metric), some["unit"].nunique())
            if OURS not in found.index:
                return ""
            place = 1 + int((found["rank"] < found.loc[OURS, "rank"]).sum())
            places.append(f"{place} of {len(found)}")
    return (
        f"With nothing tuned, among others that are tuned, {OURS} takes place {places[0]} by ARI "
        f"and {places[2]} by NMI of those that infer K, {places[1]} and {places[3]} of all."
    )


def summary_table(results: Results) -> list[str]:
    """One line per set: ours untuned and tuned, the best others, the front."""
    head = ["set", "untuned", "tuned", "tuning gains", "paper's algorithm"]
    head += ["best peer that infers K", "best peer given K", "on the front"]
    body = []
    for name in _names(results):
        lines = results.of(name)
        mine = [results.figure(name, "ari", mode=mode) for mode in ("default", "tuned")]
        gain = mine[1] - mine[0]
        said = f"{gain:+.3f}" if not np.isnan(gain) else "–"
        others = peers(lines)
        rivals = [others[others["given_k"] == given].head(1) for given in (False, True)]
        old = in_mode(lines[lines["method"] == PAPER], "tuned")["ari"]
        body.append(
            [
                linked(name, str(lines["unit"].iloc[0])),
                *map(score, mine),
                f"**{said}**" if gain > CLOSE else said,
                score(old.iloc[0]) if len(old) else "–",
                *(_rival(some, max(mine)) for some in rivals),
                "yes" if on_it(results, name) else "**no**",
            ]
        )
    return markdown(head, body)


def linked(name: str, unit: str) -> str:
    """The title of a set, linked to the page of its unit."""
    return f"[{title(name)}]({unit}.md)"


def _names(results: Results) -> list[str]:
    return [name for names in results.units(results.ranked).values() for name in names]


def _rival(line: pd.DataFrame, ours: float) -> str:
    if line.empty:
        return "–"
    text = f"{line['method'].iloc[0]} {score(line['ari'].iloc[0])}"
    return f"**{text}**" if line["ari"].iloc[0] > ours else text


def time_table(results: Results) -> list[str]:
    """CPU milliseconds per 1000 rows, untuned; and how many times as long as ours, in the median.

    A column for each set or group; the fastest method first.
    """
    lines = results.ranked[results.ranked["mode"] == "default"]
    lines = lines.assign(milliseconds=1e6 / lines["rows_per_second"])
    wide = lines.pivot_table(index="method", columns="unit", values="milliseconds")
    wide = wide.reindex(columns=list(results.units(results.ranked)))
    ours = wide.loc[OURS] if OURS in wide.index else wide.median()
    times = wide.div(ours).median(axis=1).sort_values()
    given = lines.groupby("method")["given_k"].first()
    body = [
        [
            name_of({"method": method, "given_k": given[method]}),
            *map(two_digits, wide.loc[method]),
            two_digits(times[method]),
        ]
        for method in times.index
    ]
    return markdown(["method", *map(title, wide.columns), f"over {OURS}"], body)


def front_table(results: Results) -> list[str]:
    """Who is on the Pareto front of each set, fastest first."""
    body = []
    for name in _names(results):
        members = front(results.of(name)).drop_duplicates("method", keep="last").to_dict("records")
        said = [f"{name_of(line)} {score(line['ari'], 2)}" for line in members]
        body.append([title(name), ", ".join(said)])
    return markdown(["set", "on the front: ARI, fastest first"], body)


def score(value: float | None, digits: int = 3) -> str:
    """A score without its leading zero's noise; a dash if there is none."""
    return "–" if value is None or np.isnan(value) else f"{value:.{digits}f}"


def _count(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.0f}"


def short(value: float) -> str:
    """Three digits of a rate: 950, 12.3k, 1.31M."""
    if np.isnan(value):
        return "–"
    for letter, size in (("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def two_digits(value: float) -> str:
    """A positive number with at least two digits; nothing if there is none."""
    if np.isnan(value):
        return ""
    return f"{value:.0f}" if value >= 100 else f"{value:.2g}"
