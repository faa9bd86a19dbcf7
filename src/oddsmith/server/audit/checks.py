"""Checks of single records: the draw, the propensities and the experts."""

from collections.abc import Sequence
from math import inf, isnan
from typing import NamedTuple

import numpy as np

from oddsmith.core.arrays import Array, Bools
from oddsmith.core.decision import Decision, State
from oddsmith.core.draw import Uniforms, pick
from oddsmith.core.offer import Offer
from oddsmith.core.policy import Policy
from oddsmith.policies.bounds import reads_features
from oddsmith.policies.holdout import odds_of_record
from oddsmith.server.audit.verdicts import CheckResult, Differs, Untested
from oddsmith.server.store.changes import arms_since
from oddsmith.server.store.protocol import Evidence, Line, Reading

__all__ = [
    "CLOSE",
    "Draws",
    "INCUMBENT",
    "Opinions",
    "SPEAKS_NOW",
    "check_advice",
    "check_incumbent",
    "check_odds",
    "check_sleep",
    "how_far",
    "same_odds",
]

CLOSE = 1e-9  # tolerance for predictions that are computed again
INCUMBENT = "an incumbent acted"
# the tolerance for votes is larger, because votes can change steeply with the
# predictions
_VOTES = 1e-6


class Draws:
    """Repeats the draws of a store with its seed and arms."""

    def __init__(self, reading: Reading) -> None:
        about = reading.about
        self._arms = list(arms_since(reading))
        self._uniform: Uniforms | None = None
        if about.get("seed") is not None:
            self._uniform = Uniforms(about["seed"])

    def check(self, line: Line, decision: Decision, evidence: Evidence) -> CheckResult:
        """Check that a draw with the seed, the id and the recorded propensities gives
        the recorded arm."""
        number = decision.number
        odds = decision.propensities
        arms = decision.arms or self._arms_at(line.seen or 0)
        if not isinstance(number, int) or not 0 <= number < len(odds):
            return Differs(f"arm number {number!r}", f"one of {len(odds)} arms")
        has_name = bool(arms) and decision.index is not None
        if has_name and (len(arms) != len(odds) or arms[number] != decision.arm):
            follows = f"arm number {number} of {list(arms)[:8]}"
            return Differs(f"arm {decision.arm!r}", follows)
        if decision.eligible is not None and not decision.eligible[number]:
            return Differs(f"arm {decision.arm!r}", "an eligible arm")
        if not _sums_to_one(odds):
            return Differs(f"odds {_some(odds)}", "a distribution")
        if evidence.shadow:
            return self._check_own(line.id, arms, evidence)
        return self._check_number(line.id, arms, number, odds)

    def _arms_at(self, position: int) -> Sequence[str]:
        known: Sequence[str] = ()
        for since, arms in self._arms:
            if since <= position:
                known = arms
        return known

    def _check_own(
        self, id: str, arms: Sequence[str], evidence: Evidence
    ) -> CheckResult:
        own = evidence.own
        if own is None:
            return check_incumbent(None, evidence)
        if not _sums_to_one(own.odds) or not 0 <= own.would < len(own.odds):
            return Differs(f"own odds {_some(own.odds)}", "a distribution")
        drawn = self._check_number(id, arms, own.would, own.odds)
        return check_incumbent(drawn, evidence)

    def _check_number(
        self, id: str, arms: Sequence[str], number: int, odds: Array
    ) -> CheckResult:
        if self._uniform is None:
            return Untested("the store does not say its seed")
        drawn = pick(odds, self._uniform(id))
        if drawn == number:
            return None
        names = dict(enumerate(arms))
        recorded = names.get(number, number)
        follows = names.get(drawn, drawn)
        return Differs(f"arm {recorded!r}", f"arm {follows!r}")


def check_incumbent(answer: CheckResult, evidence: Evidence) -> CheckResult:
    """Return the result for a decision of an incumbent.

    The incumbent's propensities cannot be checked, but the draw that the policy would
    have made can. The service records this draw in shadow mode, for imported histories,
    and after the fallback of a client.
    """
    if answer is None and evidence.shadow and evidence.own is None:
        return Untested(
            f"{INCUMBENT}, and what the policy would have done was not recorded"
        )
    return answer


def check_sleep(
    decision: Decision, votes: Array | None, log_weights: Array, tolerance: float
) -> CheckResult:
    """Check that experts without a prediction have no vote, and that the log weights
    are recorded."""
    advice = decision.advice
    recorded = decision.log_weights
    n_experts = len(log_weights)
    for what, values in (("advice", advice), ("votes", votes)):
        if values is not None and len(values) != n_experts:
            return Differs(
                f"{what} of {len(values)} experts", f"a roster of {n_experts}"
            )
    if advice is not None and votes is not None:
        silent = np.isnan(advice)
        # If all experts timed out, they vote with earlier predictions.
        voted = silent & (votes[:, decision.number] > 0) & ~silent.all()
        if (~silent & ~votes.any(axis=1)).any() or voted.any():
            follows = "advice of the experts that voted, and of no other"
            return Differs(f"advice {_some(advice)}", follows)
    if recorded is None:
        if advice is not None and np.isnan(advice).any():
            return Differs("no log weights", "log weights, because an expert slept")
        return None
    by = how_far(recorded, log_weights)
    if by <= tolerance:
        return None
    return Differs(f"log weights {_some(recorded)}", _some(log_weights), by)


