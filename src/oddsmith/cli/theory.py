"""`oddsmith bound --compare`: who has which bound, and what has to hold for it."""

import argparse
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from oddsmith import theory
from oddsmith.cli.costs import (
    DEFAULT_GAMMA,
    AlgorithmCost,
    gts,
    play,
    recorded,
    rewards,
    rivals,
    table,
    usual,
    why,
)
from oddsmith.cli.parser import Commands
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
    parser.add_argument(
        "--compare",
        action="store_true",
        help="all algorithms, what has to hold, and the lower bounds",
    )
    parser.add_argument(
        "--entropy",
        type=float,
        help="of the prior, in nats, with --compare (default: equal priors)",
    )


def comparison(asked: argparse.Namespace, assumed: str) -> str:
    """The bounds of all algorithms, as text or JSON; what was assumed is said at the
    end."""
    if (
        asked.plot is not None
        or asked.gamma is not None
        or asked.loss != "log"
        or asked.constants != "tight"
    ):
        raise InvalidInput(
            "compare has each algorithm with the settings of its own bound; "
            "leave out --loss, --gamma, --constants and --plot"
        )
    if len(asked.prior) > 1:
        raise InvalidInput(
            f"prior must be one number with compare; got {len(asked.prior)}"
        )
    steps, prior = asked.steps, asked.prior[0]
    size = {"n_arms": asked.arms, "steps": steps, "prior": prior}
    rows = theory.compare(**size, entropy=asked.entropy)
    if asked.json:
        return as_json(
            [{**row._asdict(), "says_nothing": row.says_nothing(steps)} for row in rows]
        )
    parts = [_answer(rows, **size), _table(rows, steps), _notes(asked.entropy)]
    return "\n\n".join([*parts, *([assumed] if assumed else [])])


def _answer(rows: list[Promise], *, n_arms: int, steps: float, prior: float) -> str:
    first, of = rows[0], f"of {steps:,.0f} rewards"
    if first.bound is None or first.says_nothing(steps):
        return (
            f"Nobody promises anything over {steps:,.0f} decisions for a truth whose "
            f"prior is {prior:g}."
        )
    gts = theory.better_bound(n_arms=n_arms, steps=steps, prior=prior)
    gamma = "without exploration" if gts.gamma == 0 else "with tuned gamma"
    promised = f"{rewards(gts.bound)} {gamma}" if gts.bound < steps else "nothing"
    sentence = (
        f"{first.algorithm} promises to lose at most {rewards(first.bound)} {of}, GTS "
        f"{promised}"
    )
    if gts.bound <= first.bound:
        sentence = (
            f"GTS {gamma} promises to lose at most {rewards(gts.bound)} {of}, and "
            "nobody less"
        )
    floor = theory.sampling_floor(steps=steps, prior=prior) if n_arms > 1 else 0.0
    if floor:
        sentence += (
            f", and no gamma brings GTS below {rewards(floor)} in its worst world"
        )
    return sentence + "."


def _table(rows: list[Promise], steps: float) -> str:
    """A block for each condition, in the order of the rows."""
    name, wide = (
        max(len(row.algorithm) for row in rows),
        max(len(row.formula) for row in rows),
    )
    blocks = []
    for applies, group in groupby(rows, key=lambda row: row.applies):
        lines = [f"{applies[0].upper()}{applies[1:]}:"]
        lines += [
            (
                f"  {row.algorithm:{name}}{_number(row, steps):>15}   "
                f"{row.formula:{wide}}  {row.status}"
            )
            for row in group
        ]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _number(row: Promise, steps: float) -> str:
    if row.bound is None:
        return "no constant"
    return "says nothing" if row.says_nothing(steps) else f"{row.bound:,.1f}"


def _notes(entropy: float | None) -> str:
    known = (
        "that of 1/p equally likely experts" if entropy is None else f"{entropy:g} nats"
    )
    return (
        "K arms, T decisions, p the truth's prior, L = ln(1/p), N = 1/p, H the "
        f"entropy of the prior, here {known}; L* is what the best arm costs in all. "
        "Formulas of GTS with tuned gamma are to leading order, its numbers are "
        "exact. A bound of T or more says nothing, nor does a lower bound whose "
        "condition fails. docs/math, section 9."
    )


_EPISODES, _MODELS, _ACTIONS = 1_000, 10, 2


