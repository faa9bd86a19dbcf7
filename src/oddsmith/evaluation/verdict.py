"""The verdict: an assessment in one sentence that can be read aloud, with the next step
where the log has no answer."""

from math import ceil, isclose, isinf
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from oddsmith.evaluation.assessment import LOGGED, Answer, Assessment, given
from oddsmith.evaluation.diagnostics import ESS, MISSING, broken
from oddsmith.evaluation.intervals import Estimate
from oddsmith.evaluation.rows import certain
from oddsmith.evaluation.slates import slates_of
from oddsmith.files.reports.answer import Span, chart, compared, digits, interval

__all__ = [
    "ORDER",
    "Verdict",
    "called",
    "more_decisions",
    "next_step",
    "reasons",
    "verdict",
]

ORDER = ("dr", "snips", "ips")
"""Which estimator a verdict is by: the one that answers for most targets, the earlier
of two that answer for as many.

Never the one whose answer is better: an estimator is chosen by what it can answer, not
by what it says."""
_POWER = 0.8
_FAR = 100  # times as many decisions: beyond it, say so
_NEXT = {
    "overlap": (
        "let the logger draw every arm the target draws (gamma or floors above 0), or "
        "ask for another target"
    ),
    "share": "log more decisions, or ask for a target nearer to the logger",
    "weight": "check that the logged odds are those the arms were drawn with",
    "digits": "log the propensities with all their digits",
    "constant": (
        "ask for the interval anytime, which is for the mean of a value that drifts"
    ),
}


class Verdict(NamedTuple):
    """Sentences about the targets, the best first and those without an answer last;
    `estimator` made the numbers.

    `picture` is a chart for a terminal: differences from the baseline, or values where
    there are none.
    """

    estimator: str | None
    sentences: tuple[str, ...]
    picture: str

    def __str__(self) -> str:
        return self.sentences[0]


def verdict(found: Assessment) -> Verdict:
    """What an assessment says, in a sentence for each target but the baseline.

    >>> from oddsmith.evaluation.assessment import assess
    >>> from oddsmith.logs.table import Log
    >>> log = Log(
    ...     arm=[0, 1] * 200, reward=[1, 0] * 150 + [1, 1] * 50, propensity=[0.5] * 400
    ... )
    >>> print(verdict(assess(log, {"mostly 0": [0.9, 0.1]})))
    mostly 0 earns 0.300 more per decision than the logger, [0.242, 0.339] (95 % beta
    interval, snips).
    """
    estimator = _estimator(found)
    names = [name for name in found.answers if name != found.baseline] or list(
        found.answers
    )
    differences = found.differences.get(estimator, {}) if estimator else {}
    compare = _best_first(
        {name: differences.get(name, "") for name in names if not _same(found, name)}
    )
    values = _best_first(
        {name: found.answers[name].get(estimator or "", "") for name in names}
    )
    sentences = []
    for place, (name, one) in enumerate(compare.items()):
        own = name if place else _highest(compare)
        how = _how(found, one, estimator or "", len(differences))
        sentences.append(
            _difference(compared(own, called(found.baseline), _span(one), how), one)
        )
    sentences += [
        _value(found, name, one, differences.get(name))
        for name, one in values.items()
        if name not in compare
    ]
    sentences += [
        _refusal(found, name)
        for name in names
        if name not in compare and name not in values
    ]
    rewards = found.scale.value(found.log.rewarded().reward)
    if compare and rewards.min() == rewards.max():
        equal = (
            f"All {len(rewards):,} rewards are {rewards[0]:g}, which tells no target "
            "from another"
        )
        sentences[0] = f"{equal}: {sentences[0]}"
    if not isinstance(found.served, str) and found.served.caught:
        claim = (
            ""
            if found.served.evidence == "decisive"
            else f"there is {found.served.evidence} evidence that "
        )
        sentences[0] = (
            f"Caution, {claim}arms do not follow the logged odds, so this may be "
            f"wrong: {sentences[0]}"
        )
    return Verdict(estimator, tuple(sentences), _picture(found, names, compare, values))


