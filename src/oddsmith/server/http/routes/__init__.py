"""Routes of the service. Each module contains the handlers of one topic and their table
entries, which are joined here to `ROUTES`.

`ROUTES` is used for dispatch, access control, limits, the OpenAPI document and the page
that documents the API.
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
