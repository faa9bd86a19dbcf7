"""Forest: randomised trees that learn from every reward, and are regrown one after the
other."""

from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from oddsmith.core import kernels
from oddsmith.core.arrays import Array, Ints, whole
from oddsmith.core.errors import InvalidInput
from oddsmith.experts.learners.growth import MOST_ROWS, Rows, grow, key_of
from oddsmith.experts.learners.protocol import (
    Belief,
    LearnerInput,
    RewardChange,
    places,
)
from oddsmith.experts.learners.trees import (
    Trees,
    believe,
    learn,
    replace_tree,
    stumps,
    trees_at,
    weigh,
    with_arms,
)
from oddsmith.experts.ring import FIRST, PACE, longer, next_refit

__all__ = ["Forest", "ForestState"]

_MOST = 100.0  # maximum number of Bernoulli trials that one reward counts for
# Rows per step, summed over all trees (at least one tree), to limit memory.
_AT_ONCE = 4096


class ForestState(NamedTuple):
    """State of a forest: counts, recent rows, trees, and the variance of rewards.

    `learnt` (…) counts the rewards; `begun` (…) is the count at which the last regrowth
    began. Rows are a ring buffer, stored by column: numbers (…, d, C), arms and rewards
    (…, C); the newest row overwrites the oldest. `scatter` (…, 2) contains two sums:
    the variance of a Bernoulli reward with the predicted mean, and the squared errors
    of that mean.
    """

    learnt: Ints
    begun: Ints
    numbers: Array
    arms: Ints
    rewards: Array
    trees: Trees
    scatter: Array


