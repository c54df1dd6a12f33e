"""The algorithms by name, and what each of them offers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from scstream.core import default, exact, paper, printed
from scstream.core.assign import Executor
from scstream.core.config import Config
from scstream.core.predictor import Predictor
from scstream.core.state import Batch, Info, State
from scstream.families.base import Family, Labels


class Algorithm(Protocol):
    """What the modules `default`, `paper`, `printed` and `exact` offer."""

    def step(
        self, family: Family, config: Config, state: State, batch: Batch, executor: Executor
    ) -> tuple[State, Labels, Info]:
        """Update the clusters with one batch of rows."""

    def predictor(
        self, family: Family, config: Config, state: State, time: float | None
    ) -> Predictor:
        """Return the mixture at a time, by default when the next batch is due."""

    def shapes(self, config: Config, state: State) -> State:
        """Return the state whose statistics describe the shapes of the clusters."""


ALGORITHMS: Mapping[str, Algorithm] = MappingProxyType(
    {"default": default, "paper": paper, "printed": printed, "exact": exact}
)
