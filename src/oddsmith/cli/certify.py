"""`oddsmith certify`: whether a loss is proved to satisfy the conditions of the theory,
a line for each."""

import argparse
from typing import NamedTuple

from oddsmith import theory
from oddsmith.cli.parser import Commands
from oddsmith.cli.words import Refused, as_json, loss_named
from oddsmith.core.losses import LOSSES
from oddsmith.theory.conditions import Certificate, Counterexample

__all__ = ["add_commands"]

_MEANINGS = {
    "C1": "consistency: the true mean has the least expected loss, E lhat >= 0",
    "C2": (
        "informativeness: an expert that plays worse also predicts worse, Delta <= "
        "kappa_1 sqrt(E lhat)"
    ),
    "C3": "boundedness: losses differ by at most 1, |lhat| <= 1",
    "C4": (
        "self-boundedness: the noise goes where the difference goes, E lhat² <= "
        "kappa_2 E lhat"
    ),
}


class _Verdict(NamedTuple):
    """Whether a condition holds (None: not known), and the constants, the
    counterexample, or why it is not known."""

    holds: bool | None
    because: str


def add_commands(commands: Commands) -> None:
    """Add the command to a parser."""
    parser = commands.add_parser(
        "certify",
        help="whether a loss is proved to satisfy the conditions, and with which "
        "constants",
    )
    parser.add_argument(
        "loss",
        help=f'{", ".join(LOSSES)}, a formula such as "(g - r)**2" of prediction g '
        "and reward r, or module:function of both",
    )
    parser.add_argument(
        "--low", type=float, default=0.0, help="smallest prediction (default 0)"
    )
    parser.add_argument(
        "--high", type=float, default=1.0, help="largest prediction (default 1)"
    )
    parser.add_argument(
        "--rewards",
        choices=("unit", "binary"),
        default="unit",
        help="rewards in [0, 1] (unit, the default), or 0 and 1 alone (binary)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    parser.set_defaults(run=_certify)


def _certify(asked: argparse.Namespace) -> str | Refused:
    loss = loss_named(asked.loss)
    certificate = theory.certify(
        loss,
        asked.low,
        asked.high,
        rewards=asked.rewards,
    )
    unbroken = certificate.counterexample is None
    critical = certificate.critical_eta() if unbroken else 0.0
    conditions = _conditions(certificate, critical)
    holds = all(one.holds for one in conditions.values())
    if asked.json:
        text = as_json(_record(certificate, conditions, critical))
    else:
        answer = _answer(asked.loss, certificate, conditions)
        text = "\n".join(
            [answer, "", *_lines(conditions), *_constants(certificate, critical)]
        )
    return text if holds else Refused(text)


def _conditions(found: Certificate, critical: float) -> dict[str, _Verdict]:
    if found.counterexample is not None:
        return _broken(found.counterexample)
    holds = True if found.holds else None
    checked = "" if found.holds else f"no violation on a grid of {found.n} cells"
    constants = {
        "C1": "",
        "C2": f"kappa_1 = sqrt(4K / ({found.w_min:.6g} gamma))",
        "C3": f"once the loss is divided by {found.scale:.6g}",
        "C4": (
            f"kappa_2 between {found.kappa2_lower:.6g} and {found.kappa2_upper:.6g} "
            "(raw)"
        ),
    }
    verdicts = {
        name: _Verdict(holds, "; ".join(filter(None, (checked, constant))))
        for name, constant in constants.items()
    }
    if not (found.w_min > 0 and critical > 0):
        verdicts["C2"] = _Verdict(False, "some predictions cannot be told apart")
    return verdicts


def _broken(broken: Counterexample) -> dict[str, _Verdict]:
    low, high = broken.rewards
    reward = f"reward always {low:g}" if low == high else f"reward {low:g} or {high:g}"
    between = "" if broken.rewards == (0.0, 1.0) else f", {reward}"
    where = f"at true mean {broken.f:g}, prediction {broken.g:g}{between}: "
    why = {
        "C1": f"{where}E lhat = {broken.mean:g}, so that expert beats the truth",
        "C3": (
            f"{where}the loss is infinite; keep predictions away from 0 and 1 "
            "(--low 0.01 --high 0.99)"
        ),
        "C4": f"{where}E lhat = {broken.mean:g}, E lhat² = {broken.square:g}",
    }
    unseen = _Verdict(None, f"not looked at, because {broken.condition} breaks")
    verdicts = dict.fromkeys(_MEANINGS, unseen)
    return verdicts | {broken.condition: _Verdict(False, why[broken.condition])}


def _answer(name: str, found: Certificate, conditions: dict[str, _Verdict]) -> str:
    span = f"predictions in [{found.low:g}, {found.high:g}]"
    rewards = "in [0, 1]" if found.rewards == "unit" else "0 and 1"
    where = f"{span} and rewards {rewards}"
    failed = [
        condition for condition, verdict in conditions.items() if verdict.holds is False
    ]
    if failed:
        more = (
            " (The tight bound for log loss does not need C3.)"
            if (name, failed[0]) == ("log", "C3")
            else ""
        )
        return (
            f"{name} breaks {failed[0]} for {where}: the paper promises nothing for "
            f"it.{more}"
        )
    if not found.holds:
        return (
            f"{name} is not certified for {where}: {found.reason}. It was checked on a "
            f"grid of {found.n} cells only, where nothing breaks."
        )
    return (
        f"{name} satisfies C1 to C4 for {where}: proved. The paper's bounds hold, with "
        "the constants below."
    )


def _lines(conditions: dict[str, _Verdict]) -> list[str]:
    words = {True: "holds", False: "breaks", None: "?"}
    return [
        f"{name}  {words[verdict.holds]:7} {_MEANINGS[name]}"
        + (f"; {verdict.because}" if verdict.because else "")
        for name, verdict in conditions.items()
    ]


def _constants(found: Certificate, critical: float) -> list[str]:
    note = (
        "lhat is the loss of a prediction less that of the true mean, E its mean over "
        "rewards (Li 2013)."
    )
    if critical == 0:
        return ["", note]
    best = found.best()
    status = ">= {:.6g} (proved)" if found.holds else "= {:.6g} (estimated on a grid)"
    return [
        "",
        f"best eta      {best.eta:.6g}, c {status.format(best.c)}",
        f"critical eta  {critical:.6g} (estimated on a grid)",
        "",
        note,
    ]


def _record(
    found: Certificate, conditions: dict[str, _Verdict], critical: float
) -> dict[str, object]:
    record: dict[str, object] = {
        "holds": all(one.holds for one in conditions.values()),
        "proved": found.holds,
        "reason": found.reason,
        "low": found.low,
        "high": found.high,
        "rewards": found.rewards,
        "conditions": {
            name: {"means": _MEANINGS[name], **one._asdict()}
            for name, one in conditions.items()
        },
    }
    if found.counterexample is not None:
        return record | {"counterexample": found.counterexample._asdict()}
    record |= {
        "kappa2": [found.kappa2_lower, found.kappa2_upper],
        "w_min": found.w_min,
        "scale": found.scale,
    }
    record["critical_eta"] = critical
    if critical > 0:
        best = found.best()
        record |= {"best_eta": best.eta, "c": best.c}
    return record
