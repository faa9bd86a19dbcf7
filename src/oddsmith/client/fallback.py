"""Fallback: the arm, or the arms of a page, that the caller shows where the service
does not answer."""

import secrets
import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from math import isclose
from typing import NamedTuple, TypeVar

from oddsmith.agent.slate import Slot, slots_of
from oddsmith.client.answers import ServedDecision, ServedSlate
from oddsmith.core.arrays import number
from oddsmith.core.errors import Conflict, InvalidInput

__all__ = [
    "DOWN",
    "Fallback",
    "FirstAnswers",
    "is_fallback",
    "read_fallback",
    "read_slate_fallback",
]

DOWN = frozenset({0, 502, 503, 504, 507})
"""Statuses of a service that does not answer; 0 is no answer at all."""


_MOST = 1_000  # ids whose first answer is remembered
A = TypeVar("A", ServedDecision, ServedSlate)


class Fallback(NamedTuple):
    """An arm that was drawn from these odds."""

    arm: str
    odds: dict[str, float]


class FirstAnswers:
    """The first answers for ids of the caller's, the last 1,000 of them.

    The same id again gets the first answer. After a fallback the service is not asked:
    rewards that were sent for this id meanwhile may be those of the fallback. A
    decision that was shown is shown again where the service does not answer. Safe to
    use from threads.
    """

    def __init__(self) -> None:
        self._answers: OrderedDict[str, ServedDecision | ServedSlate] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, id: str | None, answer: ServedDecision | ServedSlate) -> None:
        """Remember the first answer for an id of the caller's."""
        if id is None:
            return
        with self._lock:
            self._answers.setdefault(id, answer._replace(new=False))
            if len(self._answers) > _MOST:
                self._answers.popitem(last=False)

    def find(
        self, kind: type[A], id: str | None, allowed: Collection[str] | None
    ) -> A | None:
        """The first answer for an id, or None; one whose arm is not allowed now is
        refused."""
        with self._lock:
            answer = self._answers.get(id or "")
        if not isinstance(answer, kind):
            return None
        for decision in _decisions(answer):
            if allowed is not None and decision.arm not in allowed:
                raise Conflict(
                    f"id {id!r:.140} was answered with arm {decision.arm!r:.60}, which "
                    "is not allowed now; allow it, or ask with another id"
                )
        return answer


def is_fallback(answer: ServedDecision | ServedSlate) -> bool:
    """Whether the answer was made by the client."""
    return any(decision.fallback for decision in _decisions(answer))


def _decisions(answer: ServedDecision | ServedSlate) -> list[ServedDecision]:
    return answer.slots if isinstance(answer, ServedSlate) else [answer]


def read_fallback(
    fallback: str | Mapping[str, float], allowed: Collection[str] | None
) -> Fallback:
    """The arm named, with odds 1; or one drawn from odds, which are kept. Other arms
    than those allowed are refused.

    >>> read_fallback("sports", ["sports", "tech"])
    Fallback(arm='sports', odds={'sports': 1.0})
    """
    named = {fallback: 1.0} if isinstance(fallback, str) else fallback
    odds = _odds_of(named, "an arm, or a dict of arms to their odds")
    _check_allowed([arm for arm, share in odds.items() if share], allowed)
    return _drawn(odds)


def read_slate_fallback(
    fallback: Sequence[str] | Mapping[str, float],
    slots: object,
    allowed: Collection[str] | None,
) -> list[tuple[dict[str, object], Fallback]]:
    """Each slot, as it is sent, with the arm named for it; or with one drawn from odds,
    among the arms that are left.

    >>> read_slate_fallback(["tech", "sports"], 2, None)[1]
    ({'name': '2'}, Fallback(arm='sports', odds={'sports': 1.0}))
    """
    sent: list[dict[str, object]] = (
        slots
        if isinstance(slots, list)
        else [{"name": one.name} for one in slots_of(slots)]
    )
    slots_of([Slot(slot.get("name")) for slot in sent])  # type: ignore[arg-type]
    if any("incumbent" in slot for slot in sent):
        raise InvalidInput(
            "fallback must be left out where an incumbent acts: its arms are what is "
            "shown"
        )
    shown = (
        _in_order(fallback, sent)
        if isinstance(fallback, Mapping)
        else _listed(fallback, len(sent))
    )
    for slot, (arm, odds) in zip(sent, shown, strict=True):
        _check_allowed(odds, allowed)
        _check_allowed([arm], slot.get("eligible"))  # type: ignore[arg-type]
    return list(zip(sent, shown, strict=True))


def _listed(fallback: Sequence[str], slots: int) -> list[Fallback]:
    arms = (
        []
        if isinstance(fallback, str | bytes) or not isinstance(fallback, Sequence)
        else list(fallback)
    )
    if len(arms) != slots or not all(isinstance(arm, str) and arm for arm in arms):
        raise InvalidInput(
            f"fallback must be a list with an arm for each of the {slots} slots; got "
            f"{fallback!r:.60}"
        )
    if len(set(arms)) < slots:
        raise InvalidInput(
            f"fallback must have another arm in each slot; got {fallback!r:.60}"
        )
    return [Fallback(arm, {arm: 1.0}) for arm in arms]


def _in_order(
    fallback: Mapping[str, float], slots: Sequence[Mapping[str, object]]
) -> list[Fallback]:
    """An arm for each slot, from those that are left, in proportion to their odds."""
    given = _odds_of(fallback, "a list of arms, or a dict of arms to their odds")
    left, shown = (
        {arm: share for arm, share in given.items() if share},
        list[Fallback](),
    )
    if len(left) < len(slots):
        raise InvalidInput(
            f"fallback must have odds for at least {len(slots)} arms, one a slot; got "
            f"{len(left)}"
        )
    if any("eligible" in slot for slot in slots):
        raise InvalidInput(
            "fallback must be a list with an arm for each slot where a slot has "
            "eligible arms; got odds"
        )
    for _ in slots:
        total = sum(left.values())
        shown.append(_drawn({arm: share / total for arm, share in left.items()}))
        del left[shown[-1].arm]
    return shown


def _drawn(odds: dict[str, float]) -> Fallback:
    return Fallback(
        secrets.SystemRandom().choices(list(odds), list(odds.values()))[0], odds
    )


def _odds_of(given: object, allowed: str) -> dict[str, float]:
    if (
        not isinstance(given, Mapping)
        or not given
        or not all(isinstance(arm, str) and arm for arm in given)
    ):
        raise InvalidInput(f"fallback must be {allowed}; got {given!r:.60}")
    odds = {
        arm: number(f"fallback {arm!r:.40}", share, low=0, high=1)
        for arm, share in given.items()
    }
    if not isclose(total := sum(odds.values()), 1.0, rel_tol=0, abs_tol=1e-9):
        raise InvalidInput(f"odds of fallback must sum to 1; got {total:.6g}")
    return odds


def _check_allowed(arms: Collection[str], allowed: Collection[str] | None) -> None:
    if (
        strange := []
        if allowed is None
        else [arm for arm in arms if arm not in allowed]
    ):
        raise InvalidInput(
            "fallback must be an arm of this call, eligible in it; got "
            f"{strange[0]!r:.60}"
        )
