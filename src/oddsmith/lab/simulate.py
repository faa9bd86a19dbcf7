"""simulate: a policy in a world, many runs at once, with exact regret."""

from collections.abc import Sequence
from typing import Any

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

# run-steps of one simulation: some 3 GB for each of regret, arms and rewards
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
    """`runs` independent runs of `steps` decisions, rewards arriving `delay` steps
    late; runs are a leading axis.

    Contexts, draws, rewards and delays have random streams of their own, so that
    policies meet the same contexts for one seed. A random delay is drawn for each step
    and shared by the runs, which are independent given the delays: take several seeds
    for the spread over delays. Traces: posterior (T, runs, N), its entropy, odds (T,
    runs, K), gap (the Gibbs gap D_t = Σ_i w_i Σ_a Pr(a) (f_i - mean)² of Lemma 1), and
    log, which keeps the decisions for `Run.log`. Finite worlds take a compiled path
    where numba is installed, which draws the same arms. Where arms come with the call,
    every run has a state of its own, and odds of 0 behind its last arm.

    >>> import oddsmith as od
    >>> from oddsmith.lab.worlds import TableWorld
    >>> table = np.array([[[0.2, 0.8], [0.6, 0.4]]])
    >>> policy = od.GeneralizedThompsonSampling(od.TableExperts(table), gamma=0.1)
    >>> run = simulate(policy, TableWorld(table[:, 0]), steps=200, runs=50)
    >>> run.regret.shape, bool(run.total.mean() < 30)
    ((200, 50), True)
    """
    trace = (trace,) if isinstance(trace, str) else trace
    scatter = Bernoulli() if noise is None else noise
    _check(policy, world, scatter, (steps, runs, seed), trace)
    world = world.for_seed(seed)
    due = arrivals(delay, steps, np.random.default_rng([seed, 3]))
    if type(scatter) is Bernoulli and not trace and finite.suits(policy, world):
        return _compiled(policy, world, (steps, runs), seed, due)
    playing = ByRun(policy, world.n_arms) if world.makes_offers else policy
    return _stepwise(playing, world, (steps, runs), seed, due, (scatter, trace))


def _stepwise(
    policy: Policy,
    world: World,
    shape: tuple[int, int],
    seed: int,
    due: Arrivals,
    rest: tuple[Noise, Sequence[str]],
) -> Run:
    """Step by step, all runs at once: any policy, any world."""
    (steps, runs), (scatter, trace) = shape, rest
    contexts_rng, draws_rng, rewards_rng = _streams(seed)
    state = policy.init((runs,))
    keep, decisions = "log" in trace, dict[int, Decision]()
    regret = np.empty(shape)
    arms = np.empty(shape, dtype=np.int64)
    rewards = np.zeros(shape)
    contexts: list[Context] = []
    traces: dict[str, list[Array]] = {name: [] for name in trace if name != "log"}
    checks = StepChecks((2 * runs, world.n_arms), step_check(policy, world))
    # what a failed step has found so far; what it lacks is that of the step before
    found: dict[str, Any] = {"runs": runs, "noise": scatter}
    t = 0
    try:
        for t in progress(range(steps), steps, "steps"):
            context = world.context(t + 1, runs, contexts_rng, History(policy, state))
            found["context"] = context
            odds = policy.odds(state, context, step=t + 1)
            found["odds"] = odds
            decision = draw(odds, context, draws_rng.random(runs), step=t + 1)
            means = world.means(t + 1, context)
            if world.makes_offers:
                means = offered_means(world, context, means)
            found["means"] = means
            checks.add(decision.propensities, means)
            for name, values in traces.items():
                values.append(_traced(name, policy, state, odds, means=means))
            expected = (decision.propensities * means).sum(axis=-1)
            regret[t] = means.max(axis=-1) - expected
            arms[t] = decision.arm
            drawn = np.take_along_axis(means, decision.arm[:, None], axis=-1)[:, 0]
            given = scatter(drawn, rewards_rng)
            found["rewards"] = given
            if given.shape != (runs,):
                check_step(policy, world, t + 1, found)
            rewards[t] = given
            contexts.append(context)
            decisions[t] = decision
            for s in due.order[due.arrived[t - 1] if t else 0 : due.arrived[t]]:
                known = decisions[int(s)] if keep else decisions.pop(int(s))
                state = policy.update(state, known, rewards[s])
                if state is None:
                    check_state(policy, state)
    except Exception:
        # a value that is wrong is often the cause
        checks.flush()
        check_step(policy, world, t + 1, found)
        check_rewards_in_range(scatter, rewards[: t + 1])
        raise
    checks.flush()
    check_rewards_in_range(scatter, rewards)
    stacked = {name: np.stack(values) for name, values in traces.items()}
    kept = list(decisions.values()) if keep else []
    return Run(
        regret,
        arms,
        rewards,
        contexts,
        stacked,
        state,
        world,
        due,
        kept,
        named_advice(policy),
    )


