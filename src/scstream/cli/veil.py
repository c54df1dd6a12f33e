"""What must not be seen: passwords are learned from settings and hidden in all that is shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TextIO
from urllib.parse import unquote, urlsplit

from scstream.observe.address import shown_address
from scstream.stream.secrets import masked

STARS = "***"
_SECRET_WORDS = frozenset({"password", "passwd", "passphrase", "secret", "token"})
_CREDENTIALS = re.compile(r"(\w+)://([^/\s@]*(?:@[^/\s@]*)*)@")
_ASSIGNED = re.compile(
    r"(?i)(\b\w*(?:password|passwd|passphrase|secret|token)\w*=)('[^']*'|\"[^\"]*\"|[^\s&'\"]+)"
)
_SHORTEST = 4  # letters: to hide a shorter one would hide every text that happens to contain it
_LONG = 12  # letters: a part of a path that is shorter may be a word
_NO_SECRETS = frozenset(  # hiding these words would hide nothing, and make output unreadable
    {"true", "false", "null", "none", "file", "http", "kafka", "nats", "postgres", "redis", STARS}
)


def is_secret(name: str) -> bool:
    """Whether what stands under a name is nobody's business.

    Examples
    --------
    >>> from scstream.cli.veil import is_secret
    >>> is_secret("secret_access_key"), is_secret("PGPASSWORD"), is_secret("key")
    (True, True, False)
    """
    words = re.split(r"[._-]+", name.lower().removeprefix("pg"))
    return not _SECRET_WORDS.isdisjoint(words)


class Veil:
    """Secrets that were met, and texts without them.

    Examples
    --------
    >>> from scstream.cli.veil import Veil
    >>> veil = Veil()
    >>> veil.learn("url", "nats://me:hunter2@broker:4222")
    >>> veil.hide("login with hunter2 at nats://me:hunter2@broker:4222 failed")
    'login with *** at nats://***@broker:4222 failed'
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._known: set[str] = set()
        for name, value in (environment or {}).items():
            self.learn(name, value)

    def learn(self, name: str, value: Any) -> None:
        """Remember what is secret in the value of a setting."""
        if isinstance(value, Mapping):
            for inner, entry in value.items():
                self.learn(inner, entry)
        elif isinstance(value, list | tuple):
            for entry in value:
                self.learn(name, entry)
        elif is_secret(name):
            self._add(str(value))
        elif name == "webhook":  # the path of such an address often is the secret
            for part in (str(value), *str(value).split("/")[3:]):
                if len(part) >= _LONG:
                    self._add(part)
        elif isinstance(value, str):
            for scheme, credentials in _CREDENTIALS.findall(value):
                _, colon, password = credentials.partition(":")
                self._add(password if colon or scheme != "nats" else credentials)
            for _, password in _ASSIGNED.findall(value):
                self._add(password.strip("'\""))

    def hide(self, text: str) -> str:
        """Return the text with stars in place of every secret."""
        text = _ASSIGNED.sub(rf"\1{STARS}", masked(text))
        for secret in sorted(self._known, key=len, reverse=True):
            text = text.replace(secret, STARS)
        return text

    def shown(self, name: str, value: Any) -> Any:
        """Return the value of a setting as it may be shown."""
        if isinstance(value, Mapping):
            return {inner: self.shown(inner, entry) for inner, entry in value.items()}
        if isinstance(value, list | tuple):
            return [self.shown(name, entry) for entry in value]
        if is_secret(name) and value is not None:
            return STARS
        if name == "webhook" and value:
            return shown_address(urlsplit(str(value)))
        return self.hide(value) if isinstance(value, str) else value

    def _add(self, secret: str) -> None:
        for form in (secret, unquote(secret)):
            if len(form) >= _SHORTEST and form.lower() not in _NO_SECRETS:
                self._known.add(form)


class VeiledStream:
    """A text stream that hides secrets in all that is written: the net below everything else.

    Examples
    --------
    >>> import io
    >>> from scstream.cli.veil import Veil, VeiledStream
    >>> below, veil = io.StringIO(), Veil({"DB_PASSWORD": "hunter2"})
    >>> _ = VeiledStream(below, veil).write("Traceback: hunter2")
    >>> below.getvalue()
    'Traceback: ***'
    """

    def __init__(self, below: TextIO, veil: Veil) -> None:
        self._below = below
        self._veil = veil

    def write(self, text: str) -> int:
        """Write without secrets."""
        self._below.write(self._veil.hide(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)
