"""Accounts against the definition of when a decision counts and with what, over all short logs of one decision."""

from itertools import permutations, product
from typing import Any

import pytest

from oddsmith.storage import Activation, Correction, DefaultReward, Event, Line, Reward
from oddsmith.storage.accounts import Account
from oddsmith.storage.base import Rule, line_of
from storage.samples import counts_of, made

AFTERMATH: tuple[Event, ...] = (
    Reward("a", 0.75, 0.0, "x"),
    Reward("a", 0.5, 0.0, "y"),
    DefaultReward("a", 0.25, 0.0),
    Activation("a", 0.0),
    Correction("a", 0.125, 0.0, "k"),
)


def logs(deferred: bool) -> list[tuple[Event, ...]]:
    """Every order of the decision and up to three of what can happen to it."""
    return [log for n in range(4) for log in permutations((made("a", deferred=deferred), *AFTERMATH), n + 1)]


@pytest.mark.parametrize(("rule", "deferred"), [*product(["first", "sum"], [False, True])])
def test_an_account_is_the_definition(rule: Rule, deferred: bool) -> None:
    for log in logs(deferred):
        told = list(enumerate(log, 1))
        account, settling = Account(rule), []
        for position, event in told:
            if account.take(line_of(event, position)):
                settling.append(position)
            assert account.settled == (settling[0] if settling else 0)
        known: Any = [(place, event) for place, event in told if hasattr(event, "decision")]
        counts = counts_of(known[0][0], known[0][1], told, rule) if known else None
        assert settling == ([] if counts is None else [counts[0]])
        if counts is not None:
            assert account.value == counts[1]
        assert account.made == (known[0][0] if known else 0)


def test_a_new_account_has_no_value_and_no_place() -> None:
    account = Account("first")
    assert account.value != account.value
    assert (account.made, account.settled, account.deferred, account.shown) == (0, 0, False, False)
    assert (account.parts, account.default, account.correction) == ((), None, None)


@pytest.mark.parametrize(("rule", "value"), [("first", 0.75), ("sum", 1.0)])
def test_the_value_before_it_is_settled(rule: Rule, value: float) -> None:
    """Parts of a sum count at most 1; a default gives way to a reward, both to the last correction."""
    account = Account(rule)
    for line, now in (
        (Line(1, "default", "a", "", 0.25, 0.0, False, None), 0.25),
        (Line(2, "reward", "a", "x", 0.75, 0.0, False, None), 0.75),
        (Line(3, "reward", "a", "y", 0.5, 0.0, False, None), value),
        (Line(4, "correction", "a", "k", 0.5, 0.0, False, None), 0.5),
        (Line(5, "correction", "a", "l", 0.0, 0.0, False, None), 0.0),
    ):
        assert not account.take(line)
        assert account.value == now
