"""Comparison of regret bounds: GTS, related algorithms and lower bounds (docs/math
9.3)."""

from math import inf, log1p
from typing import Any, Literal, NamedTuple

from oddsmith.core.arrays import number
from oddsmith.core.errors import InvalidInput
from oddsmith.theory.agnostic import hedged_bound
from oddsmith.theory.bounds import check_problem, regret_bound
from oddsmith.theory.constants import log_inverse
from oddsmith.theory.rivals import (
    exp4_bound,
    feelgood_bound,
    regressor_elimination_bound,
    squarecb_bound,
)
from oddsmith.theory.sampling import sampling_floor, thompson_bound

__all__ = ["Promise", "Status", "compare"]

Status = Literal["proved", "literature", "lower bound"]
_RIGHT = "one expert is right; contexts may be an adversary's"
_DRAWN = (
    "the truth is drawn from the prior; contexts depend on it through the past alone"
)
_IID = "one expert is right; contexts are i.i.d.; with probability {confidence:g}"
_WRONG = "no expert need be right; regret is to the best expert's policy"
_LEAST = "one expert is right: what is lost at least, in the worst world"
_CAVEAT = "; B = ln((1-p)/p) is at least 24 and 2 ln T"


class Promise(NamedTuple):
    """The bound of an algorithm: a number (None if no constant is known), its formula,
    when it applies, and its source.

    A bound of T or more, and a lower bound of 0, carry no information.
    """

    algorithm: str
    bound: float | None
    formula: str
    applies: str
    status: Status

    def says_nothing(self, steps: float) -> bool:
        """Return whether the bound is trivial, because every algorithm satisfies it."""
        if self.bound is None:
            return False
        if self.status == "lower bound":
            return self.bound <= 0
        return self.bound >= steps


def compare(
    *,
    n_arms: int,
    steps: float,
    prior: float,
    entropy: float | None = None,
    confidence: float = 0.95,
) -> list[Promise]:
    """Return all bounds for the problem, grouped by assumption, smallest first, with
    lower bounds last.

    `prior` is that of the right expert (of the least likely expert, if regret is to
    policies), and `entropy` that of the prior; if None, that of 1/prior equally likely
    experts.

    >>> rows = compare(n_arms=2, steps=2**16, prior=1e-12)
    >>> [(row.algorithm, round(row.bound)) for row in rows[:2]]
    [('SquareCB', 1346), ('Feel-Good Thompson sampling', 4037)]
    """
    check_problem(n_arms, steps)
    if entropy is None:
        entropy = log_inverse(prior)
    else:
        _check_entropy(entropy, prior)
    rows = _right(n_arms, steps, prior, entropy)
    rows += _others(n_arms, steps, prior, entropy, confidence)
    groups: dict[str, list[Promise]] = {}
    for row in rows:
        groups.setdefault(row.applies, []).append(row)
    ordered = []
    for group in groups.values():
        ordered += sorted(
            group, key=lambda row: inf if row.bound is None else row.bound
        )
    return ordered + _limits(n_arms, steps, prior)


def _check_entropy(entropy: float, prior: float) -> None:
    """Raise for an entropy that no prior with this probability of the right expert
    has."""
    number("entropy", entropy, low=0, high=inf)
    least = prior * log_inverse(prior)
    if prior < 1:
        least -= (1 - prior) * log1p(-prior)
    if entropy < least * (1 - 1e-9):
        raise InvalidInput(
            f"entropy must be at least {least:.4g} where the truth has prior "
            f"{prior:g}; got {entropy:g}"
        )


def _right(n_arms: int, steps: float, prior: float, entropy: float) -> list[Promise]:
    """Return bounds for one correct expert and arbitrary contexts."""
    size: Any = {"n_arms": n_arms, "steps": steps, "prior": prior}
    tuned = regret_bound("log", **size)
    paper = regret_bound("square", constants="paper", **size)
    unexplored = regret_bound("log", gamma=0.0, **size)
    thompson = thompson_bound(entropy=entropy, **size)
    feel_good = feelgood_bound("log", **size)
    squarecb = squarecb_bound(**size)
    proved = {
        "GTS, tuned gamma, the paper's constants": (paper, "5.374 (K L)^(1/3) T^(2/3)"),
        "GTS, tuned gamma": (tuned, "2.381 ((K-1) L)^(1/3) T^(2/3)"),
        "GTS, gamma 0": (unexplored, "sqrt(2T) (sqrt((K-1) L) + sqrt((1-p)/p))"),
        "Thompson sampling, fixed truth": (thompson, "sqrt(K H T/2) / p"),
        "Feel-Good Thompson sampling": (feel_good, "2 sqrt((K + 1/4) T L)"),
        "SquareCB": (squarecb, "sqrt((K-1) T L)"),
    }
    rows = []
    for name, (bound, formula) in proved.items():
        rows.append(Promise(name, bound.bound, formula, _RIGHT, "proved"))
    formula = "O(sqrt(K L* L) + K L)"
    rows.append(Promise("FastCB, small costs", None, formula, _RIGHT, "literature"))
    return rows


def _others(
    n_arms: int, steps: float, prior: float, entropy: float, confidence: float
) -> list[Promise]:
    """Return bounds under stronger or weaker assumptions."""
    size: Any = {"n_arms": n_arms, "steps": steps, "prior": prior}
    thompson = thompson_bound(entropy=entropy, n_arms=n_arms, steps=steps)
    elimination = regressor_elimination_bound(confidence=confidence, **size)
    iid = _IID.format(confidence=confidence)
    exp4 = exp4_bound(**size)
    hedged = hedged_bound(**size)
    found = [
        ("Thompson sampling, right prior", thompson, "sqrt(K H T/2)", _DRAWN),
        ("Regressor elimination", elimination, "8.345 sqrt(K T ln(N/delta))", iid),
        ("EXP4", exp4, "sqrt(2 K T ln N)", _WRONG),
        ("Hedged GTS", hedged, "2 sqrt(1/4 + K T ln 2N)", _WRONG),
    ]
    promises = []
    for name, bound, formula, applies in found:
        promises.append(Promise(name, bound.bound, formula, applies, "proved"))
    return promises


def _limits(n_arms: int, steps: float, prior: float) -> list[Promise]:
    """Return lower bounds."""
    floor = 0.0
    if n_arms > 1:
        floor = sampling_floor(steps=steps, prior=prior)
    of_gts = Promise(
        algorithm="GTS, any gamma_t that is fixed in advance",
        bound=floor,
        formula="min(0.08 T, 0.146 B^(1/3) T^(2/3))",
        applies=_LEAST + _CAVEAT,
        status="lower bound",
    )
    formula = "Omega(sqrt(K T ln N / ln K))"
    of_all = Promise("any algorithm", None, formula, _LEAST, "lower bound")
    return [of_gts, of_all]
