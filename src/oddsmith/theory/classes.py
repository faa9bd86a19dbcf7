"""Continuous classes of experts: bounds by covering numbers, and by exact posteriors
for linear and logistic classes.

All bounds are the refined theorem (docs/math 3.4) with another number in place of L =
ln(1/p): the cost of selecting a neighbour of the truth, plus the additional loss of
that neighbour's predictions (docs/math 5.7, 9.5).
"""

from collections.abc import Callable
from math import ceil, exp, expm1, inf, log, log1p, sqrt
from typing import NamedTuple

import numpy as np

from oddsmith.core.arrays import number, whole
from oddsmith.core.errors import InvalidInput
from oddsmith.theory.bounds import (
    Bound,
    capped,
    check_problem,
    mixed_terms,
    refined_bound,
)
from oddsmith.theory.constants import Coefficient

__all__ = [
    "LogCover",
    "approximated_class_bound",
    "ball_log_cover",
    "class_bound",
    "class_complexity",
    "cover_bound",
    "cover_complexity",
    "cover_radius",
    "covered_class_bound",
    "lipschitz_log_cover",
]

LogCover = Callable[[float], float]
"""ln N(ε): the logarithm of the size of a cover that has a member within ε of each
member of the class."""


class _Kind(NamedTuple):
    """A kind of class.

    `coefficient` gives the coefficient of the bound. `error` is the mean excess loss of
    a neighbour at distance ε, divided by ε². `distance` is the meaning of the
    distance, in words.
    """

    coefficient: Coefficient
    error: float
    distance: str


# Predictions of a linear class may leave [0, 1], where only Hoeffding's constant is
# proved (docs/math 5.7).
_PREDICTIONS = (
    "predictions within {radius:.4g} of those of some member of the cover, on every "
    "context and arm"
)
_PARAMETERS = (
    "a parameter within {radius:.4g} of one that is covered, and features of norm at "
    "most 1"
)
_KINDS = {
    "square": _Kind(Coefficient(1.0, 0.46), 1.0, _PREDICTIONS),
    "log": _Kind(Coefficient(0.5, 0.5), inf, _PREDICTIONS),
    "linear": _Kind(Coefficient(1.0, -expm1(-0.5)), 1.0, _PARAMETERS),
    "logistic": _Kind(Coefficient(0.5, 0.5), 1 / 8, _PARAMETERS),
}
_RADII = 400  # number of radii to try before refining the best one


def covered_class_bound(
    log_cover: LogCover,
    *,
    kind: str = "square",
    n_arms: int,
    steps: float,
    radius: float | None = None,
    margin: float | None = None,
    gamma: float | None = None,
) -> Bound:
    """Return the bound of GTS over a cover of a class, including its discretisation: L
    = ln N(ε) + η T e ε², at the best radius if None.

    Distances are between predictions (kind "square" and "log", the loss in use) or
    between parameters ("linear" and "logistic", with square and log loss). A neighbour
    at distance ε loses e ε² more than the right predictor: e is 1 for square loss, 1/8
    for a logistic class, and 1/(m (1-m)) for log loss if the cover predicts in [m,
    1-m], m = `margin`.

    >>> smooth = lipschitz_log_cover(dim=1, constant=1.0, n_arms=2)
    >>> round(covered_class_bound(smooth, n_arms=2, steps=1e8).bound, -5)
    8400000.0
    """
    check_problem(n_arms, steps)
    used = _kind(kind, margin)
    if radius is None:
        radius = cover_radius(log_cover, kind=kind, steps=steps, margin=margin)
    number("radius", radius, low=0, high=inf)
    eta = used.coefficient.eta
    error = eta * steps * used.error * radius**2
    complexity = _log_size(log_cover, radius) + error
    found = refined_bound(
        used.coefficient, n_arms=n_arms, steps=steps, log_prior=complexity, gamma=gamma
    )
    applies = f"applies when the truth has {used.distance.format(radius=radius)}"
    if margin is not None:
        applies += f", and the cover predicts in [{margin:g}, {1 - margin:g}]"
    return found._replace(applies=applies)


