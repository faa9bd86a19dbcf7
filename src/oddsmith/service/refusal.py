"""Refusal: the one shape of every answer that says no."""

import json
from typing import NamedTuple

__all__ = ["Refusal"]


class Refusal(NamedTuple):
    """A status, a short code for programs and one sentence for people.

    >>> Refusal(404, "not_found", "there is no such decision").body()
    b'{"error": "there is no such decision", "code": "not_found"}'
    """

    status: int
    code: str
    error: str

    def body(self) -> bytes:
        """The JSON that is sent."""
        return json.dumps({"error": self.error, "code": self.code}).encode()

    def headers(self, *, close: bool = False) -> list[tuple[bytes, bytes]]:
        """The headers that go with the body; `close` ends the connection after it."""
        pairs = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(self.body()))]
        if self.status == 401:
            pairs.append((b"www-authenticate", b"Bearer"))
        if self.status == 503:
            pairs.append((b"retry-after", b"1"))
        if close:
            pairs.append((b"connection", b"close"))
        return pairs
