"""`oddsmith bound | tune`: what learning costs at most, what it costs in an ordinary world, and which eta and gamma."""

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from oddsmith import theory
from oddsmith.arrays import whole
from oddsmith.cli.comparison import add_comparison, comparison
from oddsmith.cli.costs import DEFAULT_GAMMA, AlgorithmCost, gts, play, recorded, rewards, rivals, table, usual, why
from oddsmith.cli.episode_bounds import add_episodes, episode_bounds
from oddsmith.cli.parser import Commands
from oddsmith.cli.words import as_json, checked_seed, loss_named
from oddsmith.errors import InvalidInput
from oddsmith.theory import Bound
from oddsmith.theory.coefficients import AnyLoss

if TYPE_CHECKING:
    from oddsmith.lab.ordinary import OrdinaryWorld

__all__ = ["add_commands"]

_ARMS, _STEPS, _EXPERTS = 5, 10_000, 10  # for people who do not know theirs; the answer says so


def add_commands(commands: Commands) -> None:
    """Add the two commands to a parser."""
    bound = commands.add_parser("bound", help="how many rewards learning costs: at most, and in a simulation")
    _problem(bound, steps=f"number of decisions, the horizon (default {_STEPS:,})", several=True)
    bound.add_argument("--gamma", type=float, help="exploration; the one with the best bound if not given")
    bound.add_argument("--plot", type=Path, metavar="FILE", help="write a figure of bounds against the horizon")
    add_comparison(bound)
    add_episodes(bound)
    bound.set_defaults(run=_bound)
    tune = commands.add_parser("tune", help="which eta and gamma, and what they cost")
    _problem(tune, steps="number of decisions (default: not known, gamma falls with the step)", several=False)
    tune.set_defaults(run=_tune)


def _problem(parser: argparse.ArgumentParser, *, steps: str, several: bool) -> None:
    parser.add_argument("--loss", help="log (default), square, or module:function")
    parser.add_argument("--arms", type=int, help=f"number of arms (default {_ARMS})")
    parser.add_argument("--steps", type=float, help=steps)
    many = "+" if several else None
    parser.add_argument("--prior", type=float, nargs=many, help="prior probability of the true expert")
    parser.add_argument("--experts", type=int, help=f"number of experts, if all are as likely (default {_EXPERTS})")
    parser.add_argument("--constants", choices=("tight", "paper"), default="tight", help="the paper's, or tight ones")
    parser.add_argument("--low", type=float, default=0.0, help="smallest prediction, for an own loss (default 0)")
    parser.add_argument("--high", type=float, default=1.0, help="largest prediction, for an own loss (default 1)")
    parser.add_argument("--beta", type=float, help="range of the log ratios, for log loss with the paper's constants")
    parser.add_argument("--bounds-only", action="store_true", help="do not simulate")
    parser.add_argument("--seed", type=int, default=0, help="of the simulation (default 0)")
    parser.add_argument("--json", action="store_true", help="print JSON: an object, or a list for several priors")


def _assume(asked: argparse.Namespace, *, steps: bool) -> str:
    """Fill in what was not given, and say so in a sentence; empty where all was."""
    if asked.prior is not None and asked.experts is not None:
        raise InvalidInput("prior must not be given with experts, of which it is one in so many; got both")
    if asked.experts is not None:
        whole("experts", asked.experts)
    missing = {
        "log loss": asked.loss is None,
        f"{_ARMS} arms": asked.arms is None,
        f"{_STEPS:,} decisions": steps and asked.steps is None,
        f"{_EXPERTS} experts that are equally likely": asked.prior is None and asked.experts is None,
    }
    asked.loss, asked.arms = asked.loss or "log", _ARMS if asked.arms is None else asked.arms
    asked.steps = _STEPS if steps and asked.steps is None else asked.steps
    if asked.prior is None:
        asked.prior = 1 / (asked.experts or _EXPERTS)
    asked.prior = [asked.prior] if steps and isinstance(asked.prior, float) else asked.prior
    guesses = [what for what, is_missing in missing.items() if is_missing]
    return f"Not given, so assumed: {', '.join(guesses)}." if guesses else ""


def _own(asked: argparse.Namespace) -> AnyLoss:
    """The loss that was asked for; an own loss certified for its range of predictions."""
    loss = loss_named(asked.loss)
    return loss if isinstance(loss, str) else theory.certify(loss, asked.low, asked.high)


def _world(asked: argparse.Namespace, prior: float) -> "OrdinaryWorld | None":
    if asked.bounds_only:
        return None
    from oddsmith.lab.ordinary import OrdinaryWorld

    steps = _STEPS if asked.steps is None else asked.steps
    return OrdinaryWorld.sized(
        n_arms=asked.arms, steps=steps, prior=prior, seed=checked_seed(asked.seed), low=asked.low, high=asked.high
    )


