"""Route: one method and path of the service, with its handler, messages, scopes, limits
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
    "READ",
    "REWARD",
    "Route",
    "WRITES",
]

if TYPE_CHECKING:
    from oddsmith.server.http.door import Door


BODY_BYTES = 65_536
OFFER_BYTES = 1 << 20
"""Bytes of a body with arms in it, and of a batch."""
BATCH_BYTES = OFFER_BYTES
_READS = (400, 401, 403, 404, 408, 413, 414, 422, 429, 431, 503)
WRITES = (*_READS, 507)
"""Statuses of refusals of a route that writes."""
CHANGES = (*WRITES, 409)
"""The same, where something else may have been kept before."""
DECIDE: frozenset[Scope] = frozenset({"decide"})
REWARD: frozenset[Scope] = frozenset({"reward"})
READ: frozenset[Scope] = frozenset({"read"})
ADMIN: frozenset[Scope] = frozenset({"admin"})


class Route(NamedTuple):
    """One method and path; `statuses` are those of its refusals.

    With a `message`, `handler` takes the experiment and the message: path and query of
    a GET; the body of a POST, and then the sender, the name of its key, which goes with
    every event. Without one it takes the service and the key. It returns an `answer`
    (None: what is not JSON), or a `Response`. A key needs one of the `scopes`, or
    admin; without scopes no key is needed. `path` may end in one {parameter}. `each`:
    without a message, a key for some experiments is enough, and the answer is about
    these. `waits`: the call is held open, and given up where the caller is gone.
    `status` is that of an answer that is no `Response`. A route of a `door` has
    handlers of another form, see `Visit`. A message with `slots` is for the
    `slate_handler`, which returns a `slate_answer`. `examples` are bodies of a POST by
    what they show; path and query of a GET that takes more than the experiment.
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
        """The name of the operation in OpenAPI: that of its handler."""
        return self.handler.__name__
