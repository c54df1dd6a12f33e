"""Why rows belong to their clusters, as a text, a table and an object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from scstream.core.reasons import Reasons
from scstream.core.state import NOVEL
from scstream.errors import InputError
from scstream.families.base import Array, Labels, Rows
from scstream.io.tables import Tabular, html_table, one_line, text_table
from scstream.io.traits import Levels, level_name

_MAX_ROWS = 10  # that are printed
_HEADINGS = ("row", "cluster", "probability", "runner-up", "log odds", "because")


@dataclass(frozen=True)
class Reason:
    """What one feature says about one row.

    Parameters
    ----------
    feature : str
        Name of the feature.
    value : float or str
        The entry of the row; the name of the level for a column of categories.
    contribution : float
        What it adds to the log odds; negative if it speaks for the runner-up.

    Examples
    --------
    >>> from scstream.io.explanation import Reason
    >>> print(Reason("age", 61.0, 3.25))
    age 61 (+3.2)
    """

    feature: str
    value: float | str
    contribution: float

    def __str__(self) -> str:
        value = self.value if isinstance(self.value, str) else f"{self.value:.4g}"
        return one_line(f"{self.feature} {value} ({self.contribution:+.1f})")


@dataclass(frozen=True)
class RowExplanation:
    """Why one row belongs to its cluster.

    Parameters
    ----------
    row : int
        Position of the row.
    cluster, runner_up : int
        Ids of the most probable cluster and of the next one, -1 for a cluster not seen yet.
    probability, runner_up_probability : float
        Their probabilities.
    log_odds : float
        Log of the ratio of the two probabilities.
    reasons : tuple of Reason
        The features that decided, the largest contribution first.
    others, constant : float
        Sum of the contributions of all other features, and what no feature accounts for.

    Examples
    --------
    >>> from scstream import ScStream
    >>> model = ScStream(random_state=0).fit([[0.1], [0.2], [0.3], [0.4], [0.5], [0.6]])
    >>> model.explain([[0.35]])[0].cluster
    0
    """

    row: int
    cluster: int
    probability: float
    runner_up: int
    runner_up_probability: float
    log_odds: float
    reasons: tuple[Reason, ...]
    others: float
    constant: float


@dataclass(frozen=True, repr=False, eq=False)
class Explanation(Tabular):
    """Why rows belong to their clusters: the runner-up, and the features that decided.

    ``explanation[3]`` is the row at position 3, iterating gives one `RowExplanation` after the
    other. For every row ``contribution.sum(axis=1) + others + constant`` is `log_odds`.

    Parameters
    ----------
    cluster, runner_up : array of shape (N,)
        Ids of the most probable cluster and of the next one, -1 for a cluster not seen yet.
    probability, runner_up_probability : array of shape (N,)
        Their probabilities.
    log_odds : array of shape (N,)
        Log of the ratio of the two probabilities.
    feature : array of shape (N, M)
        Positions of the features with the largest contributions, the largest first.
    value : array of shape (N, M)
        Entries of the row in these features.
    contribution : array of shape (N, M)
        What these features add to the log odds; negative if one speaks for the runner-up.
    others : array of shape (N,)
        Sum of the contributions of all other features.
    constant : array of shape (N,)
        What no feature accounts for: the log ratio of the weights of the clusters and, for the
        families "subspace" and "direction", of the normalisers of their densities.
    feature_names : tuple of str
        Names of all features.
    levels : tuple or None
        Levels of every column of a table, None for a column of numbers.
    names : mapping of int to str
        Names that clusters were given, by id.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream import ScStream
    >>> X = np.random.default_rng(0).normal(size=(400, 3))
    >>> X[:100, 1] += 20
    >>> explanation = ScStream(random_state=0).fit(X).explain([[0.5, 20.0, 0.5]], n=1)
    >>> explanation.feature_names[explanation.feature[0, 0]]
    'x1'
    """

    cluster: Labels
    runner_up: Labels
    probability: Array
    runner_up_probability: Array
    log_odds: Array
    feature: Labels
    value: Array
    contribution: Array
    others: Array
    constant: Array
    feature_names: tuple[str, ...]
    levels: Levels = None
    names: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        reasons: Reasons,
        X: Rows,
        feature_names: tuple[str, ...],
        *,
        levels: Levels = None,
        names: Mapping[int, str] | None = None,
    ) -> Explanation:
        """Join what decided about rows with their entries and the names of the features."""
        fields = reasons._asdict()
        label = fields.pop("label")
        value = _entries(X, reasons.feature)
        known: Any = {"feature_names": feature_names, "levels": levels, "names": names or {}}
        return cls(cluster=label, value=value, **fields, **known)

    def __len__(self) -> int:
        return len(self.cluster)

    def __iter__(self) -> Iterator[RowExplanation]:
        for row in range(len(self)):
            yield self[row]

    def __getitem__(self, row: int) -> RowExplanation:
        if not -len(self) <= row < len(self):
            raise IndexError(f"there is no row {row}; {len(self)} rows were explained.")
        row %= len(self)
        return RowExplanation(
            row=row,
            cluster=int(self.cluster[row]),
            probability=float(self.probability[row]),
            runner_up=int(self.runner_up[row]),
            runner_up_probability=float(self.runner_up_probability[row]),
            log_odds=float(self.log_odds[row]),
            reasons=tuple(self._reason(row, m) for m in range(self.feature.shape[1])),
            others=float(self.others[row]),
            constant=float(self.constant[row]),
        )

    def _reason(self, row: int, m: int) -> Reason:
        d, value = int(self.feature[row, m]), float(self.value[row, m])
        return Reason(
            self.feature_names[d], self._shown(d, value), float(self.contribution[row, m])
        )

    def _shown(self, d: int, value: float) -> float | str:
        """Return an entry as its user knows it."""
        known = None if self.levels is None else self.levels[d]
        return value if known is None or np.isnan(value) else level_name(int(value), known)

    def to_dict(self) -> dict[str, Any]:
        """Return one line for each row, with the features that decided in columns of their own.

        Returns
        -------
        dict of arrays
            What ``pandas.DataFrame``, ``polars.DataFrame`` and ``pyarrow.table`` take:
            ``feature_1`` decided most, ``value_1`` and ``contribution_1`` belong to it.

        Examples
        --------
        >>> from scstream import ScStream
        >>> model = ScStream(random_state=0).fit([[0.1], [0.2], [0.3], [0.4], [0.5], [0.6]])
        >>> list(model.explain([[0.35]]).to_dict())[5:8]
        ['feature_1', 'value_1', 'contribution_1']
        """
        columns: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("cluster", "probability", "runner_up", "runner_up_probability")
        }
        columns["log_odds"] = self.log_odds
        names = np.array(self.feature_names, dtype=object)
        for m in range(self.feature.shape[1]):
            columns[f"feature_{m + 1}"] = names[self.feature[:, m]]
            columns[f"value_{m + 1}"] = self._column(m)
            columns[f"contribution_{m + 1}"] = self.contribution[:, m]
        return columns | {"others": self.others, "constant": self.constant}

    def _column(self, m: int) -> Any:
        if self.levels is None:
            return self.value[:, m]
        pairs = zip(self.feature[:, m].tolist(), self.value[:, m].tolist(), strict=True)
        return np.array([str(self._shown(d, value)) for d, value in pairs], dtype=object)

    def _cells(self) -> list[list[str]]:
        rows = []
        for each in (self[row] for row in range(min(len(self), _MAX_ROWS))):
            chance = f"{each.probability:.3f}"
            odds, because = f"{each.log_odds:.1f}", ", ".join(map(str, each.reasons))
            sides = self._side(each.cluster), self._side(each.runner_up)
            rows.append([str(each.row), sides[0], chance, sides[1], odds, because])
        return rows

    def _side(self, id: int) -> str:
        name = "new" if id == NOVEL else self.names.get(id)
        return str(id) if name is None else f"{id} ({one_line(name)})"

    def _more(self) -> str:
        return f"... and {len(self) - _MAX_ROWS} more" if len(self) > _MAX_ROWS else ""

    def __repr__(self) -> str:
        return "\n".join([text_table(_HEADINGS, self._cells(), left=(5,)), self._more()]).rstrip()

    def _repr_html_(self) -> str:
        return html_table(_HEADINGS, self._cells(), left=(5,), note=self._more())


def check_n(n: object) -> None:
    """Raise `InputError` unless this is a number of features."""
    if not isinstance(n, int | np.integer) or isinstance(n, bool) or n < 1:
        raise InputError(f"n must be a whole number of features, at least 1, got {n!r}.")


def _entries(X: Rows, feature: Labels) -> Array:  # (N, M)
    """Return the entries of rows in their own features."""
    if sparse.issparse(X):
        rows = np.repeat(np.arange(len(feature)), feature.shape[1])
        entries = np.asarray(X[rows, feature.ravel()]).ravel()
        return np.asarray(entries.reshape(feature.shape), dtype=np.float64)
    return np.asarray(np.take_along_axis(np.asarray(X, dtype=np.float64), feature, axis=1))
