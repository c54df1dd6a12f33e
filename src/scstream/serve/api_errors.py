"""Error responses: a status, a name for programs and a sentence for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scstream.errors import ScStreamError
from scstream.stream.http_server import error_body

Headers = Sequence[tuple[bytes, bytes]]

ERRORS: Mapping[str, tuple[int, str]] = {
    "Busy": (503, "Too many requests, bytes or batches are under way; try again."),
    "CheckpointCorrupt": (503, "The model of the key is damaged in the store."),
    "Defect": (500, "The service has a bug; its log has the traceback."),
    "Draining": (503, "The service is about to end."),
    "HeadTooLarge": (431, "Address and headers are too long."),
    "InputError": (422, "The request can be read, but a row or a parameter is not valid."),
    "MissingExtra": (415, "The service lacks the library for this type of body."),
    "NoLength": (400, "The Content-Length is not a number."),
    "NotAllowed": (403, "This service does not learn, or takes no edits."),
    "NotArrow": (400, "The body is not an Arrow stream of numbers."),
    "NotFound": (404, "There is no such route, cluster or file."),
    "NotHttp": (400, "The bytes are not an HTTP/1.1 request."),
    "NotJson": (400, "The body is not JSON."),
    "Packed": (415, "The body is compressed."),
    "Stale": (503, "The newest checkpoint is too old."),
    "StreamError": (503, "There is no model yet."),
    "TimeError": (409, "The batch is older than what the model has learned."),
    "TooLarge": (413, "The body has too many bytes, or needs too much memory."),
    "TooLong": (503, "The response was not ready in time."),
    "TooMany": (503, "Too many browsers show the live page."),
    "TooManyNumbers": (422, "The response would have too many numbers."),
    "TooManyRows": (422, "The body has too many rows."),
    "TooSlow": (408, "The body did not arrive in time."),
    "UnknownKey": (404, "There is no model of the key."),
    "UnknownType": (415, "The type of the body is not known."),
    "WrongHost": (421, "The Host header is not a name of the service."),
    "WrongKey": (400, "A key is missing, or is given though there is one model for all rows."),
    "WrongMethod": (405, "The route has other methods."),
    "WrongOrigin": (403, "A page of another site sent the request."),
    "WrongToken": (401, "The token is missing or wrong."),
}


class ApiError(Exception):
    """A request that fails; `error` is one of `ERRORS`, `detail` says what to do."""

    def __init__(self, error: str, detail: str, *, headers: Headers = ()) -> None:
        super().__init__(detail)
        self.error = error
        self.status = ERRORS[error][0] if error in ERRORS else 500
        self.headers = headers or (_RETRY if self.status == 503 else ())

    @property
    def content(self) -> bytes:
        """The body of the response."""
        return error_body(self.error, str(self).encode(errors="replace").decode())


_RETRY: Headers = ((b"retry-after", b"1"),)


def api_error_from(error: ScStreamError) -> ApiError:
    """Return the response to an error, by the first of its classes that is in `ERRORS`."""
    known = (kind.__name__ for kind in type(error).__mro__ if kind.__name__ in ERRORS)
    return ApiError(next(known, type(error).__name__), str(error))
