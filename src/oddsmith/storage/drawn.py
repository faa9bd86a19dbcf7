"""Drawn: what an arm was drawn from, without what the decision was about."""

from typing import NamedTuple

import numpy as np

from oddsmith.arrays import Array, Bools
from oddsmith.decision import Decision
from oddsmith.storage.events import OwnDraw

__all__ = ["Drawn"]


class Drawn(NamedTuple):
    """The arm of a decision, its number, the odds (K,) of all arms and which were eligible (None: all).

    `names` are those of arms that came with the call. Where an incumbent acted (`shadow`), arm and odds are its, and
    `own` is what the policy would have done, if that was kept. `votes` (N,) is what each expert gave the arm, NaN for
    one that slept; None where votes are not recorded.
    """

    arm: str
    number: int
    odds: Array
    eligible: Bools | None = None
    names: tuple[str, ...] | None = None
    shadow: bool = False
    own: OwnDraw | None = None
    votes: Array | None = None

    @classmethod
    def of(
        cls, decision: Decision, own: OwnDraw | None = None, *, shadow: bool = False, votes: Array | None = None
    ) -> "Drawn":
        """What a decision was drawn from.

        >>> Drawn.of(Decision(1, None, None, "b", np.array([0.25, 0.75]), index=1)).odds_drawn
        0.75
        """
        mask, names = decision.eligible, decision.arms
        return cls(str(decision.arm), decision.number, decision.propensities, mask, names, shadow, own, votes)

    @property
    def odds_drawn(self) -> float:
        """The odds of the arm that was drawn."""
        return float(self.odds[self.number])

    @property
    def n_eligible(self) -> int:
        """How many arms could have been drawn, as far as the caller allowed them."""
        return len(self.odds) if self.eligible is None else int(np.count_nonzero(self.eligible))
