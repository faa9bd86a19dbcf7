"""Accounts against the definition of when a decision counts and with what, over all
short logs of one decision."""

from itertools import permutations, product
from typing import Any

import pytest

from oddsmith.contexts.rewards import RewardScale
from oddsmith.server.fold.accounts import Account
from oddsmith.server.store import (
    Activation,
    Correction,
    DefaultReward,
    Event,
    Line,
    Reward,
)
from oddsmith.server.store.protocol import RULES, Late, Rule, line_of
from server.store.samples import counts_of, made

LATE = ("arrives", "rewrites")
AFTERMATH: tuple[Event, ...] = (
    Reward("a", 0.75, 0.0, "x"),
    Reward("a", 0.5, 0.0, "y"),
    DefaultReward("a", 0.25, 0.0),
    Activation("a", 0.0),
    Correction("a", 0.125, 0.0, "k"),
)


def logs(deferred: bool) -> list[tuple[Event, ...]]:
    """Every order of the decision and up to three of what can happen to it."""
    return [
        log
        for n in range(4)
        for log in permutations((made("a", deferred=deferred), *AFTERMATH), n + 1)
    ]


@pytest.mark.parametrize(
    ("rule", "late", "deferred"), [*product(RULES, LATE, [False, True])]
)
def test_an_account_is_the_definition(rule: Rule, late: Late, deferred: bool) -> None:
    for log in logs(deferred):
        told = list(enumerate(log, 1))
        account = Account(rule, late)
        for position, event in told:
            account.take(line_of(event, position))
        known: Any = [
            (place, event) for place, event in told if hasattr(event, "decision")
        ]
        counts = counts_of(known[0][0], known[0][1], told, rule, late) if known else []
        place = known[0][0] if known else 0
        wanted = [
            (position, place, value, before) for position, value, before in counts
        ]
        assert [count[:4] for count in account.counts] == wanted
        assert account.settled == (counts[0][0] if counts else 0)
        if counts:
            assert account.value == counts[-1][1]
        assert account.made == place


@pytest.mark.parametrize(("rule", "late"), [*product(RULES, LATE)])
def test_what_was_learnt_is_rewritten_by_corrections_and_late_rewards(
    rule: Rule, late: Late
) -> None:
    """The counts up to any line are the first ones of those after the next line, unless
    that rewrites."""
    kinds = set()
    for log in logs(False):
        account = Account(rule, late)
        for position, event in enumerate(log, 1):
            before = account.counts
            account.take(line_of(event, position))
            if account.counts[: len(before)] != before:
                kinds.add(type(event))
    assert kinds == ({Correction} if late == "arrives" else {Correction, Reward})


def test_a_new_account_has_no_value_and_no_place() -> None:
    account = Account("first", "arrives")
    assert account.value != account.value
    assert (account.made, account.settled, account.deferred, account.shown) == (
        0,
        0,
        False,
        False,
    )
    assert (account.parts, account.default, account.correction, account.counts) == (
        (),
        None,
        None,
        (),
    )


@pytest.mark.parametrize(("rule", "value"), [("first", 0.75), ("sum", 1.0)])
def test_the_value_before_it_is_settled(rule: Rule, value: float) -> None:
    """Parts of a sum count at most 1; a default gives way to a reward, both to the last
    correction."""
    account = Account(rule, "arrives")
    for line, now in (
        (Line(1, "default", "a", "", 0.25, 0.0, False, None), 0.25),
        (Line(2, "reward", "a", "x", 0.75, 0.0, False, None), 0.75),
        (Line(3, "reward", "a", "y", 0.5, 0.0, False, None), value),
        (Line(4, "correction", "a", "k", 0.5, 0.0, False, None), 0.5),
        (Line(5, "correction", "a", "l", 0.0, 0.0, False, None), 0.0),
    ):
        account.take(line)
        assert (account.value, account.counts) == (now, ())


@pytest.mark.parametrize(
    ("scale", "parts", "value"),
    [
        ((0.0, 1.0), (0.25, 0.5), 0.75),
        ((-1.0, 1.0), (0.0, 0.0), 0.0),
        ((-1.0, 1.0), (0.5, -0.25, 0.5), 0.75),
        ((-1.0, 1.0), (-0.75, -0.5), -1.0),
        ((-5.0, 15.0), (10.0, 10.0), 15.0),
        ((1.0, 5.0), (1.0, 3.0), 4.0),
    ],
)
def test_parts_are_added_up_in_the_units_of_rewards(
    scale: tuple[float, float], parts: tuple[float, ...], value: float
) -> None:
    """And the sum is cut to the scale."""
    units = RewardScale(*scale)
    account = Account("sum", "arrives", -units.low / (units.high - units.low))
    for place, part in enumerate(parts):
        account.take(
            Line(
                place + 1,
                "reward",
                "a",
                str(place),
                units.reward(part),
                0.0,
                False,
                None,
            )
        )
    assert units.value(account.value) == pytest.approx(value, abs=1e-12)
