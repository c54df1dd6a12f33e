"""What a user may write for a parameter, and the family, kernel or configuration it stands for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np

from scstream.core.start import data_driven_prior
from scstream.core.state import Config, check_config
from scstream.core.window import Exponential, Kernel, Windowed
from scstream.errors import InputError
from scstream.families import FAMILIES, Family, Product, family_class
from scstream.families.base import Array, Rows

Names: TypeAlias = Sequence[str] | None

_OWN_PARAMETER = {"seed", "alpha", "kernel", "n_sweeps", "max_clusters", "late"}
SWITCHES = tuple(field.name for field in fields(Config) if field.name not in _OWN_PARAMETER)


def read_config(
    *,
    algorithm: str,
    half_life: float | None,
    kernel: Any,
    random_state: Any,
    switches: Mapping[str, Any] | None,
    **numbers: Any,
) -> Config:
    """Build the configuration that the parameters of an estimator stand for.

    Parameters
    ----------
    algorithm : {"default", "paper"}
        Which settings of the switches to begin with.
    half_life : float or None
        Used where `kernel` is None.
    kernel : Kernel, callable or None
        See `read_kernel`.
    random_state : int, Generator, RandomState or None
        See `read_seed`.
    switches : mapping or None
        Fields of `Config` to set one by one.
    **numbers : float, int or str
        The other fields that have a parameter of their own.

    Returns
    -------
    Config
        A configuration that has been checked.

    Examples
    --------
    >>> from scstream.io.choices import read_config
    >>> config = read_config(
    ...     algorithm="default",
    ...     half_life=5.0,
    ...     kernel=None,
    ...     random_state=7,
    ...     switches={"motion": False},
    ...     alpha=1.0,
    ... )
    >>> config.seed, config.motion
    (7, False)
    """
    makers: dict[str, Callable[..., Config]] = {"default": Config, "paper": Config.paper}
    if algorithm not in makers:
        raise InputError(f"algorithm must be 'default' or 'paper', got {algorithm!r}.")
    switches = dict(switches or {})
    unknown = [name for name in switches if name not in SWITCHES]
    if unknown:
        raise InputError(
            f"there is no switch {unknown[0]!r}; the switches are {', '.join(SWITCHES)}."
        )
    if numbers.get("n_sweeps", 0) is None:
        del numbers["n_sweeps"]
    for name in ("alpha", "n_sweeps", "max_clusters"):
        kind = Real if name == "alpha" else Integral
        if name in numbers and (not isinstance(numbers[name], kind) or numbers[name] is True):
            sort = "a number" if kind is Real else "a whole number"
            raise InputError(f"{name} must be {sort}, got {numbers[name]!r}.")
    config = makers[algorithm](
        seed=read_seed(random_state),
        kernel=read_kernel(kernel, half_life),
        **numbers,
        **switches,
    )
    check_config(config)
    return config


def read_seed(random_state: Any) -> int:
    """Return the seed that a `random_state` stands for; fresh entropy for None.

    Parameters
    ----------
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        A generator is asked for one number, so two models that share it differ.

    Returns
    -------
    int
        A seed below 2 ** 63.

    Examples
    --------
    >>> from scstream.io.choices import read_seed
    >>> read_seed(3)
    3
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
    """Return the seed of what has a name and was given none: the same on every machine.

    Parameters
    ----------
    name : str
        Any text, such as the name of a job.

    Returns
    -------
    int
        A seed below 2 ** 56.

    Examples
    --------
    >>> from scstream.io.choices import seed_for
    >>> seed_for("demo") == seed_for("demo"), seed_for("demo") == seed_for("other")
    (True, False)
    """
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass"))
    return int.from_bytes(digest.digest()[:7], "little")


def read_kernel(kernel: Any, half_life: Any) -> Kernel:
    """Return the kernel that is meant: `kernel` itself, a function of age, or the half life.

    Parameters
    ----------
    kernel : Kernel, callable or None
        A function takes an array of ages and returns weights; it is cut off as `Windowed` does.
    half_life : float or None
        Half life of the exponential kernel where `kernel` is None; None never forgets.

    Returns
    -------
    Kernel
        A kernel of weight one at age zero.

    Examples
    --------
    >>> from scstream.io.choices import read_kernel
    >>> read_kernel(None, 5.0)
    Exponential(half_life=5.0, capacity=0)
    """
    if kernel is None:
        if half_life is None or half_life == np.inf:
            return Exponential(None)
        if not (isinstance(half_life, Real) and float(half_life) > 0):
            raise InputError(
                f"half_life must be a positive number, got {half_life!r}; pass half_life=None to "
                "never forget."
            )
        return Exponential(float(half_life))
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
    """Return the family, or its class, that the parameter `family` stands for.

    Parameters
    ----------
    choice : str, Family or subclass, or (family, columns) pairs for a table of mixed columns
        What a user wrote.

    Returns
    -------
    Family or subclass
        Tells before the first batch whether rows may be sparse or have missing entries.

    Examples
    --------
    >>> from scstream.io.choices import family_kind
    >>> family_kind({"diagonal": ["height"], "bernoulli": ["smokes"]}).__name__
    'Product'
    """
    if isinstance(choice, str):
        return family_class(choice)
    if isinstance(choice, Family) or (isinstance(choice, type) and issubclass(choice, Family)):
        return choice
    if isinstance(choice, Mapping | Sequence):
        return Product
    raise InputError(
        f"family must be one of {', '.join(sorted(FAMILIES))}, an instance of Family, or pairs "
        f"(family, columns) for a table of mixed columns, got {choice!r}."
    )


