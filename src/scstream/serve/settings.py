"""Every limit and choice of the service, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from ipaddress import ip_address

from scstream.errors import InputError

EXPOSED = (
    "the service listens beyond this machine and asks for no token: whoever reaches it can ask it, "
    "and can learn with it if --learn is given; set SCSTREAM_TOKEN or give --token-file."
)


@dataclass(frozen=True)
class ServiceSettings:
    """What the service allows.

    Parameters
    ----------
    host : str
        Where the service listens; the name of this machine alone by default.
    port : int
        The port; 0 for any free one.
    token : str or None
        Who asks must send it, as ``Authorization: Bearer ...``; it is never shown.
    learn : bool
        Whether rows may be learned with ``POST /learn``.
    hosts : tuple of str
        Names under which the service may be addressed, besides those of its own address.
    proxy : bool
        Whether a proxy stands before the service: the client is the one that its header
        ``X-Forwarded-For`` names. Without a proxy anybody could write that header.
    body_bytes : int
        Longest body of a request.
    bodies_bytes : int
        Longest that all bodies in memory may be together.
    header_bytes : int
        Longest head of a request: address and headers.
    rows : int
        Most rows in one request.
    cells : int
        Most numbers in an answer: rows times clusters, where all probabilities are asked for.
    body_seconds : float
        Time for a request to arrive: its head, and then its body.
    answer_seconds : float
        Time for an answer.
    idle_seconds : float
        Time after which a connection without requests is closed.
    connections : int
        Most connections.
    requests : int
        Most requests at a time.
    rate : float
        Requests per second that one client may send for long; 0 for no limit.
    burst : float
        Requests that a client may send at once.
    clients : int
        Most clients whose rate is known; the one that was silent for longest is forgotten.
    waiting : int
        Most batches that wait to be learned.
    threads : int
        Threads for large questions.
    stale : float
        Age of the followed checkpoint in seconds beyond which the service is not ready; 0 for any.
    drain : float
        Seconds between a signal to end and the last accepted connection: time for a load balancer
        to see that the service is not ready any more.
    patience : float
        Seconds that answers in the making have after that.
    access_log : bool
        Whether every request is announced.

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
    scstream.errors.InputError: rows of the service must be 1 or more, got 0.
    """

    host: str = "127.0.0.1"
    port: int = 8765
    token: str | None = field(default=None, repr=False)
    learn: bool = False
    hosts: tuple[str, ...] = ()
    proxy: bool = False
    body_bytes: int = 2**24
    bodies_bytes: int = 2**27
    header_bytes: int = 2**15
    rows: int = 100_000
    cells: int = 2_000_000
    body_seconds: float = 10.0
    answer_seconds: float = 30.0
    idle_seconds: float = 60.0
    connections: int = 1000
    requests: int = 64
    rate: float = 0.0
    burst: float = 20.0
    clients: int = 10_000
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
                    f"{name} of the service must be {least} or more, got {getattr(self, name)!r}."
                )
        if self.token is not None and (not self.token.isascii() or not self.token.strip()):
            raise InputError("the token of the service must be ASCII text, and not empty.")

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the service."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def is_exposed(self) -> bool:
        """Whether others can reach the service and need no token."""
        return not self.is_local and self.token is None


_LEAST = {
    each.name: 1 if each.type == "int" and each.name != "port" else 0
    for each in fields(ServiceSettings)
    if each.type in ("int", "float")
}
