"""Decisions of an incumbent: the user's current policy chooses the arm, and the draw of
our policy is recorded as well."""

import numpy as np

from oddsmith.core.arrays import Array
from oddsmith.core.decision import LEAST_PROPENSITY, Decision, Odds
from oddsmith.core.errors import InvalidInput
from oddsmith.core.names import Arms
from oddsmith.core.policy import Policy
from oddsmith.server.messages.calls import DecideEntry

__all__ = ["by_incumbent", "incumbent_decision"]


def incumbent_decision(
    policy: Policy, message: DecideEntry, arms: Arms, decision: Decision, ours: Odds
) -> Decision:
    """Return the decision of the incumbent in the message: its arm, with its
    propensities."""
    if message.incumbent is None:
        raise InvalidInput(
            "incumbent must be given with incumbent_odds, and in shadow mode always; "
            "got none"
        )
    eligible = decision.eligible
    arm = arms.number(message.incumbent, "incumbent")
    if eligible is not None and not eligible[arm]:
        raise InvalidInput(
            f"incumbent must be an eligible arm; got {message.incumbent!r}"
        )
    odds = np.zeros(len(arms))
    shares = message.incumbent_odds or {message.incumbent: 1.0}
    for name, share in shares.items():
        odds[arms.number(name, "incumbent_odds")] = share
    if abs(odds.sum() - 1) > 1e-9:
        raise InvalidInput(f"incumbent_odds must sum to 1; got {odds.sum():.6g}")
    if eligible is not None and odds[~eligible].any():
        worst = int((odds * ~eligible).argmax())
        raise InvalidInput(
            f"incumbent_odds must be 0 for arms that are not eligible; got "
            f"{odds[worst]:g} for {arms[worst]!r:.60}"
        )
    if odds[arm] < LEAST_PROPENSITY:
        raise InvalidInput(
            f"incumbent_odds must be at least {LEAST_PROPENSITY:g} for the incumbent, "
            f"{message.incumbent!r:.60}; got {odds[arm]:g}"
        )
    return by_incumbent(policy, decision, ours=ours, arm=arm, odds=odds)


def by_incumbent(
    policy: Policy, decision: Decision, *, ours: Odds, arm: int, odds: Array
) -> Decision:
    """Turn a decision of our policy into one of the incumbent: the incumbent's arm and
    propensities, and our advice for that arm."""
    decision = decision._replace(arm=arm, propensities=odds)
    if ours.advice is None:
        return decision
    advice = ours.advice[:, arm].astype(np.float64)
    completed = policy.complete(ours._replace(propensities=odds))
    return decision._replace(advice=advice, bonus=completed.bonus)
