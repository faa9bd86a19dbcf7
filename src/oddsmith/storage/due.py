"""What is due: the steps of a fold that a state does not know, in order, and whether it must begin earlier."""

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from math import inf
from typing import NamedTuple

from oddsmith.storage.accounts import Account, Count, Shown
from oddsmith.storage.base import Foldable, Line

__all__ = ["Due", "due_after", "in_order"]


class Due(NamedTuple):
    """What is to be folded, in order, and the first position that later lines rewrote (0: none).

    `since` is the first line that rewrites; `waiting` says how many lines there are, and `oldest` when the first came.
    """

    items: "list[Count | Shown | Line]"
    rewritten: int
    since: Line | None = None
    waiting: int = 0
    oldest: float = inf


def due_after(store: Foldable, after: int, until: int) -> Due:
    """What happened in (after, until] that a state at `after` does not know."""
    accounts: dict[str, Account] = {}
    known: dict[str, tuple[Count, ...]] = {}  # what the state has learnt
    lines: list[Line | Shown] = []  # decisions that were made, shown or corrected, experts that came and went
    since, waiting, oldest = None, 0, inf
    for line in _told(store, after, until):
        if line.position > after:
            waiting, oldest = waiting + 1, min(oldest, line.time)
        if not line.of_decision:
            lines += [line] if line.of_policy else []
            continue
        if line.kind in ("decision", "correction") and line.position > after:
            lines.append(line)
        account = accounts.get(line.id)
        if account is None:
            account = accounts[line.id] = Account(store.rule, store.late, store.zero)
        account.take(line)
        if account.activated == line.position > after:
            lines.append(Shown(line.position, account.made, account.decided))
        if line.position <= after and account.settled:
            known[line.id] = account.counts
        elif since is None and line.id in known and _rewritten(known[line.id], account.counts):
            since = line
    counts = {id: account.counts for id, account in accounts.items()}
    rewritten = min(filter(None, (_rewritten(learnt, counts[id]) for id, learnt in known.items())), default=0)
    return Due(in_order(counts.values(), lines, after), rewritten, since, waiting, oldest)


def in_order(
    counts: Iterable[tuple[Count, ...]], lines: Sequence[Line | Shown], after: int = 0
) -> list[Count | Shown | Line]:
    """The steps of a fold after a position, in order."""
    items: list[Count | Shown | Line] = [count for account in counts for count in account if count.position > after]
    return sorted([*lines, *items], key=lambda item: item.position)  # a decision comes before it counts


def _rewritten(learnt: tuple[Count, ...], counts: tuple[Count, ...]) -> int:
    """The first position that counts otherwise than it was learnt; 0 if there is none."""
    pairs = zip_longest(learnt, counts[: len(learnt)])
    return next((was.position for was, now in pairs if was != now), 0)


def _told(store: Foldable, after: int, until: int) -> Iterable[Line]:
    """The lines after `after`, preceded by the whole history of the decisions they are about."""
    if after == 0:
        return store.lines(after, until)
    new = list(store.lines(after, until))
    touched = dict.fromkeys(line.id for line in new if line.of_decision)
    return [*store.history(list(touched), after), *new]
