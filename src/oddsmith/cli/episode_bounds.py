"""`oddsmith bound --horizon H`: what learning costs at most where a decision has states and steps behind it."""

import argparse

from oddsmith import theory
from oddsmith.arrays import whole
from oddsmith.cli.costs import rewards
from oddsmith.cli.words import as_json
from oddsmith.errors import InvalidInput
from oddsmith.theory import Bound

__all__ = ["add_episodes", "episode_bounds"]

_EPISODES, _MODELS, _ACTIONS = 1_000, 10, 2


def add_episodes(parser: argparse.ArgumentParser) -> None:
    """Add the options for episodes to the parser of `bound`."""
    parser.add_argument("--horizon", type=int, metavar="H", help="steps of an episode: bounds for worlds of states")
    parser.add_argument("--episodes", type=float, help=f"number of episodes (default {_EPISODES:,}), with --horizon")
    parser.add_argument("--policies", type=int, metavar="G", help="distinct best policies of the models (default: all)")
    parser.add_argument("--states", type=int, metavar="S", help="number of states, where there are many policies")


def episode_bounds(asked: argparse.Namespace) -> str:
    """Bounds of posterior sampling over models, as text or JSON; `--arms` are actions, `--experts` are models."""
    if asked.plot is not None or asked.loss not in (None, "log") or asked.constants != "tight":
        raise InvalidInput("bounds for episodes have log loss and no figure; leave out --loss, --constants and --plot")
    if asked.compare:
        raise InvalidInput("compare is for decisions without states; leave out --horizon, or --compare")
    if asked.steps is not None:
        raise InvalidInput("steps must not be given with horizon, the steps of an episode; give --episodes")
    if asked.prior is not None and (asked.experts is not None or len(asked.prior) > 1):
        raise InvalidInput("prior must be one number, without experts, of which it is one in so many")
    models = whole("experts", _MODELS if asked.experts is None else asked.experts)
    prior = 1 / models if asked.prior is None else asked.prior[0]
    episodes, actions = asked.episodes or _EPISODES, asked.arms or _ACTIONS
    policies = models if asked.policies is None and asked.prior is None else asked.policies
    problem = {"horizon": asked.horizon, "n_actions": actions, "episodes": episodes, "policies": policies}
    sized = {**problem, "n_states": asked.states, "prior": prior}
    rows = {"posterior sampling, gamma 0": theory.episode_bound(**sized)}
    if asked.gamma:
        name = f"posterior sampling, gamma {asked.gamma:g}"
        rows = {name: theory.episode_bound(**sized, gamma=asked.gamma), **rows}
    rows["Feel-Good"] = theory.episode_feelgood_bound(**sized)
    if asked.prior is None and (policies is not None or asked.horizon == 1):
        rows["PSRL, truth drawn from the prior"] = theory.posterior_sampling_bound([prior] * models, **problem)
    if asked.json:
        return as_json(
            [{"algorithm": name, **found._asdict(), "terms": dict(found.terms)} for name, found in rows.items()]
        )
    return "\n\n".join([_answer(rows, asked.horizon, episodes), _table(rows), _applies(rows)])


def _answer(rows: dict[str, Bound], horizon: int, episodes: float) -> str:
    name = min(rows, key=lambda row: rows[row].bound)
    most, all_of_them = rows[name].bound, horizon * episodes
    if most >= all_of_them:
        return f"For the worst case nothing is promised over {episodes:,.0f} episodes of {horizon} steps"
    return (
        f"In the worst case learning costs at most {rewards(most)} of {all_of_them:,.0f} rewards, in {episodes:,.0f} "
        f"episodes of {horizon} steps ({name})."
    )


def _table(rows: dict[str, Bound]) -> str:
    width = max(map(len, rows))
    lines = [f"{'':{width}}{'at most':>16}{'eta':>10}{'gamma':>12}"]
    lines += [f"{name:{width}}{b.bound:16,.1f}{b.eta or 0:10.4g}{b.gamma or 0:12.4g}" for name, b in rows.items()]
    return "\n".join([*lines, "Feel-Good has its optimism in the last column."])


def _applies(rows: dict[str, Bound]) -> str:
    return "\n".join(f"{name}: {found.applies}." for name, found in rows.items())
