"""Parameters as users write them, and the family, kernel or settings that they mean."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from scstream.core.config import Config, check_config
from scstream.core.start import data_driven_prior
from scstream.core.window import Exponential, Kernel, Windowed
from scstream.errors import InputError
from scstream.families import FAMILIES, Categorical, Family, Product, family_class
from scstream.families.base import Array, Rows
from scstream.io.column_types import AUTO, BOOLEAN, Auto, Levels
from scstream.io.durations import read_half_life
from scstream.kernels import REFERENCE, Kernels

Names: TypeAlias = Sequence[str] | None
Parameters: TypeAlias = Mapping[str, Any]  # of `scstream.ScStream`, by name

_NO_PARAMETER = ("seed", "split_evidence", "merge_evidence", "screening")  # fields of `Config` only
_CONFIG = tuple(each.name for each in fields(Config) if each.name not in _NO_PARAMETER)
# Parameters of which the statistics of a model are made; the others act on every batch.
READ_ONCE = ("family", "prior", "kernel", "algorithm", "config", "random_state")
_N_SWEEPS = {"paper": 1, "printed": 1, "exact": 500}  # where n_sweeps is None


def read_config(parameters: Parameters, *, defaults: Parameters) -> Config:
    """Return the checked settings of the algorithm that the parameters of `ScStream` mean."""
    given, random_state = parameters["config"], parameters["random_state"]
    if given is not None:
        return _given_config(given, parameters, defaults, random_state)
    for name in ("alpha", "min_birth_weight", "min_weight", "coarseness"):
        if not isinstance(parameters[name], Real) or isinstance(parameters[name], bool):
            raise InputError(f"{name} must be a number, got {parameters[name]!r}.")
    read_whole("min_batch", parameters["min_batch"])
    for name in ("births", "motion", "archive"):
        if not isinstance(parameters[name], bool | np.bool_):
            raise InputError(f"{name} must be True or False, got {parameters[name]!r}.")
    read_whole("max_clusters", parameters["max_clusters"])
    algorithm, n_sweeps = parameters["algorithm"], parameters["n_sweeps"]
    if algorithm == "exact":
        _check_no_forgetting(parameters, defaults)
    if n_sweeps is None:
        n_sweeps = _N_SWEEPS.get(algorithm, 0)
    config = Config(
        **{name: parameters[name] for name in _CONFIG}
        | {
            "seed": read_seed(random_state),
            "kernel": read_kernel(parameters["kernel"], parameters["half_life"]),
            "n_sweeps": read_whole("n_sweeps", n_sweeps),
        }
    )
    check_config(config)
    return config


def changed_config(
    config: Config, before: Parameters, after: Parameters, *, defaults: Parameters
) -> Config:
    """Return the settings of a model that has learned, with other values of its parameters.

    Statistics of old rows stay as they are: a new half-life, say, acts on the time from now on.
    """
    changed = [name for name in after if not same_value(before[name], after[name])]
    refused = [name for name in READ_ONCE if name in changed]
    if refused:
        raise InputError(
            f"{refused[0]} cannot change after the first batch; set it back to "
            f"{before[refused[0]]!r}, or call fit, or start a new model with "
            "sklearn.base.clone(model)."
        )
    if not any(name in ("half_life", *_CONFIG) for name in changed):
        return config
    fresh = read_config({**after, "random_state": config.seed}, defaults=defaults)
    return fresh if after["kernel"] is None else replace(fresh, kernel=config.kernel)


def _check_no_forgetting(parameters: Parameters, defaults: Parameters) -> None:
    """Raise `InputError` for a way to forget, which the posterior of one table does not have."""
    half_life = read_half_life(parameters["half_life"])
    if parameters["kernel"] is not None or half_life not in (None, defaults["half_life"]):
        raise InputError(
            "algorithm='exact' samples the posterior of one table and forgets nothing; leave "
            "half_life and kernel out, or use algorithm='default' for a stream."
        )


def _given_config(
    given: Any, parameters: Parameters, defaults: Parameters, random_state: Any
) -> Config:
    """Return `config=` with the seed of `random_state`, if there is one."""
    if not isinstance(given, Config):
        raise InputError(f"config must be a scstream.Config, got {given!r}.")
    for name in ("half_life", *_CONFIG):
        if not same_value(parameters[name], defaults[name]):
            raise InputError(
                f"config= replaces {name}=; set {name} in the Config or leave config= out."
            )
    config = given if random_state is None else replace(given, seed=read_seed(random_state))
    check_config(config)
    return config


def same_value(one: Any, other: Any) -> bool:
    """Return True if two values of a parameter are equal; False if that cannot be told."""
    if one is other:
        return True
    try:
        return bool(np.all(one == other))
    except (TypeError, ValueError):  # such as arrays inside mappings
        return False


def read_whole(name: str, value: Any) -> int:
    """Return a whole number as an int."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InputError(f"{name} must be a whole number, got {value!r}.")
    return int(value)


