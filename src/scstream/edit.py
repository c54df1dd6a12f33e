"""Edit the clusters of a fitted estimator: name, merge, split, pin, move, seed, remove, undo."""

from __future__ import annotations

from copy import copy
from typing import Any, Self

from scstream.core.steering import Action, Edit, Level
from scstream.errors import InputError
from scstream.families.base import Rows
from scstream.io.estimator_input import rows_to_predict, validate_rows
from scstream.io.parameters import family_kind
from scstream.model import Model


class EditMixin:
    """Changes that people make between two batches; the algorithm keeps to them afterwards."""

    family: Any
    model_: Model
    _seeds: tuple[Edit, ...]

    def name(
        self, id: int, name: str | None, *, level: Level = "cluster", author: str = ""
    ) -> Self:
        """Give a cluster or a group a name. The cluster keeps it for its life.

        Parameters
        ----------
        id : int
            The cluster, or the group.
        name : str or None
            Up to 200 printable characters; None removes the name.
        level : {"cluster", "group"}
            What `id` is.
        author : str
            Who made the change; the event in `events_` says so.

        Returns
        -------
        ScStream
            The estimator.

        Examples
        --------
        >>> from scstream import ScStream
        >>> model = ScStream(random_state=0).fit([[0.1], [0.2], [0.3], [9.1], [9.2], [9.3]])
        >>> model.name(0, "low").names_
        {0: 'low'}
        """
        return self._edit("name", id, name=name, level=level, author=author)

    def merge(
        self,
        id: int,
        other: int,
        *,
        level: Level = "cluster",
        hold: bool = True,
        author: str = "",
    ) -> Self:
        """Merge two clusters or groups. The first keeps its id.

        Clusters become one cluster, which is right if they are two halves of one. Groups are only
        put together: their clusters stay as they are, which is right for clusters that lie apart.

        Parameters
        ----------
        id, other : int
            The clusters, or the groups. `other` is absorbed; its name is kept if `id` has none.
        level : {"cluster", "group"}
            What they are.
        hold : bool
            Whether the cluster may not split again.
        author : str
            Who made the change.

        Returns
        -------
        ScStream
            The estimator.

        Examples
        --------
        >>> from scstream import ScStream
        >>> model = ScStream(random_state=0, half_life=None)
        >>> for _ in range(2):
        ...     model = model.partial_fit(
        ...         [[i / 50] for i in range(50)] + [[9 + i / 50] for i in range(50)]
        ...     )
        >>> model.n_clusters_, model.merge(0, 1).n_clusters_
        (2, 1)
        """
        return self._edit("merge", id, other, level=level, hold=hold, author=author)

    def split(
        self, id: int, *, level: Level = "cluster", hold: bool = True, author: str = ""
    ) -> Self:
        """Split a cluster into its two sub-clusters, or a group into two groups.

        Parameters
        ----------
        id : int
            The cluster, or the group. The heavier half keeps the id.
        level : {"cluster", "group"}
            What it is.
        hold : bool
            Whether the two clusters may not merge again.
        author : str
            Who made the change.

        Returns
        -------
        ScStream
            The estimator. ``events_[-1].other`` is the new id.

        Examples
        --------
        >>> from scstream import ScStream
        >>> model = ScStream(random_state=0).fit([[i / 50] for i in range(100)])
        >>> model.split(0).events_[-1].other
        1
        """
        return self._edit("split", id, level=level, hold=hold, author=author)

    def pin(self, id: int, *, level: Level = "cluster", author: str = "") -> Self:
        """Keep a cluster: it is never removed and never merges, however long no row comes.

        Parameters
        ----------
        id : int
            The cluster, or the group: then all of its clusters.
        level : {"cluster", "group"}
            What it is.
        author : str
            Who made the change.

        Returns
        -------
        ScStream
            The estimator.

        Examples
        --------
        >>> from scstream import ScStream
        >>> model = ScStream(random_state=0).fit([[0.1], [0.2], [0.3], [0.4], [0.5]])
        >>> model.pin(0).partial_fit([[0.1]] * 9, time=1e6).clusters_.id
        array([0])
        """
        return self._edit("pin", id, level=level, author=author)

    def unpin(self, id: int, *, level: Level = "cluster", author: str = "") -> Self:
        """Let a cluster end, merge and split again as the algorithm decides.

        Parameters
        ----------
        id : int
            The cluster, or the group: then all of its clusters.
        level : {"cluster", "group"}
            What it is.
        author : str
            Who made the change.

        Returns
        -------
        ScStream
            The estimator.

        Examples
        --------
        >>> from scstream import ScStream
        >>> model = ScStream(random_state=0).fit([[0.1], [0.2], [0.3], [0.4], [0.5]])
        >>> model.pin(0).unpin(0).events_[-1].kind
        'unpinned'
        """
        return self._edit("unpin", id, level=level, author=author)

    def move(self, X: Any, id: int, *, level: Level = "cluster", author: str = "") -> Self:
        """Move rows into a cluster.

        The cluster learns them; the clusters that they are in now lose as much weight. Similar rows
        go to the cluster from now on if it becomes more probable for them.

        Parameters
        ----------
        X : array, table or CSR matrix of shape (N, D)
            The rows.
        id : int
            The cluster, or the group: then its heaviest cluster.
        level : {"cluster", "group"}
            What it is.
        author : str
            Who made the change.

        Returns
        -------
        ScStream
            The estimator.

        Examples
        --------
        >>> from scstream import ScStream
        >>> model = ScStream(random_state=0).fit([[0.1], [0.2], [0.3], [0.4], [0.5]])
        >>> float(model.move([[0.7], [0.8]], 0).events_[-1].weight)
        2.0
        """
        return self._edit("move", id, rows=self._edit_rows(X), level=level, author=author)

    def seed(self, X: Any, *, name: str | None = None, pin: bool = True, author: str = "") -> Self:
        """Add a cluster that is known already, also before the first batch.

        Parameters
        ----------
        X : array, table or CSR matrix of shape (N, D)
            Typical rows of it; ten or more show its shape.
        name : str, optional
            Its name.
        pin : bool
            Keep it until its first rows come, and after.
        author : str
            Who made the change.

        Returns
        -------
        ScStream
            The estimator. Before the first batch, ids of seeds will be 0, 1, ... in their order.

        Examples
        --------
        >>> from scstream import ScStream
        >>> model = ScStream(random_state=0).seed([[90.1], [90.2], [90.3], [90.4]], name="spare")
        >>> model = model.partial_fit([[0.1], [0.2], [0.3], [0.4], [0.5]])
        >>> model.names_, model.predict([[90.2]])
        ({0: 'spare'}, array([0]))
        """
        edit = Edit("seed", name=name, rows=self._edit_rows(X), hold=pin, author=author)
        if not hasattr(self, "model_"):
            self._seeds = (*getattr(self, "_seeds", ()), edit)
            return self
        return self._apply(edit)

    def remove(self, id: int, *, level: Level = "cluster", author: str = "") -> Self:
        """Remove a cluster. If rows like its own come again, they may form a new one.

        Parameters
        ----------
        id : int
            The cluster, or the group: then all of its clusters.
        level : {"cluster", "group"}
            What it is.
        author : str
            Who made the change.

        Returns
        -------
        ScStream
            The estimator.

        Examples
        --------
        >>> from scstream import ScStream
        >>> model = ScStream(random_state=0).fit([[i / 50] for i in range(100)]).split(0)
        >>> model.remove(1).clusters_.id
        array([0])
        """
        return self._edit("remove", id, level=level, author=author)

    def undo(self, *, author: str = "") -> Self:
        """Take back the last edit; call it again for the one before, up to ten.

        Until the next batch is learned, the model is exactly as it was before the edit. After that,
        clusters that were merged or removed return with the shapes that they had.

        Parameters
        ----------
        author : str
            Who made the change.

        Returns
        -------
        ScStream
            The estimator.

        Examples
        --------
        >>> from scstream import ScStream
        >>> model = ScStream(random_state=0).fit([[i / 50] for i in range(100)])
        >>> model.split(0).undo().n_clusters_
        1
        """
        return self._edit("undo", author=author)

    @property
    def names_(self) -> dict[int, str]:
        """Names of clusters, by id."""
        return dict(self._fitted().names)

    def _edit(
        self, action: Action, id: int | None = None, other: int | None = None, **values: Any
    ) -> Self:
        return self._apply(Edit(action, id, other, **values))

    def _apply(self, edit: Edit) -> Self:
        if edit.level not in ("cluster", "group"):
            raise InputError(f"level must be 'cluster' or 'group', got {edit.level!r}.")
        self.model_, _ = self._fitted().edit(edit)
        return self

    def _edit_rows(self, X: Any) -> Rows:
        """Return rows of an edit, checked."""
        if not hasattr(self, "model_"):
            return validate_rows(copy(self), X, family_kind(self.family), first=True)
        model = self.model_
        return rows_to_predict(self, X, model.family, typed=model.choice is not None)

    def _fitted(self) -> Model:
        raise NotImplementedError
