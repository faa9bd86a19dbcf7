"""Weights that are not 1 on average: how often healthy logs are refused, and what the
rules `weight` and `digits` prevent; `python -m benchmarks.refusals [--logs 200]`.

Each table is quoted in docs/math/evaluation.md. "Without the rule" overrules it by
name, and of rounded odds takes them as exact.
"""

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.coverage import log_of
from benchmarks.coverage_batch import Played
from benchmarks.coverage_worlds import WORLDS
from oddsmith.evaluation import estimate, ips
from oddsmith.evaluation.diagnostics import broken_rules, diagnose
from oddsmith.logs import Log

__all__ = ["Answers", "lost_rewards", "rounded_odds"]

HEALTHY = 10  # logs of each world
RARE = 50  # logs with rare rewards
ASKED = (
    ("anytime", 0.25),
    ("anytime", None),
    ("anytime_constant", 0.25),
    ("bernstein", 0.25),
    ("beta", None),
)


class Answers(NamedTuple):
    """Of `logs`, how many were answered, and how many of these intervals cover."""

    logs: int
    answered: int
    covered: int

    def __str__(self) -> str:
        return f"{self.answered} of {self.logs} answered, {self.covered} cover"


def answers(logs: int, ask: Callable[[int], Any], value: float) -> Answers:
    """The answers to logs of these seeds."""
    found = [ask(seed) for seed in range(logs)]
    given = [one for one in found if not one.refused]
    covered = sum(one.low <= value <= one.high for one in given)
    return Answers(logs, len(given), covered)


LOGGER = np.array([[0.2, 0.5, 0.3], [0.3, 0.2, 0.5]])
MEANS = np.array([[0.8, 0.4, 0.2], [0.3, 0.6, 0.7]])
TARGET = np.array([0.1, 0.1, 0.8])


def lost_rewards(
    logs: int, rows: int, interval: str, *, lost: float, drawn: bool, rule: bool
) -> Answers:
    """A log of which a share `lost` of one arm's rewards is missing."""

    def ask(seed: int) -> Any:
        rng = np.random.default_rng(seed)
        context = rng.integers(2, size=rows)
        odds = LOGGER[context]
        arm = (rng.random((rows, 1)) > odds.cumsum(axis=1)[:, :-1]).sum(axis=1)
        reward = (rng.random(rows) < MEANS[context, arm]).astype(float)
        reward[(arm == 2) & (rng.random(rows) < lost)] = np.nan
        own = odds[np.arange(rows), arm]
        said: dict[str, Any] = {"propensity": own} if drawn else {"propensities": odds}
        return estimate(
            ips(Log(arm=arm, reward=reward, **said), TARGET),
            interval=interval,
            floor=None if interval == "beta" else float(LOGGER.min()),
            overrule=() if rule else ("weight",),
        )

    return answers(logs, ask, float((MEANS * TARGET).sum(axis=1).mean()))


def rounded_odds(logs: int, rows: int, value: float, *, rule: bool) -> Answers:
    """Odds with two digits: those of arm 0 are 0.014 in 60 % of the rows, which is
    written as 0.01, and from 0.02 to 0.5 in the others."""

    def ask(seed: int) -> Any:
        rng = np.random.default_rng(seed)
        first = rng.uniform(0.02, 0.5, size=rows)
        first[rng.random(rows) < 0.6] = 0.014
        second = rng.uniform(0.2, 0.8, size=rows) * (1 - first)
        odds = np.stack([first, second, 1 - first - second], axis=1)
        arm = (rng.random((rows, 1)) > odds.cumsum(axis=1)[:, :-1]).sum(axis=1)
        reward = rng.random(rows) < np.array([value, 0.5, 0.3])[arm]
        own = np.maximum(odds[np.arange(rows), arm].round(2), 0.01)
        # off the grid by far less than would matter
        said = own if rule else own + 1e-9
        log = Log(arm=arm, reward=reward.astype(float), propensity=said)
        return estimate(ips(log, [1.0, 0.0, 0.0]))

    return answers(logs, ask, value)


def rare_rewards() -> dict[str, float]:
    """Mean half-widths for 1,000 rows, four arms, 1 % rewards, by interval and
    floor."""
    widths: dict[str, float] = {}
    for seed in range(RARE):
        rng = np.random.default_rng(seed)
        reward = (rng.random(1000) < 0.01).astype(float)
        arm = rng.integers(4, size=1000)
        odds = np.full((1000, 4), 0.25)
        terms = ips(Log(arm=arm, reward=reward, propensities=odds), [1.0, 0, 0, 0])
        for interval, floor in ASKED:
            found = estimate(terms, interval=interval, floor=floor)
            name = f"{interval}, floor {floor}"
            half = (found.high - found.low) / 2
            widths[name] = widths.get(name, 0.0) + half / RARE
    return widths


def healthy() -> dict[str, tuple[int, int]]:
    """How many right logs of the worlds of `benchmarks.coverage` anytime intervals
    refuse by their weights, by what is known of the largest weight."""
    counts: dict[str, tuple[int, int]] = {}
    for world in WORLDS:
        played = Played(world, *world.draw(HEALTHY, 5))
        for place in range(HEALTHY):
            log = log_of(played, place)
            terms = ips(log, world.target[played.contexts[place]])
            asked: dict[str, float | None] = {"odds or floor": world.floor}
            if world.drawn:
                asked[f"drawn odds without floor, {world.family}"] = None
            for name, floor in asked.items():
                refused, logs = counts.get(name, (0, 0))
                refused += "weight" in broken_rules(diagnose(terms, floor), "anytime")
                counts[name] = refused, logs + 1
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=200)
    logs = parser.parse_args().logs
    print("Right logs refused by weight")
    for name, (refused, many) in healthy().items():
        print(f"  {name}: {refused} of {many}")
    print("Half-widths of rare rewards")
    for name, width in rare_rewards().items():
        print(f"  {name}: {width:.3f}")
    for rule in (False, True):
        print("With the rules" if rule else "Without the rules")
        for rows in (1500, 4000):
            found = lost_rewards(
                logs, rows, "bernstein", lost=0.4, drawn=False, rule=rule
            )
            print(f"  40 % lost, bernstein, {rows:,} rows: {found}")
        for drawn in (False, True):
            found = lost_rewards(logs, 1500, "beta", lost=0.2, drawn=drawn, rule=rule)
            print(f"  20 % lost, beta, 1,500 rows, drawn odds {drawn}: {found}")
        for value in (0.4, 0.7):
            found = rounded_odds(logs, 20_000, value, rule=rule)
            print(f"  two digits, beta, 20,000 rows, value {value:g}: {found}")


if __name__ == "__main__":
    main()
