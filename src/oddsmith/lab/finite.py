"""Compiled simulation of finite worlds: GTS over a table of experts in a table of
means. It draws the same arms as the step-by-step simulation."""

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

# Number of runs times steps times experts between two checks of the progress: about a
# second of work.
_AT_ONCE = 300_000_000


class FiniteRuns(NamedTuple):
    """Regret, arms and rewards (T, runs), and the final log weights (runs, N)."""

    regret: Array
    arms: Ints
    rewards: Array
    log_weights: Array


def suits(policy: Policy, world: World) -> bool:
    """Return whether the compiled simulation supports the policy and world: plain GTS
    with log or square loss, and tables without ties or missing predictions."""
    # Compare exact types, because a subclass may behave differently.
    if kernels.compiled() is None or type(world) is not TableWorld:
        return False
    if type(policy) is not GeneralizedThompsonSampling or policy.loss_twin is None:
        return False
    experts = policy.experts
    if type(experts) is not TableExperts or experts.favourites is None:
        return False
    n_contexts, _, n_arms = experts.table.shape
    if (n_contexts, n_arms) != world.table.shape:
        return False
    # Leave predictions of 0 and 1 to the numpy code, because they can give an expert a
    # weight of 0.
    table = experts.table
    return bool(table.min() > 0 and table.max() < 1)


def play(
    policy: GeneralizedThompsonSampling,
    world: TableWorld,
    contexts: Ints,
    *,
    uniforms: Array,
    coins: Array,
    due: Arrivals,
) -> FiniteRuns:
    """Simulate all runs. `contexts`, the `uniforms` of the draws and the `coins` of the
    rewards are (T, runs)."""
    from oddsmith.lab.finite_kernel import play as compiled_play

    steps, runs = contexts.shape
    experts = policy.experts
    # `suits` has checked both.
    assert isinstance(experts, TableExperts)
    assert policy.loss_twin is not None
    predictions_by_arm = np.ascontiguousarray(np.swapaxes(experts.table, 1, 2))
    tables = (world.table, predictions_by_arm, experts.favourites)
    of_steps = [policy.gamma_at(t + 1) for t in range(steps)]
    gammas = np.array(of_steps)
    played = _empty(contexts.shape, policy.init((runs,)).log_weights)
    n_experts = played.log_weights.shape[1]
    size = max(1, _AT_ONCE // (steps * n_experts))
    starts = range(0, runs, size)
    for start in progress(starts, len(starts), "runs"):
        part = slice(start, start + size)
        part_contexts = np.ascontiguousarray(contexts[:, part])
        part_uniforms = np.ascontiguousarray(uniforms[:, part])
        part_coins = np.ascontiguousarray(coins[:, part])
        chance = (part_uniforms, part_coins, gammas, due.order, due.arrived)
        # The kernel updates the log weights of `played` in place and fills the other
        # arrays.
        some = _empty(part_contexts.shape, played.log_weights[part])
        compiled_play(tables, part_contexts, chance, policy.loss_twin, some)
        played.regret[:, part] = some.regret
        played.arms[:, part] = some.arms
        played.rewards[:, part] = some.rewards
    return played


def _empty(shape: tuple[int, ...], log_weights: Array) -> FiniteRuns:
    arms = np.empty(shape, np.int64)
    return FiniteRuns(
        regret=np.empty(shape),
        arms=arms,
        rewards=np.empty(shape),
        log_weights=log_weights,
    )