def cover_radius(
    log_cover: LogCover,
    *,
    kind: str = "square",
    steps: float,
    margin: float | None = None,
) -> float:
    """Return the radius ε in (0, 1] that minimises ln N(ε) + η T e ε², and with it the
    bound.

    >>> round(
    ...     cover_radius(ball_log_cover(dim=2, norm=3.0), kind="logistic", steps=3000),
    ...     3,
    ... )
    0.073
    """
    from scipy.optimize import minimize_scalar

    number("steps", steps, low=1, high=inf)
    used = _kind(kind, margin)
    rate = used.coefficient.eta * used.error * steps

    def complexity(x: float) -> float:
        size = _log_size(log_cover, exp(x))
        return size + rate * exp(2 * x)

    # At the smallest radius the error is 1e-4 nats, so smaller radii cannot help.
    narrow = 100 * sqrt(rate)
    lowest = min(-1.0, -log(narrow))
    grid = np.linspace(lowest, 0.0, _RADII).tolist()
    values = [complexity(x) for x in grid]
    i = int(np.argmin(values))
    before = max(i - 1, 0)
    after = min(i + 1, _RADII - 1)
    ends = (grid[before], grid[after])
    options = {"xatol": 1e-9}
    found = minimize_scalar(complexity, bounds=ends, method="bounded", options=options)
    best = grid[i]
    if found.fun < values[i]:
        best = float(found.x)
    return exp(best)


def lipschitz_log_cover(*, dim: int, constant: float, n_arms: int = 1) -> LogCover:
    """Return K ceil(C/ε)^d ln ceil(1/ε), for functions from [0, 1]^d to [0, 1] with
    Lipschitz constant C, one for each of K arms.

    Distances between contexts are those of the largest coordinate. In each cell of side
    ε/C, a function is within ε/2 of its value in the middle, which is within ε/2 of one
    of ceil(1/ε) levels.

    >>> round(lipschitz_log_cover(dim=2, constant=1.0)(0.1), 2)
    230.26
    """
    cells = whole("n_arms", n_arms) * 1.0
    whole("dim", dim)
    number("constant", constant, low=0, high=inf)

    def log_cover(radius: float) -> float:
        pieces = max(ceil(constant / radius), 1)
        levels = ceil(1 / radius)
        size: float = cells * pieces**dim * log(levels)
        return size

    return log_cover


def ball_log_cover(*, dim: int, norm: float) -> LogCover:
    """Return d ln(1 + 2r/ε), for a ball of radius r in d dimensions, by volume."""
    whole("dim", dim)
    number("norm", norm, low=0, high=inf)
    return lambda radius: dim * log1p(2 * norm / radius)


def class_complexity(
    kind: str, *, dim: int, steps: float, eta: float, norm: float, ridge: float = 1.0
) -> float:
    """Return L of a whole class with a Gaussian prior N(0, I/λ) and ‖θ*‖ <= norm, ‖φ‖
    <= 1 (docs/math 5.7).

    linear (square loss): (d/2) ln(1 + 2ηT/(dλ)) + λ‖θ*‖²/2; logistic (log loss): (d/2)
    ln(1 + ηT/(4dλ)) + λ‖θ*‖²/2.
    """
    rate = 2 * eta
    if _parametric(kind) == "logistic":
        rate = eta / 4
    number("dim", dim, low=1, high=inf)
    number("steps", steps, low=1, high=inf)
    number("ridge", ridge, low=0, high=inf, open_low=True)
    number("norm", norm, low=0, high=inf)
    growth = rate * steps / (dim * ridge)
    volume = dim / 2 * log1p(growth)
    return volume + ridge / 2 * norm**2


def cover_complexity(
    kind: str, *, n: float, radius: float, steps: float, eta: float
) -> float:
    """Return L of a cover of n points: ln n + ηTε² (linear, square loss), ln n + ηTε²/8
    (logistic, log loss; docs/math 5.7)."""
    number("n", n, low=1, high=inf)
    number("steps", steps, low=1, high=inf)
    number("radius", radius, low=0, high=inf)
    known = _KINDS[_parametric(kind)]
    error = known.error * eta * steps * radius**2
    return log(n) + error


