"""LinearWorld and LogisticWorld: a feature vector for every arm, and mean rewards from
a fixed parameter vector."""

from dataclasses import dataclass

import numpy as np

from oddsmith.core.arrays import Array, finite, number, whole
from oddsmith.core.decision import Context
from oddsmith.lab.worlds.world import History, World

__all__ = ["LinearWorld", "LogisticWorld"]


@dataclass(frozen=True, eq=False)
class LogisticWorld(World):
    """Mean rewards 1/(1 + exp(-θ·φ)) for features φ of norm 1, one row per arm, drawn
    at every step.

    >>> world = LogisticWorld(np.array([3.0, 0.0]), n_arms=2)
    >>> world.means(1, np.array([[[1.0, 0.0], [0.0, 1.0]]])).round(3)
    array([[0.953, 0.5  ]])
    """

    theta: Array
    n_arms: int = 2

    def __post_init__(self) -> None:
        theta = finite("theta", self.theta, ndim=1)
        object.__setattr__(self, "theta", theta)
        whole("n_arms", self.n_arms)

    def context(
        self,
        step: int,
        runs: int,
        rng: np.random.Generator,
        history: History | None = None,
    ) -> Context:
        """Return unit vectors, uniform on the sphere (runs, K, d)."""
        vectors = rng.standard_normal((runs, self.n_arms, len(self.theta)))
        norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
        return vectors / norms

    def means(self, step: int, context: Context) -> Array:
        means: Array = 1 / (1 + np.exp(-(context @ self.theta)))
        return means


@dataclass(frozen=True, eq=False)
class LinearWorld(LogisticWorld):
    """Mean rewards 1/2 + θ·φ for the same features. ‖θ‖ is at most 1/2, so that means
    are in [0, 1]."""

    def __post_init__(self) -> None:
        super().__post_init__()
        norm = float(np.linalg.norm(self.theta))
        number("the norm of theta", norm, low=0, high=0.5)

    def means(self, step: int, context: Context) -> Array:
        means: Array = np.clip(0.5 + context @ self.theta, 0.0, 1.0)
        return means
