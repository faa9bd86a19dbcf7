"""Assessment of a log: all estimators for all targets, with diagnostics."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from oddsmith.contexts.rewards import RewardScale
from oddsmith.core.arrays import Array, Bools, number
from oddsmith.core.errors import InvalidInput
from oddsmith.core.names import check_choice
from oddsmith.evaluation.diagnostics import Diagnostics, check_rules, diagnose
from oddsmith.evaluation.draws import ServedReport, served_as_logged
from oddsmith.evaluation.estimators import (
    clipped_ips,
    dm,
    dr,
    ips,
    logged,
    shrunk_dr,
    snips,
    switch_dr,
)
from oddsmith.evaluation.intervals import Estimate, compare, estimate
from oddsmith.evaluation.rows import Rows, rows_of
from oddsmith.evaluation.slates import Slates, by_place, slates_of
from oddsmith.evaluation.terms import Bets, DrawnOdds, Extremes, Terms
from oddsmith.logs.progress import LINE_EVERY_S, Bar
from oddsmith.logs.table import Log

__all__ = [
    "Answer",
    "Answers",
    "Assessment",
    "ESTIMATORS",
    "LOGGED",
    "assess",
    "has_value",
    "in_units",
    "whole_slates",
]


def whole_slates(log: Log, target: object) -> Terms:
    """Return W r for each slate, where W = Π π/p over its slots and r is the mean of
    their rewards. Slates with missing rewards are left out.

    The mean of W r estimates the mean reward per slot if the target fills every slot of
    a slate, with each slot drawn from the arms that its own earlier draws left. The
    estimate is valid even if rewards of slots depend on one another. Few logs are large
    enough for it, because W is the product of the weights of all slots.

    >>> odds = [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]] * 2
    >>> log = Log(
    ...     arm=[0, 2, 1, 0],
    ...     reward=[1, 0, 1, 1],
    ...     propensities=odds,
    ...     slate=list("aabb"),
    ...     slot=[1, 2, 1, 2],
    ... )
    >>> whole_slates(
    ...     log, [[0.8, 0.2, 0], [0.5, 0, 0.5], [0.8, 0.2, 0], [0.5, 0, 0.5]]
    ... ).values
    array([0.8, 0.4])
    """
    rows = rows_of(log, target)
    kept, slates = _complete(log, rows)
    n = int(slates.number.max()) + 1
    slots = int(slates.place.max())
    weights = np.ones((n, slots))
    missing = np.zeros_like(weights)
    where = (slates.number, slates.place - 1)
    weights[where] = rows.weights[kept]
    missing[where] = rows.missing[kept]
    whole = weights.prod(axis=1)
    rounding = None
    if rows.rounding is not None:
        largest = np.ones_like(weights)
        most = rows.weights + rows.rounding
        largest[where] = most[kept]
        rounding = largest.prod(axis=1) - whole
    # Product of the weights of all earlier slots of the slate.
    earlier = np.insert(weights[:, :-1], 0, 1.0, axis=1)
    before = np.cumprod(earlier, axis=1)
    # Share of the target's slates that the log cannot contain, estimated by the
    # weights.
    lost = np.minimum((before * missing).sum(axis=1), 1.0)
    reward = slates.means(rows.reward[kept])
    gain = whole * reward
    least = None
    if rows.least is not None:
        least = rows.least**slots
    extremes = partial(Extremes, whole, np.zeros(n), np.ones(n))
    filled = (1.0 - lost)[:, None]
    drawn = DrawnOdds(filled, whole, reward)
    bets = Bets(gain, whole - gain, 0.0, 1.0)
    return Terms(
        name="ips of whole slates",
        values=gain,
        missing=lost,
        weights=whole,
        rounding=rounding,
        least=least,
        bets=bets,
        drawn=drawn,
        extremes=extremes,
        unit="slate",
    )


def _complete(log: Log, rows: Rows) -> tuple[Bools, Slates]:
    """Return a mask of the rewarded rows in slates without missing rewards, and these
    slates.

    Raise if a slot is not in the log.
    """
    n = len(log)
    slates = slates_of(log)
    if slates is None:
        slates = Slates(np.arange(n), np.ones(n, np.int64))
    is_missing = np.isnan(log.reward)
    missing = np.bincount(slates.number, weights=is_missing)
    waiting = missing[slates.number] > 0
    if waiting.all():
        raise InvalidInput(
            f"whole slates need all their rewards; got none with them in {n:,} rows"
        )
    sizes = np.bincount(slates.number)[slates.number]
    is_beyond = slates.place > sizes
    if is_beyond.any():
        row = int(np.argmax(is_beyond))
        slate = log.slate[row]
        place = slates.place[row]
        raise InvalidInput(
            f"whole slates need all their slots; slate {slate!r:.40} has slot {place}, "
            f"and {sizes[row]} slots in all"
        )
    is_complete = ~waiting
    _, numbers = np.unique(slates.number[is_complete], return_inverse=True)
    return is_complete[rows.known], Slates(numbers, slates.place[is_complete])


Answer = Estimate | str
"""An estimate (possibly refused by a rule), or a sentence that explains why there is
none."""
Answers = dict[str, dict[str, Answer]]
"""Answers by target and estimator, or by estimator and target."""
LOGGED = "logged"
"""Name of the logging policy among the targets."""
_PLAIN: dict[str, Callable[..., Terms]] = {
    "ips": ips,
    "snips": snips,
    "clipped_ips": clipped_ips,
}
_MODELLED: dict[str, Callable[..., Terms]] = {
    "dm": dm,
    "dr": dr,
    "switch_dr": switch_dr,
    "shrunk_dr": shrunk_dr,
}
_PLAIN_UNITS = RewardScale(0.0, 1.0)
ESTIMATORS = (*_PLAIN, *_MODELLED)


@dataclass(frozen=True, eq=False)
class Assessment:
    """Estimates and diagnostics of several targets on one log.

    `answers` has the estimates by target and estimator. `differences` has the
    differences from the baseline by estimator and target, for unbiased estimators only,
    because biases do not cancel. `terms` are the numbers whose means are the estimates,
    and `diagnostics` contains the diagnostics of each target. `served` is the test that
    arms follow the logged propensities, or the reason why this test is impossible. For
    a log with slates, all fields refer to the mean over the slots of a slate, and each
    slate counts once. `slots` contains an assessment for each slot (slot 0: decisions
    without slots). `whole` contains the value of targets that fill whole slates, if
    requested. Estimates are in the units of `scale`; log and terms are in [0, 1].
    """

    log: Log
    targets: dict[str, Array]
    logged: Estimate
    answers: Answers
    terms: dict[str, dict[str, Terms]]
    diagnostics: dict[str, Diagnostics]
    baseline: str
    differences: Answers
    served: ServedReport | str
    slots: "dict[int, Assessment | str]" = field(default_factory=dict)
    whole: dict[str, Answer] = field(default_factory=dict)
    scale: RewardScale = _PLAIN_UNITS

    @property
    def has_answers(self) -> bool:
        """Return whether an estimator that uses weights has an answer. The direct
        method (dm) does not count, because it relies on a model only."""
        for answers in self.answers.values():
            for name, one in answers.items():
                if name != "dm" and has_value(one):
                    return True
        for slot in self.slots.values():
            if not isinstance(slot, str) and slot.has_answers:
                return True
        return False


def has_value(answer: Answer) -> bool:
    """Return whether an answer is a number, not a refusal."""
    return not isinstance(answer, str) and not answer.refused


def assess(
    log: Log,
    targets: Mapping[str, Array],
    *,
    predictions: Array | None = None,
    beforehand: bool = False,
    baseline: str = LOGGED,
    level: float = 0.95,
    interval: str = "beta",
    floor: float | None = None,
    seed: int = 0,
    overrule: Iterable[str] = (),
    whole: bool = False,
) -> Assessment:
    """Compute all estimators for all targets by name. Estimators with a reward model
    need `predictions` (T, K).

    If an estimator does not apply to this log, its answer is a sentence and not an
    exception. Differences are paired by row, and the intervals of one estimator hold
    simultaneously (`compare`). `beforehand=True` is for predictions that were made
    before the rows (`dr`); `whole=True` adds the estimated value of whole slates
    (`whole_slates`).

    >>> log = Log(
    ...     arm=[0, 1] * 200, reward=[1, 0] * 150 + [1, 1] * 50, propensity=[0.5] * 400
    ... )
    >>> found = assess(log, {"mostly 0": [0.9, 0.1]})
    >>> print(
    ...     found.answers["mostly 0"]["ips"],
    ...     found.differences["ips"]["mostly 0"],
    ...     sep="; ",
    ... )
    ips: 0.925 in [0.8369, 1] (0.95 beta); mostly 0 - logged: 0.3 in [0.2419, 0.3548]
    (0.95 beta)
    """
    settings: Any = {
        "level": level,
        "interval": interval,
        "floor": floor,
        "seed": seed,
        "overrule": check_rules(overrule),
    }
    if not targets or LOGGED in targets:
        raise InvalidInput(
            f"targets must be at least one, and none named {LOGGED!r}; got "
            f"{list(targets)}"
        )
    names = [LOGGED, *targets]
    check_choice("baseline", baseline, names)
    if floor is not None:
        number("floor", floor, low=0, high=1, open_low=True)
    slates = slates_of(log)
    if whole and slates is None:
        raise InvalidInput(
            "whole slates need a log with the columns slate and slot, and slates of "
            "several slots"
        )
    question = _Question(predictions, beforehand, baseline, settings)
    found = _assess_rows(log, targets, question)
    of_slates: dict[str, Answer] = {}
    if whole:
        for name, odds in targets.items():
            of_slates[name] = _whole(log, odds, settings)
    ordered = log
    slots: dict[int, Assessment | str] = {}
    if slates is not None:
        ordered = by_place(log, slates)
        slots = _by_slot(log, targets, question)
    served = _check_served(ordered, floor)
    return replace(
        found,
        served=served,
        slots=slots,
        whole=of_slates,
    )


class _Question(NamedTuple):
    """The settings that apply to a log and to each of its slots."""

    predictions: Array | None
    beforehand: bool
    baseline: str
    settings: Any


def _assess_rows(
    log: Log, targets: Mapping[str, Array], question: _Question
) -> Assessment:
    """Assess a log without testing whether arms were served as logged."""
    settings = question.settings
    today = logged(log)
    # Check level and interval once, before the loop over targets.
    own = estimate(today, **settings | {"floor": None})
    terms: dict[str, dict[str, Terms]] = {name: {} for name in targets}
    answers: Answers = {name: {} for name in targets}
    estimators = _PLAIN
    if question.predictions is not None:
        estimators = _PLAIN | _MODELLED
    of_models: Any = {
        "predictions": question.predictions,
        "beforehand": question.beforehand,
    }
    steps = len(targets) * len(estimators) + len(ESTIMATORS)
    with closing(Bar("estimates", steps, every=LINE_EVERY_S)) as bar:
        for name, odds in targets.items():
            # Check propensities and predictions once.
            rows = rows_of(log, odds)
            if question.predictions is not None:
                dm(log, rows, question.predictions)
            for estimator, make_terms in estimators.items():
                more = of_models if estimator in _MODELLED else {}
                try:
                    own_terms = make_terms(log, rows, **more)
                    terms[name][estimator] = own_terms
                    answers[name][estimator] = estimate(own_terms, **settings)
                except InvalidInput as error:
                    answers[name][estimator] = str(error)
                bar.advance()
        differences: Answers = {}
        for estimator in ESTIMATORS:
            sides = _unbiased_terms(terms, answers, estimator)
            if question.baseline == LOGGED:
                sides = {LOGGED: today} | sides
            if question.baseline in sides and len(sides) > 1:
                differences[estimator] = _differences(sides, question)
            bar.advance()
    diagnostics = {}
    for name, by_estimator in terms.items():
        if by_estimator:
            some = next(iter(by_estimator.values()))
            diagnostics[name] = diagnose(some)
    return Assessment(
        log=log,
        targets=dict(targets),
        logged=own,
        answers=answers,
        terms=terms,
        diagnostics=diagnostics,
        baseline=question.baseline,
        differences=differences,
        served="",
    )


def _by_slot(
    log: Log, targets: Mapping[str, Array], question: _Question
) -> dict[int, Assessment | str]:
    """Return an assessment of each slot of a log with slates, or the reason why there
    is none."""
    found: dict[int, Assessment | str] = {}
    for slot in np.unique(np.asarray(log.slot)).tolist():
        rows = np.flatnonzero(log.slot == slot)
        own = log[rows]
        # Width of propensities and predictions: the largest number of arms offered in a
        # row.
        width = None
        if own.offered is not None:
            width = own.n_arms
        try:
            odds = {}
            for name, table in targets.items():
                of_rows = table
                if np.ndim(table) != 1:
                    of_rows = np.asarray(table)[rows]
                odds[name] = of_rows[..., :width]
            predictions = question.predictions
            if predictions is not None:
                predictions = predictions[rows][:, :width]
            own_question = question._replace(predictions=predictions)
            found[slot] = _assess_rows(own, odds, own_question)
        except InvalidInput as error:
            found[slot] = str(error)
    return found


def _whole(log: Log, odds: Array, settings: Any) -> Answer:
    """Estimate the value of slates whose slots are all filled by the target. The floor
    of a slate is the product over its slots."""
    floor = settings["floor"]
    if floor is not None:
        slots = 1
        if log.slot is not None:
            slots = int(log.slot.max())
        floor = floor**slots
    try:
        return estimate(whole_slates(log, odds), **settings | {"floor": floor})
    except InvalidInput as error:
        return str(error)


def _unbiased_terms(
    terms: dict[str, dict[str, Terms]], answers: Answers, estimator: str
) -> dict[str, Terms]:
    """Return the unbiased terms of this estimator for each target for which it has an
    answer."""
    found = {}
    for name, own in terms.items():
        answer = answers[name].get(estimator, "")
        if has_value(answer) and own[estimator].unbiased:
            found[name] = own[estimator]
    return found


def _differences(sides: dict[str, Terms], question: _Question) -> dict[str, Answer]:
    """Return the difference from the baseline per target, or the reason why there is
    none."""
    baseline = question.baseline
    try:
        found = compare(sides, baseline=baseline, **question.settings)
        return dict(found.differences)
    except InvalidInput as error:
        names = [name for name in sides if name != baseline]
        return dict.fromkeys(names, str(error))


def _check_served(log: Log, floor: float | None) -> ServedReport | str:
    """Test whether arms were served as logged. The test does not use a floor that
    applies only to the arms of the targets."""
    try:
        return served_as_logged(log, floor=floor or 0.0)
    except InvalidInput as error:
        if floor is None:
            return str(error)
        return _check_served(log, None)


def in_units(found: Assessment, scale: RewardScale) -> Assessment:
    """Return the assessment in the units of `scale`: a value v becomes low + v (high -
    low), and a difference d becomes d (high - low). The log and the terms stay in [0,
    1].

    >>> import oddsmith as od
    >>> from oddsmith.evaluation import assess
    >>> log = od.Log(
    ...     arm=[0, 1] * 200, reward=[1, 0] * 150 + [1, 1] * 50, propensity=[0.5] * 400
    ... )
    >>> found = in_units(assess(log, {"mostly 0": [0.9, 0.1]}), od.RewardScale(-10, 10))
    >>> print(
    ...     found.answers["mostly 0"]["ips"],
    ...     found.differences["ips"]["mostly 0"],
    ...     sep="; ",
    ... )
    ips: 8.5 in [6.738, 10] (0.95 beta); mostly 0 - logged: 6 in [4.837, 7.097] (0.95
    beta)
    """
    if scale == found.scale:
        return found
    low = scale.low
    width = scale.high - scale.low
    slots: dict[int, Assessment | str] = {}
    for slot, own in found.slots.items():
        if not isinstance(own, str):
            own = in_units(own, scale)
        slots[slot] = own
    differences = {}
    for estimator, answers in found.differences.items():
        differences[estimator] = _answers_in_units(answers, 0.0, width)
    logged = _estimate_in_units(found.logged, low, width)
    in_scale = {}
    for target, answers in found.answers.items():
        in_scale[target] = _answers_in_units(answers, low, width)
    whole = _answers_in_units(found.whole, low, width)
    return replace(
        found,
        logged=logged,
        answers=in_scale,
        differences=differences,
        slots=slots,
        whole=whole,
        scale=scale,
    )


def _answers_in_units(
    answers: dict[str, Answer], low: float, width: float
) -> dict[str, Answer]:
    in_scale = {}
    for name, one in answers.items():
        if not isinstance(one, str):
            one = _estimate_in_units(one, low, width)
        in_scale[name] = one
    return in_scale


def _estimate_in_units(one: Estimate, low: float, width: float) -> Estimate:
    cut_from = one.cut_from
    if cut_from is not None:
        cut_from = low + width * cut_from
    return one._replace(
        value=low + width * one.value,
        low=low + width * one.low,
        high=low + width * one.high,
        cut_from=cut_from,
    )
