"""One decision and one reward: 64 linear experts, 10 arms, 20 features, next to Vowpal
Wabbit in the same run."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import oddsmith as od
from benchmarks import peers
from benchmarks.timing import Timing, interleaved, table
from benchmarks.told import Compared, Told, release
from oddsmith.core import kernels

EXPERTS, ARMS, FEATURES, STEPS, ROUNDS = 64, 10, 20, 1000, 15


class Problem(NamedTuple):
    """Contexts (T, K, d), uniforms (T,), rewards of every arm (T, K), and the bank."""

    contexts: Any
    uniforms: list[float]
    rewards: list[list[float]]
    bank: Any


def problem(seed: int = 0) -> Problem:
    rng = np.random.default_rng(seed)
    bank = rng.normal(size=(EXPERTS, FEATURES)) / np.sqrt(FEATURES) * 2
    contexts = rng.normal(size=(STEPS, ARMS, FEATURES))
    means = 1 / (1 + np.exp(-contexts @ bank[0]))
    rewards = (rng.random((STEPS, ARMS)) < means).astype(float)
    return Problem(contexts, rng.random(STEPS).tolist(), rewards.tolist(), bank)


def through_agent(given: Problem, choice: str) -> Callable[[], int]:
    """`Agent.decide` and `Agent.learn`, every decision kept."""
    policy = od.GeneralizedThompsonSampling(od.LinearExperts(given.bank), gamma=0.02)
    agent = od.Agent(policy, seed=1)

    def run() -> int:
        kernels.use(choice)
        record = []
        for t, context in enumerate(given.contexts):
            decision = agent.decide(context)
            agent.learn(decision, given.rewards[t][decision.arm])
            record.append(decision)
        return len(record)

    return run


def bare_policy(given: Problem, choice: str) -> Callable[[], int]:
    """`odds`, `draw`, `update`, with uniforms made beforehand."""
    policy = od.GeneralizedThompsonSampling(od.LinearExperts(given.bank), gamma=0.02)

    def run() -> int:
        kernels.use(choice)
        state, record = policy.init(), []
        for t, context in enumerate(given.contexts):
            decision = od.decide(policy, state, context, given.uniforms[t], step=t + 1)
            state = policy.update(state, decision, given.rewards[t][decision.arm])
            record.append(decision)
        return len(record)

    return run


def measure() -> dict[str, Timing]:
    given = problem()
    ours = {
        "oddsmith, numpy, Agent": through_agent(given, "numpy"),
        "oddsmith, numba, Agent": through_agent(given, "numba"),
        "oddsmith, numpy, bare policy": bare_policy(given, "numpy"),
        "oddsmith, numba, bare policy": bare_policy(given, "numba"),
    }
    return interleaved(ours | peers.contenders(given), ROUNDS)


def compared(timings: dict[str, Timing]) -> tuple[Compared, ...]:
    """Our agent beside the loop that is the fastest of VW's, with compiled code and
    without."""
    fastest, best = min(
        (timing.cpu, name) for name, timing in timings.items() if name.startswith("VW")
    )
    peer = f"{release('vowpalwabbit', 'Vowpal Wabbit')}: {best.split(', ', 1)[1]}"
    mine = {
        choice: timings[f"oddsmith, {choice}, Agent"] for choice in ("numba", "numpy")
    }
    return tuple(
        Compared(
            f"decide and learn, {EXPERTS} experts{more}",
            peer,
            mine[choice].cpu,
            fastest,
            "µs",
        )
        for choice, more in (("numba", ""), ("numpy", ", without numba"))
    )


def report() -> Told:
    timings = measure()
    kernels.use("auto")
    vw = [name for name in timings if name.startswith("VW")]
    header = [
        "loop",
        "CPU µs/step",
        "wall µs/step",
        *(f"÷ {name.split(', ', 1)[1]}" for name in vw),
    ]
    rows = [
        [
            name,
            f"{t.cpu:.1f}",
            f"{t.wall:.1f}",
            *(f"{timings[peer].cpu / t.cpu:.1f}×" for peer in vw),
        ]
        for name, t in timings.items()
    ]
    text = f"""## A decision and a reward

{EXPERTS} logistic experts, {ARMS} arms, {FEATURES} features, log loss, gamma 0.02; median of {ROUNDS} interleaved
rounds of {STEPS:,} steps, one thread. The last columns show how many times faster a row is than each loop of Vowpal
Wabbit (CPU time). The experts are fixed and Vowpal Wabbit learns one linear model, so only the calls are the same, not the work.

{table(header, rows)}

* *documented loop*: `predict` on text, then `learn` on the same text with a label. The time to make the text is not counted.
* *parsed once*: the parsed examples are labelled and used again. The time to make the text is not counted.
* *examples from arrays*: the fastest way for a user whose data are arrays, as in oddsmith.
"""
    return Told(text, compared(timings))
