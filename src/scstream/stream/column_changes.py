"""Feature columns that a migrated job drops or adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scstream.core.feature_columns import ADDED, change_columns
from scstream.errors import InputError, MigrationRefused
from scstream.families import Product
from scstream.families.base import Array, Rows
from scstream.families.product import Part
from scstream.learning import read_only
from scstream.model import Model

_BY_COLUMN = ("bernoulli", "poisson", "categorical")  # an added column has the same family
_OTHERWISE = "diagonal"


@dataclass(frozen=True)
class ColumnChange:
    """The features of a job before and after a migration.

    Parameters
    ----------
    old, new : sequence of str
        Names of the features.
    family : object
        The setting `model.family` of the new job.
    sample : array of shape (N, A), optional
        Values of the added columns: their prior is taken from them, as from a first batch.

    Examples
    --------
    >>> from scstream.stream.column_changes import ColumnChange
    >>> change = ColumnChange(["a", "b"], ["b", "c"], "gaussian")
    >>> change.dropped, change.added, change.effect
    (['a'], ['c'], 'drops a: marginalised; adds c: independent of the others, known by its prior')
    """

    old: Sequence[str]
    new: Sequence[str]
    family: Any
    sample: Array | None = None

    @property
    def dropped(self) -> list[str]:
        """Names of columns that the new job has no more."""
        return [name for name in self.old if name not in self.new]

    @property
    def added(self) -> list[str]:
        """Names of columns that the old job did not have."""
        return [name for name in self.new if name not in self.old]

    @property
    def effect(self) -> str:
        """What the change does."""
        parts = []
        if self.dropped:
            parts.append(f"drops {', '.join(self.dropped)}: marginalised")
        if self.added:
            names = ", ".join(self.added)
            parts.append(f"adds {names}: independent of the others, known by its prior")
        return "; ".join(parts) or "the same columns in another order"

    def apply(self, model: Model) -> Model:
        """Return the model over the new columns; raises `MigrationRefused`."""
        if model.is_young:
            raise MigrationRefused(
                "schema.features cannot change while the old job has learned so few rows; start a "
                "new job."
            )
        columns = np.array([_place(self.old, name) for name in self.new])
        try:
            family, state = change_columns(model.family, model.state, columns, self._parts(model))
        except InputError as error:
            raise MigrationRefused(f"schema.features cannot change: {error}") from error
        known, choice, held = model.settings, model.choice, model.held
        if choice is not None:  # families on trial have learned other columns
            widths = choice.widths
            widths = None if widths is None else _selected(widths[None], columns, 0.0)[0]
            choice = replace(choice, rivals=(), widths=widths)
        if held is not None:
            held = replace(held, rows=_selected(held.rows, columns, np.nan))
        names, levels = tuple(self.new), known.levels
        if levels is not None:
            levels = tuple(None if c == ADDED else levels[c] for c in columns.tolist())
        return model.replace(
            family=family,
            state=read_only(state),
            settings=replace(known, feature_names=names, levels=levels, family=self.family),
            choice=choice,
            held=held,
            calibration=None,  # log densities of rows with other columns
            exemplars=None,
        )

    def _parts(self, model: Model) -> list[Part]:
        """Return the families of the added columns."""
        if not self.added:
            return []
        if self.sample is None:
            raise MigrationRefused(
                f"schema.features adds {', '.join(self.added)}, whose scale is not known; give "
                "rows that have it with --sample FILE."
            )
        product = Product.from_spec(self.sample, self._spec(model))
        places = [self.new.index(name) for name in self.added]
        return [(part, tuple(places[c] for c in own)) for part, own in product.parts]

    def _spec(self, model: Model) -> list[tuple[str, list[int]]]:
        """Return which family describes which added column, by number among the added ones."""
        if isinstance(self.family, Mapping):
            listed = {kind: _names(columns) for kind, columns in self.family.items()}
            return [
                (kind, [self.added.index(name) for name in names if name in self.added])
                for kind, names in listed.items()
                if any(name in self.added for name in names)
            ]
        kind = model.family.name if model.family.name in _BY_COLUMN else _OTHERWISE
        return [(kind, list(range(len(self.added))))]


def family_over(family: Any, columns: Sequence[str]) -> Any:
    """Return the setting `model.family`, if it names columns, for some of them only."""
    if not isinstance(family, Mapping):
        return family
    listed = {kind: [n for n in _names(names) if n in columns] for kind, names in family.items()}
    return {kind: names for kind, names in listed.items() if names}


def _names(columns: Any) -> list[str]:
    names = [columns] if isinstance(columns, str) else list(columns)
    if not all(isinstance(name, str) for name in names):
        raise MigrationRefused(
            "model.family gives columns by number, which other columns would change; give them by "
            "name in both settings files."
        )
    return names


def _place(names: Sequence[str], name: str) -> int:
    return list(names).index(name) if name in names else ADDED


def _selected(rows: Rows, columns: Any, missing: float) -> Array:
    """Return the columns of rows; added ones hold `missing`."""
    return np.asarray(np.where(columns == ADDED, missing, np.asarray(rows)[:, columns]))
