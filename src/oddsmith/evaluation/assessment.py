"""An assessment: every estimator's answer for every target on one log, with what stands
beside it."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from oddsmith.contexts.rewards import RewardScale
from oddsmith.core.arrays import Array, Bools, number
from oddsmith.core.errors import InvalidInput
from oddsmith.core.names import hint
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
from oddsmith.evaluation.terms import Bets, Drawn, Extremes, Terms
from oddsmith.logs.progress import LINE_EVERY_S, Bar
from oddsmith.logs.table import Log

__all__ = [
    "Answer",
    "Answers",
    "Assessment",
    "ESTIMATORS",
    "LOGGED",
    "assess",
    "given",
    "whole_slates",
]


def whole_slates(log: Log, target: object) -> Terms:
    """W r of each slate: W = Π π/p over its slots, r the mean of their rewards, which
    all must have come.

    Its mean is the mean reward per slot of slates that the target fills alone, each
    slot from what it left itself, however the rewards of slots depend on one another. W
    multiplies where other estimators add, so few logs carry it.

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
    weights = np.ones((int(slates.number.max()) + 1, int(slates.place.max())))
    missing = np.zeros_like(weights)
    where = slates.number, slates.place - 1
    weights[where], missing[where] = rows.weights[kept], rows.missing[kept]
    whole = weights.prod(axis=1)
    rounding = None
    if rows.rounding is not None:
        largest = np.ones_like(weights)
        largest[where] = (rows.weights + rows.rounding)[kept]
        rounding = largest.prod(axis=1) - whole
    before = np.cumprod(np.insert(weights[:, :-1], 0, 1.0, axis=1), axis=1)
    # of the target's own slates, as the weights count them
    lost = np.minimum((before * missing).sum(axis=1), 1.0)
    reward, n = slates.means(rows.reward[kept]), len(whole)
    gain = whole * reward
    return Terms(
        name="ips of whole slates",
        values=gain,
        missing=lost,
        weights=whole,
        rounding=rounding,
        least=None if rows.least is None else rows.least ** weights.shape[1],
        bets=Bets(gain, whole - gain, 0.0, 1.0),
        drawn=Drawn((1.0 - lost)[:, None], whole, reward),
        extremes=partial(Extremes, whole, np.zeros(n), np.ones(n)),
        unit="slate",
    )


def _complete(log: Log, rows: Rows) -> tuple[Bools, Slates]:
    """Which of the rewarded rows are of slates that have all their rewards, and the
    slates that these are.

    Refused where a slot is not in the log.
    """
    alone = Slates(np.arange(len(log)), np.ones(len(log), np.int64))
    number, place, _ = slates_of(log) or alone
    waiting = np.bincount(number, weights=np.isnan(log.reward))[number] > 0
    if waiting.all():
        raise InvalidInput(
            f"whole slates need all their rewards; got none with them in {len(log):,} "
            "rows"
        )
    most = np.bincount(number)[number]
    if (beyond := place > most).any():
        row = int(np.argmax(beyond))
        got = (
            f"slate {log.slate[row]!r:.40} has slot {place[row]}, and {most[row]} "
            "slots in all"
        )
        raise InvalidInput(f"whole slates need all their slots; {got}")
    _, numbers = np.unique(number[~waiting], return_inverse=True)
    return ~waiting[rows.known], Slates(numbers, place[~waiting])


Answer = Estimate | str
"""An estimate (which may be refused by its rules), or the sentence that says why it
cannot be asked for."""
Answers = dict[str, dict[str, Answer]]
"""Answers by target and estimator, or by estimator and target."""
LOGGED = "logged"
"""The name of the logger itself among targets."""
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
    """What a log says about targets.

    `answers` are by target and estimator, `differences` from the baseline by estimator
    and target (unbiased estimators only, as biases do not cancel). `terms` are what the
    answers are made of, `diagnostics` stand beside each target. `served` is the test
    that arms follow the logged odds, or why it cannot be done.
    Of a log with slates all of this is about the mean over slots, each slate counting
    once; `slots` has the same for each slot (0: decisions that stand alone), `whole`
    the value by target where the target fills whole slates, if it was asked for.
    Numbers are in the units of `scale`, log and terms in [0, 1].
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
    def answered(self) -> bool:
        """Whether any estimator that weighs rows has an answer: dm is a model's
        opinion, no more."""
        own = any(
            given(one)
            for answers in self.answers.values()
            for name, one in answers.items()
            if name != "dm"
        )
        return own or any(
            not isinstance(slot, str) and slot.answered for slot in self.slots.values()
        )


def given(answer: Answer) -> bool:
    """Whether this is a number."""
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
    """All estimators (those with a reward model where `predictions` (T, K) are given)
    for all targets, by name.

    What an estimator cannot do with this log is its answer, not an exception.
    Differences are paired, and hold together for each estimator (`compare`).
    `beforehand` says that predictions were made before the rows (`dr`). `whole` asks
    for the value of whole slates, too.

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
    settings: Any = {"level": level, "interval": interval, "floor": floor, "seed": seed}
    settings["overrule"] = check_rules(overrule)
    if not targets or LOGGED in targets:
        raise InvalidInput(
            f"targets must be at least one, and none named {LOGGED!r}; got "
            f"{list(targets)}"
        )
    if baseline != LOGGED and baseline not in targets:
        raise InvalidInput(
            f"baseline must be one of {', '.join([LOGGED, *targets])}; got {baseline!r}"
            f"{hint(str(baseline), [LOGGED, *targets])}"
        )
    if floor is not None:
        number("floor", floor, low=0, high=1, open_low=True)
    if whole and slates_of(log) is None:
        raise InvalidInput(
            "whole slates need a log with the columns slate and slot, and slates of "
            "several slots"
        )
    asked = _Asked(predictions, beforehand, baseline, settings)
    found = _assessed(log, targets, asked)
    return replace(
        found,
        served=_served(by_place(log), floor),
        slots=_by_slot(log, targets, asked),
        whole={name: _whole(log, odds, settings) for name, odds in targets.items()}
        if whole
        else {},
    )


