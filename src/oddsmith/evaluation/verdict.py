"""Verdict: an assessment as one sentence, with the next step if the log has no
answer."""

from math import ceil, isclose, isnan
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from oddsmith.core.arrays import Array
from oddsmith.evaluation.assessment import LOGGED, Answer, Assessment, has_value
from oddsmith.evaluation.diagnostics import ASYMPTOTIC, ESS, MISSING, broken_rules
from oddsmith.evaluation.intervals import Estimate
from oddsmith.evaluation.rows import certain_rows
from oddsmith.evaluation.slates import slates_of
from oddsmith.files.reports.answer import Span, chart, compared, digits, interval

__all__ = [
    "ORDER",
    "Verdict",
    "more_decisions",
    "next_step",
    "reasons",
    "target_name",
    "verdict",
]

ORDER = ("dr", "snips", "ips")
"""Order of estimators for the verdict. The one with answers for most targets is used,
or the earlier of two.

The choice depends on which targets an estimator can answer, and never on the values of
its answers."""
_POWER = 0.8
# If an answer needs more than this many times the log's decisions, say only that the
# log is far too small.
_FAR = 100
_NEXT = {
    "overlap": (
        "let the logging policy draw every arm the target draws (gamma or floors above "
        "0), or "
        "ask for another target"
    ),
    "share": "log more decisions, or ask for a target nearer to the logging policy",
    "weight": "check that the logged odds are those the arms were drawn with",
    "digits": "log the propensities with all their digits",
    "constant": (
        "ask for the interval anytime, which is for the mean of a value that drifts"
    ),
}


class Verdict(NamedTuple):
    """Sentences about the targets, the best first and those without an answer last.
    `estimator` computed the numbers.

    `picture` is a chart for a terminal: differences from the baseline, or values if
    there are none.
    """

    estimator: str | None
    sentences: tuple[str, ...]
    picture: str

    def __str__(self) -> str:
        return self.sentences[0]


def verdict(found: Assessment) -> Verdict:
    """Return a sentence for each target except the baseline.

    >>> from oddsmith.evaluation.assessment import assess
    >>> from oddsmith.logs.table import Log
    >>> log = Log(
    ...     arm=[0, 1] * 200, reward=[1, 0] * 150 + [1, 1] * 50, propensity=[0.5] * 400
    ... )
    >>> print(verdict(assess(log, {"mostly 0": [0.9, 0.1]})))
    mostly 0 earns 0.300 more per decision than the logging policy, [0.242, 0.339] (95 %
    beta interval, snips).
    """
    estimator = _estimator(found)
    own_answers = {}
    for name, answers in found.answers.items():
        own_answers[name] = answers.get(estimator or "", "")
    if list(own_answers) != [found.baseline]:
        own_answers.pop(found.baseline, None)
    differences = {}
    if estimator:
        differences = found.differences.get(estimator, {})
    compared_answers = {}
    for name in own_answers:
        if not _draws_as_baseline(found, name):
            compared_answers[name] = differences.get(name, "")
    compare = _best_first(compared_answers)
    values = _best_first(own_answers)
    sentences = []
    for place, (name, one) in enumerate(compare.items()):
        subject = name
        if not place:
            subject = _highest(compare)
        how = _how(found, one, estimator or "", len(differences))
        baseline = target_name(found.baseline)
        comparison = compared(subject, baseline, _span(one), how)
        sentences.append(_difference(comparison, one))
    for name, one in values.items():
        if name not in compare:
            difference = differences.get(name)
            sentences.append(_value(found, name, one, difference))
    for name in own_answers:
        if name not in compare and name not in values:
            sentences.append(_refusal(found, name))
    cautions = _cautions(found, compares=bool(compare))
    sentences[0] = cautions + sentences[0]
    names = list(own_answers)
    picture = _picture(found, names, compare, values)
    return Verdict(estimator, tuple(sentences), picture)


def _cautions(found: Assessment, *, compares: bool) -> str:
    """Return warnings to read before the first sentence: rewards that are all equal, or
    arms that do not follow the logged propensities."""
    equal = ""
    rewards = found.log.rewarded().reward
    if compares and rewards.min() == rewards.max():
        reward = found.scale.value(float(rewards[0]))
        equal = (
            f"All {len(rewards):,} rewards are {reward:g}, which tells no target "
            "from another: "
        )
    served = found.served
    if isinstance(served, str) or not served.caught:
        return equal
    claim = ""
    if served.evidence != "decisive":
        claim = f"there is {served.evidence} evidence that "
    return (
        f"Caution, {claim}arms do not follow the logged odds, so this may be "
        f"wrong: {equal}"
    )