def _streams(
    seed: int,
) -> tuple[np.random.Generator, np.random.Generator, np.random.Generator]:
    """Random numbers for contexts, draws and rewards, each with a stream of its own."""
    contexts, draws, rewards = (
        np.random.default_rng([seed, stream]) for stream in range(3)
    )
    return contexts, draws, rewards


def _compiled(
    policy: Policy, world: World, shape: tuple[int, int], seed: int, due: Arrivals
) -> Run:
    """The same run by the compiled loop: the same contexts, uniforms and coins, and so
    the same arms."""
    assert isinstance(policy, GeneralizedThompsonSampling)  # as `finite.suits` says
    assert isinstance(world, TableWorld)
    steps, runs = shape
    contexts_rng, draws_rng, rewards_rng = _streams(seed)
    contexts = np.stack(
        [world.context(t + 1, runs, contexts_rng) for t in range(steps)]
    )
    chance = draws_rng.random(shape), rewards_rng.random(shape)
    played = finite.play(policy, world, contexts, chance=chance, due=due)
    state = ExpertState(
        played.log_weights, len(due.order), policy.experts.init((runs,))
    )
    return Run(
        played.regret,
        played.arms,
        played.rewards,
        list(contexts),
        {},
        state,
        world,
        due,
    )


def check_seed(seed: object) -> None:
    """Refuses what is not a whole number from 0 to 2^63 - 1."""
    whole("seed", seed, low=0, high=2**63 - 1)


def _check(
    policy: object,
    world: object,
    noise: object,
    numbers: tuple[int, int, int],
    trace: object,
) -> None:
    check_policy(policy)
    check_world(world)
    if not callable(noise):
        raise InvalidInput(
            "noise must be a function of means and a generator; got "
            f"{type(noise).__name__}"
        )
    for what, value in zip(("steps", "runs"), numbers, strict=False):
        whole(what, value)
    if numbers[0] * numbers[1] > _MOST:
        raise TooLarge(
            f"steps · runs must be at most {_MOST:,}, kept in memory; got "
            f"{numbers[0] * numbers[1]:,}"
        )
    check_seed(numbers[2])
    if not isinstance(trace, list | tuple):
        raise InvalidInput(f"trace must be a list of names; got {trace!r:.60}")
    if unknown := [name for name in trace if name not in TRACES]:
        raise InvalidInput(f"trace must be of {', '.join(TRACES)}; got {unknown[0]!r}")


def _traced(
    name: str, policy: Policy, state: State, odds: Odds, *, means: Array
) -> Array:
    """One trace of one step: odds (runs, K), posterior (runs, N), its entropy (runs,),
    or the Gibbs gap (runs,)."""
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
        entropy: Array = -(
            posterior * np.log(np.where(posterior > 0, posterior, 1.0))
        ).sum(axis=-1)
        return entropy
    predictions = np.asarray(odds.advice)[..., : posterior.shape[-1], :]
    # a sleeper's prediction counts 0
    missed = np.nan_to_num((predictions - means[..., None, :]) ** 2)
    gap: Array = (posterior[..., None] * odds.propensities[..., None, :] * missed).sum(
        axis=(-2, -1)
    )
    return gap
