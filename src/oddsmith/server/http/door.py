"""Door: the API of another service, translated to our own calls.

A door has the paths, keys and error responses of its API. It calls the handlers of our
own routes with our own messages, so decisions have one way into the log.
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
"""The answer that has no body."""


class DoorRefusal(OddsmithError):
    """A refusal by a door's handler, with a status and a code of the door's API."""

    def __init__(self, status: int, code: str, sentence: str) -> None:
        self.status = status
        self.code = code
        super().__init__(sentence)


class DoorAnswer(msgspec.Struct):
    """A door's answer about one decision, whose id the access log has."""

    @property
    @abstractmethod
    def id(self) -> str:
        """The id of the decision."""


def bearer_token(headers: Headers) -> str:
    """The key behind Bearer in Authorization; empty where there is none."""
    authorization = dict(headers).get(b"authorization", b"").decode("latin-1")
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return token
    return ""


class Visit(NamedTuple):
    """A call of a door's route, which its handler gets beside the experiment (the
    service, where the route is `each`).

    `parameters` are those of the path, and of the door; `message` is the body as the
    route's type, None where it has none.
    """

    parameters: dict[str, str]
    query: bytes
    headers: Headers
    key: Key
    message: Any

    @property
    def sender(self) -> str:
        """The name of the key, which every event has."""
        return self.key.name

    @property
    def query_fields(self) -> dict[str, str]:
        """The fields of the query by name; of a repeated field, the last one."""
        text = self.query.decode("latin-1")
        return dict(parse_qsl(text, keep_blank_values=True))

    def header(self, name: bytes) -> str | None:
        """The value of a header, by its name in lower case; None where it was not
        sent."""
        for header, value in self.headers:
            if header == name:
                return value.decode("latin-1")
        return None


class Door(ABC):
    """The API of another service; its `routes` have it as their `door`."""

    routes: Sequence[Route]

    @abstractmethod
    def find(
        self, method: str, raw_path: str, query: bytes
    ) -> tuple[Route, dict[str, str]] | Response | None:
        """Return the route of a path as it was sent, and its parameters; a refusal; or
        None for a path that is not this API's.

        The parameter `experiment` names the experiment of the call. Without it, it is
        the only one, or the only one of the key.
        """

    @abstractmethod
    def refusal_response(self, refusal: Refusal, route: Route | None) -> Response:
        """The error response in this API's format."""

    @abstractmethod
    def token(self, headers: Headers) -> str:
        """The key in the headers; empty where there is none."""
