"""The table of routes. Dispatch, access, limits, OpenAPI and the page of routes in the docs are made from it.

A new route is one entry here and one function in `handlers` (and its messages, if none of those there fit).
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from oddsmith.server.http import decisions as d
from oddsmith.server.http import handlers as h
from oddsmith.server.http import lists as r
from oddsmith.server.http.keys import Scope
from oddsmith.server.http.slates import decide_slate
from oddsmith.server.messages import calls as m
from oddsmith.server.messages import figures as fm
from oddsmith.server.messages import lists as rm
from oddsmith.server.messages import stats as sm
from oddsmith.server.monitor import figures as f
from oddsmith.server.monitor import health as c

__all__ = ["BODY_BYTES", "OFFER_BYTES", "ROUTES", "Route"]

if TYPE_CHECKING:
    from oddsmith.server.http.door import Door


BODY_BYTES = 65_536
OFFER_BYTES = 1 << 20
"""Bytes of a body with arms in it, and of a batch."""
_BATCH = OFFER_BYTES
_READS = (400, 401, 403, 404, 408, 413, 414, 422, 429, 431, 503)
_WRITES = (*_READS, 507)
_CHANGES = (*_WRITES, 409)


class Route(NamedTuple):
    """One method and path; `statuses` are those of its refusals.

    With a `message`, `handler` takes the experiment and the message: path and query of a GET; the body of a POST, and
    then the sender, the name of its key, which goes with every event. Without one it takes the service and the key. It
    returns an `answer` (None: what is not JSON), or a `Response`. A key needs one of the `scopes`, or admin; without
    scopes no key is needed. `path` may end in one {parameter}. `each`: without a message, a key for some experiments is
    enough, and the answer is about these. `waits`: the call is held open, and given up where the caller is gone.
    `status` is that of an answer that is no `Response`. A route of a `door` has handlers of another form, see `Visit`.
    A message with `slots` is for the `slate_handler`, which returns a `slate_answer`.
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

    @property
    def name(self) -> str:
        """The name of the operation in OpenAPI: that of its handler."""
        return self.handler.__name__


_DECIDE: frozenset[Scope] = frozenset({"decide"})
_REWARD: frozenset[Scope] = frozenset({"reward"})
_READ: frozenset[Scope] = frozenset({"read"})
_ADMIN: frozenset[Scope] = frozenset({"admin"})

ROUTES = (
    Route(
        "POST",
        "/v1/decide",
        d.decide,
        "Draw an arm, or one for each slot.",
        _DECIDE,
        m.Decide,
        m.DecisionAnswer,
        _CHANGES,
        slate_handler=decide_slate,
        slate_answer=m.SlateAnswer,
    ),
    Route("POST", "/v1/decide/batch", d.decide_batch, "Draw arms.", _DECIDE, m.DecideBatch, m.Results, _WRITES, _BATCH),
    Route("POST", "/v1/reward", h.reward, "Reward a decision.", _REWARD, m.RewardGiven, m.EventAnswer, _CHANGES),
    Route("POST", "/v1/reward/batch", h.reward_batch, "Reward.", _REWARD, m.RewardBatch, m.Results, _WRITES, _BATCH),
    Route("POST", "/v1/activate", h.activate, "Count it.", _DECIDE | _REWARD, m.Activate, m.EventAnswer, _WRITES),
    Route("POST", "/v1/correct", h.correct, "Correct a reward.", _ADMIN, m.Correct, m.EventAnswer, _CHANGES),
    Route("POST", "/v1/experts", h.experts, "Change the roster.", _ADMIN, m.RosterChange, m.EventAnswer, _CHANGES),
    Route("GET", "/v1/experiments", r.experiments, "The experiments.", _READ, answer=rm.Experiments, each=True),
    Route("GET", "/v1/decisions", r.decisions, "The latest decisions.", _READ, rm.DecisionsQuery, rm.Decisions),
    Route("GET", "/v1/decisions/{id}", h.decision, "One decision.", _READ, m.DecisionQuery, m.DecisionRecord),
    Route("GET", "/v1/posterior", h.posterior, "The weight of each expert.", _READ, m.Query, m.PosteriorAnswer),
    Route(
        "GET",
        "/v1/posterior/history",
        f.posterior_history,
        "The weight of each expert on the way.",
        _READ,
        m.Query,
        fm.PosteriorHistory,
    ),
    Route("GET", "/v1/series", f.series, "Sums by time, in all and by arm.", _READ, fm.SeriesQuery, fm.SeriesAnswer),
    Route("GET", "/v1/values", f.values, "What it is worth, and what else would be.", _READ, m.Query, fm.ValuesAnswer),
    Route("GET", "/v1/checks", c.checks, "Whether all is well.", _READ, m.Query, fm.ChecksAnswer),
    Route("GET", "/v1/stats", h.stats, "Counts and positions.", _READ, sm.StatsQuery, sm.Stats),
    Route("GET", "/v1/changes", r.changes, "Wait for news.", _READ, rm.ChangesQuery, rm.Changes, waits=True),
    Route("GET", "/metrics", h.metrics, "Metrics in the format of Prometheus.", _READ),
    Route("GET", "/healthz", h.health, "Whether the process lives.", answer=sm.Health),
    Route("GET", "/readyz", h.ready, "Whether every experiment can decide.", answer=sm.Health),
    Route("GET", "/openapi.json", h.openapi, "All routes, for programs."),
)