def check_odds(
    decision: Decision,
    evidence: Evidence,
    judge: Policy,
    state: State,
    tolerance: float,
) -> CheckResult:
    """Check that the state gives the recorded propensities if it weighs the recorded
    votes.

    With tolerance 0, the propensities must be equal to the last bit.
    """
    votes = evidence.votes
    wrong = check_sleep(decision, votes, state.log_weights, tolerance)
    if wrong is not None:
        return wrong
    own = decision.propensities
    if evidence.own is not None:
        own = evidence.own.odds
    elif evidence.shadow:
        return None  # the propensities are those of the incumbent
    if votes is None:
        return Untested("votes were not recorded")
    arms = decision.arms
    features = decision.features
    if reads_features(judge) and (features is None or len(features) < len(arms or ())):
        return Untested("its caps need features of all arms, which were not recorded")
    offer = None
    if arms is not None:
        offer = Offer(None, arms, features)
    again = judge.weigh(
        state,
        (votes, votes),
        eligible=decision.eligible,
        step=decision.step,
        offer=offer,
    )
    follows = again.propensities
    if evidence.own is None:
        follows = odds_of_record(decision, follows)
    return same_odds(own, follows, tolerance)


def same_odds(recorded: Array, follows: Array, tolerance: float) -> CheckResult:
    """Check that propensities are equal, up to a tolerance."""
    by = how_far(recorded, follows)
    if by <= tolerance:
        return None
    return Differs(f"odds {_some(recorded)}", _some(follows), by)


class Opinions(NamedTuple):
    """Predictions (N, K) that experts computed again for an old decision, and their
    votes if they are known.

    `matters` is a mask of the experts with positive weight.
    """

    names: Sequence[str]
    predictions: Array
    ballots: Array | None
    matters: Bools | np.bool_


SPEAKS_NOW = Untested(
    "an expert made no prediction then that makes one now", excused=True
)
"""Result if an expert failed or was late when the decision was made, but predicts
now."""


def check_advice(decision: Decision, votes: Array | None, now: Opinions) -> CheckResult:
    """Check that the experts predict the recorded values again, up to 1e-9.

    An expert without a recorded prediction is not compared, because it may have failed
    or timed out.
    """
    advice = decision.advice
    column = now.predictions[:, decision.number]
    if advice is None or column.shape != advice.shape:
        n_recorded = 0 if advice is None else len(advice)
        return Differs(f"advice of {n_recorded} experts", f"a roster of {len(column)}")
    was_silent = np.isnan(advice)
    predicts = now.matters & ~np.isnan(column)
    if was_silent.all() and predicts.any():
        return SPEAKS_NOW  # the experts voted with earlier predictions
    slept = was_silent if votes is None else ~votes.any(axis=1)
    speaks = (slept & predicts).any()
    if speaks and now.ballots is None:
        return SPEAKS_NOW  # all other kinds of advice depend on every expert
    same = (np.abs(column - advice) <= CLOSE) | (np.isnan(column) & was_silent)
    wrong = ~slept & ~same
    if wrong.any():
        i = int(wrong.argmax())
        recorded = f"{_number(advice[i])} from {now.names[i]!r}"
        return Differs(recorded, _number(column[i]))
    if votes is not None and now.ballots is not None:
        far = (np.abs(now.ballots - votes) > _VOTES).any(axis=1)
        wrong = ~slept & far & ~_are_ties(now.predictions, votes, now.ballots)
        if wrong.any():
            i = int(wrong.argmax())
            recorded = f"votes {_some(votes[i])} of {now.names[i]!r}"
            return Differs(recorded, _some(now.ballots[i]))
    return SPEAKS_NOW if speaks else None


def _are_ties(predictions: Array, votes: Array, ballots: Array) -> Bools:
    """Return a mask of experts whose recorded arms have the same prediction as the arms
    that they vote for now.

    Only votes for a single arm, or votes shared equally among arms, can be compared.
    """
    known = np.where(np.isnan(predictions), 0.0, predictions)
    shares = np.sort(votes, axis=1)
    shares_now = np.sort(ballots, axis=1)
    is_same = ~(np.abs(shares - shares_now) > _VOTES).any(axis=1)
    is_whole = votes.max(axis=1) == 1
    loss = ((ballots - votes) * known).sum(axis=1)
    return np.asarray((is_whole | is_same) & (loss <= 2 * CLOSE))


def how_far(recorded: Array, follows: Array) -> float:
    """Return the largest difference of two arrays, relative for numbers above 1; inf if
    the arrays cannot be compared."""
    if recorded.shape != follows.shape:
        return inf
    is_float = recorded.dtype.kind == "f"
    if not recorded.size or np.array_equal(recorded, follows, equal_nan=is_float):
        return 0.0
    with np.errstate(invalid="ignore"):
        relative = np.abs(recorded - follows) / np.maximum(1.0, np.abs(follows))
        largest = float(np.where(recorded == follows, 0.0, relative).max())
    return inf if isnan(largest) else largest


def _sums_to_one(odds: Array) -> bool:
    return bool((odds >= 0).all() and abs(odds.sum() - 1) <= CLOSE)


def _some(values: Array) -> str:
    """Format the first numbers, with all digits."""
    numbers = [_number(value) for value in values[:8]]
    if len(values) > 8:
        numbers.append("…")
    return f"[{', '.join(numbers)}]"


def _number(value: float) -> str:
    return repr(float(value))
