"""Routes: each module contains the handlers of one topic with their table entries. All
entries are joined here.

Dispatch, access control, limits, OpenAPI and the page of the API are made from
`ROUTES`.
"""

from oddsmith.server.http.routes import (
    actions,
    checks,
    decide,
    decisions,
    experts,
    figures,
    results,
    rewards,
    status,
)
from oddsmith.server.http.routes.route import Route

__all__ = ["ROUTES"]

ROUTES: tuple[Route, ...] = (
    *decide.ROUTES,
    *rewards.ROUTES,
    *experts.ROUTES,
    *actions.ROUTES,
    *decisions.ROUTES,
    *figures.ROUTES,
    *results.ROUTES,
    *checks.ROUTES,
    *status.ROUTES,
)
