"""Advice for users whose rows or settings make a model learn less than they expect."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from scstream.core.state import Info, State
from scstream.errors import DataWarning
from scstream.families import Family, Gaussian, Product
from scstream.families.base import Rows
from scstream.families.scales import few_digits

_MANY_COLUMNS = 64  # beyond, a full covariance is slow and needs thousands of rows per cluster
_LOOKED_AT = 10_000  # rows of a first batch
_FEW_ROWS = 20.0  # of weight in the whole model
_BATCHES = 20  # after which a model should have more weight
MANY_ROWS = 20  # of a batch whose share of novel rows means something
_SURPRISES = 5  # batches in a row
_MOSTLY = 0.5  # share of novel rows


@dataclass
class Advisor:
    """Warns about each thing once."""

    given: set[str] = field(default_factory=set)
    surprises: int = 0  # batches of mostly novel rows

    def of_first_rows(self, family: Family, rows: Rows, names: Sequence[str]) -> None:
        """Look at the first rows."""
        parts = [part for part, _ in family.parts] if isinstance(family, Product) else [family]
        wide = [part for part in parts if isinstance(part, Gaussian)]
        if wide and max(part.n_features for part in wide) > _MANY_COLUMNS:
            self.warn(
                "columns",
                f"a full covariance of {wide[0].n_features} columns needs thousands of rows per "
                "cluster and much time; use family='auto', 'subspace' or 'diagonal', or "
                "'direction' for unit vectors such as embeddings.",
            )
        if not sparse.issparse(rows) and isinstance(rows, np.ndarray):
            far = few_digits(rows[:_LOOKED_AT])
            if len(far):
                self.warn(
                    "digits",
                    f"{', '.join(names[column] for column in far[:5])}: these columns lie a "
                    "billion times farther from zero than they vary, so most of their digits are "
                    "lost; subtract a constant before the rows become float64.",
                )

    def of_batch(self, state: State, info: Info, *, n_rows: int, n_held: int) -> None:
        """Look at what became of a batch."""
        few = n_held < _FEW_ROWS and state.n_batches > _BATCHES
        if few and state.total_weight + n_held < _FEW_ROWS:
            self.warn(
                "half_life",
                f"after {state.n_batches} batches the model remembers only "
                f"{state.total_weight:.0f} rows, because half_life is short for the time between "
                "batches; raise half_life, or pass half_life=None to never forget.",
            )
        if n_rows >= MANY_ROWS:  # fewer rows are novel by chance
            novel = info.novel_before >= _MOSTLY  # False for NaN
            self.surprises = self.surprises + 1 if novel else 0
        if self.surprises >= _SURPRISES:
            self.warn(
                "sorted",
                f"most rows of {_SURPRISES} batches in a row belonged to no cluster seen before. "
                "If the rows are a table sorted by class or by value, shuffle them; otherwise "
                "raise half_life so that clusters are not forgotten before they return.",
            )

    def of_far_rows(self, n_far: int) -> None:
        """Tell of rows that are not learned."""
        self.warn(
            "far",
            f"{n_far} rows lie more than ten million standard deviations from all rows before and "
            "were not learned; they have the label -1. Clip or drop such rows.",
        )

    def warn(self, about: str, sentence: str) -> None:
        """Warn unless this was said before."""
        if about not in self.given:
            self.given.add(about)
            warnings.warn(sentence, DataWarning, stacklevel=6)
