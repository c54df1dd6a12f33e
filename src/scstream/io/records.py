"""Small records as JSON with a checksum, so that an altered number is not believed."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

_SEAL = "sha256"


def sealed(values: dict[str, Any]) -> bytes:
    """Return values as JSON with their checksum; they must be plain, with text as keys.

    Examples
    --------
    >>> from scstream.io.records import sealed, unsealed
    >>> content = sealed({"batch": 7})
    >>> unsealed(content)
    {'batch': 7}
    >>> unsealed(content.replace(b"7", b"8"))
    Traceback (most recent call last):
    ...
    ValueError: the checksum differs
    """
    return json.dumps({**values, _SEAL: _checksum(values)}).encode()


def unsealed(content: bytes) -> dict[str, Any]:
    """Undo `sealed`; raises ValueError. A record of an earlier version has no checksum."""
    values = json.loads(content)
    if not isinstance(values, dict):
        raise ValueError("it is no JSON object")
    checksum = values.pop(_SEAL, None)
    if checksum is not None and checksum != _checksum(values):
        raise ValueError("the checksum differs")
    return values


def _checksum(values: dict[str, Any]) -> str:
    return sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
