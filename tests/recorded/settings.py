"""Runs of recipes, wrappers and schedules, each with its settings written out, so that
a new default changes none."""

from collections.abc import Callable
from typing import Any

import numpy as np

import oddsmith as od
from recorded.contracts import MASKS, play, play_batch
from recorded.trace import Trace

__all__ = ["SETTINGS"]

NAMES = ("a", "b", "c", "d")
BANK = od.GivenExperts(NAMES)
PRIOR = [0.4, 0.3, 0.2, 0.1]
ARMS = ("north", "south", "west")


def gts(loss: Any = od.log_loss, **settings: Any) -> Any:
    """GTS over four experts, with all its settings."""
    usual: dict[str, Any] = {
        "eta": 0.5,
        "gamma": 0.1,
        "prior": PRIOR,
        "optimism": 0.0,
        "share": 0.0,
        "discount": 1.0,
    }
    return od.GeneralizedThompsonSampling(BANK, loss, **usual | settings)


def said(n: int, *shape: int, n_arms: int = 4, seed: int = 21) -> list[Any]:
    """What four experts say of the arms, n times; ties among them."""
    rng = np.random.default_rng(seed)
    contexts = rng.uniform(0.05, 0.95, (n, *shape, 4, n_arms)).round(2)
    contexts[1::4, ..., 2, :] = 0.5
    return list(contexts)


