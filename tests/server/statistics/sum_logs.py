"""Logs of all that can happen, over days, for tests of sums; and what decisions count
with, by hand."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import oddsmith as od
from oddsmith.core.arrays import Array
from oddsmith.server.store import (
    Activation,
    Correction,
    DecisionMade,
    DefaultReward,
    Event,
    Reward,
)
from oddsmith.server.store.events import OwnDraw

ARMS = ("home", "sports", "tech", "arts")
EXPERTS = 4


class Counted(NamedTuple):
    """A decision that was shown, and what it counts with, if it does: a value, and
    whether that is the default."""

    position: int
    made: DecisionMade
    value: float | None
    is_default: bool


def log(
    n: int,
    seed: int = 0,
    *,
    step_s: float = 40.0,
    offers: int = 0,
    shadow: bool = False,
) -> Iterator[Event]:
    """Decisions with defaults, late rewards, corrections, deferred ones; clocks that
    differ; arms of calls if asked."""
    rng, time, rewarded, deferred, given = (
        np.random.default_rng(seed),
        1.7e9,
        set(),
        set(),
        set(),
    )
    for i in range(n):
        time += float(rng.exponential(step_s))
        is_deferred = rng.random() < 0.2
        deferred |= {i} if is_deferred else set()
        own = (
            OwnDraw(int(rng.integers(len(ARMS))), _odds(rng, len(ARMS)))
            if shadow and rng.random() < 0.8
            else None
        )
        when = time - float(rng.random() < 0.05) * 9000.0
        drawn = _decision(i, rng, offers)
        yield DecisionMade(
            f"d{i}", drawn, 0, when, is_deferred, shadow=own is not None, own=own
        )
        for j, chance in ((i, 0.5), (max(0, i - 4), 0.5)):
            if j in deferred and rng.random() < chance:
                deferred.remove(j)
                yield Activation(f"d{j}", time)
        if rng.random() < 0.6:
            yield DefaultReward(f"d{i}", 0.25, time)
            rewarded.add(i)
        late = i - int(rng.integers(0, 60))
        if late >= 0 and late not in given and rng.random() < 0.5:
            given.add(late)
            yield Reward(
                f"d{late}", float(rng.choice([0.0, 0.25, 1.0, rng.random()])), time
            )
            rewarded.add(late)
        if i - 9 in rewarded and rng.random() < 0.1:
            yield Correction(f"d{i - 9}", float(rng.random()), time, f"k{i}")


def _odds(rng: np.random.Generator, k: int) -> Array:
    odds: Array = rng.dirichlet(np.ones(k))
    odds[odds < 0.02] = 0.0
    return np.asarray(odds / odds.sum())


def _decision(i: int, rng: np.random.Generator, offers: int) -> od.Decision:
    names: tuple[str, ...] = ARMS
    if offers:
        fresh = (f"arm {j}" for j in rng.choice(offers, 6, replace=False) + i // 20)
        names = (*fresh, "always")
    odds = _odds(rng, len(names))
    eligible = None
    if rng.random() < 0.3:
        eligible = odds > 0
    index = int(rng.choice(len(names), p=odds))
    more: Any = {"arms": names} if offers else {}
    advice = rng.uniform(0.05, 0.95, EXPERTS)
    return od.Decision(
        i + 1, None, eligible, names[index], odds, advice, index=index, **more
    )


def counted(events: Sequence[tuple[int, Event]], until: int) -> list[Counted]:
    """The decisions that were shown, in order, with what they count with after all
    events up to a position.

    Where the first reward counts: the last correction, else the reward, else the
    default.
    """
    told = [(position, event) for position, event in events if position <= until]
    found = []
    for position, made in told:
        if not isinstance(made, DecisionMade):
            continue
        mine = [event for _, event in told if getattr(event, "id", "") == made.id]
        if made.deferred and not any(isinstance(event, Activation) for event in mine):
            continue
        defaults, rewards, corrections = (
            [event.value for event in mine if isinstance(event, kind)]
            for kind in (DefaultReward, Reward, Correction)
        )
        known = [*corrections[-1:], *rewards[:1], *defaults]
        value = known[0] if known else None
        found.append(
            Counted(
                position, made, value, not (corrections or rewards) and bool(defaults)
            )
        )
    return found
