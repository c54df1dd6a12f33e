"""The ways to scale a stream that are compared; all but the first know only rows that came."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np

from benchmarks.paper.sets import standardise
from scstream.preprocess import Steps
from scstream.preprocess.block import Block
from scstream.preprocess.scale import std

MODEL = 5.0  # half-life of the model, batches


class Scaler(Protocol):
    """What is asked of a scaler: that of `Steps`."""

    def take(self, block: Block, *, time: float | None = None) -> tuple[Self, Block]:
        """Return the scaler for the next batch, and the batch as it is scaled."""


def frozen() -> Scaler:
    """As the first batch teaches."""
    return Steps.build([{"step": "standardise", "mode": "frozen"}])


def running(half_life: float) -> Scaler:
    """As the faded past teaches, up to this batch."""
    return Steps.build([{"step": "standardise", "mode": "running", "half_life": half_life}])


@dataclass(frozen=True)
class Half:
    """Either the mean or the spread follows the stream; the other is that of the first batch."""

    moves: str  # "mean" or "spread"
    first: Any
    now: Any

    def take(self, block: Block, *, time: float | None = None) -> tuple[Half, Block]:
        """Learn both, scale by one of each."""
        first, _ = self.first.take(block, time=time)
        now, _ = self.now.take(block, time=time)
        mean, scale = (now, first) if self.moves == "mean" else (first, now)
        learned = [steps.steps[0].learned for steps in (mean, scale)]
        X = (block.X - learned[0]["mean"]) / std(learned[1])
        return replace(self, first=first, now=now), replace(block, X=X)


def half(moves: str, half_life: float) -> Scaler:
    """Only the mean, or only the spread, goes on learning."""
    return Half(moves, frozen(), running(half_life))


@dataclass(frozen=True)
class Way:
    """A way to scale, by name.

    `first` is the size of the first batch, in batches; `whole` scales by all rows beforehand.
    """

    name: str
    scaler: Callable[[], Scaler] = Steps
    first: int = 1
    whole: bool = False

    def rows(self, X: Any) -> np.ndarray:
        """The rows as they enter the pipeline."""
        return standardise(X) if self.whole else np.asarray(X, dtype=np.float64)


OFFLINE, NONE = "whole stream, beforehand", "not scaled"
WAYS = (
    Way(OFFLINE, whole=True),
    Way(f"{OFFLINE}; first batch of 5", first=5, whole=True),
    Way(f"{OFFLINE}; first batch of 10", first=10, whole=True),
    Way("frozen after 1 batch", frozen),
    Way("frozen after 5 batches", frozen, first=5),
    Way("frozen after 10 batches", frozen, first=10),
    Way("running, half-life 5 (the model's)", lambda: running(MODEL)),
    Way("running, half-life 50", lambda: running(50.0)),
    Way("running, half-life 500", lambda: running(500.0)),
    Way("running, never forgets", lambda: running(np.inf)),
    Way("running, never forgets; first batch of 10", lambda: running(np.inf), first=10),
    Way("mean frozen, spread with half-life 5", lambda: half("spread", MODEL)),
    Way("spread frozen, mean with half-life 5", lambda: half("mean", MODEL)),
    Way(NONE),
)
BY_NAME = {way.name: way for way in WAYS}