def more_decisions(difference: Estimate) -> float:
    """Return how many additional decisions like those of the log are needed to show a
    difference of this size with probability 0.8.

    The result depends on the end of the interval that must pass 0, which is the low end
    for a gain. The distance d of this end from the estimate shrinks as 1/√n, so n ((z +
    0.84) / z · d / difference)² decisions are needed in total (∞ for no difference).
    The other end does not matter; it may be far away if only the propensities of drawn
    arms are logged. The result is NaN for Bernstein and anytime intervals, whose width
    does not shrink in this way.
    """
    if difference.interval not in ASYMPTOTIC:
        return float("nan")
    value = difference.value
    if value == 0:
        return float("inf")
    n = difference.diagnostics.n
    z = NormalDist().inv_cdf((1 + difference.level) / 2)
    side = difference.high - value
    if value > 0:
        side = value - difference.low
    power = NormalDist().inv_cdf(_POWER)
    reach = side * (z + power) / z
    needed = n * (reach / abs(value)) ** 2
    return max(0.0, needed - n)


def _estimator(found: Assessment) -> str | None:
    """Return the estimator that compares most targets with the baseline. Ties are
    resolved by the number of values, then by ORDER. Return None if no estimator has an
    answer."""
    best = None
    most = (0, 0)
    for name in ORDER:
        differences = found.differences.get(name, {}).values()
        compared_targets = sum(has_value(one) for one in differences)
        valued_targets = sum(
            has_value(answers.get(name, "")) for answers in found.answers.values()
        )
        if (compared_targets, valued_targets) > most:
            best = name
            most = (compared_targets, valued_targets)
    return best


def _draws_as_baseline(found: Assessment, name: str) -> bool:
    """Return whether a target draws like the baseline in every row, so that their
    difference is exactly 0."""
    if name == found.baseline:
        return False
    weights = _weights(found, name)
    other = 1.0 if found.baseline == LOGGED else _weights(found, found.baseline)
    if weights is None or other is None:
        return False
    return np.allclose(weights, other, rtol=1e-9, atol=0)


def _weights(found: Assessment, name: str) -> Array | None:
    terms = found.terms.get(name, {}).get("ips")
    if terms is None:
        return None
    return terms.weights


def _best_first(answers: dict[str, Answer]) -> dict[str, Estimate]:
    """Return the answers that are numbers, the highest value first."""
    estimates = {}
    for name, one in answers.items():
        if isinstance(one, Estimate) and has_value(one):
            estimates[name] = one
    names = sorted(estimates, key=lambda name: -estimates[name].value)
    return {name: estimates[name] for name in names}


def _highest(compare: dict[str, Estimate]) -> str:
    """Return the name of the first target, and how it compares with the others."""
    first, *others = compare
    best = compare[first].value
    level = []
    for name in others:
        if isclose(compare[name].value, best, rel_tol=0, abs_tol=1e-12):
            level.append(name)
    if level:
        return f"{first}, level with {' and '.join(level)},"
    if others:
        return f"{first}, the highest of {len(compare)},"
    return first


def _difference(sentence: str, one: Estimate) -> str:
    """Return the sentence about a difference. If no difference is shown, add how many
    decisions would be needed."""
    if not one.low <= 0 <= one.high:
        return f"{sentence}."
    more = more_decisions(one)
    if isnan(more):
        return f"{sentence}."
    units = _units(one)
    if more > _FAR * one.diagnostics.n:
        return (
            f"{sentence}; to show a difference as small as that would take more than "
            f"{_FAR} times as many {units}."
        )
    return (
        f"{sentence}; about {_about(more)} more {units} like these would show a "
        "difference of that size, 4 times in 5."
    )


def _value(
    found: Assessment, name: str, one: Estimate, difference: Answer | None
) -> str:
    """Return a sentence with a target's own value and, unless it is the baseline, the
    reason why it is not compared."""
    span = _span(one)
    number = f"{one.value:z.{digits(span)}f}"
    how = _how(found, one, one.name)
    sentence = f"{name} earns {number} per decision, {interval(span)} ({how})"
    if name == found.baseline:
        return f"{sentence}."
    baseline = target_name(found.baseline)
    if _draws_as_baseline(found, name):
        return (
            f"{name} draws as {baseline} does, so there is no difference to show: "
            f"{sentence}."
        )
    why = "a bias that is not counted does not cancel"
    if difference is not None:
        why = _why(difference)
    else:
        answers = found.answers.get(found.baseline, {})
        answer = answers.get(one.name, "")
        if not has_value(answer):
            why = _why(answer)
    return (
        f"{sentence}; there is no interval for its difference from {baseline}: {why}."
    )


