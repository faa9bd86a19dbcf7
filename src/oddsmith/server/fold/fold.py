"""Salts: the digests of names and categories in a state, keyed by a secret of the store
that it is folded from."""

import logging
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import NamedTuple, TypeAlias

import numpy as np

from oddsmith.contexts.columns import Columns
from oddsmith.core.decision import Decision, State
from oddsmith.core.errors import BadFile, InvalidInput, OddsmithError
from oddsmith.core.experts import Experts
from oddsmith.core.policy import Policy, check_policy
from oddsmith.experts.learners.name_table import NameTable
from oddsmith.files.fingerprint import fingerprint
from oddsmith.files.state import FORMAT, pack, unpack, unpack_part
from oddsmith.logs.progress import progress
from oddsmith.policies.roster import add_expert, pad_to_roster, retire_expert
from oddsmith.server.fold.accounts import Count
from oddsmith.server.fold.judge import judge
from oddsmith.server.fold.protocol import Statistics, StatisticsKind, Step, after_steps
from oddsmith.server.fold.steps import due_after, sums_at, with_decisions
from oddsmith.server.store.changes import arms_of
from oddsmith.server.store.protocol import (
    ContextErased,
    DamagedSnapshot,
    Foldable,
    Line,
    Reading,
    Snapshot,
    Store,
)

__all__ = [
    "Change",
    "FoldState",
    "HalfWritten",
    "advance",
    "copy_fold",
    "initial_fold",
    "policy_at",
    "recover",
    "refold",
    "restore",
    "restore_judge",
    "roster_change",
    "save_snapshot",
    "settle",
    "snapshot_of",
    "start_before",
    "with_salt",
]


def with_salt(state: State, secret: bytes) -> State:
    """The state with its digests keyed by `secret` (16 bytes), wherever it has none yet
    and no salt.

    Who has the state alone can then not try out which words it knows. What was learnt
    before keeps its digests.

    >>> from oddsmith.contexts.columns import empty_columns
    >>> with_salt((empty_columns(), 3), bytes(range(16)))[0].salt[:3]
    array([0, 1, 2], dtype=uint8)
    """
    if isinstance(state, Columns | NameTable):
        is_fresh = not len(state.digests) and not state.salt.any()
        return (
            state._replace(salt=np.frombuffer(secret, np.uint8)) if is_fresh else state
        )
    if not isinstance(state, tuple):
        return state
    parts = [with_salt(part, secret) for part in state]
    if all(new is old for new, old in zip(parts, state, strict=True)):
        return state
    return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)


Change: TypeAlias = Callable[[Policy, State, Line], tuple[Policy, State]]
"""What an expert that came or went, or arms that joined, make of policy and state."""

_log = logging.getLogger(__name__)


class FoldState(NamedTuple):
    """The state after all events up to `position`, and the policy it belongs to
    (experts may have changed).

    `refused` are the positions, of those folded since the start or snapshot, whose
    reward the policy would not take; where only experts that learn would not, the
    weights do: they are the fold of what is recorded, which can be proved. `careful`:
    an expert has raised while it learnt, so that states which are written in place are
    copied before. `lenient`: contexts may be gone that no snapshot has learnt; experts
    that learn from them refuse those rewards. `sums` are statistics of the log; None
    where they are not kept. `secret` keys the digests of experts that join.
    """

    state: State
    position: int
    policy: Policy
    refused: tuple[int, ...] = ()
    careful: bool = False
    lenient: bool = False
    sums: Statistics | None = None
    secret: bytes = bytes(16)


class HalfWritten(OddsmithError):
    """An expert raised while it learnt in place: the state may be half written, and is
    folded anew, carefully."""


def restore(
    store: Reading,
    policy: Policy,
    *,
    until: int | None = None,
    change: Change | None = None,
    statistics: StatisticsKind | None = None,
) -> FoldState:
    """The state up to `until` (the head), from the last snapshot that is still true, or
    from the beginning.

    `policy` is the one the store was made with; `change` is needed where experts were
    added or retired since. `statistics` are folded beside the state, if they are given.
    Progress is shown on a terminal.
    """
    check_policy(policy)

    def start_at(latest: int) -> FoldState:
        return start_before(store, policy, latest, change, statistics=statistics)

    return refold(store, _end(store, until), start_at, change)


def refold(
    store: Foldable,
    until: int,
    start_at: Callable[[int], FoldState],
    change: Change | None,
) -> FoldState:
    """The state up to `until`; `start_at` gives a state at or before a position, and 0
    is always one it can give.

    It is asked again, for an earlier one, where later lines rewrote what its state has
    learnt, and for another where an expert that raised may have left the first half
    written. What was learnt from contexts that were erased since stays as it is;
    weights need no contexts, and are folded anew all the same.
    """
    try:
        return _refold(store, until, start_at, change)
    except HalfWritten:
        return _refold(
            store, until, lambda latest: start_at(latest)._replace(careful=True), change
        )


