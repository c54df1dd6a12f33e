"""The token of a service: who serves asks for it, who looks on sends it."""

from __future__ import annotations

import os
from pathlib import Path

from scstream.cli.veil import Veil
from scstream.errors import InputError

TOKEN = "SCSTREAM_TOKEN"


def read_token(file: Path | None, veil: Veil) -> str | None:
    """Return the token, from a file or else the variable SCSTREAM_TOKEN; the veil learns it.

    Examples
    --------
    >>> from pathlib import Path
    >>> from scstream.cli.token import read_token
    >>> from scstream.cli.veil import Veil
    >>> read_token(Path("no-such-file"), Veil())
    Traceback (most recent call last):
    ...
    scstream.errors.InputError: no-such-file cannot be read: No such file or directory; ...
    """
    if file is None:
        token = os.environ.get(TOKEN) or None
    else:
        try:
            token = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text"
            raise InputError(f"{file} cannot be read: {why}; it should hold a token.") from error
        if not token:
            raise InputError(f"the file {file} is empty; write the token into it.")
    if token is not None:
        veil.learn("token", token)
    return token
