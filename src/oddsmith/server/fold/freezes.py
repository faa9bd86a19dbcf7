"""Freezes: the parts of a log in which learning was frozen.

An operator freezes learning with one action and continues it with another. Rewards that
count between the two stay in the log and in the statistics, but the state does not
learn them.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from oddsmith.server.fold.accounts import Count
from oddsmith.server.store.protocol import Line, Reading

__all__ = ["Freezes", "after_lines", "freezes_at", "lessons"]

Freezes: TypeAlias = tuple[int, ...]
"""Positions in the log at which learning was frozen and continued, alternately."""


def freezes_at(reading: Reading, position: int) -> Freezes:
    """Return the positions up to a limit at which learning was frozen or continued."""
    lines = reading.actions()
    return after_lines((), (line for line in lines if line.position <= position))


def after_lines(freezes: Freezes, lines: Iterable[Line]) -> Freezes:
    """Return the freezes after further lines of a log.

    >>> def action(position, name):
    ...     body = json.dumps({"action": name})
    ...     fields = ("action", "", None, 0.0, False, None, None, body)
    ...     return Line(position, "action", *fields)
    >>> after_lines((), [action(3, "freeze"), action(5, "pause"), action(9, "learn")])
    (3, 9)
    """
    for line in lines:
        is_frozen = len(freezes) % 2 == 1
        if line.kind == "action" and _name_of(line) == ("freeze", "learn")[is_frozen]:
            freezes = (*freezes, line.position)
    return freezes


def lessons(counts: Sequence[Count], freezes: Freezes) -> tuple[Count, ...]:
    """Return the counts of one decision, marked with what the state learns from each of
    them.

    >>> counts = [Count(4, 1, 0.0), Count(12, 1, 1.0, before=0.0, learnt=0.0)]
    >>> [(one.is_frozen, one.learnt) for one in lessons(counts, (3, 9))]
    [(True, None), (False, None)]
    """
    marked = []
    learnt: float | None = None
    for count in counts:
        is_frozen = bisect_right(freezes, count.position) % 2 == 1
        marked.append(count._replace(is_frozen=is_frozen, learnt=learnt))
        if not is_frozen:
            learnt = count.value
    return tuple(marked)


def _name_of(line: Line) -> str:
    """Return the name of an action; empty for a damaged line."""
    try:
        return str(json.loads(line.body or "")["action"])
    except (ValueError, TypeError, KeyError):
        return ""
