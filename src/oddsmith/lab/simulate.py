"""simulate: a policy in a world, many runs at once, with exact regret."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oddsmith.arrays import Array, Ints
from oddsmith.decision import Decision, Odds, Policy, draw
from oddsmith.errors import InvalidInput
from oddsmith.experts.base import Experts
from oddsmith.lab import finite
from oddsmith.policies.gts import GtsState
from oddsmith.worlds.base import Bernoulli, History, Noise, World

__all__ = ["Run", "simulate"]

_TRACES = ("posterior", "entropy", "odds")


@dataclass(frozen=True, eq=False)
class Run:
    """What happened: regret (T, runs) of each step against the best arm, arms, contexts, rewards, and the traces.

    Regret is expected over the draw of the arm and exact: max_a mean - Σ_a Pr(a) mean(a), never an estimate.
    """

    regret: Array
    arms: Ints
    rewards: Array
    contexts: list[Any] = field(repr=False)
    traces: dict[str, Array] = field(repr=False)
    state: Any = field(repr=False)

    @property
    def total(self) -> Array:
        """The regret of each run after all steps (runs,)."""
        total: Array = self.regret.sum(axis=0)
        return total

    def regret_to(self, experts: Experts, world: World) -> Array:
        """max_i Σ_t mean(x_t, E_i(x_t)) - Σ_t E mean(x_t, a_t) of each run (runs,): regret to the best fixed expert.

        Equation 1 of the paper; with a true expert among them it is the regret against the best arm.
        """
        best, state = np.zeros((self.regret.shape[1], len(experts.names))), experts.init()
        lost = np.zeros(self.regret.shape[1])
        for t, context in enumerate(self.contexts):
            means = world.means(t + 1, context)
            best += (experts.advise(state, context)[1] * means[:, None, :]).sum(axis=-1)
            lost += means.max(axis=-1)
        earned = lost - self.total
        regret: Array = best.max(axis=-1) - earned
        return regret

    def mean(self) -> tuple[float, float]:
        """The mean total regret over runs, and its standard error."""
        runs = self.total.size
        return float(self.total.mean()), float(self.total.std(ddof=1) / np.sqrt(runs)) if runs > 1 else float("nan")


def simulate(
    policy: Policy,
    world: World,
    *,
    steps: int,
    runs: int = 1,
    seed: int = 0,
    delay: int = 0,
    noise: Noise | None = None,
    trace: Sequence[str] = (),
) -> Run:
    """`runs` independent runs of `steps` decisions, rewards arriving `delay` steps late; runs are a leading axis.

    Contexts, draws and rewards have random streams of their own, so that policies meet the same contexts for one seed.
    Finite worlds take a compiled path where numba is installed, which draws the same arms.

    >>> import oddsmith as od
    >>> from oddsmith.worlds import TableWorld
    >>> table = np.array([[[0.2, 0.8], [0.6, 0.4]]])
    >>> policy = od.GeneralizedThompsonSampling(od.TableExperts(table), gamma=0.1)
    >>> run = simulate(policy, TableWorld(table[:, 0]), steps=200, runs=50)
    >>> run.regret.shape, bool(run.total.mean() < 30)
    ((200, 50), True)
    """
    _check(steps, runs, delay, trace)
    scatter = noise or Bernoulli()
    if isinstance(scatter, Bernoulli) and not trace and finite.suits(policy, world):
        return _compiled(policy, world, (steps, runs), seed, delay)
    contexts_rng, draws_rng, rewards_rng = _streams(seed)
    state = policy.init((runs,))
    waiting: deque[tuple[Decision, Array]] = deque()
    regret, arms, rewards = np.empty((steps, runs)), np.empty((steps, runs), dtype=np.int64), np.empty((steps, runs))
    contexts: list[Any] = []
    traces: dict[str, list[Array]] = {name: [] for name in trace}
    for t in range(steps):
        context = world.context(t + 1, runs, contexts_rng, History(policy, state))
        odds = policy.odds(state, context, step=t + 1)
        for name in trace:
            traces[name].append(_traced(name, policy, state, odds))
        decision = draw(odds, context, draws_rng.random(runs), step=t + 1)
        means = world.means(t + 1, context)
        regret[t] = means.max(axis=-1) - (decision.propensities * means).sum(axis=-1)
        arms[t] = decision.arm
        rewards[t] = scatter(np.take_along_axis(means, decision.arm[:, None], axis=-1)[:, 0], rewards_rng)
        contexts.append(context)
        waiting.append((decision, rewards[t]))
        if len(waiting) > delay:
            state = policy.update(state, *waiting.popleft())
    return Run(regret, arms, rewards, contexts, {name: np.stack(values) for name, values in traces.items()}, state)


def _streams(seed: int) -> tuple[np.random.Generator, np.random.Generator, np.random.Generator]:
    """Random numbers for contexts, draws and rewards, each with a stream of its own."""
    contexts, draws, rewards = (np.random.default_rng([seed, stream]) for stream in range(3))
    return contexts, draws, rewards


def _compiled(policy: Any, world: Any, shape: tuple[int, int], seed: int, delay: int) -> Run:
    """The same run by the compiled loop: the same contexts, uniforms and coins, and so the same arms."""
    steps, runs = shape
    contexts_rng, draws_rng, rewards_rng = _streams(seed)
    contexts = np.stack([world.context(t + 1, runs, contexts_rng) for t in range(steps)])
    uniforms, coins = draws_rng.random(shape), rewards_rng.random(shape)
    played = finite.play(policy, world, contexts, uniforms, coins=coins, delay=delay)
    state = GtsState(played.log_weights, max(steps - delay, 0), policy.experts.init((runs,)))
    return Run(played.regret, played.arms, played.rewards, list(contexts), {}, state)


def _check(steps: Any, runs: Any, delay: Any, trace: Sequence[str]) -> None:
    for what, value, least in (("steps", steps, 1), ("runs", runs, 1), ("delay", delay, 0)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise InvalidInput(f"{what} must be a whole number of at least {least}; got {value!r}")
    if unknown := [name for name in trace if name not in _TRACES]:
        raise InvalidInput(f"trace must be of {', '.join(_TRACES)}; got {unknown[0]!r}")


def _traced(name: str, policy: Any, state: Any, odds: Odds) -> Array:
    """One trace of one step: the odds (runs, K), the posterior over experts (runs, N), or its entropy (runs,)."""
    if name == "odds":
        return odds.propensities
    posterior: Array = policy.posterior(state)
    if name == "posterior":
        return posterior
    entropy: Array = -(posterior * np.log(np.where(posterior > 0, posterior, 1.0))).sum(axis=-1)
    return entropy
