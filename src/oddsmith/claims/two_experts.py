"""Exact regret in world V(K, Δ), in which two experts differ on one arm. The weights
form a Markov chain on the number of wins minus losses of that arm (docs/math 9, 10).

All arms have mean 1/2, except the last with 1/2 + Δ or 1/2 - Δ. Expert 1 predicts 1/2 +
Δ for it, expert 2 predicts 1/2 - Δ, and one of the two experts is right. Only pulls of
the last arm change the weights. Let m be the number of pulls that favour the right
expert minus the number that favour the other; then ln(w_true / w_other) = -B + s m,
with B = ln((1-p)/p).

The computation uses no simulation. A band of a few hundred values of m contains all but
e^-34 of the probability, and one product with a band matrix computes 32 steps.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import atanh, ceil, log
from typing import NamedTuple

import numpy as np

from oddsmith.claims.claim import Setup
from oddsmith.core.arrays import Array, Ints
from oddsmith.core.losses import LOSSES

__all__ = [
    "Chain",
    "Expected",
    "FLIPPED",
    "GapWeighting",
    "Learner",
    "Sampling",
    "World",
    "exact",
    "exact_loss",
    "exact_regret",
    "spacing",
]

# Name of the deliberate error in which the learner receives 1 - r.
FLIPPED = "learns from 1 - r"
_DEPTH = 34.0  # the band omits a probability of at most e^-34 at each end
_BLOCK = 32  # steps per matrix product
_RARE = 1e-25  # the band for Feel-Good omits probabilities up to this


class World(NamedTuple):
    """World V(K, Δ), the prior probability of expert 1, and whether expert 1 or expert
    2 is right."""

    delta: float
    prior: float
    n_arms: int = 2
    first: bool = True

    @property
    def doubt(self) -> float:
        """B = ln((1-p)/p), where p is the prior of the right expert."""
        doubt = log((1 - self.prior) / self.prior)
        if self.first:
            return doubt
        return -doubt

    @property
    def predictions(self) -> Array:
        """Predictions of the two experts (2, K)."""
        predictions = np.full((2, self.n_arms), 0.5)
        predictions[0, -1] = 0.5 + self.delta
        predictions[1, -1] = 0.5 - self.delta
        return predictions

    @property
    def means(self) -> Array:
        """Mean rewards (K,), which are the predictions of the right expert."""
        means: Array = self.predictions[0 if self.first else 1]
        return means


@dataclass(frozen=True)
class Sampling:
    """GTS with a constant gamma. With `optimism` λ it is Feel-Good Thompson sampling:
    every step adds λΔ to ln(w_1/w_2).

    If `flipped`, it learns from 1 - r, a deliberate error that the claims must detect.
    """

    loss: str = "log"
    eta: float = 0.5
    gamma: float = 0.0
    optimism: float = 0.0
    flipped: bool = False

    @classmethod
    def of_setup(
        cls, setup: Setup, loss: str, *, eta: float, gamma: float
    ) -> "Sampling":
        """Return GTS with the deliberate error of the setup, if any."""
        flipped = setup.wrong.other == FLIPPED
        return cls(loss, setup.eta(eta), setup.gamma(gamma), flipped=flipped)

    def pull(self, belief: Array, world: World) -> Array:
        """Return Pr(last arm) for these posterior probabilities of expert 1."""
        share = (1 - self.gamma) * belief
        return self.gamma / world.n_arms + share


@dataclass(frozen=True)
class GapWeighting:
    """SquareCB on the posterior mean, with log loss and eta 1."""

    sharpness: float
    loss: str = "log"
    eta: float = 1.0
    optimism: float = 0.0
    flipped: bool = False

    def pull(self, belief: Array, world: World) -> Array:
        """Return Pr(last arm): 1/(K + Γ gap) if another arm has the largest mean,
        otherwise the remaining probability."""
        gap = world.delta * (2 * belief - 1)
        weight = self.sharpness * np.abs(gap)
        share = 1 / (world.n_arms + weight)
        rest = 1 - (world.n_arms - 1) * share
        return np.where(gap > 0, rest, share)


Learner = Sampling | GapWeighting


class Expected(NamedTuple):
    """Expectations after T steps: regret, Σ lbar (the total shifted loss), and the
    posterior probability of the right expert."""

    regret: float
    loss: float
    posterior: float


class Chain(NamedTuple):
    """The Markov chain. Each array has one entry for each m in ascending order: the
    right expert's posterior, Pr(last arm), and the regret and the shifted loss lbar of
    a step."""

    belief: Array
    pull: Array
    regret: Array
    loss: Array
    up: float
    start: int

    @classmethod
    def of(cls, world: World, learner: Learner) -> "Chain":
        """Return the chain of a learner whose propensities depend only on its
        weights."""
        low, high = _ends(world, learner, 0.0)
        counts = np.arange(low, high + 1.0)
        evidence = spacing(world.delta, learner) * counts
        belief = _sigmoid(evidence - world.doubt)
        first_belief = belief if world.first else 1 - belief
        pull = learner.pull(first_belief, world)
        wrong = pull
        if world.first:
            wrong = 1 - pull
        loss = (1 - belief) * pull * _mean_loss(world.delta, learner)
        return cls(
            belief=belief,
            pull=pull,
            regret=world.delta * wrong,
            loss=loss,
            up=_up(world, learner),
            start=-low,
        )

    def step_values(self, values: Array) -> Array:
        """Return the expected value after one step from each state. The outermost
        states do not move."""
        above = np.append(values[1:], values[-1])
        below = np.append(values[0], values[:-1])
        won = self.up * above
        after_pull = won + (1 - self.up) * below
        change = self.pull * (after_pull - values)
        return np.asarray(values + change)

    def totals(
        self, costs: Array, values: Array, marks: Sequence[int]
    ) -> Iterator[Array]:
        """Yield the expected sum of costs plus the expected final value, by initial
        state, after each number of steps in `marks` (ascending)."""
        from scipy.linalg.blas import dgbmv

        size = len(costs)
        # BLAS requires that the band fits into the matrix.
        n = min(_BLOCK, (size - 1) // 2)
        done = 0
        jump = None
        block = np.zeros_like(costs)
        for mark in marks:
            blocks, rest = divmod(mark - done, n)
            for _ in range(rest):
                values = costs + self.step_values(values)
            for _ in range(blocks):
                if jump is None:
                    jump = self._jump(n)
                    for _ in range(n):
                        block = costs + self.step_values(block)
                values = dgbmv(size, size, n, n, 1.0, jump, values, beta=1.0, y=block)
            done = mark
            yield values

    def total(self, costs: Array, values: Array, steps: int) -> float:
        """Return the expected sum of costs plus the expected final value, from the
        initial state."""
        totals = next(self.totals(costs, values, [steps]))
        return float(totals[self.start])

    def _jump(self, n: int) -> Array:
        """Return the transition matrix of n steps in BLAS's band form: row d, column j
        is the probability of moving from j + d to j."""
        size = len(self.pull)
        offsets = np.arange(-n, n + 1)[:, None]
        places: Ints = np.arange(size) + offsets
        inside = (places >= 0) & (places < size)
        near = np.clip(places, 0, size - 1)
        pull = np.where(inside, self.pull[near], 0.0)
        up = pull * self.up * (places < size - 1)
        down = pull * (1 - self.up) * (places > 0)
        stay = inside - up - down
        power = np.zeros((len(offsets) + 2, size))
        power[n + 1] = 1.0
        for _ in range(n):
            kept = stay * power[1:-1]
            from_above = up * power[2:]
            power[1:-1] = kept + from_above + down * power[:-2]
        return np.asfortranarray(power[1:-1])


def exact(world: World, learner: Learner, steps: int) -> Expected:
    """Return exact expectations after `steps` steps, with a relative error of about
    1e-10.

    >>> found = exact(World(0.1, 0.5), Sampling("square", eta=1.0, gamma=0.1), 1000)
    >>> round(found.regret, 4), round(found.loss, 4)
    (9.2512, 0.9965)
    """
    if learner.optimism:
        return _optimistic(world, learner, steps)
    chain = Chain.of(world, learner)
    nothing = np.zeros_like(chain.belief)
    regret = chain.total(chain.regret, nothing, steps)
    loss = chain.total(chain.loss, nothing, steps)
    posterior = chain.total(nothing, chain.belief, steps)
    return Expected(
        regret=regret,
        loss=loss,
        posterior=posterior,
    )


def exact_regret(world: World, learner: Learner, steps: int) -> float:
    """Return only the exact expected regret, in a third of the time."""
    if learner.optimism:
        return _optimistic(world, learner, steps).regret
    chain = Chain.of(world, learner)
    return chain.total(chain.regret, np.zeros_like(chain.regret), steps)


def exact_loss(world: World, learner: Learner, steps: int) -> float:
    """Return only the exact Σ lbar."""
    if learner.optimism:
        return _optimistic(world, learner, steps).loss
    chain = Chain.of(world, learner)
    return chain.total(chain.loss, np.zeros_like(chain.loss), steps)


def spacing(delta: float, learner: Learner) -> float:
    """Return s, the amount by which one pull changes ln(w_1/w_2)."""
    predictions = np.array([0.5 + delta, 0.5 - delta])
    rewards = np.ones(2)
    losses = LOSSES[learner.loss](predictions, rewards)
    excess = float(losses[1] - losses[0])
    return learner.eta * excess


def _mean_loss(delta: float, learner: Learner) -> float:
    """Return the mean loss of the wrong expert minus that of the right one on a pull of
    the last arm."""
    return 2 * delta * spacing(delta, learner) / learner.eta


def _ends(world: World, learner: Learner, bonus: float) -> tuple[int, int]:
    """Return the lowest and the highest m of the band. A `bonus` for the wrong expert
    widens the band.

    A random walk returns from n places above with probability e^(-n ln((1+2Δ)/(1-2Δ))),
    and goes from 0 down to -n with the same probability.
    """
    against = world.doubt
    if not world.first:
        against = world.doubt + bonus
    back = 2 * atanh(2 * world.delta)
    step = spacing(world.delta, learner)
    needed = max(against, 0.0) / step
    most = needed + _DEPTH / min(step, back)
    return -ceil(_DEPTH / back), ceil(most)


def _up(world: World, learner: Learner) -> float:
    """Return the probability that a pull of the last arm favours the right expert."""
    if learner.flipped:
        return 0.5 - world.delta
    return 0.5 + world.delta


def _sigmoid(x: Array) -> Array:
    log_odds = np.minimum(-x, 700.0)
    return np.asarray(1 / (1 + np.exp(log_odds)))


def _optimistic(world: World, learner: Learner, steps: int) -> Expected:
    """Compute expectations step by step, because the propensity in each state changes
    over time. A moving window contains all probability."""
    delta = world.delta
    bonus = learner.optimism * delta
    low, high = _ends(world, learner, bonus * steps)
    evidence = spacing(delta, learner) * np.arange(low, high + 1)
    log_odds = np.minimum(world.doubt - evidence, 600.0)
    odds = np.exp(log_odds)
    fade = np.exp(-bonus if world.first else bonus)
    up = _up(world, learner)
    here = np.zeros(len(odds))
    here[-low] = 1.0
    regret = 0.0
    loss = 0.0
    for start in range(0, steps, _BLOCK):
        known = np.flatnonzero(here > _RARE)
        first = max(known[0] - _BLOCK, 0)
        window = slice(first, known[-1] + _BLOCK + 1)
        part = here[window]  # a view: changes to it change `here`
        against = odds[window]
        for t in range(start, min(start + _BLOCK, steps)):
            belief = 1 / (1 + against * fade**t)
            first_belief = belief if world.first else 1 - belief
            pulled = part * learner.pull(first_belief, world)
            total = pulled.sum()
            regret += delta * (1 - total if world.first else total)
            loss += pulled @ (1 - belief)
            part -= pulled
            part[1:] += up * pulled[:-1]
            part[:-1] += (1 - up) * pulled[1:]
            part[-1] += up * pulled[-1]
            part[0] += (1 - up) * pulled[0]
    beliefs = 1 / (1 + odds * fade**steps)
    posterior = float(here @ beliefs)
    loss = float(loss) * _mean_loss(delta, learner)
    return Expected(float(regret), loss, posterior)
