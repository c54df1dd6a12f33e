"""Scores of a clustering against true labels, batch by batch and over a whole stream."""

from scstream.metrics.agreement import (
    FullStreamScore,
    adjusted_rand,
    normalized_mutual_info,
    pairwise_f,
    purity,
)
from scstream.metrics.detection import DetectionDelay, detection_delay
from scstream.metrics.prequential import PrequentialResult, PrequentialStep, prequential

__all__ = [
    "DetectionDelay",
    "FullStreamScore",
    "PrequentialResult",
    "PrequentialStep",
    "adjusted_rand",
    "detection_delay",
    "normalized_mutual_info",
    "pairwise_f",
    "prequential",
    "purity",
]
