"""The access token of a service, for `serve`, `run --serve` and `top`."""

from __future__ import annotations

import os
from pathlib import Path

from scstream.cli.secrets import SecretRedactor
from scstream.errors import InputError

TOKEN = "SCSTREAM_TOKEN"


def read_token(file: Path | None, redactor: SecretRedactor) -> str | None:
    """Return the token from a file, or else from the variable SCSTREAM_TOKEN."""
    if file is None:
        token = os.environ.get(TOKEN) or None
    else:
        try:
            token = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise InputError(
                f"{file} cannot be read: {reason}; it should contain the token."
            ) from error
        if not token:
            raise InputError(f"the file {file} is empty; write the token into it.")
    if token is not None:
        redactor.collect("token", token)
    return token
