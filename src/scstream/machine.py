"""Information about the installation: kernels, cores and libraries."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from typing import Any, Literal, TypeAlias, TypedDict, overload

from scstream.kernels import choose_kernels
from scstream.kernels.native import available_isas, load_native

Installation: TypeAlias = dict[str, Any]  # by the keys that `show_config` documents
_PACKAGES = ("scstream", "numpy", "scipy", "scikit-learn")


@overload
def show_config(*, as_dict: Literal[False] = ...) -> None: ...
@overload
def show_config(*, as_dict: Literal[True]) -> Installation: ...
def show_config(*, as_dict: bool = False) -> Installation | None:
    """Print the kernels in use, the machine and the versions of libraries.

    Include this in reports of bugs and measurements.

    Parameters
    ----------
    as_dict
        Return a dict instead of printing.

    Returns
    -------
    dict or None
        With ``as_dict=True``, by these keys: ``scstream``, ``python``, ``numpy``, ``scipy`` and
        ``scikit-learn`` are versions; ``platform`` is the system; ``kernels`` is "native" or
        "numpy" and ``why`` the reason; ``isa`` is the instruction set in use, None for numpy, and
        ``isas`` are those to choose from; ``cores`` is the number of cores that this process may
        use; ``blas`` has the name, version and number of threads of every BLAS library.

    Examples
    --------
    >>> import scstream
    >>> scstream.show_config()
    scstream         ...
    python           ...
    platform         ...
    kernels          ...
    >>> scstream.show_config(as_dict=True)["kernels"] in ("native", "numpy")
    True
    """
    config = _config()
    if as_dict:
        return config
    print("\n".join(f"{name:<15}  {value}" for name, value in _lines(config)))  # noqa: T201
    return None


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _config() -> Installation:
    kernels, reason = _kernels()
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
        "kernels": "numpy" if kernels == "numpy" else "native",
        "why": reason,
        "isa": None if kernels == "numpy" else kernels,
        "isas": [] if kernels == "numpy" else available_isas(),
        "cores": usable_cores(),
        **{package: version(package) for package in _PACKAGES},
        "blas": _blas(),
    }


def _kernels() -> tuple[str, str]:
    """Return the name of the kernels of new models, and why they are chosen."""
    name = choose_kernels().name
    if name != "numpy":
        return name, "compiled for this platform"
    if load_native() is not None:
        return name, "SCSTREAM_KERNELS is numpy"
    try:
        import_module("scstream._native")
    except ModuleNotFoundError:
        return name, "this installation has no compiled kernels"
    except ImportError as error:
        return name, f"the compiled kernels cannot be loaded: {error}"
    return name, "SCSTREAM_KERNELS is numpy"


class _Blas(TypedDict):
    name: str
    version: str | None
    threads: int


def _blas() -> list[_Blas]:
    import scipy.linalg  # noqa: F401  # loads its own BLAS, and that of numpy
    from threadpoolctl import threadpool_info

    return [
        {"name": pool["internal_api"], "version": pool["version"], "threads": pool["num_threads"]}
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    ]


def _lines(config: Installation) -> Iterator[tuple[str, str]]:
    """Yield the lines of the table: name and value."""
    for name in ("scstream", "python", "platform"):
        yield name, config[name]
    yield "kernels", f"{config['kernels']} ({config['why']})"
    if config["isa"] is not None:
        yield "instruction set", f"{config['isa']} (of {', '.join(config['isas'])})"
    yield "cores", str(config["cores"])
    for name in _PACKAGES[1:]:
        yield name, config[name]
    for blas in config["blas"]:
        yield "BLAS", f"{blas['name']} {blas['version']}, threads: {blas['threads']}"
