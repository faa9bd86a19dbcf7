"""The report of an assessment: its verdict, figures of differences, values, weights and
overlap, and tables."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from oddsmith.core.arrays import Array
from oddsmith.evaluation.assessment import Answer, Answers, Assessment, given
from oddsmith.evaluation.notes import log_notes, slots_table, support_known
from oddsmith.evaluation.verdict import Verdict, called, reasons, verdict
from oddsmith.files.reports.page import Figure, Section, Table, write
from oddsmith.files.reports.style import (
    COLOURS,
    DASHES,
    EDGE,
    MARKERS,
    RULE,
    SHEET,
    SOFT,
    legend,
    panels,
    plain,
    svg,
)
from oddsmith.logs.by_policy import names_of, numbers_of
from oddsmith.logs.knowledge import KINDS
from oddsmith.logs.table import Log

__all__ = [
    "answers_table",
    "diagnostics_table",
    "differences_table",
    "refusals",
    "summary",
    "write_report",
]

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing


_ARMS = 20  # arms in the figure of overlap


def summary(found: Assessment) -> list[str]:
    """Sentences about the log: its rows and class, the logged value, and whether arms
    were served as logged."""
    log, n = found.log, len(found.log)
    known = int((~np.isnan(log.reward)).sum())
    served = found.served if isinstance(found.served, str) else found.served.sentence
    flag = "" if isinstance(found.served, str) else found.served.caution
    one = found.logged
    own = (
        f"{one.value:z.4f} in [{one.low:z.4f}, {one.high:z.4f}] ({one.level:.3g} "
        f"{one.interval})"
    )
    own = f"refused: {one.why}" if one.refused else own
    varied = log.offered is not None and log.arms is None
    arms = (
        f"{len(names_of(log)):,} arms, at most {log.n_arms} in a row"
        if varied
        else f"{log.n_arms} arms"
    )
    return [
        (
            f"{n:,} rows over {arms}, {known:,} with a reward; the log is {log.kind}: "
            f"{KINDS[log.kind]}."
        ),
        f"The logger itself: {own}.",
        f"Served as logged: {flag}{served}",
    ]


def answers_table(found: Assessment) -> Table:
    """A row for each target and estimator: value, interval, and what to know about
    it."""
    rows = [
        (target, estimator, *_cells(answer))
        for target, estimator, answer in _flat(found.answers)
    ]
    caption = (
        "The value of each target by each estimator, with the ends of its interval"
    )
    return Table(
        ("target", "estimator", "value", "low", "high", "note"), tuple(rows), caption
    )


def refusals(found: Assessment) -> list[str]:
    """Why answers were refused: a line for each target, rule and sentence, with the
    estimators it is about."""
    estimators: dict[tuple[str, str], list[str]] = {}
    for target, estimator, answer in _flat(found.answers) + _flat(
        _by_difference(found)
    ):
        for why in _reasons(answer):
            estimators.setdefault((target, why), []).append(estimator)
    return [
        f"{target}, {', '.join(names)}: {why}."
        for (target, why), names in estimators.items()
    ]


def _flat(by: Answers) -> list[tuple[str, str, Answer]]:
    return [
        (name, estimator, answer)
        for name, answers in by.items()
        for estimator, answer in answers.items()
    ]


def _reasons(answer: Answer) -> list[str]:
    if isinstance(answer, str):
        return [f"refused: {answer}"]
    return [f"refused by rule {rule}: {why}" for rule, why in reasons(answer).items()]


def _by_difference(found: Assessment) -> Answers:
    """Differences by name and estimator."""
    targets = dict.fromkeys(
        target for answers in found.differences.values() for target in answers
    )
    by = found.differences.items()
    return {
        f"{t} - {found.baseline}": {e: answers[t] for e, answers in by if t in answers}
        for t in targets
    }


def differences_table(found: Assessment) -> Table:
    """A row for each target and unbiased estimator: its value minus the baseline's."""
    rows = [
        (name, estimator, *_cells(answer))
        for name, estimator, answer in _flat(_by_difference(found))
    ]
    caption = "Differences in value by each estimator, with the ends of their intervals"
    return Table(
        ("difference", "estimator", "value", "low", "high", "note"),
        tuple(rows),
        caption,
    )


