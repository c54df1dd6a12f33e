"""How often each client may ask: a bucket of tokens for every address, in a bounded table."""

from __future__ import annotations

from collections import OrderedDict
from ipaddress import ip_address, ip_network


class Buckets:
    """Buckets of tokens that fill at a rate; a request takes one.

    Parameters
    ----------
    rate : float
        Tokens per second.
    burst : float
        Tokens of a full bucket.
    most : int
        Most clients that are known. The one that was silent for longest is forgotten, and so
        begins anew with a full bucket.

    Examples
    --------
    >>> from scstream.serve.clients import Buckets
    >>> buckets = Buckets(2.0, burst=1.0, max_n=100)
    >>> buckets.wait("10.0.0.7", now=0.0), buckets.wait("10.0.0.7", now=0.1)
    (0.0, 0.4)
    >>> buckets.wait("10.0.0.8", now=0.1), buckets.wait("10.0.0.7", now=0.6)
    (0.0, 0.0)
    """

    def __init__(self, rate: float, *, burst: float, max_n: int) -> None:
        self._rate = rate
        self._burst = max(burst, 1.0)
        self._most = max_n
        self._known: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, and when

    def __len__(self) -> int:
        return len(self._known)

    def wait(self, address: str, *, now: float) -> float:
        """Take a token of a client; return 0, or the seconds until there is one."""
        name = household(address)
        tokens, at = self._known.pop(name, (self._burst, now))
        tokens = min(tokens + (now - at) * self._rate, self._burst)
        allowed = tokens >= 1.0
        self._known[name] = (tokens - 1.0 if allowed else tokens, now)
        if len(self._known) > self._most:
            self._known.popitem(last=False)
        return 0.0 if allowed else (1.0 - tokens) / self._rate


def household(address: str) -> str:
    """Return the name under which an address is counted: one household has many of IPv6.

    Examples
    --------
    >>> from scstream.serve.clients import household
    >>> household("10.0.0.7"), household("2001:db8::7")
    ('10.0.0.7', '2001:db8::/64')
    """
    if ":" not in address:
        return address
    try:
        return str(ip_network((ip_address(address.partition("%")[0]), 64), strict=False))
    except ValueError:
        return address
