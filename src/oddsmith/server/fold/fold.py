"""Compute the state of a policy from the events of a store, starting from a snapshot
(the fold)."""

import logging
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import NamedTuple, TypeAlias

import numpy as np

from oddsmith.contexts.columns import Columns
from oddsmith.core.decision import PAUSED, Decision, State
from oddsmith.core.errors import BadFile, InvalidInput, OddsmithError
from oddsmith.core.experts import Experts
from oddsmith.core.policy import Policy, check_policy
from oddsmith.experts.learners.name_table import NameTable
from oddsmith.files.fingerprint import fingerprint
from oddsmith.files.state import FORMAT, pack, unpack, unpack_part
from oddsmith.logs.progress import progress
from oddsmith.policies.roster import add_expert, pad_to_roster, retire_expert
from oddsmith.server.fold.accounts import Count
from oddsmith.server.fold.freezes import Freezes, after_lines, freezes_at
from oddsmith.server.fold.judge import judge
from oddsmith.server.fold.protocol import Statistics, StatisticsKind, Step, after_steps
from oddsmith.server.fold.steps import due_after, sums_at, with_decisions
from oddsmith.server.store.changes import arms_of, facts_of
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
    """Return the state with `secret` (16 bytes) as the key of its digests.

    Without the secret, such a state does not reveal the names and categories that it
    has learned from. Parts that already have digests or a salt are not changed.

    >>> from oddsmith.contexts.columns import empty_columns
    >>> with_salt((empty_columns(), 3), bytes(range(16)))[0].salt[:3]
    array([0, 1, 2], dtype=uint8)
    """
    if isinstance(state, Columns | NameTable):
        if len(state.digests) or state.salt.any():
            return state
        return state._replace(salt=np.frombuffer(secret, np.uint8))
    if not isinstance(state, tuple):
        return state
    parts = [with_salt(part, secret) for part in state]
    if all(new is old for new, old in zip(parts, state, strict=True)):
        return state
    is_record = hasattr(state, "_fields")
    return type(state)(*parts) if is_record else tuple(parts)


Change: TypeAlias = Callable[[Policy, State, Line], tuple[Policy, State]]
"""A function that applies a change of the policy to policy and state: an expert was
added or retired, or arms were added."""

_log = logging.getLogger(__name__)


class FoldState(NamedTuple):
    """The state after all events up to `position`, with its policy.

    `refused` contains the positions of rewards that the policy has rejected since the
    start or snapshot. If only experts that learn rejected a reward, the weights are
    still updated with it, because `verify` computes them from the recorded log.
    `careful` is true if an expert has raised an error while learning; then states that
    are updated in place are copied first. `lenient` is true if contexts may be erased
    before a snapshot has learned from them; then experts that learn reject these
    rewards. `sums` are statistics of the log, or None. `secret` is the key of the
    digests of experts that join. `freezes` contains the positions at which learning was
    frozen and continued.
    """

    state: State
    position: int
    policy: Policy
    refused: tuple[int, ...] = ()
    careful: bool = False
    lenient: bool = False
    sums: Statistics | None = None
    secret: bytes = bytes(16)
    freezes: Freezes = ()


class HalfWritten(OddsmithError):
    """An expert raised while it learned in place, so the state may be half updated.

    The state is then computed again, with `careful`.
    """


