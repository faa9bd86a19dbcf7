"""`oddsmith certify`: whether a loss satisfies the conditions of the theory, a line for
each."""

import argparse
from typing import NamedTuple

from oddsmith import theory
from oddsmith.cli.parser import Commands
from oddsmith.cli.words import Refused, as_json, loss_named
from oddsmith.core.losses import LOSSES
from oddsmith.theory.conditions import Certificate

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
    """Whether a condition holds (None: it was not looked at), and the constants or the
    counterexample."""

    holds: bool | None
    because: str


def add_commands(commands: Commands) -> None:
    """Add the command to a parser."""
    parser = commands.add_parser(
        "certify",
        help="whether a loss satisfies the conditions, and with which constants",
    )
    parser.add_argument(
        "loss",
        help=f"{', '.join(LOSSES)}, or module:function of prediction and reward",
    )
    parser.add_argument(
        "--low", type=float, default=0.0, help="smallest prediction (default 0)"
    )
    parser.add_argument(
        "--high", type=float, default=1.0, help="largest prediction (default 1)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    parser.set_defaults(run=_certify)


def _certify(asked: argparse.Namespace) -> str | Refused:
    loss = loss_named(asked.loss)
    certificate = theory.certify(loss, asked.low, asked.high)
    critical = certificate.critical_eta() if certificate.holds else 0.0
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
    broken = found.counterexample
    unseen = _Verdict(
        None,
        f"not looked at, for {broken.condition} breaks" if broken is not None else "",
    )
    if broken is not None:
        where = f"at true mean {broken.f:g}, prediction {broken.g:g}: "
        why = {
            "C1": f"{where}E lhat = {broken.mean:g}, so that expert beats the truth",
            "C3": (
                f"{where}the loss is infinite; keep predictions away from 0 and 1 "
                "(--low 0.01 --high 0.99)"
            ),
            "C4": f"{where}E lhat = {broken.mean:g}, E lhat² = {broken.square:g}",
        }[broken.condition]
        others = {"C1": {"C3"}, "C3": set(), "C4": {"C1", "C3"}}[broken.condition]
        verdicts = {
            name: _Verdict(True, "") if name in others else unseen for name in _MEANINGS
        }
        return {**verdicts, broken.condition: _Verdict(False, why)}
    distinct = found.w_min > 0 and critical > 0
    second = (
        f"kappa_1 = sqrt(4K / ({found.w_min:.6g} gamma))"
        if distinct
        else "some predictions cannot be told apart"
    )
    return {
        "C1": _Verdict(True, ""),
        "C2": _Verdict(distinct, second),
        "C3": _Verdict(True, f"once the loss is divided by {found.scale:.6g}"),
        "C4": _Verdict(
            True,
            f"kappa_2 between {found.kappa2_lower:.6g} and {found.kappa2_upper:.6g} "
            "(raw)",
        ),
    }


def _answer(name: str, found: Certificate, conditions: dict[str, _Verdict]) -> str:
    span = f"predictions in [{found.low:g}, {found.high:g}]"
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
            f"{name} breaks {failed[0]} for {span}: the paper promises nothing for "
            f"it.{more}"
        )
    return (
        f"{name} satisfies C1 to C4 for {span}: the paper's bounds hold, with the "
        "constants below."
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
    return [
        "",
        f"best eta      {best.eta:.6g}, c = {best.c:.6g}",
        f"critical eta  {critical:.6g}",
        "",
        note,
    ]


def _record(
    found: Certificate, conditions: dict[str, _Verdict], critical: float
) -> dict[str, object]:
    record: dict[str, object] = {
        "holds": all(one.holds for one in conditions.values()),
        "savage": found.savage,
        "low": found.low,
        "high": found.high,
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
