"""Edits of a running pipeline: a queue in the store of its checkpoints.

Anybody who may write there adds an edit under the next number. Before the pipeline applies one, it
records before which batch: after a crash the same edits are applied before the same batches. An
edit without a record may come before no batch whose labels an earlier instance may have delivered
already; the horizon says up to which batch that is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from typing import Any, NamedTuple, Self

import numpy as np

from scstream.core.edits import read_name
from scstream.core.steering import ACTIONS, Edit
from scstream.errors import CheckpointCorrupt, InputError
from scstream.io.records import sealed, unsealed
from scstream.stream.clock import Clock
from scstream.stream.store import Store, number_of, numbered_name, numbered_names

EDIT, APPLIED, HORIZON = "edit-", "edited-", "horizon-"
MAX_BYTES = 1 << 20  # of one edit
_MAX_TEXT = 200  # characters of an author or key
_POLL_SECONDS = 0.5  # between two looks at the queue
_TRIES = 100  # numbers that others may take
_NEEDED = {
    "name": ("id",),
    "merge": ("id", "other"),
    "split": ("id",),
    "pin": ("id",),
    "unpin": ("id",),
    "move": ("id", "rows"),
    "seed": ("rows",),
    "remove": ("id",),
    "undo": (),
}


@dataclass(frozen=True)
class EditRequest:
    """An edit that waits for a pipeline, as JSON holds it.

    Parameters
    ----------
    action : str
        As in `scstream.core.steering.Edit`.
    id, other, name, level, hold, author : object
        As in `scstream.core.steering.Edit`.
    rows : list of lists of numbers or None
        Rows as they come to the pipeline, before its steps.
    key : str or None
        Which model, if there is one for every key.
    batch : int or None
        Apply it before this batch, and not earlier; None for the next one.
    time : float
        When it was sent, in seconds since 1970.

    Examples
    --------
    >>> from scstream.stream.edit_queue import EditRequest
    >>> EditRequest.from_json(b'{"action": "name", "id": 7, "name": "billing"}').name
    'billing'
    >>> EditRequest.from_json(b'{"action": "merge", "id": 7}')
    Traceback (most recent call last):
    ...
    scstream.errors.InputError: the edit 'merge' needs 'other'.
    """

    action: str
    id: int | None = None
    other: int | None = None
    name: str | None = None
    rows: Sequence[Sequence[float]] | None = None
    level: str = "cluster"
    hold: bool = True
    author: str = ""
    key: str | None = None
    batch: int | None = None
    time: float = 0.0

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise InputError(
                f"there is no edit {str(self.action)[:40]!r}; there are {', '.join(ACTIONS)}."
            )
        for needed in _NEEDED[self.action]:
            if getattr(self, needed) is None:
                raise InputError(f"the edit {self.action!r} needs {needed!r}.")
        for number in ("id", "other", "batch"):
            value = getattr(self, number)
            if value is not None and (type(value) is not int or not 0 <= value < 2**62):
                raise InputError(f"{number} of an edit must be a whole number, not {value!r:.40}.")
        if self.level not in ("cluster", "group"):
            raise InputError(f"level must be 'cluster' or 'group', got {self.level!r:.40}.")
        values: dict[str, Any] = vars(self)
        if type(values["hold"]) is not bool or type(values["time"]) not in (int, float):
            raise InputError("hold of an edit is true or false, and its time a number.")
        for text in (self.author, self.key or ""):
            if type(text) is not str or len(text) > _MAX_TEXT or not text.isprintable():
                raise InputError(f"author and key have up to {_MAX_TEXT} printable characters.")
        read_name(self.name)

    def to_json(self) -> bytes:
        """Return the request as JSON with a checksum; raises `InputError` if it is too long."""
        content = sealed({k: v for k, v in asdict(self).items() if v is not None})
        if len(content) > MAX_BYTES:
            raise InputError(f"an edit has at most {MAX_BYTES:,} bytes; give it fewer rows.")
        return content

    @classmethod
    def from_json(cls, content: bytes) -> Self:
        """Undo `to_json`; raises `InputError`. The checksum may be missing."""
        if len(content) > MAX_BYTES:
            raise InputError(f"an edit has at most {MAX_BYTES:,} bytes; give it fewer rows.")
        try:
            values = unsealed(content)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"an edit is a JSON object, and this one is damaged: {error}; send it again."
            ) from None
        return cls.of(values)

    @classmethod
    def of(cls, values: dict[str, Any]) -> Self:
        """Build from values by name; raises `InputError` for an unknown or missing one."""
        known = [field.name for field in fields(cls)]
        unknown = [name for name in values if name not in known]
        if unknown or "action" not in values:
            wrong = f"has no {unknown[0]!r:.40}" if unknown else "needs 'action'"
            raise InputError(f"an edit {wrong}; it has {', '.join(known)}.")
        return cls(**values)

    def to_edit(self, rows: Any = None) -> Edit:
        """Return the edit of a model; `rows` are its rows after the steps of the pipeline."""
        values = {name: getattr(self, name) for name in _OF_EDIT}
        return Edit(**values, rows=rows)

    @property
    def matrix(self) -> Any:  # (N, D)
        """The rows as an array; raises `InputError`."""
        try:
            X = np.array(self.rows, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"rows of an edit must be numbers: {error}.") from None
        if X.ndim != 2 or not X.size:
            raise InputError("rows of an edit are a list of rows, each a list of numbers.")
        return X


_OF_EDIT = ("action", "id", "other", "name", "level", "hold", "author")


def submit(store: Store, request: EditRequest) -> int:
    """Add an edit to the queue of a pipeline; return its number."""
    content = request.to_json()
    for _ in range(_TRIES):
        taken = numbered_names(store, EDIT)
        number = number_of(EDIT, taken[-1]) + 1 if taken else 0
        if store.put_new(numbered_name(EDIT, number), content):
            return number
    raise InputError("many others edit this pipeline now; try again.")


class _Applied(NamedTuple):
    """Before which batch an edit is applied, and the checksum of its file at that time."""

    batch: int
    edit: str = ""  # an earlier version recorded none


class EditQueue:
    """The queue as the pipeline sees it; only the one writer of the checkpoints uses it."""

    def __init__(self, store: Store, clock: Clock, *, next_edit: int) -> None:
        self.next_edit = next_edit
        self._store = store
        self._clock = clock
        self._looked = -np.inf
        self._waiting: dict[int, EditRequest | str] = {}  # a text says why it cannot be read
        self._at: dict[int, _Applied] = {}
        for name in numbered_names(store, APPLIED):
            self._at[number_of(APPLIED, name)] = self._applied(name)
        self._horizons = [number_of(HORIZON, name) for name in numbered_names(store, HORIZON)]
        self._horizon = max(self._horizons, default=0)
        self._stride, self._raised = 1, -np.inf
        self._free_from = self._horizon

    def due(self, batch: int) -> Iterator[tuple[int, EditRequest | str]]:
        """Yield the edits to apply before a batch, with their numbers, in their order."""
        self._look(batch)
        while self.next_edit in self._waiting and self._at[self.next_edit].batch <= batch:
            number = self.next_edit
            self.next_edit += 1
            yield number, self._waiting.pop(number)

    def before_delivery(self, batch: int) -> None:
        """Record that labels of this batch may be delivered from now on.

        That is recorded for several batches at once if they are short.
        """
        if batch < self._horizon:
            return
        now = self._clock.elapsed()
        self._stride = min(2 * self._stride, 64) if now - self._raised < 1.0 else 1
        self._raised = now
        self._set_horizon(batch + self._stride)

    def stop(self, batch: int) -> None:
        """Record that no label from this batch on was delivered."""
        if self._horizon > batch:
            self._set_horizon(batch)

    def prune(self, oldest: int) -> None:
        """Delete edits that were applied before this batch; the newest keeps its number taken."""
        newest = max(self._at, default=-1)
        for number in [n for n, at in self._at.items() if at.batch < oldest and n < self.next_edit]:
            if number < newest:
                self._store.delete(numbered_name(EDIT, number))
                self._store.delete(numbered_name(APPLIED, number))
                del self._at[number]

    def _look(self, batch: int) -> None:
        """Read new edits, and decide before which batch each of them is applied."""
        now = self._clock.elapsed()
        if now - self._looked < _POLL_SECONDS:
            return
        self._looked = now
        for name in numbered_names(self._store, EDIT):
            number = number_of(EDIT, name)
            if number >= self.next_edit and number not in self._waiting:
                content = self._store.get(name)
                request = _read(content)
                self._at[number] = self._recorded(number, content, request, batch)
                self._waiting[number] = request

    def _recorded(
        self, number: int, content: bytes, request: EditRequest | str, batch: int
    ) -> _Applied:
        """Return the record of an edit, which is made now if there is none."""
        checksum = sha256(content).hexdigest()
        if number not in self._at:
            wanted = 0 if isinstance(request, str) else request.batch or 0
            before = max((at.batch for n, at in self._at.items() if n < number), default=0)
            at = _Applied(max(wanted, batch, before, self._free_from), checksum)
            name = numbered_name(APPLIED, number)
            if self._store.put_new(name, sealed(at._asdict())):
                return at
            self._at[number] = self._applied(name)
        known = self._at[number]
        if known.edit not in ("", checksum):
            raise CheckpointCorrupt(
                f"{numbered_name(EDIT, number)} is not the edit that was applied before batch "
                f"{known.batch}; restore it from a copy of the checkpoints, or start a new job "
                "with checkpoints of its own."
            )
        return known

    def _applied(self, name: str) -> _Applied:
        content = self._store.get(name)
        try:
            if content.isdigit():  # of an earlier version
                return _Applied(int(content))
            return _Applied(**unsealed(content))
        except (ValueError, TypeError) as error:
            raise CheckpointCorrupt(
                f"{name}, which says before which batch an edit was applied, is damaged ({error}); "
                "restore it from a copy of the checkpoints, or start a new job with checkpoints of "
                "its own."
            ) from None

    def _set_horizon(self, batch: int) -> None:
        """Record a horizon; an instance that was replaced can raise it, but not lower it."""
        self._store.put_new(numbered_name(HORIZON, batch), b"{}")
        for old in self._horizons:
            if old != batch:
                self._store.delete(numbered_name(HORIZON, old))
        self._horizon, self._horizons = batch, [batch]


def _read(content: bytes) -> EditRequest | str:
    try:
        return EditRequest.from_json(content)
    except InputError as error:
        return str(error)
