"""Random bounds with groups of arms that some distribution meets, and the best value of
a ballot within them by linear programming."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

import oddsmith as od
from oddsmith.core.arrays import Array, Bools, Ints
from oddsmith.core.expert_policy import ExpertState
from oddsmith.core.weights import greedy

N = 3


class Instance(NamedTuple):
    """Bounds over K arms, N experts' predictions and ballots, and their weights."""

    floors: Array
    caps: Array
    groups: list[tuple[float, list[int]]]
    eligible: Bools
    predictions: Array
    ballots: Array
    log_weights: Array
    gamma: float

    def policy(self) -> od.Bounded:
        names = [f"expert {i}" for i in range(N)]
        inner = od.GeneralizedThompsonSampling(od.GivenExperts(names), gamma=self.gamma)
        groups = [od.policies.CapGroup(most, arms) for most, arms in self.groups]
        return od.Bounded(inner, self.floors, self.caps, groups)

    def state(self, policy: od.Bounded) -> ExpertState:
        state: ExpertState = policy.init()
        return state._replace(log_weights=self.log_weights)

    def propensities(self) -> Array:
        policy = self.policy()
        advice = (self.predictions, self.ballots)
        found = policy.weigh(self.state(policy), advice, eligible=self.eligible)
        return found.propensities

    def limits(self) -> tuple[Array, Array, list[tuple[float, list[int]]]]:
        """Floors, caps and groups that bind: those of eligible arms, unless there is no
        other arm to take what they leave."""
        low = np.where(self.eligible, self.floors, 0.0)
        high = np.where(self.eligible, self.caps, 0.0)
        open_to = set(np.flatnonzero(self.eligible).tolist())
        if len(open_to) == 1:
            high = np.where(self.eligible, 1.0, 0.0)
        return low, high, [one for one in self.groups if not open_to <= set(one[1])]

    def excess(self, odds: Array) -> float:
        """By how much odds (…, K) are beyond a bound, or miss a sum of 1."""
        low, high, groups = self.limits()
        beyond = [abs(odds.sum(axis=-1) - 1).max(), (low - odds).max()]
        beyond += [(odds - high).max()]
        beyond += [(odds[..., arms].sum(axis=-1) - most).max() for most, arms in groups]
        return float(max(beyond))

    def best_value(self, values: Array) -> float:
        """The largest expected value of a distribution within the bounds."""
        low, high, groups = self.limits()
        k = len(values)
        rows = np.zeros((len(groups), k))
        for row, (_, arms) in zip(rows, groups, strict=True):
            row[arms] = 1
        most = [most for most, _ in groups]
        found = linprog(
            -values,
            A_ub=rows if groups else None,
            b_ub=most if groups else None,
            A_eq=np.ones((1, k)),
            b_eq=[1.0],
            bounds=np.stack([low, np.maximum(low, high)], axis=1),
        )
        assert found.success, found.message
        return float(-found.fun)


def instances(seed: int, n: int) -> Iterator[Instance]:
    """Instances with 1 to 8 arms: ties, arms and experts without predictions, votes and
    weights down to 1e-300, nested and disjoint groups, arms that are not eligible."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        k = int(rng.integers(1, 9))
        eligible = rng.random(k) < 0.8
        eligible[rng.integers(k)] = True
        inside = np.zeros(k)
        inside[eligible] = rng.dirichlet(np.full(eligible.sum(), 0.7))
        floors = inside * rng.random(k) * (rng.random(k) < 0.5)
        caps = inside + (1 - inside) * rng.random(k) ** 3
        caps = np.where(rng.random(k) < 0.4, 1.0, np.minimum(caps, 1.0))
        predictions = rng.random((N, k)).round(1) * 10.0 ** -rng.integers(0, 290)
        predictions[rng.random((N, k)) < 0.1] = np.nan
        predictions[rng.random(N) < 0.1] = np.nan
        ballots = greedy(predictions, eligible)
        if rng.random() < 0.3:  # an expert whose ballot is spread over many scales
            steep = rng.random(eligible.sum()) ** rng.choice([1, 30, 500])
            ballots[0] = 0.0
            ballots[0, eligible] = (steep + 1e-300) / (steep + 1e-300).sum()
            predictions[0] = rng.random(k)
        log_weights = -rng.random(N) * rng.choice([1, 30, 690])
        yield Instance(
            floors,
            caps,
            _laminar(rng, inside),
            eligible,
            predictions,
            ballots,
            log_weights - log_weights.max(),
            float(rng.choice([0.0, 0.02, 1.0])),
        )


def _laminar(rng: np.random.Generator, inside: Array) -> list[tuple[float, list[int]]]:
    """Groups of arms next to one another in a random order, some inside others, whose
    caps leave room for `inside`."""
    order = rng.permutation(len(inside))
    groups = []

    def divide(arms: Ints) -> None:
        if len(arms) == 0 or rng.random() < 0.2:
            return
        if rng.random() < 0.6:
            needed = inside[arms].sum()
            most = min(needed + (1 - needed) * rng.random() ** 3, 1.0)
            groups.append((float(min(max(most, needed), 1.0)), arms.tolist()))
        if len(arms) > 1:
            cut = int(rng.integers(1, len(arms)))
            divide(arms[:cut])
            divide(arms[cut:])

    divide(order)
    return groups
