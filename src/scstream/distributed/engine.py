"""The functions of Ray that this package uses.

The library is imported by `ray`, so that scstream works without it. `unwrap` turns its errors into
`EngineError` and `PartsLost`, whose messages say what to do.

Ray runs *actors*: objects in processes of their own, on any node of a cluster. A call of an actor
returns a *reference* at once; `get` waits for the value behind it. Values that were sent with `put`
are in the object store of the cluster, which all nodes can read.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from threading import Lock
from typing import Any, TypeAlias

from scstream.errors import EngineError, PartsLost, missing_extra
from scstream.io.header import Plain

Actor: TypeAlias = Any  # a handle of an actor; Ray has no types for it
ActorOptions: TypeAlias = Plain  # of `ray.remote(...).options`, by name

_CONNECTING = Lock()  # two threads must not start two clusters


def ray() -> Any:
    """Import Ray; raise an error that names the extra if it is not installed."""
    try:
        import ray as library
    except ImportError as error:
        raise missing_extra("ray", "ray") from error
    return library


def connect(address: str | None) -> None:
    """Connect this process to a Ray cluster, unless it is connected already.

    If `address` is None, use the cluster in the environment variable RAY_ADDRESS; if that is not
    set, start a new cluster on this machine.
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
    """Return the number of processors of every node, by node id.

    Nodes that are down or have no processors are left out.
    """
    found = {
        node["NodeID"]: node["Resources"].get("CPU", 0.0) for node in ray().nodes() if node["Alive"]
    }
    return {name: found[name] for name in sorted(found) if found[name]}


def placement(node: str | None, *, soft: bool = False) -> Any:
    """Return the option `scheduling_strategy` of an actor: where Ray starts it.

    Without a node, Ray spreads actors over the cluster. With `soft`, Ray may use another node if
    the given one is gone.
    """
    if node is None:
        return "SPREAD"
    strategies = ray().util.scheduling_strategies
    return strategies.NodeAffinitySchedulingStrategy(node, soft=soft)


def loss_errors() -> tuple[type[Exception], ...]:
    """Return the errors of Ray for a worker or an object that is gone.

    After one of these errors, the call can be repeated on another worker.
    """
    found = ray().exceptions
    return (
        found.NodeDiedError,
        found.ObjectLostError,  # also if the process that created the object has ended
        found.OutOfMemoryError,  # Ray has killed the worker because its node ran out of memory
        found.RayActorError,  # the actor has ended, or is being restarted
        found.WorkerCrashedError,
    )


def put(value: Any) -> Any:
    """Copy a value to the object store of the cluster; return its reference."""
    try:
        return ray().put(value)
    except ray().exceptions.RayError as error:
        raise unwrap(error) from error


def get(references: list[Any], *, deadline: float) -> list[Any]:
    """Wait for the values of references, at most `deadline` seconds, and return them."""
    try:
        found: list[Any] = ray().get(references, timeout=deadline)
    except ray().exceptions.RayError as error:
        raise unwrap(error) from None
    return found


def locations(references: Sequence[Any]) -> list[list[str]]:
    """Return the ids of the nodes that store each of some objects; none if that is unknown."""
    found = ray().experimental.get_object_locations(list(references))
    return [found.get(reference, {}).get("node_ids", []) for reference in references]


def unwrap(error: Any) -> Exception:
    """Return the error to raise in place of an error of Ray.

    If code of scstream raised it on a worker, that is the original error. Otherwise it is
    `PartsLost` if data was lost with a worker, and `EngineError` for all other failures.
    """
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
    """Return the type of an error and one sentence of its message, as one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    # If a worker could not start, the message is the log of the worker, and its last line has the
    # cause. Other messages begin with the cause.
    is_log = getattr(error, "actor_init_failed", False)
    sentence = lines[-1] if is_log else lines[0].split(". ")[0]
    return f"{type(error).__name__}: {sentence.rstrip('.')}"
