"""Policies and events for tests of stores, and the fold written down once more,
straight from its definition."""

from collections.abc import Iterable, Sequence
from math import fsum
from typing import Any

import numpy as np

import oddsmith as od
from oddsmith.agent.call import Call
from oddsmith.server.fold.fold import with_salt
from oddsmith.server.store import (
    Activation,
    Correction,
    DecisionMade,
    DefaultReward,
    Event,
    ExpertChange,
    Reward,
    Store,
)

EXPERTS = ("a", "b", "c", "d")


def policy(**settings: Any) -> od.GeneralizedThompsonSampling:
    """Order defines this posterior (share > 0), unless told otherwise."""
    chosen: dict[str, Any] = {
        "gamma": 0.1,
        "share": 0.05,
        "prior": [0.4, 0.3, 0.2, 0.1],
    } | settings
    return od.GeneralizedThompsonSampling(od.GivenExperts(EXPERTS), **chosen)


def made(
    id: str, *, seed: int = 0, deferred: bool = False, time: float = 0.0, seen: int = 0
) -> DecisionMade:
    """A decision over three arms, or, as half of the ids are, over arms that came with
    the call."""
    return DecisionMade(
        id, _decision(id, seed, offer_of(id, seed)), seen, time, deferred
    )


def fixed(
    id: str, *, seed: int = 0, deferred: bool = False, time: float = 0.0, seen: int = 0
) -> DecisionMade:
    """A decision over three arms, whatever the id."""
    return DecisionMade(id, _decision(id, seed, None), seen, time, deferred)


def _decision(id: str, seed: int, offer: od.Offer | None) -> od.Decision:
    """The context is what the experts say of the arms; the third expert sleeps at
    times."""
    rng = np.random.default_rng([seed, *id.encode()])
    context = rng.uniform(0.05, 0.95, (4, 3 if offer is None else len(offer.arms)))
    if rng.random() < 0.3:
        context[2] = np.nan
    judge = policy()
    decision = od.decide(judge, judge.init(), context, float(rng.random()), step=1)
    if offer is None:
        return decision
    return Call(offer, context, names=offer.arms, features=offer.features).name_arm(
        decision
    )


def offer_of(id: str, seed: int = 0) -> od.Offer | None:
    """What came with the call, if arms did: one to eight of them, known and new, and
    what is known of each, or none."""
    rng = np.random.default_rng([1, seed, *id.encode()])
    if rng.random() < 0.5:
        return None
    known = rng.choice(
        ["sports", "tech", "a/17", "ünï", "x" * 256], rng.integers(0, 6), replace=False
    )
    names = [
        *known.tolist(),
        *(f"new {id:.99} {i}" for i in range(int(rng.integers(not len(known), 4)))),
    ]
    rows = [
        {
            "age": round(float(rng.random()), 3),
            "topic": str(rng.choice(["art", "tech"])),
        }
        for _ in names
    ]
    kinds: list[Any] = [
        names,
        dict(zip(names, rows, strict=True)),
        dict.fromkeys(names) | {names[0]: rows[0]},
    ]
    return od.make_offer(None, kinds[rng.integers(3)])


def append(store: Store, *events: Event) -> list[int]:
    """The positions of accepted events."""
    return [receipt.accepted() for receipt in store.append(events).result(timeout=60)]


def stored(store: Store) -> list[tuple[int, Event]]:
    """What a store holds, as events again."""
    lines = list(store.lines(0, store.head()))
    positions = [line.position for line in lines if line.kind == "decision"]
    decisions = dict(zip(positions, store.decisions(positions), strict=True))
    events: list[tuple[int, Event]] = []
    for line in lines:
        if line.kind in ("configuration", "action"):
            continue
        value = 0.0 if line.value is None else line.value
        event: Event
        if line.kind == "decision":
            event = DecisionMade(
                line.id,
                decisions[line.position],
                line.seen or 0,
                line.time,
                bool(line.deferred),
            )
        elif line.kind == "reward":
            event = Reward(line.id, value, line.time, line.key)
        elif line.kind == "activation":
            event = Activation(line.id, line.time)
        elif line.kind == "default":
            event = DefaultReward(line.id, value, line.time)
        elif line.kind == "correction":
            event = Correction(line.id, value, line.time, line.key)
        else:
            change: Any = line.kind.removeprefix("expert ")
            event = ExpertChange(line.id, change, line.time, line.key, line.value)
        events.append((line.position, event))
    return events


def reference(
    judge: od.Policy,
    events: Iterable[tuple[int, Event]],
    rule: str = "first",
    late: str = "arrives",
    secret: bytes = b"",
) -> Any:
    """The state after these events, by the definition: when does each decision count,
    and with what?"""
    about: dict[str, list[tuple[int, Event]]] = {}
    for position, event in events:
        about.setdefault(getattr(event, "id", ""), []).append((position, event))
    counted: list[tuple[int, DecisionMade, float, float | None]] = []
    for mine in about.values():
        for place, decision in mine:
            if isinstance(decision, DecisionMade):
                counts = counts_of(place, decision, mine, rule, late)
                counted += [
                    (position, decision, value, before)
                    for position, value, before in counts
                ]
    state = with_salt(judge.init(), secret) if secret else judge.init()
    for _, decision, value, before in sorted(counted, key=lambda row: row[0]):
        drawn = decision.decision.by_number()
        state = (
            judge.update(state, drawn, value)
            if before is None
            else judge.revise(state, drawn, before, value)
        )
    return state


def counts_of(
    place: int,
    decision: DecisionMade,
    mine: Sequence[tuple[int, Event]],
    rule: str,
    late: str = "arrives",
) -> list[tuple[int, float, float | None]]:
    """Where a decision counts, with which value, and which value it had before."""
    rewards = [(p, e.value) for p, e in mine if isinstance(e, Reward)]
    defaults = [(p, e.value) for p, e in mine if isinstance(e, DefaultReward)]
    corrections = [e.value for _, e in mine if isinstance(e, Correction)]
    shown = (
        [p for p, e in mine if isinstance(e, Activation)]
        if decision.deferred
        else [place]
    )
    heard = [p for p, _ in (rewards + defaults if rule == "first" else defaults)]
    if not shown or not heard:
        return []

    def value_at(position: float) -> float:
        values = [value for p, value in rewards if p <= position]
        total = min(1.0, fsum(values)) if rule == "sum" else (values or [np.nan])[0]
        return total if values else defaults[0][1]

    settled = max(place, shown[0], min(heard))
    if corrections:
        return [(settled, corrections[-1], None)]
    if late == "rewrites":
        return [(settled, value_at(np.inf), None)]
    counts: list[tuple[int, float, float | None]] = [(settled, value_at(settled), None)]
    for position in [p for p, _ in rewards if p > settled]:
        before = counts[-1][1]
        counts += (
            []
            if value_at(position) == before
            else [(position, value_at(position), before)]
        )
    return counts


def bits(state: Any) -> list[bytes]:
    """Every leaf of a state, to the last bit."""
    if isinstance(state, tuple):
        return [leaf for part in state for leaf in bits(part)]
    return [np.asarray(state).tobytes()]


class WithoutSnapshots:
    """A store that is folded from its beginning."""

    def __init__(self, reading: Any) -> None:
        self._reading = reading

    def snapshots(self) -> list[Any]:
        return []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reading, name)