def more_decisions(difference: Estimate) -> float:
    """How many more decisions like those of the log would show a difference of this
    size, four times in five.

    What decides is the end of the interval that has to pass 0, the low one of a gain.
    Its distance d from the estimate shrinks as 1/√n, so n ((z + 0.84) / z · d /
    difference)² in all; ∞ for no difference. The other end may be far away where the
    odds of drawn arms alone are logged, and does not matter. NaN for Bernstein and
    anytime intervals, whose width has no such law.
    """
    if difference.interval not in ("beta", "normal", "bootstrap"):
        return float("nan")
    if difference.value == 0:
        return float("inf")
    n, z = difference.diagnostics.n, NormalDist().inv_cdf((1 + difference.level) / 2)
    side = (
        difference.value - difference.low
        if difference.value > 0
        else difference.high - difference.value
    )
    reach = side * (z + NormalDist().inv_cdf(_POWER)) / z
    return max(0.0, n * (reach / abs(difference.value)) ** 2 - n)


def _estimator(found: Assessment) -> str | None:
    """The first in ORDER that compares, then values, most targets; None where none has
    an answer."""

    def answers(name: str) -> tuple[int, int]:
        valued = sum(given(by.get(name, "")) for by in found.answers.values())
        return sum(
            given(one) for one in found.differences.get(name, {}).values()
        ), valued

    best = max(ORDER, key=answers)
    return best if any(answers(best)) else None


def _same(found: Assessment, name: str) -> bool:
    """Whether a target draws as the baseline does, in every row: then their difference
    is 0, not estimated."""
    sides = [found.terms.get(one, {}).get("ips") for one in (name, found.baseline)]
    weights = [None if side is None else side.weights for side in sides]
    if weights[0] is None or name == found.baseline:
        return False
    other = 1.0 if found.baseline == LOGGED else weights[1]
    return other is not None and np.allclose(weights[0], other, rtol=1e-9, atol=0)


def _best_first(answers: dict[str, Answer]) -> dict[str, Estimate]:
    """Those that were answered, the highest value first."""
    numbers = [
        (name, one)
        for name, one in answers.items()
        if isinstance(one, Estimate) and given(one)
    ]
    return dict(sorted(numbers, key=lambda pair: -pair[1].value))


def _highest(compare: dict[str, Estimate]) -> str:
    """The name of the first target, and how it stands beside the others."""
    first, *others = compare
    level = [
        name
        for name in others
        if isclose(compare[name].value, compare[first].value, rel_tol=0, abs_tol=1e-12)
    ]
    if level:
        return f"{first}, level with {' and '.join(level)},"
    return f"{first}, the highest of {len(compare)}," if others else first


def _difference(sentence: str, one: Estimate) -> str:
    """The sentence, and where no difference is shown, how many decisions it would
    take."""
    if not one.low <= 0 <= one.high:
        return f"{sentence}."
    more, n, units = more_decisions(one), one.diagnostics.n, _units(one)
    if more != more:
        return f"{sentence}."
    if isinf(more) or more > _FAR * n:
        return (
            f"{sentence}; to show a difference as small as that would take more than "
            f"{_FAR} times as many {units}."
        )
    size = (
        f"about {_about(more)} more {units} like these would show a difference of that "
        "size, 4 times in 5"
    )
    return f"{sentence}; {size}."


def _value(
    found: Assessment, name: str, one: Estimate, difference: Answer | None
) -> str:
    """What a target is worth by itself, and why it is not compared, unless it is the
    baseline."""
    span, how = _span(one), _how(found, one, one.name)
    sentence = (
        f"{name} earns {one.value:z.{digits(span)}f} per decision, {interval(span)} "
        f"({how})"
    )
    if name == found.baseline:
        return f"{sentence}."
    if _same(found, name):
        return (
            f"{name} draws as {called(found.baseline)} does, so there is no difference "
            f"to show: {sentence}."
        )
    if difference is None:
        base = found.answers.get(found.baseline, {}).get(one.name, "")
        why = (
            _why(base)
            if not given(base)
            else "a bias that is not counted does not cancel"
        )
    else:
        why = _why(difference)
    return (
        f"{sentence}; there is no interval for its difference from "
        f"{called(found.baseline)}: {why}."
    )


