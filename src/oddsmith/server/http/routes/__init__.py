"""Routes: each file has the handlers of one family and their entries, which are joined
here.

Dispatch, access, limits, OpenAPI and the page of routes are made from `ROUTES`.
"""

from oddsmith.server.http.routes import (
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
    *decisions.ROUTES,
    *figures.ROUTES,
    *results.ROUTES,
    *checks.ROUTES,
    *status.ROUTES,
)
