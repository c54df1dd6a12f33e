"""Predict with the newest checkpoint of a running pipeline.

A follower only reads: it writes nothing, takes no lock and never waits for the pipeline.
"""

from __future__ import annotations

from contextlib import suppress
from math import inf
from pathlib import Path
from threading import Lock
from typing import Any, Self, cast

from scstream.errors import (
    CheckpointCorrupt,
    CheckpointTooNew,
    InputError,
    StreamError,
    WrongKey,
)
from scstream.observe.events import (
    CheckpointDamaged,
    CheckpointLoaded,
    CheckpointNotReadable,
    EventCallback,
    ignore_event,
)
from scstream.stream import connectors
from scstream.stream.checkpoint_log import VERSION, CheckpointLog
from scstream.stream.clock import Clock, SystemClock
from scstream.stream.keyed_version import KeyedModels, KeyedVersion, Version, read_version
from scstream.stream.lease import LeaseObserver
from scstream.stream.model_version import Answer, ModelVersion, Request
from scstream.stream.store import Store, number_of, numbered_names

NONE = -1  # version before there is one
_TRIES = 10  # the writer may prune a checkpoint while it is read


class Follower:
    r"""Predicts with the newest valid checkpoint of a pipeline.

    Versions never go back by themselves: a damaged checkpoint is skipped, and checkpoints older
    than the one in use are ignored. Threads may predict while another one refreshes; each
    prediction is made by one version. Models of keys are read when they are needed.

    Parameters
    ----------
    store : Store
        Where the pipeline stores its checkpoints; `Follower.open` opens it by its address.
    emit : callable
        Called with events: `CheckpointLoaded`, and `CheckpointDamaged` or `CheckpointNotReadable`
        with the `name` of a skipped checkpoint and the `reason`.
    clock : Clock
        The time.
    n_jobs : int
        Maximum number of threads of a prediction, -1 for one per core. Small ones use one.
    memory : int or str
        Bytes that models of keys in memory may take, as `keys.memory` of a pipeline.

    Attributes
    ----------
    keyed : KeyedModels
        The models of keys in memory, of a pipeline with one model per key.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from scstream.stream.config import build
    >>> from scstream.stream.follower import Follower
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = "".join(f'{{"x": {i % 7}, "y": {i % 3}}}\n' for i in range(50))
    ...     _ = Path(folder, "rows.jsonl").write_text(rows)
    ...     pipeline = build(
    ...         {
    ...             "source": {"kind": "file", "path": f"{folder}/rows.jsonl"},
    ...             "checkpoint": {"folder": f"{folder}/state"},
    ...         }
    ...     )
    ...     _ = pipeline.run()
    ...     follower = Follower.open(f"{folder}/state")
    >>> follower.batch, follower.columns
    (1, ('x', 'y'))
    >>> follower.predict([[500.0, -500.0]]).values
    array([-1])
    """

    def __init__(
        self,
        store: Store,
        *,
        emit: EventCallback = ignore_event,
        clock: Clock | None = None,
        n_jobs: int = -1,
        memory: int | str = "512MB",
    ) -> None:
        self.store = store
        self._emit = emit
        self._clock = clock or SystemClock()
        self._n_jobs = n_jobs
        self.keyed = KeyedModels(store, memory=memory)
        self._current: Version | None = None
        self._newest_read = NONE  # newest version that was read, valid or not
        self._is_fixed = False
        self._refreshing = Lock()
        self._lease = LeaseObserver(store, self._clock)
        self.refresh()

    @classmethod
    def open(cls, place: str, *, options: Any = None, **how: Any) -> Self:
        """Follow the checkpoints in a folder, which must exist, or in an object store.

        Parameters
        ----------
        place : str
            As `checkpoint.folder` of the pipeline: a folder, or "s3://bucket/prefix".
        options : mapping, optional
            As `checkpoint.options` of the pipeline.
        **how
            Other parameters of `Follower`.

        Examples
        --------
        >>> from scstream.stream.follower import Follower
        >>> Follower.open("no-such-folder")
        Traceback (most recent call last):
        ...
        scstream.errors.InputError: there is no folder 'no-such-folder' with checkpoints here; ...
        """
        if "://" not in place and not Path(place).is_dir():
            raise InputError(
                f"there is no folder {place!r} with checkpoints here; name the one that the "
                "pipeline writes to, or put it where this machine can read it."
            )
        return cls(connectors.store(place, **(options or {})), **how)

    @property
    def version(self) -> int:
        """Version of the checkpoint in use; -1 while there is none."""
        return NONE if self._current is None else self._current.version

    @property
    def batch(self) -> int:
        """The batch that comes after the checkpoint in use."""
        return self.latest().batch

    @property
    def age(self) -> float:
        """Seconds since the checkpoint in use was written, by the clocks of writer and reader."""
        return max(self._clock.now() - self.latest().at, 0.0)

    @property
    def heartbeat_age(self) -> float | None:
        """Seconds since the pipeline was seen to renew its lease; None if it has none.

        It is measured by the clock here, at every `refresh`, and infinite until a renewal is seen.
        """
        if self._lease.record is None:
            return None
        return self._lease.age if self._lease.has_changed else inf

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns that rows must have, in order; None if they have none."""
        return self.latest().columns

    def predict(self, rows: Any, *, time: Any = None, key: str | None = None) -> Answer:
        """Most probable cluster of every row; nothing is learned.

        Parameters
        ----------
        rows : array or CSR array of shape (N, D), or Block
            The rows as they come to the pipeline, before its steps; columns of text in a `Block`.
        time : number, datetime or numpy.datetime64, optional
            When the rows are seen, as in `scstream.ScStream.predict`.
        key : str, optional
            Which model, if the pipeline keeps one for every key.

        Returns
        -------
        Answer
            Ids of clusters, -1 for a row that more probably belongs to a cluster not seen yet.
        """
        return self.compute("labels", rows, time=time, key=key)

    def score(self, rows: Any, *, time: Any = None, key: str | None = None) -> Answer:
        """Log predictive density of every prepared row under the whole mixture: low is unusual.

        Parameters
        ----------
        rows, time, key
            As in `predict`.

        Returns
        -------
        Answer
            Natural logarithms of densities, as `scstream.ScStream.score_samples` gives them.
        """
        return self.compute("log_density", rows, time=time, key=key)

    def compute(
        self, request: Request, rows: Any, *, time: Any = None, key: str | None = None
    ) -> Answer:
        """Compute one of the predictions that `ModelVersion.compute` offers."""
        return self.current(key).compute(request, rows, time=time, n_jobs=self._n_jobs)

    def refresh(self) -> bool:
        """Load a newer valid checkpoint if there is one; return whether.

        If there is none, this lists the names in the store and reads the lease. It does not wait
        for a refresh on another thread. An error of the store is raised; the checkpoint stays.
        """
        if not self._refreshing.acquire(blocking=False):
            return False
        try:
            self._lease.look()
            return self._refresh()
        finally:
            self._refreshing.release()

    def _refresh(self) -> bool:
        for _ in range(0 if self._is_fixed else _TRIES):
            with suppress(KeyError):  # pruned since it was listed, so there are newer ones
                return self._take_newer()
        return False

    def hold(self, version: int | None) -> None:
        """Take this version, which may be older, and stay with it; None follows again.

        Examples
        --------
        >>> from scstream.stream.connectors.s3 import S3Store
        >>> from scstream.stream.follower import Follower
        >>> Follower(S3Store("memory:///")).hold(7)
        Traceback (most recent call last):
        ...
        scstream.errors.InputError: there is no version 7 any more, or not yet; there are: none.
        """
        with self._refreshing:
            if version is None:
                self._is_fixed, self._newest_read = False, self.version
                return
            names = {number_of(VERSION, name): name for name in numbered_names(self.store, VERSION)}
            try:
                found = self._read(names[version], self.store.get(names[version]))
            except KeyError:
                there = ", ".join(map(str, names)) or "none"
                raise InputError(
                    f"there is no version {version} any more, or not yet; there are: {there}."
                ) from None
            if found is None:
                raise InputError(f"version {version} holds no model yet; take a later one.")
            self._is_fixed, self._current = True, found

    def _take_newer(self) -> bool:
        newest = max(
            (number_of(VERSION, name) for name in numbered_names(self.store, VERSION)), default=NONE
        )
        if newest <= self._newest_read:
            return False
        found = self._newest_valid()
        self._newest_read = newest if found is None else max(newest, found.version)
        if found is None:
            return False
        self._current = found
        self._emit(CheckpointLoaded(found.version, found.batch))
        return True

    def _newest_valid(self) -> Version | None:
        for name, content in CheckpointLog(self.store).checkpoints():
            if number_of(VERSION, name) <= self._newest_read:
                break
            try:
                found = self._read(name, content)
            except (CheckpointCorrupt, CheckpointTooNew) as error:
                damaged = isinstance(error, CheckpointCorrupt)
                skipped = CheckpointDamaged if damaged else CheckpointNotReadable
                self._emit(skipped(name, str(error)))
                continue
            if found is not None:
                return found
        return None

    def _read(self, name: str, content: bytes) -> Version | None:
        return read_version(content, name=name, version=number_of(VERSION, name))

    def current(self, key: str | None = None) -> ModelVersion:
        """Return the model in use, of a key if there is one for every key.

        Raises `StreamError` while there is no model, `WrongKey` and `UnknownKey`.
        """
        found = self.latest()
        if isinstance(found, ModelVersion):
            return of_one_model(found, key)
        if key is None:
            raise WrongKey(
                "there is a model for every key here; name a key, or use the checkpoints of a "
                "pipeline without schema.key."
            )
        for _ in range(_TRIES):
            try:
                return self.keyed.get(found, key)
            except KeyError:  # the writer has compacted its segment, so there is a newer version
                with self._refreshing:
                    self._refresh()
            found = cast(KeyedVersion, self.latest())
        raise StreamError(
            f"the segment with the model of the key {key!r} is gone, and there is no newer "
            "checkpoint; restore it, or start the pipeline again."
        )

    def latest(self) -> Version:
        """Return the checkpoint in use; raises `StreamError` while there is none."""
        version = self._current
        if version is None:
            raise StreamError(
                "there is no valid checkpoint with a model yet; wait until the pipeline has "
                "written one, or see with `scstream checkpoints` what there is."
            )
        return version


def of_one_model(version: ModelVersion, key: str | None) -> ModelVersion:
    """Return the version; raises `WrongKey` if a key is given."""
    if key is not None:
        raise WrongKey("there is one model for all rows here; leave the key out.")
    return version