def sleepy(n: int, *shape: int) -> list[Any]:
    """The same with experts asleep, whole or about an arm, and once all of them."""
    contexts = said(n, *shape)
    for t, context in enumerate(contexts):
        context[..., t % 4, :] = np.nan
        context[..., (t + 2) % 4, t % 3] = np.nan
    contexts[n // 2][:] = np.nan
    return contexts


def people(n: int) -> list[dict[str, Any]]:
    """Dicts with numbers, texts, missing ones of both, and a word that comes late."""
    rng = np.random.default_rng(22)
    rows: list[dict[str, Any]] = []
    for t in range(n):
        age, spent = float(rng.integers(18, 80)), float(rng.normal())
        city = (
            ("Rome", "Oslo", "Lima", None)[int(rng.integers(4))]
            if t < n - 3
            else "Quito"
        )
        rows.append(
            {
                "age": None if t % 5 == 2 else age,
                "spent": float("nan") if t % 7 == 3 else spent,
                "city": city,
            }
        )
        if t % 4 == 1:
            del rows[-1]["city"]
    return rows


def given(make: Callable[[], Any]) -> Callable[[Trace], None]:
    """A run of a policy over four experts: alone and in batches, both with sleepers
    among them."""

    def run(trace: Trace) -> None:
        play(trace, make(), [*said(8), *sleepy(8)])
        play_batch(trace, make(), [*said(4, 3), *sleepy(4, 3)])

    return run


def auto(
    size: str, contexts: Callable[[int], list[Any]], **settings: Any
) -> Callable[[Trace], None]:
    """A run of `auto` over three named arms."""

    def run(trace: Trace) -> None:
        usual: dict[str, Any] = {
            "schema": None,
            "gamma": 0.005,
            "share": 0.0,
            "rows_per_arm": False,
        }
        policy = od.auto(ARMS, size=size, **usual | settings)
        play(
            trace,
            policy,
            contexts(14),
            masks=(None, None, np.array([True, True, False])),
        )

    return run


def numbers(n: int) -> list[Any]:
    """Vectors, some of their numbers missing."""
    rows = np.random.default_rng(23).normal(size=(n, 3)) * [1.0, 100.0, 0.01]
    rows[3::5, 1] = np.nan
    return list(rows)


def rows_of_arms(n: int) -> list[Any]:
    """A row of numbers for each of three arms."""
    return list(np.random.default_rng(24).normal(size=(n, 3, 2)))


def offers(n: int) -> list[Any]:
    """Three arms of the call each time, of a pool of five: categories and numbers of
    context and arm, some of both missing; their products are features."""
    rng = np.random.default_rng(25)
    pool = [f"article {k}" for k in range(5)]
    rows = []
    for context in people(n):
        arms = tuple(rng.permutation(pool)[:3].tolist())
        features: dict[str, Any] = {
            arm: {"topic": pool.index(arm) % 2 * "sport", "hours": float(rng.random())}
            for arm in arms
        }
        features[arms[0]] = None
        rows.append(od.Offer(context, arms, features))
    return rows


def shared_auto(trace: Trace) -> None:
    """A run of `auto` over arms that come with the call."""
    policy = od.auto(schema=None, arm_schema=None, gamma=0.005, share=0.0, most_arms=4)
    play(trace, policy, offers(14), masks=(None, None, np.array([True, True, False])))


def changing_arms(trace: Trace) -> None:
    """A number of arms that is another at each step."""
    contexts = [said(1, n_arms=2 + t % 3, seed=t)[0] for t in range(12)]
    policy = gts()
    play(trace, policy, contexts, masks=(None,))


def merged(trace: Trace) -> None:
    """Three parts of a log learnt apart, then together, and what is said of an odd."""
    policy, states = gts(), []
    for seed in (1, 2, 3):
        part = Trace()
        states.append(play(part, policy, said(5, seed=seed), seed=seed))
    state = policy.merge(*states)
    trace.note("merged", state)
    trace.note(
        "explained", policy.explain(state, sleepy(4)[1], eligible=MASKS[1], step=3)
    )


def late_rewards(trace: Trace) -> None:
    """An agent with named arms whose rewards come late, out of order, singly and in
    batches."""
    agent = od.Agent(gts(od.square_loss, eta=1.5), seed=5, arms=NAMES)
    waiting = [
        agent.decide(context, eligible=["a", "c", "d"] if t % 3 else None)
        for t, context in enumerate(said(9))
    ]
    batch = agent.decide_batch(np.stack(sleepy(6)))
    trace.note("arms", [(decision.arm, decision.propensity) for decision in waiting])
    trace.note("batch", (batch.index, batch.propensities))
    for place in (4, 0, 7, 2):
        agent.learn(waiting[place], place / 8)
    agent.learn(batch, np.linspace(0, 1, 6))
    agent.learn([waiting[place] for place in (8, 1)], [1.0, 0.0])
    last = agent.decide(said(1)[0])
    trace.note("then", (last.arm, last.propensities, agent.posterior()))
    trace.note("state", agent.state)


def falling(scale: float) -> Any:
    return od.policies.PowerSchedule(scale=scale, power=1 / 3, cap=0.6)


THOMPSON = {"eta": 1.0, "gamma": 0.0}
SETTINGS: dict[str, Callable[[Trace], None]] = {
    "gts, all at once": given(
        lambda: gts(od.square_loss, optimism=0.2, share=0.03, discount=0.95)
    ),
    "gts, scaled loss": given(lambda: gts(od.losses.scaled(od.log_loss, 2.0), eta=0.8)),
    "gts, prior with a zero": given(lambda: gts(prior=[0.5, 0.0, 0.25, 0.25])),
    "gts, schedule": given(lambda: gts(gamma=falling(0.9))),
    "gts, feel-good": given(lambda: gts(eta=0.25, optimism=0.3, gamma=falling(0.1))),
    "thompson sampling": given(lambda: od.thompson_sampling(BANK, PRIOR)),
    "tuned, for a horizon": given(
        lambda: od.tuned(BANK, od.log_loss, n_arms=4, steps=1000, prior=PRIOR)
    ),
    "tuned, anytime": given(
        lambda: od.tuned(BANK, od.square_loss, n_arms=4, steps=None, prior=PRIOR)
    ),
    "epsilon-greedy": given(lambda: od.epsilon_greedy(BANK, od.log_loss, epsilon=0.2)),
    "follow the leader": given(
        lambda: od.policies.follow_the_leader(BANK, od.square_loss)
    ),
    "feel-good recipe": given(
        lambda: od.policies.feel_good(
            BANK, od.log_loss, n_arms=4, steps=500, prior=PRIOR
        )
    ),
    "exp4 recipe": given(
        lambda: od.policies.exp4(BANK, n_arms=4, steps=500, prior=PRIOR)
    ),
    "squarecb recipe": given(
        lambda: od.policies.squarecb(
            BANK, n_arms=4, steps=500, prior=PRIOR, oracle="vovk"
        )
    ),
    "bounded, floors": given(
        lambda: od.Bounded(gts(**THOMPSON), floors=0.05, caps=1.0)
    ),
    "bounded, floors and caps by arm": given(
        lambda: od.Bounded(
            gts(**THOMPSON), floors=[0.0, 0.1, 0.05, 0.0], caps=[0.6, 0.7, 0.5, 0.4]
        )
    ),
    "windowed": given(lambda: od.Windowed(gts(eta=1.0), window=5)),
    "windowed, bounded": given(
        lambda: od.Bounded(od.Windowed(gts(eta=1.0), window=3), floors=0.02, caps=0.9)
    ),
    "changing arms": changing_arms,
    "merged and explained": merged,
    "late rewards": late_rewards,
    "auto, small, dicts": auto("small", people),
    "auto, normal, dicts": auto("normal", people),
    "auto, schema": auto(
        "small",
        people,
        schema=od.Schema(
            numbers=("age", "spent"), categories=("city",), buckets=8, slots=64
        ),
    ),
    "auto, numbers": auto("normal", numbers),
    "auto, drift": auto("normal", numbers, share=1e-3),
    "auto, rows for arms": auto("small", rows_of_arms, rows_per_arm=True),
    "auto, arms of the call": shared_auto,
}
