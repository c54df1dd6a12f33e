"""The few functions of Ray that this package uses, with errors that say what to do."""

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
    """Connect this process to a cluster, unless it is connected already.

    Without an address: the cluster that RAY_ADDRESS names, or a new one on this machine.
    """
    library = ray()
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    failures = (ConnectionError, RuntimeError, ValueError, library.exceptions.RayError)
    with _CONNECTING:
        if library.is_initialized():
            return
        try:
            library.init(address=address, log_to_driver=False, logging_level="ERROR")
        except failures as error:
            raise EngineError(
                f"no Ray cluster answers at {address!r}: {error}; start one with `ray start "
                "--head`, or leave the address out to start one on this machine."
            ) from error


def nodes() -> dict[str, float]:
    """Return the number of processors of each live node that has any, by node id."""
    found = {
        node["NodeID"]: node["Resources"].get("CPU", 0.0) for node in ray().nodes() if node["Alive"]
    }
    return {name: found[name] for name in sorted(found) if found[name]}


def placement(node: str | None, *, soft: bool = False) -> Any:
    """Return the scheduling strategy for a node, or for any node."""
    if node is None:
        return "SPREAD"
    strategies = ray().util.scheduling_strategies
    return strategies.NodeAffinitySchedulingStrategy(node, soft=soft)


def loss_errors() -> tuple[type[Exception], ...]:
    """Return the errors that mean that a worker or an object is gone; the call can be repeated."""
    found = ray().exceptions
    return (
        found.NodeDiedError,
        found.ObjectLostError,  # includes the death of the owner
        found.OutOfMemoryError,  # Ray kills a worker when its node runs out of memory
        found.RayActorError,  # dead or restarting
        found.WorkerCrashedError,
    )


def put(value: Any) -> Any:
    """Store a value in the cluster and return its reference."""
    try:
        return ray().put(value)
    except ray().exceptions.RayError as error:
        raise unwrap(error) from error


def get(references: list[Any], *, deadline: float) -> list[Any]:
    """Return the values of references."""
    try:
        found: list[Any] = ray().get(references, timeout=deadline)
    except ray().exceptions.RayError as error:
        raise unwrap(error) from None
    return found


def unwrap(error: Any) -> Exception:
    """Return the cause of an error of Ray: an error of our own code, lost data, or the cluster."""
    errors = ray().exceptions
    cause = error.cause if isinstance(error, errors.RayTaskError) else error
    if not isinstance(cause, errors.RayError):
        return cause if isinstance(cause, Exception) else error
    if isinstance(cause, loss_errors()):
        return PartsLost(f"data was lost with a node ({summary(cause)}); learn the batch again.")
    return EngineError(
        f"the Ray cluster failed ({summary(cause)}); look at it with `ray status`, then learn the "
        "batch again."
    )


def summary(error: BaseException) -> str:
    """Return the type of an error and the important part of its message, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    # If a worker could not start, Ray's message is its whole log: the cause is in the last line.
    is_log = getattr(error, "actor_init_failed", False)
    sentence = lines[-1] if is_log else lines[0].split(". ")[0]
    return f"{type(error).__name__}: {sentence.rstrip('.')}"