def recover(
    store: Foldable,
    until: int,
    start_at: Callable[[int], FoldState],
    change: Change | None,
) -> FoldState:
    """As `refold`; but where contexts are gone that only a lost snapshot had learnt,
    the state goes on without them.

    The weights need none, and are right; experts that learn from contexts refuse those
    rewards, which are counted.
    """
    try:
        return refold(store, until, start_at, change)
    except ContextErased as error:
        _log.error(
            "%s: experts that learn go on without the rewards of such decisions", error
        )
        return refold(
            store, until, lambda latest: start_at(latest)._replace(lenient=True), change
        )


def _refold(
    store: Foldable,
    until: int,
    start_at: Callable[[int], FoldState],
    change: Change | None,
) -> FoldState:
    start = newest = start_at(until)
    due = latest = due_after(store, start.position, until)
    while due.rewritten:
        start = start_at(due.rewritten - 1)
        due = due_after(store, start.position, until)
    try:
        steps = progress(
            with_decisions(store, due.items, start.sums), len(due.items), "restoring"
        )
        return settle(start, steps, until, change)
    except ContextErased:
        if due is latest:
            raise
    # whose sums are old
    learnt = settle(newest, with_decisions(store, latest.items), until, change)
    again = start_at(start.position)  # the other was written into
    plain = judge(again.policy)
    anew = with_decisions(store, due.items, again.sums)
    if plain is None:
        return learnt._replace(
            sums=None if again.sums is None else after_steps(again.sums, anew)
        )
    bare = again._replace(
        state=again.state._replace(experts=plain.init().experts), policy=plain
    )
    weighed = settle(bare, anew, until, change)
    right = weighed.state._replace(experts=learnt.state.experts)
    return learnt._replace(state=right, refused=weighed.refused, sums=weighed.sums)


def advance(
    store: Reading,
    policy: Policy,
    folded: FoldState,
    *,
    until: int | None = None,
    change: Change | None = None,
    statistics: StatisticsKind | None = None,
) -> FoldState:
    """The state up to `until` (the head) from one that `restore` or `advance` gave;
    `policy` is the store's first one.

    A policy that learns in place writes into the state it is given. Where a correction
    rewrote what the state has learnt, the state is left as it is and `restore` gives
    the new one.
    """
    end = _end(store, until)
    if end < folded.position:
        raise InvalidInput(
            f"until must be at or after the state's position {folded.position}; got "
            f"{end}"
        )
    due = due_after(store, folded.position, end)
    if due.rewritten:
        return restore(store, policy, until=end, change=change, statistics=statistics)
    try:
        return settle(
            folded, with_decisions(store, due.items, folded.sums), end, change
        )
    except HalfWritten:
        return restore(store, policy, until=end, change=change, statistics=statistics)


def save_snapshot(store: Store, folded: FoldState, time: float) -> Snapshot:
    """Keep the state in the store, as of its position."""
    snapshot, content = snapshot_of(folded, time)
    store.keep(snapshot, content)
    return snapshot


def snapshot_of(folded: FoldState, time: float) -> tuple[Snapshot, bytes]:
    """The state as a snapshot and its content, for `Store.keep`."""
    sums = None if folded.sums is None else folded.sums.to_json()
    content = pack(
        folded.policy, folded.state, {"position": folded.position, "sums": sums}
    )
    return Snapshot(folded.position, fingerprint(folded.policy), FORMAT, time), content


def _end(store: Reading, until: int | None) -> int:
    head = store.head()
    if until is None:
        return head
    if not 0 <= until <= head:
        raise InvalidInput(
            f"until must be a position of the store, 0 to {head}; got {until}"
        )
    return until


def start_before(
    store: Reading,
    policy: Policy,
    latest: int,
    change: Change | None,
    *,
    is_judge: bool = False,
    statistics: StatisticsKind | None = None,
) -> FoldState:
    """The newest snapshot at or before `latest`, else the state before any event; of a
    judge, its part of it."""
    usable = [snapshot for snapshot in store.snapshots() if snapshot.position <= latest]
    if not usable:
        return initial_fold(store, policy, policy.init(), statistics)
    position = usable[-1].position
    try:
        content = store.content(position)
    except InvalidInput:  # another replica has thinned it out
        return start_before(
            store,
            policy,
            position - 1,
            change,
            is_judge=is_judge,
            statistics=statistics,
        )
    except DamagedSnapshot as error:
        name = store.about.get("experiment", "")
        _log.error(
            "experiment %s: %s; an older one is used, or the whole log", name, error
        )
        return start_before(
            store,
            policy,
            position - 1,
            change,
            is_judge=is_judge,
            statistics=statistics,
        )
    policy = policy_at(store, policy, position, change)
    source = f"the snapshot at position {position}"
    if is_judge:
        return FoldState(unpack_part(content, policy, source), position, policy)
    state, about = unpack(content, policy, source)
    sums = sums_at(store, position, about["sums"], statistics)
    return initial_fold(store, policy, state)._replace(position=position, sums=sums)


def initial_fold(
    store: Reading,
    policy: Policy,
    state: State,
    statistics: StatisticsKind | None = None,
) -> FoldState:
    """A state before any event, its digests keyed by the store's secret."""
    sums = None if statistics is None else statistics.of(store.about)
    return FoldState(
        with_salt(state, store.secret), 0, policy, sums=sums, secret=store.secret
    )