class _Asked(NamedTuple):
    """What is asked of a log and of each of its slots."""

    predictions: Array | None
    beforehand: bool
    baseline: str
    settings: Any


def _assessed(log: Log, targets: Mapping[str, Array], asked: _Asked) -> Assessment:
    """The assessment of a log without the test of served arms."""
    settings, baseline = asked.settings, asked.baseline
    today = logged(log)
    # refuses level and interval that make no sense, for all
    own = estimate(today, **settings | {"floor": None})
    terms: dict[str, dict[str, Terms]] = {name: {} for name in targets}
    answers: Answers = {name: {} for name in targets}
    estimators = len(_PLAIN) if asked.predictions is None else len(ESTIMATORS)
    steps = len(targets) * estimators + len(ESTIMATORS)
    with closing(Bar("estimates", steps, every=LINE_EVERY_S)) as bar:
        for name, odds in targets.items():
            for estimator, make in _estimators(
                log, odds, asked.predictions, asked.beforehand
            ).items():
                try:
                    own_terms = make()
                    terms[name][estimator] = own_terms
                    answers[name][estimator] = estimate(own_terms, **settings)
                except InvalidInput as error:
                    answers[name][estimator] = str(error)
                bar.advance()
        differences = _differences(terms, answers, today, baseline, settings, bar)
    diagnostics = {
        name: diagnose(next(iter(by.values()))) for name, by in terms.items() if by
    }
    return Assessment(
        log, dict(targets), own, answers, terms, diagnostics, baseline, differences, ""
    )


def _by_slot(
    log: Log, targets: Mapping[str, Array], asked: _Asked
) -> dict[int, Assessment | str]:
    """The assessment of each slot by itself, or why there is none; nothing of a log
    without slates."""
    if log.slot is None or slates_of(log) is None:
        return {}
    found: dict[int, Assessment | str] = {}
    for slot in np.unique(log.slot).tolist():
        rows = np.flatnonzero(log.slot == slot)
        own = (
            asked
            if asked.predictions is None
            else asked._replace(predictions=asked.predictions[rows])
        )
        try:
            odds = {
                name: one if np.ndim(one) == 1 else np.asarray(one)[rows]
                for name, one in targets.items()
            }
            found[slot] = _assessed(*_narrowed(log[rows], odds, own))
        except InvalidInput as error:
            found[slot] = str(error)
    return found


def _narrowed(
    log: Log, targets: dict[str, Array], asked: _Asked
) -> tuple[Log, dict[str, Array], _Asked]:
    """Odds and predictions as wide as the most arms that a row of these offers."""
    if log.offered is None:
        return log, targets, asked
    odds = {name: one[..., : log.n_arms] for name, one in targets.items()}
    predictions = (
        None if asked.predictions is None else asked.predictions[:, : log.n_arms]
    )
    return log, odds, asked._replace(predictions=predictions)


def _whole(log: Log, odds: Array, settings: Any) -> Answer:
    """The value of slates that a target fills alone; the least odds of a slate are
    those of all its slots together."""
    least = settings["floor"]
    most = 1 if log.slot is None else int(log.slot.max())
    try:
        return estimate(
            whole_slates(log, odds),
            **settings | {"floor": None if least is None else least**most},
        )
    except InvalidInput as error:
        return str(error)


def _estimators(
    log: Log, odds: Array, predictions: Array | None, beforehand: bool
) -> dict[str, partial[Terms]]:
    """What makes each estimator's terms of one target; odds and predictions are checked
    once, for all of them."""
    rows = rows_of(log, odds)
    plain = {name: partial(make, log, rows) for name, make in _PLAIN.items()}
    if predictions is None:
        return plain
    dm(log, rows, predictions)
    model: Any = {"predictions": predictions, "beforehand": beforehand}
    return plain | {
        name: partial(make, log, rows, **model) for name, make in _MODELLED.items()
    }


def _differences(
    terms: dict[str, dict[str, Terms]],
    answers: Answers,
    today: Terms,
    baseline: str,
    settings: Any,
    bar: Bar,
) -> Answers:
    """By estimator and target, where target and baseline both have an answer without
    bias."""
    differences: Answers = {}
    for estimator in ESTIMATORS:
        own = {
            name: terms[name][estimator]
            for name in terms
            if given(answers[name].get(estimator, ""))
        }
        sides = {LOGGED: today} if baseline == LOGGED else {}
        sides |= {name: one for name, one in own.items() if one.unbiased}
        if baseline in sides and len(sides) > 1:
            try:
                differences[estimator] = dict(
                    compare(sides, baseline=baseline, **settings).differences
                )
            except InvalidInput as error:
                differences[estimator] = dict.fromkeys(
                    [name for name in sides if name != baseline], str(error)
                )
        bar.advance()
    return differences


def _served(log: Log, floor: float | None) -> ServedReport | str:
    """The test with the floor, or without one that holds for the targets' arms
    alone."""
    try:
        return served_as_logged(log, floor=floor or 0.0)
    except InvalidInput as error:
        return str(error) if floor is None else _served(log, None)
