"""The routes of Personalizer's API. Each has the version that introduced it and a code
for errors.

A new route is one entry here and one function, which takes the experiment and a
`Visit`.
"""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from oddsmith.server.compat.personalizer import configuration as c
from oddsmith.server.compat.personalizer import evaluations as v
from oddsmith.server.compat.personalizer import events as e
from oddsmith.server.compat.personalizer import facts as f
from oddsmith.server.compat.personalizer import messages as m
from oddsmith.server.compat.personalizer import multislot as s
from oddsmith.server.compat.personalizer import rank as r
from oddsmith.server.http.keys import Scope
from oddsmith.server.http.routes.route import OFFER_BYTES, Route

__all__ = ["TABLE", "VERSIONS", "Way"]

VERSIONS = (
    "v1.0",
    "v1.1-preview.1",
    "v1.1-preview.2",
    "v1.1-preview.3",
    "2022-09-01-preview",
)
"""The API versions, in order. The last version is a parameter of the query; earlier
versions are part of the path."""

_DECIDE: frozenset[Scope] = frozenset({"decide"})
_REWARD: frozenset[Scope] = frozenset({"reward"})
_READ: frozenset[Scope] = frozenset({"read"})
_ADMIN: frozenset[Scope] = frozenset({"admin"})
_EVALUATION = "/evaluations/{id}"


class Way(NamedTuple):
    """A route, the number of the version that introduced it, and the code of its
    errors."""

    since: int
    code: str
    route: Route


def _way(
    method: str,
    path: str,
    handler: Callable[..., Awaitable[Any]],
    summary: str,
    *,
    since: int = 0,
    code: str = "BadRequest",
    scopes: frozenset[Scope],
    message: Any = None,
    status: int = 200,
) -> Way:
    """Return a route whose body may be as long as a call with arms."""
    route = Route(
        method,
        f"/personalizer{path}",
        handler,
        summary,
        scopes,
        message,
        body_bytes=OFFER_BYTES,
        status=status,
    )
    return Way(since, code, route)


TABLE: tuple[Way, ...] = (
    _way(
        "POST",
        "/rank",
        r.rank,
        "Draw an action.",
        scopes=_DECIDE,
        message=m.RankRequest,
        status=201,
        code="InvalidRankRequest",
    ),
    _way(
        "POST",
        "/events/{event}/reward",
        e.reward,
        "Reward an event.",
        scopes=_REWARD,
        message=m.RewardRequest,
        code="InvalidRewardRequest",
    ),
    _way(
        "POST",
        "/events/{event}/activate",
        e.activate,
        "Activate an event.",
        scopes=_DECIDE | _REWARD,
        code="InvalidEventIdToActivate",
    ),
    _way(
        "POST",
        "/multislot/rank",
        s.rank_slots,
        "Draw an action for each slot.",
        scopes=_DECIDE,
        message=m.MultiSlotRequest,
        status=201,
        code="InvalidRankRequest",
        since=1,
    ),
    _way(
        "POST",
        "/multislot/events/{event}/reward",
        s.reward_slots,
        "Reward slots.",
        scopes=_REWARD,
        message=m.MultiSlotRewards,
        code="InvalidRewardRequest",
        since=1,
    ),
    _way(
        "POST",
        "/multislot/events/{event}/activate",
        s.activate_slots,
        "Activate all slots.",
        scopes=_DECIDE | _REWARD,
        code="InvalidEventIdToActivate",
        since=1,
    ),
    _way(
        "GET",
        "/configurations/service",
        c.configuration,
        "The configuration.",
        scopes=_READ,
    ),
    _way(
        "PUT",
        "/configurations/service",
        c.configure,
        "Change the configuration.",
        scopes=_ADMIN,
        message=m.ServiceConfiguration,
        code="InvalidServiceConfiguration",
    ),
    _way("GET", "/configurations/policy", f.policy, "The policy.", scopes=_READ),
    _way("PUT", "/configurations/policy", f.fixed_policy, "Refused.", scopes=_ADMIN),
    _way(
        "DELETE",
        "/configurations/policy",
        f.delete_policy,
        "The policy, which this call does not change.",
        scopes=_ADMIN,
    ),
    _way(
        "POST",
        "/configurations/applyFromEvaluation",
        v.apply_evaluation,
        "Refused, unless the policy is already served.",
        scopes=_ADMIN,
        message=m.ApplyContract,
        code="InvalidPolicyConfiguration",
        since=1,
    ),
    _way("GET", "/model", f.model, "The state, as an .npz file.", scopes=_ADMIN),
    _way("PUT", "/model", f.fixed_model, "Refused.", scopes=_ADMIN),
    _way("DELETE", "/model", f.fixed_model, "Refused.", scopes=_ADMIN),
    _way(
        "GET",
        "/model/properties",
        f.model_properties,
        "Times of the first and the last event.",
        scopes=_READ,
    ),
    _way("DELETE", "/logs", f.delete_logs, "Erase contexts.", scopes=_ADMIN),
    _way(
        "GET",
        "/logs/properties",
        f.log_properties,
        "Times of the first and the last decision.",
        scopes=_READ,
    ),
    _way(
        "GET",
        "/status",
        f.status,
        "Whether the key is valid.",
        scopes=_DECIDE | _REWARD | _READ,
    ),
    _way("GET", "/evaluations", v.evaluations, "All evaluations.", scopes=_READ),
    _way(
        "POST",
        "/evaluations",
        v.create_evaluation,
        "Ask about policies.",
        scopes=_ADMIN,
        message=m.EvaluationContract,
        code="InvalidEvaluationContract",
    ),
    _way("GET", _EVALUATION, v.evaluation, "One evaluation.", scopes=_READ),
    _way(
        "PUT",
        _EVALUATION,
        v.put_evaluation,
        "Ask about policies.",
        scopes=_ADMIN,
        message=m.EvaluationContract,
        code="InvalidEvaluationContract",
    ),
    _way(
        "DELETE",
        _EVALUATION,
        v.delete_evaluation,
        "Forget an evaluation.",
        scopes=_ADMIN,
    ),
)
