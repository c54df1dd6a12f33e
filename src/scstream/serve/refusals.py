"""What the service says when it refuses: a status, a name and a sentence that says what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scstream.errors import ScStreamError, missing_extra

try:
    import orjson
except ImportError as error:
    raise missing_extra("orjson", "serve") from error

Headers = Sequence[tuple[bytes, bytes]]

REASONS: Mapping[str, tuple[int, str]] = {
    "Busy": (503, "Too much is being answered, sent or learned; ask again."),
    "Defect": (500, "The service has a defect; its log says more."),
    "Draining": (503, "The service is about to end."),
    "HeadTooLarge": (431, "Address and headers are too long."),
    "InputError": (422, "The request can be read, but a row or a parameter cannot be used."),
    "MissingExtra": (415, "The service lacks the library for this type of body."),
    "NoLength": (400, "The Content-Length is no number."),
    "NotAllowed": (403, "This service does not learn."),
    "NotArrow": (400, "The body is no Arrow stream of numbers."),
    "NotFound": (404, "There is no such route, cluster or file."),
    "NotHttp": (400, "This is no request of HTTP/1.1."),
    "NotJson": (400, "The body is not JSON."),
    "Packed": (415, "The body is compressed."),
    "Stale": (503, "The checkpoint that is followed is too old."),
    "StreamError": (503, "There is no model yet."),
    "TimeError": (409, "The batch is older than what the model has learned."),
    "TooLarge": (413, "The body has too many bytes."),
    "TooLong": (503, "There was no answer in time."),
    "TooMany": (503, "Too many look at the live page."),
    "TooManyNumbers": (422, "The answer would have too many numbers."),
    "TooManyRows": (422, "The body has too many rows."),
    "TooOften": (429, "The client asks too often."),
    "TooSlow": (408, "The request did not arrive in time."),
    "UnknownType": (415, "The type of the body is not known."),
    "WrongHost": (421, "The service is not known under the name in the header Host."),
    "WrongMethod": (405, "The route has other methods."),
    "WrongOrigin": (403, "A page of another site sent the request."),
    "WrongToken": (401, "The token is missing or wrong."),
}


class Refusal(Exception):
    """A request that is not answered, and why.

    Parameters
    ----------
    error : str
        Name of the reason, one of `REASONS`, for programs.
    says : str
        A sentence that says what to do, for people.
    headers : sequence of (bytes, bytes)
        Headers that go with the status.

    Examples
    --------
    >>> from scstream.serve.refusals import Refusal
    >>> refusal = Refusal("NotFound", "there is no cluster 7.")
    >>> refusal.status, refusal.content
    (404, b'{"error":"NotFound","detail":"there is no cluster 7."}')
    """

    def __init__(self, error: str, detail: str, *, headers: Headers = ()) -> None:
        super().__init__(detail)
        self.error = error
        self.status = REASONS[error][0] if error in REASONS else 500
        self.headers = headers or (_RETRY if self.status == 503 else ())

    @property
    def content(self) -> bytes:
        """The body of the answer."""
        detail = str(self).encode(errors="replace").decode()
        return orjson.dumps({"error": self.error, "detail": detail})


_RETRY: Headers = ((b"retry-after", b"1"),)


def refusal_of(error: ScStreamError) -> Refusal:
    """Return how an error is told to a client: by the first of its kinds that has a status.

    Examples
    --------
    >>> from scstream.errors import InputError, SinkError
    >>> from scstream.serve.refusals import refusal_of
    >>> refusal_of(InputError("...")).status, refusal_of(SinkError("...")).error
    (422, 'StreamError')
    """
    known = (kind.__name__ for kind in type(error).__mro__ if kind.__name__ in REASONS)
    return Refusal(next(known, type(error).__name__), str(error))
