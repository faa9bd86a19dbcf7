"""Forest: randomised trees that learn at every reward, and are grown anew one after the
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
from oddsmith.experts.learners.protocol import Belief, LearnerInput, Turned, places
from oddsmith.experts.learners.trees import (
    Trees,
    believe,
    learn,
    one_of,
    replaced,
    stumps,
    weigh,
    with_arms,
)
from oddsmith.experts.ring import FIRST, PACE, longer, next_refit

__all__ = ["Forest", "ForestState"]

_MOST = 100.0  # coins that a reward may count for
_AT_ONCE = 4096  # rows to grow trees on in one step, over all trees; one tree at least


class ForestState(NamedTuple):
    """Rewards learnt and the count at which the last regrowth began (…), the last rows,
    trees, and how rewards scatter.

    Rows are a ring, by column: numbers (…, d, C), arms and rewards (…, C); the newest
    overwrites the oldest. `scatter` (…, 2) are sums of the variance that a coin of the
    mean foreseen would have, and of the squares by which it missed.
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
    """`trees` partitions of the contexts; an arm's mean and doubt are averages over
    them, each cut short where it pays.

    Nodes learn at once. Rewards that scatter less than coins say more, and count as so
    many more of them. Trees are grown anew on the last `window` rows, from 24 rewards
    on and then each time their number has grown by 2/5 (every `window`/2 rewards at
    last): one at a reward, several while rows are few, by draws that belong to `seed`.
    Cuts depend on the order of a column's values only, so scales do not matter; a
    missing number goes left. An arm without rows has the prior of
    `prior.py`. Memory: window · d and at most 4 · trees · window · K. Time for a step:
    `trees` walks, and O(window · candidates) while trees are grown, where candidates
    are as many as columns, 8 at least and 64 at most.

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
        kind = "trees" if self.trees == Forest.trees else f"{self.trees} trees"
        return (
            kind if self.window == Forest.window else f"{kind}, last {self.window} rows"
        )

    def start(self, shape: tuple[int, ...], n_arms: int, dim: int) -> ForestState:
        if kernels.compiled() is not None:
            _compile()
        return ForestState(
            np.zeros(shape, dtype=np.int64),
            np.zeros(shape, dtype=np.int64),
            np.zeros((*shape, dim, FIRST)),
            np.zeros((*shape, FIRST), dtype=np.int64),
            np.zeros((*shape, FIRST)),
            stumps(shape, self.trees, n_arms),
            np.ones((*shape, 2)),
        )

    def believe(self, state: ForestState, seen: LearnerInput) -> Belief:
        shape, dim = state.learnt.shape, state.numbers.shape[-2]
        if not shape:
            return _believed(state.trees, seen.x, dim)
        x = np.broadcast_to(
            seen.x, (*np.broadcast_shapes(seen.x.shape[:-1], shape), dim)
        )
        mean = np.empty((*x.shape[:-1], state.trees.total.shape[-1]))
        sd = np.empty_like(mean)
        for place in places(state.learnt.shape):
            at: Any = (..., *place, slice(None))
            mean[at], sd[at] = _believed(one_of(state.trees, place), x[at], dim)
        return Belief(mean, sd)

    def learn(
        self, state: ForestState, seen: LearnerInput, arms: Ints, rewards: Array
    ) -> ForestState:
        """The row is kept, and leaves learn; then the trees whose turn it is are grown
        anew."""
        slot, n_arms = (
            int(state.learnt.flat[0]) % state.arms.shape[-1],
            state.trees.total.shape[-1],
        )
        for place in places(state.learnt.shape):
            if not 0 <= arms[place] < n_arms:
                raise InvalidInput(
                    f"arm must be the number of one of {n_arms} arms, from 0; got "
                    f"{arms[place]}"
                )
        state.numbers[..., slot], state.arms[..., slot], state.rewards[..., slot] = (
            seen.x,
            arms,
            rewards,
        )
        state = state._replace(learnt=state.learnt + 1)
        if state.learnt.flat[0] < FIRST:
            return _stumped(state)
        for place in places(state.learnt.shape):
            row, reward = (
                state.numbers[(*place, slice(None), slot)].copy(),
                float(rewards[place]),
            )
            trees, arm = one_of(state.trees, place), int(arms[place])
            mean = min(
                max(learn(trees, row, arm, draws=1.0, rewards=reward), 0.01), 0.99
            )
            scatter = state.scatter[place]
            scatter[0] += mean * (1 - mean)
            scatter[1] += (reward - mean) ** 2
        return self._regrown(state)

    def revise(
        self, state: ForestState, seen: LearnerInput, arm: int, turned: Turned
    ) -> ForestState:
        """The row, if it is still kept, has the new reward, and its leaves their means
        as if it had been the first."""
        kept = np.arange(len(state.arms)) < state.learnt
        places = np.flatnonzero(
            kept & (state.arms == arm) & (state.rewards == turned.before)
        )
        rows, x = state.numbers[:, places], seen.x[:, None]
        same = ((rows == x) | (np.isnan(rows) & np.isnan(x))).all(axis=0)
        if not same.any():
            return state
        state.rewards[places[same][0]] = turned.reward
        if state.learnt < FIRST:
            return _stumped(state)
        learn(state.trees, seen.x, arm, draws=0.0, rewards=turned.change)
        return state

    def widen(self, state: ForestState, n_arms: int) -> ForestState:
        """The state with further arms, of which nothing is known."""
        return state._replace(
            trees=with_arms(state.trees, n_arms - state.trees.total.shape[-1])
        )

    def wider(self, state: ForestState, fill: Array) -> ForestState:
        """As many columns as `fill` (d) has; the further ones were what it says in all
        rows so far. Trees stay."""
        more = fill[state.numbers.shape[-2] :, None]
        shape = (*state.learnt.shape, len(more), state.arms.shape[-1])
        return state._replace(
            numbers=np.concatenate(
                [state.numbers, np.broadcast_to(more, shape)], axis=-2
            )
        )

    def rescaled(self, state: ForestState, factor: Array) -> ForestState:
        """Rows and nodes have rewards in another unit: `factor` (…) times as large."""
        state.rewards[...] *= factor[..., None]
        state.scatter[...] *= np.stack([factor, factor**2], axis=-1)
        state.trees.total[...] *= factor[..., None, None, None]
        state.trees.start[...] *= factor[..., None]
        state.trees.noise[...] *= factor[..., None]
        for place in np.ndindex(state.trees.start.shape):
            if factor[place[:-1]] != 1:
                tree = one_of(state.trees, place)
                weigh(tree, int(tree.left.max()) + 2)
        return state

    def _regrown(self, state: ForestState) -> ForestState:
        """The trees whose turn it is at this count, on the rows kept now; room for more
        rows when a regrowth begins."""
        learnt, begun = int(state.learnt.flat[0]), int(state.begun.flat[0])
        if learnt >= (next_refit(begun, PACE, self.window) if begun else FIRST):
            begun = learnt
            room = (
                min(next_refit(begun, PACE, self.window), self.window)
                - state.arms.shape[-1]
            )
            numbers, arms, rewards = (
                longer(part, room, part.ndim - 1) for part in state[2:5]
            )
            begin = np.full_like(state.begun, begun)
            state = state._replace(
                begun=begin, numbers=numbers, arms=arms, rewards=rewards
            )
        for tree in self._turn(begun, learnt):
            for place in places(state.learnt.shape):
                grown = grow(
                    _kept(state, place),
                    state.trees.total.shape[-1],
                    key=key_of(self.seed, learnt, tree),
                )
                coins, missed = state.scatter[place]
                scale = float(min(max(coins / missed, 1.0), _MOST))
                state = state._replace(
                    trees=replaced(state.trees, (*place, tree), grown, scale)
                )
        return state

    def _turn(self, begun: int, learnt: int) -> range:
        """The trees that are grown at this count, so that all of them are before the
        next regrowth begins."""
        steps = next_refit(begun, PACE, self.window) - begun
        each = max(-(-self.trees // steps), _AT_ONCE // min(begun, self.window), 1)
        first = each * (learnt - begun)
        return range(min(first, self.trees), min(first + each, self.trees))


@cache
def _compile() -> None:
    """Compiles the twins: what takes seconds, or a part of one from numba's cache,
    belongs to no reward."""
    trees = stumps((), 1, 1)
    grow(Rows(np.zeros((1, 1)), np.zeros(1, np.int64), np.zeros(1)), 1, key=0)
    learn(trees, np.zeros(1), 0, draws=0.0, rewards=0.0)
    weigh(one_of(trees, (0,)), 1)
    believe(trees, np.zeros((1, 1)))


def _believed(trees: Trees, x: Array, dim: int) -> Belief:
    """The belief about rows x (…, dim), by trees without batch axes."""
    mean, sd = believe(
        trees, np.array(x, dtype=np.float64, order="C").reshape(prod(x.shape[:-1]), dim)
    )
    shape = (*x.shape[:-1], mean.shape[-1])
    return Belief(mean.reshape(shape), sd.reshape(shape))


def _kept(state: ForestState, place: tuple[int, ...]) -> Rows:
    """The rows kept in one place of a batch."""
    n = min(int(state.learnt.flat[0]), state.arms.shape[-1])
    return Rows(state.numbers[place], state.arms[place][:n], state.rewards[place][:n])


def _stumped(state: ForestState) -> ForestState:
    """All trees as one leaf with the rows kept, in place: before the first regrowth."""
    for place in places(state.learnt.shape):
        leaf = grow(_kept(state, place), state.trees.total.shape[-1], key=0, depth=0)
        state.trees.total[place], state.trees.drawn[place] = leaf.total, leaf.drawn
        state.trees.start[place] = leaf.start
        state.trees.noise[place] = leaf.noise
    return state
