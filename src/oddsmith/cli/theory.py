"""`oddsmith bound | tune`: bounds on regret with their conditions, and recommended
settings."""

import argparse
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from oddsmith import theory
from oddsmith.cli.costs import (
    DEFAULT_GAMMA,
    AlgorithmCost,
    cost_record,
    gts,
    play,
    rewards,
    rivals,
    table,
    usual,
    why,
)
from oddsmith.cli.parser import Commands, add_command
from oddsmith.cli.words import as_json, checked_seed, loss_named
from oddsmith.core.arrays import whole
from oddsmith.core.errors import InvalidInput
from oddsmith.core.losses import LOSSES
from oddsmith.theory import Bound, Promise
from oddsmith.theory.coefficients import AnyLoss
from oddsmith.theory.constants import loss_name

__all__ = [
    "add_commands",
    "add_comparison",
    "add_episodes",
    "comparison",
    "episode_bounds",
]


def add_comparison(parser: argparse.ArgumentParser) -> None:
    """Add the options of the comparison to the parser of `bound`."""
    group = parser.add_argument_group("comparison of algorithms")
    group.add_argument(
        "--compare",
        action="store_true",
        help="compare the bounds of all algorithms, with their conditions, and the "
        "lower bounds",
    )
    group.add_argument(
        "--entropy",
        type=float,
        help="entropy of the prior in nats, with --compare (default: that of equal "
        "priors)",
    )


def comparison(asked: argparse.Namespace, assumed: str) -> str:
    """Return the bounds of all algorithms, as text or JSON. The text ends with the
    assumptions."""
    has_settings = asked.plot is not None or asked.gamma is not None
    if has_settings or asked.loss != "log" or asked.constants != "tight":
        raise InvalidInput(
            "compare shows each algorithm with the settings of its own bound; leave "
            "out --loss, --gamma, --constants and --plot"
        )
    if len(asked.prior) > 1:
        raise InvalidInput(
            f"prior must be one number with compare; got {len(asked.prior)}"
        )
    steps = asked.steps
    size = {"n_arms": asked.arms, "steps": steps, "prior": asked.prior[0]}
    rows = theory.compare(**size, entropy=asked.entropy)
    if asked.json:
        records = []
        for row in rows:
            says_nothing = row.says_nothing(steps)
            records.append({**row._asdict(), "says_nothing": says_nothing})
        return as_json(records)
    parts = [_answer(rows, **size), _table(rows, steps), _notes(asked.entropy), assumed]
    return "\n\n".join(filter(None, parts))


def _answer(rows: list[Promise], *, n_arms: int, steps: float, prior: float) -> str:
    first = rows[0]
    if first.bound is None or first.says_nothing(steps):
        return (
            f"No algorithm has a bound below {steps:,.0f} decisions if the right "
            f"expert's prior is {prior:g}."
        )
    of_all = f"of {steps:,.0f} rewards"
    gts = theory.better_bound(n_arms=n_arms, steps=steps, prior=prior)
    gamma = "without exploration" if gts.gamma == 0 else "with tuned gamma"
    if gts.bound <= first.bound:
        sentence = (
            f"GTS {gamma} loses at most {rewards(gts.bound)} {of_all}, the smallest "
            "bound of all"
        )
    else:
        promise = "nothing"
        if gts.bound < steps:
            promise = f"{rewards(gts.bound)} {gamma}"
        sentence = (
            f"{first.algorithm} loses at most {rewards(first.bound)} {of_all}, GTS "
            f"{promise}"
        )
    floor = 0.0
    if n_arms > 1:
        floor = theory.sampling_floor(steps=steps, prior=prior)
    if floor:
        sentence += (
            f", and for every gamma GTS loses at least {rewards(floor)} in its worst "
            "world"
        )
    return sentence + "."


