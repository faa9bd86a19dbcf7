"""Forest: randomised trees that learn between refits, and are grown anew at fixed counts of rewards."""

from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from oddsmith.arrays import Array, Ints, whole
from oddsmith.experts.learners.base import Belief, LearnerInput, Turned
from oddsmith.experts.learners.growing import PULL, Trees, grow, leaves, one_of, stumps
from oddsmith.experts.ring import FIRST, PACE, longer, next_refit

__all__ = ["Forest", "ForestState"]

_DEPTH = 14  # steps from root to leaf


class ForestState(NamedTuple):
    """Rewards learnt and the count of the next refit (…), the last rows (…, C, d) with arms and rewards (…, C), trees.

    Rows are a ring: the newest overwrites the oldest. Trees have the batch axes in front; shorter ones are padded.
    """

    learnt: Ints
    due: Ints
    rows: Array
    arms: Ints
    rewards: Array
    trees: Trees


@dataclass(frozen=True)
class Forest:
    """`trees` partitions of the contexts; an arm's mean is averaged over the leaves, its doubt over their counts.

    The forest is grown on the last `window` rows after 24 rewards and then each time their number has grown by 2/5
    (every `window`/2 rewards at last), by draws that belong to `seed`; leaves learn at once. Cuts depend on the
    order of a column's values only, so scales do not matter; a missing number goes left. Memory: window · d and at
    most 2 · trees · window · K. Time for a step: `trees` walks, and O(trees · window · candidates) for each refit,
    spread over the steps between, where candidates are as many as columns, 8 at least and 64 at most.

    >>> learner = Forest(trees=4)
    >>> learner.believe(learner.start((), 2, 3), LearnerInput(np.zeros(3), np.zeros(3))).mean
    array([0.5, 0.5])
    """

    trees: int = 16
    window: int = 4096
    seed: int = 0

    def __post_init__(self) -> None:
        whole("trees", self.trees)
        whole("window", self.window, low=2 * FIRST)

    @property
    def name(self) -> str:
        kind = "trees" if self.trees == Forest.trees else f"{self.trees} trees"
        return kind if self.window == Forest.window else f"{kind}, last {self.window} rows"

    def start(self, shape: tuple[int, ...], n_arms: int, dim: int) -> ForestState:
        trees: Any = (np.broadcast_to(p, (*shape, *p.shape)).copy() for p in stumps(self.trees, n_arms))
        return ForestState(
            np.zeros(shape, dtype=np.int64),
            np.full(shape, FIRST),
            np.zeros((*shape, FIRST, dim)),
            np.zeros((*shape, FIRST), dtype=np.int64),
            np.zeros((*shape, FIRST)),
            Trees(*trees),
        )

    def believe(self, state: ForestState, seen: LearnerInput) -> Belief:
        shape, lead = state.learnt.shape, seen.x.shape[:-1]
        if not shape:
            return self._belief(state.trees, seen.x)
        x = np.broadcast_to(seen.x, (*np.broadcast_shapes(lead, shape), seen.x.shape[-1]))
        n_arms = state.trees.value.shape[-1]
        mean = np.empty((*x.shape[:-1], n_arms))
        sd = np.empty_like(mean)
        for place in np.ndindex(shape):
            mean[(..., *place, slice(None))], sd[(..., *place, slice(None))] = self._belief(
                one_of(state.trees, place), x[(..., *place, slice(None))]
            )
        return Belief(mean, sd)

    def learn(self, state: ForestState, seen: LearnerInput, arms: Ints, rewards: Array) -> ForestState:
        """Leaves learn at once; then, if a refit is due, the forest is grown anew."""
        slot = int(state.learnt.flat[0]) % state.rows.shape[-2]
        for place, arm, reward in zip(
            np.ndindex(state.learnt.shape), arms.reshape(-1), rewards.reshape(-1), strict=True
        ):
            state.rows[(*place, slot)], state.arms[(*place, slot)] = seen.x[place], arm
            state.rewards[(*place, slot)] = reward
            trees = one_of(state.trees, place)
            leaf = leaves(trees, self.trees, seen.x[place][None])[0]
            trees.drawn[leaf, arm] += 1
            trees.value[leaf, arm] += (reward - trees.value[leaf, arm]) / (trees.drawn[leaf, arm] + PULL)
        state = state._replace(learnt=state.learnt + 1)
        return self._refitted(state) if (state.learnt >= state.due).all() else state

    def revise(self, state: ForestState, seen: LearnerInput, arm: int, turned: Turned) -> ForestState:
        """The row, if it is still kept, has the new reward, and its leaves their means as if it had been the first."""
        kept = np.arange(len(state.rows)) < state.learnt
        alike = kept & (state.arms == arm) & (state.rewards == turned.before)
        places = np.flatnonzero(alike)
        same = ((state.rows[places] == seen.x) | (np.isnan(state.rows[places]) & np.isnan(seen.x))).all(axis=-1)
        if same.any():
            state.rewards[places[same][0]] = turned.reward
            leaf = leaves(state.trees, self.trees, seen.x[None])[0]
            state.trees.value[leaf, arm] += turned.change / (state.trees.drawn[leaf, arm] + PULL)
        return state

    def widen(self, state: ForestState, n_arms: int) -> ForestState:
        value, count = state.trees.value, state.trees.drawn
        more = (*value.shape[:-1], n_arms - value.shape[-1])
        trees = state.trees._replace(
            value=np.concatenate([value, np.full(more, 0.5)], axis=-1),
            drawn=np.concatenate([count, np.zeros(more)], axis=-1),
        )
        return state._replace(trees=trees)

    def _belief(self, trees: Trees, x: Array) -> Belief:
        leaf = leaves(trees, self.trees, x.reshape(-1, x.shape[-1]))
        mean = trees.value[leaf].mean(axis=1)
        sd = 0.5 * np.sqrt((1 / (trees.drawn[leaf] + 1)).mean(axis=1))
        return Belief(mean.reshape(*x.shape[:-1], -1), sd.reshape(*x.shape[:-1], -1))

    def _refitted(self, state: ForestState) -> ForestState:
        """New trees on the rows kept, in each place of the batch, and room for the rows until the next refit."""
        shape, learnt = state.learnt.shape, int(state.learnt.flat[0])
        dim, n_arms = state.rows.shape[-1], state.trees.value.shape[-1]
        cuts = int(np.clip(dim, 8, 64))
        forests = [
            grow(
                state.rows[place], state.arms[place], state.rewards[place], n_arms,
                self.trees, cuts, _DEPTH, [self.seed, learnt],
            )
            for place in np.ndindex(shape)
        ]  # fmt: skip
        due = next_refit(learnt, PACE, self.window)
        room = min(due, self.window) - state.rows.shape[-2]
        trees: Any = (_stacked(parts, shape) for parts in zip(*forests, strict=True))
        return ForestState(
            state.learnt,
            np.full(shape, due),
            longer(state.rows, room, len(shape)),
            longer(state.arms, room, len(shape)),
            longer(state.rewards, room, len(shape)),
            Trees(*trees),
        )


def _stacked(parts: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    """One array for the batch, padded with zeros where a forest has fewer nodes."""
    if not shape:
        return parts[0]
    most = max(chain((0,), (part.shape[0] for part in parts if part.ndim)))
    padded = [np.pad(p, [(0, most - len(p)), *[(0, 0)] * (p.ndim - 1)]) if p.ndim else p for p in parts]
    return np.stack(padded).reshape(*shape, *padded[0].shape)
