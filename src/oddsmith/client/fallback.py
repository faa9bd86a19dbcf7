"""Fallback: choose an arm, or the arms of a slate, if the service does not answer."""

import secrets
import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from math import isclose
from typing import Any, NamedTuple, TypeVar

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
"""HTTP statuses of an unavailable service; 0 means no response."""


_MOST = 1_000  # maximum number of ids whose first decision is remembered
A = TypeVar("A", ServedDecision, ServedSlate)


class Fallback(NamedTuple):
    """The arm that a fallback chose, and the propensities that it was drawn from."""

    arm: str
    odds: dict[str, float]


class FirstAnswers:
    """The first answers for the caller's ids, at most the last 1,000.

    A repeated id gets the first answer. After a fallback the service is not asked
    again, because rewards sent for this id in the meantime may belong to the fallback.
    If the service does not answer, an earlier decision for the id is used again.
    Thread-safe.
    """

    def __init__(self) -> None:
        self._answers: OrderedDict[str, ServedDecision | ServedSlate] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, id: str | None, answer: ServedDecision | ServedSlate) -> None:
        """Store the first answer for the caller's id."""
        if id is None:
            return
        with self._lock:
            self._answers.setdefault(id, answer._replace(new=False))
            if len(self._answers) > _MOST:
                self._answers.popitem(last=False)

    def find(
        self, kind: type[A], id: str | None, allowed: Collection[str] | None
    ) -> A | None:
        """Return the first answer for an id, or None. Raise if its arm is not allowed
        now."""
        with self._lock:
            answer = self._answers.get(id or "")
        if not isinstance(answer, kind):
            return None
        for decision in _decisions(answer):
            if allowed is not None and decision.arm not in allowed:
                raise Conflict(
                    f"id {id!r:.140} was answered with arm {decision.arm!r:.60}, "
                    "which is not allowed now; allow it, or use another id"
                )
        return answer


def is_fallback(answer: ServedDecision | ServedSlate) -> bool:
    """Return whether the client made this decision."""
    return any(decision.fallback for decision in _decisions(answer))


def _decisions(answer: ServedDecision | ServedSlate) -> list[ServedDecision]:
    if isinstance(answer, ServedSlate):
        return answer.slots
    return [answer]


def read_fallback(
    fallback: str | Mapping[str, float], allowed: Collection[str] | None
) -> Fallback:
    """Return the named arm with propensity 1, or an arm drawn from propensities. Raise
    for arms that are not allowed.

    >>> read_fallback("sports", ["sports", "tech"])
    Fallback(arm='sports', odds={'sports': 1.0})
    """
    named = {fallback: 1.0} if isinstance(fallback, str) else fallback
    odds = _odds_of(named, "an arm, or a dict of arms to their propensities")
    _check_allowed([arm for arm, share in odds.items() if share], allowed)
    return _draw(odds)


def read_slate_fallback(
    fallback: Sequence[str] | Mapping[str, float],
    slots: object,
    allowed: Collection[str] | None,
) -> list[tuple[dict[str, object], Fallback]]:
    """Return the slots of the request with their arms, either named or drawn from
    propensities among the remaining arms.

    >>> read_slate_fallback(["tech", "sports"], 2, None)[1]
    ({'name': '2'}, Fallback(arm='sports', odds={'sports': 1.0}))
    """
    entries: list[dict[str, object]] = (
        slots
        if isinstance(slots, list)
        else [{"name": slot.name} for slot in slots_of(slots)]
    )
    slots_of([Slot(entry.get("name")) for entry in entries])  # type: ignore[arg-type]
    if any("incumbent" in entry for entry in entries):
        raise InvalidInput(
            "fallback must be left out if an incumbent acts, because the incumbent's "
            "arms are shown"
        )
    if isinstance(fallback, Mapping):
        fallbacks = _draw_in_order(fallback, entries)
    else:
        fallbacks = _by_slot(fallback, len(entries))
    pairs = list(zip(entries, fallbacks, strict=True))
    for entry, choice in pairs:
        _check_allowed(choice.odds, allowed)
        _check_allowed([choice.arm], entry.get("eligible"))  # type: ignore[arg-type]
    return pairs


def _by_slot(fallback: object, slots: int) -> list[Fallback]:
    """Return the arm of each slot from a list of names."""
    is_list = isinstance(fallback, Sequence) and not isinstance(fallback, str | bytes)
    arms: list[Any] = list(fallback) if is_list else []  # type: ignore[call-overload]
    if len(arms) != slots or not all(_is_arm(arm) for arm in arms):
        raise InvalidInput(
            f"fallback must be a list with an arm for each of the {slots} slots; got "
            f"{fallback!r:.60}"
        )
    if len(set(arms)) < slots:
        raise InvalidInput(
            f"fallback must have a different arm in each slot; got {fallback!r:.60}"
        )
    return [Fallback(arm, {arm: 1.0}) for arm in arms]


def _is_arm(name: object) -> bool:
    return isinstance(name, str) and name != ""


def _draw_in_order(
    fallback: Mapping[str, float], slots: Sequence[Mapping[str, object]]
) -> list[Fallback]:
    """Draw an arm for each slot from the remaining arms, in proportion to their
    propensities."""
    odds = _odds_of(fallback, "a list of arms, or a dict of arms to their propensities")
    remaining = {arm: share for arm, share in odds.items() if share}
    if len(remaining) < len(slots):
        raise InvalidInput(
            f"fallback must have propensities for at least {len(slots)} arms, one per "
            f"slot; got {len(remaining)}"
        )
    if any("eligible" in slot for slot in slots):
        raise InvalidInput(
            "fallback must be a list with an arm for each slot if a slot has "
            "eligible arms; got a dict of propensities"
        )
    fallbacks = []
    for _ in slots:
        total = sum(remaining.values())
        choice = _draw({arm: share / total for arm, share in remaining.items()})
        fallbacks.append(choice)
        del remaining[choice.arm]
    return fallbacks


def _draw(odds: dict[str, float]) -> Fallback:
    random = secrets.SystemRandom()
    (arm,) = random.choices(list(odds), list(odds.values()))
    return Fallback(arm, odds)


def _odds_of(value: object, allowed: str) -> dict[str, float]:
    """Check that a value is a dict of propensities by arm, and return it."""
    is_dict = isinstance(value, Mapping) and len(value) > 0
    if not is_dict or not all(_is_arm(arm) for arm in value):  # type: ignore[attr-defined]
        raise InvalidInput(f"fallback must be {allowed}; got {value!r:.60}")
    odds = {
        arm: number(f"fallback {arm!r:.40}", share, low=0, high=1)
        for arm, share in value.items()  # type: ignore[attr-defined]
    }
    total = sum(odds.values())
    if not isclose(total, 1.0, rel_tol=0, abs_tol=1e-9):
        raise InvalidInput(f"propensities of fallback must sum to 1; got {total:.6g}")
    return odds


def _check_allowed(arms: Collection[str], allowed: Collection[str] | None) -> None:
    if allowed is None:
        return
    for arm in arms:
        if arm not in allowed:
            raise InvalidInput(
                f"fallback must be an arm of this call, eligible in it; got {arm!r:.60}"
            )