def _bound(asked: argparse.Namespace) -> str:
    if asked.horizon is not None:
        return episode_bounds(asked)
    if asked.entropy is not None and not asked.compare:
        raise InvalidInput("entropy must come with compare, which alone uses it; got no --compare")
    if asked.episodes is not None or asked.policies is not None or asked.states is not None:
        raise InvalidInput("episodes, policies and states must come with horizon, the steps of an episode; got none")
    if asked.compare:
        asked.loss = asked.loss or "log"  # each algorithm has its own
        return comparison(asked, _assume(asked, steps=True))
    assumed = _assume(asked, steps=True)
    loss, prior = _own(asked), asked.prior[0]
    problem = {"n_arms": asked.arms, "steps": asked.steps}
    settings = {"gamma": asked.gamma, "constants": asked.constants, "beta": asked.beta}
    bounds = [theory.regret_bound(loss, prior=p, **settings, **problem) for p in asked.prior]
    if asked.plot is not None:
        from oddsmith.reports import plot_bounds

        plot_bounds(asked.plot, loss, priors=asked.prior, settings=settings, **problem)
    world = _world(asked, prior)
    name = f"GTS, {asked.constants} constants, prior "
    first = gts(f"{name}{prior:g}", loss, partial(theory.regret_bound, loss, **settings))
    rows = play([first, *usual(loss, but=asked.gamma), *rivals(loss)], world, {**problem, "prior": prior})
    if asked.json:
        records = [{"prior": p, **_record(b)} for p, b in zip(asked.prior, bounds, strict=True)]
        records[0] |= {"simulated": recorded(rows, world)}
        return as_json(records[0] if len(records) == 1 else records)
    others = [AlgorithmCost(f"{name}{p:g}", b) for p, b in zip(asked.prior[1:], bounds[1:], strict=True)]
    parts = [_answer(rows, asked.steps, world), table([rows[0], *others, *rows[1:]], asked.steps, world)]
    parts += [] if world is None else [why(rows, world)]
    return "\n\n".join([*parts, f"The first row {bounds[0].applies}.", *([assumed] if assumed else [])])


def _answer(rows: list[AlgorithmCost], steps: float, world: "OrdinaryWorld | None") -> str:
    """What a manager could read aloud."""
    bound, gamma = rows[0].bound.bound, f"gamma {rows[0].bound.gamma:.3g}"
    sentence = f"In the worst case learning costs at most {rewards(bound)} of {steps:,.0f} rewards (GTS, {gamma})"
    if bound >= steps:
        sentence = f"For the worst case nothing is promised over {steps:,.0f} decisions (GTS, {gamma})"
    return sentence + _beside("it", rows, steps, world) + "."


def _beside(what: str, rows: list[AlgorithmCost], steps: float | None, world: "OrdinaryWorld | None") -> str:
    """What the first row, called `what`, and the default cost in the world."""
    costs = {one.name: one.cost.mean for one in rows if one.cost is not None}
    if world is None or rows[0].here is None:
        return ""
    place = "in an ordinary world" + ("" if world.steps == steps else f", simulated for {world.steps:,} decisions,")
    unit = "" if what == "it" else " rewards"  # which are named before
    cost = f"; {place} {what} cost {rewards(costs[rows[0].name])}{unit}"
    default = costs.get(f"GTS, gamma {DEFAULT_GAMMA:g}")
    return cost if default is None else f"{cost}, and {rewards(default)} with gamma {DEFAULT_GAMMA:g}"


def _tune(asked: argparse.Namespace) -> str:
    assumed = _assume(asked, steps=False)
    loss = _own(asked)
    settings = {"constants": asked.constants, "beta": asked.beta}
    tuning = theory.tune(loss, n_arms=asked.arms, steps=asked.steps, prior=asked.prior, **settings)
    endless = tuning.power > 0
    name = "GTS, falling gamma" if endless else "GTS, this gamma"
    bound = partial(theory.anytime_bound, loss) if endless else partial(theory.regret_bound, loss, **settings)
    world, steps = _world(asked, asked.prior), asked.steps or _STEPS
    rows = [gts(name, loss, bound, power=tuning.power), *usual(loss), *rivals(loss)[:1]]
    played = play(rows, world, {"n_arms": asked.arms, "steps": steps, "prior": asked.prior})
    schedule = {"scale": tuning.gamma, "power": tuning.power} if endless else None
    if asked.json:
        answer = {"eta": tuning.eta, "gamma": None if endless else tuning.gamma, "schedule": schedule}
        answer["bound"] = None if tuning.bound is None else tuning.bound.bound
        return as_json({**answer, "simulated": recorded(played, world)})
    gamma = f"min(1, {tuning.gamma:.6g} · step^(-1/3))" if endless else f"{tuning.gamma:.6g}"
    sentence = f"For the worst case take eta {tuning.eta:.4g} and gamma {gamma}"
    parts = [sentence + _beside("that", played, asked.steps, world) + ".", f"eta    {tuning.eta:.6g}\ngamma  {gamma}"]
    parts += [table(played, steps, world), *([] if world is None else [why(played, world)])]
    return "\n\n".join([*parts, f"The first row {played[0].bound.applies}.", *([assumed] if assumed else [])])


def _record(bound: Bound) -> dict[str, object]:
    return {**bound._asdict(), "terms": dict(bound.terms)}
