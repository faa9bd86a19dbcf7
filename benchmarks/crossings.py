"""A shop whose visitors' tastes depend on device and category at once: `auto()` with
and without a crossed feature.

    python -m benchmarks.crossings --seeds 8 --decisions 4000
    python -m benchmarks.crossings --seeds 8 --decisions 4000 --additive

24 to 30 goods are on offer each day for seven days; goods come and go. A good shows its
category, price and, mostly, a brand; a visitor shows a device and the hour. Clicks are
logistic in the taste of the device for the category, in a quality that no feature shows
and, on phones, in the price; with --additive all devices have the same taste, so that
there is nothing to cross. What is told is the mean of the drawn goods' true rates.
"""

import argparse
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import oddsmith as od
from benchmarks.timing import table
from oddsmith.logs.engines import each

CATEGORIES = ("shoes", "jackets", "toys", "garden", "books")
DEVICES, SHARES = ("phone", "laptop", "tablet"), (0.5, 0.35, 0.15)
BRANDS = ("Nord", "Acme", "Bear", None)
TASTES = np.array(
    [
        [1.2, 0.2, 0.3, -1.2, -0.7],
        [-1.15, -0.2, -0.5, 0.75, 0.8],
        [-0.4, -0.6, 1.3, -0.5, 0.5],
    ]
)
SAME = np.tile([0.8, 0.2, -0.6, -0.2, 0.5], (3, 1))
DAYS, LIVES, INTERCEPT, USUAL_PRICE = 7, (1, 2, 3, 4, 5, 7, 9), -3.15, 3.4


class Case(NamedTuple):
    """One run: its seed, whether goods have the crossed feature, and whether devices
    have the same taste."""

    seed: int
    by_hand: bool
    additive: bool


class Good(NamedTuple):
    """One good: its name, what is shown of it, its category's number, its own quality
    and the day it is gone."""

    name: str
    features: dict[str, Any]
    category: int
    quality: float
    gone: int


class Shop:
    """Goods by day and visitors, from a seed."""

    def __init__(self, seed: int) -> None:
        self.rng, self.days, self.made = (
            np.random.default_rng([seed, 77]),
            list[list[Good]](),
            0,
        )
        there: list[Good] = []
        for day in range(DAYS):
            there = [good for good in there if good.gone > day]
            while len(there) < (26 if day == 0 else self.rng.integers(24, 31)):
                there.append(self._good(day))
            self.days.append(list(there))

    def _good(self, day: int) -> Good:
        rng, name = self.rng, f"sku{self.made}"
        self.made += 1
        category = int(rng.integers(5))
        features = {
            "category": CATEGORIES[category],
            "price": round(float(np.exp(rng.normal(USUAL_PRICE, 0.7))), 2),
        }
        if brand := BRANDS[rng.integers(4)]:
            features["brand"] = brand
        return Good(
            name, features, category, rng.normal(0, 0.4), day + int(rng.choice(LIVES))
        )

    def visitor(self) -> tuple[int, dict[str, Any]]:
        device = int(self.rng.choice(3, p=SHARES))
        return device, {"device": DEVICES[device], "hour": int(self.rng.integers(24))}


def rates(device: int, goods: list[Good], tastes: Any) -> Any:
    """The true click rates of these goods."""
    known = [
        (tastes[device, good.category] + good.quality, np.log(good.features["price"]))
        for good in goods
    ]
    taste, price = np.array(known).T
    return 1 / (
        1
        + np.exp(
            -(
                INTERCEPT
                + taste
                - (0.25 if device == 0 else 0.0) * (price - USUAL_PRICE)
            )
        )
    )


def crossed(context: dict[str, Any], features: dict[str, Any]) -> dict[str, Any]:
    return features | {
        "device x category": f"{context['device']}/{features['category']}"
    }


def play(decisions: int, case: Case) -> tuple[float, float, float]:
    """Mean rates of what `auto()` chose, of even odds and of the best good, over one
    run."""
    shop, clicks, tastes = (
        Shop(case.seed),
        np.random.default_rng(case.seed),
        SAME if case.additive else TASTES,
    )
    agent, sums = od.Agent(od.auto(), seed=case.seed), np.zeros(3)
    for step in range(decisions):
        goods = shop.days[step * DAYS // decisions]
        device, context = shop.visitor()
        truth = dict(
            zip(
                (good.name for good in goods),
                rates(device, goods, tastes).tolist(),
                strict=True,
            )
        )
        shown = ((good.name, good.features) for good in goods)
        arms = {
            name: crossed(context, known) if case.by_hand else known
            for name, known in shown
        }
        decision: Any = agent.decide(context, arms=arms)
        agent.learn(decision, int(clicks.random() < truth[decision.arm]))
        sums += truth[decision.arm], np.mean(list(truth.values())), max(truth.values())
    got, even, best = (sums / decisions).tolist()
    return got, even, best


def lines(
    seeds: list[int], additive: bool, decisions: int, engine: str
) -> Iterator[list[str]]:
    cases = [
        Case(seed, by_hand, additive) for seed in seeds for by_hand in (False, True)
    ]
    done = dict(each(partial(play, decisions), cases, engine=engine))
    found = np.array([done[i] for i in range(len(cases))]).reshape(len(seeds), 2, 3)
    for seed, (plain, by_hand) in zip(seeds, found, strict=True):
        yield [
            str(seed),
            *(f"{value:.4f}" for value in (plain[1], plain[0], by_hand[0], plain[2])),
        ]
    (got, even, best), gains = found[:, 0].mean(axis=0), found[:, 1, 0] - found[:, 0, 0]
    error = gains.std(ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else float("nan")
    yield [
        "mean",
        *(f"{value:.4f}" for value in (even, got, found[:, 1, 0].mean(), best)),
    ]
    yield ["gain", "", "", f"{gains.mean():+.4f} ± {error:.4f}", ""]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--first", type=int, default=11)
    parser.add_argument("--decisions", type=int, default=4000)
    parser.add_argument("--additive", action="store_true")
    parser.add_argument("--engine", default="local")
    args = parser.parse_args()
    seeds = list(range(args.first, args.first + args.seeds))
    head = ["seed", "even odds", "auto", "auto, crossed feature", "best good"]
    print(table(head, list(lines(seeds, args.additive, args.decisions, args.engine))))


if __name__ == "__main__":
    main()
