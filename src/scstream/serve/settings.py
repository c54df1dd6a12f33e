"""The settings of the service."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from ipaddress import ip_address

from scstream.errors import InputError

EXPOSED = (
    "the service is reachable from other machines and has no token: anyone who reaches it can read "
    "the model, and update it with --learn; set SCSTREAM_TOKEN or give --token-file."
)


@dataclass(frozen=True)
class ServiceSettings:
    """Address, token and limits of the service.

    Parameters
    ----------
    host : str
        Address to listen on; by default only this machine can connect.
    port : int
        Port to listen on; 0 for any free one.
    token : str or None
        Clients must send it as ``Authorization: Bearer ...``; it is never shown.
    write_token : str or None
        Clients that edit clusters must send this one; without it there are no edits.
    learn : bool
        Allow ``POST /learn``.
    hosts : tuple of str
        Allowed values of the Host header, besides the address itself.
    proxy : bool
        Take the address of the client from ``X-Forwarded-For``. Set it only behind a proxy that
        overwrites this header.
    body_bytes : int
        Largest body of a request.
    bodies_bytes : int
        Largest sum of all bodies in memory.
    rows : int
        Largest number of rows in a request.
    cells : int
        Largest number of probabilities in a response: rows times clusters.
    body_seconds : float
        Time for a body to arrive.
    answer_seconds : float
        Time for a response.
    idle_seconds : float
        Time after which an idle connection is closed.
    connections : int
        Largest number of connections; beyond it, requests get 503. One address may have half of
        them, unless `proxy` is set. Health checks are answered in any case.
    requests : int
        Largest number of requests under way.
    waiting : int
        Largest number of batches that wait to be learned.
    threads : int
        Threads for large requests.
    stale : float
        Seconds without a heartbeat of the pipeline after which the service is not ready; of a
        pipeline without a lease, the age of the newest checkpoint. 0 for any.
    drain : float
        Seconds between a signal to end and the last accepted connection. In that time a load
        balancer can see that the service is no longer ready.
    patience : float
        Seconds that responses under way then have to finish.
    access_log : bool
        Log every request.

    Examples
    --------
    >>> from scstream.serve.settings import ServiceSettings
    >>> (
    ...     ServiceSettings(token="hunter2").is_local,
    ...     "hunter2" in repr(ServiceSettings(token="hunter2")),
    ... )
    (True, False)
    >>> ServiceSettings(rows=0)
    Traceback (most recent call last):
    ...
    scstream.errors.InputError: rows of the service must be at least 1, got 0.
    """

    host: str = "127.0.0.1"
    port: int = 8765
    token: str | None = field(default=None, repr=False)
    write_token: str | None = field(default=None, repr=False)
    learn: bool = False
    hosts: tuple[str, ...] = ()
    proxy: bool = False
    body_bytes: int = 2**24
    bodies_bytes: int = 2**27
    rows: int = 100_000
    cells: int = 2_000_000
    body_seconds: float = 10.0
    answer_seconds: float = 30.0
    idle_seconds: float = 60.0
    connections: int = 1000
    requests: int = 64
    waiting: int = 8
    threads: int = 2
    stale: float = 0.0
    drain: float = 0.0
    patience: float = 30.0
    access_log: bool = False

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            if not getattr(self, name) >= least:
                raise InputError(
                    f"{name} of the service must be at least {least}, got {getattr(self, name)!r}."
                )
        for token in (self.token, self.write_token):
            if token is not None and (not token.isascii() or not token.strip()):
                raise InputError("a token of the service must be ASCII text, and not empty.")
        if self.write_token is not None and self.write_token == self.token:
            raise InputError("the write token must differ from the token for reading.")

    @property
    def is_local(self) -> bool:
        """True if only this machine can connect."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def is_exposed(self) -> bool:
        """True if other machines can connect without a token."""
        return not self.is_local and self.token is None


_LEAST = {
    each.name: 1 if each.type == "int" and each.name != "port" else 0
    for each in fields(ServiceSettings)
    if each.type in ("int", "float")
}
