"""Every route as data: what it takes, what it answers, which statuses it may have. App and OpenAPI read this table."""

from typing import Any, NamedTuple

from oddsmith.service import messages as m

__all__ = ["OPERATIONS", "Operation"]

_ALWAYS = (400, 401, 403, 404, 408, 413, 414, 422, 431, 503)


class Operation(NamedTuple):
    """One method and path; `body` and `answer` are types, None for none (or for what is not JSON)."""

    name: str
    method: str
    path: str
    says: str
    body: Any = None
    answer: Any = None
    statuses: tuple[int, ...] = _ALWAYS
    query: tuple[str, ...] = ()


OPERATIONS = (
    Operation("decide", "POST", "/v1/decide", "Draw an arm.", m.Decide, m.Decided, (*_ALWAYS, 507)),
    Operation("decide_batch", "POST", "/v1/decide/batch", "Many decisions.", m.DecideBatch, m.Results, (*_ALWAYS, 507)),
    Operation("reward", "POST", "/v1/reward", "A decision's reward.", m.RewardGiven, m.Kept, (*_ALWAYS, 409, 507)),
    Operation("reward_batch", "POST", "/v1/reward/batch", "Many rewards.", m.RewardBatch, m.Results, (*_ALWAYS, 507)),
    Operation("correct", "POST", "/v1/correct", "Correct a reward.", m.Correct, m.Kept, (*_ALWAYS, 409, 507)),
    Operation("activate", "POST", "/v1/activate", "It was shown.", m.Activate, m.Kept, (*_ALWAYS, 507)),
    Operation("experts", "POST", "/v1/experts", "Experts come and go.", m.Change, m.Kept, (*_ALWAYS, 409, 507)),
    Operation(
        "decision",
        "GET",
        "/v1/decisions/{id}",
        "All about one decision.",
        answer=m.DecisionRecord,
        query=("experiment", "explain"),
    ),
    Operation("posterior", "GET", "/v1/posterior", "Whom to follow.", answer=m.Posterior, query=("experiment",)),
    Operation("stats", "GET", "/v1/stats", "Counts and positions.", answer=m.Stats, query=("experiment",)),
    Operation("health", "GET", "/healthz", "Whether the process lives.", answer=m.Health),
    Operation("ready", "GET", "/readyz", "Whether it can decide.", answer=m.Health),
    Operation("metrics", "GET", "/metrics", "Metrics in the format of Prometheus."),
    Operation("openapi", "GET", "/openapi.json", "This description."),
)
