"""Kinds of policies in policy files. Each kind is a class or a recipe, whose parameters
are the keys of a table."""

from collections.abc import Callable
from functools import cache
from inspect import Parameter, signature
from typing import Any

import numpy as np

from oddsmith.core.arrays import simplex
from oddsmith.core.errors import InvalidInput, OddsmithError
from oddsmith.core.experts import Experts
from oddsmith.core.gts import GeneralizedThompsonSampling, PowerSchedule
from oddsmith.core.losses import LOSSES
from oddsmith.core.policy import Policy, check_policy
from oddsmith.files.build import BuildContext
from oddsmith.files.factories import from_factory
from oddsmith.files.keys import Keys
from oddsmith.policies import recipes
from oddsmith.policies.auto import auto
from oddsmith.policies.beta_thompson import BetaThompsonSampling
from oddsmith.policies.epoch_greedy import EpochGreedy
from oddsmith.policies.exp4 import EXP4
from oddsmith.policies.exp4p import EXP4P
from oddsmith.policies.fastcb import FastCB
from oddsmith.policies.glm_ucb import GLMUCB
from oddsmith.policies.kl_ucb import KLUCB
from oddsmith.policies.linear_thompson import LinearThompsonSampling, linear_class
from oddsmith.policies.linucb import LinUCB
from oddsmith.policies.logistic_thompson import LogisticThompsonSampling, logistic_class
from oddsmith.policies.particles import ParticleThompsonSampling
from oddsmith.policies.parts.families import LinearFamily, LogisticFamily
from oddsmith.policies.probit import ProbitThompsonSampling
from oddsmith.policies.rate_mixture import RateMixture
from oddsmith.policies.regressor_elimination import RegressorElimination
from oddsmith.policies.squarecb import SquareCB
from oddsmith.policies.ucb1 import UCB1
from oddsmith.policies.window import Windowed

__all__ = ["KINDS", "parameters", "read_policy_table", "settings"]

# Each kind has several constructors. The first one whose required settings are all in
# the table is used, otherwise the last.
KINDS: dict[str, tuple[Callable[..., Any], ...]] = {
    "gts": (GeneralizedThompsonSampling,),
    "tuned": (recipes.tuned,),
    "thompson_sampling": (recipes.thompson_sampling,),
    "feel_good": (recipes.feel_good,),
    "squarecb": (SquareCB, recipes.squarecb),
    "fastcb": (FastCB, recipes.fastcb),
    "exp4": (EXP4, recipes.exp4),
    "exp4p": (EXP4P,),
    "hedged": (recipes.hedged,),
    "rate_mixture": (RateMixture,),
    "regressor_elimination": (RegressorElimination,),
    "epoch_greedy": (EpochGreedy,),
    "epsilon_greedy": (recipes.epsilon_greedy,),
    "follow_the_leader": (recipes.follow_the_leader,),
    "uniform": (recipes.uniform,),
    "ucb1": (UCB1,),
    "kl_ucb": (KLUCB,),
    "beta_thompson": (BetaThompsonSampling,),
    "linucb": (LinUCB,),
    "glm_ucb": (GLMUCB,),
    "linear_thompson": (LinearThompsonSampling,),
    "linear_class": (linear_class,),
    "logistic_thompson": (LogisticThompsonSampling,),
    "logistic_class": (logistic_class,),
    "probit_thompson": (ProbitThompsonSampling,),
    "particles": (ParticleThompsonSampling,),
    "auto": (auto,),
    "python": (from_factory,),
}
_CANNOT = (
    "kind must support arms that are passed in the call, or the file must name its arms"
)
_FAMILIES = {"logistic": LogisticFamily(), "linear": LinearFamily()}
_BUILT = (
    "build",
    "experts",
    "models",
    "arms",
    "n_arms",
    "schema",
    "arm_schema",
)  # these arguments come from the build context, not from the table


def read_policy_table(keys: Keys, build: BuildContext) -> Policy:
    """Return the policy that a table describes: its kind, and the settings of the class
    or recipe.

    >>> from pathlib import Path
    >>> read_policy_table(
    ...     Keys({"kind": "kl_ucb", "c": 3.0}), BuildContext(Path(), ("a", "b"))
    ... )
    KLUCB(n_arms=2, c=3.0)
    """
    kind = keys.text("kind", "gts", choices=KINDS)
    try:
        policy = _built(KINDS[kind], keys, build)
        if (
            isinstance(policy, GeneralizedThompsonSampling)
            and keys.get("window", None) is not None
        ):
            policy = Windowed(policy, keys.get("window"))
    except OddsmithError as error:
        raise keys.blame(error) from error
    keys.close(_kind_of_setting)
    return policy


@cache
def parameters(kind: str) -> dict[str, Parameter]:
    """Return the parameters of a kind's class and recipe."""
    return {
        name: one
        for make in reversed(KINDS[kind])
        for name, one in signature(make).parameters.items()
    }


@cache
def settings(kind: str) -> tuple[str, ...]:
    """Return the keys of a table of this kind, besides `kind`.

    >>> settings("linear_class")
    ('dim', 'eta', 'gamma', 'ridge', 'rows_per_arm')
    """
    named = [name for name in parameters(kind) if name not in _BUILT]
    if "dim" in named and "n_arms" in parameters(kind):
        named.append("rows_per_arm")
    return (*named, "window") if kind == "gts" else tuple(named)


def _kind_of_setting() -> dict[str, str]:
    """Return the first kind with each setting, in the form used in messages."""
    kind_of: dict[str, str] = {}
    for kind in KINDS:
        for name in settings(kind):
            kind_of.setdefault(name, f'kind = "{kind}"')
    return kind_of


