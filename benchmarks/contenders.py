"""Players of the bake-off: our policies, and peers at their strongest;
`benchmarks.entries` says who takes part."""

from typing import Any, Protocol

import numpy as np

import oddsmith as od
from benchmarks.games import Game, Round
from oddsmith.contexts.offers import make_offer


class Player(Protocol):
    """One run: the place of an arm of a round, then the reward of that arm."""

    def act(self, now: Round, uniform: float) -> int: ...

    def learn(self, reward: float) -> None: ...


class Ours:
    """A policy of ours that knows its arms: contexts as they come."""

    def __init__(self, policy: Any) -> None:
        self.policy, self.state, self.step = policy, policy.init(), 0
        self.decision: Any = None

    def seen(self, now: Round) -> Any:
        """What the policy is given of a round."""
        return now.shared if now.context is None else now.context

    def act(self, now: Round, uniform: float) -> int:
        self.step += 1
        self.decision = od.decide(
            self.policy, self.state, self.seen(now), uniform, step=self.step
        )
        return int(self.decision.arm)

    def learn(self, reward: float) -> None:
        self.state = self.policy.update(self.state, self.decision, reward)


class OursOnNumbers(Ours):
    """A linear policy of ours: the numbers that peers are given, or a row for each
    item, with a constant."""

    def __init__(self, policy: Any, *, a_row_each: bool = False) -> None:
        super().__init__(policy)
        self.a_row_each = a_row_each

    def seen(self, now: Round) -> Any:
        x = joined(now) if self.a_row_each else now.shared
        return np.concatenate(
            [x / np.sqrt(x.shape[-1]), np.ones((*x.shape[:-1], 1))], axis=-1
        )


class OursOnOffers(Ours):
    """A policy of ours whose arms come with the call."""

    def act(self, now: Round, uniform: float) -> int:
        self.step += 1
        offer = make_offer(
            now.shared if len(now.shared) else None,
            dict(zip(now.names, now.own, strict=True)),
        )
        decision = od.decide(self.policy, self.state, offer, uniform, step=self.step)
        self.decision = decision._replace(
            context=offer.context, arms=offer.arms, features=offer.features
        )
        return int(decision.arm)


class Vowpal:
    """Vowpal Wabbit, ADF: what holds for all in the namespace s, items in a; costs are
    1 - reward."""

    def __init__(self, options: str, game: Game) -> None:
        from vowpalwabbit import Workspace

        base = (
            "--cb_explore_adf --quiet --cb_type mtr --cb_min_cost 0 --cb_max_cost 1 "
            "--random_seed"
        )
        self.model, self.lasting = (
            Workspace(f"{base} {game.shuffle + 1} {options}"),
            game.lasting,
        )
        self.lines: list[str] = []
        self.arm, self.lead, self.odds = 0, 0, 1.0

    def act(self, now: Round, uniform: float) -> int:
        self.lines = lines_of(now, self.lasting)
        self.lead = len(self.lines) - len(now.names)
        odds = np.asarray(self.model.predict(self.lines))
        self.arm = min(
            int(np.searchsorted(np.cumsum(odds), uniform * odds.sum(), side="right")),
            len(odds) - 1,
        )
        self.odds = max(float(odds[self.arm] / odds.sum()), 1e-6)
        return self.arm

    def learn(self, reward: float) -> None:
        place = self.lead + self.arm
        self.lines[place] = f"0:{1 - reward:g}:{self.odds:.6g} {self.lines[place]}"
        self.model.learn(self.lines)


def joined(now: Round) -> Any:
    """A row of numbers for each item: what holds for all, then what is known of it."""
    return np.concatenate(
        [np.broadcast_to(now.shared, (len(now.own), len(now.shared))), now.own], axis=1
    )


def lines_of(now: Round, lasting: bool) -> list[str]:
    """A round in Vowpal Wabbit's text format; names that last are features of their
    items."""
    shared = [f"shared |s {_words(now.shared)} c:1"] if len(now.shared) else []
    names = [
        f" {name.replace(' ', '_').replace(':', '_')}" if lasting else ""
        for name in now.names
    ]
    return shared + [
        f"|a{name} {_words(row)}" for name, row in zip(names, now.own, strict=True)
    ]


