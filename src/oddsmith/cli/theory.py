"""`oddsmith bound | tune | certify`: the theory on the command line."""

import argparse
import importlib
import sys
from pathlib import Path
from typing import Any

from oddsmith import theory
from oddsmith.cli.words import as_json
from oddsmith.errors import InvalidInput
from oddsmith.losses import Loss, log_loss, square_loss
from oddsmith.theory import Bound
from oddsmith.theory.coefficients import AnyLoss

__all__ = ["add_commands"]


def add_commands(commands: Any) -> None:
    """Add the three commands to a parser."""
    bound = commands.add_parser("bound", help="how many rewards learning will cost, at most")
    _problem(bound)
    bound.add_argument(
        "--constants", choices=("tight", "paper"), default="tight", help="tight (default) or the paper's"
    )
    bound.add_argument("--gamma", type=float, help="exploration; the best one if not given")
    bound.add_argument("--plot", type=Path, metavar="FILE", help="write a figure of bounds against the horizon")
    bound.set_defaults(run=_bound)
    tune = commands.add_parser("tune", help="which eta and gamma")
    _problem(tune, steps_required=False)
    tune.add_argument("--constants", choices=("tight", "paper"), default="tight", help="tight (default) or the paper's")
    tune.set_defaults(run=_tune)
    certify = commands.add_parser("certify", help="whether a loss satisfies the conditions, and with which constants")
    certify.add_argument("loss", help="square, log, or module:function of prediction and reward")
    certify.add_argument("--low", type=float, default=0.0, help="smallest prediction (default 0)")
    certify.add_argument("--high", type=float, default=1.0, help="largest prediction (default 1)")
    certify.add_argument("--json", action="store_true", help="print JSON for programs")
    certify.set_defaults(run=_certify)


def _problem(parser: argparse.ArgumentParser, *, steps_required: bool = True) -> None:
    parser.add_argument("--loss", required=True, help="square, log, or module:function")
    parser.add_argument("--arms", type=int, required=True, help="number of arms")
    parser.add_argument("--steps", type=float, required=steps_required, help="number of decisions (the horizon)")
    several = {"nargs": "+"} if steps_required else {}
    parser.add_argument("--prior", type=float, required=True, help="prior probability of the true expert", **several)
    parser.add_argument("--low", type=float, default=0.0, help="smallest prediction, for an own loss (default 0)")
    parser.add_argument("--high", type=float, default=1.0, help="largest prediction, for an own loss (default 1)")
    parser.add_argument("--beta", type=float, help="range of the log ratios, for log loss with the paper's constants")
    parser.add_argument("--json", action="store_true", help="print JSON: an object, or a list for several priors")


def _own(asked: argparse.Namespace) -> AnyLoss:
    """The loss that was asked for; an own loss certified for its range of predictions."""
    loss = _loss(asked.loss)
    return loss if isinstance(loss, str) else theory.certify(loss, asked.low, asked.high)


def _loss(text: str) -> Loss | str:
    """square, log, or the function that module:function names."""
    if text in ("square", "log"):
        return text
    module, colon, name = text.partition(":")
    if not colon:
        raise InvalidInput(f"loss must be square, log or module:function; got {text!r}")
    sys.path.insert(0, str(Path.cwd()))
    try:
        function = getattr(importlib.import_module(module), name)
    except Exception as error:  # whatever a user's module raises becomes one sentence
        raised = f"{type(error).__name__}: {error}"
        raise InvalidInput(f"loss must be a function that can be imported; got {text!r}, {raised:.120}") from error
    finally:
        sys.path.pop(0)
    if not callable(function):
        raise InvalidInput(f"loss must be a function of prediction and reward; got {text!r}")
    return function  # type: ignore[no-any-return]


