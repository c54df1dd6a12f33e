"""Generators of drifting streams with known labels and a Bayes oracle.

A stream has a population (the initial clusters) and a kind of drift (how they change).
"""

from scstream.datasets.base import LabelledBatch, Stream
from scstream.datasets.counts import drifting_multinomials
from scstream.datasets.gaussians import (
    abrupt_gaussians,
    births_and_deaths,
    drifting_gaussians,
    gradual_gaussians,
    recurring_gaussians,
    stationary_gaussians,
)

__all__ = [
    "LabelledBatch",
    "Stream",
    "abrupt_gaussians",
    "births_and_deaths",
    "drifting_gaussians",
    "drifting_multinomials",
    "gradual_gaussians",
    "recurring_gaussians",
    "stationary_gaussians",
]
