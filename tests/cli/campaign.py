"""A small log with known odds, and a policy file, for the tests of commands."""

from pathlib import Path

import numpy as np

import oddsmith as od

ARMS = ["sports", "politics", "tech"]


def campaign(n: int = 1500, *, seed: int = 1) -> od.Log:
    """Contexts of two numbers, an exact log of a randomised logger."""
    rng = np.random.default_rng(seed)
    context = rng.normal(size=(n, 2))
    odds = rng.dirichlet([4, 3, 2], size=n) * 0.7 + 0.1
    arm = (rng.random(n)[:, None] > odds.cumsum(axis=1)).sum(axis=1)
    means = 1 / (
        1 + np.exp(1 - np.stack([context[:, 0], context[:, 1], -context[:, 0]], axis=1))
    )
    reward = (rng.random(n) < means[np.arange(n), arm]).astype(np.float64)
    return od.Log(arm=arm, reward=reward, propensities=odds, context=context, arms=ARMS)


def place(folder: Path) -> od.Log:
    """log.parquet, lines.npz and news.toml in a folder; the log."""
    log = campaign()
    od.write_log(log, folder / "log.parquet")
    weights = np.zeros((2, 3, 2))
    weights[0, 0, 0], weights[0, 1, 1], weights[0, 2, 0] = 1, 1, -1
    np.savez(folder / "lines.npz", weights=weights, names=["good", "flat"])
    (folder / "news.toml").write_text(
        f"arms = {ARMS}\npolicy.gamma = 0.1\nseed = 5\n[experts.lines]\n"
        'kind = "linear"\nfile = "lines.npz"\n'
    )
    return log