def _refusal(found: Assessment, name: str) -> str:
    """Why a target has no answer, by the first estimator that a rule refused, and what
    to do next."""
    answers = found.answers[name]
    ordered = [answers[estimator] for estimator in ORDER if estimator in answers]
    one = next(
        (answer for answer in ordered if isinstance(answer, Estimate)), ordered[0]
    )
    if isinstance(one, str):
        return f"No answer for {name}: {one}."
    rule, *others = one.refused
    also = f", and {', '.join(others)}" if others else ""
    then = (
        _not_drawn(found, name) if rule == "overlap" else ""
    ) or f". Next: {next_step(one)}"
    return f"No answer for {name}: {reasons(one)[rule]} (rule {rule}{also}){then}."


def _not_drawn(found: Assessment, name: str) -> str:
    """Where all mass without support is in rows in which nothing was drawn: how many,
    and the way out; else ""."""
    log, missing = found.log.rewarded(), next(iter(found.terms[name].values())).missing
    if log.propensity is None and log.propensities is None:
        return ""
    sure = certain(log)
    if sure.all() or missing[~sure].sum() > MISSING * len(log):
        return ""
    slates = slates_of(log) is not None and (sure & (log.slot != 0)).any()
    option = "--slot N --where-drawn" if slates else "where_drawn, --where-drawn"
    return (
        f", all of it in {(sure & (missing > 0)).sum():,} of {len(log):,} rows, in "
        "which one arm had all odds though others were eligible: nothing was drawn "
        "there, as where an incumbent or a client's fallback decides. Next: leave "
        f"such rows out ({option}), or ask for another target"
    )


def next_step(one: Estimate) -> str:
    """What to do about the first rule that refused an estimate."""
    rule, beside = one.refused[0], one.diagnostics
    if rule != "ess":
        return _NEXT.get(
            rule, f"what the rule asks for; if you know better, overrule {rule}"
        )
    if not beside.ess > 0:
        return _NEXT["share"]
    more = _about(beside.n * (ESS / beside.ess - 1))
    enough = (
        f"log about {more} more {_units(one)} like these for any answer, and more for "
        "a narrow one"
    )
    return f"{enough}, or ask for a target nearer to the logger"


def reasons(one: Estimate) -> dict[str, str]:
    """What each rule that refused an estimate says against it."""
    against = broken(one.diagnostics, one.interval)
    return {rule: against.get(rule, one.why) for rule in one.refused}


def _why(answer: Answer) -> str:
    return answer if isinstance(answer, str) else answer.why


def _how(found: Assessment, one: Estimate, estimator: str, together: int = 1) -> str:
    """Level and kind of the interval, the estimator, and what else must be known."""
    level = f"{100 * found.logged.level:.4g} % {one.interval} interval"
    parts = [
        level if together < 2 else f"{level}s for all {together} together",
        estimator,
    ]
    parts += [one.assumption] if one.interval.startswith("anytime") else []
    parts += [] if one.unbiased or one.counted else ["its bias not counted"]
    parts += [f"rule {', '.join(one.overruled)} overruled"] if one.overruled else []
    if one.cut_from is not None:
        parts.append(f"cut from {one.cut_from:.4g}")
    return ", ".join(parts)


def _picture(
    found: Assessment,
    names: list[str],
    compare: dict[str, Estimate],
    values: dict[str, Estimate],
) -> str:
    """Differences from the baseline where there are some, else values; refused ones
    last."""
    shown = compare or values
    nothing = float("nan")
    bars = [(name, _span(one)) for name, one in shown.items()]
    bars += [
        (name, Span(nothing, nothing, nothing)) for name in names if name not in shown
    ]
    return chart(bars, zero=called(found.baseline) if compare else "") if shown else ""


def _span(one: Estimate) -> Span:
    return Span(one.value, one.low, one.high)


def called(name: str) -> str:
    """What a sentence calls a target."""
    return "the logger" if name == LOGGED else name


def _units(one: Estimate) -> str:
    return "slates" if one.diagnostics.unit == "slate" else "decisions"


def _about(count: float) -> str:
    """Two digits of a number, rounded up.

    >>> _about(23456.7), _about(88.1)
    ('24,000', '89')
    """
    unit = 10 ** max(0, len(str(ceil(count))) - 2)
    return f"{ceil(count / unit) * unit:,}"
