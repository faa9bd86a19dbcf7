"""The report of claims: first a table of statements, predictions, measurements and
verdicts, then each experiment."""

from pathlib import Path
from typing import Any, NamedTuple

import oddsmith
from oddsmith.claims.claim import Claim, Outcome, Rule
from oddsmith.files.reports.page import Figure, Section, Table, write
from oddsmith.files.reports.style import COLOURS, legend, panels, svg

__all__ = ["Statement", "report", "statements", "verdict"]

_HEADERS = ("case", "predicted", "measured (± standard error)", "holds?")


def verdict(outcomes: dict[str, Outcome]) -> str:
    """How many statements hold, and the first that does not, in one sentence."""
    groups = statements(outcomes)
    experiments = _count(len(outcomes), "experiment")
    if not groups:
        return f"Figures of {experiments}; they claim nothing."
    failing = [group for group in groups if not group.holds]
    if not failing:
        cases = _count(sum(len(group.claims) for group in groups), "case")
        noun = "statement" if len(groups) == 1 else "statements"
        return f"All {len(groups)} {noun} hold, in {cases} of {experiments}."
    first = failing[0]
    claim = first.example
    several = sum(group.failures for group in failing) > 1
    more = " and others" if several else ""
    return (
        f"{len(failing)} of {len(groups)} statements do not hold: in "
        f"{first.experiment}, {claim.rule.statement}, {claim.case} (predicted "
        f"{claim.predicted}, measured {claim.measured}){more}."
    )


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


class Statement(NamedTuple):
    """A rule with the name of its experiment and its cases."""

    experiment: str
    rule: Rule
    claims: list[Claim]

    @property
    def failures(self) -> int:
        """The number of cases that do not hold."""
        return sum(not claim.holds for claim in self.claims)

    @property
    def holds(self) -> bool:
        return not self.failures

    @property
    def example(self) -> Claim:
        """A case that fails, or the first."""
        return next((one for one in self.claims if not one.holds), self.claims[0])


def statements(outcomes: dict[str, Outcome]) -> list[Statement]:
    """Every rule with the name of its experiment and its cases."""
    found = []
    for name, outcome in outcomes.items():
        by_rule: dict[Rule, list[Claim]] = {}
        for claim in outcome.claims:
            by_rule.setdefault(claim.rule, []).append(claim)
        found += [Statement(name, rule, claims) for rule, claims in by_rule.items()]
    return found


def report(path: Path, outcomes: dict[str, Outcome], *, quick: bool) -> Path:
    """Write the page: statements, then each experiment with its rules, cases and
    figures."""
    size = "A quick look: shorter horizons and fewer runs. " if quick else ""
    details = (
        f"{size}Generalized Thompson Sampling (Lihong Li, 2013): each statement of the "
        "paper, and each sharper one of the library's mathematics, as an experiment "
        "with known truth. What is accepted was stated before anything was run "
        "(`oddsmith reproduce --rules`), from theory or from an exact computation. "
        "Each statement has a variant with an error made on purpose that it rejects "
        "(`oddsmith reproduce --broken`). Regret is exact, not estimated.\n\n"
        f"oddsmith {oddsmith.__version__}"
    )
    groups = statements(outcomes)
    sections = [
        Section("The paper's statements", tables=(_statements_table(groups),)),
        Section("At a glance", figures=_picture(outcomes)),
    ]
    for name, outcome in outcomes.items():
        cases = [_cases(group) for group in groups if group.experiment == name]
        tables = (*outcome.tables, *cases)
        section = Section(
            outcome.title, outcome.text, tables=tables, figures=outcome.figures
        )
        sections.append(section)
    sections.append(Section("Details", details, folded=True))
    return write(path, "The paper's claims, measured", verdict(outcomes), sections)


def _statements_table(groups: list[Statement]) -> Table:
    """A row for each statement: of several cases one that fails, or the first."""
    rows = []
    for group in groups:
        rule = group.rule
        claim = group.example
        prefix = f"{claim.case}: " if claim.case else ""
        answer = "holds" if group.holds else "does not hold"
        cases = len(group.claims)
        if cases > 1:
            answer += f" ({cases - group.failures} of {cases} cases)"
        rows.append(
            (
                f"{rule.statement} ({rule.where})",
                group.experiment,
                prefix + claim.predicted,
                claim.measured,
                answer,
            )
        )
    headers = (
        "the paper's statement",
        "experiment",
        "predicted",
        "measured",
        "verdict",
    )
    caption = "What is stated, what was predicted and measured, and the verdict"
    return Table(headers, tuple(rows), caption)


def _cases(group: Statement) -> Table:
    """The cases of one rule, under what it accepts."""
    rule = group.rule
    rows = []
    for claim in group.claims:
        answer = "yes" if claim.holds else "no"
        rows.append((claim.case, claim.predicted, claim.measured, answer))
    caption = (
        f"{rule.statement} ({rule.where}). Accepted: {rule.accept} ({rule.errors})"
    )
    return Table(_HEADERS, tuple(rows), caption)


def _picture(outcomes: dict[str, Outcome]) -> tuple[Figure, ...]:
    """A mark for each case, a line for each experiment that claims something."""
    claims = {name: outcome.claims for name, outcome in outcomes.items()}
    names = [name for name in claims if claims[name]]
    if not names:
        return ()
    drawing, (panel,) = panels(height=0.8 + 0.24 * len(names))
    styles: dict[bool, Any] = {
        True: {"color": COLOURS[2], "marker": "o", "ms": 5, "label": "holds"},
        False: {"color": COLOURS[1], "marker": "X", "ms": 9, "label": "does not hold"},
    }
    for holds, style in styles.items():
        xs = []
        ys = []
        for y, name in enumerate(names):
            own = [x for x, one in enumerate(claims[name], 1) if one.holds is holds]
            xs += own
            ys += [y] * len(own)
        if xs:
            panel.plot(xs, ys, ls="none", **style)
    panel.set_yticks(range(len(names)), names)
    panel.set(ylim=(len(names) - 0.5, -0.5), xlim=(0, None))
    panel.set_xlabel("cases of each experiment")
    panel.grid(visible=False, axis="x")
    legend(panel)
    caption = "A mark for each case: a round one holds, a cross does not."
    return (Figure(svg(drawing), caption),)
