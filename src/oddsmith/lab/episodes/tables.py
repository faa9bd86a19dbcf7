"""Read the worlds and policies of an experiment file about episodes."""

from collections.abc import Callable
from typing import Any, NamedTuple

from oddsmith.core.errors import InvalidInput
from oddsmith.core.losses import LOSSES
from oddsmith.files.keys import Keys
from oddsmith.lab.episodes.conjugate import TabularPosteriorSampling
from oddsmith.lab.episodes.gps import GeneralizedPosteriorSampling
from oddsmith.lab.episodes.model import EpisodicModel
from oddsmith.lab.episodes.policy import EpisodicPolicy
from oddsmith.lab.episodes.q_learning import QLearning
from oddsmith.lab.episodes.world import EpisodicWorld, chain, random_model, riverswim

__all__ = ["EpisodeProblem", "read_episode_policy", "read_episode_problem"]


class EpisodeProblem(NamedTuple):
    """A world, and the candidate models for policies. The first model is right. There
    are no candidates if the world has only one model."""

    world: EpisodicWorld
    models: tuple[EpisodicModel, ...]


def read_episode_problem(keys: Keys) -> EpisodeProblem:
    """Return the world and the models that a table of an experiment file describes."""
    kind = keys.text("kind", choices=_WORLDS)
    start = keys.get("start", 0)
    try:
        models = _WORLDS[kind](keys)
        world = EpisodicWorld(models[0], start)
    except InvalidInput as error:
        raise keys.blame(error) from error
    keys.close()
    return EpisodeProblem(world, models if len(models) > 1 else ())


def _chain(keys: Keys) -> tuple[EpisodicModel, ...]:
    """Return a chain; the other models differ in the reward at its high end."""
    n_states = keys.whole("states", 3, least=2)
    horizon = keys.whole("horizon", 3)
    success = keys.number("success", 0.8, low=0, high=1)
    left = keys.number("left", 0.2, low=0, high=1)
    right = keys.get("right", 0.9)
    rights = [right, *_others(keys, "others", [0.1])]
    return tuple(
        chain(n_states, horizon=horizon, success=success, left=left, right=right)
        for right in rights
    )


def _riverswim(keys: Keys) -> tuple[EpisodicModel, ...]:
    """Return RiverSwim; the other models differ in the probability of moving up."""
    n_states = keys.whole("states", 6, least=3)
    horizon = keys.whole("horizon", 20)
    small = keys.number("small", 0.005, low=0, high=1)
    up = keys.get("up", 0.35)
    ups = [up, *_others(keys, "others", [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4])]
    return tuple(riverswim(n_states, horizon=horizon, up=up, small=small) for up in ups)


def _random(keys: Keys) -> tuple[EpisodicModel, ...]:
    """Return random models of the same size, determined by a seed; the first is
    right."""
    n_states = keys.whole("states", 4)
    n_actions = keys.whole("actions", 2)
    horizon = keys.whole("horizon", 3)
    seed = keys.whole("seed", 0, least=0)
    n_models = keys.whole("models", 8)
    return tuple(
        random_model(n_states, n_actions, horizon=horizon, seed=seed + i)
        for i in range(n_models)
    )


def _own_table(keys: Keys) -> tuple[EpisodicModel, ...]:
    """Return the model of the file with rewards (S, K) and transitions (S, K, S);
    `others` are tables of further models."""
    horizon = keys.whole("horizon")
    others = _others(keys, "others", [], kind=dict)
    models = [_own_model(keys, horizon)]
    models += [_own_model(Keys(other, "others"), horizon) for other in others]
    return tuple(models)


def _own_model(keys: Keys, horizon: int) -> EpisodicModel:
    rewards = keys.numbers("rewards", ndim=2)
    transitions = keys.numbers("transitions", ndim=3)
    return EpisodicModel.stationary(rewards, transitions, horizon=horizon)


def _others(
    keys: Keys, name: str, default: list[Any], kind: Any = (int, float)
) -> list[Any]:
    """Return a list of numbers, or of tables, that describes the other models."""
    values = keys.get(name, default)
    if not isinstance(values, list) or any(not isinstance(v, kind) for v in values):
        what = "numbers"
        if kind is dict:
            what = "tables with rewards and transitions"
        raise InvalidInput(f"{name} must be a list of {what}; got {values!r:.60}")
    return values


def read_episode_policy(keys: Keys, problem: EpisodeProblem) -> EpisodicPolicy:
    """Return the policy that a table describes, for this world."""
    kind = keys.text("kind", choices=_POLICIES)
    try:
        policy = _POLICIES[kind](keys, problem)
    except InvalidInput as error:
        raise keys.blame(error) from error
    keys.close()
    return policy


def _settings(keys: Keys, *names: str) -> dict[str, Any]:
    """Return the settings with these names that the table contains."""
    values = {name: keys.get(name, None) for name in names}
    return {name: value for name, value in values.items() if name in keys.values}


def _posterior_sampling(keys: Keys, problem: EpisodeProblem) -> EpisodicPolicy:
    if not problem.models:
        raise InvalidInput(
            "the world must have other models to choose from; got only one: use "
            "tabular_posterior_sampling"
        )
    loss = LOSSES[keys.text("loss", "log", choices=LOSSES)]
    settings = _settings(keys, "eta", "gamma", "prior", "optimism", "explore")
    return GeneralizedPosteriorSampling(list(problem.models), loss, **settings)


def _tabular(keys: Keys, problem: EpisodeProblem) -> EpisodicPolicy:
    model = problem.world.model
    names = ("draws", "seed", "eta", "gamma", "alpha", "wins", "losses")
    settings = _settings(keys, *names)
    return TabularPosteriorSampling(
        model.n_states, model.n_actions, horizon=model.horizon, **settings
    )


def _q_learning(keys: Keys, problem: EpisodeProblem) -> EpisodicPolicy:
    model = problem.world.model
    settings = _settings(keys, "epsilon", "initial")
    return QLearning(model.n_states, model.n_actions, horizon=model.horizon, **settings)


_WORLDS: dict[str, Callable[[Keys], tuple[EpisodicModel, ...]]] = {
    "chain": _chain,
    "riverswim": _riverswim,
    "random": _random,
    "table": _own_table,
}
_POLICIES: dict[str, Callable[[Keys, EpisodeProblem], EpisodicPolicy]] = {
    "posterior_sampling": _posterior_sampling,
    "tabular_posterior_sampling": _tabular,
    "q_learning": _q_learning,
}
