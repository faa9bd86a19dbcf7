"""Compare a policy that is being fitted to a log with the logging policy, on held-out
rows.

The rows come in blocks, and the policy's propensities for a block are computed before
the policy learns from it. Let π be the policy's propensities, p those of the log, r the
reward, and q a prediction of the rewards, also made before learning. Then

    d = Σ_a π(a) q(a) + π(a_t) / p(a_t) (r - q(a_t)) - r

has a mean equal to the difference of the two policies' values (paired doubly robust
estimate). The comparison is the mean of d over the second half of the rows, after most
of the learning.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from oddsmith.core.arrays import Array
from oddsmith.core.decision import LEAST_PROPENSITY, Odds, State
from oddsmith.core.policy import Policy
from oddsmith.logs.by_policy import answers
from oddsmith.logs.table import Log

__all__ = ["Comparison", "HeldOut"]

_BLOCK_SHARE = 0.02  # block size as a share of the rows so far
_LEAST_BLOCK = 8
_MOST_COMPARED = 256  # maximum number of rows compared per block
_LEAST_ROWS = 50
_MARGIN = 0.02  # margin of "not worse", as a share of the logging policy's value
_UPPER = 0.975  # quantile for the upper end of a 95 % interval


@dataclass(frozen=True)
class Comparison:
    """Difference between the values of the fitted policy and the logging policy.

    `difference` has the 95 % confidence interval from `low` to `high`; `logged` is the
    mean reward of the compared rows, and `rows` is their number. The `verdict` is
    "better", "not worse" (at most 2 % of `logged` below it), "worse", or "cannot be
    told".
    """

    difference: float
    low: float
    high: float
    logged: float
    rows: int

    @property
    def verdict(self) -> str:
        """Return the conclusion from the interval."""
        rounding = 1e-9 * abs(self.logged)
        if self.low > rounding:
            return "better"
        if self.high < -rounding:
            return "worse"
        if self.low > -_MARGIN * abs(self.logged):
            return "not worse"
        return "cannot be told"

    @property
    def ready(self) -> bool:
        """Return whether the state can replace the logging policy, because it is better
        or not worse."""
        return self.verdict in ("better", "not worse")

    def __str__(self) -> str:
        values = (
            f"{self.logged + self.difference:.4g} per decision, the logging policy "
            f"{self.logged:.4g} (difference {self.difference:+.3g}, 95 % interval "
            f"{self.low:+.3g} to {self.high:+.3g}, {self.rows:,} rows)"
        )
        sentence = f"On rows before it learnt from them, the policy earns {values}."
        if self.verdict == "cannot be told":
            return (
                f"{sentence} Whether it is better than the logging policy cannot be "
                "told: start with a small share of the traffic."
            )
        state = "ready" if self.ready else "not ready"
        return f"{sentence} It is {self.verdict}: the state is {state}."


class _Part(NamedTuple):
    """Compared rows of a block: their numbers in the log (n,), weights, differences d,
    rewards, and ratios π / p."""

    rows: Array
    weights: Array
    differences: Array
    rewards: Array
    ratios: Array


class HeldOut:
    """Compares the fitted policy with the logging policy on rows that the fitted policy
    has not learnt yet, for at most `most` rows."""

    def __init__(self, policy: Policy, most: float = np.inf) -> None:
        self._policy = policy
        self._most = most
        self._seen = 0
        self._total = 0.0
        self._parts: list[_Part] = []
        self._can_compare = True

    def blocks(self, log: Log) -> Iterator[Log]:
        """Yield the log in blocks whose size grows with the number of rows so far."""
        first = 0
        while first < len(log):
            size = max(_LEAST_BLOCK, int(_BLOCK_SHARE * self._seen))
            block = log[first : first + size]
            yield block
            self._seen += len(block)
            self._total += float(block.reward.sum())
            first += len(block)

    @property
    def is_over(self) -> bool:
        """Return whether the comparison is complete."""
        return not self._can_compare or self._seen >= self._most

    def compare(self, state: State, block: Log) -> None:
        """Compare the policies on the first rows of a block before it is learnt."""
        if self.is_over:
            return
        part = block[:_MOST_COMPARED]
        has_questions = part.context is not None or part.offered is not None
        only_drawn = part.offered is not None and part.known_features == "drawn"
        if part.propensity is None or not has_questions or only_drawn:
            self._can_compare = False
            return
        n = len(part)
        difference = np.empty(n)
        ratios = np.empty(n)
        propensity = np.maximum(part.propensity, LEAST_PROPENSITY)
        mean = (self._total + 0.5) / (self._seen + 1)
        for places, odds in answers(self._policy, state, part, counted=True):
            drawn = part.arm[places][:, None]
            # A policy that reads no context returns one row for all contexts.
            shape = (len(places), odds.propensities.shape[-1])
            own = np.broadcast_to(odds.propensities, shape)
            expected = np.broadcast_to(self._expected(state, odds, mean), shape)
            of_drawn = np.take_along_axis(expected, drawn, axis=1)[:, 0]
            own_drawn = np.take_along_axis(own, drawn, axis=1)[:, 0]
            ratio = own_drawn / propensity[places]
            reward = part.reward[places]
            value = (own * expected).sum(axis=1) + ratio * (reward - of_drawn)
            difference[places] = value - reward
            ratios[places] = ratio
        rows = self._seen + np.arange(n, dtype=np.float64)
        weights = np.full(n, len(block) / n)
        self._parts.append(_Part(rows, weights, difference, part.reward, ratios))

    def _expected(self, state: State, odds: Odds, mean: float) -> Array:
        """Return the rewards (…, K) that the policy's experts predict, or the mean
        reward so far."""
        means = np.full(odds.propensities.shape, mean)
        bank = self._policy.bank
        advice = odds.advice
        if bank is None or advice is None or advice.shape[-2] != len(bank.names):
            return means
        weights = self._policy.posterior(state)[:, None]
        known = ~np.isnan(advice)
        total = (weights * known).sum(axis=-2)
        predicted = (weights * np.where(known, advice, 0.0)).sum(axis=-2)
        inside = np.minimum(predicted / np.maximum(total, 1e-300), 1.0)
        expected: Array = np.where(total > 0, inside, means)
        return expected

    def result(self) -> Comparison | None:
        """Return the comparison, or None if the log does not allow one."""
        from scipy.special import stdtrit

        if not self._can_compare or not self._parts:
            return None
        columns = [np.concatenate(column) for column in zip(*self._parts, strict=True)]
        every = _Part(*columns)
        late = every.rows >= min(self._seen, self._most) / 2
        used = _Part(*(column[late] for column in every))
        n = len(used.rows)
        if n < _LEAST_ROWS:
            return None
        weights = used.weights / used.weights.sum()
        difference = float(weights @ used.differences)
        squares = weights**2 * (used.differences - difference) ** 2
        variance = float(squares.sum())
        # Use Student's quantile with an effective number of rows, because a few rows
        # may determine the variance.
        counted = variance**2 / max(float((squares**2).sum()), 1e-300)
        quantile = float(stdtrit(max(counted - 1, 1.0), _UPPER))
        # Be cautious: the next row could have the largest weight so far.
        size = np.sqrt(weights @ used.rewards**2)
        farthest = np.abs(used.ratios - 1).max()
        largest = farthest * size * weights.max()
        spread = quantile * float(np.sqrt(variance + largest**2))
        mean = float(weights @ used.rewards)
        return Comparison(
            difference,
            difference - spread,
            difference + spread,
            mean,
            n,
        )
