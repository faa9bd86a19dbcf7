"""Door: base class for APIs that are compatible with other products. Calls are
translated to calls of our own API.

Such an API has its own paths, keys and error format. It calls the handlers of our own
routes, so every decision is written to the log in the same way.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import msgspec

from oddsmith.core.errors import OddsmithError
from oddsmith.server.http.keys import Key
from oddsmith.server.http.response import Headers, Refusal, Response
from oddsmith.server.http.routes.route import Route

__all__ = ["Door", "DoorAnswer", "DoorRefusal", "NO_CONTENT", "Visit", "bearer_token"]

NO_CONTENT = Response(204, b"", [])
"""An answer without a body."""


class DoorRefusal(OddsmithError):
    """An error raised by a handler of another product's API, with that API's status and
    code."""

    def __init__(self, status: int, code: str, sentence: str) -> None:
        self.status = status
        self.code = code
        super().__init__(sentence)


class DoorAnswer(msgspec.Struct):
    """An answer of another product's API about one decision, with the id for the access
    log."""

    @property
    @abstractmethod
    def id(self) -> str:
        """Id of the decision."""


def bearer_token(headers: Headers) -> str:
    """Return the key after "Bearer" in the Authorization header; empty without one."""
    authorization = dict(headers).get(b"authorization", b"").decode("latin-1")
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return token
    return ""


class Visit(NamedTuple):
    """A call to another product's API, in the form that the handler receives.

    The other argument of the handler is the experiment, or the service if the route has
    `each`. `parameters` contains the parameters in the path and those that the API
    adds. `message` is the decoded body, or None if the route takes no body.
    """

    parameters: dict[str, str]
    query: bytes
    headers: Headers
    key: Key
    message: Any

    @property
    def sender(self) -> str:
        """Name of the key. It is recorded as the sender of every event."""
        return self.key.name

    @property
    def query_fields(self) -> dict[str, str]:
        """The fields of the query by name. If a field is repeated, the last one
        counts."""
        text = self.query.decode("latin-1")
        return dict(parse_qsl(text, keep_blank_values=True))

    def header(self, name: bytes) -> str | None:
        """Return the value of a header by its lower-case name; None if it was not
        sent."""
        for header, value in self.headers:
            if header == name:
                return value.decode("latin-1")
        return None


class Door(ABC):
    """The API of another product. In each of its `routes`, the field `door` refers to
    it."""

    routes: Sequence[Route]

    @abstractmethod
    def find(
        self, method: str, raw_path: str, query: bytes
    ) -> tuple[Route, dict[str, str]] | Response | None:
        """Find the route of a raw path.

        Return the route and its parameters, or a refusal. Return None if the path does
        not belong to this API. The parameter `experiment` names the experiment. Without
        it, the call is about the only experiment, or the only one of the key.
        """

    @abstractmethod
    def refusal_response(self, refusal: Refusal, route: Route | None) -> Response:
        """Return the error response in this API's format."""

    @abstractmethod
    def token(self, headers: Headers) -> str:
        """Return the key in the headers; empty without one."""
