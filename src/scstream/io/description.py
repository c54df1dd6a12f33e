"""What distinguishes each cluster, as a text, a table and an object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from scstream.families.base import Array, Family, Labels
from scstream.io.tables import Tabular, html_table, one_line, position_of, text_table
from scstream.io.traits import Levels, Trait, is_embedding, traits

_MAX_CLUSTERS = 30  # that are printed
_HEADINGS = ("feature", "here", "others", "difference")
_NO_EXEMPLARS = (
    "The columns of an embedding say little by themselves. Typical rows say more: a model keeps "
    "them with ScStream(exemplars=5)."
)


@dataclass(frozen=True)
class ClusterDescription:
    """What distinguishes one cluster, or one group of clusters, from all other rows.

    Parameters
    ----------
    id : int
        Id of the cluster or of the group.
    level : {"cluster", "group"}
        Which of them it is.
    name : str or None
        The name that it was given.
    weight, share : float
        Number of its rows after forgetting, and its share of all rows.
    traits : tuple of Trait
        The features in which it differs most, the first one most.
    exemplars : tuple of str
        Typical rows, if the model keeps them.

    Examples
    --------
    >>> from scstream.io.description import ClusterDescription
    >>> ClusterDescription(7, "cluster", "billing", 20.0, 0.25, (), ("where is my invoice",))
    cluster 7 (billing): 25.0 % of all rows
      typical: where is my invoice
    """

    id: int
    level: str
    name: str | None
    weight: float
    share: float
    traits: tuple[Trait, ...]
    exemplars: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Which cluster it is."""
        name = "" if self.name is None else f" ({one_line(self.name)})"
        return f"{self.level} {self.id}{name}: {100 * self.share:.1f} % of all rows"

    @property
    def cells(self) -> list[list[str]]:
        """Text of the features, one line each."""
        return [
            [one_line(t.label), t.number(t.value), t.number(t.others), _difference(t)]
            for t in self.traits
        ]

    def __repr__(self) -> str:
        lines = [self.title]
        if self.traits:
            lines += text_table(_HEADINGS, self.cells, left=(0,)).splitlines()
        lines += [f"typical: {one_line(row)}" for row in self.exemplars]
        return "\n  ".join(lines)

    def _repr_html_(self) -> str:
        table = html_table(_HEADINGS, self.cells, left=(0,)) if self.traits else ""
        rows = "".join(f"<li>{escape(one_line(row))}</li>" for row in self.exemplars)
        return f"<p><b>{escape(self.title)}</b></p>{table}" + (f"<ul>{rows}</ul>" if rows else "")


@dataclass(frozen=True, repr=False, eq=False)
class Description(Tabular):
    """What distinguishes each cluster, the heaviest first.

    ``description[7]`` describes the cluster with the id 7, iterating gives one
    `ClusterDescription` after the other, and printing it prints them all.

    Parameters
    ----------
    clusters : tuple of ClusterDescription
        The descriptions.
    note : str
        What the reader should know about them.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream import ScStream
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> X[:100, 1] += 20
    >>> description = ScStream(random_state=0).fit(X).describe(n=1)
    >>> [(each.traits[0].feature, round(each.share, 2)) for each in description]
    [('x1', 0.75), ('x1', 0.25)]
    """

    clusters: tuple[ClusterDescription, ...]
    note: str = ""

    def __len__(self) -> int:
        return len(self.clusters)

    def __iter__(self) -> Iterator[ClusterDescription]:
        return iter(self.clusters)

    def __contains__(self, id: object) -> bool:
        return any(each.id == id for each in self.clusters)

    def __getitem__(self, id: int) -> ClusterDescription:
        level = self.clusters[0].level if self.clusters else "cluster"
        return self.clusters[position_of([each.id for each in self.clusters], id, level)]

    def to_dict(self) -> dict[str, Any]:
        """Return one line for each feature of each cluster, as columns by name.

        Returns
        -------
        dict of arrays
            What ``pandas.DataFrame``, ``polars.DataFrame`` and ``pyarrow.table`` take.

        Examples
        --------
        >>> from scstream import ScStream
        >>> list(ScStream(random_state=0).fit([[0.0], [1.0], [2.0]]).describe().to_dict())[:5]
        ['id', 'name', 'share', 'rank', 'feature']
        """
        lines = [
            (each.id, each.name, each.share, rank, trait)
            for each in self.clusters
            for rank, trait in enumerate(each.traits)
        ]
        texts, numbers = ("feature", "level", "kind"), ("value", "others", "difference", "lift")
        return {
            "id": np.array([line[0] for line in lines], dtype=np.int64),
            "name": np.array([line[1] for line in lines], dtype=object),
            "share": np.array([line[2] for line in lines], dtype=np.float64),
            "rank": np.array([line[3] for line in lines], dtype=np.int64),
            **{
                name: np.array([getattr(line[4], name) for line in lines], dtype=object)
                for name in texts
            },
            **{
                name: np.array([getattr(line[4], name) for line in lines], dtype=np.float64)
                for name in (*numbers, "score")
            },
        }

    def _rest(self) -> list[str]:
        n_more = len(self) - _MAX_CLUSTERS
        return [f"... and {n_more} more"] * (n_more > 0) + [self.note] * bool(self.note)

    def __repr__(self) -> str:
        return "\n".join([*map(repr, self.clusters[:_MAX_CLUSTERS]), *self._rest()])

    def _repr_html_(self) -> str:
        shown = "".join(each._repr_html_() for each in self.clusters[:_MAX_CLUSTERS])
        return shown + "".join(f"<p>{escape(line)}</p>" for line in self._rest())


def describe(
    family: Family,
    stats: Array,
    ids: Labels,
    *,
    total: float,
    features: Sequence[str],
    n: int,
    named_columns: bool = True,
    level: str = "cluster",
    levels: Levels = None,
    names: Mapping[int, str] | None = None,
    exemplars: Mapping[int, Sequence[str]] | None = None,
) -> Description:
    """Describe clusters, or groups, with these statistics (K, P) out of rows of weight `total`.

    `exemplars` are typical rows by id. The columns of an embedding are described only if somebody
    named them.
    """
    names, exemplars = names or {}, exemplars or {}
    silent = is_embedding(family) and not named_columns
    found = [()] * len(ids) if silent else traits(family, stats, features, n=n, levels=levels)
    order = np.argsort(-stats[:, 0], kind="stable")
    described = tuple(
        ClusterDescription(
            id=int(ids[k]),
            level=level,
            name=names.get(int(ids[k])),
            weight=float(stats[k, 0]),
            share=float(stats[k, 0]) / max(total, np.finfo(float).tiny),
            traits=found[k],
            exemplars=tuple(exemplars.get(int(ids[k]), ())[:n]),
        )
        for k in order.tolist()
    )
    if silent and not exemplars:
        return Description(described, _NO_EXEMPLARS)
    alone = len(described) == 1 and not exemplars
    note = f"It is the only {level}: there are no other rows to compare it with." if alone else ""
    return Description(described, note)


def _difference(trait: Trait) -> str:
    if trait.kind in ("number", "word"):
        return trait.amount
    return f"{100 * (trait.value - trait.others):+.0f} points"
