"""Propensities and explanations of policies that weigh the advice of experts."""

from oddsmith.core.arrays import Bools
from oddsmith.core.decision import Context, Odds, State, Step
from oddsmith.core.explanation import Explanation
from oddsmith.core.policy import Policy

__all__ = ["ByAdvice"]


class ByAdvice(Policy):
    """Base class of policies that weigh their experts' advice. A subclass defines
    `weigh` and `explain_advice`."""

    def odds(
        self,
        state: State,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Odds:
        """Return exact propensities, with the record that `weigh` describes."""
        advice = self.advice(state, context, eligible)
        return self.weigh(state, advice, eligible=eligible, step=step)

    def explain(
        self,
        state: State,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Explanation:
        """Explain the propensities in this context."""
        advice = self.advice(state, context, eligible)
        return self.explain_advice(state, advice, context, eligible=eligible, step=step)