def add_episodes(parser: argparse.ArgumentParser) -> None:
    """Add the options for episodes to the parser of `bound`."""
    parser.add_argument(
        "--horizon",
        type=int,
        metavar="H",
        help="steps of an episode: bounds for worlds of states",
    )
    parser.add_argument(
        "--episodes",
        type=float,
        help=f"number of episodes (default {_EPISODES:,}), with --horizon",
    )
    parser.add_argument(
        "--policies",
        type=int,
        metavar="G",
        help="distinct best policies of the models (default: all)",
    )
    parser.add_argument(
        "--states",
        type=int,
        metavar="S",
        help="number of states, where there are many policies",
    )


def episode_bounds(asked: argparse.Namespace) -> str:
    """Bounds of posterior sampling over models, as text or JSON; `--arms` are actions,
    `--experts` are models."""
    if (
        asked.plot is not None
        or asked.loss not in (None, "log")
        or asked.constants != "tight"
    ):
        raise InvalidInput(
            "bounds for episodes have log loss and no figure; leave out --loss, "
            "--constants and --plot"
        )
    if asked.compare:
        raise InvalidInput(
            "compare is for decisions without states; leave out --horizon, or --compare"
        )
    if asked.steps is not None:
        raise InvalidInput(
            "steps must not be given with horizon, the steps of an episode; give "
            "--episodes"
        )
    if asked.prior is not None and (asked.experts is not None or len(asked.prior) > 1):
        raise InvalidInput(
            "prior must be one number, without experts, of which it is one in so many"
        )
    models = whole("experts", _MODELS if asked.experts is None else asked.experts)
    prior = 1 / models if asked.prior is None else asked.prior[0]
    episodes, actions = asked.episodes or _EPISODES, asked.arms or _ACTIONS
    policies = (
        models if asked.policies is None and asked.prior is None else asked.policies
    )
    problem = {
        "horizon": asked.horizon,
        "n_actions": actions,
        "episodes": episodes,
        "policies": policies,
    }
    sized = {**problem, "n_states": asked.states, "prior": prior}
    rows = {"posterior sampling, gamma 0": theory.episode_bound(**sized)}
    if asked.gamma:
        name = f"posterior sampling, gamma {asked.gamma:g}"
        rows = {name: theory.episode_bound(**sized, gamma=asked.gamma), **rows}
    rows["Feel-Good"] = theory.episode_feelgood_bound(**sized)
    if asked.prior is None and (policies is not None or asked.horizon == 1):
        rows["PSRL, truth drawn from the prior"] = theory.posterior_sampling_bound(
            [prior] * models, **problem
        )
    if asked.json:
        return as_json(
            [
                {"algorithm": name, **found._asdict(), "terms": dict(found.terms)}
                for name, found in rows.items()
            ]
        )
    return "\n\n".join(
        [
            _answer_episode_bounds(rows, asked.horizon, episodes),
            _table_episode_bounds(rows),
            _applies(rows),
        ]
    )


def _answer_episode_bounds(
    rows: dict[str, Bound], horizon: int, episodes: float
) -> str:
    name = min(rows, key=lambda row: rows[row].bound)
    most, all_of_them = rows[name].bound, horizon * episodes
    if most >= all_of_them:
        return (
            f"For the worst case nothing is promised over {episodes:,.0f} episodes of "
            f"{horizon} steps"
        )
    return (
        f"In the worst case learning costs at most {rewards(most)} of "
        f"{all_of_them:,.0f} rewards, in {episodes:,.0f} episodes of {horizon} steps "
        f"({name})."
    )


def _table_episode_bounds(rows: dict[str, Bound]) -> str:
    width = max(map(len, rows))
    lines = [f"{'':{width}}{'at most':>16}{'eta':>10}{'gamma':>12}"]
    lines += [
        f"{name:{width}}{b.bound:16,.1f}{b.eta or 0:10.4g}{b.gamma or 0:12.4g}"
        for name, b in rows.items()
    ]
    return "\n".join([*lines, "Feel-Good has its optimism in the last column."])


def _applies(rows: dict[str, Bound]) -> str:
    return "\n".join(f"{name}: {found.applies}." for name, found in rows.items())


if TYPE_CHECKING:
    from oddsmith.lab.ordinary import OrdinaryWorld


# for people who do not know theirs; the answer says so
_ARMS, _STEPS, _EXPERTS = 5, 10_000, 10