@dataclass(frozen=True)
class Forest:
    """Random forest that learns online: means and standard deviations are averages over
    `trees` trees. A branch of a tree is ignored if the rewards fit better without it.

    Nodes learn immediately. Rewards with less variance than Bernoulli rewards carry
    more information, and count as more Bernoulli trials. From 24 rewards on, trees are
    regrown on the last `window` rows each time the number of rewards has grown by 2/5
    (at most every `window`/2 rewards): one tree per reward, or several while there are
    few rows. The random draws depend on `seed`. Cuts depend only on the order of a
    column's values, so scales do not matter; a missing number goes left. An arm without
    rows has the prior of `prior.py`. Memory: window · d, and at most 4 · trees · window
    · K. Time per reward: one walk through each tree, and O(window · candidates) while
    trees are grown. There are as many candidates as columns, but at least 8 and at most
    64.

    >>> learner = Forest(trees=4)
    >>> learner.believe(
    ...     learner.start((), 2, 3), LearnerInput(np.zeros(3), np.zeros(3))
    ... ).mean
    array([0.5, 0.5])
    """

    trees: int = 16
    window: int = 4096
    seed: int = 0

    def __post_init__(self) -> None:
        whole("trees", self.trees)
        whole("window", self.window, low=2 * FIRST, high=MOST_ROWS)

    @property
    def name(self) -> str:
        name = "trees"
        if self.trees != Forest.trees:
            name = f"{self.trees} trees"
        if self.window != Forest.window:
            name = f"{name}, last {self.window} rows"
        return name

    def start(self, shape: tuple[int, ...], n_arms: int, dim: int) -> ForestState:
        if kernels.compiled() is not None:
            _compile()
        none = np.zeros(shape, dtype=np.int64)
        numbers = np.zeros((*shape, dim, FIRST))
        arms = np.zeros((*shape, FIRST), dtype=np.int64)
        rewards = np.zeros((*shape, FIRST))
        trees = stumps(shape, self.trees, n_arms)
        scatter = np.ones((*shape, 2))
        return ForestState(none, none.copy(), numbers, arms, rewards, trees, scatter)

    def believe(self, state: ForestState, seen: LearnerInput) -> Belief:
        shape = state.learnt.shape
        dim = state.numbers.shape[-2]
        if not shape:
            return _belief(state.trees, seen.x, dim)
        lead = np.broadcast_shapes(seen.x.shape[:-1], shape)
        x = np.broadcast_to(seen.x, (*lead, dim))
        mean = np.empty((*lead, state.trees.total.shape[-1]))
        sd = np.empty_like(mean)
        for place in places(shape):
            at: Any = (..., *place, slice(None))
            mean[at], sd[at] = _belief(trees_at(state.trees, place), x[at], dim)
        return Belief(mean, sd)

    def learn(
        self, state: ForestState, seen: LearnerInput, arms: Ints, rewards: Array
    ) -> ForestState:
        """Add the row; update the leaves; then grow the next trees again."""
        slot = int(state.learnt.flat[0]) % state.arms.shape[-1]
        n_arms = state.trees.total.shape[-1]
        for place in places(state.learnt.shape):
            if not 0 <= arms[place] < n_arms:
                raise InvalidInput(
                    f"arm must be the number of one of {n_arms} arms, from 0; got "
                    f"{arms[place]}"
                )
        state.numbers[..., slot] = seen.x
        state.arms[..., slot] = arms
        state.rewards[..., slot] = rewards
        state = state._replace(learnt=state.learnt + 1)
        if state.learnt.flat[0] < FIRST:
            return _with_stumps(state)
        for place in places(state.learnt.shape):
            row = state.numbers[(*place, slice(None), slot)].copy()
            reward = float(rewards[place])
            trees = trees_at(state.trees, place)
            mean = learn(trees, row, int(arms[place]), draws=1.0, rewards=reward)
            mean = min(max(mean, 0.01), 0.99)
            scatter = state.scatter[place]
            scatter[0] += mean * (1 - mean)
            scatter[1] += (reward - mean) ** 2
        return self._regrow(state)

    def revise(
        self, state: ForestState, seen: LearnerInput, arm: int, turned: RewardChange
    ) -> ForestState:
        """Change the reward of the row, if the ring still contains it, and of its
        leaves."""
        is_used = np.arange(len(state.arms)) < state.learnt
        has_reward = state.rewards == turned.before
        places = np.flatnonzero(is_used & (state.arms == arm) & has_reward)
        rows = state.numbers[:, places]
        x = seen.x[:, None]
        is_missing = np.isnan(rows) & np.isnan(x)
        same = ((rows == x) | is_missing).all(axis=0)
        if not same.any():
            return state
        first = places[same][0]
        state.rewards[first] = turned.reward
        if state.learnt < FIRST:
            return _with_stumps(state)
        learn(state.trees, seen.x, arm, draws=0.0, rewards=turned.change)
        return state

    def widen(self, state: ForestState, n_arms: int) -> ForestState:
        """Return the state with further arms, without rows."""
        more = n_arms - state.trees.total.shape[-1]
        return state._replace(trees=with_arms(state.trees, more))

    def wider(self, state: ForestState, fill: Array) -> ForestState:
        """Return the state with as many columns as `fill` (d) has. Earlier rows get the
        values of `fill` in the new columns. Trees stay the same."""
        more = fill[state.numbers.shape[-2] :, None]
        shape = (*state.learnt.shape, len(more), state.arms.shape[-1])
        columns = np.broadcast_to(more, shape)
        numbers = np.concatenate([state.numbers, columns], axis=-2)
        return state._replace(numbers=numbers)

    def rescaled(self, state: ForestState, factor: Array) -> ForestState:
        """Return rows and nodes in another unit of rewards, `factor` (…) times as
        large."""
        state.rewards[...] *= factor[..., None]
        state.scatter[...] *= np.stack([factor, factor**2], axis=-1)
        state.trees.total[...] *= factor[..., None, None, None]
        state.trees.start[...] *= factor[..., None]
        state.trees.noise[...] *= factor[..., None]
        for place in np.ndindex(state.trees.start.shape):
            if factor[place[:-1]] != 1:
                tree = trees_at(state.trees, place)
                weigh(tree, int(tree.left.max()) + 2)
        return state

    def _regrow(self, state: ForestState) -> ForestState:
        """Grow the next trees on the rows in the ring buffer. Enlarge the buffer when a
        regrowth begins."""
        learnt = int(state.learnt.flat[0])
        begun = int(state.begun.flat[0])
        due = FIRST
        if begun:
            due = next_refit(begun, PACE, self.window)
        if learnt >= due:
            begun = learnt
            state = self._begin(state, begun)
        n_arms = state.trees.total.shape[-1]
        for tree in self._next_trees(begun, learnt):
            key = key_of(self.seed, learnt, tree)
            for place in places(state.learnt.shape):
                grown = grow(_recent_rows(state, place), n_arms, key=key)
                coins, errors = state.scatter[place]
                scale = float(min(max(coins / errors, 1.0), _MOST))
                trees = replace_tree(state.trees, (*place, tree), grown, scale)
                state = state._replace(trees=trees)
        return state

    def _begin(self, state: ForestState, begun: int) -> ForestState:
        """Return the state at the beginning of a regrowth, with space for the rows
        until the next one."""
        room = min(next_refit(begun, PACE, self.window), self.window)
        more = room - state.arms.shape[-1]
        axis = state.arms.ndim - 1
        starts = np.full_like(state.begun, begun)
        numbers = longer(state.numbers, more, axis + 1)
        arms = longer(state.arms, more, axis)
        rewards = longer(state.rewards, more, axis)
        return state._replace(
            begun=starts,
            numbers=numbers,
            arms=arms,
            rewards=rewards,
        )

    def _next_trees(self, begun: int, learnt: int) -> range:
        """Return the numbers of the trees to grow at this count of rewards, such that
        all trees are grown before the next regrowth begins."""
        steps = next_refit(begun, PACE, self.window) - begun
        needed = -(-self.trees // steps)
        affordable = _AT_ONCE // min(begun, self.window)
        each = max(needed, affordable, 1)
        first = each * (learnt - begun)
        return range(min(first, self.trees), min(first + each, self.trees))


@cache
def _compile() -> None:
    """Compile the kernels before the first reward, because it takes seconds (less from
    numba's cache)."""
    trees = stumps((), 1, 1)
    rows = Rows(np.zeros((1, 1)), np.zeros(1, np.int64), np.zeros(1))
    grow(rows, 1, key=0)
    learn(trees, np.zeros(1), 0, draws=0.0, rewards=0.0)
    weigh(trees_at(trees, (0,)), 1)
    believe(trees, np.zeros((1, 1)))


def _belief(trees: Trees, x: Array, dim: int) -> Belief:
    """Return the posterior of rows x (…, dim), from trees without batch axes."""
    lead = x.shape[:-1]
    rows = np.array(x, dtype=np.float64, order="C").reshape(prod(lead), dim)
    mean, sd = believe(trees, rows)
    shape = (*lead, mean.shape[-1])
    return Belief(mean.reshape(shape), sd.reshape(shape))


def _recent_rows(state: ForestState, place: tuple[int, ...]) -> Rows:
    """Return the rows in the ring buffer for one batch index."""
    n_learnt = int(state.learnt.flat[0])
    room = state.arms.shape[-1]
    n = min(n_learnt, room)
    arms = state.arms[place][:n]
    rewards = state.rewards[place][:n]
    return Rows(state.numbers[place], arms, rewards)


def _with_stumps(state: ForestState) -> ForestState:
    """Make each tree a single leaf with the rows so far, in place, before the first
    regrowth."""
    trees = state.trees
    n_arms = trees.total.shape[-1]
    for place in places(state.learnt.shape):
        leaf = grow(_recent_rows(state, place), n_arms, key=0, depth=0)
        trees.total[place] = leaf.total
        trees.drawn[place] = leaf.drawn
        trees.start[place] = leaf.start
        trees.noise[place] = leaf.noise
    return state
