"""Views of the live page: the axes of its map, which stay until a reader asks for others.

Browsers that were opened without a wish share the newest view. "fit" makes a new one; a view that
follows turns with the clusters.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np

from scstream.compute.threads import one_blas_thread
from scstream.model import Model
from scstream.serve.memory import LabelledRows, Shares
from scstream.serve.picture import N_SHOWN, Picture, PictureValues, render
from scstream.stream.model_version import ModelVersion

N_VIEWS = 8  # that a browser can come back to
_ENOUGH = 3  # clusters that axes are fitted to; axes of fewer are fitted again when there are more
_POOR = 0.7  # axes are poor if they show less than this part of what they showed at first
_TREE_SECONDS = 2.0  # least time between two trees


@dataclass
class Scene:
    """What is drawn: a version of the model, recent rows and present shares."""

    version: ModelVersion
    epoch: int  # of the history; views are fitted anew if it changes
    learned: LabelledRows | None
    predicted: LabelledRows | None
    present: Shares
    editable: bool = False


@dataclass(eq=False)
class View:
    """Axes that some browsers share, and the newest picture."""

    number: int
    follows: bool = False
    n_readers: int = 0
    picture: Picture = field(default_factory=lambda: Picture({}))
    encoded: str = "{}"
    tick: int = 0  # of the picture
    due: float = -np.inf  # when the next picture may be rendered
    fitted: int = -1  # batch to which the axes were fitted
    _epoch: int = -1
    _n_clusters: int = 0  # to which the axes were fitted
    _scatter: float = 0.0  # that the axes showed then

    def render(self, scene: Scene) -> None:
        """Render a scene; the axes stay unless the view follows, or they are of no use any more."""
        n_clusters = scene.version.model.state.n_clusters
        before = self.picture.projection if self._epoch == scene.epoch else None
        hold = not self.follows
        if hold and self._n_clusters < _ENOUGH and n_clusters > self._n_clusters:
            before = None
        with one_blas_thread:
            self.picture = render(
                scene.version,
                learned=scene.learned,
                predicted=scene.predicted,
                before=before,
                hold=hold,
                present=scene.present,
            )
        values = self.picture.values
        if self.picture.projection is not before:
            self.fitted, self._epoch = scene.version.batch, scene.epoch
            self._n_clusters, self._scatter = n_clusters, values.get("scatter", 0.0)
        values["view"] = {
            "number": self.number,
            "follows": self.follows,
            "fitted": self.fitted,
            "poor": values.get("scatter", 1.0) < _POOR * self._scatter,
        }
        values["editable"] = scene.editable
        self.encoded = to_json(values)


class Views:
    """All views, in bounded memory."""

    def __init__(self) -> None:
        self._follower = View(0, follows=True)
        self._held: dict[int, View] = {1: View(1)}
        self._next = 2
        self.n_read = 0  # views that somebody reads

    @property
    def newest(self) -> View:
        """The view that was made last."""
        return self._held[max(self._held)]

    @contextmanager
    def reading(self, wish: str) -> Iterator[View]:
        """Choose a view, "fit", "follow", the number of a view or "" for any, and count a reader.

        A new view is made to fit, and if nobody reads the newest one.
        """
        view = self._chosen(wish)
        self.n_read += view.n_readers == 0
        view.n_readers += 1
        try:
            yield view
        finally:
            view.n_readers -= 1
            self.n_read -= view.n_readers == 0

    def _chosen(self, wish: str) -> View:
        if wish == "follow":
            return self._follower
        if wish.isdecimal() and (known := self._held.get(int(wish[:9]))) is not None:
            return known
        if wish != "fit" and (self.newest.n_readers or self.newest.tick == 0):
            return self.newest
        self._held[self._next] = View(self._next)
        self._next += 1
        if len(self._held) > N_VIEWS:
            del self._held[min(self._held, key=lambda n: (self._held[n].n_readers > 0, n))]
        return self.newest


class Tree:
    """The tree of groups of a model, computed now and then."""

    def __init__(self) -> None:
        self._lock = Lock()  # held while the tree is computed
        self._encoded, self._due = "null", -np.inf

    def encoded(self, model: Model, now: float) -> str:
        """Return the newest tree as JSON; null if there are too many clusters for the page."""
        with self._lock:
            if now >= self._due:
                started = time.thread_time()
                few = 1 < model.state.n_clusters <= N_SHOWN
                self._encoded = to_json(_tree_of(model)) if few else "null"
                self._due = now + max(_TREE_SECONDS, 20 * (time.thread_time() - started))
            return self._encoded


def _tree_of(model: Model) -> dict[str, Any]:
    """Return ids of the clusters, and the two parts and the height of each join."""
    tree = model.hierarchy
    joins = [[int(a), int(b), height] for a, b, height, _ in tree.linkage.tolist()]
    return {"ids": tree.cluster.tolist(), "joins": joins}


def to_json(values: PictureValues | Any) -> str:
    """Return values as compact JSON."""
    return json.dumps(values, separators=(",", ":"), allow_nan=False)
