"""Checkpoints in an object store that speaks S3; `If-None-Match` is the compare-and-set."""

from __future__ import annotations

import contextlib
import re
import secrets
import time
from collections.abc import Callable
from typing import Any, TypeVar

from scstream.errors import InputError, StreamError, missing_extra
from scstream.stream.findings import Finding
from scstream.stream.secrets import masked
from scstream.stream.store import checked_name

try:
    import obstore
    from obstore.exceptions import (
        AlreadyExistsError,
        BaseError,
        PermissionDeniedError,
        UnauthenticatedError,
    )
    from obstore.store import MemoryStore
    from obstore.store import S3Store as Bucket
except ImportError as error:
    raise missing_extra("obstore", "s3") from error

_T = TypeVar("_T")
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_PASSING = {"408", "409", "429"}  # refusals that are worth another try
_MARK = "scstream-writer"
_LONGEST_PAUSE = 2.0


class S3Store:
    """A store under a prefix of a bucket.

    `put_new` asks the server to refuse a name that is taken (`If-None-Match: *`), in the same
    request that writes. Every attempt carries a mark of its own: where the answer to a write was
    lost, the mark tells whether the content that is there now is ours. A server that ignores
    `If-None-Match` cannot fence; `doctor` tries whether yours obeys it.

    How safe a content is when a write returns is up to the server.

    Parameters
    ----------
    url : str
        "s3://bucket/prefix". Several pipelines may share a bucket, but not a prefix.
        "memory:///" is a store inside of this object, for tests.
    patience : float
        Seconds that a server that is away is waited for before an operation fails.
    allow_http : bool
        Whether the connection may be without encryption.
    **options
        Whatever obstore takes: `endpoint`, `region`, `access_key_id`, `secret_access_key`,
        `client_options` and so on. What is not given comes from the environment, as in
        `AWS_ACCESS_KEY_ID`.

    Examples
    --------
    >>> from scstream.stream.connectors.s3 import S3Store
    >>> store = S3Store("memory:///")
    >>> store.put_new("a-1", b"one"), store.put_new("a-1", b"two")
    (True, False)
    >>> store.get("a-1", 1), store.names("a-")
    (b'ne', ['a-1'])
    """

    def __init__(
        self, url: str, *, patience: float = 300.0, allow_http: bool = False, **options: Any
    ) -> None:
        if url.startswith("file:"):
            raise InputError(
                f"{url} would be written without fsync, so that a power failure may lose "
                "checkpoints; give the path of the folder instead."
            )
        if not url.startswith(("s3:", "memory:")):
            raise InputError(f"{masked(url)} is no store of objects; write s3://bucket/prefix.")
        self.url = masked(url)
        self.patience = patience
        if allow_http:
            options["client_options"] = {**options.get("client_options", {}), "allow_http": True}
        options.setdefault("retry_config", {"max_retries": 2})  # more of them are up to `patience`
        try:
            is_bucket = url.startswith("s3:")
            self._store = Bucket.from_url(url, **options) if is_bucket else MemoryStore()
        except (BaseError, TypeError) as error:
            raise InputError(f"{self.url} cannot be used: {_first_line(error)}") from None

    def __repr__(self) -> str:
        return f"S3Store({self.url!r})"

    def put(self, name: str, content: bytes) -> None:
        """Write a content, in place of one that may be there."""
        key = checked_name(name)
        self._patiently(
            f"write {name}", lambda: obstore.put(self._store, key, content, use_multipart=False)
        )

    def put_new(self, name: str, content: bytes) -> bool:
        """Write a content unless the name is taken."""
        key, mark = checked_name(name), secrets.token_hex(16)

        def attempt() -> bool:
            try:
                obstore.put(
                    self._store,
                    key,
                    content,
                    mode="create",
                    use_multipart=False,
                    attributes={_MARK: mark},
                )
            except AlreadyExistsError:
                # Ours if an earlier attempt got through and its answer was lost. Not there at
                # all: the server met two writers at once and wants this one to ask again.
                there = obstore.get(self._store, key, options={"head": True}).attributes
                return there.get(_MARK) == mark
            return True

        return self._patiently(f"write {name}", attempt, absent_is_passing=True)

    def get(self, name: str, start: int = 0, length: int = -1) -> bytes:
        """Read a content."""
        key = checked_name(name)

        def attempt() -> bytes:
            if start == 0 and length < 0:
                return obstore.get(self._store, key).bytes().to_bytes()
            size = obstore.head(self._store, key)["size"]
            stop = size if length < 0 else min(start + length, size)
            if start >= stop:  # an empty range is an error to S3
                return b""
            return obstore.get_range(self._store, key, start=start, end=stop).to_bytes()

        try:
            return self._patiently(f"read {name}", attempt)
        except FileNotFoundError:
            raise KeyError(name) from None

    def names(self, prefix: str = "") -> list[str]:
        """Names that begin so."""
        found = self._patiently("list names", lambda: obstore.list_with_delimiter(self._store))
        names = [entry["path"] for entry in found["objects"]]
        return sorted(name for name in names if name.startswith(prefix) and _is_name(name))

    def delete(self, name: str) -> None:
        """Remove a name."""
        key = checked_name(name)
        with contextlib.suppress(FileNotFoundError):
            self._patiently(f"delete {name}", lambda: obstore.delete(self._store, key))

    def lock(self) -> contextlib.AbstractContextManager[None]:
        """Do nothing: who is on another machine is kept out by the versions alone."""
        return contextlib.nullcontext()

    def sweep(self) -> None:
        """Do nothing: an object appears whole or not at all."""

    def doctor(self) -> list[Finding]:
        """Say whether the server refuses a name that is taken; writes and deletes one object."""
        name = f"doctor-{secrets.token_hex(8)}"
        try:
            wins = [self.put_new(name, b"first"), self.put_new(name, b"second")]
            kept = self.get(name)
        finally:
            self.delete(name)
        if wins == [True, False] and kept == b"first":
            detail = "obeyed: an instance that was replaced cannot write checkpoints any more."
            return [Finding("ok", "If-None-Match", detail)]
        detail = (
            "ignored by this server: two instances could both commit. Use a server that obeys it, "
            "or a folder on a disk."
        )
        return [Finding("warn", "If-None-Match", detail)]

    def _patiently(
        self, what: str, attempt: Callable[[], _T], *, absent_is_passing: bool = False
    ) -> _T:
        """Try until it works, the server refuses for good, or patience is over."""
        until, pause = time.monotonic() + self.patience, 0.05
        while True:
            try:
                return attempt()
            except (BaseError, OSError) as error:
                absent = isinstance(error, FileNotFoundError)
                if absent and not absent_is_passing and not _no_bucket(error):
                    raise FileNotFoundError from None
                passing = not _no_bucket(error) if absent else _is_passing(error)
                if not passing or time.monotonic() + pause > until:
                    raise StreamError(
                        f"{self.url}: cannot {what}: {_reason(error)}. Check the address, the "
                        "bucket and the credentials."
                    ) from None
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


def _is_name(name: str) -> bool:
    """Whether a key of the bucket may be one of ours."""
    try:
        return checked_name(name) == name
    except InputError:
        return False


def _is_passing(error: Exception) -> bool:
    """Whether the next try may succeed: no connection, or trouble inside of the server."""
    if isinstance(error, (PermissionDeniedError, UnauthenticatedError)):
        return False
    status = _STATUS.search(str(error))
    return status is None or status[1][0] == "5" or status[1] in _PASSING


def _no_bucket(error: Exception) -> bool:
    return "<Code>NoSuchBucket</Code>" in str(error)


def _reason(error: Exception) -> str:
    """Return what the server said in its own code; its prose may repeat the key that was used."""
    status, code = _STATUS.search(str(error)), _CODE.search(str(error))
    if status is None:
        return "the server does not answer"
    return f"the server answers {status[1]}" + (f" {code[1]}" if code else "")


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0].rstrip(".") + "."
