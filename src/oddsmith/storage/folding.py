"""restore and advance: the state as the fold of a store's events, the same bits live, on replicas and after restarts.

Every decision counts at the position where it was settled, with the value its account has at the end of what is read;
the state is `policy.update` over them in that order, one at a time. Live, a state is advanced by the few new lines; a
restart advances a snapshot. Where a line rewrites what came before a state, an older snapshot is the start.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from oddsmith.decision import Decision, State
from oddsmith.errors import AllExpertsRefuted, BadFile, ExpertFailed, InvalidInput
from oddsmith.experts.base import Experts
from oddsmith.fingerprint import fingerprint
from oddsmith.policies.base import Policy, check_policy
from oddsmith.policies.judge import added, gts_inside, judge, pad_to_roster, retired
from oddsmith.progress import progress
from oddsmith.saving import FORMAT, pack, unpack
from oddsmith.storage.accounts import Account
from oddsmith.storage.base import ContextErased, DamagedSnapshot, Foldable, Line, Reading, Snapshot, Store

__all__ = ["Change", "Due", "Folded", "Item", "advance", "due_after", "refold", "restore", "roster_change"]
__all__ += ["save_snapshot", "settle", "snapshot_of", "with_decisions"]

Change: TypeAlias = Callable[[Policy, State, Line], tuple[Policy, State]]
"""What an added or retired expert makes of policy and state."""

_log = logging.getLogger(__name__)
_REFUSED = (AllExpertsRefuted, ExpertFailed, InvalidInput)
_CHUNK = 500  # decisions in memory at a time


class Folded(NamedTuple):
    """The state after all events up to `position`, and the policy it belongs to (experts may have changed).

    `refused` are the positions, of those folded since the start or snapshot, whose reward the policy would not take;
    where only experts that learn would not, the weights do: they are the fold of what is recorded, which can be proved.
    """

    state: State
    position: int
    policy: Policy
    refused: tuple[int, ...] = ()


class Due(NamedTuple):
    """What is to be folded, in order, and the first settled position that later lines rewrote (0: none)."""

    items: "list[Account | Line]"
    rewritten: int


Item: TypeAlias = tuple[Account | Line, Decision | None]
"""A settled decision, or a change of experts: the step of a fold."""


def restore(store: Reading, policy: Policy, *, until: int | None = None, change: Change | None = None) -> Folded:
    """The state up to `until` (the head), from the last snapshot that is still true, or from the beginning.

    `policy` is the one the store was made with; `change` is needed where experts were added or retired since. Progress
    is shown on a terminal.
    """
    check_policy(policy)
    return refold(store, _end(store, until), lambda latest: _start(store, policy, latest, change), change)


def refold(store: Foldable, until: int, start_at: Callable[[int], Folded], change: Change | None) -> Folded:
    """The state up to `until`; `start_at` gives a state at or before a position, and 0 is always one it can give.

    It is asked again, for an earlier one, where later lines rewrote what its state has learnt. What was learnt from
    contexts that were erased since stays as it is; weights need no contexts, and are folded anew all the same.
    """
    start = newest = start_at(until)
    due = latest = due_after(store, start.position, until)
    while due.rewritten:
        start = start_at(due.rewritten - 1)
        due = due_after(store, start.position, until)
    try:
        steps = progress(with_decisions(store, due.items), len(due.items), "restoring")
        return settle(start, steps, until, change)
    except ContextErased:
        if due is latest:
            raise
    learnt = settle(newest, with_decisions(store, latest.items), until, change)
    again = start_at(start.position)  # the other was written into
    plain = judge(again.policy)
    if plain is None:
        return learnt
    bare = again._replace(state=again.state._replace(experts=plain.init().experts), policy=plain)
    weighed = settle(bare, with_decisions(store, due.items), until, change)
    return learnt._replace(state=weighed.state._replace(experts=learnt.state.experts), refused=weighed.refused)


def advance(
    store: Reading, policy: Policy, folded: Folded, *, until: int | None = None, change: Change | None = None
) -> Folded:
    """The state up to `until` (the head) from one that `restore` or `advance` gave; `policy` is the store's first one.

    A policy that learns in place writes into the state it is given. Where a correction rewrote what the state has
    learnt, the state is left as it is and `restore` gives the new one.
    """
    end = _end(store, until)
    if end < folded.position:
        raise InvalidInput(f"until must be at or after the state's position {folded.position}; got {end}")
    due = due_after(store, folded.position, end)
    if due.rewritten:
        return restore(store, policy, until=end, change=change)
    return settle(folded, with_decisions(store, due.items), end, change)


def save_snapshot(store: Store, folded: Folded, time: float) -> Snapshot:
    """Keep the state in the store, as of its position."""
    snapshot, content = snapshot_of(folded, time)
    store.keep(snapshot, content)
    return snapshot


def snapshot_of(folded: Folded, time: float) -> tuple[Snapshot, bytes]:
    """The state as a snapshot and its content, for `Store.keep`."""
    content = pack(folded.policy, folded.state, {"position": folded.position})
    return Snapshot(folded.position, fingerprint(folded.policy), FORMAT, time), content


def _end(store: Reading, until: int | None) -> int:
    head = store.head()
    if until is None:
        return head
    if not 0 <= until <= head:
        raise InvalidInput(f"until must be a position of the store, 0 to {head}; got {until}")
    return until


def _start(store: Reading, policy: Policy, latest: int, change: Change | None) -> Folded:
    """The newest snapshot at or before `latest`, else the state before any event."""
    usable = [snapshot for snapshot in store.snapshots() if snapshot.position <= latest]
    if not usable:
        return Folded(policy.init(), 0, policy)
    position = usable[-1].position
    try:
        content = store.content(position)
    except InvalidInput:  # another replica has thinned it out
        return _start(store, policy, position - 1, change)
    except DamagedSnapshot as error:
        _log.error("%s; an older one is used, or the whole log", error)
        return _start(store, policy, position - 1, change)
    if change is not None:  # the policy as it was then; its state comes from the snapshot
        for line in store.changes():
            if line.position <= position:
                policy, _ = change(policy, policy.init(), line)
    state, _ = unpack(content, policy, f"the snapshot at position {position}")
    return Folded(state, position, policy)


def due_after(store: Foldable, after: int, until: int) -> Due:
    """What happened in (after, until] that a state at `after` does not know."""
    accounts: dict[str, Account] = {}
    known: dict[str, float] = {}  # values that the state has learnt
    items: list[Account | Line] = []
    for line in _told(store, after, until):
        if not line.of_decision:
            items += [line] if line.of_roster else []
            continue
        account = accounts.get(line.id)
        if account is None:
            account = accounts[line.id] = Account(store.rule)
        settles = account.take(line)
        if line.position > after and settles:
            items.append(account)
        elif line.position <= after and account.settled:
            known[line.id] = account.value
    changed = [accounts[id].settled for id, value in known.items() if accounts[id].value != value]
    return Due(items, min(changed, default=0))


def _told(store: Foldable, after: int, until: int) -> Iterable[Line]:
    """The lines after `after`, preceded by the whole history of the decisions they are about."""
    if after == 0:
        return store.lines(after, until)
    new = list(store.lines(after, until))
    touched = dict.fromkeys(line.id for line in new if line.of_decision)
    return [*store.history(list(touched), after), *new]


def settle(folded: Folded, steps: Iterable[Item], until: int, change: Change | None) -> Folded:
    """The state after these steps, which are all there is up to `until`."""
    state, policy, refused = folded.state, folded.policy, list(folded.refused)
    for item, decision in steps:
        if isinstance(item, Line):
            if change is None:
                raise InvalidInput(f"change must be given, for expert {item.id!r} changed at position {item.position}")
            policy, state = change(policy, state, item)
        elif decision is not None:
            by_number = decision.numbered()
            if gts_inside(policy) is not None:
                by_number = pad_to_roster(by_number, state.log_weights)
            try:
                state = policy.update(state, by_number, item.value)
            except _REFUSED:  # raised before anything is written
                refused.append(item.settled)
                state = _weighed(policy, state, by_number, item.value) if policy.in_place else state
    return Folded(state, until, policy, tuple(refused))


def _weighed(policy: Policy, state: State, decision: Decision, reward: float) -> State:
    """The state with its weights alone changed, as they follow from what is recorded: experts refused the reward."""
    plain = judge(policy)
    if plain is None:
        return state
    try:
        weighed = plain.update(state._replace(experts=plain.init().experts), decision, reward)
    except _REFUSED:
        return state
    return weighed._replace(experts=state.experts)


def with_decisions(store: Foldable, items: list[Account | Line]) -> Iterator[Item]:
    """The steps of a fold, with the decisions that were settled."""
    for first in range(0, len(items), _CHUNK):
        chunk = items[first : first + _CHUNK]
        decisions = iter(store.decisions([item.made for item in chunk if isinstance(item, Account)]))
        yield from ((item, next(decisions) if isinstance(item, Account) else None) for item in chunk)


def roster_change(bench: Mapping[str, Experts] | None = None) -> Change:
    """The change of a roster by its lines; `bench` are the experts that may join, by name. A judge needs none."""

    def change(policy: Policy, state: State, line: Line) -> tuple[Policy, State]:
        if line.kind == "expert retired":
            return retired(policy, state, line.id)
        if line.value is None or not 0 < line.value < 1:
            raise InvalidInput(f"share of expert {line.id!r} must be between 0 and 1; got {line.value}")
        bank = None if bench is None else bench.get(line.id)
        inner = gts_inside(policy)
        if bench is not None and bank is None and inner is not None and line.id not in inner.experts.names:
            stay = "its table must stay in the policy file, with joins = true"
            raise BadFile(f"expert {line.id!r} joined at position {line.position}: {stay}; it is not there")
        return added(policy, state, line.id, line.value, bank)

    return change