def _table(rows: list[Promise], steps: float) -> str:
    """Format a block of rows for each condition, in the order of the rows."""
    width = max(len(row.algorithm) for row in rows)
    formula_width = max(len(row.formula) for row in rows)
    blocks = []
    for applies, group in groupby(rows, key=lambda row: row.applies):
        lines = [f"{applies[0].upper()}{applies[1:]}:"]
        for row in group:
            lines.append(
                f"  {row.algorithm:{width}}{_number(row, steps):>15}   "
                f"{row.formula:{formula_width}}  {row.status}"
            )
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _number(row: Promise, steps: float) -> str:
    if row.bound is None:
        return "no constant"
    return "says nothing" if row.says_nothing(steps) else f"{row.bound:,.1f}"


def _notes(entropy: float | None) -> str:
    known = "that of 1/p equally likely experts"
    if entropy is not None:
        known = f"{entropy:g} nats"
    return (
        "K arms, T decisions, p the right expert's prior, L = ln(1/p), N = 1/p, H "
        f"the entropy of the prior, here {known}; L* is the total cost of the best "
        "arm. Formulas of GTS with tuned gamma are to leading order, its numbers are "
        "exact. A bound of T or more gives no information, nor does a lower bound "
        "whose condition fails. docs/math, section 9."
    )


_EPISODES, _MODELS, _ACTIONS = 1_000, 10, 2


def add_episodes(parser: argparse.ArgumentParser) -> None:
    """Add the options for episodes to the parser of `bound`."""
    group = parser.add_argument_group("episodes, in worlds with states")
    group.add_argument(
        "--horizon", type=int, metavar="H", help="steps of an episode (default: none)"
    )
    group.add_argument(
        "--episodes",
        type=float,
        help=f"number of episodes (default {_EPISODES:,}), with --horizon",
    )
    group.add_argument(
        "--policies",
        type=int,
        metavar="G",
        help="number of distinct best policies of the models (default: all)",
    )
    group.add_argument(
        "--states",
        type=int,
        metavar="S",
        help="number of states, if there are many policies",
    )


def episode_bounds(asked: argparse.Namespace) -> str:
    """Return bounds of posterior sampling over models, as text or JSON. `--arms` are
    actions, `--experts` are models."""
    _check_episodes(asked)
    models = whole("experts", _MODELS if asked.experts is None else asked.experts)
    prior = 1 / models
    policies = asked.policies
    if asked.prior is not None:
        prior = asked.prior[0]
    elif policies is None:
        policies = models
    episodes = asked.episodes or _EPISODES
    problem = {
        "horizon": asked.horizon,
        "n_actions": asked.arms or _ACTIONS,
        "episodes": episodes,
        "policies": policies,
    }
    sized = {**problem, "n_states": asked.states, "prior": prior}
    rows = {}
    if asked.gamma:
        name = f"posterior sampling, gamma {asked.gamma:g}"
        rows[name] = theory.episode_bound(**sized, gamma=asked.gamma)
    rows["posterior sampling, gamma 0"] = theory.episode_bound(**sized)
    rows["Feel-Good"] = theory.episode_feelgood_bound(**sized)
    if asked.prior is None and (policies is not None or asked.horizon == 1):
        rows["PSRL, right model drawn from the prior"] = (
            theory.posterior_sampling_bound([prior] * models, **problem)
        )
    if asked.json:
        return as_json([{"algorithm": name} | _record(b) for name, b in rows.items()])
    answer = _answer_episode_bounds(rows, asked.horizon, episodes)
    conditions = "\n".join(f"{name}: {b.applies}." for name, b in rows.items())
    return "\n\n".join([answer, _table_episode_bounds(rows), conditions])


def _check_episodes(asked: argparse.Namespace) -> None:
    """Reject options of `bound` that do not apply to episodes."""
    has_loss = asked.loss not in (None, "log") or asked.constants != "tight"
    if has_loss or asked.plot is not None:
        raise InvalidInput(
            "bounds for episodes use log loss and have no figure; leave out --loss, "
            "--constants and --plot"
        )
    if asked.compare:
        raise InvalidInput(
            "compare works only for decisions without states; leave out --horizon or "
            "--compare"
        )
    if asked.steps is not None:
        raise InvalidInput(
            "steps must not be given with horizon, the steps of an episode; give "
            "--episodes"
        )
    if asked.prior is not None and (asked.experts is not None or len(asked.prior) > 1):
        raise InvalidInput(
            "prior must be one number, without experts: with N experts it is 1 / N"
        )