def read_count(name: str, value: Any) -> int:
    """Return a whole number from 0 as an int."""
    if not isinstance(value, Integral) or value < 0:
        raise InputError(f"{name} must be a whole number from 0, got {value!r}.")
    return int(value)


def read_resolution(value: Any) -> float:
    """Return the resolution of groups, a number from 0."""
    if not isinstance(value, Real) or not float(value) >= 0:
        raise InputError(f"resolution must be a number from 0, got {value!r}.")
    return float(value)


def read_seed(random_state: Any) -> int:
    """Return the seed that `random_state` means: fresh entropy for None.

    A generator gives one number, so that two models that share it differ.
    """
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> 1)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**63, dtype=np.uint64))
    if isinstance(random_state, Integral) and 0 <= int(random_state) < 2**63:
        return int(random_state)
    raise InputError(
        "random_state must be a whole number from 0, a numpy Generator or RandomState, or None, "
        f"got {random_state!r}."
    )


def seed_for(name: str) -> int:
    """Return the seed of a name, such as that of a job: the same on every machine."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass"))
    return int.from_bytes(digest.digest()[:7], "little")


def read_kernel(kernel: Any, half_life: Any) -> Kernel:
    """Return the forgetting kernel: `kernel` itself, a function of age, or the half-life."""
    if kernel is None:
        return Exponential(read_half_life(half_life))
    if not isinstance(kernel, type) and hasattr(kernel, "weight") and hasattr(kernel, "capacity"):
        chosen: Kernel = kernel
    elif callable(kernel) and not isinstance(kernel, type):
        chosen = Windowed(kernel)
    else:
        raise InputError(
            "kernel must be a Kernel such as Box(length=10), or a function that takes an array of "
            f"ages and returns weights, got {kernel!r}."
        )
    if chosen.weight(np.zeros(1))[0] != 1.0:
        raise InputError("a kernel must give weight 1 to age 0.")
    return chosen


def family_kind(choice: Any) -> Family | type[Family]:
    """Return the family, or its class, that the parameter `family` means."""
    if isinstance(choice, str):
        return Auto if choice == AUTO else family_class(choice)
    if isinstance(choice, Family) or (isinstance(choice, type) and issubclass(choice, Family)):
        return choice
    if isinstance(choice, Mapping | Sequence):
        return Product
    raise InputError(
        f"family must be one of {AUTO}, {', '.join(sorted(FAMILIES))}, an instance of Family, or "
        f"pairs (family, columns) for a table of mixed columns, got {choice!r}."
    )


def first_family(
    choice: Any,
    prior: Any,
    config: Config,
    X: Rows,
    weight: Array | None,
    *,
    column_names: Names = None,
    levels: Levels | None = None,
    kernels: Kernels = REFERENCE,
) -> Family:
    """Return the family of a stream with the prior that the first batch and `prior` determine."""
    kind = family_kind(choice)
    if isinstance(kind, Family):
        if prior not in ("auto", "weak"):
            raise InputError(
                "family is an instance and brings its own prior; leave prior at 'auto', or give "
                "the family by name."
            )
        return kind.with_kernels(kernels)
    if kind is Product:
        parts = read_parts(choice, column_names)
        if levels is not None:
            parts = [
                (_with_levels(k, columns, levels, column_names), columns) for k, columns in parts
            ]
        weak: Family = Product.from_spec(X, parts, weight=weight)
    else:
        known: Any = kind
        if levels is not None:
            known = _with_levels(kind, range(X.shape[1]), levels, column_names)
        weak = known if isinstance(known, Family) else known.weak_prior(X, weight)
    weak = weak.with_kernels(kernels)
    if isinstance(prior, Mapping):
        return with_prior(weak, prior).with_kernels(kernels)
    if prior not in ("auto", "weak"):
        raise InputError(
            f"prior must be 'auto', 'weak' or a dict of hyperparameters, got {prior!r}."
        )
    weak.check(X)
    return data_driven_prior(weak, config, X, weight) if prior == "auto" else weak


def _with_levels(kind: Any, columns: Iterable[int], levels: Levels, column_names: Names) -> Any:
    """Return the categorical family of columns whose levels are known, others as they are."""
    known = {column: levels[column] for column in columns}
    if isinstance(kind, Categorical):
        return kind
    if kind in (Categorical, Categorical.name) and None not in known.values():
        return Categorical(n_levels=tuple(len(each or ()) + 1 for each in known.values()))
    for column, each in known.items():
        if each not in (None, BOOLEAN):
            name = column if column_names is None else repr(column_names[column])
            raise InputError(
                f"column {name} holds categories, which are not numbers; leave it out, or describe "
                "it by family='auto' or family='categorical'."
            )
    return kind


def with_prior(family: Family, prior: Mapping[str, ArrayLike]) -> Family:
    """Return the family with some hyperparameters replaced.

    One number means a vector of it, or a multiple of the identity matrix; a vector means a diagonal
    matrix.
    """
    if isinstance(family, Product):
        raise InputError(
            "a dict cannot give the priors of mixed columns; pass family=Product([(Poisson(...), "
            "columns), ...]) with a prior in every part."
        )
    known = family.hyperparameters()
    unknown = [name for name in prior if name not in known]
    if unknown:
        raise InputError(
            f"the {family.name} family has no hyperparameter {unknown[0]!r}; it has "
            f"{', '.join(known)}."
        )
    if "n_levels" in prior:
        known["concentration"] = 1.0  # its length follows from n_levels
    shaped = {name: _shaped(name, value, known[name]) for name, value in prior.items()}
    return type(family)(**{**known, **shaped})


def read_parts(choice: Any, column_names: Names) -> list[tuple[Any, list[int]]]:
    """Return (family, columns) pairs with columns as positions."""
    if isinstance(choice, str | type):
        raise InputError("a product needs to know its columns: pass pairs (family, columns).")
    pairs = list(choice.items()) if isinstance(choice, Mapping) else list(choice)
    parts = []
    for pair in pairs:
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise InputError(f"family must hold pairs (family, columns), but one is {pair!r}.")
        kind, columns = pair
        if isinstance(columns, str | Integral):
            columns = [columns]
        parts.append((kind, [_position(column, column_names) for column in columns]))
    return parts


def _shaped(name: str, value: Any, like: Any) -> Any:
    """Expand a value to the shape of the one it replaces, if the meaning is clear."""
    try:
        given = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must hold numbers: {error}.") from error
    if not np.isfinite(given).all():
        raise InputError(f"{name} must hold finite numbers, got {value!r}.")
    shape = np.shape(like)
    if len(shape) == 2 and given.ndim < 2:
        return np.diag(np.broadcast_to(given, shape[:1]) if given.ndim == 0 else given)
    if given.ndim == 0:
        return np.full(shape, given) if shape else float(given)
    return given


def _position(column: Any, column_names: Names) -> int:
    if isinstance(column, Integral):
        return int(column)
    if column_names is None:
        raise InputError(
            f"family names the column {column!r} but X has no column names; pass a table, or "
            "columns by position."
        )
    if column not in column_names:
        raise InputError(f"X has no column {column!r}; it has {', '.join(map(str, column_names))}.")
    return list(column_names).index(column)
