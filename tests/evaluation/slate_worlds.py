"""Slates of three slots out of six arms, small enough to enumerate: all 120 orders with
their odds."""

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np

import oddsmith as od

ARMS, SLOTS = 6, 3
ORDERS = list(permutations(range(ARMS), SLOTS))
LOGGER = np.array([[3, 2, 2, 1, 1, 1], [1, 1, 2, 2, 3, 1], [1, 1, 1, 1, 1, 1.0]])
TARGET = np.array([[1, 2, 4, 1, 1, 1], [2, 1, 1, 1, 1, 3], [3, 1, 1, 2, 1, 1.0]])
CLICKS, LOOKS = np.array([0.9, 0.7, 0.5, 0.8, 0.4, 0.6]), np.array([1.0, 0.7, 0.4])

Table = np.ndarray[Any, np.dtype[np.float64]]


def odds_left(appeal: Table, slot: int, taken: tuple[int, ...]) -> Table:
    """Odds in proportion to the appeal of the arms that are left for a slot (from
    0)."""
    left = np.array([0.0 if arm in taken else appeal[slot][arm] for arm in range(ARMS)])
    return np.asarray(left / left.sum())


def chance(appeals: list[Table], order: tuple[int, ...]) -> float:
    """The chance of an order, each slot drawn by its own appeal."""
    steps = [
        odds_left(appeal, slot, order[:slot])[order[slot]]
        for slot, appeal in enumerate(appeals)
    ]
    return float(np.prod(steps))


def apart(order: tuple[int, ...]) -> Table:
    """Rewards of the slots that depend on nothing but their own arm and place."""
    return np.asarray(LOOKS * CLICKS[list(order)])


def mingled(order: tuple[int, ...]) -> Table:
    """Rewards that depend on the arms of all slots, those behind included."""
    shown = CLICKS[list(order)]
    return np.array(
        [shown[0] * (1 - shown[2] / 2), shown[1] * shown[0], abs(shown[2] - shown[0])]
    )


def slot_values(rewards: Callable[[tuple[int, ...]], Table]) -> Table:
    """The value (3,) of a slot that the target draws, all others drawn by the logging policy:
    by enumeration."""
    drawn = [
        [TARGET if slot == own else LOGGER for slot in range(SLOTS)]
        for own in range(SLOTS)
    ]
    return np.array(
        [
            sum(chance(by, o) * rewards(o)[own] for o in ORDERS)
            for own, by in enumerate(drawn)
        ]
    )


def slate_log(
    orders: list[tuple[int, ...]], rewards: Table, *, drawn_only: bool = False
) -> tuple[od.Log, Table]:
    """A log of these slates (n) with their rewards (n, 3), and the target's odds in
    each row."""
    odds = [
        odds_left(LOGGER, slot, order[:slot])
        for order in orders
        for slot in range(SLOTS)
    ]
    target = [
        odds_left(TARGET, slot, order[:slot])
        for order in orders
        for slot in range(SLOTS)
    ]
    arm = np.array(orders).ravel()
    known: Any = {"propensities": np.array(odds)}
    if drawn_only:
        known = {"propensity": np.array(odds)[np.arange(len(arm)), arm]}
    slates = [f"s{i}" for i in range(len(orders)) for _ in range(SLOTS)]
    make: Any = od.Log
    log = make(
        arm=arm,
        reward=np.asarray(rewards).ravel(),
        eligible=np.array(odds) > 0,
        slate=slates,
        slot=[1, 2, 3] * len(orders),
        **known,
    )
    return log, np.array(target)


def drawn_orders(rng: np.random.Generator, n: int) -> list[tuple[int, ...]]:
    """Orders as the logging policy draws them."""
    chances = [chance([LOGGER] * SLOTS, order) for order in ORDERS]
    return [ORDERS[i] for i in rng.choice(len(ORDERS), n, p=chances)]
