"""Learning that is frozen for a while: states learn what the definition says, from
anywhere to anywhere."""

from typing import Any

import numpy as np
import pytest

from oddsmith.server.fold.fold import advance, restore, save_snapshot
from oddsmith.server.store import Action, DecisionMade, Event
from oddsmith.server.store.protocol import Late, Rule
from server.fold.memory import Memory
from server.fold.test_fold import JUDGE, random_log
from server.store.samples import bits, counts_of


def with_freezes(events: list[Event], seed: int) -> list[Event]:
    """A log with some freezes in it; the last one may have no end."""
    rng = np.random.default_rng(seed)
    log = list(events)
    places = sorted(rng.integers(0, len(log) + 1, size=rng.integers(1, 6)).tolist())
    for turn, place in enumerate(reversed(places)):
        name: Any = ("freeze", "learn")[(len(places) - 1 - turn) % 2]
        log.insert(place, Action(name, {}, "a test", f"r{turn}", turn, 0.0))
    return log


def defined(store: Any, until: int, rule: str, late: str) -> Any:
    """The state by the definition: a value that counts while learning is frozen is
    skipped, and the next value replaces the last one that was learnt."""
    rows = [row for row in store.events if row[0] <= until]
    frozen = False
    is_frozen = {}
    for position, event in rows:
        if isinstance(event, Action):
            frozen = event.action == "freeze"
        is_frozen[position] = frozen
    steps: list[tuple[int, DecisionMade, float, float | None]] = []
    for place, made in rows:
        if not isinstance(made, DecisionMade):
            continue
        mine = [row for row in rows if getattr(row[1], "id", "") == made.id]
        learnt: float | None = None
        for position, value, _ in counts_of(place, made, mine, rule, late):
            if not is_frozen[position]:
                steps.append((position, made, value, learnt))
                learnt = value
    state = JUDGE.init()
    for _, made, value, before in sorted(steps, key=lambda step: step[0]):
        decision = made.decision.by_number()
        if before is None:
            state = JUDGE.update(state, decision, value)
        elif value != before:
            state = JUDGE.revise(state, decision, before, value)
    return state


@pytest.mark.parametrize("late", ["arrives", "rewrites"])
@pytest.mark.parametrize("rule", ["first", "sum"])
@pytest.mark.parametrize("seed", range(8))
def test_what_counts_in_a_freeze_is_not_learnt(
    seed: int, rule: Rule, late: Late
) -> None:
    store: Any = Memory(rule, late=late)
    store.append(*with_freezes(random_log(seed), seed))
    places = range(0, store.head() + 1, 10)
    known = {until: restore(store, JUDGE, until=until) for until in places}
    for until, folded in known.items():
        wanted = defined(store, until, rule, late)
        assert bits(folded.state) == bits(wanted)
        assert folded.state.learnt == wanted.learnt
    for start, folded in known.items():
        for until in range(start, store.head() + 1, 30):
            later = advance(store, JUDGE, folded, until=until)
            assert bits(later.state) == bits(known[until].state)
    for place in list(known)[::4]:
        save_snapshot(store, known[place], 0.0)
    for until, folded in known.items():
        again = restore(store, JUDGE, until=until)
        assert bits(again.state) == bits(folded.state)
        assert again.freezes == folded.freezes