def first_family(
    choice: Any, prior: Any, config: Config, X: Rows, weight: Array | None, *, names: Names = None
) -> Family:
    """Build the family for a stream from its first batch.

    Parameters
    ----------
    choice : str, Family or subclass, or (family, columns) pairs
        The parameter `family`.
    prior : "auto", "vague" or mapping
        The parameter `prior`.
    config : Config
        Configuration of the model.
    X : array or CSR array of shape (N, D)
        Rows of the first batch.
    weight : array of shape (N,) or None
        Their weights.
    names : sequence of str, optional
        Names of the columns.

    Returns
    -------
    Family
        With the prior that the model will keep.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.core.state import Config
    >>> from scstream.io.choices import first_family
    >>> X = np.array([[0.0, 0.0], [1.0, 2.0]])
    >>> first_family("gaussian", {"mean": 0, "psi": 4.0}, Config(), X, None).psi
    array([[4., 0.],
           [0., 4.]])
    """
    kind = family_kind(choice)
    if isinstance(kind, Family):
        if prior not in ("auto", "vague"):
            raise InputError(
                "family is an instance and brings its own prior; leave prior at 'auto', or give "
                "the family by name."
            )
        return kind
    if kind is Product:
        vague: Family = Product.from_spec(X, read_parts(choice, names), weight=weight)
    else:
        vague = kind.weak_prior(X, weight)
    if isinstance(prior, Mapping):
        return with_prior(vague, prior)
    if prior not in ("auto", "vague"):
        raise InputError(
            f"prior must be 'auto', 'vague' or a dict of hyperparameters, got {prior!r}."
        )
    vague.check(X)
    return data_driven_prior(vague, config, X, weight) if prior == "auto" else vague


def with_prior(family: Family, prior: Mapping[str, Any]) -> Family:
    """Return the family with some of its hyperparameters replaced.

    Parameters
    ----------
    family : Family
        Gives the sizes, and the hyperparameters that `prior` leaves out.
    prior : mapping
        Hyperparameters by name. One number stands for a vector of it, or for a multiple of the
        identity matrix; a vector stands for a diagonal matrix.

    Returns
    -------
    Family
        A new instance.

    Examples
    --------
    >>> import numpy as np
    >>> from scstream.families import Multinomial
    >>> from scstream.io.choices import with_prior
    >>> with_prior(Multinomial(np.ones(3)), {"concentration": 0.5}).concentration
    array([0.5, 0.5, 0.5])
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


def read_parts(choice: Any, names: Names) -> list[tuple[Any, list[int]]]:
    """Return (family, columns) pairs with columns as positions.

    Parameters
    ----------
    choice : mapping or sequence of pairs
        Families with columns by name or position; one column need not be put in a list.
    names : sequence of str or None
        Names of the columns.

    Returns
    -------
    list of (family, list of int)
        What `Product.from_spec` takes.

    Examples
    --------
    >>> from scstream.io.choices import read_parts
    >>> read_parts({"poisson": "visits", "diagonal": [0, 2]}, ["size", "visits", "mass"])
    [('poisson', [1]), ('diagonal', [0, 2])]
    """
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
        parts.append((kind, [_position(column, names) for column in columns]))
    return parts


def _shaped(name: str, value: Any, like: Any) -> Any:
    """Spread a value over the shape of the one it replaces, as far as the meaning is plain."""
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


def _position(column: Any, names: Names) -> int:
    if isinstance(column, Integral):
        return int(column)
    if names is None:
        raise InputError(
            f"family names the column {column!r} but X has no column names; pass a table, or "
            "columns by position."
        )
    if column not in names:
        raise InputError(f"X has no column {column!r}; it has {', '.join(map(str, names))}.")
    return list(names).index(column)