def _words(row: Any) -> str:
    return " ".join(f"{i}:{v:.5g}" for i, v in enumerate(row.tolist()) if v != 0.0)


class Linear:
    """A peer that is given numbers of length 1 or so, with a constant among them."""

    def __init__(self, game: Game) -> None:
        self.n_arms, self.dim = (
            len(game.rounds[0].names),
            len(game.rounds[0].shared) + 1,
        )
        self.x: Any = np.zeros((1, self.dim))
        self.arm = 0

    def row(self, now: Round) -> Any:
        """The numbers of a round (1, dim)."""
        return np.append(now.shared / np.sqrt(len(now.shared)), 1.0)[None]


class Mabwiser(Linear):
    """LinUCB and LinTS of mabwiser."""

    def __init__(self, kind: str, alpha: float, game: Game) -> None:
        from mabwiser.mab import MAB, LearningPolicy

        super().__init__(game)
        self.model = MAB(
            list(range(self.n_arms)),
            getattr(LearningPolicy, kind)(alpha=alpha),
            seed=game.shuffle,
        )
        self.model.fit([0], [0.0], contexts=self.x)

    def act(self, now: Round, uniform: float) -> int:
        self.x = self.row(now)
        self.arm = int(self.model.predict(self.x))
        return self.arm

    def learn(self, reward: float) -> None:
        self.model.partial_fit([self.arm], [reward], contexts=self.x)


class River(Linear):
    """LinUCB (disjoint) of river."""

    def __init__(self, alpha: float, game: Game) -> None:
        from river.bandit import LinUCBDisjoint

        super().__init__(game)
        self.model, self.arms = (
            LinUCBDisjoint(alpha=alpha, beta=1.0, seed=game.shuffle),
            list(range(self.n_arms)),
        )

    def act(self, now: Round, uniform: float) -> int:
        self.x = {str(i): float(v) for i, v in enumerate(self.row(now)[0])}
        self.arm = int(self.model.pull(self.arms, context=self.x))
        return self.arm

    def learn(self, reward: float) -> None:
        self.model.update(self.arm, self.x, reward)


class ContextualBandits(Linear):
    """LinUCB of contextualbandits, which has a constant itself (its LinTS decides at
    random here, and is left out)."""

    def __init__(self, alpha: float, game: Game) -> None:
        from contextualbandits.online import LinUCB

        super().__init__(game)
        self.model = LinUCB(
            nchoices=self.n_arms, alpha=alpha, random_state=game.shuffle + 1
        )
        self.known = False

    def act(self, now: Round, uniform: float) -> int:
        self.x = (now.shared / np.sqrt(len(now.shared)))[None]
        self.arm = (
            int(self.model.predict(self.x)[0])
            if self.known
            else int(uniform * self.n_arms)
        )
        return self.arm

    def learn(self, reward: float) -> None:
        self.model.partial_fit(self.x, np.array([self.arm]), np.array([reward]))
        self.known = True


class BayesianBandits(Linear):
    """Linear Thompson sampling and UCB (by 100 draws) of bayesianbandits: ridge 1,
    noise of this scale."""

    def __init__(self, rule: str, scale: float, game: Game) -> None:
        from bayesianbandits import (
            Arm,
            ContextualAgent,
            NormalRegressor,
            ThompsonSampling,
            UpperConfidenceBound,
        )

        super().__init__(game)
        learners = [
            NormalRegressor(alpha=scale**-2, beta=scale**-2) for _ in range(self.n_arms)
        ]
        policy = (
            ThompsonSampling()
            if rule == "LinTS"
            else UpperConfidenceBound(0.84, samples=100)
        )
        arms = [Arm(k, learner=m) for k, m in enumerate(learners)]
        self.model = ContextualAgent(arms, policy, random_seed=game.shuffle)

    def act(self, now: Round, uniform: float) -> int:
        self.x = self.row(now)
        return int(self.model.pull(self.x)[0])

    def learn(self, reward: float) -> None:
        self.model.update(self.x, np.array([reward]))
