"""The clusters of a model as a table that can be printed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from scstream.core.state import State
from scstream.families.base import Array, Family, Labels

_MAX_ROWS = 30  # clusters that are printed
_MAX_FEATURES = 4  # entries of a mean that are printed
_HEADINGS = ("id", "weight", "share", "age", "born", "last seen", "mean", "std")


@dataclass(frozen=True)
class Cluster:
    """One cluster as `ClusterTable` lists it.

    Attributes
    ----------
    id : int
        Its id, which is never reused.
    weight : float
        Number of its rows, after forgetting.
    share : float
        Its share of the weight of all rows.
    age, born, last_seen : float
        Time since birth, time of birth, time of the newest row.
    mean, std : array of shape (D,)
        Posterior mean and standard deviation of each feature.

    Examples
    --------
    >>> from scstream.io.clusters import Cluster
    >>> Cluster.__match_args__
    ('id', 'weight', 'share', 'age', 'born', 'last_seen', 'mean', 'std')
    """

    id: int
    weight: float
    share: float
    age: float
    born: float
    last_seen: float
    mean: Array  # (D,)
    std: Array  # (D,)


@dataclass(frozen=True, repr=False, eq=False)
class ClusterTable:
    """The clusters of a model at the time of its last batch, in the order of their ids.

    Printing it gives one line per cluster; iterating gives `Cluster` rows.

    Parameters
    ----------
    id : array of shape (K,)
        Ids of the clusters, which are never reused.
    weight : array of shape (K,)
        Number of rows of each cluster, after forgetting.
    share : array of shape (K,)
        Share of the weight of all rows, including those that belong to no cluster.
    age : array of shape (K,)
        Time since birth.
    born : array of shape (K,)
        Time of birth.
    last_seen : array of shape (K,)
        Time of the newest row.
    mean : array of shape (K, D)
        Posterior mean of each feature.
    std : array of shape (K, D)
        Standard deviation of each feature.
    feature_names : tuple of str
        Names of the features; ``x0``, ``x1``, ... where the rows had none.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.io.clusters import ClusterTable
    >>> one, two = np.ones(1), np.array([[0.5, 2.0]])
    >>> ClusterTable(np.array([7]), 3 * one, one, 0 * one, one, one, two, two / 10, ("a", "b"))
    id  weight  share  age  born  last seen  mean      std
     7       3  1.000    0     1          1  [0.5, 2]  [0.05, 0.2]
    """

    id: NDArray[np.int64]
    weight: Array
    share: Array
    age: Array
    born: Array
    last_seen: Array
    mean: Array
    std: Array
    feature_names: tuple[str, ...]

    @classmethod
    def of(cls, family: Family, state: State, feature_names: tuple[str, ...]) -> ClusterTable:
        """List the clusters of a state."""
        return cls(
            id=state.ids.copy(),
            weight=state.weight,
            share=state.share,
            age=state.time - state.born,
            born=state.born.copy(),
            last_seen=state.last_seen.copy(),
            mean=family.means(state.cluster_stats),
            std=family.stds(state.cluster_stats),
            feature_names=feature_names,
        )

    def __len__(self) -> int:
        return len(self.id)

    def __iter__(self) -> Iterator[Cluster]:
        for k in range(len(self)):
            yield self.row(k)

    def to_dict(self) -> dict[str, Labels | Array]:
        """Columns by name, with one column per feature for mean and std.

        Returns
        -------
        dict of arrays
            What ``pandas.DataFrame``, ``polars.DataFrame`` and ``pyarrow.table`` take.

        Examples
        --------
        >>> from scstream import ScStream
        >>> list(ScStream(random_state=0).fit([[0.0], [1.0], [2.0]]).clusters_.to_dict())
        ['id', 'weight', 'share', 'age', 'born', 'last_seen', 'mean_x0', 'std_x0']
        """
        columns: dict[str, Labels | Array] = {
            name: getattr(self, name) for name in Cluster.__match_args__[:-2]
        }
        for kind in ("mean", "std"):
            for d, name in enumerate(self.feature_names):
                columns[f"{kind}_{name}"] = getattr(self, kind)[:, d]
        return columns

    def row(self, k: int) -> Cluster:
        """Return one cluster."""
        values = {name: getattr(self, name)[k].item() for name in Cluster.__match_args__[:-2]}
        return Cluster(**values, mean=self.mean[k], std=self.std[k])

    def _cells(self) -> list[list[str]]:
        """Text of the printed rows."""
        cells = []
        for k in range(min(len(self), _MAX_ROWS)):
            row = self.row(k)
            times = [f"{value:.4g}" for value in (row.age, row.born, row.last_seen)]
            vectors = [_vector(row.mean), _vector(row.std)]
            cells.append([str(row.id), f"{row.weight:.4g}", f"{row.share:.3f}", *times, *vectors])
        return cells

    def _left_out(self) -> str:
        return f"... and {len(self) - _MAX_ROWS} more" if len(self) > _MAX_ROWS else ""

    def __repr__(self) -> str:
        lines = [list(_HEADINGS), *self._cells()]
        widths = [max(len(line[c]) for line in lines) for c in range(len(_HEADINGS))]
        out = []
        for number, line in enumerate(lines):
            cells = [
                cell.ljust(width) if number == 0 or c >= len(_HEADINGS) - 2 else cell.rjust(width)
                for c, (cell, width) in enumerate(zip(line, widths, strict=True))
            ]
            out.append("  ".join(cells).rstrip())
        return "\n".join([*out, self._left_out()]).rstrip()

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{heading}</th>" for heading in _HEADINGS)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>"
            for line in self._cells()
        )
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return table + (f"<p>{self._left_out()}</p>" if self._left_out() else "")


def _vector(values: Array) -> str:
    shown = [f"{value:.4g}" for value in values[:_MAX_FEATURES]]
    return f"[{', '.join(shown + ['...'] * (len(values) > _MAX_FEATURES))}]"
