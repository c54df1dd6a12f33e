"""Hide passwords in addresses."""

from __future__ import annotations

import re

_CREDENTIALS = re.compile(r"(?<=://)[^/\s]*@")


def masked(text: str) -> str:
    """Return the text with user and password of every address in it replaced by stars."""
    return _CREDENTIALS.sub("***@", text)
