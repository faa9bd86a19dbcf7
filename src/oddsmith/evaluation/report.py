"""Report of an assessment: the verdict, tables, and figures of differences, values,
weights and overlap."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from oddsmith.core.arrays import Array
from oddsmith.evaluation.assessment import Answer, Answers, Assessment, has_value
from oddsmith.evaluation.diagnostics import ASYMPTOTIC
from oddsmith.evaluation.rows import all_odds
from oddsmith.evaluation.slate_report import slate_notes, slots_table
from oddsmith.evaluation.verdict import Verdict, reasons, target_name, verdict
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
    "log_notes",
    "refusals",
    "summary",
    "support_known",
    "write_report",
]

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing


_EMPTY = 0.1  # report a larger share of empty rows
_ARMS = 20  # maximum number of arms in the figure of overlap


def summary(found: Assessment) -> list[str]:
    """Return sentences about the log: its rows and kind, the value of the logging
    policy, and whether arms were served as logged."""
    log = found.log
    rewards = int((~np.isnan(log.reward)).sum())
    arms = f"{log.n_arms} arms"
    if log.offered is not None and log.arms is None:
        names = names_of(log)
        arms = f"{len(names):,} arms, at most {log.n_arms} in a row"
    own = found.logged
    value = f"refused: {own.why}"
    if not own.refused:
        kind = f"{own.level:.3g} {own.interval}"
        span = f"[{own.low:z.4f}, {own.high:z.4f}]"
        value = f"{own.value:z.4f} in {span} ({kind})"
    served = found.served
    if not isinstance(served, str):
        served = f"{served.caution}{served.sentence}"
    rows = f"{len(log):,} rows over {arms}, {rewards:,} with a reward"
    return [
        f"{rows}; the log is {log.kind}: {KINDS[log.kind]}.",
        f"The logging policy itself: {value}.",
        f"Served as logged: {served}",
    ]


def log_notes(found: Assessment) -> list[str]:
    """Return sentences about missing rewards, missing propensities and slates, as far
    as they apply.

    >>> from oddsmith.evaluation.assessment import assess
    >>> from oddsmith.logs.table import Log
    >>> log = Log(
    ...     arm=[0, 1] * 200,
    ...     reward=[1, 0] * 150 + [1, np.nan] * 50,
    ...     propensity=[0.5] * 400,
    ...     arms=["a", "b"],
    ... )
    >>> print(*log_notes(assess(log, {"mostly a": [0.9, 0.1]})), sep="; ")
    50 of 400 rows have no reward and were left out; if no reward means 0, write 0.
    """
    notes = []
    n = len(found.log)
    missing = int(np.isnan(found.log.reward).sum())
    if missing > _EMPTY * n:
        notes.append(
            f"{missing:,} of {n:,} rows have no reward and were left out; if no reward "
            "means 0, write 0."
        )
    has_answer = verdict(found).estimator is not None
    is_asymptotic = found.logged.interval in ASYMPTOTIC
    if has_answer and is_asymptotic and not support_known(found):
        # These intervals assume that undrawn arms may have any reward in [0, 1].
        end = "high" if found.log.rewarded().reward.mean() < 0.5 else "low"
        notes.append(
            f"Only the odds of drawn arms are in the log: the {end} ends of intervals "
            "leave room for arms whose odds were not logged, and would be nearer with "
            "the odds of all arms."
        )
    if found.log.slot is not None:
        notes += slate_notes(found)
    return notes


def support_known(found: Assessment) -> bool:
    """Return whether the log shows which arms the logging policy could draw, because
    the propensities of all arms are logged or can be derived."""
    return all_odds(found.log.rewarded()) is not None


def answers_table(found: Assessment) -> Table:
    """Return a table with a row per target and estimator: value, interval and notes."""
    return _table(
        "target",
        _flat(found.answers),
        "The value of each target by each estimator, with the ends of its interval",
    )


def refusals(found: Assessment) -> list[str]:
    """Return the reasons for refusals: one line per target, rule and reason, with the
    estimators that were refused."""
    estimators: dict[tuple[str, str], list[str]] = {}
    rows = [*_flat(found.answers), *_flat(_by_difference(found))]
    for row in rows:
        if isinstance(row.answer, str):
            against = [f"refused: {row.answer}"]
        else:
            broken = reasons(row.answer)
            against = [f"refused by rule {rule}: {why}" for rule, why in broken.items()]
        for why in against:
            key = (row.target, why)
            estimators.setdefault(key, []).append(row.estimator)
    lines = []
    for (target, why), names in estimators.items():
        listed = ", ".join(names)
        lines.append(f"{target}, {listed}: {why}.")
    return lines


class _Row(NamedTuple):
    """The answer of one estimator for one target."""

    target: str
    estimator: str
    answer: Answer


def _flat(answers: Answers) -> list[_Row]:
    rows = []
    for target, by_estimator in answers.items():
        for estimator, answer in by_estimator.items():
            rows.append(_Row(target, estimator, answer))
    return rows


def _table(what: str, rows: list[_Row], caption: str) -> Table:
    cells = []
    for row in rows:
        cells.append((row.target, row.estimator, *_cells(row.answer)))
    headers = (what, "estimator", "value", "low", "high", "note")
    return Table(headers, tuple(cells), caption)


def _by_difference(found: Assessment) -> Answers:
    """Return differences by target and estimator; the target is "TARGET - BASELINE"."""
    differences: Answers = {}
    for estimator, answers in found.differences.items():
        for target, answer in answers.items():
            name = f"{target} - {found.baseline}"
            differences.setdefault(name, {})[estimator] = answer
    return differences


def differences_table(found: Assessment) -> Table:
    """Return a table of the differences from the baseline, with a row per target and
    unbiased estimator."""
    return _table(
        "difference",
        _flat(_by_difference(found)),
        "Differences in value by each estimator, with the ends of their intervals",
    )


def diagnostics_table(found: Assessment) -> Table:
    """Return the table of diagnostics of each target."""
    diagnostics = found.diagnostics
    unit = next((f"{one.unit}s" for one in diagnostics.values()), "rows")
    headers = (
        "target",
        f"effective {unit}",
        "largest weight's share",
        "mass without support",
        "mean weight",
        "± s.e.",
    )
    is_known = support_known(found)
    rows = []
    for target, one in diagnostics.items():
        missing = f"{one.missing:.2%}"
        if not is_known:
            missing = f"at least {missing}" if one.missing else "not known"
        if "ips" not in found.terms[target]:  # none of the estimators uses weights
            rows.append((target, "", "", missing, "", ""))
            continue
        cells = (
            target,
            f"{one.ess:,.1f} of {one.n:,}",
            f"{one.largest_share:.2%}",
            missing,
            f"{one.mean_weight:.4f}",
            f"{one.weight_error:.2g}",
        )
        rows.append(cells)
    return Table(headers, tuple(rows), "How much of the log speaks about each target")


def write_report(
    found: Assessment, path: Path, title: str, notes: Sequence[str] = ()
) -> Path:
    """Write the assessment as one HTML page with verdict, figures, tables and details.
    The file is replaced atomically.

    `notes` are printed below the verdict.
    """
    answer = verdict(found)
    sections = []
    if found.differences:
        baseline = target_name(found.baseline)
        text = (
            f"Paired, row by row, against {baseline}; all rows of an estimator hold "
            "together at its level."
        )
        table = differences_table(found)
        figure = _differences_figure(found, answer)
        differences = Section("Differences", text, tables=(table,), figures=(figure,))
        sections.append(differences)
    values_figure = _values_figure(found)
    values = Section("Values", tables=(answers_table(found),), figures=(values_figure,))
    sections.append(values)
    if found.slots:
        sections.append(Section("By slot", tables=(slots_table(found),)))
    figures = (*_weights_figures(found), _overlap_figure(found))
    overlap = Section(
        "How far the log carries",
        tables=(diagnostics_table(found),),
        figures=figures,
    )
    sections.append(overlap)
    details = Section(
        "Details",
        "\n\n".join(summary(found)),
        printed="\n".join(refusals(found)),
        folded=True,
    )
    sections.append(details)
    text = "\n\n".join([*answer.sentences, *log_notes(found), *notes])
    return write(path, title, text, sections)


def _cells(answer: Answer) -> tuple[str, str, str, str]:
    """Return value, low, high and a note: a refusal, a bias, overruled rules, or a
    chosen setting."""
    if isinstance(answer, str):
        return "", "", "", "refused"
    if answer.refused:
        return "", "", "", f"refused: {', '.join(answer.refused)}"
    notes = []
    if not answer.unbiased and not answer.counted:
        notes.append("its bias is not counted")
    if answer.cut_from is not None:
        notes.append(f"cut from {answer.cut_from:.4g}")
    if answer.setting == np.inf:
        notes.append("nothing shrunk")
    elif answer.setting is not None:
        notes.append(f"setting {answer.setting:.4g}")
    if answer.overruled:
        notes.append(f"overruled: {', '.join(answer.overruled)}")
    note = "; ".join(notes)
    value = f"{answer.value:z.4f}"
    return value, f"{answer.low:z.4f}", f"{answer.high:z.4f}", note


def _differences_figure(found: Assessment, answer: Verdict) -> Figure:
    """Draw by how much each target exceeds the baseline, for each estimator. Thick
    lines belong to the estimator that the verdict uses."""
    suffix = f" - {found.baseline}"
    by_target = {}
    for name, answers in _by_difference(found).items():
        by_target[name.removesuffix(suffix)] = answers
    baseline = target_name(found.baseline)
    figure, panel = _bars(_flat(by_target), answer.estimator)
    panel.axvline(0, color=SOFT, ls="--", lw=1)
    panel.set_xlabel(f"more per decision than {baseline}")
    caption = (
        f"What each target earns more than {baseline}: right of the dashed line is "
        f"better. Thick: {answer.estimator}, which the verdict is by."
    )
    return Figure(svg(figure), caption)


def _values_figure(found: Assessment) -> Figure:
    """Draw values with intervals, a band of rows for each target."""
    figure, panel = _bars(_flat(found.answers))
    if not found.logged.refused:
        panel.axvline(found.logged.value, color=SOFT, ls="--", lw=1)
        own = found.logged
        panel.axvspan(own.low, own.high, color=EDGE, alpha=0.2, lw=0)
    panel.set_xlabel("value, mean reward")
    caption = (
        "Each estimator's value with its interval (dotted: its bias is not counted). "
        "Dashed: the logging policy."
    )
    return Figure(svg(figure), caption)


def _bars(rows: list[_Row], thick: str | None = None) -> "tuple[list[Drawing], Axes]":
    """Return a figure and its panel: one interval per line, coloured by target; only
    the lines of `thick` are thick."""
    targets = list(dict.fromkeys(row.target for row in rows))
    figure, (panel,) = panels(height=1.2 + 0.3 * len(rows))
    labels = []
    for y, row in enumerate(rows):
        label = row.estimator
        if len(targets) > 1:
            label = f"{plain(row.target, 24)} · {label}"
        labels.append(label)
        is_thick = thick in (None, row.estimator)
        number = targets.index(row.target)
        _draw_bar(panel, y, row.answer, number, is_thick)
    panel.set_yticks(range(len(rows)), labels)
    panel.set_ylim(len(rows) - 0.5, -0.5)
    return figure, panel


def _draw_bar(
    panel: "Axes", y: int, answer: Answer, number: int, is_thick: bool
) -> None:
    """Draw an interval in line y, in the colour of the target with this number."""
    if isinstance(answer, str) or not has_value(answer):
        place = (0.01, y)
        axes = ("axes fraction", "data")
        panel.annotate("refused", place, xycoords=axes, va="center", color=SOFT)
        return
    colour = COLOURS[number % len(COLOURS)]
    line = ":"
    if answer.unbiased:
        line = "-"
    width = 1.0
    size = 5
    fill = SHEET
    if is_thick:
        width = 2.5
        size = 7
        fill = colour
    span = [answer.low, answer.high]
    panel.plot(span, [y, y], color=colour, ls=line, lw=width)
    marker = MARKERS[number % len(MARKERS)]
    panel.plot(answer.value, y, color=colour, marker=marker, ms=size, mfc=fill)


def _weights_figures(found: Assessment) -> list[Figure]:
    """Draw the distribution of weights on log scales. The legend counts rows of weight
    0. Without weights there is no figure."""
    weights_of = {}
    for name, terms in found.terms.items():
        if "ips" in terms and terms["ips"].weights is not None:
            weights_of[name] = terms["ips"].weights
    if not weights_of:
        return []
    figure, (panel,) = panels()
    positive = {name: weights[weights > 0] for name, weights in weights_of.items()}
    all_weights = np.concatenate([*positive.values(), np.ones(1)])
    low = all_weights.min() / 1.3
    high = all_weights.max() * 1.3
    edges = np.geomspace(low, high, 41)
    for i, (name, weights) in enumerate(positive.items()):
        zeros = 1 - len(weights) / len(weights_of[name])
        counts, _ = np.histogram(weights, edges)
        share = f"{zeros:.0%} of rows have weight 0"
        color = COLOURS[i % len(COLOURS)]
        style = DASHES[i % len(DASHES)]
        panel.stairs(
            counts,
            edges,
            label=f"{plain(name, 28)}: {share}",
            color=color,
            ls=style,
            lw=1.8,
        )
    panel.axvline(1, color=SOFT, lw=1)
    panel.set(xscale="log", yscale="log", xlim=(low, high))
    panel.set(xlabel="weight, target's odds / logged odds", ylabel="rows")
    panel.set_ylim(bottom=0.7)
    legend(panel)
    caption = (
        "Weights of the drawn arms. A tail far to the right of 1 is what makes "
        "intervals wide."
    )
    return [Figure(svg(figure), caption)]


def _overlap_figure(found: Assessment) -> Figure:
    """Draw mean propensities by arm, of the logging policy and of the targets."""
    log = found.log
    means = {}
    for name, odds in found.targets.items():
        means[name] = _by_arm(log, np.atleast_2d(odds))
    if log.propensities is not None:
        own = _by_arm(log, log.propensities)
        own_label = "the logging policy's odds"
    else:  # without names, arms are numbered by their position in the row
        width = max(np.shape(odds)[-1] for odds in found.targets.values())
        drawn = np.arange(width) == log.arm[:, None]
        own = _by_arm(log, drawn)
        own_label = "the logging policy's draws"
    distances = [np.abs(mean - own) for mean in means.values()]
    apart = np.max(distances, axis=0)
    farthest = np.argsort(-apart, kind="stable")[:_ARMS]
    arms = np.sort(farthest)
    figure, (panel,) = panels(height=1.5 + 0.28 * len(arms))
    y = np.arange(len(arms))
    panel.barh(y, own[arms], height=0.6, color=RULE, ec=EDGE, label=own_label)
    for i, (name, mean) in enumerate(means.items()):
        colour = COLOURS[i % len(COLOURS)]
        marker = MARKERS[i % len(MARKERS)]
        panel.plot(
            mean[arms],
            y,
            ls="none",
            ms=6,
            color=colour,
            marker=marker,
            label=plain(name),
            clip_on=False,
            zorder=3,
        )
    names = names_of(log)
    labels = []
    for a in arms:
        label = plain(names[a], 28) if a < len(names) else str(a)
        labels.append(label)
    panel.set_yticks(y, labels)
    panel.set_ylim(len(arms) - 0.5, -0.5)
    panel.set_xlim(left=0)
    panel.set_xlabel("mean odds")
    legend(panel)
    caption = "Overlap by arm: a target's mark far beyond the bar leans on few rows."
    if len(arms) < len(own):
        caption += f" The {_ARMS} of {len(own):,} arms where they differ most."
    return Figure(svg(figure), caption)


def _by_arm(log: Log, odds: Array) -> Array:
    """Return the mean of propensities (T, K) over all rows, by arm name if names differ
    from row to row."""
    if log.offered is None or log.arms is not None:
        return np.asarray(odds.mean(axis=0))
    names = names_of(log)
    numbers = numbers_of(log, names)
    is_arm = numbers >= 0
    shares = np.broadcast_to(odds, numbers.shape)[is_arm]
    sums = np.bincount(numbers[is_arm], weights=shares, minlength=len(names))
    return sums / len(log)
