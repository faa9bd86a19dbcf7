"""An assessment in a user's units: what was estimated in [0, 1], told in euros."""

from dataclasses import replace

from oddsmith.contexts.rewards import RewardScale
from oddsmith.evaluation.assessment import Answer, Answers, Assessment
from oddsmith.evaluation.intervals import Estimate

__all__ = ["in_units"]


def in_units(found: Assessment, scale: RewardScale) -> Assessment:
    """The assessment with values low + v (high - low) and differences d (high - low);
    log and terms stay in [0, 1].

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
    width = scale.high - scale.low
    return replace(
        found,
        logged=_moved(found.logged, width, scale.low),
        answers=_all_moved(found.answers, width, scale.low),
        differences=_all_moved(found.differences, width, 0.0),
        slots={
            slot: one if isinstance(one, str) else in_units(one, scale)
            for slot, one in found.slots.items()
        },
        whole={
            name: _answer(one, width, scale.low) for name, one in found.whole.items()
        },
        scale=scale,
    )


def _all_moved(answers: Answers, width: float, low: float) -> Answers:
    return {
        name: {inner: _answer(one, width, low) for inner, one in by.items()}
        for name, by in answers.items()
    }


def _answer(one: Answer, width: float, low: float) -> Answer:
    return one if isinstance(one, str) else _moved(one, width, low)


def _moved(one: Estimate, width: float, low: float) -> Estimate:
    value, least, most = (
        low + width * number for number in (one.value, one.low, one.high)
    )
    mean = None if one.cut_from is None else low + width * one.cut_from
    return one._replace(value=value, low=least, high=most, cut_from=mean)
