"""Finite worlds in one compiled call: GTS over a table of experts in a table of means,
drawing the same arms."""

from typing import NamedTuple

import numpy as np

from oddsmith.core import kernels
from oddsmith.core.arrays import Array, Ints
from oddsmith.core.gts import GeneralizedThompsonSampling
from oddsmith.core.policy import Policy
from oddsmith.experts.tables import TableExperts
from oddsmith.lab.delays import Arrivals
from oddsmith.lab.worlds.tables import TableWorld
from oddsmith.lab.worlds.world import World
from oddsmith.logs.progress import progress

__all__ = ["FiniteRuns", "play", "suits"]

_AT_ONCE = 300_000_000  # expert-steps between two looks at the clock: about a second


class FiniteRuns(NamedTuple):
    """Regret, arms and rewards (T, runs), and the log weights (runs, N) at the end."""

    regret: Array
    arms: Ints
    rewards: Array
    log_weights: Array


def suits(policy: Policy, world: World) -> bool:
    """Whether the compiled path can do it: plain GTS with log or square loss, tables
    without ties and sleepers."""
    # exact types: a subclass may do something else
    if kernels.compiled() is None or type(world) is not TableWorld:
        return False
    if type(policy) is not GeneralizedThompsonSampling or policy.loss_twin is None:
        return False
    if (
        type(policy.experts) is not TableExperts
        or policy.experts.table.shape[::2] != world.table.shape
    ):
        return False
    table = policy.experts.table
    # predictions of 0 and 1 can refute an expert, which the numpy path looks after
    return policy.experts.favourites is not None and bool(
        table.min() > 0 and table.max() < 1
    )


def play(
    policy: GeneralizedThompsonSampling,
    world: TableWorld,
    contexts: Ints,
    *,
    chance: tuple[Array, Array],
    due: Arrivals,
) -> FiniteRuns:
    """All runs: `contexts` and `chance`, the draws' uniforms and the rewards' coins,
    are (T, runs)."""
    from oddsmith.lab.finite_kernel import play as compiled_play

    steps, runs = contexts.shape
    experts = policy.experts
    assert isinstance(experts, TableExperts)  # as `suits` says
    tables = (
        world.table,
        np.ascontiguousarray(np.swapaxes(experts.table, 1, 2)),
        experts.favourites,
    )
    gammas = np.array([policy.gamma_at(t + 1) for t in range(steps)])
    log_weights = policy.init((runs,)).log_weights
    played = _empty(contexts.shape, log_weights)
    assert policy.loss_twin is not None
    size = max(1, _AT_ONCE // (steps * log_weights.shape[1]))
    starts = range(0, runs, size)
    for start in progress(starts, len(starts), "runs"):
        part = slice(start, start + size)
        some = _empty(contexts[:, part].shape, log_weights[part])
        uniforms, coins = (np.ascontiguousarray(values[:, part]) for values in chance)
        met = np.ascontiguousarray(contexts[:, part])
        compiled_play(
            tables, met, (uniforms, coins, gammas, *due), policy.loss_twin, some
        )
        for whole, filled in zip(played[:3], some[:3], strict=True):
            whole[:, part] = filled
    return played


def _empty(shape: tuple[int, ...], log_weights: Array) -> FiniteRuns:
    return FiniteRuns(
        np.empty(shape), np.empty(shape, np.int64), np.empty(shape), log_weights
    )
