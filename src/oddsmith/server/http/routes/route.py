"""Route: a method and path of the service, with its handler, messages, scopes, limits
and examples."""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from oddsmith.server.http.keys import Scope

__all__ = [
    "ADMIN",
    "BATCH_BYTES",
    "BODY_BYTES",
    "CHANGES",
    "DECIDE",
    "OFFER_BYTES",
    "OPERATE",
    "READ",
    "REWARD",
    "Route",
    "WRITES",
]

if TYPE_CHECKING:
    from oddsmith.server.http.door import Door


BODY_BYTES = 65_536
OFFER_BYTES = 1 << 20
"""Maximum size in bytes of a batch, and of a body that contains arms."""
BATCH_BYTES = OFFER_BYTES
_READS = (400, 401, 403, 404, 408, 413, 414, 422, 429, 431, 503)
WRITES = (*_READS, 507)
"""Error statuses of a route that writes."""
CHANGES = (*WRITES, 409)
"""Error statuses of a route that writes and can conflict with stored values."""
DECIDE: frozenset[Scope] = frozenset({"decide"})
REWARD: frozenset[Scope] = frozenset({"reward"})
READ: frozenset[Scope] = frozenset({"read"})
OPERATE: frozenset[Scope] = frozenset({"operate"})
ADMIN: frozenset[Scope] = frozenset({"admin"})


class Route(NamedTuple):
    """A method and path of the service. `statuses` contains the statuses of its errors.

    With a `message`, `handler` takes the experiment and the message: path and query of
    a GET, or the body of a POST. For a POST it also takes the sender, the name of the
    key, which is recorded in every event. Without a message it takes the service and
    the key. It returns an object of type `answer`, which is sent as JSON, or a
    `Response`.

    A key needs one of the `scopes`, or admin; without scopes no key is needed. `path`
    may end in one {parameter}. If `each` is set and there is no message, a key for some
    experiments is enough, and the answer is only about these experiments. If `waits` is
    set, the call is held open, and cancelled when the client disconnects. `status` is
    the HTTP status of answers that are not a `Response`. For the handlers of a `door`,
    see `Visit`. A message with `slots` goes to the `slate_handler`, which returns a
    `slate_answer`. `examples` are POST bodies by description, or path and query of a
    GET with more parameters than the experiment.
    """

    method: str
    path: str
    handler: Callable[..., Awaitable[Any]]
    summary: str
    scopes: frozenset[Scope] = frozenset()
    message: Any = None
    answer: Any = None
    statuses: tuple[int, ...] = _READS
    body_bytes: int = BODY_BYTES
    each: bool = False
    waits: bool = False
    status: int = 200
    door: "Door | None" = None
    slate_handler: Any = None
    slate_answer: Any = None
    examples: Mapping[str, object] = MappingProxyType({})

    @property
    def name(self) -> str:
        """Name of the operation in the OpenAPI document, which is the name of the
        handler."""
        return self.handler.__name__
