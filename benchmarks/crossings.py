"""Worlds in which tastes depend on fields of the context and of the arm at once:
`auto()` with plain features, with the right crossed features made by hand, and Vowpal
Wabbit with `-q sa`.

    python -m benchmarks.crossings --seeds 3
    python -m benchmarks.crossings --seeds 3 --worlds "shop" --contenders plain vw

Twelve worlds: click rates of 3 to 30 %, 2 to 8 fields (categories and numbers), 0 to 3
pairs of fields that interact, 5 to 50 arms that come and go. Clicks are logistic in
effects of the fields, of the pairs, and of a quality of each arm that no feature shows.
The captured share is (got - uniform)/(best - uniform), in true click rates.
"""

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

import oddsmith as od
from benchmarks.timing import table
from oddsmith.core.arrays import Array, Ints
from oddsmith.logs.engines import each

DECISIONS, DAYS = 6000, 20
QUALITY = 0.3
CONTENDERS = ("plain", "by hand", "vw")


class Field(NamedTuple):
    """A category of so many values, or a number where there are none."""

    name: str
    n_values: int = 0


class World(NamedTuple):
    """Fields of the context and of the arms, and how much they matter for the log odds
    of a click.

    `pairs` are the places of fields that interact; `main` and `taste` are standard
    deviations of the effects of fields and of pairs.
    """

    name: str
    context: tuple[Field, ...]
    features: tuple[Field, ...]
    pairs: tuple[tuple[int, int], ...]
    rate: float
    n_arms: int
    main: float = 0.4
    taste: float = 0.9


DEVICE, SEGMENT, COUNTRY = Field("device", 3), Field("segment", 4), Field("country", 8)
AGE, HOUR, VISITS = Field("age"), Field("hour"), Field("visits")
TOPIC, BRAND, KIND = Field("topic", 6), Field("brand", 4), Field("kind", 3)
PRICE, LENGTH, SCORE = Field("price"), Field("length"), Field("score")

WORLDS = (
    World("news", (SEGMENT,), (TOPIC,), ((0, 0),), 0.05, 12, main=0.0),
    World("shop", (DEVICE, AGE), (TOPIC, PRICE), ((0, 0),), 0.03, 20),
    World("prices", (SEGMENT, HOUR), (BRAND, PRICE), ((0, 1),), 0.10, 10),
    World(
        "travel",
        (DEVICE, AGE, HOUR),
        (TOPIC, PRICE, LENGTH),
        ((0, 0), (1, 1)),
        0.10,
        30,
    ),
    World(
        "market",
        (DEVICE, SEGMENT, AGE, HOUR),
        (TOPIC, BRAND, PRICE, SCORE),
        ((0, 0), (1, 1), (0, 2)),
        0.20,
        50,
    ),
    World("films", (AGE, SEGMENT), (LENGTH,), ((0, 0),), 0.30, 5),
    World(
        "ads",
        (COUNTRY, DEVICE, AGE, VISITS),
        (TOPIC, KIND, PRICE, SCORE),
        ((0, 0),),
        0.05,
        50,
    ),
    World(
        "songs",
        (SEGMENT, DEVICE, HOUR),
        (TOPIC, KIND),
        ((0, 0), (1, 1)),
        0.15,
        8,
    ),
    World(
        "jobs",
        (AGE, VISITS, DEVICE),
        (TOPIC, PRICE, SCORE),
        ((0, 0),),
        0.20,
        15,
    ),
    World("plain shop", (DEVICE, AGE), (TOPIC, PRICE), (), 0.05, 20, main=0.7),
    World(
        "plain market",
        (DEVICE, SEGMENT, AGE, HOUR),
        (TOPIC, BRAND, PRICE, SCORE),
        (),
        0.20,
        30,
        main=0.5,
    ),
    World("plain news", (SEGMENT,), (TOPIC,), (), 0.10, 10, main=0.8),
)


class Arms(NamedTuple):
    """Arms of one day: names, the values (K, f) of their fields, and their
    qualities."""

    names: tuple[str, ...]
    values: Array
    quality: Array


class Case(NamedTuple):
    """One run."""

    world: World
    seed: int
    contender: str


def _values(fields: Sequence[Field], n: int, rng: np.random.Generator) -> Array:
    """Values (n, f): places of categories, of which the first are more frequent, and
    standard normal numbers."""
    columns = []
    for field in fields:
        if not field.n_values:
            columns.append(rng.normal(size=n))
            continue
        share = 1 / np.arange(2, 2 + field.n_values)
        drawn = rng.choice(field.n_values, n, p=share / share.sum())
        columns.append(drawn.astype(np.float64))
    return np.stack(columns, axis=-1)