def diagnostics_table(found: Assessment) -> Table:
    """What stands beside the numbers of each target."""
    unit = next((f"{one.unit}s" for one in found.diagnostics.values()), "rows")
    headers = (
        "target",
        f"effective {unit}",
        "largest weight's share",
        "mass without support",
        "mean weight",
        "± s.e.",
    )
    rows, known = [], support_known(found)
    for target, one in found.diagnostics.items():
        missing = (
            f"{one.missing:.2%}"
            if known
            else f"at least {one.missing:.2%}"
            if one.missing
            else "not known"
        )
        cells = [f"{one.ess:,.1f} of {one.n:,}", f"{one.largest_share:.2%}", missing]
        cells += [f"{one.mean_weight:.4f}", f"{one.weight_error:.2g}"]
        if "ips" not in found.terms[target]:  # there are no weights to speak of
            cells = ["", "", cells[2], "", ""]
        rows.append((target, *cells))
    return Table(headers, tuple(rows), "How much of the log speaks about each target")


def write_report(
    found: Assessment, path: Path, title: str, notes: Sequence[str] = ()
) -> Path:
    """Write the assessment as one HTML page, the whole of it or nothing: verdict,
    pictures, tables, details.

    `notes` stand under the verdict.
    """
    answer = verdict(found)
    ips = {
        name: terms["ips"].weights
        for name, terms in found.terms.items()
        if "ips" in terms
    }
    weighed = {name: weights for name, weights in ips.items() if weights is not None}
    carries = (*([_weights_figure(weighed)] if weighed else []), _overlap_figure(found))
    sections = [
        Section(
            "Values", tables=(answers_table(found),), figures=(_values_figure(found),)
        ),
        Section(
            "How far the log carries",
            tables=(diagnostics_table(found),),
            figures=carries,
        ),
        Section(
            "Details",
            "\n\n".join(summary(found)),
            printed="\n".join(refusals(found)),
            folded=True,
        ),
    ]
    if found.slots:
        sections.insert(1, Section("By slot", tables=(slots_table(found),)))
    if found.differences:
        side = called(found.baseline)
        text = (
            f"Paired, row by row, against {side}; all rows of an estimator hold "
            "together at its level."
        )
        table, figure = differences_table(found), _differences_figure(found, answer)
        sections.insert(
            0, Section("Differences", text, tables=(table,), figures=(figure,))
        )
    return write(
        path,
        title,
        "\n\n".join([*answer.sentences, *log_notes(found), *notes]),
        sections,
    )


def _cells(answer: Answer) -> tuple[str, str, str, str]:
    """Value, low, high, and a note: a refusal, a bias, rules that were overruled, a
    setting that was chosen."""
    if isinstance(answer, str):
        return "", "", "", "refused"
    if answer.refused:
        return "", "", "", f"refused: {', '.join(answer.refused)}"
    notes = [] if answer.unbiased or answer.counted else ["its bias is not counted"]
    if answer.cut_from is not None:
        notes.append(f"cut from {answer.cut_from:.4g}")
    if answer.setting is not None:
        notes.append(
            "nothing shrunk"
            if answer.setting == np.inf
            else f"setting {answer.setting:.4g}"
        )
    notes += [f"overruled: {', '.join(answer.overruled)}"] if answer.overruled else []
    value, low, high = (
        f"{one:z.4f}" for one in (answer.value, answer.low, answer.high)
    )
    return value, low, high, "; ".join(notes)


def _differences_figure(found: Assessment, answer: Verdict) -> Figure:
    """What each target earns more than the baseline, by each estimator; the verdict's
    is drawn with thick lines."""
    by_target = {
        name.removesuffix(f" - {found.baseline}"): by
        for name, by in _by_difference(found).items()
    }
    figure, panel = _bars(_flat(by_target), answer.estimator)
    panel.axvline(0, color=SOFT, ls="--", lw=1)
    panel.set_xlabel(f"more per decision than {called(found.baseline)}")
    caption = (
        f"What each target earns more than {called(found.baseline)}: right of the "
        "dashed line is better."
    )
    return Figure(
        svg(figure), f"{caption} Thick: {answer.estimator}, which the verdict is by."
    )


def _values_figure(found: Assessment) -> Figure:
    """Values with intervals, a band of rows for each target."""
    figure, panel = _bars(_flat(found.answers))
    if not found.logged.refused:
        panel.axvline(found.logged.value, color=SOFT, ls="--", lw=1)
        panel.axvspan(found.logged.low, found.logged.high, color=EDGE, alpha=0.2, lw=0)
    panel.set_xlabel("value, mean reward")
    caption = (
        "Each estimator's value with its interval (dotted: its bias is not counted). "
        "Dashed: the logger."
    )
    return Figure(svg(figure), caption)


