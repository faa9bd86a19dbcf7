"""Warm starts: what `auto` earns in its first 1,000 live decisions after it was fitted
from a log, compared with the log's policy and with a cold start.

    python -m benchmarks.warm_start --seeds 10

Twenty worlds of 2 to 10 arms, with clicks or revenue; contexts are categories, or
categories and numbers. The logging policies:

* good: the right arm with a probability of 60 to 98 %, the others alike
* partly: the same, but right about one field of the context only
* uniform; habit: mostly one arm, whatever the context; bad: mostly the worst arm

All values are means of true expected rewards. `warm/log` is what 1,000 live decisions
earn, over what the logging policy earns in the same contexts; `warm/cold` the same over
what `auto` earns without the log. `frozen` is what the fitted state earns without
learning, over the logging policy; `verdict` is what `fit_log` says of that.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import oddsmith as od
from benchmarks.timing import table
from oddsmith.core.arrays import Array, Ints
from oddsmith.logs.engines import each
from oddsmith.logs.progress import progress
from oddsmith.logs.table import Log

LIVE = 1_000
FRESH = 1_000  # contexts in which a state is judged without learning
DEVICES = ("phone", "desktop")
COUNTRIES = ("at", "br", "ca", "de")


class World(NamedTuple):
    """A logging policy of a `kind`, which chooses its favourite with probability
    `sure`; arms with click rates of about `rate`, and a log of `rows`."""

    name: str
    kind: str
    sure: float
    n_arms: int
    rate: float
    rows: int
    numbers: bool = False
    revenue: bool = False

    @property
    def is_good(self) -> bool:
        return self.kind in ("good", "partly")


WORLDS = (
    World("two arms 98", "good", 0.98, 2, 0.04, 3_000),
    World("five arms 98", "good", 0.98, 5, 0.05, 3_000),
    World("rare 95", "good", 0.95, 3, 0.02, 8_000),
    World("ten arms 90", "good", 0.9, 10, 0.1, 5_000),
    World("numbers 80", "good", 0.8, 5, 0.2, 2_000, numbers=True),
    World("four arms 60", "good", 0.6, 4, 0.05, 5_000),
    World("numbers 90", "good", 0.9, 3, 0.1, 3_000, numbers=True),
    World("partly 95", "partly", 0.95, 5, 0.1, 4_000),
    World("partly 80", "partly", 0.8, 4, 0.05, 6_000),
    World("uniform 4", "uniform", 0.25, 4, 0.05, 4_000),
    World("uniform 10", "uniform", 0.1, 10, 0.1, 3_000),
    World("two arms bad", "bad", 0.98, 2, 0.04, 3_000),
    World("bad 90", "bad", 0.9, 5, 0.05, 4_000),
    World("bad 70", "bad", 0.7, 4, 0.2, 3_000, numbers=True),
    World("habit 90", "habit", 0.9, 5, 0.1, 4_000),
    World("revenue 95", "good", 0.95, 4, 0.1, 4_000, revenue=True),
    World("revenue 70", "good", 0.7, 5, 0.2, 3_000, numbers=True, revenue=True),
    World("revenue partly", "partly", 0.9, 3, 0.1, 4_000, revenue=True),
    World("revenue uniform", "uniform", 0.2, 5, 0.1, 4_000, revenue=True),
    World("revenue bad", "bad", 0.9, 4, 0.1, 4_000, revenue=True),
)


class Visits(NamedTuple):
    """Contexts, the true mean reward of each arm (n, K), and the propensities (n, K) of
    the logging policy."""

    contexts: list[dict[str, Any]]
    means: Array
    propensities: Array

    def __len__(self) -> int:
        return len(self.contexts)


class Town:
    """The truth of a world, made from a seed: visits, clicks and amounts."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.arms = [f"arm {place}" for place in range(world.n_arms)]
        self._rng = np.random.default_rng([seed, *world.name.encode()])
        shape = (len(DEVICES), len(COUNTRIES), world.n_arms)
        self._cells = 0.6 * self._rng.standard_normal(shape)
        self._slopes = self._rng.standard_normal((2, world.n_arms))
        if world.name.startswith("two arms"):
            # one of two arms is right on each device, with rates of 0.10 and 0.04
            taste = np.log(2.5) * np.eye(2)
            self._cells = np.repeat(taste[:, None, :], len(COUNTRIES), axis=1)

    def visits(self, n: int) -> Visits:
        """Return n visits."""
        world = self.world
        device = self._rng.integers(len(DEVICES), size=n)
        country = self._rng.integers(len(COUNTRIES), size=n)
        numbers = self._rng.uniform(-1, 1, size=(n, 2))
        taste = self._cells[device, country]
        known = self._cells.mean(axis=1)[device]
        if world.numbers:
            slopes = numbers @ self._slopes
            taste = taste + slopes
            known = known + slopes
        means = np.minimum(world.rate * np.exp(taste), 0.9)
        contexts: list[dict[str, Any]] = []
        for place in range(n):
            context: dict[str, Any] = {
                "device": DEVICES[device[place]],
                "country": COUNTRIES[country[place]],
            }
            if world.numbers:
                context["age"] = round(40 + 20 * float(numbers[place, 0]), 1)
                context["visits"] = round(10 + 10 * float(numbers[place, 1]), 1)
            contexts.append(context)
        return Visits(contexts, means, self._propensities(means, known))

    def rewards(self, means: Array) -> Array:
        """Return clicks (…), or clicks times an amount; of mean `means` either way."""
        clicks = (self._rng.random(means.shape) < means).astype(np.float64)
        if not self.world.revenue:
            return clicks
        amounts = self._rng.lognormal(-0.5, 1.0, size=means.shape)
        return np.minimum(clicks * amounts / 20, 1.0)

    def draws(self, propensities: Array) -> Ints:
        """Return an arm for each row of propensities (n, K)."""
        cut = self._rng.random((len(propensities), 1))
        arms: Ints = (propensities.cumsum(axis=1) < cut * (1 - 1e-12)).sum(axis=1)
        return arms

    def _propensities(self, means: Array, known: Array) -> Array:
        """The propensities (n, K) of the logging policy."""
        world = self.world
        favourite = {
            "good": means.argmax(axis=1),
            "partly": known.argmax(axis=1),
            "bad": means.argmin(axis=1),
            "habit": np.zeros(len(means), np.int64),
            "uniform": np.zeros(len(means), np.int64),
        }[world.kind]
        is_favourite = np.arange(world.n_arms) == favourite[:, None]
        other = (1 - world.sure) / (world.n_arms - 1)
        return np.where(is_favourite, world.sure, other)