class Truth:
    """Click rates of a world, and its visitors and arms, from a seed."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        place = [one.name for one in WORLDS].index(world.name)
        self.rng = np.random.default_rng([seed, place])
        rng = self.rng
        self.main = [
            self._effects((field,), world.main)
            for field in (*world.context, *world.features)
        ]
        self.tastes = [
            self._effects((world.context[i], world.features[j]), world.taste)
            for i, j in world.pairs
        ]
        contexts = _values(world.context, 400, rng)
        arms = _values(world.features, 400, rng)
        effects = self._log_odds(contexts, arms) + rng.normal(0, QUALITY, 400)
        self.intercept = brentq(
            lambda at: np.mean(1 / (1 + np.exp(-at - effects))) - world.rate, -20, 20
        )
        self.days = self._days()

    def _effects(self, fields: tuple[Field, ...], scale: float) -> Array:
        """Effects of the values of one field or two: a table, slopes, or one slope."""
        shape = tuple(field.n_values for field in fields if field.n_values)
        effects = np.asarray(self.rng.normal(size=shape))
        if (len(fields) == 1 and not shape) or len(fields) > len(shape):
            # a slope of a number: away from 0, else there is nothing to learn
            effects = np.sign(effects) * (0.5 + 0.5 * np.abs(effects))
        if len(shape) == 2:
            effects -= effects.mean(axis=0)
            effects -= effects.mean(axis=1, keepdims=True)
        if shape:
            effects /= max(float(effects.std()), 1e-9)
        return scale * effects

    def _days(self) -> list[Arms]:
        """Arms by day: each is gone after one to eight days, and another comes."""
        rng, n = self.rng, self.world.n_arms
        days: list[Arms] = []
        gone = np.zeros(n, np.int64)
        names = [""] * n
        values = _values(self.world.features, n, rng)
        quality = np.zeros(n)
        made = 0
        for day in range(DAYS):
            new = np.flatnonzero(gone <= day)
            values[new] = _values(self.world.features, len(new), rng)
            quality[new] = rng.normal(0, QUALITY, len(new))
            gone[new] = day + rng.integers(1, 9, len(new))
            for k in new:
                names[k] = f"arm{made}"
                made += 1
            days.append(Arms(tuple(names), values.copy(), quality.copy()))
        return days

    def _log_odds(self, contexts: Array, arms: Array) -> Array:
        """Log odds without intercept and quality; contexts and arms broadcast."""
        world = self.world
        total = np.zeros(np.broadcast_shapes(contexts.shape[:-1], arms.shape[:-1]))
        for i, field in enumerate(world.context):
            total = total + _effect(self.main[i], (field,), (contexts[..., i],))
        for j, field in enumerate(world.features):
            effects = self.main[len(world.context) + j]
            total = total + _effect(effects, (field,), (arms[..., j],))
        for (i, j), effects in zip(world.pairs, self.tastes, strict=True):
            fields = world.context[i], world.features[j]
            values = contexts[..., i], arms[..., j]
            total = total + _effect(effects, fields, values)
        return total

    def visitor(self) -> Array:
        values: Array = _values(self.world.context, 1, self.rng)[0]
        return values

    def rates(self, context: Array, arms: Arms) -> Array:
        """The true click rates (K)."""
        log_odds = self.intercept + self._log_odds(context, arms.values) + arms.quality
        rates: Array = 1 / (1 + np.exp(-log_odds))
        return rates


def _effect(effects: Array, fields: Sequence[Field], values: Sequence[Array]) -> Array:
    """The effect of one field or of two; numbers multiply it."""
    places: list[Ints] = []
    factor: Array = np.ones(())
    for field, value in zip(fields, values, strict=True):
        if field.n_values:
            places.append(value.astype(np.int64))
        else:
            factor = factor * value
    effect: Array = effects[tuple(places)] * factor
    return effect


def record(fields: Sequence[Field], values: Array) -> dict[str, Any]:
    """Values as a user has them: words, and numbers with two digits."""
    found: dict[str, Any] = {}
    for field, value in zip(fields, values.tolist(), strict=True):
        if field.n_values:
            found[field.name] = f"{field.name}{int(value)}"
        else:
            found[field.name] = round(10 + 4 * value, 2)
    return found


def crossed(world: World, context: Array, features: Array) -> dict[str, Any]:
    """The right crossed features: a word for two categories, a number for each value of
    one category, a product of two numbers."""
    found: dict[str, Any] = {}
    for i, j in world.pairs:
        first, second = world.context[i], world.features[j]
        own, other = float(context[i]), float(features[j])
        name = f"{first.name} x {second.name}"
        if first.n_values and second.n_values:
            found[name] = f"{int(own)}/{int(other)}"
        elif first.n_values:
            for place in range(first.n_values):
                found[f"{name} {place}"] = other if place == own else 0.0
        elif second.n_values:
            for place in range(second.n_values):
                found[f"{name} {place}"] = own if place == other else 0.0
        else:
            found[name] = own * other
    return found


class Ours:
    """`auto()` with its defaults."""

    def __init__(self, seed: int) -> None:
        self.agent = od.Agent(od.auto(), seed=seed)

    def choose(self, context: dict[str, Any], arms: dict[str, dict[str, Any]]) -> str:
        self.decision: Any = self.agent.decide(context, arms=arms)
        return str(self.decision.arm)

    def learn(self, click: int) -> None:
        self.agent.learn(self.decision, click)


class Vowpal:
    """SquareCB over a linear model with all products of context and features."""

    def __init__(self, seed: int) -> None:
        from vowpalwabbit import Workspace

        self.space = Workspace(
            "--cb_explore_adf --squarecb -q sa --quiet --cb_min_cost 0 --cb_max_cost 1"
        )
        self.rng = np.random.default_rng([seed, 1])

    def choose(self, context: dict[str, Any], arms: dict[str, dict[str, Any]]) -> str:
        self.lines = [f"shared |s {_text(context)}"]
        self.lines += [f"|a id={name} {_text(own)}" for name, own in arms.items()]
        odds = np.array(self.space.predict(self.lines))
        self.place = int(self.rng.choice(len(odds), p=odds / odds.sum()))
        self.propensity = float(odds[self.place])
        return list(arms)[self.place]

    def learn(self, click: int) -> None:
        line = self.lines[self.place + 1]
        self.lines[self.place + 1] = f"0:{1 - click}:{self.propensity} {line}"
        self.space.learn(self.lines)


def _text(known: dict[str, Any]) -> str:
    """Words as they are, numbers standardised."""
    return " ".join(
        f"{name}={value}"
        if isinstance(value, str)
        else f"{name}:{(value - 10) / 4:.3f}"
        for name, value in known.items()
    )


def play(decisions: int, case: Case) -> tuple[float, float, float]:
    """Mean rates of the chosen arms, of uniform choice and of the best arms."""
    world = case.world
    truth = Truth(world, case.seed)
    clicks = np.random.default_rng([case.seed, 2])
    player: Any = Vowpal(case.seed) if case.contender == "vw" else Ours(case.seed)
    sums = np.zeros(3)
    for step in range(decisions):
        today = truth.days[step * DAYS // decisions]
        visitor = truth.visitor()
        rates = truth.rates(visitor, today)
        arms = {}
        for name, values in zip(today.names, today.values, strict=True):
            arms[name] = record(world.features, values)
            if case.contender == "by hand":
                arms[name] |= crossed(world, visitor, values)
        drawn = today.names.index(player.choose(record(world.context, visitor), arms))
        player.learn(int(clicks.random() < rates[drawn]))
        sums += rates[drawn], rates.mean(), rates.max()
    got, uniform, best = (sums / decisions).tolist()
    return got, uniform, best


def shares(cases: Sequence[Case], decisions: int, engine: str) -> dict[Case, float]:
    """The captured share of each case."""
    found = {}
    for place, (got, uniform, best) in each(
        partial(play, decisions), cases, engine=engine
    ):
        found[cases[place]] = (got - uniform) / (best - uniform)
    return found


def lines(
    worlds: Sequence[World],
    seeds: Sequence[int],
    contenders: Sequence[str],
    found: dict[Case, float],
) -> Iterator[list[str]]:
    """A row for each world: mean captured shares over seeds."""
    for world in worlds:
        row = [world.name, str(len(world.pairs)), f"{world.rate:.0%}"]
        row.append(str(world.n_arms))
        for contender in contenders:
            if Case(world, seeds[0], contender) not in found:
                row.append("")
                continue
            own = [found[Case(world, seed, contender)] for seed in seeds]
            row.append(f"{np.mean(own):.3f}")
        yield row


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--decisions", type=int, default=DECISIONS)
    parser.add_argument("--worlds", nargs="*", default=[one.name for one in WORLDS])
    parser.add_argument("--contenders", nargs="*", default=CONTENDERS)
    parser.add_argument("--engine", default="local")
    args = parser.parse_args()
    worlds = [one for one in WORLDS if one.name in args.worlds]
    seeds = range(args.first, args.first + args.seeds)
    cases = [
        Case(world, seed, contender)
        for world in worlds
        for seed in seeds
        for contender in args.contenders
        if world.pairs or contender != "by hand"
    ]
    found = shares(cases, args.decisions, args.engine)
    head = ["world", "pairs", "rate", "arms", *args.contenders]
    print(table(head, list(lines(worlds, seeds, args.contenders, found))))


if __name__ == "__main__":
    main()
