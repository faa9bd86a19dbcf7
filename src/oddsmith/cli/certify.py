"""`oddsmith certify`: prove that a loss satisfies the conditions of the theory."""

import argparse
from typing import NamedTuple

from oddsmith import theory
from oddsmith.cli.parser import Commands, add_command, add_json
from oddsmith.cli.words import Refusal, as_json, loss_named
from oddsmith.core.losses import LOSSES
from oddsmith.theory.conditions import Certificate, Counterexample

__all__ = ["add_commands"]

_MEANINGS = {
    "C1": "consistency: the true mean has the smallest expected loss, E lhat >= 0",
    "C2": (
        "informativeness: an expert with a worse policy also predicts worse, Delta "
        "<= kappa_1 sqrt(E lhat)"
    ),
    "C3": "boundedness: losses differ by at most 1, |lhat| <= 1",
    "C4": (
        "self-boundedness: the second moment is bounded by the mean, E lhat² <= "
        "kappa_2 E lhat"
    ),
}


class _Verdict(NamedTuple):
    """Whether a condition holds (None: unknown), with the constants, the
    counterexample, or the reason why it is unknown."""

    holds: bool | None
    because: str


def add_commands(commands: Commands) -> None:
    """Add the command to a parser."""
    parser = add_command(
        commands,
        "certify",
        "prove that a loss satisfies the conditions of the theory, with its constants",
        'oddsmith certify "(g - r)**2" --rewards binary',
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
    add_json(parser)
    parser.set_defaults(run=_certify)


def _certify(asked: argparse.Namespace) -> str | Refusal:
    loss = loss_named(asked.loss)
    certificate = theory.certify(loss, asked.low, asked.high, rewards=asked.rewards)
    critical = 0.0
    if certificate.counterexample is None:
        critical = certificate.critical_eta()
    conditions = _conditions(certificate, critical)
    if asked.json:
        text = as_json(_record(certificate, conditions, critical))
    else:
        answer = _answer(asked.loss, certificate, conditions)
        lines = [*_lines(conditions), *_constants(certificate, critical)]
        text = "\n".join([answer, "", *lines])
    if all(verdict.holds for verdict in conditions.values()):
        return text
    return Refusal(text)


def _conditions(found: Certificate, critical: float) -> dict[str, _Verdict]:
    if found.counterexample is not None:
        return _violation(found.counterexample)
    constants = {
        "C1": "",
        "C2": f"kappa_1 = sqrt(4K / ({found.w_min:.6g} gamma))",
        "C3": f"once the loss is divided by {found.scale:.6g}",
        "C4": (
            f"kappa_2 between {found.kappa2_lower:.6g} and {found.kappa2_upper:.6g} "
            "(raw)"
        ),
    }
    verdicts = {}
    for name, constant in constants.items():
        verdicts[name] = _Verdict(True, constant)
        if not found.holds:
            checked = f"no violation on a grid of {found.n} cells"
            because = f"{checked}; {constant}" if constant else checked
            verdicts[name] = _Verdict(None, because)
    if not (found.w_min > 0 and critical > 0):
        verdicts["C2"] = _Verdict(False, "some predictions cannot be distinguished")
    return verdicts


def _violation(found: Counterexample) -> dict[str, _Verdict]:
    low, high = found.rewards
    reward = ""
    if low == high:
        reward = f", reward always {low:g}"
    elif found.rewards != (0.0, 1.0):
        reward = f", reward {low:g} or {high:g}"
    where = f"at true mean {found.f:g}, prediction {found.g:g}{reward}: "
    why = {
        "C1": f"{where}E lhat = {found.mean:g}, so that expert beats the truth",
        "C3": (
            f"{where}the loss is infinite; keep predictions away from 0 and 1 "
            "(--low 0.01 --high 0.99)"
        ),
        "C4": f"{where}E lhat = {found.mean:g}, E lhat² = {found.square:g}",
    }
    unknown = _Verdict(None, f"not checked, because {found.condition} is violated")
    verdicts = dict.fromkeys(_MEANINGS, unknown)
    verdicts[found.condition] = _Verdict(False, why[found.condition])
    return verdicts


def _answer(name: str, found: Certificate, conditions: dict[str, _Verdict]) -> str:
    rewards = "in [0, 1]" if found.rewards == "unit" else "0 and 1"
    where = f"predictions in [{found.low:g}, {found.high:g}] and rewards {rewards}"
    for condition, verdict in conditions.items():
        if verdict.holds is False:
            more = ""
            if (name, condition) == ("log", "C3"):
                more = " (The tight bound for log loss does not need C3.)"
            return (
                f"{name} violates {condition} for {where}: the paper's bounds do not "
                f"apply to it.{more}"
            )
    if not found.holds:
        return (
            f"{name} is not certified for {where}: {found.reason}. A check on a grid "
            f"of {found.n} cells found no violation."
        )
    return (
        f"{name} satisfies C1 to C4 for {where}: proved. The paper's bounds hold, with "
        "the constants below."
    )


def _lines(conditions: dict[str, _Verdict]) -> list[str]:
    words = {True: "holds", False: "breaks", None: "?"}
    lines = []
    for name, verdict in conditions.items():
        line = f"{name}  {words[verdict.holds]:7} {_MEANINGS[name]}"
        if verdict.because:
            line += f"; {verdict.because}"
        lines.append(line)
    return lines


def _constants(found: Certificate, critical: float) -> list[str]:
    note = (
        "lhat is the loss of a prediction minus that of the true mean; E is the mean "
        "over rewards (Li 2013)."
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
    meanings = {}
    for name, verdict in conditions.items():
        meanings[name] = {"means": _MEANINGS[name], **verdict._asdict()}
    record: dict[str, object] = {
        "holds": all(verdict.holds for verdict in conditions.values()),
        "proved": found.holds,
        "reason": found.reason,
        "low": found.low,
        "high": found.high,
        "rewards": found.rewards,
        "conditions": meanings,
    }
    if found.counterexample is not None:
        record["counterexample"] = found.counterexample._asdict()
        return record
    record["kappa2"] = [found.kappa2_lower, found.kappa2_upper]
    record["w_min"] = found.w_min
    record["scale"] = found.scale
    record["critical_eta"] = critical
    if critical > 0:
        best = found.best()
        record["best_eta"] = best.eta
        record["c"] = best.c
    return record
