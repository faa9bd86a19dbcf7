"""Who has what, and when: the bounds of GTS, its relatives and their limits, side by
side (theory 9.3)."""

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
    """What an algorithm has: a number (None: no constant is known), its formula, when
    it applies, who says so.

    A bound of T or more, and a floor of 0, say nothing.
    """

    algorithm: str
    bound: float | None
    formula: str
    applies: str
    status: Status

    def says_nothing(self, steps: float) -> bool:
        """Whether every algorithm keeps the promise."""
        if self.bound is None:
            return False
        return self.bound <= 0 if self.status == "lower bound" else self.bound >= steps


def compare(
    *,
    n_arms: int,
    steps: float,
    prior: float,
    entropy: float | None = None,
    confidence: float = 0.95,
) -> list[Promise]:
    """Every bound for the problem: grouped by what has to hold, the smallest first; the
    lower bounds at the end.

    `prior` is that of the truth (of the least likely expert, where regret is to
    policies), `entropy` that of the prior; 1/prior equally likely experts if None.

    >>> rows = compare(n_arms=2, steps=2**16, prior=1e-12)
    >>> [(row.algorithm, round(row.bound)) for row in rows[:2]]
    [('SquareCB', 1346), ('Feel-Good Thompson sampling', 4037)]
    """
    check_problem(n_arms, steps)
    known = log_inverse(prior) if entropy is None else _possible(entropy, prior)
    rows = [
        *_right(n_arms, steps, prior, known),
        *_others(n_arms, steps, prior, known, confidence),
    ]
    groups = list(dict.fromkeys(row.applies for row in rows))
    rows.sort(
        key=lambda row: (
            groups.index(row.applies),
            inf if row.bound is None else row.bound,
        )
    )
    return rows + _limits(n_arms, steps, prior)


def _possible(entropy: float, prior: float) -> float:
    """The entropy, if a prior that gives the truth this probability can have it."""
    number("entropy", entropy, low=0, high=inf)
    least = prior * log_inverse(prior) - (
        (1 - prior) * log1p(-prior) if prior < 1 else 0.0
    )
    if entropy < least * (1 - 1e-9):
        raise InvalidInput(
            f"entropy must be at least {least:.4g} where the truth has prior "
            f"{prior:g}; got {entropy:g}"
        )
    return entropy


def _right(n_arms: int, steps: float, prior: float, entropy: float) -> list[Promise]:
    """One expert is right, whichever, and contexts are anything."""
    size: Any = {"n_arms": n_arms, "steps": steps, "prior": prior}
    thompson = thompson_bound(entropy=entropy, **size)
    paper = regret_bound("square", constants="paper", **size)
    tuned, plain = (regret_bound("log", gamma=gamma, **size) for gamma in (None, 0.0))
    cube = "((K-1) L)^(1/3) T^(2/3)"
    found = [
        ("GTS, tuned gamma, the paper's constants", paper, "5.374 (K L)^(1/3) T^(2/3)"),
        ("GTS, tuned gamma", tuned, f"2.381 {cube}"),
        ("GTS, gamma 0", plain, "sqrt(2T) (sqrt((K-1) L) + sqrt((1-p)/p))"),
        ("Thompson sampling, fixed truth", thompson, "sqrt(K H T/2) / p"),
        (
            "Feel-Good Thompson sampling",
            feelgood_bound("log", **size),
            "2 sqrt((K + 1/4) T L)",
        ),
        ("SquareCB", squarecb_bound(**size), "sqrt((K-1) T L)"),
    ]
    rows = [
        Promise(name, bound.bound, formula, _RIGHT, "proved")
        for name, bound, formula in found
    ]
    return [
        *rows,
        Promise(
            "FastCB, small costs", None, "O(sqrt(K L* L) + K L)", _RIGHT, "literature"
        ),
    ]


def _others(
    n_arms: int, steps: float, prior: float, entropy: float, confidence: float
) -> list[Promise]:
    """More is known about the world, or less."""
    size: Any = {"n_arms": n_arms, "steps": steps, "prior": prior}
    right = thompson_bound(entropy=entropy, n_arms=n_arms, steps=steps)
    iid = regressor_elimination_bound(confidence=confidence, **size)
    exp4, hedged = exp4_bound(**size), hedged_bound(**size)
    return [
        Promise(
            "Thompson sampling, right prior",
            right.bound,
            "sqrt(K H T/2)",
            _DRAWN,
            "proved",
        ),
        Promise(
            "Regressor elimination",
            iid.bound,
            "8.345 sqrt(K T ln(N/delta))",
            _IID.format(confidence=confidence),
            "proved",
        ),
        Promise("EXP4", exp4.bound, "sqrt(2 K T ln N)", _WRONG, "proved"),
        Promise(
            "Hedged GTS", hedged.bound, "2 sqrt(1/4 + K T ln 2N)", _WRONG, "proved"
        ),
    ]


def _limits(n_arms: int, steps: float, prior: float) -> list[Promise]:
    """What cannot be had."""
    floor = sampling_floor(steps=steps, prior=prior) if n_arms > 1 else 0.0
    any_rule = "Omega(sqrt(K T ln N / ln K))"
    fixed = "GTS, any gamma_t that is fixed beforehand"
    return [
        Promise(
            fixed,
            floor,
            "min(0.08 T, 0.146 B^(1/3) T^(2/3))",
            _LEAST + _CAVEAT,
            "lower bound",
        ),
        Promise("any algorithm", None, any_rule, _LEAST, "lower bound"),
    ]