def class_bound(
    kind: str,
    *,
    dim: int,
    norm: float,
    n_arms: int,
    steps: float,
    ridge: float = 1.0,
    gamma: float | None = None,
) -> Bound:
    """Return the bound of GTS over a whole linear (square loss) or logistic (log loss)
    class with a Gaussian prior."""
    used = _KINDS[_parametric(kind)].coefficient
    complexity = class_complexity(
        kind, dim=dim, steps=steps, eta=used.eta, norm=norm, ridge=ridge
    )
    found = refined_bound(
        used, n_arms=n_arms, steps=steps, log_prior=complexity, gamma=gamma
    )
    applies = (
        f"applies when mean rewards are {kind} in features of norm at most 1, and the "
        "posterior is exact"
    )
    return found._replace(applies=applies)


def approximated_class_bound(
    kind: str,
    *,
    dim: int,
    norm: float,
    n_arms: int,
    steps: float,
    error: float,
    ridge: float = 1.0,
    gamma: float | None = None,
) -> Bound:
    """Return the bound if arms are drawn from an approximation (Laplace's, particles'
    or fixed directions'), which adds `error`.

    The bound is (1-γ) (sqrt(2KTL/(cγ)) + T error) + γT(K-1)/K. `error` is the mean,
    over steps, of the total variation between the approximate propensities (before
    gamma) and those of the exact posterior of the same history (docs/math 9.6).

    >>> problem = {"dim": 2, "norm": 3.0, "n_arms": 3, "steps": 10**6}
    >>> round(
    ...     approximated_class_bound("logistic", **problem, error=0.01).terms[
    ...         "approximation"
    ...     ],
    ...     -1,
    ... )
    9510.0
    """
    check_problem(n_arms, steps)
    number("error", error, low=0, high=1)
    used = _KINDS[_parametric(kind)].coefficient
    complexity = class_complexity(
        kind, dim=dim, steps=steps, eta=used.eta, norm=norm, ridge=ridge
    )
    loss_of_arm = (n_arms - 1) / n_arms
    explored = steps * (loss_of_arm - error)
    product = 2 * n_arms * steps * complexity
    learning = sqrt(product / used.c)
    gamma, terms = mixed_terms(learning, max(explored, 0.0), gamma)
    terms["approximation"] = (1 - gamma) * steps * error
    terms["exploration"] = gamma * steps * (n_arms - 1) / n_arms
    applies = (
        f"mean rewards are {kind} in features of norm at most 1, and odds are that "
        "near to the exact posterior's"
    )
    return capped(terms, steps, eta=used.eta, gamma=gamma, applies=applies)


def cover_bound(
    kind: str,
    *,
    n: float,
    radius: float,
    n_arms: int,
    steps: float,
    gamma: float | None = None,
) -> Bound:
    """Return `covered_class_bound` for a linear or logistic class whose cover
    (`ball_cover`) has n points."""
    size = log(number("n", n, low=1, high=inf))

    def log_cover(_: float) -> float:
        return size

    return covered_class_bound(
        log_cover,
        kind=_parametric(kind),
        n_arms=n_arms,
        steps=steps,
        radius=radius,
        gamma=gamma,
    )


def _parametric(kind: str) -> str:
    if kind not in ("linear", "logistic"):
        raise InvalidInput(f"kind must be linear or logistic; got {kind!r}")
    return kind


def _kind(kind: str, margin: float | None) -> _Kind:
    if kind not in _KINDS:
        raise InvalidInput(f"kind must be {', '.join(_KINDS)}; got {kind!r}")
    needs_margin = kind == "log"
    if needs_margin is (margin is None):
        rule = "not be given but for log loss"
        if needs_margin:
            rule = "be given for log loss"
        raise InvalidInput(
            f"margin must {rule}, whose error depends on it; got {margin!r} for kind "
            f"{kind!r}"
        )
    if margin is None:
        return _KINDS[kind]
    number("margin", margin, low=0, high=0.5, open_low=True)
    error = 1 / (margin * (1 - margin))
    return _KINDS[kind]._replace(error=error)


def _log_size(log_cover: LogCover, radius: float) -> float:
    """Return ln N(ε), or raise if it is invalid."""
    size = log_cover(radius)
    if not size >= 0:
        raise InvalidInput(
            f"log_cover must give ln N(ε) of at least 0 at every radius; got {size!r} "
            f"at {radius:g}"
        )
    return float(size)
