"""Simulate a policy in a world, many runs at once, with exact regret."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from oddsmith.core.arrays import Array, whole
from oddsmith.core.checks import check_state
from oddsmith.core.decision import Context, Decision, Odds, State
from oddsmith.core.draw import draw
from oddsmith.core.errors import InvalidInput, TooLarge
from oddsmith.core.expert_policy import ExpertState
from oddsmith.core.gts import GeneralizedThompsonSampling
from oddsmith.core.policy import Policy, check_policy
from oddsmith.lab import finite
from oddsmith.lab.checks import (
    StepChecks,
    StepParts,
    check_rewards_in_range,
    check_step,
    check_world,
    offered_means,
    step_check,
)
from oddsmith.lab.delays import Arrivals, Delay, arrivals
from oddsmith.lab.offers import ByRun
from oddsmith.lab.run import Run
from oddsmith.lab.worlds.tables import TableWorld
from oddsmith.lab.worlds.world import Bernoulli, History, Noise, World
from oddsmith.logs.advice import named_advice
from oddsmith.logs.progress import progress

__all__ = ["TRACES", "check_seed", "simulate"]

# Maximum run-steps per simulation: about 3 GB for each of regret, arms and rewards.
_MOST = 400_000_000
TRACES = ("posterior", "entropy", "gap", "odds", "log")


def simulate(
    policy: Policy,
    world: World,
    *,
    steps: int,
    runs: int = 1,
    seed: int = 0,
    delay: int | Delay = 0,
    noise: Noise | None = None,
    trace: Sequence[str] = (),
) -> Run:
    """Simulate `runs` independent runs of `steps` decisions, with rewards that arrive
    `delay` steps late. All runs are simulated together, along a leading axis.

    Contexts, draws, rewards and delays have separate random streams, so that with the
    same seed different policies see the same contexts. A random delay is drawn for each
    step and shared by the runs, which are independent given the delays: use several
    seeds to measure the spread over delays. Traces: posterior (T, runs, N), its
    entropy, odds (T, runs, K), gap (the Gibbs gap D_t = Σ_i w_i Σ_a Pr(a) (f_i - mean)²
    of Lemma 1), and log, which keeps the decisions for `Run.log`. If numba is
    installed, finite worlds are simulated by compiled code, which draws the same arms.
    If arms are passed in each call, every run has its own state, and its propensities
    are padded with 0 after the last offered arm.

    >>> import oddsmith as od
    >>> from oddsmith.lab.worlds import TableWorld
    >>> table = np.array([[[0.2, 0.8], [0.6, 0.4]]])
    >>> policy = od.GeneralizedThompsonSampling(od.TableExperts(table), gamma=0.1)
    >>> run = simulate(policy, TableWorld(table[:, 0]), steps=200, runs=50)
    >>> run.regret.shape, bool(run.total.mean() < 30)
    ((200, 50), True)
    """
    names = trace
    if isinstance(trace, str):
        names = (trace,)
    if noise is None:
        noise = Bernoulli()
    check_policy(policy)
    check_world(world)
    _check_noise(noise)
    _check_size(steps, runs)
    check_seed(seed)
    _check_trace(names)
    world = world.for_seed(seed)
    rng = np.random.default_rng([seed, 3])
    due = arrivals(delay, steps, rng)
    is_plain = type(noise) is Bernoulli and not names
    if is_plain and finite.suits(policy, world):
        return _compiled(policy, world, (steps, runs), seed, due)
    if world.makes_offers:
        policy = ByRun(policy, world.n_arms)
    return _stepwise(policy, world, (steps, runs), seed, due, noise, names)


def _stepwise(
    policy: Policy,
    world: World,
    shape: tuple[int, int],
    seed: int,
    due: Arrivals,
    noise: Noise,
    trace: Sequence[str],
) -> Run:
    """Simulate any policy in any world step by step, all runs at once."""
    steps, runs = shape
    streams = _streams(seed)
    state = policy.init((runs,))
    keeps_decisions = "log" in trace
    decisions: dict[int, Decision] = {}
    regret = np.empty(shape)
    arms = np.empty(shape, dtype=np.int64)
    rewards = np.zeros(shape)
    contexts: list[Context] = []
    traces: dict[str, list[Array]] = {name: [] for name in trace if name != "log"}
    arms_shape = (runs, world.n_arms)
    checks = StepChecks(arms_shape, step_check(policy, world), has_two=True)
    parts = StepParts(runs, noise)
    learnt = 0  # number of rewards that arrived before this step
    t = 0
    try:
        for t in progress(range(steps), steps, "steps"):
            step = t + 1
            history = History(policy, state)
            context = world.context(step, runs, streams.contexts, history)
            parts.context = context
            odds = policy.odds(state, context, step=step)
            parts.odds = odds
            uniforms = streams.draws.random(runs)
            decision = draw(odds, context, uniforms, step=step)
            means = world.means(step, context)
            if world.makes_offers:
                means = offered_means(world, context, means)
            parts.means = means
            checks.add(decision.propensities, means)
            for name, values in traces.items():
                values.append(_trace_value(name, policy, state, odds, means))
            expected = (decision.propensities * means).sum(axis=-1)
            regret[t] = means.max(axis=-1) - expected
            arms[t] = decision.arm
            places = decision.arm[:, None]
            arm_means = np.take_along_axis(means, places, axis=-1)[:, 0]
            step_rewards = noise(arm_means, streams.rewards)
            parts.rewards = step_rewards
            if step_rewards.shape != (runs,):
                check_step(policy, world, step, parts)
            rewards[t] = step_rewards
            contexts.append(context)
            decisions[t] = decision
            arrived = due.arrived[t]
            for s in due.order[learnt:arrived]:
                known = decisions[int(s)]
                if not keeps_decisions:
                    del decisions[int(s)]
                state = policy.update(state, known, rewards[s])
                if state is None:
                    check_state(policy, state)
            learnt = arrived
    except Exception:
        # Report an invalid value first, because it often causes the exception.
        checks.flush()
        check_step(policy, world, t + 1, parts)
        check_rewards_in_range(noise, rewards[: t + 1])
        raise
    checks.flush()
    check_rewards_in_range(noise, rewards)
    kept = list(decisions.values()) if keeps_decisions else []
    by_name = {name: np.stack(values) for name, values in traces.items()}
    return Run(
        regret,
        arms,
        rewards,
        contexts,
        traces=by_name,
        state=state,
        world=world,
        due=due,
        decisions=kept,
        experts=named_advice(policy),
    )


class _Streams(NamedTuple):
    """Random number generators for contexts, draws and rewards, each with its own
    stream."""

    contexts: np.random.Generator
    draws: np.random.Generator
    rewards: np.random.Generator


def _streams(seed: int) -> _Streams:
    return _Streams._make(np.random.default_rng([seed, stream]) for stream in range(3))


def _compiled(
    policy: Policy, world: World, shape: tuple[int, int], seed: int, due: Arrivals
) -> Run:
    """Simulate with the compiled loop, from the same contexts, uniforms and coins, so
    that the same arms are drawn."""
    # `finite.suits` has checked both types.
    assert isinstance(policy, GeneralizedThompsonSampling)
    assert isinstance(world, TableWorld)
    steps, runs = shape
    streams = _streams(seed)
    contexts = []
    for t in range(steps):
        contexts.append(world.context(t + 1, runs, streams.contexts))
    uniforms = streams.draws.random(shape)
    coins = streams.rewards.random(shape)
    played = finite.play(
        policy, world, np.stack(contexts), uniforms=uniforms, coins=coins, due=due
    )
    bank_state = policy.experts.init((runs,))
    state = ExpertState(played.log_weights, len(due.order), bank_state)
    return Run(
        played.regret,
        played.arms,
        played.rewards,
        contexts,
        traces={},
        state=state,
        world=world,
        due=due,
    )


def check_seed(seed: object) -> None:
    """Raise an error if a seed is not a whole number from 0 to 2^63 - 1."""
    whole("seed", seed, low=0, high=2**63 - 1)


def _check_noise(noise: object) -> None:
    if not callable(noise):
        raise InvalidInput(
            "noise must be a function of means and a generator; got "
            f"{type(noise).__name__}"
        )


def _check_size(steps: int, runs: int) -> None:
    whole("steps", steps)
    whole("runs", runs)
    if steps * runs > _MOST:
        raise TooLarge(
            f"steps · runs must be at most {_MOST:,}, because results are kept in "
            f"memory; got {steps * runs:,}"
        )


def _check_trace(trace: object) -> None:
    if not isinstance(trace, list | tuple):
        raise InvalidInput(f"trace must be a list of names; got {trace!r:.60}")
    if unknown := [name for name in trace if name not in TRACES]:
        raise InvalidInput(
            f"trace must be among {', '.join(TRACES)}; got {unknown[0]!r}"
        )


def _trace_value(
    name: str, policy: Policy, state: State, odds: Odds, means: Array
) -> Array:
    """Return one trace of one step: propensities (runs, K), posterior (runs, N), its
    entropy (runs,), or the Gibbs gap (runs,)."""
    if name == "odds":
        return odds.propensities
    if policy.bank is None:
        raise InvalidInput(
            f"trace {name!r} needs a policy with a posterior over experts; got "
            f"{type(policy).__name__}"
        )
    posterior: Array = policy.posterior(state)
    if name == "posterior":
        return posterior
    if name == "entropy":
        return _entropy(posterior)
    arms = posterior.shape[-1]
    predictions = np.asarray(odds.advice)[..., :arms, :]
    return _gibbs_gap(posterior, odds.propensities, predictions, means)


def _entropy(posterior: Array) -> Array:
    """Return -Σ_i w_i ln w_i, with 0 ln 0 = 0."""
    logs = np.log(np.where(posterior > 0, posterior, 1.0))
    entropy: Array = -(posterior * logs).sum(axis=-1)
    return entropy


def _gibbs_gap(
    posterior: Array, propensities: Array, predictions: Array, means: Array
) -> Array:
    """Return Σ_i w_i Σ_a Pr(a) (f_i(a) - mean(a))². An expert without a prediction has
    no error."""
    errors = predictions - means[..., None, :]
    squared_errors = np.nan_to_num(errors**2)
    joint = posterior[..., None] * propensities[..., None, :]
    weighted = joint * squared_errors
    gap: Array = weighted.sum(axis=(-2, -1))
    return gap
