"""Who chooses among items with features: our policies, and Vowpal Wabbit over a grid, in its strongest form."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Protocol

import numpy as np

import oddsmith as od
from benchmarks.choices import Game, Round
from oddsmith.offer import offered


class Chooser(Protocol):
    """One run: an item of a round, then the reward of that item."""

    def act(self, now: Round, uniform: float) -> int: ...

    def learn(self, reward: float) -> None: ...


@dataclass(frozen=True)
class Entry:
    """A configuration with a name, the library it comes from, and a chooser for a game.

    `standardised`: whether it is given numbers of mean 0 and variance 1 over the whole set.
    """

    name: str
    library: str
    chooser: Callable[[Game], Chooser]
    standardised: bool = True


class OnOffers:
    """A policy of ours whose arms come with the call."""

    def __init__(self, policy: Any) -> None:
        self.policy, self.state, self.step = policy, policy.init(), 0
        self.decision: Any = None

    def act(self, now: Round, uniform: float) -> int:
        self.step += 1
        offer = offered(now.shared if len(now.shared) else None, dict(zip(now.names, now.own, strict=True)))
        decision = od.decide(self.policy, self.state, offer, uniform, step=self.step)
        self.decision = decision._replace(context=offer.context, arms=offer.arms, features=offer.features)
        return int(decision.arm)

    def learn(self, reward: float) -> None:
        self.state = self.policy.update(self.state, self.decision, reward)


class OnContexts:
    """A policy of ours that knows its arms: it is given the numbers that hold for all, or a row for each item."""

    def __init__(self, policy: Any, *, a_row_each: bool = False, scaled: bool = False) -> None:
        self.policy, self.state, self.step = policy, policy.init(), 0
        self.a_row_each, self.scaled = a_row_each, scaled
        self.decision: Any = None

    def act(self, now: Round, uniform: float) -> int:
        self.step += 1
        x = joined(now) if self.a_row_each else now.shared
        if self.scaled:
            x = np.concatenate([x / np.sqrt(x.shape[-1]), np.ones((*x.shape[:-1], 1))], axis=-1)
        self.decision = od.decide(self.policy, self.state, x, uniform, step=self.step)
        return int(self.decision.arm)

    def learn(self, reward: float) -> None:
        self.state = self.policy.update(self.state, self.decision, reward)


class Vowpal:
    """Vowpal Wabbit, ADF: what holds for all in the namespace s, items in a; costs are 1 - reward."""

    def __init__(self, options: str, game: Game) -> None:
        from vowpalwabbit import Workspace

        base = "--cb_explore_adf --quiet --cb_type mtr --cb_min_cost 0 --cb_max_cost 1 -b 20 --random_seed"
        self.model, self.lasting = Workspace(f"{base} {game.shuffle + 1} {options}"), game.lasting
        self.lines: list[str] = []
        self.arm, self.lead, self.odds = 0, 0, 1.0

    def act(self, now: Round, uniform: float) -> int:
        self.lines = lines_of(now, self.lasting)
        self.lead = len(self.lines) - len(now.names)
        odds = np.asarray(self.model.predict(self.lines))
        self.arm = min(int(np.searchsorted(np.cumsum(odds), uniform * odds.sum(), side="right")), len(odds) - 1)
        self.odds = max(float(odds[self.arm] / odds.sum()), 1e-6)
        return self.arm

    def learn(self, reward: float) -> None:
        place = self.lead + self.arm
        self.lines[place] = f"0:{1 - reward:g}:{self.odds:.6g} {self.lines[place]}"
        self.model.learn(self.lines)


def joined(now: Round) -> Any:
    """A row of numbers for each item: what holds for all, then what is known of it."""
    return np.concatenate([np.broadcast_to(now.shared, (len(now.own), len(now.shared))), now.own], axis=1)


def lines_of(now: Round, lasting: bool) -> list[str]:
    """A round in Vowpal Wabbit's text format; names that last are features of their items."""
    shared = [f"shared |s {_words(now.shared)} c:1"] if len(now.shared) else []
    names = [f" {name.replace(' ', '_').replace(':', '_')}" if lasting else "" for name in now.names]
    return shared + [f"|a{name} {_words(row)}" for name, row in zip(names, now.own, strict=True)]


def _words(row: Any) -> str:
    return " ".join(f"{i}:{v:.5g}" for i, v in enumerate(row.tolist()) if v != 0.0)


def _auto(family: str, game: Game) -> Chooser:
    if family == "routing":
        return OnContexts(od.auto(game.rounds[0].names))
    return OnOffers(od.auto())


def _linucb(family: str, alpha: float, game: Game) -> Chooser:
    first = game.rounds[0]
    if family == "routing":
        return OnContexts(od.LinUCB(len(first.shared) + 1, n_arms=len(first.names), alpha=alpha), scaled=True)
    return OnContexts(od.LinUCB(joined(first).shape[1] + 1, alpha=alpha), a_row_each=True, scaled=True)


INTERACTIONS = {
    "rows": ("", "-q aa"),
    "groups": ("", "-q sa", "-q aa", "-q sa -q aa"),
    "routing": ("-q sa --noconstant",),
}
EXPLORATIONS = ("--squarecb", "--regcbopt", "--bag 5", "--bag 5 --greedify", "--epsilon 0.05")


def entries(family: str) -> Iterator[Entry]:
    """Ours, then the grid of Vowpal Wabbit; add yours here."""
    yield Entry("auto", "oddsmith", partial(_auto, family), standardised=False)
    for alpha in (1.0, 0.3):
        yield Entry(f"LinUCB {alpha:g}", "oddsmith", partial(_linucb, family, alpha))
    for exploration, rate, crossed in product(EXPLORATIONS, (0.5, 2.0), INTERACTIONS[family]):
        options = " ".join(filter(None, [exploration, f"-l {rate:g}", crossed]))
        yield Entry(f"vw {options}", "vowpalwabbit", partial(Vowpal, options))
