"""Figures that others published, to stand beside ours: facts to cite, not measurements of ours.

Dinari and Freifeld, Sampling in Dirichlet Process Mixture Models for Clustering Streaming Data
(AISTATS 2022): means over batches of 1000 rows, predicted before they are learned.
"""

from __future__ import annotations

from typing import NamedTuple

METRICS = ("ari", "nmi", "purity", "f", "full_nmi")


class Published(NamedTuple):
    """One line of the paper's table; None where it has no figure."""

    method: str
    given_k: bool
    scores: tuple[float | None, float | None, float | None, float | None, float | None]


_PAPER = {
    "gauss2d": (
        Published("ScStream", False, (0.93, 0.95, 0.92, 0.94, 0.68)),
        Published("DPMM sampler per batch", False, (0.92, 0.94, 0.91, 0.93, None)),
        Published("DBSTREAM", False, (0.90, 0.94, 0.91, 0.91, None)),
        Published("CluStream", True, (0.86, 0.94, 0.94, 0.88, None)),
        Published("mini-batch k-means", True, (0.82, 0.89, 0.83, 0.85, 0.48)),
    ),
    "covertype": (
        Published("ScStream", False, (0.15, 0.21, 0.71, 0.47, 0.13)),
        Published("DPMM sampler per batch", False, (0.10, 0.16, 0.67, 0.48, None)),
        Published("DBSTREAM", False, (0.10, 0.18, 0.68, 0.60, None)),
        Published("CluStream", True, (0.10, 0.19, 0.71, 0.33, None)),
        Published("mini-batch k-means", True, (0.07, 0.13, 0.66, 0.37, 0.06)),
    ),
    "imagenet100-recurring": (
        Published("DPMM sampler per batch", False, (0.64, 0.72, 0.74, 0.76, None)),
        Published("ScStream", False, (0.63, 0.69, 0.78, 0.73, 0.48)),
        Published("SoVB", False, (0.31, 0.45, 0.49, 0.55, 0.23)),
        Published("StreamKM++", True, (0.55, 0.62, 0.91, 0.62, None)),
        Published("mini-batch k-means", True, (0.49, 0.58, 0.87, 0.57, 0.57)),
    ),
    "multinomial": (
        Published("ScStream", False, (0.78, 0.89, 0.84, 0.78, 0.72)),
        Published("DPMM sampler per batch", False, (0.45, 0.62, 0.53, 0.46, None)),
        Published("SoVB", False, (0.21, 0.52, 0.31, 0.23, 0.27)),
        Published("mini-batch k-means", True, (0.41, 0.69, 0.61, 0.42, 0.54)),
    ),
    "20news": (
        Published("ScStream", False, (0.13, 0.36, 0.28, 0.20, 0.32)),
        Published("DPMM sampler per batch", False, (0.12, 0.33, 0.24, 0.19, None)),
        Published("SoVB", False, (0.06, 0.20, 0.13, 0.14, 0.17)),
        Published("mini-batch k-means", True, (0.01, 0.09, 0.12, 0.09, 0.05)),
        Published("CluStream", True, (0.00, 0.12, 0.13, 0.10, None)),
    ),
}
_CAVEATS = {
    "gauss2d": "Drawn by a recipe of the same kind; the paper's own rows are not public.",
    "multinomial": "Drawn by a recipe of the same kind; the paper's own rows are not public.",
    "imagenet100-recurring": "Published for 64 SwAV features of ImageNet100; ours are a stand-in "
    "from another network on smaller images, so only the order of methods can be compared.",
    "20news": "The paper does not say how it tokenised.",
}


def published(unit: str) -> tuple[Published, ...]:
    """The paper's lines for a set or a group of sets; none for sets that it does not have."""
    return _PAPER.get(unit, ())


def caveat(unit: str) -> str:
    """What to know before comparing with the published lines; empty if nothing."""
    return _CAVEATS.get(unit, "")
