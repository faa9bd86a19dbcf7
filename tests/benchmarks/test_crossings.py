"""The worlds of benchmarks.crossings: rates by hand, arms that change, and crosses."""

import numpy as np
import pytest
from benchmarks.crossings import (
    DECISIONS,
    DEVICE,
    PRICE,
    TOPIC,
    WORLDS,
    Arms,
    Case,
    Truth,
    World,
    crossed,
    play,
)

BY_NAME = {world.name: world for world in WORLDS}
SHOP = BY_NAME["shop"]


def test_rates_are_logistic_in_effects_of_fields_pairs_and_quality() -> None:
    truth = Truth(SHOP, 1)
    devices, age_slope, topics, price_slope = truth.main
    device, topic, age, price, quality = 2, 4, 0.5, -1.25, 0.3
    log_odds = (
        truth.intercept
        + devices[device]
        + age_slope * age
        + topics[topic]
        + price_slope * price
        + truth.tastes[0][device, topic]
        + quality
    )
    arms = Arms(("x",), np.array([[topic, price]]), np.array([quality]))
    found = truth.rates(np.array([device, age]), arms)
    np.testing.assert_allclose(found, [1 / (1 + np.exp(-log_odds))], rtol=1e-12)


@pytest.mark.parametrize("name", BY_NAME)
def test_the_mean_rate_is_the_one_that_was_asked_for(name: str) -> None:
    world = BY_NAME[name]
    truth = Truth(world, 0)
    rates = [
        truth.rates(truth.visitor(), day).mean()
        for day in truth.days
        for _ in range(20)
    ]
    assert world.rate / 2 < float(np.mean(rates)) < 2 * world.rate


def test_arms_come_and_go() -> None:
    days = Truth(SHOP, 1).days
    assert {len(day.names) for day in days} == {SHOP.n_arms}
    assert not set(days[0].names) & set(days[-1].names)


def test_right_crosses_are_words_products_and_a_number_for_each_word() -> None:
    world = World("", (DEVICE, PRICE), (TOPIC, PRICE), ((0, 0), (0, 1), (1, 1)), 0.1, 2)
    found = crossed(world, np.array([1.0, 0.5]), np.array([3.0, -2.0]))
    assert found == {
        "device x topic": "1/3",
        "device x price 0": 0.0,
        "device x price 1": -2.0,
        "device x price 2": 0.0,
        "price x price": -1.0,
    }


def test_contenders_meet_the_same_visitors_and_none_beats_the_best_arms() -> None:
    runs = [play(DECISIONS // 200, Case(SHOP, 3, who)) for who in ("plain", "by hand")]
    (got, *limits), (crossed_by_hand, *same) = runs
    assert limits == same
    assert max(got, crossed_by_hand) < limits[1]