def add_commands(commands: Commands) -> None:
    """Add the two commands to a parser."""
    bound = commands.add_parser(
        "bound", help="how many rewards learning costs: at most, and in a simulation"
    )
    _problem(
        bound,
        steps=f"number of decisions, the horizon (default {_STEPS:,})",
        several=True,
    )
    bound.add_argument(
        "--gamma",
        type=float,
        help="exploration; the one with the best bound if not given",
    )
    bound.add_argument(
        "--plot",
        type=Path,
        metavar="FILE",
        help="write a figure of bounds against the horizon",
    )
    add_comparison(bound)
    add_episodes(bound)
    bound.set_defaults(run=_bound)
    tune = commands.add_parser("tune", help="which eta and gamma, and what they cost")
    _problem(
        tune,
        steps="number of decisions (default: not known, gamma falls with the step)",
        several=False,
    )
    tune.set_defaults(run=_tune)


def _problem(parser: argparse.ArgumentParser, *, steps: str, several: bool) -> None:
    parser.add_argument(
        "--loss", help=f"{', '.join(LOSSES)}, or module:function (default log)"
    )
    parser.add_argument("--arms", type=int, help=f"number of arms (default {_ARMS})")
    parser.add_argument("--steps", type=float, help=steps)
    many = "+" if several else None
    parser.add_argument(
        "--prior", type=float, nargs=many, help="prior probability of the true expert"
    )
    parser.add_argument(
        "--experts",
        type=int,
        help=f"number of experts, if all are as likely (default {_EXPERTS})",
    )
    parser.add_argument(
        "--constants",
        choices=("tight", "paper"),
        default="tight",
        help="the paper's, or tight ones",
    )
    parser.add_argument(
        "--low",
        type=float,
        default=0.0,
        help="smallest prediction, for an own loss (default 0)",
    )
    parser.add_argument(
        "--high",
        type=float,
        default=1.0,
        help="largest prediction, for an own loss (default 1)",
    )
    parser.add_argument(
        "--beta",
        type=float,
        help="range of the log ratios, for log loss with the paper's constants",
    )
    parser.add_argument("--bounds-only", action="store_true", help="do not simulate")
    parser.add_argument(
        "--seed", type=int, default=0, help="of the simulation (default 0)"
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print JSON: an object, or a list for several priors",
    )


def _assume(asked: argparse.Namespace, *, steps: bool) -> str:
    """Fill in what was not given, and say so in a sentence; empty where all was."""
    if asked.prior is not None and asked.experts is not None:
        raise InvalidInput(
            "prior must not be given with experts, of which it is one in so many; got "
            "both"
        )
    if asked.experts is not None:
        whole("experts", asked.experts)
    missing = {
        "log loss": asked.loss is None,
        f"{_ARMS} arms": asked.arms is None,
        f"{_STEPS:,} decisions": steps and asked.steps is None,
        f"{_EXPERTS} experts that are equally likely": asked.prior is None
        and asked.experts is None,
    }
    asked.loss, asked.arms = (
        asked.loss or "log",
        _ARMS if asked.arms is None else asked.arms,
    )
    asked.steps = _STEPS if steps and asked.steps is None else asked.steps
    if asked.prior is None:
        asked.prior = 1 / (asked.experts or _EXPERTS)
    asked.prior = (
        [asked.prior] if steps and isinstance(asked.prior, float) else asked.prior
    )
    guesses = [what for what, is_missing in missing.items() if is_missing]
    return f"Not given, so assumed: {', '.join(guesses)}." if guesses else ""


