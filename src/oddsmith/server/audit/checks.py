"""The checks of single records: the draw, the odds, the experts."""

from collections.abc import Sequence
from math import inf
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

CLOSE = 1e-9  # what models that are asked again may differ by
INCUMBENT = "an incumbent acted"
_VOTES = 1e-6  # votes may be steep in the predictions


class Draws:
    """The draws of a store, by its seed and over its arms."""

    def __init__(self, reading: Reading) -> None:
        about = reading.about
        self._arms = list(arms_since(reading))
        self._uniform = None if about.get("seed") is None else Uniforms(about["seed"])

    def check(self, line: Line, decision: Decision, evidence: Evidence) -> CheckResult:
        """Whether the arm is the one that seed and id draw from the recorded odds, over
        the arms that there were."""
        id, number, odds = line.id, decision.number, decision.propensities
        known = [arms for since, arms in self._arms if since <= (line.seen or 0)]
        arms = decision.arms or (known[-1] if known else ())
        if not isinstance(number, int) or not 0 <= number < len(odds):
            return Differs(f"arm number {number!r}", f"one of {len(odds)} arms")
        if (
            arms
            and decision.index is not None
            and (len(arms) != len(odds) or arms[number] != decision.arm)
        ):
            return Differs(
                f"arm {decision.arm!r}", f"arm number {number} of {list(arms)[:8]}"
            )
        if decision.eligible is not None and not decision.eligible[number]:
            return Differs(f"arm {decision.arm!r}", "an eligible arm")
        if not _sums_to_one(odds):
            return Differs(f"odds {_some(odds)}", "a distribution")
        if evidence.shadow:
            return self._check_own(id, arms, evidence)
        return self._check_number(id, arms, number, odds)

    def _check_own(
        self, id: str, arms: Sequence[str], evidence: Evidence
    ) -> CheckResult:
        own = evidence.own
        if own is not None and not (
            _sums_to_one(own.odds) and 0 <= own.would < len(own.odds)
        ):
            return Differs(f"own odds {_some(own.odds)}", "a distribution")
        drawn = (
            None if own is None else self._check_number(id, arms, own.would, own.odds)
        )
        return check_incumbent(drawn, evidence)

    def _check_number(
        self, id: str, arms: Sequence[str], number: int, odds: Array
    ) -> CheckResult:
        if self._uniform is None:
            return Untested("the store does not say its seed")
        drawn = pick(odds, self._uniform(id))
        recorded, follows = (arms[n] if len(arms) > n else n for n in (number, drawn))
        return (
            None
            if drawn == number
            else Differs(f"arm {recorded!r}", f"arm {follows!r}")
        )


def check_incumbent(answer: CheckResult, evidence: Evidence) -> CheckResult:
    """What is said where an incumbent acted: its word cannot be checked, but what the
    policy would have done, which the service keeps of every such record.

    Any store may have some: in shadow mode, from a history, and where a client fell
    back on an arm of its own.
    """
    if answer is None and evidence.shadow and evidence.own is None:
        return Untested(
            f"{INCUMBENT}, and what the policy would have done was not kept"
        )
    return answer


def check_sleep(
    decision: Decision, votes: Array | None, log_weights: Array, tolerance: float
) -> CheckResult:
    """Whether sleepers are recorded as sleepers are: no vote, no advice, and the
    weights of the fold beside them."""
    advice, recorded = decision.advice, decision.log_weights
    for what, values in (("advice", advice), ("votes", votes)):
        if values is not None and len(values) != len(log_weights):
            return Differs(
                f"{what} of {len(values)} experts", f"a roster of {len(log_weights)}"
            )
    if advice is not None and votes is not None:
        silent = np.isnan(advice)
        # where all were late, they vote by earlier predictions
        voted = silent & (votes[:, decision.number] > 0) & ~silent.all()
        if (~silent & ~votes.any(axis=1)).any() or voted.any():
            return Differs(
                f"advice {_some(advice)}",
                "advice of the experts that voted, and of no other",
            )
    if recorded is None:
        if advice is not None and np.isnan(advice).any():
            return Differs("no log weights", "log weights, for an expert slept")
    elif (by := how_far(recorded, log_weights)) > tolerance:
        return Differs(f"log weights {_some(recorded)}", _some(log_weights), by)
    return None