class Case(NamedTuple):
    """One world from one seed."""

    world: World
    seed: int


def play(case: Case) -> dict[str, Any]:
    """Return the values of a case, relative to what they are compared with."""
    town = Town(case.world, case.seed)
    past = town.visits(case.world.rows)
    arms = town.draws(past.propensities)
    drawn = np.take_along_axis(past.means, arms[:, None], axis=1)[:, 0]
    log = Log(
        arm=arms,
        reward=town.rewards(drawn),
        propensities=past.propensities,
        context=past.contexts,
        arms=town.arms,
    )
    policy = od.auto(town.arms)
    fit = od.fit_log(policy, log)
    fresh = town.visits(FRESH)
    frozen = _value(policy, fit.state, fresh)
    logged = float((fresh.propensities * fresh.means).sum(axis=1).mean())
    live = town.visits(LIVE)
    truth = (live.means, live.propensities)
    by_log = float((truth[0] * truth[1]).sum(axis=1).mean())
    draws = np.random.default_rng([case.seed, 1]).random(LIVE)
    possible = town.rewards(live.means)
    warm = _first_decisions(policy, fit.state, live, possible, draws)
    cold = _first_decisions(policy, policy.init(), live, possible, draws)
    found = {
        "world": case.world.name,
        "seed": case.seed,
        "logged": by_log,
        "warm": warm,
        "cold": cold,
        "best": float(live.means.max(axis=1).mean()),
        "frozen": frozen / logged,
    }
    comparison = getattr(fit, "comparison", None)
    if comparison is not None:
        found["verdict"] = comparison.verdict
        found["difference"] = comparison.difference / logged
        found["low"] = comparison.low / logged
        found["high"] = comparison.high / logged
    return found


def _value(policy: Any, state: Any, visits: Visits) -> float:
    """The mean reward of a state that does not learn."""
    total = 0.0
    for context, means in zip(visits.contexts, visits.means, strict=True):
        total += float(policy.odds(state, context).propensities @ means)
    return total / len(visits)


def _first_decisions(
    policy: Any, state: Any, visits: Visits, rewards: Array, draws: Array
) -> float:
    """The mean of the true rewards of decisions that are learnt at once; `rewards` (n,
    K) are those that each arm would get."""
    total = 0.0
    for place, context in enumerate(visits.contexts):
        decision = od.decide(policy, state, context, float(draws[place]))
        total += float(decision.propensities @ visits.means[place])
        reward = float(rewards[place, decision.number])
        state = policy.update(state, decision, reward)
    return total / len(visits)


def lines(found: Sequence[dict[str, Any]]) -> list[list[str]]:
    """The rows of the table: one for each world."""
    rows = []
    for world in WORLDS:
        here = [one for one in found if one["world"] == world.name]
        if not here:
            continue
        sums = {
            name: float(np.sum([one[name] for one in here]))
            for name in ("logged", "warm", "cold", "best")
        }
        frozen = float(np.mean([one["frozen"] for one in here]))
        worst = min(one["warm"] / one["logged"] for one in here)
        rows.append(
            [
                world.name,
                world.kind,
                f"{sums['logged'] / sums['best']:.3f}",
                f"{sums['warm'] / sums['logged']:.3f}",
                f"{worst:.3f}",
                f"{sums['warm'] / sums['cold']:.3f}",
                f"{frozen:.3f}",
                " ".join(_verdicts(here)),
            ]
        )
    return rows


def _verdicts(found: Sequence[dict[str, Any]]) -> list[str]:
    """How often each verdict was given."""
    given = [one["verdict"] for one in found if "verdict" in one]
    return [f"{given.count(name)} {name}," for name in sorted(set(given))]


HEAD = (
    "world",
    "log",
    "log/best",
    "warm/log",
    "worst seed",
    "warm/cold",
    "frozen/log",
    "verdicts",
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--worlds", nargs="*", default=[one.name for one in WORLDS])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    worlds = [one for one in WORLDS if one.name in options.worlds]
    cases = [Case(world, seed) for seed in seeds for world in worlds]
    done = each(play, cases, engine="local", workers=options.workers)
    found = [one for _, one in progress(done, len(cases), "cases")]
    if options.out:
        options.out.write_text("\n".join(map(json.dumps, found)) + "\n")
    print(table(list(HEAD), lines(found)))


if __name__ == "__main__":
    main()
