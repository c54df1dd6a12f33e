"""The clusters of a model as a table that can be printed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scstream.core.exemplars import Exemplar
from scstream.core.state import State
from scstream.errors import InputError
from scstream.families.base import Array, Family, Labels
from scstream.io.tables import Tabular, html_table, one_line, position_of, text_table
from scstream.io.traits import Levels, is_embedding, traits

_MAX_ROWS = 30  # clusters that are printed
_N_FEATURES = 3  # that are printed for a cluster in a table
_MAX_FEATURES = 10  # that are printed for a single cluster
_NUMBERS = ("id", "weight", "share", "age", "born", "last_seen")


@dataclass(frozen=True, repr=False)
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
    name : str or None
        The name that it was given.
    feature_names : tuple of str
        Names of the features.
    exemplars : tuple of Exemplar
        Typical rows, if the model keeps them.

    Examples
    --------
    >>> from scstream import ScStream
    >>> ScStream(random_state=0).fit([[0.1], [0.2], [0.3]]).clusters_[0]
    cluster 0: weight 3, share 1.000, born 0, last seen 0
    feature  mean  std
    x0       0.2   0.07303
    """

    id: int
    weight: float
    share: float
    age: float
    born: float
    last_seen: float
    mean: Array  # (D,)
    std: Array  # (D,)
    name: str | None = None
    feature_names: tuple[str, ...] = ()
    exemplars: tuple[Exemplar, ...] = ()

    def __repr__(self) -> str:
        name = "" if self.name is None else f" ({one_line(self.name)})"
        head = (
            f"cluster {self.id}{name}: weight {self.weight:.4g}, share {self.share:.3f}, "
            f"born {self.born:.4g}, last seen {self.last_seen:.4g}"
        )
        shown = zip(self.feature_names[:_MAX_FEATURES], self.mean, self.std, strict=False)
        rows = [(one_line(feature), f"{mean:.4g}", f"{std:.4g}") for feature, mean, std in shown]
        n_more = len(self.mean) - len(rows)
        more = f"\n... and {n_more} more" if n_more and rows else ""
        table = text_table(("feature", "mean", "std"), rows, left=(0, 1, 2)) + more if rows else ""
        return f"{head}\n{table}".rstrip()