def _built(
    makers: tuple[Callable[..., Any], ...], keys: Keys, build: BuildContext
) -> Policy:
    *by_hand, last = makers
    make = next((one for one in by_hand if _required(one) <= set(keys.values)), last)
    for one in by_hand:
        for name in _required(one) - set(keys.values):
            keys.get(name, None)
    parameters = signature(make).parameters.items()
    given = {
        name: _READERS.get(name, _plain)(keys, build, one) for name, one in parameters
    }
    policy: Policy = make(**given)
    check_policy(policy)
    if build.arms is None and not policy.takes_offers:
        raise InvalidInput(f"{_CANNOT}; got {type(policy).__name__}")
    return policy


def _required(make: Callable[..., Any]) -> set[str]:
    taken = signature(make).parameters.values()
    return {
        one.name
        for one in taken
        if one.default is Parameter.empty and one.name not in _BUILT
    }


def _plain(keys: Keys, _: BuildContext, asked: Parameter) -> Any:
    """Return the value of a key unchanged; the class of the policy checks it later.
    Whole numbers, flags and words are checked here."""
    name, default = asked.name, asked.default
    if isinstance(default, bool):
        return keys.flag(name, default)
    if isinstance(default, int):
        return keys.whole(name, default, least=0, most=2**63 - 1)
    if isinstance(default, str):
        return keys.text(name, default)
    return keys.get(name) if default is Parameter.empty else keys.get(name, default)


def _steps(keys: Keys, build: BuildContext, asked: Parameter) -> int | None:
    default = asked.default if build.steps is None else build.steps
    if default is None and keys.get("steps", None) is None:
        return None
    return (
        keys.whole("steps")
        if default is Parameter.empty
        else keys.whole("steps", default)
    )


def _contexts(keys: Keys, build: BuildContext, _: Parameter) -> Any:
    if build.arms is None:
        raise InvalidInput(
            f"{_CANNOT}; got {keys.text('kind')!r}, whose sample of contexts needs a "
            "fixed set of arms"
        )
    return (
        keys.get("contexts")
        if build.contexts is None
        else keys.get("contexts", build.contexts)
    )


def _dim(keys: Keys, build: BuildContext, _: Parameter) -> int:
    if build.schema is not None or build.arm_schema is not None:
        return 0
    return keys.whole("dim", build.dim) if build.dim else keys.whole("dim")


def _n_arms(keys: Keys, build: BuildContext, asked: Parameter) -> int | None:
    shared = asked.default is None and keys.flag("rows_per_arm", build.rows_per_arm)
    if build.arms is not None:
        return None if shared else len(build.arms)
    if asked.default is not None:
        raise InvalidInput(f"{_CANNOT}; got {keys.text('kind')!r}, which counts by arm")
    return None


def _models(_: Keys, build: BuildContext, __: Parameter) -> Experts | None:
    """Return the experts of the file; None if it has none.

    Experts of a simulated world do not count as models: they read the number of a
    context, and learners read its features.
    """
    if not build.banks or build.in_world:
        return None
    return build.experts


def _loss(keys: Keys, _: BuildContext, asked: Parameter) -> Any:
    default = next(name for name, loss in LOSSES.items() if loss is asked.default)
    return LOSSES[keys.text("loss", default, choices=LOSSES)]


def _gamma(keys: Keys, _: BuildContext, asked: Parameter) -> Any:
    """Return gamma: a number in [0, 1], or { scale = …, power = … } for min(1, scale ·
    step^-power)."""
    if not isinstance(keys.get("gamma", asked.default), dict):
        return keys.get("gamma", asked.default)
    table = keys.table("gamma")
    scale = table.number("scale", low=0, high=1e9)
    power = table.number("power", 1 / 3, low=0, high=10)
    schedule = PowerSchedule(
        scale,
        power,
    )
    table.close()
    return schedule


def _prior(keys: Keys, build: BuildContext, _: Parameter) -> Any:
    """Return the N prior probabilities. The file lists them, or names experts with
    their shares, or gives each table a share that is divided within the table."""
    experts, given = build.experts, keys.get("prior", "tables")
    n = len(experts.names)
    if isinstance(given, list):
        return given
    if given == "uniform":
        return np.full(n, 1 / n)
    if given != "tables" and not isinstance(given, dict):
        raise InvalidInput(
            'prior must be "tables", "uniform", a list or a table of shares; got '
            f"{given!r:.60}"
        )
    table = Keys(
        dict.fromkeys(build.banks, 1 / len(build.banks))
        if given == "tables"
        else given,
        keys.named("prior"),
    )
    parts = []
    for name, bank in build.banks.items():
        if isinstance(table.get(name), dict):
            inner = table.table(name)
            parts.append(
                np.array(
                    [
                        inner.number(expert, low=0, high=1)
                        for expert in bank.experts.names
                    ]
                )
            )
            inner.close()
        else:
            parts.append(table.number(name, low=0, high=1) * bank.shares)
    table.close()
    return simplex("prior", np.concatenate(parts), n=n, over="experts")


_READERS: dict[str, Callable[[Keys, BuildContext, Parameter], Any]] = {
    "build": lambda _, build, __: build,
    "experts": lambda _, build, __: build.experts,
    "models": _models,
    "arms": lambda _, build, __: build.arms,
    "schema": lambda _, build, __: build.schema,
    "arm_schema": lambda _, build, __: build.arm_schema,
    "contexts": _contexts,
    "rows_per_arm": lambda keys, build, __: keys.flag(
        "rows_per_arm", build.rows_per_arm
    ),
    "family": lambda keys, _, __: _FAMILIES[
        keys.text("family", "logistic", choices=_FAMILIES)
    ],
    "n_arms": _n_arms,
    "steps": _steps,
    "dim": _dim,
    "loss": _loss,
    "gamma": _gamma,
    "prior": _prior,
}
