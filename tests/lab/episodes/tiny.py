"""Tiny worlds whose every trajectory can be enumerated, and the vectors computed for
them with 50 digits."""

import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from oddsmith.core.arrays import Array
from oddsmith.core.decision import Decision, Odds
from oddsmith.core.draw import draw
from oddsmith.lab.episodes import EpisodicModel

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parent / "vectors.json").read_text()
)


def number(text: str) -> float:
    """A fraction or a decimal number as a float."""
    return float(Fraction(text))


def r1() -> list[EpisodicModel]:
    """Three models of two states, two actions and two steps; the first is the truth."""
    base = [[0.4, 0.1], [0.8, 0.2]]
    models = []
    for go, rewards in ((0.9, base), (0.2, base), (0.5, [[0.2, 0.1], [0.1, 0.9]])):
        up = np.array([[0.1, go], [0.9, 0.2]])
        models.append(
            EpisodicModel.stationary(
                rewards, np.stack([1 - up, up], axis=-1), horizon=2
            )
        )
    return models


class Branches(NamedTuple):
    """Trajectories side by side: the policy's state, the probability of each, and what
    has been earned."""

    state: Any
    chance: Array
    earned: Array


def taken(tree: Any, rows: Any, n: int) -> Any:
    """The rows of a state with one batch axis of n."""
    if isinstance(tree, tuple):
        parts = [taken(part, rows, n) for part in tree]
        return type(tree)(*parts)
    return (
        tree[rows]
        if isinstance(tree, np.ndarray) and tree.ndim and len(tree) == n
        else tree
    )


def forced(odds: Odds, context: Any, action: Any) -> Decision:
    """The decision for this action, with the odds that it had."""
    sure = np.eye(odds.propensities.shape[-1])[action]
    decision = draw(
        odds._replace(propensities=sure), context, np.full(np.shape(action), 0.5)
    )
    return decision._replace(propensities=odds.propensities)


def episode(
    policy: Any, truth: EpisodicModel, branches: Branches, start: int = 0
) -> Branches:
    """All continuations by one episode, with rewards of 0 and 1: each branch is split
    at each draw of anything."""
    state, chance, earned = branches
    place = np.full(len(chance), start)
    horizon, _n_states, n_actions = truth.rewards.shape
    for h in range(horizon):
        n = len(chance)
        odds = policy.odds(state, place)
        rows, action, reward = (i.ravel() for i in np.indices((n, n_actions, 2)))
        mean = truth.rewards[h, place[rows], action]
        grown = (
            chance[rows]
            * odds.propensities[rows, action]
            * np.where(reward == 1, mean, 1 - mean)
        )
        rows, action, reward, chance = (
            column[grown > 0] for column in (rows, action, reward, grown)
        )
        parts = odds.propensities, odds.advice, odds.bonus
        split: Any = [
            None if part is None else np.broadcast_to(part, (n, *part.shape[1:]))[rows]
            for part in parts
        ]
        decision = forced(Odds(*split), place[rows], action)
        state = policy.update(
            taken(state, rows, n), decision, reward.astype(np.float64)
        )
        earned = earned[rows] + reward
        moves = (
            truth.transitions[h, place[rows], action]
            if h + 1 < horizon
            else np.ones((len(rows), 1))
        )
        again, place = (i.ravel() for i in np.indices(moves.shape))
        chance, earned = chance[again] * moves.ravel(), earned[again]
        state = taken(state, again, len(rows))
        kept = chance > 0
        state, chance, earned, place = (
            taken(state, kept, len(kept)),
            chance[kept],
            earned[kept],
            place[kept],
        )
    return Branches(state, chance, earned)


def episodes(policy: Any, truth: EpisodicModel, n: int) -> Iterator[Branches]:
    """The branches after 1, 2, … n episodes; what is earned is of the last of them."""
    branches = Branches(policy.init((1,)), np.ones(1), np.zeros(1))
    for _ in range(n):
        branches = episode(
            policy, truth, branches._replace(earned=np.zeros_like(branches.earned))
        )
        yield branches


def hellinger(truth: EpisodicModel, model: EpisodicModel, policy: Any) -> float:
    """1 - E Π sqrt(dP_i / dP_1) over trajectories from state 0, by a recursion over
    states."""
    affinity = np.ones(truth.n_states)
    for h in range(truth.horizon - 1, -1, -1):
        means, others = truth.rewards[h], model.rewards[h]
        shared = np.sqrt(means * others) + np.sqrt((1 - means) * (1 - others))
        if h + 1 < truth.horizon:
            shared = shared * (
                np.sqrt(truth.transitions[h] * model.transitions[h]) @ affinity
            )
        affinity = (policy[h] * shared).sum(axis=-1)
    return float(1 - affinity[0])
