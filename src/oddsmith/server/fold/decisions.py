"""Lists of decisions, the newest first, a page at a time: what was drawn, and the
account of each."""

from collections.abc import Iterator, Sequence
from math import isnan
from typing import NamedTuple

from oddsmith.server.fold.accounts import Account
from oddsmith.server.store.events import DecisionSummary
from oddsmith.server.store.protocol import Line, Reading

__all__ = ["ListEntry", "Page", "PageQuery", "page_of"]

_SEARCHED = 5_000  # decisions that are looked at for one page
# of which there may be four to a decision; more are left to the next page
_LINES = 20_000
_CHUNK = 2_000  # lines that are read at a time


class PageQuery(NamedTuple):
    """Which decisions: at most `limit` before a position; of one `arm`; `rewarded`, or
    without reward and default."""

    before: int | None = None
    limit: int = 50
    arm: str | None = None
    rewarded: bool | None = None

    @property
    def chooses(self) -> bool:
        """Whether some are left out."""
        return self.arm is not None or self.rewarded is not None


class ListEntry(NamedTuple):
    """A decision in a list: its line, its account as of the list's position, and what
    else there is to tell."""

    line: Line
    account: Account
    draw: DecisionSummary


class Page(NamedTuple):
    """Decisions, the newest first; `before` is where the next page begins, None where
    there is no more.

    `searched` is how many decisions were looked at for it.
    """

    decisions: list[ListEntry]
    before: int | None
    searched: int


class _Found(NamedTuple):
    line: Line
    account: Account


def page_of(store: Reading, until: int, wanted: PageQuery) -> Page:
    """The last decisions before a position, as of the log up to `until`.

    Where some are left out, a page is what was found among 5,000 decisions, maybe
    nothing: the next one goes on there.
    """
    start = until + 1 if wanted.before is None else min(wanted.before, until + 1)
    found, searched, end = list[_Found](), 0, start
    for lines, is_last in _stretches(
        store, start, _CHUNK if wanted.chooses else 4 * (wanted.limit + 1)
    ):
        made = [line for line in lines if line.kind == "decision"][
            : _SEARCHED - searched
        ]
        accounts = _accounts(
            store, [line.id for line in made if wanted.arm in (None, line.arm)], until
        )
        for line in made:
            searched += 1
            account = accounts.get(line.id)
            if account is None or wanted.rewarded not in (
                None,
                not isnan(account.value),
            ):
                continue
            if len(found) == wanted.limit:
                return _page(store, found, found[-1].line.position, searched - 1)
            found.append(_Found(line, account))
        if searched == _SEARCHED:
            return _page(store, found, made[-1].position, searched)
        if is_last:
            return _page(store, found, None, searched)
        end = lines[-1].position
    return _page(store, found, end, searched)


def _stretches(
    store: Reading, before: int, chunk: int
) -> Iterator[tuple[list[Line], bool]]:
    """Lines before a position, the newest first, and whether these are the last; in all
    not many more than `_LINES`."""
    taken = 0
    while taken < _LINES:
        lines = store.lines_back(before, chunk)
        yield lines, len(lines) < chunk
        before, taken = lines[-1].position, taken + len(lines)


def _accounts(store: Reading, ids: Sequence[str], until: int) -> dict[str, Account]:
    accounts = {id: Account(store.rule, store.late, store.zero) for id in ids}
    for line in store.history(list(accounts), until):
        accounts[line.id].take(line)
    return accounts


def _page(
    store: Reading, found: Sequence[_Found], before: int | None, searched: int
) -> Page:
    draws = store.summaries([one.line.position for one in found])
    return Page(
        [ListEntry(*one, draw) for one, draw in zip(found, draws, strict=True)],
        before,
        searched,
    )