def restore(
    store: Reading,
    policy: Policy,
    *,
    until: int | None = None,
    change: Change | None = None,
    statistics: StatisticsKind | None = None,
) -> FoldState:
    """Return the state up to `until` (default: the head), starting from the last valid
    snapshot or the beginning.

    `policy` is the policy that the store was made with; `change` is needed if experts
    were added or retired since. If `statistics` is given, statistics are computed
    together with the state. Progress is shown on a terminal.
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
    """Return the state up to `until`; `start_at` returns a state at or before a
    position.

    `start_at` is called with an earlier position if later lines changed rewards that
    the state has learned. It is called again if an expert raised and may have left the
    state half updated. If contexts were erased in the meantime, the state of experts
    that learned from them is preserved; the weights need no contexts, and are computed
    again.
    """

    def start_carefully(latest: int) -> FoldState:
        return start_at(latest)._replace(careful=True)

    try:
        return _refold(store, until, start_at, change)
    except HalfWritten:
        return _refold(store, until, start_carefully, change)


def recover(
    store: Foldable,
    until: int,
    start_at: Callable[[int], FoldState],
    change: Change | None,
) -> FoldState:
    """Return the state as `refold` does, even if erased contexts are needed.

    They are needed if a snapshot that had learned from them is lost. The weights are
    correct, because they need no contexts. Experts that learn from contexts refuse the
    rewards of such decisions, and the refusals are counted.
    """

    def start_leniently(latest: int) -> FoldState:
        return start_at(latest)._replace(lenient=True)

    try:
        return refold(store, until, start_at, change)
    except ContextErased as error:
        _log.error(
            "%s: experts that learn go on without the rewards of such decisions", error
        )
        return refold(store, until, start_leniently, change)


def _refold(
    store: Foldable,
    until: int,
    start_at: Callable[[int], FoldState],
    change: Change | None,
) -> FoldState:
    start = newest = start_at(until)
    due = latest = due_after(store, start.position, until, start.freezes)
    while due.rewritten:
        start = start_at(due.rewritten - 1)
        due = due_after(store, start.position, until, start.freezes)
    try:
        steps = with_decisions(store, due.items, start.sums)
        shown = progress(steps, len(due.items), "restoring")
        return settle(start, shown, until, change)
    except ContextErased:
        if due is latest:
            raise
    # Preserve the newest state of the experts, and compute weights and statistics
    # again.
    learnt = settle(newest, with_decisions(store, latest.items), until, change)
    again = start_at(start.position)  # `start` may have been changed in place
    steps = with_decisions(store, due.items, again.sums)
    plain = judge(again.policy)
    if plain is None:
        sums = again.sums
        if sums is not None:
            sums = after_steps(sums, steps)
        return learnt._replace(sums=sums)
    bare = again.state._replace(experts=plain.init().experts)
    weights = settle(again._replace(state=bare, policy=plain), steps, until, change)
    state = weights.state._replace(experts=learnt.state.experts)
    return learnt._replace(state=state, refused=weights.refused, sums=weights.sums)


def advance(
    store: Reading,
    policy: Policy,
    folded: FoldState,
    *,
    until: int | None = None,
    change: Change | None = None,
    statistics: StatisticsKind | None = None,
) -> FoldState:
    """Return the state up to `until` (default: the head) from an earlier one; `policy`
    is the first policy of the store.

    If the policy learns in place, the given state is changed. If a correction changed a
    reward that the state has learned, `restore` computes a new state instead.
    """
    end = _end(store, until)
    if end < folded.position:
        raise InvalidInput(
            f"until must be at or after the state's position {folded.position}; got "
            f"{end}"
        )
    due = due_after(store, folded.position, end, folded.freezes)
    if due.rewritten:
        return restore(store, policy, until=end, change=change, statistics=statistics)
    steps = with_decisions(store, due.items, folded.sums)
    try:
        return settle(folded, steps, end, change)
    except HalfWritten:
        return restore(store, policy, until=end, change=change, statistics=statistics)


def save_snapshot(store: Store, folded: FoldState, time: float) -> Snapshot:
    """Save the state in the store as a snapshot."""
    snapshot, content = snapshot_of(folded, time)
    store.keep(snapshot, content)
    return snapshot


def snapshot_of(folded: FoldState, time: float) -> tuple[Snapshot, bytes]:
    """Return the state as a snapshot with its content, for `Store.keep`."""
    sums = None if folded.sums is None else folded.sums.to_json()
    about = {"position": folded.position, "sums": sums}
    content = pack(folded.policy, folded.state, about)
    mark = fingerprint(folded.policy)
    return Snapshot(folded.position, mark, FORMAT, time), content


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
    """Return the state of the newest snapshot at or before `latest`.

    Without a snapshot, return the state before any event. With `is_judge`, read only
    the part of the snapshot that the judge needs.
    """
    for snapshot in reversed(store.snapshots()):
        position = snapshot.position
        if position > latest:
            continue
        content = _snapshot_content(store, position)
        if content is None:
            continue
        policy = policy_at(store, policy, position, change)
        source = f"the snapshot at position {position}"
        freezes = freezes_at(store, position)
        if is_judge:
            state = unpack_part(content, policy, source)
            return FoldState(state, position, policy, freezes=freezes)
        state, about = unpack(content, policy, source)
        sums = sums_at(store, position, about["sums"], statistics)
        start = initial_fold(store, policy, state)
        return start._replace(position=position, sums=sums, freezes=freezes)
    return initial_fold(store, policy, policy.init(), statistics)


def _snapshot_content(store: Reading, position: int) -> bytes | None:
    """Return the content of a snapshot; None if it was deleted or is damaged."""
    try:
        return store.content(position)
    except InvalidInput:  # another replica has deleted the snapshot
        return None
    except DamagedSnapshot as error:
        name = store.about.get("experiment", "")
        _log.error(
            "experiment %s: %s; an older one is used, or the whole log", name, error
        )
        return None


def initial_fold(
    store: Reading,
    policy: Policy,
    state: State,
    statistics: StatisticsKind | None = None,
) -> FoldState:
    """Return the initial state, before any event. The store's secret is the key of the
    state's digests."""
    sums = None if statistics is None else statistics.of(facts_of(store))
    state = with_salt(state, store.secret)
    return FoldState(state, 0, policy, sums=sums, secret=store.secret)