def _bound(asked: argparse.Namespace) -> str:
    loss = _own(asked)
    problem: Any = {"n_arms": asked.arms, "steps": asked.steps}
    settings: Any = {"gamma": asked.gamma, "constants": asked.constants, "beta": asked.beta}
    found = [theory.regret_bound(loss, prior=p, **settings, **problem) for p in asked.prior]
    if asked.plot is not None:
        from oddsmith.reports import plot_bounds

        plot_bounds(asked.plot, loss, priors=asked.prior, settings=settings, **problem)
    if asked.json:
        records = [{"prior": p, **_record(b)} for p, b in zip(asked.prior, found, strict=True)]
        return as_json(records[0] if len(records) == 1 else records)
    rows = [(f"GTS, {asked.constants} constants, prior {p:g}", b) for p, b in zip(asked.prior, found, strict=True)]
    first: Any = problem | {"prior": asked.prior[0]}
    rows += [
        (f"SquareCB, prior {asked.prior[0]:g}", theory.squarecb_bound(**first)),
        (f"Feel-Good, prior {asked.prior[0]:g}", theory.feelgood_bound(loss, **first)),
        (f"EXP4, prior {asked.prior[0]:g}", theory.exp4_bound(**first)),
    ]
    return _table(rows, asked.steps) + f"\n\nThe first row {found[0].applies}."


def _tune(asked: argparse.Namespace) -> str:
    loss = _own(asked)
    tuning = theory.tune(
        loss, n_arms=asked.arms, steps=asked.steps, prior=asked.prior, constants=asked.constants, beta=asked.beta
    )
    schedule = None if tuning.power == 0 else {"scale": tuning.gamma, "power": tuning.power}
    if asked.json:
        bound = None if tuning.bound is None else tuning.bound.bound
        constant = tuning.gamma if schedule is None else None
        return as_json({"eta": tuning.eta, "gamma": constant, "schedule": schedule, "bound": bound})
    gamma = f"{tuning.gamma:.6g}" if schedule is None else f"min(1, {tuning.gamma:.6g} · step^(-1/3))"
    lines = [f"eta    {tuning.eta:.6g}", f"gamma  {gamma}"]
    if tuning.bound is not None:
        lines += [f"bound  {tuning.bound.bound:,.1f} of {asked.steps:,.0f}", "", tuning.bound.applies + "."]
    return "\n".join(lines)


def _certify(asked: argparse.Namespace) -> str:
    loss: Any = {"square": square_loss, "log": log_loss}.get(asked.loss) or _loss(asked.loss)
    found = theory.certify(loss, asked.low, asked.high)
    broken = found.counterexample
    record: dict[str, Any] = {"holds": found.holds, "savage": found.savage, "low": found.low, "high": found.high}
    if broken is not None:
        record["counterexample"] = broken._asdict()
    else:
        record |= {"kappa2": [found.kappa2_lower, found.kappa2_upper], "w_min": found.w_min, "scale": found.scale}
        record["critical_eta"] = found.critical_eta()
        if record["critical_eta"] > 0:
            best = found.best()
            record |= {"best_eta": best.eta, "c": best.c}
    if asked.json:
        return as_json(record)
    if broken is not None:
        where = f"at true mean {broken.f:g}, prediction {broken.g:g}"
        return f"{asked.loss} breaks {broken.condition} {where}: E lhat = {broken.mean:g}, E lhat² = {broken.square:g}"
    lines = [
        f"{asked.loss} satisfies C1, C3 and C4 for predictions in [{found.low:g}, {found.high:g}]",
        f"kappa_2       between {found.kappa2_lower:.6g} and {found.kappa2_upper:.6g} (raw)",
        f"scale         {found.scale:.6g}: divide the loss by it for C3",
    ]
    if record["critical_eta"] == 0:
        return "\n".join([*lines, "no bound: the weight w vanishes, so some predictions cannot be told apart (C2)"])
    lines += [
        f"kappa_1       sqrt(4K / ({found.w_min:.6g} gamma))",
        f"best eta      {record['best_eta']:.6g}, c = {record['c']:.6g}",
        f"critical eta  {record['critical_eta']:.6g}",
    ]
    return "\n".join(lines)


def _record(bound: Bound) -> dict[str, Any]:
    return {**bound._asdict(), "terms": dict(bound.terms)}


def _table(rows: list[tuple[str, Bound]], steps: float) -> str:
    width = max(len(name) for name, _ in rows)
    lines = [f"{'':{width}}  {'regret, at most':>16}{'per step':>10}{'eta':>10}{'gamma':>10}"]
    for name, b in rows:
        eta, gamma = ("" if v is None else f"{v:.4g}" for v in (b.eta, b.gamma))
        lines.append(f"{name:{width}}  {b.bound:16,.1f}{b.bound / steps:10.4f}{eta:>10}{gamma:>10}")
    return "\n".join(lines)
