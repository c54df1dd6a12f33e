"""The content of a model file: a JSON header, tensors, and checksums of both.

Functions here raise `ValueError`, `TypeError`, `KeyError` and others if a file is damaged;
`scstream.io.model_file` turns all of them into one error.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import timedelta
from functools import cache
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray
from safetensors import deserialize
from safetensors.numpy import save
from scipy import sparse

from scstream.errors import InputError
from scstream.families import FAMILIES, Family, family_from
from scstream.io.budget import TooLarge, check_json
from scstream.io.durations import read_half_life
from scstream.io.header import Json

Tensors = dict[str, NDArray[Any]]
T = TypeVar("T")

_KEY = "scstream"  # the one metadata entry (the order of several is random): checksum, header
_DTYPES: Mapping[str, type[np.generic]] = {"F64": np.float64, "I64": np.int64}


def seal(header: Json, tensors: Tensors) -> bytes:
    """Join header and tensors to the content of a file; the same values give the same bytes."""
    sealed = header | {"tensors": {name: _digest(values) for name, values in tensors.items()}}
    text = json.dumps(sealed, allow_nan=False, sort_keys=True)
    return bytes(save(tensors, metadata={_KEY: f"{_sha256(text.encode())}\n{text}"}))


def unseal(
    content: bytes, *, dtypes: Mapping[str, type[np.generic]] = _DTYPES
) -> tuple[Json, Tensors]:
    """Return header and tensors of a file; raises ValueError if a checksum is wrong."""
    header = read_header(content)  # first: it is checked before much memory is used
    found = deserialize(content)  # type: ignore[no-untyped-call]
    tensors = {
        name: np.frombuffer(entry["data"], dtypes[entry["dtype"]]).reshape(entry["shape"])
        for name, entry in found
    }
    if set(tensors) != set(header["tensors"]):
        raise ValueError("the tensors are not those that the header lists")
    for name, values in tensors.items():
        if _digest(values) != header["tensors"][name]:
            raise ValueError(f"the tensor {name!r} does not match its checksum")
    return header, tensors


def read_header(content: bytes) -> Json:
    """Return the header of a file; `content` may end after the header."""
    outer_text = content[8 : 8 + int.from_bytes(content[:8], "little")]
    try:
        check_json(outer_text)
    except TooLarge as error:
        raise ValueError("its header would need too much memory") from error
    outer = json.loads(outer_text)
    checksum, _, text = outer["__metadata__"][_KEY].partition("\n")
    if _sha256(text.encode()) != checksum:
        raise ValueError("the header does not match its checksum")
    header: Json = json.loads(text)
    return header


def pack(value: Any, place: str, tensors: Tensors) -> Any:
    """Return a value as JSON; arrays go to `tensors` under the name of their place."""
    if isinstance(value, np.ndarray):
        dtype = np.int64 if np.issubdtype(value.dtype, np.integer) else np.float64
        tensors[place] = np.ascontiguousarray(value, dtype=np.dtype(dtype))
        return {"$tensor": place}
    if sparse.issparse(value):
        parts = {"data": value.data, "indices": value.indices, "indptr": value.indptr}
        shape = [int(size) for size in value.shape]
        return {"$csr": pack(parts | {"shape": shape}, place, tensors)}
    if isinstance(value, Family):
        return {"$family": pack(describe(value), place, tensors)}
    if is_dataclass(value) and not isinstance(value, type):
        entries = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        value = {  # what nobody has used is left out
            name: entry for name, entry in entries.items() if not getattr(entry, "is_empty", False)
        }
    if isinstance(value, Mapping):
        return {str(key): pack(entry, f"{place}.{key}", tensors) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [pack(entry, f"{place}.{i}", tensors) for i, entry in enumerate(value)]
    return _json_value(value, place)


def _json_value(value: Any, place: str) -> Any:
    if isinstance(value, timedelta | np.timedelta64):
        return {"$seconds": read_half_life(value)}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, type) and issubclass(value, Family):
        return value.name
    if isinstance(value, float) and not np.isfinite(value):
        return {"$float": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InputError(f"{place} is {value!r}, which cannot be saved in a model file.")


def unpack(value: Any, tensors: Tensors) -> Any:
    """Undo `pack`; remove every tensor that is used from `tensors`."""
    if isinstance(value, list):
        return [unpack(entry, tensors) for entry in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"$tensor"}:
        return tensors.pop(value["$tensor"])
    for tag, build in _TAGS.items():
        if set(value) == {tag}:
            return build(unpack(value[tag], tensors))
    return {key: unpack(entry, tensors) for key, entry in value.items()}


def _csr(parts: Json) -> Any:
    rows = sparse.csr_array(
        (parts["data"], parts["indices"], parts["indptr"]), shape=tuple(parts["shape"])
    )
    rows.check_format()
    return rows


def describe(family: Family) -> Json:
    """Return name and hyperparameters of a family; raises InputError if it is not in FAMILIES."""
    if FAMILIES.get(family.name) is not type(family):
        raise InputError(
            f"the family {family.name!r} cannot be saved because a reader would not know it; add "
            "its class to scstream.families.FAMILIES before saving and before loading."
        )
    return {"name": family.name, "hyperparameters": family.hyperparameters()}


def rebuild(description: Json) -> Family:
    """Undo `describe`."""
    return family_from(description["name"], description["hyperparameters"])


_TAGS: Mapping[str, Callable[[Any], Any]] = {
    "$float": float,
    "$seconds": lambda seconds: timedelta(seconds=seconds),
    "$csr": _csr,
    "$family": rebuild,
}


def record(cls: type[T], values: Any, **ready: Any) -> T:
    """Build a dataclass from values whose names and types must be those of its fields.

    A field with a default may be missing: the version that wrote the file may not have had it.
    """
    hints = _hints(cls)  # type: ignore[arg-type]
    known = [field for field in fields(cls) if field.init and field.name not in ready]  # type: ignore[arg-type]
    needed = {f.name for f in known if f.default is MISSING and f.default_factory is MISSING}
    wrong = (set(values) - {field.name for field in known}) | (needed - set(values))
    if wrong:
        raise ValueError(f"{cls.__name__} has an unknown or missing entry {min(wrong)!r}")
    for name, value in values.items():
        if not _fits(value, hints[name]):
            raise ValueError(f"{cls.__name__}.{name} has the wrong type")
    return cls(**values, **ready)


@cache
def _hints(cls: type[Any]) -> Json:
    """Return the types of the fields of a dataclass; cached, because this takes a millisecond."""
    return get_type_hints(cls)


def _fits(value: Any, hint: Any) -> bool:
    origin, kinds = get_origin(hint), get_args(hint)
    if hasattr(origin, "__value__"):  # an alias, as NDArray is from numpy 2.5 on
        return _fits(value, origin.__value__[kinds])
    if origin in (Union, UnionType):
        return any(_fits(value, kind) for kind in kinds)
    if origin is Literal:
        return value in kinds
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and value.dtype == get_args(kinds[1])[0]
    if isinstance(value, bool):
        return hint is bool
    return hint is Any or isinstance(value, int | float if hint is float else origin or hint)


def _digest(values: NDArray[Any]) -> Json:
    content = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    return {"dtype": str(values.dtype), "shape": list(values.shape), "sha256": _sha256(content)}


def _sha256(content: Any) -> str:
    return hashlib.sha256(content).hexdigest()
