"""Clusters a stream of batches: finds their number, follows drift, keeps ids for life.

`ScStream` is the estimator; `show_config` says what it runs on. The rooms are `scstream.datasets`,
`scstream.metrics`, `scstream.families`, `scstream.errors`, `scstream.testing` and `scstream.river`.

Importing this package loads no other library; a name is loaded when it is first used.

Examples
--------
>>> import scstream
>>> model = scstream.ScStream(half_life=20.0, random_state=0)
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


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