def policy_at(
    store: Reading, policy: Policy, position: int, change: Change | None
) -> Policy:
    """The policy as it was at a position; `policy` is the store's first one."""
    if change is not None:
        for line in store.changes():
            if line.position <= position:
                policy, _ = change(policy, policy.init(), line)
    return policy


def settle(
    folded: FoldState, steps: Iterable[Step], until: int, change: Change | None
) -> FoldState:
    """The state after these steps, which are all there is up to `until`.

    Whatever an update raises is a refusal of that reward: the state stays as it was,
    but for the weights, which follow from what is recorded. A state that may be half
    written raises `HalfWritten`, unless the fold is careful.
    """
    state, policy, refused = folded.state, folded.policy, list(folded.refused)
    sums = None if folded.sums is None else folded.sums.copy()
    for step in steps:
        item, decision, _ = step
        if sums is not None:
            sums.take(step)
        if isinstance(item, Line) and item.of_policy:
            if change is None:
                changed = (
                    f"the policy changed at position {item.position} ({item.kind} "
                    f"{item.id!r})"
                )
                raise InvalidInput(f"change must be given, for {changed}")
            policy, state = change(policy, state, item)
            state = with_salt(state, folded.secret)
        elif isinstance(item, Count) and decision is not None:
            if item.value != item.before:  # a reward may be as the default was
                state, is_refused = _after(policy, state, (item, decision), folded)
                refused += [item.position] if is_refused else []
            if sums is not None:
                sums.note_update(item, decision, policy, state)
    return folded._replace(
        state=state, position=until, policy=policy, refused=tuple(refused), sums=sums
    )


def _after(
    policy: Policy, state: State, counts: tuple[Count, Decision], folded: FoldState
) -> tuple[State, bool]:
    """The state after a decision has counted, and whether its reward was refused."""
    item, decision = counts
    by_number = pad_to_roster(policy, state, decision.by_number())
    whole = deepcopy(state) if folded.careful and policy.in_place else state
    try:
        return _learnt(policy, state, by_number, item), False
    except MemoryError:
        raise
    except Exception as error:
        is_erased = isinstance(error, ContextErased)
        if is_erased and item.before is None and not folded.lenient:
            raise
        weighed = _weighed(policy, whole, by_number, item) if policy.in_place else None
        if weighed is not None and not folded.careful:
            raise HalfWritten(
                f"position {item.position} must be learnt again, carefully: {error}"
            ) from error
        return whole if weighed is None else weighed, not (
            is_erased and item.before is not None
        )


def _learnt(policy: Policy, state: State, decision: Decision, count: Count) -> State:
    if count.before is None:
        return policy.update(state, decision, count.value)
    return policy.revise(state, decision, count.before, count.value)


def _weighed(
    policy: Policy, state: State, decision: Decision, count: Count
) -> State | None:
    """The state with its weights alone changed, as they follow from what is recorded:
    experts refused the reward.

    None where the weights refuse it, too: they come first, so that experts have written
    nothing.
    """
    plain = judge(policy)
    if plain is None:
        return state
    try:
        weighed = _learnt(
            plain, state._replace(experts=plain.init().experts), decision, count
        )
    except Exception:
        return None
    return weighed._replace(experts=state.experts)


def copy_fold(folded: FoldState) -> FoldState:
    """A fold whose state is not written into where the first one's is."""
    return (
        folded._replace(state=deepcopy(folded.state))
        if folded.policy.in_place
        else folded
    )


def roster_change(bench: Mapping[str, Experts] | None = None) -> Change:
    """The change of a policy by its lines; `bench` are the experts that may join, by
    name. A judge needs none."""

    def change(policy: Policy, state: State, line: Line) -> tuple[Policy, State]:
        arms = arms_of(line)
        if arms is not None:
            return policy.with_arms(state, arms)
        if line.kind == "expert retired":
            return retire_expert(policy, state, line.id)
        if line.value is None or not 0 < line.value < 1:
            raise InvalidInput(
                f"share of expert {line.id!r} must be between 0 and 1; got {line.value}"
            )
        bank = None if bench is None else bench.get(line.id)
        is_unknown = policy.bank is not None and line.id not in policy.bank.names
        if bench is not None and bank is None and is_unknown:
            stay = "its table must stay in the policy file, with joins = true"
            raise BadFile(
                f"expert {line.id!r} joined at position {line.position}: {stay}; it is "
                "not there"
            )
        return add_expert(policy, state, line.id, line.value, bank)

    return change


def restore_judge(store: Reading, policy: Policy, until: int) -> FoldState | None:
    """The judge of a store's first policy and its state at `until`; None where the
    policy weighs no votes.

    The same weights as `restore` has, to the last bit; experts that learn are left out,
    which is most of the work, and contexts that were erased are not missed.
    """
    first = judge(policy)
    if first is None:
        return None
    change = roster_change()
    return refold(
        store,
        until,
        lambda latest: start_before(store, first, latest, change, is_judge=True),
        change,
    )
