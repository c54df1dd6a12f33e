"""Work on a Ray cluster: large batches, keyed models and read replicas. Needs the extra `ray`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scstream.distributed.executor import RayExecutor
    from scstream.distributed.keyed_pool import RayPool
    from scstream.distributed.replicas import Replicas

__all__ = ["RayExecutor", "RayPool", "Replicas"]

_MODULES = {"RayExecutor": "executor", "RayPool": "keyed_pool", "Replicas": "replicas"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