def _own(asked: argparse.Namespace) -> AnyLoss:
    """The loss that was asked for; an own loss certified for its range of
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
            "entropy must come with compare, which alone uses it; got no --compare"
        )
    if (
        asked.episodes is not None
        or asked.policies is not None
        or asked.states is not None
    ):
        raise InvalidInput(
            "episodes, policies and states must come with horizon, the steps of an "
            "episode; got none"
        )
    if asked.compare:
        asked.loss = asked.loss or "log"  # each algorithm has its own
        return comparison(asked, _assume(asked, steps=True))
    assumed = _assume(asked, steps=True)
    loss, prior = _own(asked), asked.prior[0]
    problem = {"n_arms": asked.arms, "steps": asked.steps}
    settings = {"gamma": asked.gamma, "constants": asked.constants, "beta": asked.beta}
    bounds = [
        theory.regret_bound(loss, prior=p, **settings, **problem) for p in asked.prior
    ]
    if asked.plot is not None:
        from oddsmith.files.reports import plot_bounds

        plot_bounds(asked.plot, loss, priors=asked.prior, settings=settings, **problem)
    world = _world(asked, prior)
    name = f"GTS, {asked.constants} constants, prior "
    first = gts(
        f"{name}{prior:g}", loss, partial(theory.regret_bound, loss, **settings)
    )
    rows = play(
        [first, *usual(loss, but=asked.gamma), *rivals(loss)],
        world,
        {**problem, "prior": prior},
    )
    if asked.json:
        records = [
            {"prior": p, **_record(b)} for p, b in zip(asked.prior, bounds, strict=True)
        ]
        records[0] |= {"simulated": recorded(rows, world)}
        return as_json(records[0] if len(records) == 1 else records)
    others = [
        AlgorithmCost(f"{name}{p:g}", b)
        for p, b in zip(asked.prior[1:], bounds[1:], strict=True)
    ]
    parts = [
        _answer_theory(rows, asked.steps, world),
        table([rows[0], *others, *rows[1:]], asked.steps, world),
    ]
    parts += [] if world is None else [why(rows, world)]
    return "\n\n".join(
        [*parts, f"The first row {bounds[0].applies}.", *([assumed] if assumed else [])]
    )


def _answer_theory(
    rows: list[AlgorithmCost], steps: float, world: "OrdinaryWorld | None"
) -> str:
    """What a manager could read aloud."""
    bound, gamma = rows[0].bound.bound, f"gamma {rows[0].bound.gamma:.3g}"
    sentence = (
        f"In the worst case learning costs at most {rewards(bound)} of {steps:,.0f} "
        f"rewards (GTS, {gamma})"
    )
    if bound >= steps:
        sentence = (
            f"For the worst case nothing is promised over {steps:,.0f} decisions (GTS, "
            f"{gamma})"
        )
    return sentence + _beside("it", rows, steps, world) + "."


def _beside(
    what: str,
    rows: list[AlgorithmCost],
    steps: float | None,
    world: "OrdinaryWorld | None",
) -> str:
    """What the first row, called `what`, and the default cost in the world."""
    costs = {one.name: one.cost.mean for one in rows if one.cost is not None}
    if world is None or rows[0].here is None:
        return ""
    place = "in an ordinary world" + (
        "" if world.steps == steps else f", simulated for {world.steps:,} decisions,"
    )
    unit = "" if what == "it" else " rewards"  # which are named before
    cost = f"; {place} {what} cost {rewards(costs[rows[0].name])}{unit}"
    default = costs.get(f"GTS, gamma {DEFAULT_GAMMA:g}")
    return (
        cost
        if default is None
        else f"{cost}, and {rewards(default)} with gamma {DEFAULT_GAMMA:g}"
    )


def _tune(asked: argparse.Namespace) -> str:
    assumed = _assume(asked, steps=False)
    loss = _own(asked)
    settings = {"constants": asked.constants, "beta": asked.beta}
    tuning = theory.tune(
        loss, n_arms=asked.arms, steps=asked.steps, prior=asked.prior, **settings
    )
    endless = tuning.power > 0
    name = "GTS, falling gamma" if endless else "GTS, this gamma"
    bound = (
        partial(theory.anytime_bound, loss)
        if endless
        else partial(theory.regret_bound, loss, **settings)
    )
    world, steps = _world(asked, asked.prior), asked.steps or _STEPS
    rows = [gts(name, loss, bound, power=tuning.power), *usual(loss), *rivals(loss)[:1]]
    played = play(
        rows, world, {"n_arms": asked.arms, "steps": steps, "prior": asked.prior}
    )
    schedule = {"scale": tuning.gamma, "power": tuning.power} if endless else None
    if asked.json:
        answer = {
            "eta": tuning.eta,
            "gamma": None if endless else tuning.gamma,
            "schedule": schedule,
        }
        answer["bound"] = None if tuning.bound is None else tuning.bound.bound
        return as_json({**answer, "simulated": recorded(played, world)})
    gamma = (
        f"min(1, {tuning.gamma:.6g} · step^(-1/3))"
        if endless
        else f"{tuning.gamma:.6g}"
    )
    sentence = f"For the worst case take eta {tuning.eta:.4g} and gamma {gamma}"
    parts = [
        sentence + _beside("that", played, asked.steps, world) + ".",
        f"eta    {tuning.eta:.6g}\ngamma  {gamma}",
    ]
    parts += [
        table(played, steps, world),
        *([] if world is None else [why(played, world)]),
    ]
    return "\n\n".join(
        [
            *parts,
            f"The first row {played[0].bound.applies}.",
            *([assumed] if assumed else []),
        ]
    )


def _record(bound: Bound) -> dict[str, object]:
    return {**bound._asdict(), "terms": dict(bound.terms)}
