"""`oddsmith fit`: fit a policy to logs and write its state to a file that `Agent.load`
and the service read."""

import argparse
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oddsmith.cli.parser import Commands, add_command, add_json
from oddsmith.cli.words import (
    add_reading,
    add_units,
    as_json,
    asking,
    check_file_place,
    checked_seed,
    learnt_units,
    reader,
    units_of,
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
_LONG_S = 20.0  # seconds after which the output suggests to install numba


def add_commands(commands: Commands) -> None:
    """Add the command to a parser."""
    fit = add_command(
        commands,
        "fit",
        "fit a policy to logs of any size, on one machine or many",
        "oddsmith fit log.parquet --policy news.toml --out state.npz",
    )
    fit.add_argument(
        "logs",
        nargs="+",
        metavar="LOG",
        help="files, or folders of files, in order of time",
    )
    fit.add_argument(
        "--policy", type=Path, required=True, metavar="FILE", help="policy file"
    )
    fit.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FILE",
        help="file of the state, an .npz for Agent.load, evaluate and serve",
    )
    fit.add_argument(
        "--engine",
        default="serial",
        help="where to run: serial (default), local, dask, ray or spark",
    )
    fit.add_argument(
        "--workers", type=int, help="number of processes (default: all cores)"
    )
    fit.add_argument(
        "--seed",
        type=int,
        help="seed of the agent's draws (default: that of the policy file, else 0)",
    )
    add_reading(fit)
    add_units(fit)
    add_json(fit)
    fit.set_defaults(run=_fit)


def _fit(asked: argparse.Namespace) -> str:
    from oddsmith.logs.fit import fit_log

    file = read_policy(asked.policy)
    policy = file.policy
    scale = learnt_units(asked, file)
    meta: dict[str, Json] = {
        "seed": checked_seed(asked.seed, file.seed, 0),
        "arms": None if file.arms is None else list(file.arms),
        "reward": [scale.low, scale.high],
    }
    check_file_place(asked.out)
    # Fail before the long computation if the state cannot be saved.
    saving.pack(policy, policy.init(), meta)
    reading = reader(asked, file.arms, offers=file.arms is None)
    logs = [str(source) for source in reading.sources(asked.logs)]
    units = units_of(asked, [file], reading, logs)
    reading = units.reader
    start = time.monotonic()
    with asking(str(asked.policy)):
        fit = fit_log(
            policy, logs, engine=asked.engine, workers=asked.workers, reader=reading
        )
    if not fit.learnt:
        raise InvalidInput(
            f"log must have rewards to learn from; got none in {fit.waiting} rows: no "
            "state was written"
        )
    meta["steps"] = fit.learnt + fit.waiting
    disk.write(asked.out, saving.pack(policy, fit.state, meta))
    posterior = _posterior(asked.out, file)
    verdict = _verdict(posterior, fit.learnt)
    if asked.json:
        return as_json(
            {
                "verdict": verdict,
                "learnt": fit.learnt,
                "waiting": fit.waiting,
                "kinds": fit.kinds,
                "floor": fit.floor,
                "promises": fit.promises,
                "comparison": _facts(fit.comparison),
                "posterior": posterior,
            }
        )
    lines = [verdict, *_leaders(posterior), "", str(fit)]
    if reading.scale is not None:
        lines.append(
            f"Rewards from {units.scale.low:g} to {units.scale.high:g} were read as 0 "
            "to 1."
        )
    seconds = time.monotonic() - start
    if seconds > _LONG_S and kernels.compiled() is None:
        lines.append(
            f"It took {seconds:.0f} s without numba; with the extra oddsmith[fast] "
            "learners take a fraction of this time."
        )
    if policy.unversioned:
        lines.append(
            "Models have no version: `load` will accept any models with these names."
        )
    return "\n".join([*lines, "", f"state: {asked.out}"])


def _posterior(path: Path, file: PolicyFile) -> dict[str, float] | None:
    """Return each expert's weight in the fitted agent, the largest first, or None if
    the policy has no experts."""
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
    """Return a sentence about the expert with the largest weight."""
    rewards = count_of(learnt, "reward")
    if posterior is None:
        return f"The policy has learnt from {rewards}."
    (first, weight), *others = posterior.items()
    then = ""
    if others:
        second, second_weight = others[0]
        then = f"; {second} comes next with {_share(second_weight)}"
    experts = count_of(len(posterior), "expert")
    share = f"{first} has {_share(weight)} of the weight of {experts}"
    return f"After {rewards} {share}{then}."


def _facts(comparison: "Comparison | None") -> dict[str, Any] | None:
    """Return the held-out comparison with the logging policy as a JSON record."""
    if comparison is None:
        return None
    verdict = {"verdict": comparison.verdict, "ready": comparison.ready}
    return verdict | asdict(comparison)


def _share(weight: float) -> str:
    """Format a weight in percent. Only exactly 0 and 1 are written as 0 % and 100 %."""
    if 0.999 < weight < 1:
        return "more than 99.9 %"
    if 0 < weight < 0.001:
        return "less than 0.1 %"
    return f"{100 * weight:.1f} %"


def _leaders(posterior: dict[str, float] | None) -> list[str]:
    if posterior is None:
        return []
    from oddsmith.files.reports.page import Table

    leaders = list(posterior.items())[:_LEADERS]
    rows = tuple((name, f"{weight:.4g}") for name, weight in leaders)
    lines = ["", str(Table(("expert", "posterior"), rows))]
    if len(posterior) > len(rows):
        lines.append(f"and {len(posterior) - len(rows):,} more")
    return lines
