"""Checkpoints in an S3 object store; `If-None-Match` is the compare-and-set."""

from __future__ import annotations

import contextlib
import re
import secrets
import time
from collections.abc import Callable
from typing import Any, TypeVar

from scstream.errors import InputError, StreamError, missing_extra
from scstream.stream.connectors.outage import Outage
from scstream.stream.findings import Finding
from scstream.stream.secrets import masked
from scstream.stream.store import checked_name

try:
    import obstore
    from obstore.exceptions import (
        AlreadyExistsError,
        BaseError,
        PermissionDeniedError,
        PreconditionError,
        UnauthenticatedError,
    )
    from obstore.store import MemoryStore
    from obstore.store import S3Store as Bucket
except ImportError as error:
    raise missing_extra("obstore", "s3") from error

_T = TypeVar("_T")
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_TEMPORARY = {"408", "409", "429"}
_TOKEN = "scstream-writer"


class S3Store:
    """Store objects under a prefix of a bucket.

    `put_new` asks the server to reject an existing name (`If-None-Match: *`) in the same request
    that writes. Every attempt has its own token: if the answer to a write was lost, the token shows
    whether this attempt wrote the object. A server that ignores `If-None-Match` cannot fence old
    instances; `doctor` tests yours.

    The server decides how durable an object is when a write returns.

    Parameters
    ----------
    url : str
        "s3://bucket/prefix". Several pipelines may share a bucket, but not a prefix.
        "memory:///" is a store inside this object, for tests.
    retry_timeout : float
        Seconds to wait for an unavailable server before an operation fails.
    allow_http : bool
        Whether the connection may be unencrypted.
    **options
        Options of obstore: `endpoint`, `region`, `access_key_id`, `secret_access_key`,
        `client_options` and so on. Missing ones come from the environment, such as
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
        self, url: str, *, retry_timeout: float = 300.0, allow_http: bool = False, **options: Any
    ) -> None:
        if url.startswith("file:"):
            raise InputError(
                f"{url} would be written without fsync, so a power failure may lose checkpoints; "
                "give the path of the folder instead."
            )
        if not url.startswith(("s3:", "memory:")):
            raise InputError(f"{masked(url)} is not an object store; write s3://bucket/prefix.")
        self.url = masked(url)
        self._retry_timeout = retry_timeout
        if allow_http:
            options["client_options"] = {**options.get("client_options", {}), "allow_http": True}
        options.setdefault("retry_config", {"max_retries": 2})  # `_retry` repeats the rest
        try:
            is_bucket = url.startswith("s3:")
            self._store = Bucket.from_url(url, **options) if is_bucket else MemoryStore()
        except (BaseError, TypeError) as error:
            raise InputError(f"{self.url} cannot be used: {_first_line(error)}") from None

    def __repr__(self) -> str:
        return f"S3Store({self.url!r})"

    def put(self, name: str, content: bytes) -> None:
        """Write an object; replace an existing one."""
        key = checked_name(name)
        self._retry(
            f"write {name}", lambda: obstore.put(self._store, key, content, use_multipart=False)
        )

    def put_new(self, name: str, content: bytes) -> bool:
        """Write an object unless the name exists; return whether it was written."""
        key, token = checked_name(name), secrets.token_hex(16)

        def attempt() -> bool:
            try:
                obstore.put(
                    self._store,
                    key,
                    content,
                    mode="create",
                    use_multipart=False,
                    attributes={_TOKEN: token},
                )
            except AlreadyExistsError:
                # Ours if an earlier attempt succeeded and its answer was lost. If the object does
                # not exist, the server had two writers at once and this one must try again.
                found = obstore.get(self._store, key, options={"head": True}).attributes
                return found.get(_TOKEN) == token
            return True

        return self._retry(f"write {name}", attempt, retry_missing=True)

    def get(self, name: str, start: int = 0, length: int = -1) -> bytes:
        """Read an object, or a range of its bytes."""
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
            return self._retry(f"read {name}", attempt)
        except FileNotFoundError:
            raise KeyError(name) from None

    def read(self, name: str) -> tuple[bytes, str]:
        """Return an object and its revision, the entity tag."""
        key = checked_name(name)

        def attempt() -> tuple[bytes, str]:
            found = obstore.get(self._store, key)
            return found.bytes().to_bytes(), str(found.meta["e_tag"])

        try:
            return self._retry(f"read {name}", attempt)
        except FileNotFoundError:
            raise KeyError(name) from None

    def replace(self, name: str, content: bytes, *, revision: str | None) -> str | None:
        """Write an object if it still has this revision (`If-Match`)."""
        key = checked_name(name)
        mode: Any = "create" if revision is None else {"e_tag": revision}

        def attempt() -> str | None:
            try:
                written = obstore.put(self._store, key, content, mode=mode, use_multipart=False)
                return str(written["e_tag"])
            except (AlreadyExistsError, PreconditionError):
                return None

        try:
            written = self._retry(f"write {name}", attempt)
            found, tag = (b"", "") if written else self.read(name)
        except (FileNotFoundError, KeyError):
            return None
        # Ours if an earlier attempt succeeded and its answer was lost.
        return written or (tag if found == content else None)

    def names(self, prefix: str = "") -> list[str]:
        """Return the names that begin with `prefix`."""
        found = self._retry("list names", lambda: obstore.list_with_delimiter(self._store))
        names = [entry["path"] for entry in found["objects"]]
        return sorted(name for name in names if name.startswith(prefix) and _is_name(name))

    def delete(self, name: str) -> None:
        """Delete an object."""
        key = checked_name(name)
        with contextlib.suppress(FileNotFoundError):
            self._retry(f"delete {name}", lambda: obstore.delete(self._store, key))

    def lock(self, *, take_over: bool = False) -> contextlib.AbstractContextManager[None]:
        """Do nothing: versions alone exclude instances on other machines."""
        return contextlib.nullcontext()

    def sweep(self) -> None:
        """Do nothing: objects are written atomically."""

    def doctor(self) -> list[Finding]:
        """Test whether the server rejects an existing name; writes and deletes one object."""
        name = f"doctor-{secrets.token_hex(8)}"
        try:
            wins = [self.put_new(name, b"first"), self.put_new(name, b"second")]
            kept = self.get(name)
        finally:
            self.delete(name)
        if wins == [True, False] and kept == b"first":
            text = "obeyed: an instance that was replaced cannot write checkpoints any more."
            return [Finding("ok", "If-None-Match", text)]
        text = (
            "ignored by this server: two instances could both commit. Use a server that obeys it, "
            "or a folder on a disk."
        )
        return [Finding("warn", "If-None-Match", text)]

    def _retry(self, what: str, attempt: Callable[[], _T], *, retry_missing: bool = False) -> _T:
        """Repeat an operation until it succeeds, fails permanently, or the timeout is over."""
        outage = Outage(self.url, self._retry_timeout)
        while True:
            try:
                return attempt()
            except (BaseError, OSError) as error:
                is_missing = isinstance(error, FileNotFoundError) and not _no_bucket(error)
                if is_missing and not retry_missing:
                    raise FileNotFoundError from None
                reason = f"cannot {what}: {_reason(error)}"
                if not is_missing and not _is_temporary(error):
                    raise StreamError(
                        f"{self.url}: {reason}. Check the address, the bucket and the credentials."
                    ) from None
            outage.failed(reason)
            time.sleep(outage.pause)


def _is_name(name: str) -> bool:
    """Return whether a key of the bucket may be a name of this store."""
    try:
        return checked_name(name) == name
    except InputError:
        return False


def _is_temporary(error: Exception) -> bool:
    """Return whether the next attempt may succeed: no connection, or an error of the server."""
    if isinstance(error, (PermissionDeniedError, UnauthenticatedError)) or _no_bucket(error):
        return False
    status = _STATUS.search(str(error))
    return status is None or status[1][0] == "5" or status[1] in _TEMPORARY


def _no_bucket(error: Exception) -> bool:
    return "<Code>NoSuchBucket</Code>" in str(error)


def _reason(error: Exception) -> str:
    """Return status and code of an error; the text of the server may repeat the access key."""
    status, code = _STATUS.search(str(error)), _CODE.search(str(error))
    if status is None:
        return "the server does not answer"
    return f"the server answers {status[1]}" + (f" {code[1]}" if code else "")


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0].rstrip(".") + "."
