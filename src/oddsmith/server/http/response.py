"""Response and Refusal: an answer of the service, and an error with its format."""

import json
from typing import NamedTuple, TypeAlias

__all__ = ["Headers", "JSON", "Refusal", "Response"]

Headers: TypeAlias = list[tuple[bytes, bytes]]
JSON: Headers = [(b"content-type", b"application/json")]


class Response(NamedTuple):
    """Status, body and headers of an answer; Content-Length is added when it is
    sent."""

    status: int
    body: bytes
    headers: Headers


class Refusal(NamedTuple):
    """An error: its status, a short code for programs and one sentence for people.

    >>> Refusal(404, "not_found", "there is no such decision").response().body
    b'{"error": "there is no such decision", "code": "not_found"}'
    """

    status: int
    code: str
    error: str
    retry_after: int = 1  # seconds until a retry, for status 429 and 503

    def response(self, *more: tuple[bytes, bytes]) -> Response:
        """Return the response, with additional headers."""
        headers = [*JSON, *more]
        if self.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if self.status in (429, 503):
            headers.append((b"retry-after", b"%d" % self.retry_after))
        body = json.dumps({"error": self.error, "code": self.code}).encode()
        return Response(
            self.status,
            body,
            headers,
        )