def _answer_episode_bounds(
    rows: dict[str, Bound], horizon: int, episodes: float
) -> str:
    name = min(rows, key=lambda row: rows[row].bound)
    bound = rows[name].bound
    total = horizon * episodes
    if bound >= total:
        return (
            f"In the worst case there is no useful bound over {episodes:,.0f} "
            f"episodes of {horizon} steps"
        )
    return (
        f"In the worst case learning costs at most {rewards(bound)} of {total:,.0f} "
        f"rewards, in {episodes:,.0f} episodes of {horizon} steps ({name})."
    )


def _table_episode_bounds(rows: dict[str, Bound]) -> str:
    width = max(map(len, rows))
    lines = [f"{'':{width}}{'at most':>16}{'eta':>10}{'gamma':>12}"]
    for name, row in rows.items():
        eta = row.eta or 0
        gamma = row.gamma or 0
        lines.append(f"{name:{width}}{row.bound:16,.1f}{eta:10.4g}{gamma:12.4g}")
    lines.append("Feel-Good has its optimism in the last column.")
    return "\n".join(lines)


if TYPE_CHECKING:
    from oddsmith.lab.ordinary import OrdinaryWorld


# Defaults. The output states them.
_ARMS, _STEPS, _EXPERTS = 5, 10_000, 10


def add_commands(commands: Commands) -> None:
    """Add the two commands to a parser."""
    bound = add_command(
        commands,
        "bound",
        "compute how many rewards learning costs: a bound and a simulation",
        "oddsmith bound --arms 5 --steps 1e6 --experts 20",
    )
    _problem(
        bound,
        steps=f"number of decisions, the horizon (default {_STEPS:,})",
        several=True,
    )
    bound.add_argument(
        "--gamma",
        type=float,
        help="exploration (default: the gamma with the best bound)",
    )
    bound.add_argument(
        "--plot",
        type=Path,
        metavar="FILE",
        help="write a figure of bounds against the horizon (.png, .svg, .pdf)",
    )
    add_comparison(bound)
    add_episodes(bound)
    bound.set_defaults(run=_bound)
    tune = add_command(
        commands,
        "tune",
        "choose eta and gamma, with their cost",
        "oddsmith tune --arms 5 --steps 1e6 --experts 20",
    )
    _problem(
        tune,
        steps="number of decisions (default: unknown; gamma then decreases with the "
        "step)",
        several=False,
    )
    tune.set_defaults(run=_tune)


def _problem(parser: argparse.ArgumentParser, *, steps: str, several: bool) -> None:
    parser.add_argument("--arms", type=int, help=f"number of arms (default {_ARMS})")
    parser.add_argument("--steps", type=float, help=steps)
    parser.add_argument(
        "--experts",
        type=int,
        help=f"number of experts, if all are equally likely (default {_EXPERTS})",
    )
    parser.add_argument(
        "--prior",
        type=float,
        nargs="+" if several else None,
        help="prior probability of the right expert (default: 1 / experts)",
    )
    loss = parser.add_argument_group("loss")
    loss.add_argument(
        "--loss", help=f"{', '.join(LOSSES)}, or module:function (default log)"
    )
    loss.add_argument(
        "--low",
        type=float,
        default=0.0,
        help="smallest prediction for your own loss (default 0)",
    )
    loss.add_argument(
        "--high",
        type=float,
        default=1.0,
        help="largest prediction for your own loss (default 1)",
    )
    loss.add_argument(
        "--constants",
        choices=("tight", "paper"),
        default="tight",
        help="tight constants (default), or those of the paper",
    )
    loss.add_argument(
        "--beta",
        type=float,
        help="range of the log ratios, for log loss with the paper's constants",
    )
    output = parser.add_argument_group("simulation and output")
    output.add_argument("--bounds-only", action="store_true", help="do not simulate")
    output.add_argument(
        "--seed", type=int, default=0, help="seed of the simulation (default 0)"
    )
    output.add_argument(
        "--json",
        action="store_true",
        help="print JSON: an object, or a list for several priors",
    )


