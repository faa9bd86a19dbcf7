"""Exact expectations of GTS over two experts whose log ratio lives on a lattice: a
Markov chain, step by step."""

from typing import Any, NamedTuple

import numpy as np

import oddsmith as od
from oddsmith.core.arrays import Array
from oddsmith.core.expert_policy import ExpertState


class Lattice(NamedTuple):
    """The chain of m, ln w_2 - ln w_1 = -quantum · m: odds (M, K), moves by (arm,
    reward), weights of expert 2."""

    odds: Array
    moves: dict[tuple[int, int], int]
    second: Array
    start: int

    @classmethod
    def of(
        cls, policy: Any, predictions: Array, *, quantum: float, low: int, high: int
    ) -> "Lattice":
        """The chain by the policy's own odds and updates of every state; beyond the
        ends it stays there."""
        places = np.arange(low, high + 1)
        log_weights = np.stack([np.zeros(len(places)), -quantum * places], axis=-1)
        log_weights -= log_weights.max(axis=-1, keepdims=True)
        state = ExpertState(log_weights, 0, ())
        odds = policy.odds(
            state, np.broadcast_to(predictions, (len(places), *predictions.shape))
        )
        moves = {}
        for arm in range(predictions.shape[1]):
            for reward in (0, 1):
                arms, column = np.full(len(places), arm), odds.advice[..., arm]
                decision = od.Decision(
                    None, None, None, arms, odds.propensities, advice=column
                )
                after = policy.update(
                    state, decision, np.full(len(places), float(reward))
                ).log_weights
                by = (log_weights - after)[:, 1] - (log_weights - after)[:, 0]
                steps = np.rint(by / quantum)
                np.testing.assert_allclose(by, steps * quantum, atol=1e-9)
                assert len(set(steps.tolist())) == 1
                moves[arm, reward] = int(steps[0])
        return cls(odds.propensities, moves, policy.posterior(state)[:, 1], -low)

    def regret(self, means: Array, marks: list[int]) -> list[tuple[float, float]]:
        """Regret to the best arm, and the sum of the second expert's weights, after
        these numbers of steps."""
        here = np.zeros(len(self.odds))
        here[self.start] = 1.0
        cost, total, found = self.odds @ (means.max() - means), np.zeros(2), []
        flows = [
            (self.odds[:, arm] * (means[arm] if reward else 1 - means[arm]), by)
            for (arm, reward), by in self.moves.items()
        ]
        for t in range(1, max(marks) + 1):
            total += here @ cost, here @ self.second
            there = np.zeros_like(here)
            for share, by in flows:
                _shift(there, here * share, by)
            here = there
            if t in marks:
                found.append((float(total[0]), float(total[1])))
        return found


def _shift(into: Array, mass: Array, by: int) -> None:
    """Adds mass moved by so many places, kept at the ends."""
    if by >= 0:
        into[by:] += mass[: len(mass) - by]
        into[-1] += mass[len(mass) - by :].sum() if by else 0.0
    else:
        into[:by] += mass[-by:]
        into[0] += mass[:-by].sum()
