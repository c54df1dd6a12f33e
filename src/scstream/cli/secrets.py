"""Secrets: collected from settings, replaced in all output; and the token of a service."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import unquote, urlsplit

from scstream.errors import InputError
from scstream.observe.address import shown_address
from scstream.stream.secrets import masked

STARS = "***"
TOKEN = "SCSTREAM_TOKEN"
WRITE_TOKEN = "SCSTREAM_WRITE_TOKEN"
_SECRET_WORDS = frozenset({"password", "passwd", "passphrase", "secret", "token"})
_CREDENTIALS = re.compile(r"(\w+)://([^/\s@]*(?:@[^/\s@]*)*)@")
_ASSIGNED = re.compile(
    r"(?i)(\b\w*(?:password|passwd|passphrase|secret|token)\w*=)('[^']*'|\"[^\"]*\"|[^\s&'\"]+)"
)
_MIN_LENGTH = 4  # redacting shorter secrets would garble every text that happens to contain them
_MIN_PATH_LENGTH = 12  # a shorter part of a webhook's path may be a word
_NOT_SECRET = frozenset(  # redacting these words would hide nothing and make output unreadable
    {
        "true",
        "false",
        "null",
        "none",
        "delta",
        "file",
        "http",
        "kafka",
        "nats",
        "postgres",
        "qdrant",
        "redis",
        STARS,
    }
)


def is_secret(name: str) -> bool:
    """Return True if the setting of this name is a secret."""
    words = re.split(r"[._-]+", name.lower().removeprefix("pg"))
    return not _SECRET_WORDS.isdisjoint(words)


class SecretRedactor:
    """Collects secrets and replaces them by stars."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._secrets: set[str] = set()
        for name, value in (environment or {}).items():
            self.collect(name, value)

    def collect(self, name: str, value: Any) -> None:
        """Collect the secrets in the value of a setting."""
        if isinstance(value, Mapping):
            for inner, entry in value.items():
                self.collect(inner, entry)
        elif isinstance(value, list | tuple):
            for entry in value:
                self.collect(name, entry)
        elif is_secret(name):
            self._add(str(value))
        elif name == "webhook":  # the path of such an address is often the secret
            for part in (str(value), *str(value).split("/")[3:]):
                if len(part) >= _MIN_PATH_LENGTH:
                    self._add(part)
        elif isinstance(value, str):
            for scheme, credentials in _CREDENTIALS.findall(value):
                _, colon, password = credentials.partition(":")
                self._add(password if colon or scheme != "nats" else credentials)
            for _, password in _ASSIGNED.findall(value):
                self._add(password.strip("'\""))

    def redact(self, text: str) -> str:
        """Return the text with stars in place of every secret."""
        text = _ASSIGNED.sub(rf"\1{STARS}", masked(text))
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, STARS)
        return text

    def redact_value(self, name: str, value: Any) -> Any:
        """Return the value of a setting without secrets."""
        if isinstance(value, Mapping):
            return {inner: self.redact_value(inner, entry) for inner, entry in value.items()}
        if isinstance(value, list | tuple):
            return [self.redact_value(name, entry) for entry in value]
        if is_secret(name) and value is not None:
            return STARS
        if name == "webhook" and value:
            return shown_address(urlsplit(str(value)))
        return self.redact(value) if isinstance(value, str) else value

    def _add(self, secret: str) -> None:
        for form in (secret, unquote(secret)):
            if len(form) >= _MIN_LENGTH and form.lower() not in _NOT_SECRET:
                self._secrets.add(form)


class RedactedStream:
    """A text stream that redacts everything written to it, also tracebacks."""

    def __init__(self, stream: TextIO, redactor: SecretRedactor) -> None:
        self._stream = stream
        self._redactor = redactor

    def write(self, text: str) -> int:
        """Write the redacted text."""
        self._stream.write(self._redactor.redact(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def read_token(file: Path | None, redactor: SecretRedactor, *, variable: str = TOKEN) -> str | None:
    """Return the token from a file, or else from an environment variable."""
    if file is None:
        token = os.environ.get(variable) or None
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