def _assume(asked: argparse.Namespace, *, steps: bool) -> str:
    """Set missing options to their defaults. Return a sentence that names the defaults
    used, or "" if no option is missing."""
    if asked.prior is not None and asked.experts is not None:
        raise InvalidInput(
            "prior must not be given with experts: with N experts it is 1 / N; got both"
        )
    if asked.experts is not None:
        whole("experts", asked.experts)
    guesses = []
    if asked.loss is None:
        guesses.append("log loss")
        asked.loss = "log"
    if asked.arms is None:
        guesses.append(f"{_ARMS} arms")
        asked.arms = _ARMS
    if steps and asked.steps is None:
        guesses.append(f"{_STEPS:,} decisions")
        asked.steps = _STEPS
    if asked.prior is None:
        if asked.experts is None:
            guesses.append(f"{_EXPERTS} experts that are equally likely")
        asked.prior = 1 / (asked.experts or _EXPERTS)
        if steps:
            asked.prior = [asked.prior]
    return f"Not given, so assumed: {', '.join(guesses)}." if guesses else ""


def _own(asked: argparse.Namespace) -> AnyLoss:
    """Return the loss of --loss. A user's own loss is certified for its range of
    predictions."""
    loss = loss_named(asked.loss)
    if loss_name(loss) != "own":
        return loss
    return theory.certify(loss, asked.low, asked.high)


def _world(asked: argparse.Namespace, prior: float) -> "OrdinaryWorld | None":
    if asked.bounds_only:
        return None
    from oddsmith.lab.ordinary import OrdinaryWorld

    steps = _STEPS if asked.steps is None else asked.steps
    return OrdinaryWorld.sized(
        n_arms=asked.arms,
        steps=steps,
        prior=prior,
        seed=checked_seed(asked.seed),
        low=asked.low,
        high=asked.high,
    )


def _bound(asked: argparse.Namespace) -> str:
    if asked.horizon is not None:
        return episode_bounds(asked)
    if asked.entropy is not None and not asked.compare:
        raise InvalidInput(
            "entropy must be given together with compare, because only compare uses "
            "it; got no --compare"
        )
    of_episodes = (asked.episodes, asked.policies, asked.states)
    if any(option is not None for option in of_episodes):
        raise InvalidInput(
            "episodes, policies and states must be given together with horizon, the "
            "steps of an episode; got no --horizon"
        )
    if asked.compare:
        asked.loss = asked.loss or "log"  # each algorithm has its own default loss
        return comparison(asked, _assume(asked, steps=True))
    assumed = _assume(asked, steps=True)
    loss = _own(asked)
    prior, *other_priors = asked.prior
    problem = {"n_arms": asked.arms, "steps": asked.steps}
    settings = {"gamma": asked.gamma, "constants": asked.constants, "beta": asked.beta}
    bound = partial(theory.regret_bound, loss, **settings)
    others = [bound(prior=other, **problem) for other in other_priors]
    if asked.plot is not None:
        from oddsmith.files.reports import plot_bounds

        plot_bounds(asked.plot, loss, priors=asked.prior, settings=settings, **problem)
    world = _world(asked, prior)
    name = f"GTS, {asked.constants} constants, prior "
    algorithms = [gts(f"{name}{prior:g}", loss, bound)]
    algorithms += usual(loss, but=asked.gamma)
    algorithms += rivals(loss)
    first, *rows = play(algorithms, world, {**problem, "prior": prior})
    if asked.json:
        record = {"prior": prior} | _record(first.bound)
        record["simulated"] = cost_record([first, *rows], world)
        if not others:
            return as_json(record)
        pairs = zip(other_priors, others, strict=True)
        return as_json([record, *({"prior": p} | _record(b) for p, b in pairs)])
    lines = [first]
    for other, found in zip(other_priors, others, strict=True):
        lines.append(AlgorithmCost(f"{name}{other:g}", found))
    parts = [
        _answer_theory([first, *rows], asked.steps, world),
        table([*lines, *rows], asked.steps, world),
    ]
    if world is not None:
        parts.append(why([first, *rows], world))
    parts.append(f"The first row {first.bound.applies}.")
    return "\n\n".join(filter(None, [*parts, assumed]))


