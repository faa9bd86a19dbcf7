"""`oddsmith fit`: a policy's state after years of logs, as a file that `Agent.load` and
the service read."""

import argparse
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oddsmith.cli.parser import Commands
from oddsmith.cli.units import add_units, learnt_units, units_of
from oddsmith.cli.words import (
    add_reading,
    as_json,
    asking,
    check_file_place,
    checked_seed,
    reader,
)
from oddsmith.core import kernels
from oddsmith.core.errors import InvalidInput
from oddsmith.core.exact_json import Json
from oddsmith.core.names import count_of
from oddsmith.files import disk
from oddsmith.files import state as saving
from oddsmith.files.policy import PolicyFile, read_policy

if TYPE_CHECKING:
    from oddsmith.logs.comparison import Comparison

__all__ = ["add_commands"]

_LEADERS = 10
_LONG_S = 20.0  # after which it is worth a sentence that numba is not there


def add_commands(commands: Commands) -> None:
    """Add the command to a parser."""
    fit = commands.add_parser(
        "fit", help="learn from logs of any size, on one machine or many"
    )
    fit.add_argument(
        "logs",
        nargs="+",
        metavar="LOG",
        help="files, or folders of files, in the order of time",
    )
    fit.add_argument(
        "--policy", type=Path, required=True, metavar="FILE", help="the policy file"
    )
    fit.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FILE",
        help="the state, an .npz that Agent.load reads",
    )
    fit.add_argument(
        "--engine", default="serial", help="serial (default), local, dask, ray or spark"
    )
    fit.add_argument(
        "--workers", type=int, help="number of processes (default: all cores)"
    )
    fit.add_argument(
        "--seed",
        type=int,
        help="of the agent's draws (default: the policy file's, else 0)",
    )
    add_reading(fit)
    add_units(fit)
    fit.add_argument("--json", action="store_true", help="print JSON for programs")
    fit.set_defaults(run=_fit)


def _fit(asked: argparse.Namespace) -> str:
    from oddsmith.logs.fit import fit_log

    file = read_policy(asked.policy)
    arms = None if file.arms is None else list(file.arms)
    scale = learnt_units(asked, file)
    meta: dict[str, Json] = {
        "seed": checked_seed(asked.seed, file.seed, 0),
        "arms": arms,
    }
    meta["reward"] = [scale.low, scale.high]
    check_file_place(asked.out)
    # refuses now what could not be saved after the work
    saving.pack(file.policy, file.policy.init(), meta)
    reading = reader(asked, file.arms, offers=file.arms is None)
    logs = [str(source) for source in reading.sources(asked.logs)]
    units = units_of(asked, [file], reading, logs)
    how, many, reading = asked.engine, asked.workers, units.reader
    start = time.monotonic()
    with asking(str(asked.policy)):
        fitted = fit_log(file.policy, logs, engine=how, workers=many, reader=reading)
    if not fitted.learnt:
        got = f"none in {fitted.waiting} rows"
        raise InvalidInput(
            f"log must have rewards to learn from; got {got}: nothing was written"
        )
    meta["steps"] = fitted.learnt + fitted.waiting
    disk.write(asked.out, saving.pack(file.policy, fitted.state, meta))
    posterior = _posterior(asked.out, file)
    if asked.json:
        facts = {
            name: getattr(fitted, name)
            for name in ("learnt", "waiting", "kinds", "floor", "promises")
        }
        return as_json(
            {
                "verdict": _verdict(posterior, fitted.learnt),
                **facts,
                "comparison": _facts(fitted.comparison),
                "posterior": posterior,
            }
        )
    lines = [_verdict(posterior, fitted.learnt), *_leaders(posterior), "", str(fitted)]
    if reading.scale is not None:
        lines.append(
            f"Rewards from {units.scale.low:g} to {units.scale.high:g} were read as 0 "
            "to 1."
        )
    if (took := time.monotonic() - start) > _LONG_S and kernels.compiled() is None:
        lines.append(
            f"It took {took:.0f} s without numba; learners take a fraction of that "
            "with the extra oddsmith[fast]."
        )
    if file.policy.unversioned:
        lines.append(
            "Models have no version: a load will accept any models of these names."
        )
    return "\n".join([*lines, "", f"state: {asked.out}"])


def _posterior(path: Path, file: PolicyFile) -> dict[str, float] | None:
    """Each expert's weight in the agent that was written, the largest first; None where
    a policy has no experts."""
    from oddsmith.agent.agent import Agent

    agent = Agent.load(path, file.policy)
    try:
        weights = agent.posterior()
    except InvalidInput:
        return None
    if not all(isinstance(weight, float) for weight in weights.values()):
        return None
    return dict(sorted(weights.items(), key=lambda pair: -pair[1]))


def _verdict(posterior: dict[str, float] | None, learnt: int) -> str:
    """The expert with the most weight, in one sentence."""
    rewards = count_of(learnt, "reward")
    if posterior is None:
        return f"The policy has learnt from {rewards}."
    (first, weight), *others = posterior.items()
    then = f"; {others[0][0]} comes next with {_share(others[0][1])}" if others else ""
    return (
        f"After {rewards} {first} has {_share(weight)} of the weight of "
        f"{count_of(len(posterior), 'expert')}{then}."
    )


def _facts(comparison: "Comparison | None") -> dict[str, Any] | None:
    """The held-out comparison with the logging policy, for programs."""
    if comparison is None:
        return None
    verdict = {"verdict": comparison.verdict, "ready": comparison.ready}
    return verdict | asdict(comparison)


def _share(weight: float) -> str:
    """A weight in percent; what is not quite all or nothing is not written so."""
    if 0.999 < weight < 1:
        return "more than 99.9 %"
    return "less than 0.1 %" if 0 < weight < 0.001 else f"{100 * weight:.1f} %"


def _leaders(posterior: dict[str, float] | None) -> list[str]:
    if posterior is None:
        return []
    from oddsmith.files.reports.page import Table

    rows = tuple(
        (name, f"{weight:.4g}") for name, weight in list(posterior.items())[:_LEADERS]
    )
    more = len(posterior) - len(rows)
    return [
        "",
        str(Table(("expert", "posterior"), rows)),
        *([f"and {more:,} more"] if more else []),
    ]
