"""What is due: the steps of a fold that a state does not know, in order, and whether it
must begin earlier."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from math import inf
from typing import Any, NamedTuple

from oddsmith.core.decision import Decision
from oddsmith.server.fold.accounts import Account, Count, Exposure
from oddsmith.server.fold.protocol import Statistics, StatisticsKind, Step, after_steps
from oddsmith.server.store.protocol import Draw, Foldable, Line, Reading

__all__ = ["Due", "due_after", "in_order", "sums_at", "with_decisions"]


class Due(NamedTuple):
    """What is to be folded, in order, and the first position that later lines rewrote
    (0: none).

    `since` is the first line that rewrites; `waiting` says how many lines there are,
    and `oldest` when the first came.
    """

    items: "list[Count | Exposure | Line]"
    rewritten: int
    since: Line | None = None
    waiting: int = 0
    oldest: float = inf


def due_after(store: Foldable, after: int, until: int) -> Due:
    """What happened in (after, until] that a state at `after` does not know.

    Other kernels round other last bits: where they changed, everything that a state
    before the change has learnt is learnt again.
    """
    accounts: dict[str, Account] = {}
    known: dict[str, tuple[Count, ...]] = {}  # what the state has learnt
    # decisions that were made, shown or corrected, experts that came and went
    lines: list[Line | Exposure] = []
    since, waiting, oldest = None, 0, inf
    is_begun_again = False
    for line in _told(store, after, until):
        if line.position > after:
            waiting, oldest = waiting + 1, min(oldest, line.time)
        if line.of_kernels and 0 < after < line.position:
            is_begun_again = True
            since = since or line
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
            lines.append(Exposure(line.position, account.made, account.decided))
        if line.position <= after and account.settled:
            known[line.id] = account.counts
        elif (
            since is None
            and line.id in known
            and _rewritten(known[line.id], account.counts)
        ):
            since = line
    counts = {id: account.counts for id, account in accounts.items()}
    rewritten = min(
        filter(None, (_rewritten(learnt, counts[id]) for id, learnt in known.items())),
        default=0,
    )
    if is_begun_again:
        rewritten = 1
    return Due(
        in_order(counts.values(), lines, after), rewritten, since, waiting, oldest
    )


def in_order(
    counts: Iterable[tuple[Count, ...]],
    lines: Sequence[Line | Exposure],
    after: int = 0,
) -> list[Count | Exposure | Line]:
    """The steps of a fold after a position, in order."""
    items: list[Count | Exposure | Line] = [
        count for account in counts for count in account if count.position > after
    ]
    # a decision comes before it counts
    return sorted([*lines, *items], key=lambda item: item.position)


def _rewritten(learnt: tuple[Count, ...], counts: tuple[Count, ...]) -> int:
    """The first position that counts otherwise than it was learnt; 0 if there is
    none."""
    pairs = zip_longest(learnt, counts[: len(learnt)])
    return next((was.position for was, now in pairs if was != now), 0)


def _told(store: Foldable, after: int, until: int) -> Iterable[Line]:
    """The lines after `after`, preceded by the whole history of the decisions they are
    about."""
    if after == 0:
        return store.lines(after, until)
    new = list(store.lines(after, until))
    touched = dict.fromkeys(line.id for line in new if line.of_decision)
    return [*store.history(list(touched), after), *new]


_CHUNK = 500  # decisions in memory at a time


def with_decisions(
    store: Foldable,
    items: Sequence[Count | Exposure | Line],
    sums: Statistics | None = None,
) -> Iterator[Step]:
    """The steps of a fold, with the decisions that were settled, and with what `sums`
    need, where they are kept."""
    for first in range(0, len(items), _CHUNK):
        chunk = items[first : first + _CHUNK]
        made = [item.made for item in chunk if isinstance(item, Count)]
        decisions: dict[int, Decision] = {}
        drawn: dict[int, Draw | None] = {}
        if sums is None:
            decisions |= zip(made, store.decisions(made), strict=True)
        else:
            for position, (decision, draw) in zip(
                made, store.decisions_with_draws(made), strict=True
            ):
                decisions[position], drawn[position] = decision, draw
            shown = [
                position
                for item in chunk
                if (position := _shown(item)) and position not in drawn
            ]
            drawn |= zip(shown, store.draws(shown), strict=True)
        for item in chunk:
            if isinstance(item, Count):
                yield Step(item, decisions[item.made], drawn.get(item.made))
            else:
                yield Step(item, None, drawn.get(_shown(item)))


def sums_at(
    store: Reading,
    position: int,
    kept: Mapping[str, Any] | None,
    kind: StatisticsKind | None,
) -> Statistics | None:
    """The statistics as a snapshot at this position has kept them; where it has none,
    or others, from the log.

    Weights on the way are not in the log: there they begin anew.
    """
    if kind is None:
        return None
    sums = kind.from_json(kept)
    if sums is not None:
        return sums
    none = kind.of(store.about)
    return after_steps(
        none, with_decisions(store, due_after(store, 0, position).items, none)
    )


def _shown(item: Count | Exposure | Line) -> int:
    """The position of the decision that an item shows; 0 if it shows none."""
    if isinstance(item, Exposure):
        return item.made
    return (
        item.position
        if isinstance(item, Line) and item.kind == "decision" and not item.deferred
        else 0
    )