def policy_at(
    store: Reading, policy: Policy, position: int, change: Change | None
) -> Policy:
    """Return the policy as of a position; `policy` is the first policy of the store."""
    if change is None:
        return policy
    for line in store.changes():
        if line.position <= position:
            policy, _ = change(policy, policy.init(), line)
    return policy


def settle(
    folded: FoldState, steps: Iterable[Step], until: int, change: Change | None
) -> FoldState:
    """Return the state after these steps, which must be all steps up to `until`.

    If an update raises, the reward is refused: only the weights are updated, because
    they can be computed from the recorded log. If the state may be half updated, raise
    `HalfWritten`, unless the fold is careful.
    """
    state = folded.state
    policy = folded.policy
    refused = list(folded.refused)
    sums = folded.sums
    freezes = folded.freezes
    if sums is not None:
        sums = sums.copy()
    for step in steps:
        item = step.item
        decision = step.decision
        if sums is not None:
            sums.take(step)
        if isinstance(item, Line) and item.kind == "action":
            freezes = after_lines(freezes, [item])
        elif isinstance(item, Line) and item.of_policy:
            if change is None:
                raise InvalidInput(
                    "change must be given, because the policy changed at position "
                    f"{item.position} ({item.kind} {item.id!r})"
                )
            policy, state = change(policy, state, item)
            state = with_salt(state, folded.secret)
        elif isinstance(item, Count) and decision is not None:
            if decision.group == PAUSED:
                continue
            # no update if the reward equals the default
            if not item.is_frozen and item.value != item.learnt:
                state, is_refused = _update_or_refuse(
                    policy, state, decision, item, folded
                )
                if is_refused:
                    refused.append(item.position)
            if sums is not None:
                sums.note_update(item, decision, policy, state)
    return folded._replace(
        state=state,
        position=until,
        policy=policy,
        refused=tuple(refused),
        sums=sums,
        freezes=freezes,
    )


def _update_or_refuse(
    policy: Policy,
    state: State,
    decision: Decision,
    count: Count,
    folded: FoldState,
) -> tuple[State, bool]:
    """Return the state after a reward, and whether the reward was refused."""
    by_number = pad_to_roster(policy, state, decision.by_number())
    whole = state
    if folded.careful and policy.in_place:
        whole = deepcopy(state)
    try:
        return _update(policy, state, by_number, count), False
    except MemoryError:
        raise
    except Exception as error:
        is_erased = isinstance(error, ContextErased)
        is_first = count.learnt is None
        if is_erased and is_first and not folded.lenient:
            raise
        is_refused = is_first or not is_erased
        if not policy.in_place:
            return whole, is_refused
        updated = _update_weights(policy, whole, by_number, count)
        if updated is None:
            return whole, is_refused
        if not folded.careful:
            raise HalfWritten(
                f"position {count.position} must be learnt again, carefully: {error}"
            ) from error
        return updated, is_refused


def _update(policy: Policy, state: State, decision: Decision, count: Count) -> State:
    if count.learnt is None:
        return policy.update(state, decision, count.value)
    return policy.revise(state, decision, count.learnt, count.value)


def _update_weights(
    policy: Policy, state: State, decision: Decision, count: Count
) -> State | None:
    """Return the state with updated weights and unchanged experts.

    Return None if the update of the weights also raises. Weights are updated first, so
    in this case no expert has changed its state.
    """
    plain = judge(policy)
    if plain is None:
        return state
    bare = state._replace(experts=plain.init().experts)
    try:
        updated = _update(plain, bare, decision, count)
    except Exception:
        return None
    return updated._replace(experts=state.experts)


def copy_fold(folded: FoldState) -> FoldState:
    """Return a `FoldState` that can be changed without changing this one. The state is
    copied only if learning changes it in place."""
    if not folded.policy.in_place:
        return folded
    return folded._replace(state=deepcopy(folded.state))


def roster_change(bench: Mapping[str, Experts] | None = None) -> Change:
    """Return the function that applies changes of a policy.

    `bench` contains the experts that can join, by name. It is not needed for a judge.
    """

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
    """Return the judge of a store's first policy with its state at `until`.

    Return None if the policy does not weigh votes. The weights are equal to the weights
    of `restore`, to the last bit. Learning experts are left out, which is faster and
    needs no contexts.
    """
    first = judge(policy)
    if first is None:
        return None
    change = roster_change()

    def start_at(latest: int) -> FoldState:
        return start_before(store, first, latest, change, is_judge=True)

    return refold(store, until, start_at, change)
