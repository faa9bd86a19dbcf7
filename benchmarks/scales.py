"""Rewards of every size: the captured share of `auto`, with and without models.

    python -m benchmarks.scales --seeds 6

Three arms, three numbers, rewards without noise that are waves of the numbers, times a
scale. Scales of at most 1 are learnt as they are, larger ones through a `RewardScale`.
The captured share is (got - uniform)/(best - uniform). The models are one that is right
up to noise, one that is right about two arms, and one that predicts another arm's
reward; all predict in the units in which rewards are learnt.
"""

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

import oddsmith as od
from benchmarks.timing import table
from oddsmith.core.arrays import Array

SCALES = (1.0, 0.1, 0.01, 1e-3, 1e-6, 10.0, 1e6)
ARMS = ("a", "b", "c")
MODELS = ("noisy", "partial", "shifted")


class Given(od.Experts):
    """Predictions (rows, 3 models, 3 arms) of the step that is played."""

    names = MODELS
    arms = ARMS
    now: Array

    def predict(self, state: Any, context: Any) -> Array:
        return self.now


def means_of(x: Array) -> Array:
    """The rewards (…, 3) at scale 1 of numbers (…, 3)."""
    first, second, third = np.moveaxis(x, -1, 0)
    waves = (np.sin(2 * first), np.sin(2 * second), first * third)
    means: Array = 0.5 + 0.45 * np.tanh(np.stack(waves, axis=-1))
    return means


def models_of(means: Array, noise: Array) -> Array:
    """What the three models predict (…, 3, 3) where these are the rewards (…, 3)."""
    noisy = np.clip(means + 0.15 * noise, 0.0, 1.0)
    partial = means.copy()
    partial[..., 2] = 0.5
    shifted = np.roll(means, 1, axis=-1)
    return np.stack([noisy, partial, shifted], axis=-2)


def captured(scales: Sequence[float], seeds: int, steps: int, models: bool) -> Array:
    """The captured share (scales, seeds); all are rows of one batch."""
    n_rows = len(scales) * seeds
    bank = Given()
    policy: Any = od.auto(models=bank) if models else od.auto(ARMS)
    state = policy.init((n_rows,))
    scale = np.repeat(scales, seeds)
    x = np.stack(
        [np.random.default_rng([s, 41]).normal(size=(steps, 3)) for s in range(seeds)]
    )
    noise = np.stack(
        [np.random.default_rng([s, 42]).normal(size=(steps, 3)) for s in range(seeds)]
    )
    draws = np.stack(
        [np.random.default_rng([s, 43]).random(steps) for s in range(seeds)]
    )
    means = means_of(x)
    advice = models_of(means, noise)
    earned = np.zeros(n_rows)
    reward_scales = [od.RewardScale(0.0, max(one, 1.0)) for one in scale]
    for t in range(steps):
        now = np.tile(means[:, t], (len(scales), 1)) * scale[:, None]
        divided = [s.reward(row) for s, row in zip(reward_scales, now, strict=True)]
        rewards = np.stack(divided)
        size = np.minimum(scale, 1.0)[:, None, None]
        bank.now = np.tile(advice[:, t], (len(scales), 1, 1)) * size
        contexts = np.tile(x[:, t], (len(scales), 1))
        uniforms = np.tile(draws[:, t], len(scales))
        decision = od.decide(policy, state, contexts, uniforms, step=t + 1)
        rows = np.arange(n_rows)
        earned += means[rows % seeds, t, decision.arm]
        state = policy.update(state, decision, rewards[rows, decision.arm])
    best = means.max(axis=-1).sum(axis=-1)
    uniform = means.mean(axis=-1).sum(axis=-1)
    got = earned.reshape(len(scales), seeds)
    share: Array = (got - uniform) / (best - uniform)
    return share


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=2_000)
    options = parser.parse_args()
    rows = []
    for models in (False, True):
        found = captured(SCALES, options.seeds, options.steps, models)
        name = "auto(models=…)" if models else "auto()"
        shares = found.mean(axis=1)
        furthest = np.abs(shares - shares[0]).max()
        cells = [f"{share:.3f}" for share in shares]
        rows.append([name, *cells, f"{furthest:.3f}"])
    scales = [f"{scale:g}" for scale in SCALES]
    print(table(["policy", *scales, "largest difference"], rows))


if __name__ == "__main__":
    main()