def _refusal(found: Assessment, name: str) -> str:
    """Return why a target has no answer, by the first estimator that a rule refused,
    and what to do next."""
    answers = found.answers[name]
    ordered = [answers[estimator] for estimator in ORDER if estimator in answers]
    estimates = [answer for answer in ordered if isinstance(answer, Estimate)]
    if not estimates:
        return f"No answer for {name}: {ordered[0]}."
    one = estimates[0]
    rule, *others = one.refused
    also = ""
    if others:
        also = f", and {', '.join(others)}"
    then = ""
    if rule == "overlap":
        then = _not_drawn(found, name)
    if not then:
        then = f". Next: {next_step(one)}"
    reason = reasons(one)[rule]
    return f"No answer for {name}: {reason} (rule {rule}{also}){then}."


def _not_drawn(found: Assessment, name: str) -> str:
    """Return a note if all missing probability is in rows in which one arm had
    propensity 1: their number and what to do. Otherwise return ""."""
    log = found.log.rewarded()
    terms = next(iter(found.terms[name].values()))
    missing = terms.missing
    if log.propensity is None and log.propensities is None:
        return ""
    certain = certain_rows(log)
    elsewhere = missing[~certain].sum()
    if certain.all() or elsewhere > MISSING * len(log):
        return ""
    option = "where_drawn, --where-drawn"
    in_slate = certain & (log.slot != 0)
    if slates_of(log) is not None and in_slate.any():
        option = "--slot N --where-drawn"
    rows = (certain & (missing > 0)).sum()
    return (
        f", all of it in {rows:,} of {len(log):,} rows, in which one arm had all odds "
        "though others were eligible: nothing was drawn there, as where an incumbent "
        f"or a client's fallback decides. Next: leave such rows out "
        f"({option}), or ask for another target"
    )


def next_step(one: Estimate) -> str:
    """Return what to do about the first rule that refused an estimate."""
    rule = one.refused[0]
    beside = one.diagnostics
    if rule != "ess":
        default = f"what the rule asks for; if you know better, overrule {rule}"
        return _NEXT.get(rule, default)
    if not beside.ess > 0:
        return _NEXT["share"]
    factor = ESS / beside.ess - 1
    more = _about(beside.n * factor)
    return (
        f"log about {more} more {_units(one)} like these for any answer, and more for "
        "a narrow one, or ask for a target nearer to the logging policy"
    )


def reasons(one: Estimate) -> dict[str, str]:
    """Return the reason of each rule that refused an estimate."""
    against = broken_rules(one.diagnostics, one.interval)
    return {rule: against.get(rule, one.why) for rule in one.refused}


def _why(answer: Answer) -> str:
    if isinstance(answer, str):
        return answer
    return answer.why


def _how(found: Assessment, one: Estimate, estimator: str, together: int = 1) -> str:
    """Return the level and kind of the interval, the estimator, and caveats, as text in
    brackets."""
    percent = 100 * found.logged.level
    level = f"{percent:.4g} % {one.interval} interval"
    if together > 1:
        level = f"{level}s for all {together} together"
    parts = [level, estimator]
    if one.interval.startswith("anytime"):
        parts.append(one.assumption)
    if not one.unbiased and not one.counted:
        parts.append("its bias not counted")
    if one.overruled:
        parts.append(f"rule {', '.join(one.overruled)} overruled")
    if one.cut_from is not None:
        parts.append(f"cut from {one.cut_from:.4g}")
    return ", ".join(parts)


def _picture(
    found: Assessment,
    names: list[str],
    compare: dict[str, Estimate],
    values: dict[str, Estimate],
) -> str:
    """Draw differences from the baseline if there are any, otherwise values. Refused
    answers come last."""
    answers = compare or values
    if not answers:
        return ""
    nothing = Span(float("nan"), float("nan"), float("nan"))
    bars = []
    for name, one in answers.items():
        bars.append((name, _span(one)))
    for name in names:
        if name not in answers:
            bars.append((name, nothing))
    zero = ""
    if compare:
        zero = target_name(found.baseline)
    return chart(bars, zero=zero)


def _span(one: Estimate) -> Span:
    return Span(one.value, one.low, one.high)


def target_name(name: str) -> str:
    """Return the name of a target for a sentence."""
    if name == LOGGED:
        return "the logging policy"
    return name


def _units(one: Estimate) -> str:
    if one.diagnostics.unit == "slate":
        return "slates"
    return "decisions"


def _about(count: float) -> str:
    """Return a number rounded up to two digits.

    >>> _about(23456.7), _about(88.1)
    ('24,000', '89')
    """
    digits = len(str(ceil(count)))
    digits_left = max(0, digits - 2)
    unit = 10**digits_left
    return f"{ceil(count / unit) * unit:,}"