@dataclass(frozen=True, repr=False, eq=False)
class ClusterTable(Tabular):
    """The clusters of a model at the time of its last batch, in the order of their ids.

    ``table[7]`` is the cluster with the id 7, ``7 in table`` tells whether there is one, and
    iterating gives `Cluster` rows. Printing it gives one line per cluster, the heaviest first,
    with the features in which the cluster differs most from all other rows.

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
    names : mapping of int to str
        Names that clusters were given, by id.
    family, stats : Family and array of shape (K, P), optional
        By which the features that distinguish clusters are found; without them the first ones are
        printed.
    levels : tuple or None
        Levels of every column of a table, None for a column of numbers.
    exemplars : mapping of int to sequence of Exemplar
        Typical rows of clusters, by id.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.io.clusters import ClusterTable
    >>> one, two = np.ones(1), np.array([[0.5, 2.0]])
    >>> table = ClusterTable(
    ...     np.array([7]), 3 * one, one, 0 * one, one, one, two, two / 10, ("a", "b"), {7: "new"}
    ... )
    >>> table
    id  name  weight  share  age  born  last seen  features
     7  new        3  1.000    0     1          1  a 0.5, b 2
    >>> table[7].mean, 8 in table
    (array([0.5, 2. ]), False)
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
    names: Mapping[int, str] = field(default_factory=dict)
    family: Family | None = field(default=None, kw_only=True)
    stats: Array | None = field(default=None, kw_only=True)
    levels: Levels = field(default=None, kw_only=True)
    exemplars: Mapping[int, Sequence[Exemplar]] = field(default_factory=dict, kw_only=True)

    @classmethod
    def of(
        cls,
        family: Family,
        state: State,
        feature_names: tuple[str, ...],
        *,
        names: Mapping[int, str] | None = None,
        levels: Levels = None,
        exemplars: Mapping[int, Sequence[Exemplar]] | None = None,
    ) -> ClusterTable:
        """List the clusters of a state; `names` are those that clusters were given, by id."""
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
            names=names or {},
            family=family,
            stats=state.cluster_stats,
            levels=levels,
            exemplars=exemplars or {},
        )

    def __len__(self) -> int:
        return len(self.id)

    def __iter__(self) -> Iterator[Cluster]:
        for k in range(len(self)):
            yield self.row(k)

    def __getitem__(self, id: int) -> Cluster:
        return self.row(position_of(self.id, id))

    def __contains__(self, id: object) -> bool:
        return bool(np.any(self.id == id))

    def to_dict(self) -> dict[str, Any]:
        """Columns by name, with one column per feature for mean and std.

        Returns
        -------
        dict of arrays
            What ``pandas.DataFrame``, ``polars.DataFrame`` and ``pyarrow.table`` take. There is a
            column `name`, None for a cluster without a name, if any cluster has one.

        Examples
        --------
        >>> from scstream import ScStream
        >>> list(ScStream(random_state=0).fit([[0.0], [1.0], [2.0]]).clusters_.to_dict())
        ['id', 'weight', 'share', 'age', 'born', 'last_seen', 'mean_x0', 'std_x0']
        """
        columns: dict[str, Any] = {name: getattr(self, name) for name in _NUMBERS}
        if self.names:
            given = [self.names.get(id) for id in self.id.tolist()]
            columns = {"id": self.id, "name": np.array(given, dtype=object)} | columns
        for kind in ("mean", "std"):
            for d, name in enumerate(self.feature_names):
                columns[f"{kind}_{name}"] = getattr(self, kind)[:, d]
        return columns

    def to_string(self, n: int = _MAX_ROWS, *, by: str = "weight") -> str:
        """Return the clusters with the largest values of a column as text, one line each.

        Parameters
        ----------
        n : int
            Number of clusters.
        by : {"weight", "share", "age", "born", "last_seen", "id"}
            The column; "born" gives the newest clusters.

        Returns
        -------
        str
            The text; `print(table)` prints 30 clusters by weight.

        Examples
        --------
        >>> from scstream import ScStream
        >>> print(ScStream(random_state=0).fit([[0.0], [1.0], [2.0]]).clusters_.to_string(1))
        id  weight  share  age  born  last seen  features
         0       3  1.000    0     0          0  x0 1
        """
        headings, rows, more = self._cells(n, by)
        left = {headings.index("features")} | ({1} if self.names else set())
        return "\n".join([text_table(headings, rows, left=left), more]).rstrip()

    def row(self, k: int) -> Cluster:
        """Return one cluster by its position."""
        values = {name: getattr(self, name)[k].item() for name in _NUMBERS}
        return Cluster(
            **values,
            mean=self.mean[k],
            std=self.std[k],
            name=self.names.get(values["id"]),
            feature_names=self.feature_names,
            exemplars=tuple(self.exemplars.get(values["id"], ())),
        )

    def _cells(self, n: int, by: str) -> tuple[list[str], list[list[str]], str]:
        """Return headings, the text of the printed rows, and how many are left out."""
        if by not in _NUMBERS:
            raise InputError(f"clusters are sorted by {', '.join(_NUMBERS)}, not by {by!r}.")
        order = np.argsort(-getattr(self, by), kind="stable")[: max(n, 0)]
        rows = []
        for k, features in zip(order.tolist(), self._features(order), strict=True):
            row = self.row(k)
            times = [f"{value:.4g}" for value in (row.age, row.born, row.last_seen)]
            name = [one_line(row.name or "")] if self.names else []
            numbers = [f"{row.weight:.4g}", f"{row.share:.3f}", *times]
            rows.append([str(row.id), *name, *numbers, features])
        headings = ["id", *["name"] * bool(self.names), "weight", "share", "age", "born"]
        n_more = len(self) - len(rows)
        more = f"... and {n_more} more" if n_more else ""
        return [*headings, "last seen", "features"], rows, more

    def _features(self, order: Labels) -> list[str]:
        """Say in which features clusters differ most from all other rows."""
        if self.family is not None and self.stats is not None and not is_embedding(self.family):
            found = traits(
                self.family,
                self.stats,
                self.feature_names,
                n=_N_FEATURES,
                levels=self.levels,
                shown=order,
            )
            if any(found):
                return [one_line(", ".join(map(str, own))) for own in found]
        return [self._first_features(k) for k in order.tolist()]

    def _first_features(self, k: int) -> str:
        pairs = zip(self.feature_names, self.mean[k, :_N_FEATURES], strict=False)
        shown = [f"{one_line(name)} {mean:.4g}" for name, mean in pairs]
        return ", ".join(shown + ["..."] * (len(self.feature_names) > _N_FEATURES))

    def __repr__(self) -> str:
        return self.to_string()

    def _repr_html_(self) -> str:
        headings, rows, more = self._cells(_MAX_ROWS, "weight")
        return html_table(headings, rows, left=(len(headings) - 1,), note=more)
