"""The model file: safetensors with a JSON header, every part of it under a checksum.

A file is data, never code. It holds everything that a model needs to go on bit for bit: state,
configuration, family, events, and the parameters of the estimator. What it cannot hold is a
function: a kernel of the user's own is passed again when the file is read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError

from scstream.core.state import Archive, Config, Event, Info, State, check_config
from scstream.core.window import Box, Exponential, Kernel, Windowed
from scstream.errors import CheckpointCorrupt, CheckpointTooNew, InputError
from scstream.families import Gaussian
from scstream.families.base import Family
from scstream.io._packing import (
    Tensors,
    describe,
    pack,
    rebuild,
    record,
    seal,
    unpack,
    unseal,
    write_atomically,
)
from scstream.io.choices import read_kernel

SCHEMA = 1
_ROUNDING = 1e-9  # of the largest variance: what sums of many rows may be off by

_SHAPES = {  # K clusters, P statistics, D features, H batches, M pairs, A archived clusters
    "past": "K2P",
    "current": "K2P",
    "history": "HK2P",
    "history_times": "H",
    "history_unassigned": "H",
    "ids": "K",
    "age": "K",
    "born": "K",
    "last_seen": "K",
    "peak": "K",
    "velocity": "KD",
    "velocity_noise": "K",
    "split_evidence": "K",
    "merge_pairs": "M2",
    "merge_evidence": "M",
    "archive.ids": "A",
    "archive.stats": "AP",
    "archive.born": "A",
}
_KERNELS: dict[str, type[Exponential] | type[Box]] = {"exponential": Exponential, "box": Box}
_OWN = ("windowed", "custom")  # kernels that hold a function
DAMAGE = (
    SafetensorError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
)


@dataclass(frozen=True)
class Snapshot:
    """Everything a model file holds.

    Parameters
    ----------
    family : Family
        The family with its prior.
    config : Config
        The configuration.
    state : State
        The state after the last batch.
    info : Info
        What happened in the last batch.
    events : tuple of Event
        What happened so far, as far as it is remembered.
    params : mapping
        Parameters of the estimator.
    feature_names : tuple of str or None
        Names of the columns.
    pipeline : mapping
        What `scstream.stream` needs to go on: positions, epoch, preprocessing. Plain values and
        arrays, by names; empty for a model that no pipeline wrote.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.core.state import Config, State
    >>> from scstream.families import Multinomial
    >>> from scstream.io.checkpoint import Snapshot
    >>> family = Multinomial(np.ones(3))
    >>> Snapshot(family, Config(), State.empty(family)).state.n_clusters
    0
    """

    family: Family
    config: Config
    state: State
    info: Info = field(default_factory=Info)
    events: tuple[Event, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    feature_names: tuple[str, ...] | None = None
    pipeline: Mapping[str, Any] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features; ``x0``, ``x1``, ... where the rows had none."""
        return self.feature_names or tuple(f"x{d}" for d in range(self.family.n_features))


def write_model(path: str | os.PathLike[str], snapshot: Snapshot, *, writer: str) -> None:
    """Write a model file; it appears under its name complete or not at all.

    Parameters
    ----------
    path : path
        Where to write; a file of that name is replaced.
    snapshot : Snapshot
        What to write.
    writer : str
        Version of the program that writes.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from scstream.core.state import Config, State
    >>> from scstream.families import Multinomial
    >>> from scstream.io.checkpoint import Snapshot, read_model, write_model
    >>> family = Multinomial(np.ones(3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_model(f"{folder}/m", Snapshot(family, Config(), State.empty(family)), writer="1")
    ...     read_model(f"{folder}/m").family.concentration
    array([1., 1., 1.])
    """
    write_atomically(Path(path), model_bytes(snapshot, writer=writer))


