"""Secrets stay out of sight: addresses are shown without their passwords."""

from __future__ import annotations

import re

_CREDENTIALS = re.compile(r"(?<=://)[^/\s]*@")


def masked(text: str) -> str:
    """Return the text with user and password of every address in it replaced by stars.

    Examples
    --------
    >>> from scstream.stream.secrets import masked
    >>> masked("cannot reach redis://me:hunter2@broker:6379/0")
    'cannot reach redis://***@broker:6379/0'
    """
    return _CREDENTIALS.sub("***@", text)
