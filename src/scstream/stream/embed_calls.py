"""What makes vectors of texts: a function of the user, or an HTTP server."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from http.client import HTTPException
from importlib import import_module
from typing import Any, TypeAlias
from urllib.parse import SplitResult

import numpy as np

from scstream.errors import InputError, StreamError
from scstream.observe.address import check_address, post_json, shown_address

Embed: TypeAlias = Callable[[list[str]], Any]  # returns a vector for each text
_MAX_ANSWER = 1 << 28  # bytes of a response
_REFUSED = (400, 413, 422)  # the server answers, but does not take these texts
_WRONG_SETTING = (401, 403, 404, 405)


class Refused(ValueError):
    """A server or function does not take a text; it would not take it the next time either."""


class Unavailable(OSError):
    """A server does not answer now; another attempt may succeed."""


def embed_function(name: str) -> Embed:
    """Return a function by its name.

    Parameters
    ----------
    name : str
        Module and function, such as "my_module:embed". The module is installed, or a file in the
        current folder. The function takes a list of
        texts and returns an array of shape (N, D), or a list of N vectors. It may raise
        `ValueError` for texts that it never takes; other errors are tried again.

    Returns
    -------
    callable
        The function.

    Examples
    --------
    >>> from scstream.stream.embed_calls import embed_function
    >>> embed_function("os.path")
    Traceback (most recent call last):
    ...
    scstream.errors.InputError: embed.function must be written as module:function, got 'os.path'.
    """
    module, _, attribute = str(name).partition(":")
    if not (module and attribute):
        raise InputError(f"embed.function must be written as module:function, got {name!r}.")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # last, so that no file in it hides an installed module
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"embed.function {name!r} cannot be imported: {error}. Install the module, or "
            "start in the folder of its file."
        ) from error
    if not callable(found):
        raise InputError(f"embed.function {name!r} is no function.")

    def embed(texts: list[str]) -> Any:
        try:
            return found(texts)
        except ValueError as error:
            raise Refused(str(error)) from error

    return embed


def embed_server(
    url: str, *, token: str | None = None, model: str | None = None, timeout: float = 60.0
) -> Embed:
    """Return a function that asks a server for embeddings.

    Parameters
    ----------
    url : str
        Where to post, such as "http://127.0.0.1:8080/v1/embeddings". The request is
        ``{"input": [...], "model": ...}`` and the response ``{"data": [{"embedding": [...]}]}``,
        as most servers of embeddings understand it.
    token : str, optional
        Sent as ``Authorization: Bearer ...``.
    model : str, optional
        Name of the model, for servers that have several.
    timeout : float
        Seconds for the connection and for every read.

    Returns
    -------
    callable
        Takes texts, returns vectors. Raises `Refused`, `Unavailable` or `StreamError`.

    Examples
    --------
    >>> from scstream.stream.embed_calls import embed_server
    >>> embed_server("ftp://example.org")
    Traceback (most recent call last):
    ...
    scstream.errors.InputError: embed.url must begin with https:// or http://, ...
    """
    address = check_address(url, token=token, section="embed", option="url")

    def embed(texts: list[str]) -> Any:
        request = {"input": texts, "encoding_format": "float"}
        if model is not None:
            request["model"] = model
        return _vectors(_posted(address, token, request, timeout), len(texts), address)

    return embed


def read_vectors(found: Any, n: int) -> list[np.ndarray]:
    """Return vectors as float32; raises `StreamError` if there is not one for each of `n` texts."""
    try:
        vectors = [np.asarray(vector, dtype=np.float32).reshape(-1) for vector in found]
    except (TypeError, ValueError) as error:
        raise StreamError(f"the embeddings are no vectors of numbers: {error}.") from error
    if len(vectors) != n:
        raise StreamError(f"{n} texts gave {len(vectors)} embeddings; it must be one for each.")
    return vectors


def _posted(address: SplitResult, token: str | None, request: Any, timeout: float) -> bytes:
    content, where = json.dumps(request).encode(), shown_address(address)
    try:
        status, body = post_json(
            address, content, token=token, timeout=timeout, max_bytes=_MAX_ANSWER + 1
        )
    except OSError as error:
        raise Unavailable(f"{where}: {error.strerror or type(error).__name__}") from error
    except HTTPException as error:  # the message may contain the path
        raise Unavailable(f"{where}: {type(error).__name__}") from None
    if status in _REFUSED:
        raise Refused(f"{where} answered with status {status}: {_short(body)}")
    if status in _WRONG_SETTING:
        raise StreamError(
            f"{where} answered with status {status}; correct embed.url or embed.token, and start "
            "again."
        )
    if not 200 <= status < 300:
        raise Unavailable(f"{where} answered with status {status}: {_short(body)}")
    if len(body) > _MAX_ANSWER:
        raise StreamError(
            f"{where} answered with more than {_MAX_ANSWER:,} bytes; lower embed.rows."
        )
    return body


def _vectors(body: bytes, n: int, address: SplitResult) -> Sequence[Any]:
    try:
        entries = json.loads(body)["data"]
        places = [entry.get("index", i) for i, entry in enumerate(entries)]
        if sorted(places) != list(range(n)):
            raise ValueError(f"{n} texts gave embeddings of the texts {places[:5]}")
        by_place = dict(zip(places, entries, strict=True))
        return [by_place[i]["embedding"] for i in range(n)]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise StreamError(
            f"{shown_address(address)} did not answer with embeddings ({error}); it must "
            'answer {"data": [{"embedding": [...]}, ...]}.'
        ) from error


def _short(body: bytes) -> str:
    return " ".join(body[:200].decode(errors="replace").split())
