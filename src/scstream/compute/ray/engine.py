"""The little of Ray that is used here, with errors that say what to do."""

from __future__ import annotations

import os
from typing import Any

from scstream.errors import EngineError, missing_extra


def ray() -> Any:
    """Return the library."""
    try:
        import ray as library
    except ImportError as error:
        raise missing_extra("ray", "ray") from error
    return library


def connect(address: str | None) -> None:
    """Make this process a driver, unless it is one already.

    Without an address: of the cluster that RAY_ADDRESS names, or of a new one on this machine.
    """
    library = ray()
    if library.is_initialized():
        return
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    try:
        library.init(address=address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise EngineError(
            f"no Ray cluster answers at {address!r}: {error}; start one with `ray start --head`, "
            "or leave the address out to have one on this machine."
        ) from error


def lost() -> tuple[type[Exception], ...]:
    """Errors of a worker or an object that is gone, through no fault of what was asked."""
    found = ray().exceptions
    return (
        found.ActorDiedError,
        found.ActorUnavailableError,
        found.NodeDiedError,
        found.ObjectLostError,  # an owner that died is one of these
        found.RayActorError,
        found.WorkerCrashedError,
    )
