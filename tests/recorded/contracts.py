"""Runs of every policy and every bank of experts in the lists of their contracts."""

from typing import Any

import numpy as np

import oddsmith as od
from experts.test_contract import BANKS, CONTEXTS, learnt
from policies.test_contract import ARMS, POLICIES, predictions
from recorded.trace import Trace

__all__ = ["bank", "play", "play_batch", "policy", "reward"]

MASKS = (
    None,
    np.array([True, False, True, True]),
    None,
    np.array([False, True, True, False]),
)


def reward(rng: np.random.Generator, t: int) -> float:
    """Whole ones and others."""
    drawn = float(rng.random())
    return drawn if t % 3 == 0 else float(drawn < 0.5)


def play(
    trace: Trace, policy: Any, contexts: Any, *, masks: Any = MASKS, seed: int = 11
) -> Any:
    """Decide and learn once for each context; odds and arms of all, states of some. The
    last state."""
    rng, state = np.random.default_rng(seed), policy.init()
    decisions, rewards = [], []
    for t, context in enumerate(contexts, 1):
        eligible = masks[t % len(masks)]
        decision = od.decide(
            policy, state, context, float(rng.random()), eligible=eligible, step=t
        )
        decisions.append(decision)
        rewards.append(reward(rng, t))
        trace.note(f"{t} arm", decision.arm)
        trace.note(f"{t} odds", decision.propensities)
        state = policy.update(state, decision, rewards[-1])
        if t in (1, len(contexts)):
            trace.note(f"{t} state", state)
    if policy.bank is not None:
        trace.note("posterior", policy.posterior(state))
    last = decisions[-1]
    trace.note("last decision", (last.advice, last.bonus, last.log_weights))
    trace.note("fold", od.fold(policy, policy.init(), decisions, np.array(rewards)))
    return state


def play_batch(trace: Trace, policy: Any, contexts: Any, *, seed: int = 12) -> None:
    """The same for rows of contexts, all of them at once."""
    rng, n = np.random.default_rng(seed), len(contexts[0])
    state = policy.init((n,))
    for t, rows in enumerate(contexts, 1):
        decision = od.decide(policy, state, rows, rng.random(n), step=t)
        state = policy.update(state, decision, rng.random(n))
    trace.note("batch arms", decision.arm)
    trace.note("batch odds", decision.propensities)
    trace.note("batch state", state)


def policy(trace: Trace, name: str) -> None:
    """A policy of the list: alone, in batches, and with experts that sleep where it has
    experts."""
    entry, rng = POLICIES[name], np.random.default_rng(13)
    play(trace, entry.make(), [entry.context(rng, ()) for _ in range(24)])
    play_batch(trace, entry.make(), [entry.context(rng, (3,)) for _ in range(6)])
    if entry.context is not predictions:
        return
    asleep = Trace()
    contexts = [predictions(rng, ()) for _ in range(9)]
    for t, said in enumerate(contexts):
        said[t % 3] = np.nan
        said[(t + 1) % 3, t % ARMS] = 0.5  # ties, too
    contexts[4][:] = np.nan
    play(asleep, entry.make(), contexts)
    trace.lines += [f"sleepers, {line}" for line in asleep.lines]


def bank(trace: Trace, name: str) -> None:
    """A bank of the list: what it says and votes, new and after a dozen rewards; then
    as the experts of GTS."""
    experts, eligible = BANKS[name](), np.array([True, False, True])
    log_weights = -np.random.default_rng(14).random(len(experts.names))
    for when, state in (("new", experts.init()), ("learnt", learnt(experts))):
        trace.note(f"{when} state", state)
        said, votes = experts.advise(state, CONTEXTS)
        trace.note(f"{when} says", said)
        trace.note(f"{when} votes", votes)
        trace.note(
            f"{when} votes over two", experts.advise(state, CONTEXTS, eligible)[1]
        )
        gts = od.GeneralizedThompsonSampling(experts, od.log_loss, eta=0.5, gamma=0.1)
        odds = gts.odds(
            gts.init()._replace(log_weights=log_weights, experts=state),
            CONTEXTS[0],
            eligible=eligible,
        )
        trace.note(f"{when} poll", (odds.advice, odds.propensities, odds.log_weights))
    prior = np.arange(1.0, len(experts.names) + 1)
    gts = od.GeneralizedThompsonSampling(
        BANKS[name](),
        od.log_loss,
        eta=0.5,
        gamma=0.1,
        prior=prior / prior.sum(),
        optimism=0.0,
        share=0.0,
        discount=1.0,
    )
    play(trace, gts, [CONTEXTS[t % 6] for t in range(12)], masks=(None, None, eligible))
