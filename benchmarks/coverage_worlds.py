"""Families of worlds with known values, for `benchmarks.coverage`: drawn by seed, never
chosen by their results."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.known_values import best, explored, softmax


class World(NamedTuple):
    """Tables by context (C, K): odds of logger, target and another target; mean rewards
    at the start and at the end.

    `drift` (T,) goes from 0 (start) to 1 (end). With `drawn`, only the drawn arm's odds
    are logged. Rewards are 0 or 1, or with `spread` beta-distributed around their mean.
    With `sizes` (C,), arms come with the call, so many in each context, and the tables
    have nothing beyond.
    """

    family: str
    name: str
    logger: Any
    target: Any
    other: Any
    start: Any
    end: Any
    model: Any
    drift: Any
    drawn: bool = False
    spread: bool = False
    sizes: Any = None

    @property
    def number(self) -> int:
        return int(self.name)

    @property
    def rows(self) -> int:
        return len(self.drift)

    @property
    def floor(self) -> float:
        return float(self.logger[self.logger > 0].min())

    def values(self, odds: Any, weights: Any = 1.0) -> Any:
        """The mean value (T,) of each row under the odds; `weights` multiply the
        rewards of arms."""
        first, last = (
            (odds * weights * means).sum(axis=1).mean()
            for means in (self.start, self.end)
        )
        return first + (last - first) * self.drift

    def offers(self, contexts: Any) -> list[tuple[str, ...]] | None:
        """The names that each row offered: neighbours have some in common; None where
        arms are fixed."""
        if self.sizes is None:
            return None
        names = [
            tuple(f"arm {2 * c + a}" for a in range(n))
            for c, n in enumerate(self.sizes.tolist())
        ]
        return [names[c] for c in contexts.tolist()]

    def draw(self, logs: int, seed: int) -> tuple[Any, Any, Any]:
        """Contexts, arms and rewards, each (logs, T)."""
        rng = np.random.default_rng([seed, *self.family.encode(), *self.name.encode()])
        contexts = rng.integers(len(self.start), size=(logs, self.rows))
        arms = (
            rng.random((logs, self.rows, 1))
            > self.logger.cumsum(axis=1)[contexts][..., :-1]
        ).sum(axis=-1)
        means = (
            self.start[contexts, arms] * (1 - self.drift)
            + self.end[contexts, arms] * self.drift
        )
        if self.spread:
            return (
                contexts,
                arms,
                rng.beta(0.3 * means + 1e-9, 0.3 * (1 - means) + 1e-9),
            )
        return contexts, arms, (rng.random(means.shape) < means).astype(np.float64)


def world(
    family: str, name: str, logger: Any, target: Any, means: Any, rows: int, **more: Any
) -> World:
    """A world whose model is off by 0.1 (a fifth of the mean, if that is less) and
    whose other target is close by."""
    rng = np.random.default_rng([77, *family.encode(), *name.encode()])
    logger, target, means = (
        np.atleast_2d(np.asarray(table, float)) for table in (logger, target, means)
    )
    end = np.atleast_2d(np.asarray(more.pop("end", means), float))
    off = np.minimum(0.1, means.mean() / 5)
    model = np.clip((means + end) / 2 + rng.normal(0, off, means.shape), 0, 1)
    other = 0.9 * target + 0.1 * logger
    drift = more.pop("drift", np.zeros(rows))
    return World(family, name, logger, target, other, means, end, model, drift, **more)


def ordinary(i: int, rng: Any) -> World:
    arms, contexts, rows = (
        rng.integers(2, 8),
        (1, 5, 20)[i % 3],
        int(rng.integers(600, 1500)),
    )
    means = rng.uniform(0.05, 0.9, (contexts, arms))
    logger = explored(softmax(rng.normal(size=means.shape)), 0.3)
    target = (
        explored(best(means), 0.2)
        if i % 2
        else softmax(1.5 * rng.normal(size=means.shape))
    )
    return world("ordinary", str(i), logger, target, means, rows)


def rare_arm(i: int, rng: Any) -> World:
    """Two arms, one of them rarely drawn and liked by the target; the first four are p
    0.02, target 0.3, T 1,000."""
    p, mass, rows = (
        (0.02, 0.3, 1000)
        if i < 4
        else (0.005 * 2 ** rng.uniform(0, 4), rng.uniform(0.02, 0.6), 0)
    )
    rows = rows or int(rng.integers(500, 2500))
    means = (
        ([0.5, 0.1], [0.0, 0.1], [0.5, 0.5], [0.1, 0.5])[i]
        if i < 4
        else rng.uniform(0, 1, 2) ** 2
    )
    return world("rare arm", str(i), [1 - p, p], [1 - mass, mass], means, rows)


def rare_rewards(i: int, rng: Any) -> World:
    arms, contexts, rows = (
        int(rng.integers(2, 6)),
        (1, 4)[i % 2],
        int(rng.integers(800, 2500)),
    )
    means = 10 ** rng.uniform(-3.3, -1.5, (contexts, arms))
    logger = explored(softmax(rng.normal(size=means.shape)), 0.3)
    target = (softmax(rng.normal(size=means.shape)), best(means), logger)[i % 3]
    return world("rare rewards", str(i), logger, target, means, rows)


def sure_rewards(i: int, rng: Any) -> World:
    arms, contexts, rows = (
        int(rng.integers(2, 6)),
        (1, 4)[i % 2],
        int(rng.integers(600, 1500)),
    )
    means = 1 - 10 ** rng.uniform(-3.3, -1.0, (contexts, arms))
    logger = explored(softmax(rng.normal(size=means.shape)), 0.3)
    return world(
        "sure rewards",
        str(i),
        logger,
        softmax(rng.normal(size=means.shape)),
        means,
        rows,
    )


def heavy(i: int, rng: Any) -> World:
    """A greedy logger with little exploration and a target that likes other arms:
    weights from 20 to 2,000."""
    arms, contexts, rows = (
        int(rng.integers(3, 20)),
        (1, 8)[i % 2],
        int(rng.integers(600, 2000)),
    )
    means = rng.uniform(0.1, 0.9, (contexts, arms))
    logger = explored(best(means), 10 ** rng.uniform(-2, -0.7))
    target = explored(best(rng.random(means.shape)), 0.1)
    target = target if i % 3 else 0.85 * logger + 0.15 * target
    return world("heavy weights", str(i), logger, target, means, rows)


def many_arms(i: int, rng: Any) -> World:
    arms, contexts, rows = (
        int(rng.integers(30, 150)),
        (1, 3)[i % 2],
        int(rng.integers(600, 1500)),
    )
    means = rng.uniform(0.02, 0.5, (contexts, arms))
    logger = (
        np.full(means.shape, 1 / arms)
        if i % 3
        else explored(softmax(rng.normal(size=means.shape)), 0.5)
    )
    target = softmax((0.7, 1.5)[i % 2] * rng.normal(size=means.shape))
    return world("many arms", str(i), logger, target, means, rows, drawn=i % 4 == 3)


def deterministic(i: int, rng: Any) -> World:
    arms, contexts, rows = (
        int(rng.integers(2, 10)),
        (1, 4, 20)[i % 3],
        int(rng.integers(600, 1800)),
    )
    means = rng.uniform(0.01, 0.6, (contexts, arms))
    logger = explored(softmax(2 * rng.normal(size=means.shape)), (0.5, 0.2)[i % 2])
    target = (
        best(rng.random(means.shape))
        if i % 4
        else np.tile(np.eye(arms)[int(rng.integers(arms))], (contexts, 1))
    )
    return world("deterministic target", str(i), logger, target, means, rows)


def no_support(i: int, rng: Any) -> World:
    """The logger never draws some arms that the target likes; the first has all odds on
    arm 0, the target on arm 1."""
    arms, rows = (
        (2, 400) if i == 0 else (int(rng.integers(2, 6)), int(rng.integers(400, 1200)))
    )
    means = [0.2, 0.6] if i == 0 else rng.uniform(0.1, 0.9, arms)
    logger = (
        np.eye(arms)[0]
        if i % 3 == 0
        else np.append(rng.dirichlet(np.ones(arms - 1)), 0.0)
    )
    target = [0, 1] if i == 0 else rng.dirichlet(np.ones(arms))
    return world("no support", str(i), logger, target, means, rows)


def drifting(i: int, rng: Any) -> World:
    """Mean rewards that move along a line, a step or a wave; the first two fall from
    0.9 to 0.1."""
    arms, contexts, rows = (
        int(rng.integers(2, 6)),
        (1, 4)[i % 2],
        int(rng.integers(600, 1500)),
    )
    time = np.linspace(0, 1, rows)
    drift = (
        time,
        (time > 0.5) * 1.0,
        0.5 - 0.5 * np.cos(6 * np.pi * time),
        (time > 0.9) * 1.0,
    )[i % 4]
    means, end = rng.uniform(0.02, 0.98, (2, contexts, arms))
    if i < 2:
        means, end = np.full((contexts, arms), 0.9), np.full((contexts, arms), 0.1)
    logger = explored(softmax(rng.normal(size=means.shape)), 0.3)
    target = logger if i < 2 else softmax(1.5 * rng.normal(size=means.shape))
    return world("drift", str(i), logger, target, means, rows, end=end, drift=drift)


def drawn_only(i: int, rng: Any) -> World:
    """Only the drawn arm's odds are logged: ordinary loggers, and arms that a log draws
    0.3 to 30 times."""
    rows = int(rng.integers(600, 1800))
    if i % 2:
        p, mass = 10 ** rng.uniform(-0.5, 1.5) / rows, 10 ** rng.uniform(-2, -0.5)
        p = 0.02 if i == 1 else p
        rest, other = rng.dirichlet(np.full(3, 3.0)), rng.dirichlet(np.full(3, 3.0))
        logger, target = (
            np.append((1 - p) * rest, p),
            np.append((1 - mass) * other, mass),
        )
        return world(
            "drawn odds",
            str(i),
            logger,
            target,
            rng.uniform(0.02, 0.9, 4),
            rows,
            drawn=True,
        )
    contexts, arms = (1, 5, 20)[i % 3], int(rng.integers(2, 8))
    means = rng.uniform(0.02, 0.8, (contexts, arms))
    logger = explored(softmax((1, 2.5)[i % 4 // 2] * rng.normal(size=means.shape)), 0.1)
    return world(
        "drawn odds",
        str(i),
        logger,
        softmax(rng.normal(size=means.shape)),
        means,
        rows,
        drawn=True,
    )


def corner(i: int, rng: Any) -> World:
    """Arms that are common elsewhere are all but never drawn in a corner of contexts,
    and only drawn odds are logged.

    The first has 20 % of rows with odds 0.001 of the arm that the target draws, which
    pays twice as much there.
    """
    arms, contexts, rows = (
        (6, 5, 1000) if i == 0 else rng.integers([3, 4, 600], [8, 13, 1800])
    )
    rare = 0.001 if i == 0 else 10 ** rng.uniform(-4, -2)
    means = rng.uniform(0.02, 0.8, (contexts, arms)) ** (1 + i % 3)
    logger = (
        explored(softmax(rng.normal(size=means.shape)), 0.5)
        if i
        else np.full(means.shape, 1 / 6)
    )
    target = (
        softmax(rng.normal(size=means.shape))
        if i % 2
        else np.tile(np.eye(arms)[1], (contexts, 1))
    )
    logger[0] = np.append(1 - rare * (arms - 1), np.full(arms - 1, rare))
    means[0] = rng.uniform(0, 1, arms)
    if i == 0:
        means[:] = np.where(np.arange(contexts)[:, None] == 0, 1.0, 0.5)
    made = world("corners", str(i), logger, target, means, int(rows), drawn=True)
    # a model that has not seen the corner, either
    made.model[0] = made.model[1:].mean(axis=0)
    return made


def fractions(i: int, rng: Any) -> World:
    arms, contexts, rows = (
        int(rng.integers(2, 6)),
        (1, 4)[i % 2],
        int(rng.integers(500, 1200)),
    )
    means = rng.uniform(0.02, 0.7, (contexts, arms)) ** (1 + i % 2)
    logger = explored(softmax(rng.normal(size=means.shape)), 0.3)
    return world(
        "fractions",
        str(i),
        logger,
        softmax(1.5 * rng.normal(size=means.shape)),
        means,
        rows,
        spread=True,
    )


def close(i: int, rng: Any) -> World:
    """A target close to the logger: small differences, weights near 1."""
    arms, contexts, rows = (
        int(rng.integers(2, 8)),
        (1, 4)[i % 2],
        int(rng.integers(600, 1500)),
    )
    means = 10 ** rng.uniform(-2, -0.2, (contexts, arms))
    logger = explored(softmax(rng.normal(size=means.shape)), 0.2)
    target = (1 - 0.1 * (1 + i % 3)) * logger + 0.1 * (1 + i % 3) * best(
        rng.random(means.shape)
    )
    return world("close to the logger", str(i), logger, target, means, rows)


def changing_arms(i: int, rng: Any) -> World:
    """Arms that come with the call, 3 to 12 of them; of the second world only the drawn
    arm's odds are logged."""
    contexts, rows = 12, int(rng.integers(600, 1500))
    sizes = rng.integers(3, 13, contexts)
    there = np.arange(sizes.max()) < sizes[:, None]
    means = np.where(there, rng.uniform(0.05, 0.9, there.shape), 0.0)
    logger, target = (
        np.where(there, softmax(rng.normal(size=there.shape)), 0.0) for _ in range(2)
    )
    logger, target = (
        odds / odds.sum(axis=1, keepdims=True) for odds in (logger, target)
    )
    logger = 0.7 * logger + 0.3 * there / sizes[:, None]
    return world(
        "changing arms",
        str(i),
        logger,
        target,
        means,
        rows,
        drawn=i % 2 == 1,
        sizes=sizes,
    )


FAMILIES: dict[Callable[[int, Any], World], int] = {
    ordinary: 24,
    rare_arm: 28,
    rare_rewards: 24,
    sure_rewards: 12,
    heavy: 18,
    many_arms: 14,
    deterministic: 18,
    no_support: 9,
    drifting: 24,
    drawn_only: 24,
    corner: 18,
    fractions: 12,
    close: 12,
    changing_arms: 2,
}
WORLDS = [
    make(i, np.random.default_rng([2026, j, i]))
    for j, make in enumerate(FAMILIES)
    for i in range(FAMILIES[make])
]
