"""The model file: safetensors with a JSON header; all parts have checksums.

A file contains data, never code. It holds everything that a model needs to continue bit for bit:
state, settings, family, events, and the parameters of the estimator. It cannot hold a function: a
forgetting kernel that is a function must be passed again when the file is read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError

from scstream import __version__
from scstream.core.calibration import Calibration
from scstream.core.config import Config, check_config
from scstream.core.exemplars import Exemplars
from scstream.core.held import Held
from scstream.core.notes import NO_NOTES
from scstream.core.state import Archive, Event, Info, Moves, State
from scstream.core.trial import Choice, Lead, Rival
from scstream.core.window import Box, Exponential, Kernel, Windowed
from scstream.errors import CheckpointCorrupt, CheckpointTooNew, InputError
from scstream.families import Gaussian
from scstream.families.base import Family
from scstream.io._packing import (
    Tensors,
    describe,
    pack,
    read_header,
    rebuild,
    record,
    seal,
    unpack,
    unseal,
)
from scstream.io.column_types import Levels
from scstream.io.exemplars import exemplar_values, note_values, read_exemplars, read_notes_of
from scstream.io.header import Json, PipelineState
from scstream.io.parameters import Parameters, read_kernel
from scstream.io.steering import read_steering

SCHEMA = 1
_ROUNDING = 1e-9  # relative rounding error of sums of many rows

_SHAPES = {  # K clusters, P statistics, D features, H batches, M pairs, A archived clusters
    "past": "K2P",
    "fade": "K",
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
_OWN = ("windowed", "custom")  # kernels with a function of the user
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


class Parts(NamedTuple):
    """The parts of a model file."""

    family: Family
    config: Config
    state: State
    info: Info
    events: tuple[Event, ...]
    parameters: Json  # of the estimator
    feature_names: tuple[str, ...] | None
    held: Held | None
    calibration: Calibration | None
    levels: Levels | None
    choice: Choice | None
    pipeline: PipelineState
    exemplars: Exemplars | None = None


def pack_model(
    family: Family,
    config: Config,
    state: State,
    info: Info,
    events: tuple[Event, ...],
    *,
    parameters: Parameters,
    feature_names: tuple[str, ...] | None,
    held: Held | None,
    calibration: Calibration | None,
    levels: Levels | None,
    choice: Choice | None,
    pipeline: PipelineState,
    exemplars: Exemplars | None = None,
) -> bytes:
    """Return the content of a model file; the same model gives the same bytes.

    Without `exemplars` the file has no ids and texts of rows, either.
    """
    tensors: Tensors = {}
    notes = NO_NOTES if held is None else held.notes
    if held is not None and not notes.is_empty:
        held = replace(held, notes=NO_NOTES)
    contents: Json = {
        "family": describe(family),
        "config": _config_values(config),
        "state": state,
        "info": info,
        "events": events,
        "params": _parameter_values(parameters, config),
        "feature_names": feature_names,
        "held": held,
        "calibration": calibration,
        "levels": levels,
        "choice": choice,
        "pipeline": pipeline,
    }
    if exemplars is not None:
        contents["exemplars"] = exemplar_values(exemplars)
        contents["notes"] = note_values(notes)
    header = {name: pack(value, name, tensors) for name, value in contents.items()} | {
        "schema": SCHEMA,
        "writer": __version__,
        "n_clusters": state.n_clusters,
        "n_features": family.n_features,
        "n_batches": state.n_batches,
    }
    return seal(header, tensors)


def pack_pipeline(pipeline: PipelineState) -> bytes:
    """Return the content of a checkpoint that holds no model yet."""
    tensors: Tensors = {}
    header = {"schema": SCHEMA, "writer": __version__, "model": False}
    return seal(header | {"pipeline": pack(pipeline, "pipeline", tensors)}, tensors)


def unpack_pipeline(content: bytes, *, name: str) -> PipelineState | None:
    """Undo `pack_pipeline`; None for a file with a model, which is not read further."""
    try:
        if read_header(content).get("model", True):
            return None
        header, tensors = unseal(content)
        pipeline: PipelineState = unpack(header["pipeline"], tensors)
        return pipeline
    except DAMAGE as error:
        raise CheckpointCorrupt(
            f"{name} is not a valid model file: {error}; restore an older copy."
        ) from error


def unpack_model(content: bytes, *, name: str, kernel: Any = None) -> Parts:
    """Read the content of a model file; raise `CheckpointCorrupt` or `CheckpointTooNew`.

    `name` says in errors which file it is. `kernel` is the kernel of a model that had one of the
    user's own.
    """
    try:
        header, tensors = unseal(content)
        if header["schema"] > SCHEMA:
            raise CheckpointTooNew(
                f"{name} has format {header['schema']} of scstream {header['writer']}, but this "
                f"version reads formats up to {SCHEMA}: upgrade scstream."
            )
        parts, saved_kernel = _parse(header, tensors)
    except DAMAGE as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise CheckpointCorrupt(
            f"{name} is not a valid model file: {reason}; restore an older copy."
        ) from error
    return _with_kernel(parts, saved_kernel, kernel, name)


def _parse(header: Json, tensors: Tensors) -> tuple[Parts, Json]:
    """Build everything but the kernel, and check that it makes sense together."""
    found = {
        name: unpack(header[name], tensors)
        for name in ("family", "config", "state", "info", "events", "params", "feature_names")
    }
    held, calibration, levels, choice = (
        unpack(header.get(name), tensors) for name in ("held", "calibration", "levels", "choice")
    )
    pipeline: PipelineState = unpack(header.get("pipeline", {}), tensors)
    if type(pipeline) is not dict:
        raise ValueError("its pipeline is not a mapping")
    chosen, notes = (unpack(header.get(name), tensors) for name in ("exemplars", "notes"))
    if tensors:
        raise ValueError(f"it holds an unknown tensor {min(tensors)!r}")
    family = rebuild(found["family"])
    state = _state(found["state"])
    for each in (state, *(undo.before for undo in state.steering.undo)):
        _check_state(each, family)
    sizes = (state.n_clusters, family.n_features, state.n_batches)
    if sizes != tuple(header[name] for name in ("n_clusters", "n_features", "n_batches")):
        raise ValueError("its sizes are not those in the header")
    kernel = found["config"].pop("kernel")
    config = record(Config, found["config"], kernel=_known_kernel(kernel))
    check_config(config)
    happened = tuple(record(Event, event) for event in found["info"].pop("events"))
    names = found["feature_names"]
    if names is not None and [type(name) for name in names] != [str] * family.n_features:
        raise ValueError("its feature names do not match its features")
    moves = record(Moves, found["info"].pop("moves"))
    events = tuple(record(Event, event) for event in found["events"])
    parameters = dict(found["params"])
    if parameters.get("config") is not None:
        parameters["config"] = config
    info = record(Info, found["info"], events=happened, moves=moves)
    names = None if names is None else tuple(names)
    choice = None if choice is None else _choice(choice)
    levels = None if levels is None else _levels(levels, family)
    held = None if held is None else _held(held, family)
    if held is not None and notes is not None:
        held = read_notes_of(held, notes)
    calibration = None if calibration is None else record(Calibration, calibration)
    parts = Parts(
        family,
        config,
        state,
        info,
        events,
        parameters,
        names,
        held,
        calibration,
        levels,
        choice,
        pipeline,
        None if chosen is None else read_exemplars(chosen, family),
    )
    return parts, kernel


def _choice(values: Json) -> Choice:
    """Return how the family was chosen, with the families that are on trial."""
    rivals = []
    for each in values.pop("rivals"):
        state, family = _state(each.pop("state")), each.pop("family")
        _check_state(state, family)
        lead = record(Lead, each.pop("lead"))
        rivals.append(record(Rival, each, family=family, state=state, lead=lead))
    return record(Choice, values, rivals=tuple(rivals))


def _state(values: Json) -> State:
    archive = record(Archive, values.pop("archive"))
    steering = read_steering(values.pop("steering", {}), _state)
    return record(State, values, archive=archive, steering=steering)


def _held(values: Json, family: Family) -> Held:
    """Return the rows that a model holds."""
    held = record(Held, values)
    lengths = {held.rows.shape[0], *map(len, (held.weight, held.time, held.label))}
    if len(lengths) != 1 or held.rows.shape[1] != family.n_features or held.n_tried < 0:
        raise ValueError("the rows that it holds do not fit together")
    family.check(held.rows)
    return held


def _levels(values: Any, family: Family) -> Levels:
    """Return the levels of the columns of a table."""
    levels = tuple(None if each is None else tuple(each) for each in values)
    known = [name for each in levels for name in each or ()]
    if len(levels) != family.n_features or not all(isinstance(name, str) for name in known):
        raise ValueError("its levels do not match its features")
    return levels


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
    if ((state.fade < 0) | (state.fade > 1)).any():
        raise ValueError("fade is not a share")
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
            variances = np.linalg.eigvalsh(family.covariance(state.cluster_stats))  # (K, D)
            if (variances[:, 0] < -_ROUNDING * variances[:, -1]).any():
                raise ValueError("its covariances are not positive definite")


def _array(state: State, name: str) -> Any:
    owner, _, last = name.rpartition(".")
    return getattr(getattr(state, owner) if owner else state, last)


def _config_values(config: Config) -> Json:
    values = dict(vars(config))
    kernel = config.kernel
    for kind, known in _KERNELS.items():
        if type(kernel) is known:
            return values | {"kernel": {"kind": kind} | pack(kernel, "kernel", {})}
    if type(kernel) is Windowed:
        note = {"kind": "windowed", "capacity": kernel.capacity, "epsilon": kernel.epsilon}
        return values | {"kernel": note}
    return values | {"kernel": {"kind": "custom"}}


def _parameter_values(parameters: Parameters, config: Config) -> Json:
    """Return the parameters without objects that a file cannot hold; the config replaces them."""
    values = {name: value for name, value in parameters.items() if name != "executor"}
    if not values["exemplars"]:  # versions that do not know them can read the file
        del values["exemplars"]
    values["kernel"] = values["kernel"] is not None
    values["config"] = None if values["config"] is None else True
    if not isinstance(values["random_state"], int | np.integer | None):
        values["random_state"] = config.seed
    return values


def _known_kernel(saved: Json) -> Kernel:
    """Return the kernel in a file; `Exponential` in place of one with a function of the user."""
    values = {name: value for name, value in saved.items() if name != "kind"}
    if saved["kind"] in _OWN:
        return Exponential()
    return record(_KERNELS[saved["kind"]], values)


def _with_kernel(parts: Parts, saved: Json, given: Any, name: str) -> Parts:
    """Use the kernel that the user passed again, if the file cannot hold it."""
    config, parameters = parts.config, parts.parameters
    if saved["kind"] not in _OWN:
        if given is not None:
            raise InputError(f"{name} holds its own kernel; leave kernel= out.")
        kernel = config.kernel
    elif given is None:
        raise InputError(
            f"{name} was written by a model with a kernel of the user's own, which a file cannot "
            "hold; pass that kernel again as kernel=."
        )
    else:
        kernel = read_kernel(given, None)
        if type(kernel) is Windowed and kernel.function is given and saved["kind"] == "windowed":
            kernel = replace(kernel, capacity=saved["capacity"], epsilon=saved["epsilon"])
    config = replace(config, kernel=kernel)
    parameters = parameters | {"kernel": kernel if parameters.get("kernel") else None}
    if parameters.get("config") is not None:
        parameters["config"] = config
    return parts._replace(config=config, parameters=parameters)
