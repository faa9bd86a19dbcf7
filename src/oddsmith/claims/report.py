"""The HTML report of the claims: first a table of statements, predictions, measurements
and verdicts, then each experiment."""

from pathlib import Path
from typing import Any, NamedTuple

import oddsmith
from oddsmith.claims.claim import Claim, Outcome, Rule
from oddsmith.files.reports.page import Figure, Section, Table, write
from oddsmith.files.reports.style import COLOURS, legend, panels, svg

__all__ = ["Statement", "report", "statements", "verdict"]

_HEADERS = ("case", "predicted", "measured (± standard error)", "holds?")


def verdict(outcomes: dict[str, Outcome]) -> str:
    """Return a sentence with the number of statements that hold, and the first one that
    does not."""
    groups = statements(outcomes)
    experiments = _count(len(outcomes), "experiment")
    if not groups:
        return f"The figures of {experiments}, without claims."
    failing = [group for group in groups if not group.holds]
    if not failing:
        n_cases = sum(len(group.claims) for group in groups)
        cases = _count(n_cases, "case")
        noun = "statements"
        if len(groups) == 1:
            noun = "statement"
        return f"All {len(groups)} {noun} hold, in {cases} of {experiments}."
    first = failing[0]
    claim = first.example
    several = sum(group.failures for group in failing) > 1
    more = ""
    if several:
        more = " and others"
    failures = f"{len(failing)} of {len(groups)} statements do not hold"
    place = f"{first.experiment}, {claim.rule.statement}, {claim.case}"
    return (
        f"{failures}: in {place} (predicted {claim.predicted}, measured "
        f"{claim.measured}){more}."
    )


def _count(n: int, noun: str) -> str:
    if n == 1:
        return f"{n} {noun}"
    return f"{n} {noun}s"


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
        """Return a case that fails, or the first case if all hold."""
        for claim in self.claims:
            if not claim.holds:
                return claim
        return self.claims[0]


def statements(outcomes: dict[str, Outcome]) -> list[Statement]:
    """Return every rule with the name of its experiment and its cases."""
    found = []
    for name, outcome in outcomes.items():
        by_rule: dict[Rule, list[Claim]] = {}
        for claim in outcome.claims:
            by_rule.setdefault(claim.rule, []).append(claim)
        for rule, claims in by_rule.items():
            found.append(Statement(name, rule, claims))
    return found


def report(path: Path, outcomes: dict[str, Outcome], *, quick: bool) -> Path:
    """Write the report: the table of statements, then each experiment with its rules,
    cases and figures."""
    size = ""
    if quick:
        size = "A quick run: shorter horizons and fewer runs. "
    details = (
        f"{size}Generalized Thompson Sampling (Lihong Li, 2013): each statement of "
        "the paper, and each sharper statement of this library's mathematics, tested "
        "by an experiment in which the truth is known. The acceptance criteria were "
        "fixed in advance (`oddsmith reproduce --rules`), from theory or from an "
        "exact computation. For each statement, a variant with a deliberate error "
        "must be rejected (`oddsmith reproduce --broken`). Regret is exact, not "
        f"estimated.\n\noddsmith {oddsmith.__version__}"
    )
    groups = statements(outcomes)
    overview = Section("The paper's statements", tables=(_statements_table(groups),))
    picture = Section("At a glance", figures=_picture(outcomes))
    sections = [overview, picture]
    for name, outcome in outcomes.items():
        cases = []
        for group in groups:
            if group.experiment == name:
                cases.append(_cases(group))
        tables = (*outcome.tables, *cases)
        section = Section(
            outcome.title, outcome.text, tables=tables, figures=outcome.figures
        )
        sections.append(section)
    sections.append(Section("Details", details, folded=True))
    return write(path, "The paper's claims, measured", verdict(outcomes), sections)


def _statements_table(groups: list[Statement]) -> Table:
    """Return a row for each statement, with a case that fails, or the first case if all
    hold."""
    rows = []
    for group in groups:
        rule = group.rule
        claim = group.example
        prefix = ""
        if claim.case:
            prefix = f"{claim.case}: "
        answer = "does not hold"
        if group.holds:
            answer = "holds"
        cases = len(group.claims)
        if cases > 1:
            held = cases - group.failures
            answer += f" ({held} of {cases} cases)"
        statement = f"{rule.statement} ({rule.where})"
        predicted = prefix + claim.predicted
        rows.append((statement, group.experiment, predicted, claim.measured, answer))
    headers = (
        "the paper's statement",
        "experiment",
        "predicted",
        "measured",
        "verdict",
    )
    caption = "Statements, predicted and measured values, and verdicts"
    return Table(headers, tuple(rows), caption)


def _cases(group: Statement) -> Table:
    """Return a table of the cases of one rule, with its acceptance criterion as
    caption."""
    rule = group.rule
    rows = []
    for claim in group.claims:
        answer = "no"
        if claim.holds:
            answer = "yes"
        row = (claim.case, claim.predicted, claim.measured, answer)
        rows.append(row)
    caption = (
        f"{rule.statement} ({rule.where}). Accepted: {rule.accept} ({rule.errors})"
    )
    return Table(_HEADERS, tuple(rows), caption)


def _picture(outcomes: dict[str, Outcome]) -> tuple[Figure, ...]:
    """Draw a line for each experiment with claims, and a mark for each case."""
    claims = {name: outcome.claims for name, outcome in outcomes.items()}
    names = [name for name in claims if claims[name]]
    if not names:
        return ()
    height = 0.8 + 0.24 * len(names)
    drawing, (panel,) = panels(height=height)
    styles: dict[bool, Any] = {
        True: {"color": COLOURS[2], "marker": "o", "ms": 5, "label": "holds"},
        False: {"color": COLOURS[1], "marker": "X", "ms": 9, "label": "does not hold"},
    }
    for holds, style in styles.items():
        xs = []
        ys = []
        for y, name in enumerate(names):
            own = []
            for x, one in enumerate(claims[name], 1):
                if one.holds is holds:
                    own.append(x)
            xs += own
            ys += [y] * len(own)
        if xs:
            panel.plot(xs, ys, ls="none", **style)
    panel.set_yticks(range(len(names)), names)
    ylim = (len(names) - 0.5, -0.5)
    panel.set(ylim=ylim, xlim=(0, None))
    panel.set_xlabel("cases of each experiment")
    panel.grid(visible=False, axis="x")
    legend(panel)
    caption = "A mark for each case: a circle if it holds, a cross if it fails."
    return (Figure(svg(drawing), caption),)
