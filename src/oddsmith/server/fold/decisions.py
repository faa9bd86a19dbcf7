"""Pages of decisions, the newest first, with the drawn arm and the reward of each."""

from collections.abc import Iterator, Sequence
from math import isnan
from typing import NamedTuple

from oddsmith.server.fold.accounts import Account
from oddsmith.server.store.events import DecisionSummary
from oddsmith.server.store.protocol import Line, Reading

__all__ = ["ListEntry", "Page", "PageQuery", "page_of"]

_SEARCHED = 5_000  # maximum number of decisions searched per page
_LINES = 20_000  # maximum number of lines read per page; a decision can have four lines
_CHUNK = 2_000  # number of lines per read


class PageQuery(NamedTuple):
    """Select at most `limit` decisions before a position, by arm and reward.

    `rewarded` selects decisions with a reward or a default (True), or without (False).
    """

    before: int | None = None
    limit: int = 50
    arm: str | None = None
    rewarded: bool | None = None

    @property
    def chooses(self) -> bool:
        """Whether the query leaves out some decisions."""
        return self.arm is not None or self.rewarded is not None


class ListEntry(NamedTuple):
    """A decision in a list, with its account of events up to the position of the
    list."""

    line: Line
    account: Account
    draw: DecisionSummary


class Page(NamedTuple):
    """Decisions, newest first, and the number of decisions that were searched.

    `before` is the position where the next page begins; None at the last page.
    """

    decisions: list[ListEntry]
    before: int | None
    searched: int


class _Match(NamedTuple):
    line: Line
    account: Account


def page_of(store: Reading, until: int, query: PageQuery) -> Page:
    """Return a page of the newest decisions before a position. Rewards are computed
    from the log up to `until`.

    If the query leaves out some decisions, a page contains the matches among 5,000
    decisions, possibly none. The next page continues from there.
    """
    start = until + 1
    if query.before is not None:
        start = min(query.before, start)
    chunk = 4 * (query.limit + 1)
    if query.chooses:
        chunk = _CHUNK
    found: list[_Match] = []
    searched = 0
    end = start
    for lines, is_last in _stretches(store, start, chunk):
        made = [line for line in lines if line.kind == "decision"]
        made = made[: _SEARCHED - searched]
        ids = [line.id for line in made if query.arm in (None, line.arm)]
        accounts = _accounts(store, ids, until)
        for line in made:
            searched += 1
            account = accounts.get(line.id)
            if account is None:
                continue
            is_rewarded = not isnan(account.value)
            if query.rewarded not in (None, is_rewarded):
                continue
            if len(found) == query.limit:
                return _page(store, found, found[-1].line.position, searched - 1)
            found.append(_Match(line, account))
        if searched == _SEARCHED:
            return _page(store, found, made[-1].position, searched)
        if is_last:
            return _page(store, found, None, searched)
        end = lines[-1].position
    return _page(store, found, end, searched)


def _stretches(
    store: Reading, before: int, chunk: int
) -> Iterator[tuple[list[Line], bool]]:
    """Yield groups of lines before a position, the newest first. The flag is true for
    the last group.

    At most about `_LINES` lines are yielded in total.
    """
    taken = 0
    while taken < _LINES:
        lines = store.lines_back(before, chunk)
        yield lines, len(lines) < chunk
        before = lines[-1].position
        taken += len(lines)


def _accounts(store: Reading, ids: Sequence[str], until: int) -> dict[str, Account]:
    accounts = {id: Account.of(store) for id in ids}
    for line in store.history(list(accounts), until):
        accounts[line.id].take(line)
    return accounts


def _page(
    store: Reading, found: Sequence[_Match], before: int | None, searched: int
) -> Page:
    draws = store.summaries([match.line.position for match in found])
    entries: list[ListEntry] = []
    for match, draw in zip(found, draws, strict=True):
        entries.append(ListEntry(match.line, match.account, draw))
    return Page(entries, before, searched)
