"""What the figures show, in words; numbers in them are computed from the results."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from benchmarks.paper.own import DRAWN, SAMPLED, SETTLED
from benchmarks.paper.standings import OURS, PAPER

Own = dict[str, pd.DataFrame]


class Caption(NamedTuple):
    """A figure with its heading and what to see in it."""

    file: str
    heading: str
    text: str


def papers(own: Own) -> list[Caption]:
    """The paper's figures, measured again. Box plots stand on the pages of the sets."""
    return [
        Caption("paper-sweeps.png", "Accuracy and time against T", _sweeps(own)),
        Caption("paper-last-sweep.png", "The deterministic sweep, taken away", _last_sweep(own)),
    ]


def ours(own: Own) -> list[Caption]:
    """Our own figures."""
    return [
        Caption("own-pareto.png", "Speed against accuracy", _PARETO),
        Caption("own-oracle.png", "How near to the best possible", _ORACLE),
        Caption("own-clusters.png", "Number of clusters over time", _CLUSTERS),
        Caption("own-births.png", "How soon a new cluster is found", _births(own)),
        Caption("own-lineage.png", "The lives of clusters", _LINEAGE),
        Caption("own-cost.png", "Cost against the length of the stream", _cost(own)),
    ]


_PARETO = (
    "Up and to the right is better. The grey line is the Pareto front: no method is both faster "
    "and more accurate than a point on it. The fastest and the most accurate peer on it are named."
)
_ORACLE = (
    "Running means, every method tuned. The dotted line is the Bayes classifier, which knows the "
    "true parameters at the time of each row. A line that ends early was stopped at the limit of "
    "CPU time."
)
_CLUSTERS = (
    "Clusters of the model after each batch (running means on long streams) and classes that have "
    "rows in the batch. Where a class is made of several groups, more clusters than classes are "
    "no mistake. The peer is the most accurate one that infers K; its name is in the corner."
)
_LINEAGE = (
    "Twelve clusters in 32 dimensions come and go, six at a time (`archive=True`, so "
    "that a cluster that died can return under its id). A perfect model has one blue line in each "
    "lane, wherever the lane is grey. The small numbers are ids. The seed was chosen because every "
    "kind of event happens in it."
)


def _sweeps(own: Own) -> str:
    text = (
        "The paper's algorithm with T sampling sweeps on every batch, on the first 100 batches. "
        "The band is the range of ARI, and of time, over seeds: what lies within it may be chance. "
    )
    if "sweeps" not in own:
        return text
    found = own["sweeps"]
    said = []
    for stream, some in found.groupby("stream", sort=False):
        paper = some[some["method"] == PAPER].groupby("n_sweeps")[["ari", "seconds"]].mean()
        first, last = paper.iloc[0], paper.iloc[-1]
        said.append(
            f"{stream}: from T = {paper.index[0]} to {paper.index[-1]} ARI goes from "
            f"{first['ari']:.3f} to {last['ari']:.3f} and time grows "
            f"{last['seconds'] / first['seconds']:.1f}-fold"
        )
    return text + "; ".join(said) + "."


def _last_sweep(own: Own) -> str:
    text = (
        "The paper ends every batch with a sweep that takes the most probable label (*settled*). "
        "Here labels of the last sweep are drawn from the same predictive, or from one more "
        "sampling sweep. Predictions always take the most probable label; what differs is what "
        "was learned. "
    )
    if "last-sweep" not in own:
        return text
    means = own["last-sweep"].groupby(["stream", "variant"], sort=False)["ari"].mean()
    said = [
        f"{stream}: {means[stream, SETTLED]:.3f} settled, {means[stream, DRAWN]:.3f} drawn, "
        f"{means[stream, SAMPLED]:.3f} sampled"
        for stream in means.index.unique("stream")
    ]
    return text + "ARI, " + "; ".join(said) + "."


def _births(own: Own) -> str:
    text = (
        "Every ten batches a cluster of 5 % of the rows is born. It counts as found when one id "
        "has more than half of its rows and these are more than half of the rows of the id. "
        "Methods with a fixed K have nothing to find it with. "
    )
    if "births" not in own:
        return text
    said = []
    for distance, some in own["births"].groupby("distance", sort=False):
        delay = {method: part["delay"] for method, part in some.groupby("method")}
        told = [f"{name} {_delay(delay[name])}" for name in (OURS, PAPER) if name in delay]
        said.append(f"{distance}: {', '.join(told)}")
    return text + "; ".join(said) + "."


def _delay(delay: pd.Series) -> str:
    missed = int(delay.isna().sum())
    return f"{delay.mean():.2f} batches on average and {missed} of {len(delay)} never"


def _cost(own: Own) -> str:
    text = (
        "2-D Gaussians, nothing tuned, methods that reached at least half of the stream. Right: "
        "bytes of the pickled model; what grows in ours is the list of events, of which at most "
        "`max_events` = 1000 are kept. A line that ends early was stopped for its CPU time. "
    )
    if "size" not in own:
        return text
    mine = own["size"][own["size"]["method"] == OURS].sort_values("batch")
    if mine.empty:
        return text
    middle, end = mine.iloc[len(mine) // 2], mine.iloc[-1]
    said = [
        f"{look['bytes'] / 1024:.0f} KiB after {look['batch']} batches" for look in (middle, end)
    ]
    return f"{text}{OURS}: {', '.join(said)}."
