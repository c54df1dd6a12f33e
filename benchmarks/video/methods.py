"""What is compared, and the knobs that were tried."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.video.frames import Array, Labels
from benchmarks.video.loop import Segment
from scstream import ScStream

# Pixels of water are no Gaussian cluster, and with 409,920 of them in a frame every bulge is
# significant. So clusters are not cut because rows would like it a little better, only because
# the two parts are more probable than the whole; and the prior does not follow the finest texture.
SETTINGS: dict[str, Any] = {"prior": "vague", "switches": {"split_evidence": None}}


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


N_SEEDS = 5
OURS = "scstream"
RIVAL = "mini-batch k-means, positions x .1"
METHODS = (
    Method(OURS, partial(ours, **SETTINGS), n_seeds=N_SEEDS),
    Method("scstream, nothing set", ours),
    Method("scstream, paper's algorithm", partial(ours, algorithm="paper", prior="vague")),
    Method("mini-batch k-means", kmeans, n_seeds=N_SEEDS),
    Method(RIVAL, kmeans, 0.1, n_seeds=N_SEEDS),
    _knob('scstream, prior "auto" again', switches=SETTINGS["switches"]),
    _knob("scstream, `split_evidence` 5 again", prior=SETTINGS["prior"]),
    _knob("scstream, `half_life` 2", **SETTINGS, half_life=2.0),
    _knob("scstream, `half_life` 20", **SETTINGS, half_life=20.0),
    _knob("scstream, positions x .25", 0.25, N_SEEDS, **SETTINGS),
    Method("mini-batch k-means, positions x .5", kmeans, 0.5, table="knobs"),
    Method("mini-batch k-means, positions x .25", kmeans, 0.25, table="knobs"),
)
