"""Regressor Elimination: discard experts whose loss is too large, and draw the others
from a balanced distribution."""

from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import Any, Literal, NamedTuple

import numpy as np

from oddsmith.core import weights
from oddsmith.core.arrays import Array, Bools, Real, number, simplex
from oddsmith.core.decision import Context, Decision, Odds, State, Step
from oddsmith.core.errors import AllExpertsRefuted, InvalidInput
from oddsmith.core.expert_policy import (
    OverExperts,
    check_advice,
    check_eligible,
    drawn_losses,
)
from oddsmith.core.experts import Experts, checked_predictions
from oddsmith.core.losses import Loss, domain, square_loss
from oddsmith.theory.rivals import BALANCE_SLACK

__all__ = ["EliminationState", "RegressorElimination", "balanced"]


class EliminationState(NamedTuple):
    """Total losses (…, N), a mask of the remaining experts (…, N), their balanced
    distribution (…, N), and the number of rewards."""

    losses: Array
    alive: Bools
    balance: Array
    learnt: int


@dataclass(frozen=True, eq=False)
class RegressorElimination(OverExperts):
    """Regressor Elimination of Agarwal et al. 2012 (docs/math 5.5), for i.i.d.
    contexts; `contexts` is a sample of them (for tables, all of them).

    Expert i is drawn with a probability P(i) such that every expert's arms are drawn
    often enough: E_x 1/Pr(π_i(x)|x) is at most the mean number of arms that the
    remaining experts propose. An expert is eliminated when its total loss exceeds the
    smallest one by more than a threshold. With threshold="sharp" this is ln(N/δ), for
    square or log loss, and the right expert is never eliminated with probability 1-δ.
    With "original" it is the paper's threshold 18 ln(1/δ_t) in mean square loss, with
    the paper's exploration mu = min(1/(2K), 1/sqrt(t)). Experts are fixed. The order
    matters, because an eliminated expert never returns. An expert without a prediction
    gets the mixed loss of the others.

    >>> from oddsmith.experts.tables import TableExperts
    >>> table = TableExperts(np.array([[[0.2, 0.8], [0.6, 0.4]]]))
    >>> policy = RegressorElimination(table, contexts=np.array([0]))
    >>> policy.odds(policy.init(), 0).propensities
    array([0.5, 0.5])
    """

    experts: Experts
    contexts: Any
    loss: Loss = square_loss
    delta: float = 0.05
    threshold: Literal["sharp", "original"] = "sharp"
    context_odds: Any = None

    takes_offers = False  # the sample of contexts belongs to one fixed set of arms

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.experts.learns:
            raise InvalidInput(
                "experts must be fixed, so that their losses can be compared; got "
                "experts that learn"
            )
        if not callable(self.loss):
            raise InvalidInput(
                f"loss must be a function of prediction and reward; got {self.loss!r}"
            )
        number("delta", self.delta, low=0, high=1, open_low=True, open_high=True)
        if self.threshold not in ("sharp", "original"):
            raise InvalidInput(
                f"threshold must be sharp or original; got {self.threshold!r}"
            )
        n = len(self.proposals)
        odds = np.full(n, 1 / n)
        if self.context_odds is not None:
            odds = simplex("context_odds", self.context_odds, n=n, over="contexts")
        object.__setattr__(self, "context_odds", odds)

    @property
    def prediction_range(self) -> tuple[float, float]:
        return domain(self.loss)

    @cached_property
    def _experts_state(self) -> State:
        """Return the state of the experts, which do not learn."""
        return self.experts.init()

    @cached_property
    def proposals(self) -> Array:
        """Return the ballots (X, N, K) for the sample of contexts."""
        ballots = self.experts.advise(self._experts_state, self.contexts)[1]
        if ballots.ndim != 3:
            raise InvalidInput(
                "contexts must be a sample with one leading axis; got ballots of "
                f"shape {ballots.shape}"
            )
        if not ballots.any():
            raise InvalidInput(
                "contexts must contain some for which an expert has a prediction; "
                "got none"
            )
        return ballots

    @cached_property
    def first_balance(self) -> Array:
        """Return the balanced distribution over all experts."""
        return balanced(self.proposals, self.context_odds)

    def init(self, shape: tuple[int, ...] = ()) -> EliminationState:
        """Return the state with all experts and no losses."""
        size = (*shape, len(self.experts.names))
        losses = np.zeros(size)
        alive = np.ones(size, np.bool_)
        balance = np.broadcast_to(self.first_balance, size).copy()
        return EliminationState(losses, alive, balance, 0)

    def odds(
        self,
        state: EliminationState,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Odds:
        """Return the remaining experts' ballots, weighted by the balanced distribution.
        The original algorithm also mixes in a uniform draw from their arms."""
        check_eligible(eligible)
        predictions, ballots = self.experts.advise(
            self._experts_state, context, eligible
        )
        predictions = checked_predictions(predictions, state.losses, eligible)
        n_arms = ballots.shape[-1]
        votes = (state.balance[..., None] * ballots).sum(axis=-2)
        total = votes.sum(axis=-1, keepdims=True)
        odds = votes / np.where(total > 0, total, 1.0)
        odds = np.where(total > 0, odds, weights.even(n_arms, eligible))
        if self.threshold == "original":
            mu = min(1 / (2 * n_arms), (state.learnt + 1) ** -0.5)
            proposed = odds > 0
            n_proposed = proposed.sum(axis=-1, keepdims=True)
            odds = (1 - mu) * odds + mu * proposed / n_proposed
        log_weights = None
        if np.isnan(predictions).any():
            log_weights = _log(state.balance)
        return Odds(odds, predictions, None, log_weights)

    def update(
        self, state: EliminationState, decision: Decision, reward: Real
    ) -> EliminationState:
        """Add the losses, eliminate experts above the threshold, and balance the others
        again."""
        charged = drawn_losses(self, self.loss, decision, reward)
        check_advice(charged.shape, state.losses)
        if np.isnan(charged).any():
            charged = self._charge_mix(state, decision, charged)
        losses = state.losses + charged
        learnt = state.learnt + 1
        least = np.where(state.alive, losses, np.inf).min(axis=-1, keepdims=True)
        if not np.isfinite(least).all():
            raise AllExpertsRefuted(
                "the reward has probability zero under every remaining expert; clip "
                "predictions"
            )
        alive = state.alive & (losses - least <= self.slack(learnt))
        return EliminationState(losses, alive, self._rebalance(state, alive), learnt)

    def slack(self, learnt: int) -> float:
        """Return the threshold: the largest allowed difference between a total loss and
        the smallest one."""
        n = len(self.experts.names)
        if self.threshold == "sharp":
            return log(n / self.delta)
        rounds = 2 * n * learnt**3 * max(np.log2(learnt), 1.0)
        return 18 * log(rounds / self.delta)

    def posterior(self, state: EliminationState) -> Array:
        """Return the balanced distribution (…, N), the probability of following each
        expert."""
        return state.balance

    def _charge_mix(
        self, state: EliminationState, decision: Decision, losses: Array
    ) -> Array:
        """Return the losses (…, N); experts without a prediction get the mixed loss of
        the other remaining experts, -ln Σ P e^-ℓ / Σ P.

        As in GTS (docs/math 5.12), P is the balanced distribution of the decision, or
        the current one if the decision has none. For such an expert i and a right
        expert with a prediction, E e^-(ℓ_i - ℓ_1) <= 1 still holds, so the right expert
        is as unlikely to be eliminated as without it.
        """
        drawn_with = decision.log_weights
        if drawn_with is None:
            drawn_with = _log(state.balance)
        log_weights = np.where(state.alive, drawn_with, -np.inf)
        asleep = np.isnan(losses)
        rows = asleep.any(axis=-1)
        charged = losses.copy()
        charged[rows] = -weights.charge(-losses[rows], log_weights[rows], asleep[rows])
        return charged

    def _rebalance(self, state: EliminationState, alive: Bools) -> Array:
        """Return the balanced distribution over the remaining experts."""
        changed = (alive != state.alive).any(axis=-1)
        balance = state.balance
        if changed.any():
            balance = balance.copy()
        for place in np.ndindex(changed.shape):
            if changed[place]:
                balance[place] = balanced(
                    self.proposals, self.context_odds, alive[place], balance[place]
                )
        return balance


def _log(odds: Array) -> Array:
    """Return ln of the propensities, -inf for 0."""
    with np.errstate(divide="ignore"):
        log_odds: Array = np.log(odds)
    return log_odds


def balanced(
    proposals: Array,
    context_odds: Array,
    alive: Bools | None = None,
    start: Array | None = None,
    slack: float = BALANCE_SLACK,
) -> Array:
    """Return P over experts (N,) with E_x Σ_a ballot_i(a|x)/Pr(a|x) <= (1 + slack) E_x
    |arms proposed| for all remaining i.

    The maximiser of the concave function E_x Σ_a ln Pr(a|x) satisfies it. Each step is
    P_i ← P_i E_x[Σ_a ballot_i/Pr] / E_x|A|, which never decreases this function.

    >>> balanced(
    ...     np.eye(2)[[[0, 0, 1], [0, 1, 1]]], np.array([0.5, 0.5]), slack=1e-7
    ... ).round(2)
    array([0.5, 0. , 0.5])
    """
    return balance_and_passes(proposals, context_odds, alive, start, slack)[0]


def balance_and_passes(
    proposals: Array,
    context_odds: Array,
    alive: Bools | None = None,
    start: Array | None = None,
    slack: float = BALANCE_SLACK,
) -> tuple[Array, int]:
    """Return the balanced distribution, and the number of passes over the ballots of
    the remaining experts."""
    keep = np.ones(proposals.shape[1], np.bool_) if alive is None else alive
    ballots = proposals[:, keep]
    proposed = (ballots > 0).any(axis=1)
    size = float(context_odds @ proposed.sum(axis=-1))
    n_alive = ballots.shape[1]
    mass = np.full(n_alive, 1 / n_alive)
    # Mix in some uniform mass, because the updates never increase a mass of 0.
    if start is not None and start[keep].sum() > 0:
        mass = 0.9 * start[keep] / start[keep].sum() + 0.1 * mass
    passes = 0
    while passes < 100_000:
        passes += 1
        odds = np.einsum("n,xnk->xk", mass, ballots)
        inverse = 1 / np.where(odds > 0, odds, 1.0)
        inverse = np.where(proposed, inverse, 0.0) * context_odds[:, None]
        ratio = np.einsum("xnk,xk->n", ballots, inverse) / size
        if ratio.max() <= 1 + slack:
            break
        mass = mass * ratio
        mass /= mass.sum()
    balance = np.zeros(len(keep))
    balance[keep] = mass
    return balance, passes