def _bars(
    bars: list[tuple[str, str, Answer]], thick: str | None = None
) -> "tuple[list[Drawing], Axes]":
    """A figure and its panel: an interval in each line, coloured by target; thin ones
    but those of `thick`."""
    targets = list(dict.fromkeys(target for target, _, _ in bars))
    figure, (panel,) = panels(height=1.2 + 0.3 * len(bars))
    for y, (target, estimator, one) in enumerate(bars):
        i = targets.index(target)
        if isinstance(one, str) or not given(one):
            panel.annotate(
                "refused",
                (0.01, y),
                xycoords=("axes fraction", "data"),
                va="center",
                color=SOFT,
            )
            continue
        colour, full = COLOURS[i % len(COLOURS)], thick in (None, estimator)
        line = "-" if one.unbiased else ":"
        panel.plot(
            [one.low, one.high], [y, y], color=colour, ls=line, lw=2.5 if full else 1
        )
        mark = {
            "marker": MARKERS[i % len(MARKERS)],
            "ms": 7 if full else 5,
            "mfc": colour if full else SHEET,
        }
        panel.plot(one.value, y, color=colour, **mark)
    labels = [
        f"{plain(target, 24)} · {name}" if len(targets) > 1 else name
        for target, name, _ in bars
    ]
    panel.set_yticks(range(len(bars)), labels)
    panel.set_ylim(len(bars) - 0.5, -0.5)
    return figure, panel


def _weights_figure(weighed: dict[str, Array]) -> Figure:
    """How many rows have which weight, on log scales; rows of weight 0 are counted in
    the legend."""
    figure, (panel,) = panels()
    drawn = {name: weights[weights > 0] for name, weights in weighed.items()}
    some = np.concatenate([*drawn.values(), np.ones(1)])
    low, high = some.min() / 1.3, some.max() * 1.3
    edges = np.geomspace(low, high, 41)
    for i, (name, weights) in enumerate(drawn.items()):
        label = (
            f"{plain(name, 28)}: {1 - len(weights) / len(weighed[name]):.0%} of rows "
            "have weight 0"
        )
        colour, dash = COLOURS[i % len(COLOURS)], DASHES[i % len(DASHES)]
        panel.stairs(
            np.histogram(weights, edges)[0],
            edges,
            label=label,
            color=colour,
            ls=dash,
            lw=1.8,
        )
    panel.axvline(1, color=SOFT, lw=1)
    panel.set(
        xscale="log",
        yscale="log",
        xlim=(low, high),
        xlabel="weight, target's odds / logged odds",
        ylabel="rows",
    )
    panel.set_ylim(bottom=0.7)
    legend(panel)
    return Figure(
        svg(figure),
        "Weights of the drawn arms. A tail far to the right of 1 is what makes "
        "intervals wide.",
    )


def _overlap_figure(found: Assessment) -> Figure:
    """Mean odds by arm, of the logger and of the targets."""
    log = found.log
    exact = log.propensities is not None
    means = {
        name: _by_arm(log, np.atleast_2d(odds)) for name, odds in found.targets.items()
    }
    if log.propensities is not None:
        own = _by_arm(log, log.propensities)
    else:  # places, of which a row has as many as it has arms
        width = max(np.shape(odds)[-1] for odds in found.targets.values())
        own = _by_arm(log, np.arange(width) == log.arm[:, None])
    apart = np.max([np.abs(mean - own) for mean in means.values()], axis=0)
    kept = np.sort(np.argsort(-apart, kind="stable")[:_ARMS])
    figure, (panel,) = panels(height=1.5 + 0.28 * len(kept))
    y = np.arange(len(kept))
    panel.barh(
        y,
        own[kept],
        height=0.6,
        color=RULE,
        ec=EDGE,
        label="the logger's odds" if exact else "the logger's draws",
    )
    for i, (name, mean) in enumerate(means.items()):
        colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
        mark = partial(panel.plot, ls="none", ms=6, color=colour, marker=marker)
        mark(mean[kept], y, label=plain(name), clip_on=False, zorder=3)
    names = names_of(log)
    panel.set_yticks(
        y, [plain(names[a], 28) if a < len(names) else str(a) for a in kept]
    )
    panel.set_ylim(len(kept) - 0.5, -0.5)
    panel.set_xlim(left=0)
    panel.set_xlabel("mean odds")
    legend(panel)
    some = (
        f" The {_ARMS} of {len(own):,} arms where they differ most."
        if len(kept) < len(own)
        else ""
    )
    return Figure(
        svg(figure),
        f"Overlap by arm: a target's mark far beyond the bar leans on few rows.{some}",
    )


def _by_arm(log: Log, odds: Array) -> Array:
    """The mean of odds (T, K) over all rows, of each arm by its name where names differ
    from row to row."""
    if log.offered is None or log.arms is not None:
        return np.asarray(odds.mean(axis=0))
    names = names_of(log)
    numbers = numbers_of(log, names)
    shared = np.broadcast_to(odds, numbers.shape)[numbers >= 0]
    return np.bincount(
        numbers[numbers >= 0], weights=shared, minlength=len(names)
    ) / len(log)