def _answer_theory(
    rows: list[AlgorithmCost], steps: float, world: "OrdinaryWorld | None"
) -> str:
    """Return the bound and the simulated cost as one sentence."""
    first = rows[0].bound
    gamma = f"gamma {first.gamma:.3g}"
    sentence = (
        f"In the worst case learning costs at most {rewards(first.bound)} of "
        f"{steps:,.0f} rewards (GTS, {gamma})"
    )
    if first.bound >= steps:
        sentence = (
            f"In the worst case there is no useful bound over {steps:,.0f} decisions "
            f"(GTS, {gamma})"
        )
    return sentence + _beside("it", rows, steps, world) + "."


def _beside(
    what: str,
    rows: list[AlgorithmCost],
    steps: float | None,
    world: "OrdinaryWorld | None",
) -> str:
    """Return the simulated costs of the first row, called `what`, and of the default
    exploration."""
    first = rows[0]
    if world is None or first.cost is None:
        return ""
    place = "in a simulated world"
    if world.steps != steps:
        place += f", simulated for {world.steps:,} decisions,"
    unit = "" if what == "it" else " rewards"  # "it" refers to a number of rewards
    text = f"; {place} {what} cost {rewards(first.cost.mean)}{unit}"
    for row in rows:
        if row.name == f"GTS, gamma {DEFAULT_GAMMA:g}" and row.cost is not None:
            text += f", and {rewards(row.cost.mean)} with gamma {DEFAULT_GAMMA:g}"
    return text


def _tune(asked: argparse.Namespace) -> str:
    assumed = _assume(asked, steps=False)
    loss = _own(asked)
    settings = {"constants": asked.constants, "beta": asked.beta}
    tuning = theory.tune(
        loss, n_arms=asked.arms, steps=asked.steps, prior=asked.prior, **settings
    )
    is_falling = tuning.power > 0
    name = "GTS, this gamma"
    bound = partial(theory.regret_bound, loss, **settings)
    gamma = f"{tuning.gamma:.6g}"
    if is_falling:
        name = "GTS, falling gamma"
        bound = partial(theory.anytime_bound, loss)
        gamma = f"min(1, {tuning.gamma:.6g} · step^(-1/3))"
    world = _world(asked, asked.prior)
    steps = asked.steps or _STEPS
    served = gts(name, loss, bound, power=tuning.power)
    rows = [served, *usual(loss), *rivals(loss)[:1]]
    problem = {"n_arms": asked.arms, "steps": steps, "prior": asked.prior}
    costs = play(rows, world, problem)
    if asked.json:
        schedule = {"scale": tuning.gamma, "power": tuning.power}
        return as_json(
            {
                "eta": tuning.eta,
                "gamma": None if is_falling else tuning.gamma,
                "schedule": schedule if is_falling else None,
                "bound": None if tuning.bound is None else tuning.bound.bound,
                "simulated": cost_record(costs, world),
            }
        )
    parts = [
        f"For the worst case use eta {tuning.eta:.4g} and gamma "
        f"{gamma}{_beside('that', costs, asked.steps, world)}.",
        f"eta    {tuning.eta:.6g}\ngamma  {gamma}",
        table(costs, steps, world),
    ]
    if world is not None:
        parts.append(why(costs, world))
    parts.append(f"The first row {costs[0].bound.applies}.")
    return "\n\n".join(filter(None, [*parts, assumed]))


def _record(bound: Bound) -> dict[str, object]:
    return {**bound._asdict(), "terms": dict(bound.terms)}
