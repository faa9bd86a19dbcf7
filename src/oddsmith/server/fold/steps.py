"""Find the steps that a state does not contain yet, in order, and the first earlier
step that new lines have changed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from math import inf
from typing import Any, NamedTuple

from oddsmith.core.decision import Decision
from oddsmith.server.fold.accounts import Account, Count, Exposure
from oddsmith.server.fold.amounts import Amount, AmountAccount
from oddsmith.server.fold.freezes import Freezes, after_lines, lessons
from oddsmith.server.fold.protocol import (
    Item,
    Statistics,
    StatisticsKind,
    Step,
    after_steps,
)
from oddsmith.server.store.changes import facts_of
from oddsmith.server.store.protocol import Draw, Foldable, Line, Reading

__all__ = ["Due", "due_after", "in_order", "sums_at", "with_decisions"]


class Due(NamedTuple):
    """The steps that a state does not contain yet, in order.

    `rewritten` is the first position whose effect was changed by later lines (0 if
    none), and `since` is the position of the first such line. `waiting` is the number
    of new lines, and `oldest` is the time of the first new line.
    """

    items: "list[Item]"
    rewritten: int
    since: Line | None = None
    waiting: int = 0
    oldest: float = inf


def due_after(store: Foldable, after: int, until: int, freezes: Freezes = ()) -> Due:
    """Return the steps up to `until` that a state at the position `after` does not
    contain.

    `freezes` contains the positions up to `after` at which learning was frozen or
    continued.

    If the kernels changed after the state, all steps are returned, because different
    kernels round differently.
    """
    accounts: dict[str, Account] = {}
    amounts: dict[str, AmountAccount] = {}
    defaults = {
        name: one["default"]
        for name, one in store.metrics.items()
        if one["default"] is not None
    }
    known: dict[str, tuple[Count, ...]] = {}  # counts that the state already contains
    # decisions made, activated or corrected, and changes of the policy
    lines: list[Line | Exposure] = []
    actions: list[Line] = []
    since = None
    waiting = 0
    oldest = inf
    are_kernels_new = False
    for line in _lines_with_history(store, after, until):
        is_new = line.position > after
        if is_new:
            waiting += 1
            oldest = min(oldest, line.time)
        if line.of_kernels and is_new and after > 0:
            are_kernels_new = True
            since = since or line
        if not line.of_decision:
            if line.kind == "action":
                actions.append(line)
            if line.of_policy or line.kind == "action":
                lines.append(line)
            continue
        if line.kind in ("decision", "correction") and is_new:
            lines.append(line)
        account = accounts.get(line.id)
        if account is None:
            account = Account.of(store)
            accounts[line.id] = account
        account.take(line)
        if store.metrics:
            own = amounts.setdefault(line.id, AmountAccount(defaults))
            own.take(line, account.settled)
        if account.activated == line.position and is_new:
            lines.append(Exposure(line.position, account.made, account.decided))
        if not is_new and account.settled:
            known[line.id] = account.counts
        elif since is None and line.id in known:
            is_rewritten = _first_change(known[line.id], account.counts) > 0
            since = line if is_rewritten else None
    counts = {id: account.counts for id, account in accounts.items()}
    changes = [_first_change(learnt, counts[id]) for id, learnt in known.items()]
    rewritten = min(filter(None, changes), default=0)
    if are_kernels_new:
        rewritten = 1
    if actions:
        freezes = after_lines(freezes, actions)
    if freezes:
        counts = {id: lessons(account, freezes) for id, account in counts.items()}
    items = in_order(counts.values(), lines, after)
    if amounts:
        steps = [step for own in amounts.values() for step in own.steps]
        items += [step for step in steps if step.position > after]
        # sorted() is stable: a reward stays before the amounts at its position
        items.sort(key=lambda item: item.position)
    return Due(items, rewritten, since, waiting, oldest)


def in_order(
    counts: Iterable[tuple[Count, ...]],
    lines: Sequence[Line | Exposure],
    after: int = 0,
) -> "list[Item]":
    """Return the counts and lines after a position as one list of steps, in order."""
    # sorted() is stable: a decision stays before its count at the same position
    items: list[Item] = list(lines)
    for account in counts:
        items += [count for count in account if count.position > after]
    return sorted(items, key=lambda item: item.position)


def _first_change(learnt: tuple[Count, ...], counts: tuple[Count, ...]) -> int:
    """Return the position of the first count that differs from the count that the state
    has learned; 0 if all are equal."""
    for before, now in zip_longest(learnt, counts[: len(learnt)]):
        if before != now:
            return int(before.position)
    return 0


def _lines_with_history(store: Foldable, after: int, until: int) -> Iterable[Line]:
    """Return the lines after `after`, preceded by all earlier lines of their
    decisions."""
    if after == 0:
        return store.lines(after, until)
    new = list(store.lines(after, until))
    touched = dict.fromkeys(line.id for line in new if line.of_decision)
    return [*store.history(list(touched), after), *new]


_CHUNK = 500  # decisions in memory at a time


def with_decisions(
    store: Foldable,
    items: "Sequence[Item]",
    sums: Statistics | None = None,
) -> Iterator[Step]:
    """Yield steps with their decisions and, if `sums` is given, with their
    propensities."""
    for first in range(0, len(items), _CHUNK):
        chunk = items[first : first + _CHUNK]
        made = [item.made for item in chunk if isinstance(item, Count)]
        decisions: dict[int, Decision] = {}
        drawn: dict[int, Draw | None] = {}
        if sums is None:
            decisions |= zip(made, store.decisions(made), strict=True)
        else:
            pairs = store.decisions_with_draws(made)
            for position, (decision, draw) in zip(made, pairs, strict=True):
                decisions[position] = decision
                drawn[position] = draw
            shown = [_decision_shown(item) for item in chunk]
            missing = [at for at in shown if at and at not in drawn]
            if missing:
                drawn |= zip(missing, store.draws(missing), strict=True)
        for item in chunk:
            if isinstance(item, Count):
                yield Step(item, decisions[item.made], drawn.get(item.made))
            else:
                yield Step(item, None, drawn.get(_decision_shown(item)))


def sums_at(
    store: Reading,
    position: int,
    kept: Mapping[str, Any] | None,
    kind: StatisticsKind | None,
) -> Statistics | None:
    """Return the statistics of a snapshot. If it has none in the current format,
    compute them from the log.

    The log does not contain the weights over time: their history starts again.
    """
    if kind is None:
        return None
    facts = facts_of(store)
    sums = kind.from_json(kept)
    if sums is not None and sums.is_of(facts):
        return sums
    empty = kind.of(facts)
    due = due_after(store, 0, position)
    return after_steps(empty, with_decisions(store, due.items, empty))


def _decision_shown(item: "Item") -> int:
    """Return the position of the decision whose propensities an item needs; 0 if it
    needs none."""
    if isinstance(item, Exposure | Amount):
        return item.made
    if isinstance(item, Line) and item.kind == "decision" and not item.deferred:
        return item.position
    return 0
