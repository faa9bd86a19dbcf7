"""Door: the API of another service, translated to our own calls.

A door has paths, keys and refusals in the shapes of its API; what it asks for is done
by the handlers of our own routes, with our own messages, so that there is one way into
the log.
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

__all__ = ["Door", "DoorAnswer", "DoorRefusal", "NO_CONTENT", "Visit"]

NO_CONTENT = Response(204, b"", [])
"""The answer that has no body."""


class DoorRefusal(OddsmithError):
    """What a door's handler refuses with a status and a code of the door's own."""

    def __init__(self, status: int, code: str, sentence: str) -> None:
        self.status, self.code = status, code
        super().__init__(sentence)


class DoorAnswer(msgspec.Struct):
    """An answer about one decision, whose id is noted in the access log."""

    @property
    @abstractmethod
    def id(self) -> str:
        """That of the decision."""


class Visit(NamedTuple):
    """A call through a door, as its handler is given it beside the experiment (the
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
        """The name of the key, which goes with every event."""
        return self.key.name

    @property
    def query_fields(self) -> dict[str, str]:
        """The query by name; of one that is there twice, the last."""
        return dict(parse_qsl(self.query.decode("latin-1"), keep_blank_values=True))

    def header(self, name: bytes) -> str | None:
        """The value of a header, by its name in lower case; None where it was not
        sent."""
        return next(
            (value.decode("latin-1") for one, value in self.headers if one == name),
            None,
        )


class Door(ABC):
    """What another service's API looks like; its `routes` have it as their `door`."""

    routes: Sequence[Route]

    @abstractmethod
    def find(
        self, method: str, raw_path: str, query: bytes
    ) -> tuple[Route, dict[str, str]] | Response | None:
        """The route of a path as it was sent, and its parameters; a refusal; None for a
        path that is not this API's.

        The parameter `experiment` says whose call it is; without it, it is that of the
        only one, or of the only one that the key is for.
        """

    @abstractmethod
    def refusal_response(self, refusal: Refusal, route: Route | None) -> Response:
        """The answer that says no, in the shape of this API."""

    @abstractmethod
    def token(self, headers: Headers) -> str:
        """The key that was sent; empty where there is none."""
