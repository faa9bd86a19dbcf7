"""Who takes part in the bake-off: our policies, and peers in their strongest form."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

import oddsmith as od
from oddsmith.experts.learners import LearningExperts
from oddsmith.policies.auto import SIZES


class Player(Protocol):
    """One run: an arm for a context, then the reward of that arm."""

    def act(self, x: Any, uniform: float) -> int: ...

    def learn(self, reward: float) -> None: ...


@dataclass(frozen=True)
class Contender:
    """A configuration with a name, the library it comes from, and a player for so many arms and numbers.

    `standardised`: whether it is given numbers of mean 0 and variance 1 over the whole set, as peers are.
    """

    name: str
    library: str
    player: Callable[[int, int, int], Player]
    standardised: bool = True


class Ours:
    """Any policy of this library."""

    def __init__(self, policy: Any) -> None:
        self.policy, self.state, self.step = policy, policy.init(), 0
        self.decision: Any = None

    def act(self, x: Any, uniform: float) -> int:
        self.step += 1
        self.decision = od.decide(self.policy, self.state, x, uniform, step=self.step)
        return int(self.decision.arm)

    def learn(self, reward: float) -> None:
        self.state = self.policy.update(self.state, self.decision, reward)


def wrong_share(policy: Any, x: Any, y: Any, seed: list[int]) -> float:
    """The progressive error of one of our policies over labelled rows."""
    player, wrong = Ours(policy), 0.0
    for context, answer, uniform in zip(x, y, np.random.default_rng(seed).random(len(y)).tolist(), strict=True):
        reward = float(player.act(context, uniform) == answer)
        player.learn(reward)
        wrong += 1 - reward
    return wrong / len(y)


class Vowpal:
    """Vowpal Wabbit, ADF, shared features crossed with the arm; costs are 1 - reward."""

    def __init__(self, n_arms: int, options: str, seed: int) -> None:
        from vowpalwabbit import Workspace

        base = "--cb_explore_adf --quiet -q sa --cb_type mtr --noconstant --cb_min_cost 0 --cb_max_cost 1 --random_seed"
        self.model, self.n_arms = Workspace(f"{base} {seed + 1} {options}"), n_arms
        self.shared, self.arm, self.odds = "", 0, 1.0

    def act(self, x: Any, uniform: float) -> int:
        words = " ".join(f"{i}:{v:.5g}" for i, v in enumerate(x.tolist()) if v != 0.0)
        self.shared = f"shared |s {words} c:1"
        odds = np.asarray(self.model.predict([self.shared, *(f"|a {k}" for k in range(self.n_arms))]))
        self.arm = min(int(np.searchsorted(np.cumsum(odds), uniform * odds.sum(), side="right")), self.n_arms - 1)
        self.odds = max(float(odds[self.arm] / odds.sum()), 1e-6)
        return self.arm

    def learn(self, reward: float) -> None:
        label = f"0:{1 - reward:g}:{self.odds:.6g} "
        self.model.learn([self.shared, *(f"{label if k == self.arm else ''}|a {k}" for k in range(self.n_arms))])


class Mabwiser:
    """LinUCB and LinTS of mabwiser, with a constant among the features."""

    def __init__(self, n_arms: int, dim: int, kind: str, alpha: float, seed: int) -> None:
        from mabwiser.mab import MAB, LearningPolicy

        policy = getattr(LearningPolicy, kind)(alpha=alpha)
        self.model = MAB(list(range(n_arms)), policy, seed=seed)
        self.model.fit([0], [0.0], contexts=np.zeros((1, dim + 1)))
        self.x, self.arm = np.zeros((1, dim + 1)), 0

    def act(self, x: Any, uniform: float) -> int:
        self.x = np.append(x / np.sqrt(len(x)), 1.0)[None]
        self.arm = int(self.model.predict(self.x))
        return self.arm

    def learn(self, reward: float) -> None:
        self.model.partial_fit([self.arm], [reward], contexts=self.x)


class River:
    """LinUCB (disjoint) of river, with a constant among the features."""

    def __init__(self, n_arms: int, alpha: float, seed: int) -> None:
        from river.bandit import LinUCBDisjoint

        self.model, self.arms = LinUCBDisjoint(alpha=alpha, beta=1.0, seed=seed), list(range(n_arms))
        self.x: dict[str, float] = {}
        self.arm: Any = 0

    def act(self, x: Any, uniform: float) -> int:
        self.x = {str(i): float(v) for i, v in enumerate(np.append(x / np.sqrt(len(x)), 1.0))}
        self.arm = self.model.pull(self.arms, context=self.x)
        return int(self.arm)

    def learn(self, reward: float) -> None:
        self.model.update(self.arm, self.x, reward)


class ContextualBandits:
    """LinUCB of contextualbandits (its LinTS decides at random in this version, and is left out)."""

    def __init__(self, n_arms: int, dim: int, alpha: float, seed: int) -> None:
        from contextualbandits.online import LinUCB

        self.model = LinUCB(nchoices=n_arms, alpha=alpha, random_state=seed + 1)
        self.x, self.arm = np.zeros((1, dim)), 0
        self.known = False

    def act(self, x: Any, uniform: float) -> int:
        self.x = (x / np.sqrt(len(x)))[None]
        self.arm = int(self.model.predict(self.x)[0]) if self.known else int(uniform * self.model.nchoices)
        return self.arm

    def learn(self, reward: float) -> None:
        self.model.partial_fit(self.x, np.array([self.arm]), np.array([reward]))
        self.known = True


class BayesianBandits:
    """Linear Thompson sampling and UCB (by 100 draws) of bayesianbandits: ridge 1, noise of this scale."""

    def __init__(self, n_arms: int, dim: int, rule: str, scale: float, seed: int) -> None:
        from bayesianbandits import Arm, ContextualAgent, NormalRegressor, ThompsonSampling, UpperConfidenceBound

        learners = [NormalRegressor(alpha=scale**-2, beta=scale**-2) for _ in range(n_arms)]
        policy = ThompsonSampling() if rule == "LinTS" else UpperConfidenceBound(0.84, samples=100)
        self.model = ContextualAgent([Arm(k, learner=m) for k, m in enumerate(learners)], policy, random_seed=seed)
        self.x = np.zeros((1, dim + 1))

    def act(self, x: Any, uniform: float) -> int:
        self.x = np.append(x / np.sqrt(len(x)), 1.0)[None]
        return int(self.model.pull(self.x)[0])

    def learn(self, reward: float) -> None:
        self.model.update(self.x, np.array([reward]))


class Supervised:
    """No bandit: logistic regression that is told every answer, a check of what the set allows (not ranked)."""

    def __init__(self, n_arms: int) -> None:
        from sklearn.linear_model import SGDClassifier

        self.model, self.classes, self.x = SGDClassifier(loss="log_loss", random_state=0), np.arange(n_arms), None
        self.known = False

    def act(self, x: Any, uniform: float) -> int:
        self.x = x[None]
        return int(self.model.predict(self.x)[0]) if self.known else 0

    def tell(self, answer: int) -> None:
        self.model.partial_fit(self.x, [answer], self.classes)
        self.known = True

    def learn(self, reward: float) -> None:
        """It learns from `tell`."""


def _auto(size: str, n_arms: int, dim: int, seed: int) -> Ours:
    return Ours(od.auto([str(k) for k in range(n_arms)], size=size))


def _alone(learners: tuple[Any, ...], blend: int, n_arms: int, dim: int, seed: int) -> Ours:
    """One expert of `auto` by itself: a learner, or only the blend."""
    bank = LearningExperts([str(k) for k in range(n_arms)], learners, blend=blend)
    prior = np.eye(len(bank.names))[-1]
    return Ours(od.GeneralizedThompsonSampling(bank, od.square_loss, eta=2.0, gamma=0.005, prior=prior))


def ours() -> Iterator[Contender]:
    """Our policies, each given numbers as they are: auto, and each of its experts alone."""
    for size in ("normal", "small"):
        name = "auto" if size == "normal" else f"auto, {size}"
        yield Contender(name, "oddsmith", partial(_auto, size), standardised=False)
    learners = SIZES["normal"]
    for learner in learners:
        yield Contender(f"alone: {learner.name}", "oddsmith", partial(_alone, (learner,), 0), standardised=False)
    yield Contender("alone: blend", "oddsmith", partial(_alone, learners, len(learners)), standardised=False)


def _vowpal(options: str, n_arms: int, dim: int, seed: int) -> Vowpal:
    return Vowpal(n_arms, options, seed)


def _mabwiser(kind: str, alpha: float, n_arms: int, dim: int, seed: int) -> Mabwiser:
    return Mabwiser(n_arms, dim, kind, alpha, seed)


def _contextualbandits(alpha: float, n_arms: int, dim: int, seed: int) -> ContextualBandits:
    return ContextualBandits(n_arms, dim, alpha, seed)


def _river(n_arms: int, dim: int, seed: int) -> River:
    return River(n_arms, 1.0, seed)


def _bayesianbandits(rule: str, scale: float, n_arms: int, dim: int, seed: int) -> BayesianBandits:
    return BayesianBandits(n_arms, dim, rule, scale, seed)


def _supervised(n_arms: int, dim: int, seed: int) -> Supervised:
    return Supervised(n_arms)


def peers() -> Iterator[Contender]:
    """Peers with their usual settings over a small grid; add yours here."""
    for exploration in ("--squarecb", "--regcbopt", "--bag 5 --greedify", "--cover 5", "--rnd 3", "--epsilon 0.05"):
        for rate in (0.5, 2.0, 10.0):
            options = f"{exploration} -l {rate:g}"
            yield Contender(f"vw {options}", "vowpalwabbit", partial(_vowpal, options))
    for alpha in (1.0, 0.5, 0.2):
        yield Contender(f"LinUCB {alpha:g}", "mabwiser", partial(_mabwiser, "LinUCB", alpha))
        yield Contender(f"LinTS {alpha / 5:g}", "mabwiser", partial(_mabwiser, "LinTS", alpha / 5))
        yield Contender(f"LinUCB {alpha:g}", "contextualbandits", partial(_contextualbandits, alpha))
    yield Contender("LinUCB", "river", _river)
    for scale in (0.2, 0.1):
        yield Contender(f"LinTS {scale:g}", "bayesianbandits", partial(_bayesianbandits, "LinTS", scale))
    for scale in (1.0, 0.5):
        yield Contender(f"LinUCB {scale:g}", "bayesianbandits", partial(_bayesianbandits, "LinUCB", scale))
    yield Contender("told every answer", "scikit-learn", _supervised)
