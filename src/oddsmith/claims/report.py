"""The report of claims: first a table of statements, predictions, measurements and
verdicts, then each experiment."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import oddsmith
from oddsmith.claims.claim import Claim, Outcome, Rule
from oddsmith.files.reports.page import Figure, Section, Table, write
from oddsmith.files.reports.style import COLOURS, legend, panels, svg

__all__ = ["report", "statements", "verdict"]

_HEADERS = ("case", "predicted", "measured (± standard error)", "holds?")


def verdict(outcomes: dict[str, Outcome]) -> str:
    """How many statements hold, and the first that does not, in one sentence."""
    found = statements(outcomes)
    failing = [
        (name, claim)
        for name, _, claims in found
        for claim in claims
        if not claim.holds
    ]
    if not found:
        return f"Figures of {_count(outcomes)}; they claim nothing."
    if not failing:
        cases = sum(len(claims) for _, _, claims in found)
        noun = "statement" if len(found) == 1 else "statements"
        return (
            f"All {len(found)} {noun} hold, in {cases} "
            f"{'case' if cases == 1 else 'cases'} of {_count(outcomes)}."
        )
    rejected, (name, claim) = len({one.rule for _, one in failing}), failing[0]
    why = (
        f"{claim.rule.statement}, {claim.case} (predicted {claim.predicted}, measured "
        f"{claim.measured})"
    )
    more = " and others" if len(failing) > 1 else ""
    return f"{rejected} of {len(found)} statements do not hold: in {name}, {why}{more}."


def _count(outcomes: dict[str, Outcome]) -> str:
    return f"{len(outcomes)} {'experiment' if len(outcomes) == 1 else 'experiments'}"


def statements(outcomes: dict[str, Outcome]) -> list[tuple[str, Rule, list[Claim]]]:
    """Every rule with the name of its experiment and its cases."""
    return [
        (name, rule, [claim for claim in outcome.claims if claim.rule == rule])
        for name, outcome in outcomes.items()
        for rule in dict.fromkeys(claim.rule for claim in outcome.claims)
    ]


def report(path: Path, outcomes: dict[str, Outcome], *, quick: bool) -> Path:
    """Write the page: statements, then each experiment with its rules, cases and
    figures."""
    size = "A quick look: shorter horizons and fewer runs. " if quick else ""
    told = (
        f"{size}Generalized Thompson Sampling (Lihong Li, 2013): each statement of the "
        "paper, and each sharper one of the library's mathematics, as an experiment "
        "with known truth. What is accepted was stated before anything was run "
        "(`oddsmith reproduce --rules`), from theory or from an exact computation. "
        "Each statement has a variant with an error made on purpose that it rejects "
        "(`oddsmith reproduce --broken`). Regret is exact, not estimated.\n\n"
        f"oddsmith {oddsmith.__version__}"
    )
    first = Section("The paper's statements", tables=(_first(outcomes),))
    glance = Section("At a glance", figures=_picture(outcomes))
    sections = [
        Section(
            outcome.title,
            outcome.text,
            tables=(
                *outcome.tables,
                *(
                    _cases(rule, claims)
                    for _, rule, claims in statements({name: outcome})
                ),
            ),
            figures=outcome.figures,
        )
        for name, outcome in outcomes.items()
    ]
    details = Section("Details", told, folded=True)
    return write(
        path,
        "The paper's claims, measured",
        verdict(outcomes),
        [first, glance, *sections, details],
    )


def _first(outcomes: dict[str, Outcome]) -> Table:
    """A row for each statement: of several cases one that fails, or the first."""
    rows = []
    for name, rule, claims in statements(outcomes):
        told = next((claim for claim in claims if not claim.holds), claims[0])
        case = f"{told.case}: " if told.case else ""
        cases = "" if len(claims) == 1 else f" ({_held(claims)} of {len(claims)} cases)"
        answer = "holds" if _held(claims) == len(claims) else "does not hold"
        rows.append(
            (
                f"{rule.statement} ({rule.where})",
                name,
                case + told.predicted,
                told.measured,
                answer + cases,
            )
        )
    headers = (
        "the paper's statement",
        "experiment",
        "predicted",
        "measured",
        "verdict",
    )
    return Table(
        headers,
        tuple(rows),
        "What is stated, what was predicted and measured, and the verdict",
    )


def _cases(rule: Rule, claims: Sequence[Claim]) -> Table:
    """The cases of one rule, under what it accepts."""
    rows = tuple(
        (c.case, c.predicted, c.measured, "yes" if c.holds else "no") for c in claims
    )
    return Table(
        _HEADERS,
        rows,
        f"{rule.statement} ({rule.where}). Accepted: {rule.accept} ({rule.errors})",
    )


def _held(claims: Sequence[Claim]) -> int:
    return sum(claim.holds for claim in claims)


def _picture(outcomes: dict[str, Outcome]) -> tuple[Figure, ...]:
    """A mark for each case, a line for each experiment that claims something."""
    claiming = {name: outcome for name, outcome in outcomes.items() if outcome.claims}
    if not claiming:
        return ()
    drawing, (panel,) = panels(height=0.8 + 0.24 * len(claiming))
    styles: dict[bool, Any] = {
        True: {"color": COLOURS[2], "marker": "o", "ms": 5, "label": "holds"},
        False: {"color": COLOURS[1], "marker": "X", "ms": 9, "label": "does not hold"},
    }
    for held, style in styles.items():
        places = [
            (x, y)
            for y, outcome in enumerate(claiming.values())
            for x, claim in enumerate(outcome.claims, 1)
            if claim.holds is held
        ]
        if places:
            panel.plot(*zip(*places, strict=True), ls="none", **style)
    panel.set_yticks(range(len(claiming)), list(claiming))
    panel.set(
        ylim=(len(claiming) - 0.5, -0.5),
        xlim=(0, None),
        xlabel="cases of each experiment",
    )
    panel.grid(visible=False, axis="x")
    legend(panel)
    return (
        Figure(
            svg(drawing), "A mark for each case: a round one holds, a cross does not."
        ),
    )
