"""Models by key: options of a pool, the rows of each key in a batch, and the file of a model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scstream.errors import CheckpointCorrupt, InputError
from scstream.io.parameters import seed_for
from scstream.model import Model, Settings, checkpoint_bytes, read_checkpoint
from scstream.preprocess import Steps
from scstream.preprocess.block import Block, Reject

MAX_KEY_LENGTH = 256  # characters; the index holds every key
_OVERHEAD = 16_384  # bytes of a model apart from its arrays, measured: benchmarks/runtime/keys.py
_EVENT = 250  # bytes of an event
_SAMPLE = 100  # entries of a long list that are measured
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([kKMG]?)(i?)B?")
_OPTIONAL = ("max_rows", "max_new_keys", "max_tenant_keys", "max_tenant_rows")
_LEAST = {"max_keys": 1, **dict.fromkeys(_OPTIONAL, 1), "patience": 1, "forget_after": 0}
_UNITS = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3}


@dataclass(frozen=True)
class KeyOptions:
    """Limits of a pool of models; the table `keys` of the settings.

    Parameters
    ----------
    memory : int or str
        Bytes that models in memory may take, such as "512MB". In addition every known key takes
        about 0.6 kilobytes, and segments that are being written a few times `segment`.
    max_keys : int
        Maximum number of keys; rows of further keys are rejected.
    max_rows : int or None
        Maximum number of rows of a key in one batch; the others are rejected.
    max_new_keys : int or None
        Maximum number of new keys in one batch, of each tenant; rows of further ones are rejected.
        To start a model takes far longer than to continue one.
    tenant : str or None
        Text that ends the name of the tenant in a key, such as "/" for keys like "acme/pump-7".
        Keys without it belong to one tenant, and so do all keys by default.
    max_tenant_keys : int or None
        Maximum number of keys of a tenant; rows of further keys are rejected.
    max_tenant_rows : int or None
        Maximum number of rows of a tenant in one batch; the others are rejected.
    patience : int
        Consecutive batches that may fail before a key is set aside.
    forget_after : int
        Batches without rows of a key after which its model is dropped; 0 for never. A key that
        comes back later starts with a new model.
    segment : int or str
        Bytes of a segment, the unit in which models are written.
    retry : bool
        Try keys that were set aside again after a restart.

    Examples
    --------
    >>> from scstream.stream.keyed import KeyOptions
    >>> KeyOptions(memory="1.5GB").memory_bytes
    1500000000
    """

    memory: int | str = "512MB"
    max_keys: int = 1_000_000
    max_rows: int | None = None
    max_new_keys: int | None = None
    tenant: str | None = None
    max_tenant_keys: int | None = None
    max_tenant_rows: int | None = None
    patience: int = 3
    forget_after: int = 100_000
    segment: int | str = "4MB"
    retry: bool = False

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            optional = value is None and name in _OPTIONAL
            if not optional and (type(value) is not int or value < least):
                raise InputError(f"keys.{name} must be a whole number from {least}, got {value!r}.")
        tenant: Any = self.tenant
        if tenant is not None and (type(tenant) is not str or not tenant):
            raise InputError(f'keys.tenant must be a text such as "/", got {tenant!r}.')
        if type(self.retry) is not bool:
            raise InputError(f"keys.retry must be true or false, got {self.retry!r}.")
        if not 0 < self.segment_bytes <= 1 << 30:
            raise InputError(f"keys.segment must be at most 1GiB, got {self.segment!r}.")
        read_size("memory", self.memory)

    @property
    def memory_bytes(self) -> int:
        """`memory` as a number."""
        return read_size("memory", self.memory)

    @property
    def segment_bytes(self) -> int:
        """`segment` as a number."""
        return read_size("segment", self.segment)


def read_size(name: str, value: int | str) -> int:
    """Return a number of bytes that may be written with a unit, such as "64MiB"."""
    if type(value) is int and value > 0:
        return value
    found = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if found is None or not float(found[1]) > 0:
        raise InputError(
            f"keys.{name} must be a number of bytes, such as 512MB or 2GiB, got {value!r}."
        )
    return max(1, int(float(found[1]) * (1024 if found[3] else 1000) ** _UNITS[found[2]]))


def rows_by_key(block: Block, column: str) -> tuple[dict[str, NDArray[np.intp]], list[Reject]]:
    """Return the indices of the valid rows of each key, in order of first rows, and the rejects.

    Keys are texts or whole numbers; 7 and "7" are the same key.
    """
    if not len(block.row):
        return {}, []
    if column not in block.extra:
        raise InputError(f"the rows have no column {column!r}, which schema.key names.")
    codes_of: dict[Any, int] = {}
    values = block.extra[column].tolist()
    if not {str, int}.issuperset(map(type, values)):  # True would be 1, and NaN never itself
        values = [v if type(v) in (str, int) else _NoKey(repr(v)) for v in values]
    codes = np.fromiter(
        (codes_of.setdefault(v, len(codes_of)) for v in values), np.intp, len(values)
    )
    order = np.argsort(codes, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(codes))[:-1])
    rows: dict[str, NDArray[np.intp]] = {}
    refused: list[Reject] = []
    for value, places in zip(codes_of, parts, strict=True):
        if isinstance(value, _NoKey) or (
            type(value) is str and not 0 < len(value) <= MAX_KEY_LENGTH
        ):
            why = f"column {column!r} holds {_short(value)}: a key is a text or a whole number."
            refused += [Reject(int(row), why) for row in block.row[places]]
            continue
        key = str(value)
        rows[key] = np.sort(np.concatenate([rows[key], places])) if key in rows else places
    return rows, refused


class _NoKey(NamedTuple):
    """A value that cannot be a key, as text."""

    shown: str


def _short(value: Any) -> str:
    if isinstance(value, _NoKey):
        return value.shown[:40]
    return f"a text of {len(value)} characters" if value else "an empty text"


def part(block: Block, places: NDArray[np.intp]) -> Block:
    """Return some of the valid rows of a block; they keep their numbers."""
    extra = {name: values[places] for name, values in block.extra.items()}
    return Block(block.n_rows, block.row[places], block.X[places], extra)


def seed_of(seed: int, key: str) -> int:
    """Return the seed of the model of a key."""
    return seed_for(f"{seed}/{key}")


class KeyedModel(NamedTuple):
    """The model of a key, or its settings before the first batch, and its preprocessing."""

    model: Model | Settings
    steps: Steps

    @property
    def n_clusters(self) -> int:
        """Number of clusters now."""
        return self.model.state.n_clusters if isinstance(self.model, Model) else 0


def model_file(model: KeyedModel, key: str) -> bytes:
    """Return the model of a key as a file that `ScStream.load` can read too."""
    learned = model.model if isinstance(model.model, Model) else None
    return checkpoint_bytes(learned, {"key": key, "steps": model.steps.save()})


def model_of(content: bytes, key: str, *, blank: KeyedModel) -> KeyedModel:
    """Undo `model_file`; `blank` is the model of the key before its first batch."""
    model, steps = read_model(content, key)
    if model is None:
        return KeyedModel(blank.model, steps)
    # All models share one settings object: thousands of copies would be most of the memory.
    settings = blank.model.settings if isinstance(blank.model, Model) else blank.model
    return KeyedModel(replace(model, settings=settings), steps)


def read_model(content: bytes, key: str) -> tuple[Model | None, Steps]:
    """Read the file of a model; the model is None before the first batch."""
    name = f"the model of key {key!r}"
    model, pipeline = read_checkpoint(content, name=name)
    if pipeline.get("key") != key:
        raise CheckpointCorrupt(f"{name} is not where it should be; restore an older checkpoint.")
    return model, Steps.load(pipeline["steps"])


def n_bytes_of(model: KeyedModel) -> int:
    """Return about how much memory a model takes."""
    size: int = _OVERHEAD + sum(_size(step.learned) for step in model.steps.steps)
    if not isinstance(model.model, Model):
        return size
    state = model.model.state
    size += sum(v.nbytes for v in vars(state).values() if isinstance(v, np.ndarray))
    size += sum(v.nbytes for v in vars(state.archive).values())
    # The compiled form of a family holds its arrays a second time.
    return size + 2 * _size(model.model.family) + _EVENT * len(model.model.events)


def _size(value: Any) -> int:
    """Return the bytes of arrays and texts in a value; long lists are estimated."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes) + 112
    if isinstance(value, str):
        return len(value) + 50
    if is_dataclass(value) or isinstance(value, Mapping):
        entries = value if isinstance(value, Mapping) else vars(value)
        return sum(map(_size, entries.values()))
    if isinstance(value, list | tuple):
        sample = list(islice(value, _SAMPLE))
        return sum(map(_size, sample)) * len(value) // max(len(sample), 1) + 8 * len(value)
    return 0