def model_bytes(snapshot: Snapshot, *, writer: str) -> bytes:
    """Return the content of a model file; the same model gives the same bytes.

    Parameters
    ----------
    snapshot : Snapshot
        What to write.
    writer : str
        Version of the program that writes.

    Returns
    -------
    bytes
        What `model_from` reads.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.core.state import Config, State
    >>> from scstream.families import Multinomial
    >>> from scstream.io.checkpoint import Snapshot, model_bytes, model_from
    >>> family = Multinomial(np.ones(3))
    >>> content = model_bytes(Snapshot(family, Config(), State.empty(family)), writer="1")
    >>> model_from(content, name="m").family.n_features
    3
    """
    tensors: Tensors = {}
    state = snapshot.state
    contents = {
        "family": describe(snapshot.family),
        "config": _config_values(snapshot.config),
        "state": state,
        "info": snapshot.info,
        "events": snapshot.events,
        "params": _param_values(snapshot),
        "feature_names": snapshot.feature_names,
        "pipeline": snapshot.pipeline,
    }
    header = {name: pack(value, name, tensors) for name, value in contents.items()} | {
        "schema": SCHEMA,
        "writer": writer,
        "n_clusters": state.n_clusters,
        "n_features": snapshot.family.n_features,
        "n_batches": state.n_batches,
    }
    return seal(header, tensors)


def read_model(path: str | os.PathLike[str], *, kernel: Any = None) -> Snapshot:
    """Read a model file.

    Parameters
    ----------
    path : path
        The file.
    kernel : Kernel or callable, optional
        The kernel of the model, where it is the user's own and so could not be saved.

    Returns
    -------
    Snapshot
        What was written, bit for bit.

    Raises
    ------
    CheckpointCorrupt
        The file is damaged, or is no model file.
    CheckpointTooNew
        A later version wrote the file, in a format that this one does not know.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from scstream.io.checkpoint import read_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(f"{folder}/m").write_bytes(b"rubbish")
    ...     read_model(f"{folder}/m")
    Traceback (most recent call last):
    ...
    scstream.errors.CheckpointCorrupt: ... is not a sound model file: ...
    """
    return model_from(Path(path).read_bytes(), name=str(path), kernel=kernel)


def model_from(content: bytes, *, name: str, kernel: Any = None) -> Snapshot:
    """Read the content of a model file.

    Parameters
    ----------
    content : bytes
        What `model_bytes` returned.
    name : str
        What to call it where it is damaged.
    kernel : Kernel or callable, optional
        As in `read_model`.

    Returns
    -------
    Snapshot
        What was written, bit for bit.

    Examples
    --------
    >>> from scstream.io.checkpoint import model_from
    >>> model_from(b"rubbish", name="m")
    Traceback (most recent call last):
    ...
    scstream.errors.CheckpointCorrupt: m is not a sound model file: ...
    """
    try:
        header, tensors = unseal(content)
        if header["schema"] > SCHEMA:
            raise CheckpointTooNew(
                f"{name} has format {header['schema']} of scstream {header['writer']}, but this "
                f"version reads formats up to {SCHEMA}: upgrade scstream."
            )
        snapshot, saved_kernel = _opened(header, tensors)
    except DAMAGE as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise CheckpointCorrupt(
            f"{name} is not a sound model file: {reason}; restore an older copy."
        ) from error
    return _with_kernel(snapshot, saved_kernel, kernel, name)


def _opened(header: dict[str, Any], tensors: Tensors) -> tuple[Snapshot, dict[str, Any]]:
    """Build everything but the kernel, and check that it makes sense together."""
    parts = {
        name: unpack(header[name], tensors)
        for name in ("family", "config", "state", "info", "events", "params", "feature_names")
    }
    pipeline = unpack(header.get("pipeline", {}), tensors)
    if not isinstance(pipeline, dict):
        raise ValueError("its pipeline is not a mapping")
    if tensors:
        raise ValueError(f"it holds an unknown tensor {min(tensors)!r}")
    family = rebuild(parts["family"])
    archive = record(Archive, parts["state"].pop("archive"))
    state = record(State, parts["state"], archive=archive)
    _check_state(state, family)
    sizes = (state.n_clusters, family.n_features, state.n_batches)
    if sizes != tuple(header[name] for name in ("n_clusters", "n_features", "n_batches")):
        raise ValueError("its sizes are not those that the header tells")
    kernel = parts["config"].pop("kernel")
    config = record(Config, parts["config"], kernel=_known_kernel(kernel))
    check_config(config)
    happened = tuple(record(Event, event) for event in parts["info"].pop("events"))
    names = parts["feature_names"]
    if names is not None and [type(name) for name in names] != [str] * family.n_features:
        raise ValueError("its feature names do not match its features")
    snapshot = Snapshot(
        family=family,
        config=config,
        state=state,
        info=record(Info, parts["info"], events=happened),
        events=tuple(record(Event, event) for event in parts["events"]),
        params=dict(parts["params"]),
        feature_names=None if names is None else tuple(names),
        pipeline=pipeline,
    )
    return snapshot, kernel


