"""Cluster a stream of batches: find the number of clusters, follow drift, keep their ids.

`ScStream` is the estimator. `scstream.datasets`, `scstream.metrics`, `scstream.plot`,
`scstream.families`, `scstream.errors` and `scstream.testing` are modules that are loaded when they
are first used, as all names of this package are: importing it loads no other library.

Examples
--------
>>> import scstream
>>> model = scstream.ScStream(half_life=20.0, random_state=0)
>>> stream = scstream.datasets.drifting_gaussians(n_clusters=3, n_batches=5, random_state=1)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scstream.core.config import Config
    from scstream.core.window import Box, Exponential, Windowed
    from scstream.estimator import ScStream
    from scstream.machine import show_config

__version__ = "0.1.0"

__all__ = [
    "Box",
    "Config",
    "Exponential",
    "ScStream",
    "Windowed",
    "__version__",
    "show_config",
]

_HOME = {
    "Box": "scstream.core.window",
    "Config": "scstream.core.config",
    "Exponential": "scstream.core.window",
    "ScStream": "scstream.estimator",
    "Windowed": "scstream.core.window",
    "show_config": "scstream.machine",
}


_MODULES = ("datasets", "errors", "families", "metrics", "plot", "testing")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