def check_odds(
    decision: Decision,
    evidence: Evidence,
    judge: Policy,
    state: State,
    tolerance: float,
) -> CheckResult:
    """Whether recorded votes, weighed by the state, give the recorded odds, to the last
    bit if the tolerance is 0."""
    votes = evidence.votes
    if (
        wrong := check_sleep(decision, votes, state.log_weights, tolerance)
    ) is not None:
        return wrong
    own = decision.propensities if evidence.own is None else evidence.own.odds
    if evidence.shadow and evidence.own is None:
        return None  # its odds are the incumbent's
    if votes is None:
        return Untested("votes were not kept")
    arms, features = decision.arms, decision.features
    if reads_features(judge) and (features is None or len(features) < len(arms or ())):
        return Untested("its caps need features of all arms, which were not kept")
    offer = None if arms is None else Offer(None, arms, features)
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
    """Whether odds are the same, to the last bit or to a tolerance."""
    by = how_far(recorded, follows)
    return (
        None
        if by <= tolerance
        else Differs(f"odds {_some(recorded)}", _some(follows), by)
    )


class Opinions(NamedTuple):
    """Experts' predictions (N, K) when they are asked again, votes where they are
    known, and which experts matter."""

    names: Sequence[str]
    predictions: Array
    ballots: Array | None
    matters: Bools | np.bool_


SPEAKS_NOW = Untested("an expert slept in it that speaks now", excused=True)
"""An expert that failed, or was late, when the decision was made."""


def check_advice(decision: Decision, votes: Array | None, now: Opinions) -> CheckResult:
    """Whether the experts say again what was recorded, to 1e-9.

    One that slept then is not held to what it says now: it may have failed, or been
    late.
    """
    advice, column = decision.advice, now.predictions[:, decision.number]
    if advice is None or column.shape != advice.shape:
        return Differs(
            f"advice of {0 if advice is None else len(advice)} experts",
            f"a roster of {len(column)}",
        )
    if np.isnan(advice).all() and (now.matters & ~np.isnan(column)).any():
        return SPEAKS_NOW  # whatever they voted for, by earlier predictions
    slept = np.isnan(advice) if votes is None else ~votes.any(axis=1)
    speaks = (slept & now.matters & ~np.isnan(column)).any()
    if speaks and now.ballots is None:
        return SPEAKS_NOW  # what policies add to the advice depends on every expert
    same = (np.abs(column - advice) <= CLOSE) | (np.isnan(column) & np.isnan(advice))
    if (wrong := ~slept & ~same).any():
        i = int(wrong.argmax())
        return Differs(
            f"{_number(advice[i])} from {now.names[i]!r}", _number(column[i])
        )
    if votes is not None and now.ballots is not None:
        far = (np.abs(now.ballots - votes) > _VOTES).any(axis=1)
        if (wrong := ~slept & far & ~_tied(now.predictions, votes, now.ballots)).any():
            i = int(wrong.argmax())
            return Differs(
                f"votes {_some(votes[i])} of {now.names[i]!r}", _some(now.ballots[i])
            )
    return SPEAKS_NOW if speaks else None


def _tied(predictions: Array, votes: Array, ballots: Array) -> Bools:
    """Whether an expert's vote, whole or in the same shares as now, went to arms that
    are as good as those that it votes for now."""
    known = np.where(np.isnan(predictions), 0.0, predictions)
    moved = np.abs(np.sort(votes, axis=1) - np.sort(ballots, axis=1)) > _VOTES
    comparable = (votes.max(axis=1) == 1) | ~moved.any(axis=1)
    loss = ((ballots - votes) * known).sum(axis=1)
    return np.asarray(comparable & (loss <= 2 * CLOSE))


def how_far(recorded: Array, follows: Array) -> float:
    """The largest difference, of numbers above 1 relative to them; inf where they
    cannot be compared."""
    if recorded.shape != follows.shape:
        return inf
    if not recorded.size or np.array_equal(
        recorded, follows, equal_nan=recorded.dtype.kind == "f"
    ):
        return 0.0
    with np.errstate(invalid="ignore"):
        apart = np.where(
            recorded == follows,
            0.0,
            np.abs(recorded - follows) / np.maximum(1.0, np.abs(follows)),
        )
    largest = float(apart.max())
    return largest if largest == largest else inf


def _sums_to_one(odds: Array) -> bool:
    return bool((odds >= 0).all() and abs(odds.sum() - 1) <= CLOSE)


def _some(values: Array) -> str:
    """The first numbers, each to its last digit."""
    more = ", …" if len(values) > 8 else ""
    return "[" + ", ".join(_number(value) for value in values[:8]) + more + "]"


def _number(value: float) -> str:
    return repr(float(value))