def _check_state(state: State, family: Family) -> None:
    sizes = {"2": 2, "P": family.n_stats, "D": family.n_features, "K": len(state.ids)}
    for name, shape in _SHAPES.items():
        values = _array(state, name)
        if values.ndim != len(shape):
            raise ValueError(f"{name} has {values.ndim} axes in place of {len(shape)}")
        for letter, size in zip(shape, values.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise ValueError(f"{name} has the shape {values.shape}, not that of the model")
        if not np.isfinite(values).all():
            raise ValueError(f"{name} is not finite")
        if shape.endswith("P") and (values[..., 0] < 0).any():
            raise ValueError(f"{name} has a negative count")
    if (np.diff(state.ids, prepend=-1) <= 0).any() or (state.ids >= state.next_id).any():
        raise ValueError("its ids are not in order")
    numbers = [
        state.unassigned_weight,
        state.unassigned_now,
        state.batch_interval,
        0.0 if state.is_new else abs(state.time),
    ]
    if not (np.isfinite(numbers).all() and min(numbers) >= 0):
        raise ValueError("its numbers are not finite, or negative")
    with np.errstate(all="ignore"):
        if not np.isfinite(family.predictive_params(state.cluster_stats)).all():
            raise ValueError("its clusters have no predictive density")
        if isinstance(family, Gaussian) and state.n_clusters:
            spread = np.linalg.eigvalsh(family.covariance(state.cluster_stats))  # (K, D)
            if (spread[:, 0] < -_ROUNDING * spread[:, -1]).any():
                raise ValueError("its covariances are not positive definite")


def _array(state: State, name: str) -> Any:
    owner, _, last = name.rpartition(".")
    return getattr(getattr(state, owner) if owner else state, last)


def _config_values(config: Config) -> dict[str, Any]:
    values = dict(vars(config))
    kernel = config.kernel
    for kind, known in _KERNELS.items():
        if type(kernel) is known:
            return values | {"kernel": {"kind": kind} | pack(kernel, "kernel", {})}
    if type(kernel) is Windowed:
        note = {"kind": "windowed", "capacity": kernel.capacity, "epsilon": kernel.epsilon}
        return values | {"kernel": note}
    return values | {"kernel": {"kind": "custom"}}


def _param_values(snapshot: Snapshot) -> dict[str, Any]:
    """Parameters without objects that a file cannot hold; what they stood for is in the config."""
    params = {name: value for name, value in snapshot.params.items() if name != "executor"}
    if "kernel" in params:
        params["kernel"] = params["kernel"] is not None
    if not isinstance(params.get("random_state"), int | np.integer | None):
        params["random_state"] = snapshot.config.seed
    return params


def _known_kernel(saved: Mapping[str, Any]) -> Kernel:
    """Kernel that a file describes in full; for any other one a stand-in."""
    values = {name: value for name, value in saved.items() if name != "kind"}
    if saved["kind"] in _OWN:
        return Exponential()
    return record(_KERNELS[saved["kind"]], values)


def _with_kernel(snapshot: Snapshot, saved: Mapping[str, Any], given: Any, name: str) -> Snapshot:
    if saved["kind"] not in _OWN:
        if given is not None:
            raise InputError(f"{name} holds its own kernel; leave kernel= out.")
        kernel = snapshot.config.kernel
    elif given is None:
        raise InputError(
            f"{name} was written by a model with a kernel of the user's own, which a file cannot "
            "hold; pass that kernel again as kernel=."
        )
    else:
        kernel = read_kernel(given, None)
        if type(kernel) is Windowed and kernel.function is given and saved["kind"] == "windowed":
            kernel = replace(kernel, capacity=saved["capacity"], epsilon=saved["epsilon"])
    params = dict(snapshot.params)
    if "kernel" in params:
        params["kernel"] = kernel if params["kernel"] else None
    return replace(snapshot, config=replace(snapshot.config, kernel=kernel), params=params)
