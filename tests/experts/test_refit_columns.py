"""Refitted experts of contexts whose columns grow."""

from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.core.decision import Decision

ARMS = ("a", "b", "c")


class Flat:
    def fit(self, x: Any, y: Any) -> None:
        self.width = x.shape[1]

    def predict(self, x: Any) -> Any:
        assert x.shape[1] == self.width
        return np.full(len(x), 0.4)


def test_columns_that_come_between_two_fits() -> None:
    """A fit knows the columns of its time; rows from before a column have 0 for a
    category, NaN for a number."""
    bank = od.RefittedExperts(ARMS, {"flat": Flat()}, first=2, pace=2)
    state = bank.init()
    contexts: list[Any] = [
        {"x": 1.5},
        {"x": 2.5},
        {"x": 3.5, "city": "Rome"},
        {"x": 4.5, "age": 7},
        [9.0],
    ]
    for t, context in enumerate(contexts):
        state = bank.update(
            state, Decision(t + 1, context, None, 0, np.full(3, 1 / 3)), 1.0
        )
        assert state.width == (0, 1, 1, 1, 5)[t]
        assert (
            bank.predict(state, contexts).shape == (5, 1, 3)
            if t
            else np.isnan(bank.predict(state, {})).all()
        )
    nan = np.nan  # x, Rome, age, no city, the array's
    expected = [
        [1.5, 0, nan, 0, nan],
        [2.5, 0, nan, 0, nan],
        [3.5, 1, nan, 0, nan],
        [4.5, 0, 7, 1, nan],
    ]
    np.testing.assert_array_equal(state.rows[:5], [*expected, [nan, 0, nan, 1, 9.0]])


@pytest.mark.parametrize("names_first", [True, False])
def test_another_form_after_the_first_is_no_dead_end(names_first: bool) -> None:
    bank = od.RefittedExperts(ARMS, {"flat": Flat()}, first=1)
    agent = od.Agent(od.GeneralizedThompsonSampling(bank, gamma=0.1), seed=1)
    forms: list[Any] = [
        {"age": 3, "city": "Rome"},
        np.linspace(0, 1, 64),
        [1.0, 2.0],
        {"age": "old"},
    ]
    for form in forms if names_first else forms[::-1]:
        agent.learn(agent.decide(form), 1)
    for form in forms:
        agent.best(form)
        agent.decide_batch([form, form])
