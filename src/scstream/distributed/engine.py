"""The little of Ray that is used here, with errors that say what to do."""

from __future__ import annotations

import os
from threading import Lock
from typing import Any

from scstream.errors import EngineError, PartsLost, missing_extra

_CONNECTING = Lock()


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
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    refused = (ConnectionError, RuntimeError, ValueError, library.exceptions.RayError)
    with _CONNECTING:
        if library.is_initialized():
            return
        try:
            library.init(address=address, log_to_driver=False, logging_level="ERROR")
        except refused as error:
            raise EngineError(
                f"no Ray cluster answers at {address!r}: {error}; start one with `ray start "
                "--head`, or leave the address out to have one on this machine."
            ) from error


def nodes() -> dict[str, float]:
    """Return how many processors there are on each node that is alive and has any, by its id."""
    found = {
        node["NodeID"]: node["Resources"].get("CPU", 0.0) for node in ray().nodes() if node["Alive"]
    }
    return {name: found[name] for name in sorted(found) if found[name]}


def lost() -> tuple[type[Exception], ...]:
    """Errors of a worker or an object that is gone, through no fault of what was asked."""
    found = ray().exceptions
    return (
        found.NodeDiedError,
        found.ObjectLostError,  # an owner that died is one of these
        found.OutOfMemoryError,  # of its node, where Ray then ends somebody
        found.RayActorError,  # dead, or about to come back
        found.WorkerCrashedError,
    )


def put(value: Any) -> Any:
    """Return a reference by which everybody finds the value."""
    try:
        return ray().put(value)
    except ray().exceptions.RayError as error:
        raise fault(error) from error


def get(references: list[Any], *, deadline: float) -> list[Any]:
    """Return what references lead to."""
    try:
        found: list[Any] = ray().get(references, timeout=deadline)
    except ray().exceptions.RayError as error:
        raise fault(error) from None
    return found


def fault(error: Any) -> Exception:
    """Return what went wrong: what somebody was asked, what he lacked, or the cluster."""
    errors = ray().exceptions
    cause = error.cause if isinstance(error, errors.RayTaskError) else error
    if not isinstance(cause, errors.RayError):
        return cause if isinstance(cause, Exception) else error
    if isinstance(cause, lost()):
        return PartsLost(f"something went with a node ({said(cause)}); learn the batch again.")
    return EngineError(
        f"the Ray cluster failed ({said(cause)}); look at it with `ray status`, then learn the "
        "batch again."
    )


def said(error: BaseException) -> str:
    """Return the kind of an error and what of its message matters, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    # Of a worker that could not start Ray tells the whole story; the end is what happened.
    tells_all = getattr(error, "actor_init_failed", False)
    sentence = lines[-1] if tells_all else lines[0].split(". ")[0]
    return f"{type(error).__name__}: {sentence.rstrip('.')}"
