"""Regressor Elimination: experts whose loss is too high leave for good; the others are
drawn in balance."""

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
    """Total losses (…, N), which experts are left (…, N), their balanced distribution
    (…, N), and rewards learnt."""

    losses: Array
    alive: Bools
    balance: Array
    learnt: int


@dataclass(frozen=True, eq=False)
class RegressorElimination(OverExperts):
    """Agarwal et al. 2012 (theory 5.5): contexts i.i.d., of which `contexts` are a
    sample (for tables: all of them).

    Expert i is drawn with probability P(i) such that every expert's arms are drawn
    often enough: E_x 1/Pr(π_i(x)|x) is at most the mean number of arms that the
    survivors propose. Experts leave when their total loss exceeds the least by ln(N/δ)
    (threshold="sharp": with probability 1-δ the truth stays for ever; square loss, or
    log loss), or by the paper's 18 ln(1/δ_t) in mean square loss ("original", with its
    exploration mu = min(1/(2K), 1/sqrt(t))). Experts are fixed. Order matters: an
    expert that left does not come back. A sleeper is charged the mix of the awake.

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

    takes_offers = False  # its sample of contexts is about one set of arms

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.experts.learns:
            raise InvalidInput(
                "experts must be fixed, for their losses to be compared; got experts "
                "that learn"
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
        odds = np.full(n, 1 / n) if self.context_odds is None else self.context_odds
        object.__setattr__(
            self, "context_odds", simplex("context_odds", odds, n=n, over="contexts")
        )

    @property
    def prediction_range(self) -> tuple[float, float]:
        return domain(self.loss)

    @cached_property
    def _experts_state(self) -> State:
        """The state of the experts, which do not learn."""
        return self.experts.init()

    @cached_property
    def proposals(self) -> Array:
        """The ballots (X, N, K) on the sample of contexts."""
        ballots = self.experts.advise(self._experts_state, self.contexts)[1]
        if ballots.ndim != 3:
            raise InvalidInput(
                "contexts must be a sample with one leading axis; got ballots of "
                f"shape {ballots.shape}"
            )
        if not ballots.any():
            raise InvalidInput(
                "contexts must be ones on which some expert has an opinion; got none"
            )
        return ballots

    @cached_property
    def first_balance(self) -> Array:
        """The balanced distribution over all experts."""
        return balanced(self.proposals, self.context_odds)

    def init(self, shape: tuple[int, ...] = ()) -> EliminationState:
        """Every expert is in, without losses."""
        size = (*shape, len(self.experts.names))
        return EliminationState(
            np.zeros(size),
            np.ones(size, np.bool_),
            np.broadcast_to(self.first_balance, size).copy(),
            0,
        )

    def odds(
        self,
        state: EliminationState,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Odds:
        """The survivors' ballots, weighed by the balance; in the original also uniform
        over what they propose."""
        check_eligible(eligible)
        predictions, ballots = self.experts.advise(
            self._experts_state, context, eligible
        )
        predictions = checked_predictions(predictions, state.losses, eligible)
        votes = (state.balance[..., None] * ballots).sum(axis=-2)
        total = votes.sum(axis=-1, keepdims=True)
        n_arms = ballots.shape[-1]
        even = (
            np.full(n_arms, 1 / n_arms)
            if eligible is None
            else eligible / eligible.sum(axis=-1, keepdims=True)
        )
        odds = np.where(total > 0, votes / np.where(total > 0, total, 1.0), even)
        if self.threshold == "original":
            mu = min(1 / (2 * n_arms), (state.learnt + 1) ** -0.5)
            proposed = odds > 0
            odds = (1 - mu) * odds + mu * proposed / proposed.sum(
                axis=-1, keepdims=True
            )
        with np.errstate(divide="ignore"):
            log_weights = np.log(state.balance) if np.isnan(predictions).any() else None
        return Odds(odds, predictions, None, log_weights)

    def update(
        self, state: EliminationState, decision: Decision, reward: Real
    ) -> EliminationState:
        """Add up the losses; experts beyond the threshold leave, and the balance is
        solved anew for the rest."""
        charged = drawn_losses(self, self.loss, decision, reward)
        check_advice(charged.shape, state.losses)
        if np.isnan(charged).any():
            charged = self._charged(state, decision, charged)
        losses = state.losses + charged
        learnt = state.learnt + 1
        least = np.where(state.alive, losses, np.inf).min(axis=-1, keepdims=True)
        if not np.isfinite(least).all():
            raise AllExpertsRefuted(
                "the reward has probability zero under every expert left; clip "
                "predictions"
            )
        alive = state.alive & (losses - least <= self.slack(learnt))
        return EliminationState(losses, alive, self._rebalanced(state, alive), learnt)

    def slack(self, learnt: int) -> float:
        """By how much a total loss may exceed the least after this many rewards."""
        n = len(self.experts.names)
        if self.threshold == "sharp":
            return log(n / self.delta)
        return 18 * log(2 * n * learnt**3 * max(np.log2(learnt), 1.0) / self.delta)

    def posterior(self, state: EliminationState) -> Array:
        """The balanced distribution (…, N): the probability of following each
        expert."""
        return state.balance

    def _charged(
        self, state: EliminationState, decision: Decision, losses: Array
    ) -> Array:
        """The losses (…, N) with those of sleepers replaced by the mix of the awake
        survivors, -ln Σ P e^-ℓ / Σ P.

        As in GTS (theory 5.12), P is the balance the decision was drawn with, or
        today's where it carries none. For a sleeper i and a truth that is awake E
        e^-(ℓ_i - ℓ_1) <= 1 still holds, so the truth stays as likely as without.
        """
        with np.errstate(divide="ignore"):
            drawn_with = (
                np.log(state.balance)
                if decision.log_weights is None
                else decision.log_weights
            )
        log_weights = np.where(state.alive, drawn_with, -np.inf)
        asleep = np.isnan(losses)
        rows = asleep.any(axis=-1)
        charged = losses.copy()
        charged[rows] = -weights.charge(-losses[rows], log_weights[rows], asleep[rows])
        return charged

    def _rebalanced(self, state: EliminationState, alive: Bools) -> Array:
        changed = (alive != state.alive).any(axis=-1)
        if not changed.any():
            return state.balance
        balance = state.balance.copy()
        for row in np.argwhere(np.atleast_1d(changed)):
            place = tuple(row) if alive.ndim > 1 else ()
            balance[place] = balanced(
                self.proposals, self.context_odds, alive[place], state.balance[place]
            )
        return balance


def balanced(
    proposals: Array,
    context_odds: Array,
    alive: Bools | None = None,
    start: Array | None = None,
    slack: float = BALANCE_SLACK,
) -> Array:
    """P over experts (N,) with E_x Σ_a ballot_i(a|x)/Pr(a|x) <= (1 + slack) E_x |arms
    proposed| for all alive i.

    The maximum of the concave E_x Σ_a ln Pr(a|x) satisfies it; each step is P_i ← P_i
    E_x[Σ_a ballot_i/Pr] / E_x|A|, which never decreases that sum.

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
    """The balanced distribution, and how often all ballots of those alive were read for
    it."""
    keep = np.ones(proposals.shape[1], np.bool_) if alive is None else alive
    ballots = proposals[:, keep]
    proposed = (ballots > 0).any(axis=1)
    size = float(context_odds @ proposed.sum(axis=-1))
    mass = np.full(ballots.shape[1], 1 / ballots.shape[1])
    # a step from where it was; none starts at 0, to stay there
    if start is not None and start[keep].sum() > 0:
        mass = 0.9 * start[keep] / start[keep].sum() + 0.1 * mass
    passes = 0
    while passes < 100_000:
        passes += 1
        odds = np.einsum("n,xnk->xk", mass, ballots)
        inverse = (
            np.where(proposed, 1 / np.where(odds > 0, odds, 1.0), 0.0)
            * context_odds[:, None]
        )
        ratio = np.einsum("xnk,xk->n", ballots, inverse) / size
        if ratio.max() <= 1 + slack:
            break
        mass = mass * ratio
        mass /= mass.sum()
    balance = np.zeros(len(keep))
    balance[keep] = mass
    return balance, passes
