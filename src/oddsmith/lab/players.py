"""The policies of an experiment file: a kind, and the settings that belong to it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from oddsmith.errors import InvalidInput
from oddsmith.experts.base import Experts
from oddsmith.files.keys import Keys
from oddsmith.files.policy_file import read_gamma
from oddsmith.losses import LOSSES
from oddsmith.policies import recipes
from oddsmith.policies.base import Policy
from oddsmith.policies.beta_thompson import BetaThompsonSampling
from oddsmith.policies.epoch_greedy import EpochGreedy
from oddsmith.policies.exp4p import EXP4P
from oddsmith.policies.fastcb import FastCB
from oddsmith.policies.gts import GeneralizedThompsonSampling
from oddsmith.policies.kl_ucb import KLUCB
from oddsmith.policies.ucb1 import UCB1

__all__ = ["KINDS", "Seat", "player"]


class Seat(NamedTuple):
    """What a policy is made for: the experts, the number of arms, and the horizon."""

    experts: Experts
    n_arms: int
    steps: int


def player(keys: Keys, seat: Seat) -> Policy:
    """The policy that a table of an experiment file describes."""
    kind = keys.text("kind", "gts", choices=KINDS)
    try:
        found = KINDS[kind](keys, seat)
    except InvalidInput as error:
        raise keys.blame(error) from error
    keys.close()
    return found


def _gts(keys: Keys, seat: Seat) -> Policy:
    defaults = {"eta": 0.5, "optimism": 0.0, "share": 0.0, "discount": 1.0}
    rest: Any = {name: keys.get(name, default) for name, default in defaults.items()}
    prior = keys.get("prior", None)
    return GeneralizedThompsonSampling(seat.experts, _loss(keys), gamma=read_gamma(keys, 0.0), prior=prior, **rest)


def _loss(keys: Keys) -> Any:
    return LOSSES[keys.text("loss", "log", choices=LOSSES)]


def _epsilon_greedy(keys: Keys, seat: Seat) -> Policy:
    return recipes.epsilon_greedy(seat.experts, _loss(keys), epsilon=keys.number("epsilon", 0.05, low=0, high=1))


def _fastcb(keys: Keys, seat: Seat) -> Policy:
    sharpness = keys.number("sharpness", 10.0 * seat.n_arms, low=0, high=1e12)
    return FastCB(seat.experts, sharpness=sharpness, prior=keys.get("prior", None))


def _exp4p(keys: Keys, seat: Seat) -> Policy:
    delta = keys.number("delta", 0.05, low=1e-12, high=1 - 1e-12)
    return EXP4P(seat.experts, steps=seat.steps, delta=delta, prior=keys.get("prior", None))


KINDS: dict[str, Callable[[Keys, Seat], Policy]] = {
    "gts": _gts,
    "thompson_sampling": lambda keys, seat: recipes.thompson_sampling(seat.experts, keys.get("prior", None)),
    "tuned": lambda keys, seat: recipes.tuned(
        seat.experts, _loss(keys), prior=keys.get("prior", None), n_arms=seat.n_arms, steps=seat.steps
    ),
    "feel_good": lambda keys, seat: recipes.feel_good(
        seat.experts, _loss(keys), prior=keys.get("prior", None), n_arms=seat.n_arms, steps=seat.steps
    ),
    "squarecb": lambda keys, seat: recipes.squarecb(
        seat.experts,
        prior=keys.get("prior", None),
        oracle=keys.text("oracle", "vovk", choices=("vovk", "mixture")),  # type: ignore[arg-type]
        n_arms=seat.n_arms,
        steps=seat.steps,
    ),
    "fastcb": _fastcb,
    "exp4": lambda keys, seat: recipes.exp4(
        seat.experts, prior=keys.get("prior", None), n_arms=seat.n_arms, steps=seat.steps
    ),
    "exp4p": _exp4p,
    "epoch_greedy": lambda keys, seat: EpochGreedy(seat.experts, keys.number("scale", 1.0, low=1e-9, high=1e9)),
    "epsilon_greedy": _epsilon_greedy,
    "follow_the_leader": lambda keys, seat: recipes.follow_the_leader(seat.experts, _loss(keys)),
    "uniform": lambda _, seat: recipes.uniform(seat.experts),
    "ucb1": lambda _, seat: UCB1(seat.n_arms),
    "kl_ucb": lambda keys, seat: KLUCB(seat.n_arms, keys.number("c", 0.0, low=0, high=np.inf)),
    "beta_thompson": lambda keys, seat: BetaThompsonSampling(
        seat.n_arms, gamma=keys.number("gamma", 0.0, low=0, high=1)
    ),
}
