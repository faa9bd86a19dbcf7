"""Logs with known values: contexts drawn uniformly from a table, Bernoulli rewards,
logger and target as tables."""

from typing import Any, NamedTuple

import numpy as np

from oddsmith.logs import Log

LIGHT, HEAVY = 14, 6


class Setting(NamedTuple):
    """Odds and mean rewards by context (C, K), and how many rows a log has."""

    name: str
    logger: Any
    target: Any
    means: Any
    model: Any
    rows: int

    @property
    def value(self) -> float:
        return float((self.target * self.means).sum(axis=1).mean())

    @property
    def largest(self) -> float:
        return float((self.target / self.logger).max())

    def deviation(self, *, modelled: bool) -> float:
        """The exact standard deviation of a term of ips, or of dr."""
        q, weights = (
            self.model if modelled else np.zeros_like(self.means),
            self.target / self.logger,
        )
        base = (self.target * q).sum(axis=1, keepdims=True)
        squares = [
            chance * (base + weights * (r - q)) ** 2
            for r, chance in ((1, self.means), (0, 1 - self.means))
        ]
        return float(
            np.sqrt((self.logger * sum(squares)).sum(axis=1).mean() - self.value**2)
        )

    def logs(self, repetitions: int, seed: int) -> tuple[Log, Any]:
        """So many logs one after the other as one, and the context of each row."""
        rng = np.random.default_rng(seed)
        contexts = rng.integers(len(self.means), size=repetitions * self.rows)
        odds = self.logger[contexts]
        arms = (rng.random((len(contexts), 1)) > odds.cumsum(axis=1)[:, :-1]).sum(
            axis=1
        )
        rewards = (rng.random(len(contexts)) < self.means[contexts, arms]).astype(
            np.float64
        )
        return Log(arm=arms, reward=rewards, propensities=odds), contexts


def softmax(scores: Any) -> Any:
    grown = np.exp(scores - scores.max(axis=1, keepdims=True))
    return grown / grown.sum(axis=1, keepdims=True)


def explored(odds: Any, gamma: float) -> Any:
    return (1 - gamma) * odds + gamma / odds.shape[1]


def light(i: int) -> Setting:
    """Weights of a few units: all intervals are fine."""
    rng = np.random.default_rng([7, i])
    arms, contexts = (2, 3, 5, 10)[i % 4], (1, 4, 20)[i % 3]
    means = rng.uniform(*((0.05, 0.5), (0.2, 0.9), (0.0, 0.3))[i % 3], (contexts, arms))
    logger = explored(softmax(rng.normal(size=(contexts, arms))), 0.3)
    target = (
        softmax(2 * rng.normal(size=(contexts, arms)) * (i % 5 > 0))
        if i % 2
        else explored(best(means), 0.2)
    )
    model = np.clip(means + rng.normal(0, 0.15, means.shape), 0, 1)
    return Setting(
        f"light {i}",
        logger,
        target,
        means,
        model,
        {2: 800, 3: 800, 5: 2000, 10: 3000}[arms],
    )


def heavy(i: int) -> Setting:
    """A greedy logger with little exploration, and a target that likes other arms:
    weights far above 50."""
    rng = np.random.default_rng([8, i])
    arms, contexts = (4, 10, 20)[i % 3], (1, 8)[i % 2]
    means = rng.uniform(0.2, 0.9, (contexts, arms))
    logger = explored(best(means), (0.01, 0.03)[i % 2])
    target = explored(best(means.max() - means), 0.1)
    model = np.clip(means + rng.normal(0, 0.15, means.shape), 0, 1)
    return Setting(f"heavy {i}", logger, target, means, model, 600)


def best(means: Any) -> Any:
    return np.eye(means.shape[1])[means.argmax(axis=1)]


SETTINGS = [*(light(i) for i in range(LIGHT)), *(heavy(i) for i in range(HEAVY))]
