"""What is compared, and the knobs that were tried."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.video.frames import Array, Labels
from benchmarks.video.loop import Segment
from scstream import ScStream


@dataclass(frozen=True)
class Method:
    """A name, how to make a segmenter of a seed and a number of clusters, and what it is fed."""

    name: str
    make: Callable[[int, int], Segment]
    position: float = 1.0
    n_seeds: int = 1
    table: str = "methods"


def ours(seed: int, n_clusters: int, **choices: Any) -> Segment:
    """`ScStream`, which is not told the number of clusters."""
    model = ScStream(random_state=seed, **choices)

    def segment(rows: Array) -> Labels:
        return model.partial_fit(rows).labels_

    return segment


def kmeans(seed: int, n_clusters: int) -> Segment:
    """`MiniBatchKMeans`, given a number of clusters."""
    from sklearn.cluster import MiniBatchKMeans

    model = MiniBatchKMeans(n_clusters, n_init=3, random_state=seed)

    def segment(rows: Array) -> Labels:
        labels: Labels = model.partial_fit(rows).labels_
        return labels

    return segment


def _knob(name: str, position: float = 1.0, n_seeds: int = 1, **choices: Any) -> Method:
    return Method(name, partial(ours, **choices), position, n_seeds, table="knobs")


N_SEEDS = 3
OURS = "scstream"
RIVAL = "mini-batch k-means, positions x .1"
METHODS = (
    Method(OURS, ours, n_seeds=N_SEEDS),
    Method("scstream, paper's algorithm", partial(ours, algorithm="paper", prior="weak")),
    Method("mini-batch k-means", kmeans, n_seeds=N_SEEDS),
    Method(RIVAL, kmeans, 0.1, n_seeds=N_SEEDS),
    _knob('scstream, prior "weak"', prior="weak"),
    _knob("scstream, `coarseness` 0", coarseness=0.0),
    _knob("scstream, `half_life` 2", half_life=2.0),
    _knob("scstream, `half_life` 20", half_life=20.0),
    _knob("scstream, positions x .25", 0.25),
    Method("mini-batch k-means, positions x .25", kmeans, 0.25, table="knobs"),
)
