"""Conformance kits: hand in your own implementation, they say which law it breaks."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scstream.testing.families import FAMILY_LAWS, check_family
    from scstream.testing.streams import SINK_LAWS, SOURCE_LAWS, check_sink, check_source

__all__ = [
    "FAMILY_LAWS",
    "SINK_LAWS",
    "SOURCE_LAWS",
    "check_family",
    "check_sink",
    "check_source",
]

_HOME = {
    "FAMILY_LAWS": "scstream.testing.families",
    "SINK_LAWS": "scstream.testing.streams",
    "SOURCE_LAWS": "scstream.testing.streams",
    "check_family": "scstream.testing.families",
    "check_sink": "scstream.testing.streams",
    "check_source": "scstream.testing.streams",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
