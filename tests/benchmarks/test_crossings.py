"""The shop of benchmarks.crossings: its rates by hand, and what runs may not exceed."""

import math

import pytest
from benchmarks.crossings import (
    CATEGORIES,
    DEVICES,
    SAME,
    TASTES,
    Case,
    Good,
    Shop,
    crossed,
    play,
    rates,
)


def good(category: str, price: float = math.exp(3.4), quality: float = 0.0) -> Good:
    return Good(
        "x",
        {"category": category, "price": price},
        CATEGORIES.index(category),
        quality,
        1,
    )


def test_rates_are_those_of_the_tastes() -> None:
    laptop, phone = DEVICES.index("laptop"), DEVICES.index("phone")
    found = rates(
        laptop, [good("garden"), good("shoes"), good("garden", quality=2.4)], TASTES
    )
    assert found.tolist() == pytest.approx(
        [1 / (1 + math.exp(2.4)), 1 / (1 + math.exp(4.3)), 0.5]
    )
    dear = good("garden", price=math.exp(5.4))
    assert rates(phone, [dear], TASTES).tolist() == pytest.approx(
        [1 / (1 + math.exp(3.15 + 1.2 + 0.5))]
    )
    assert rates(laptop, [dear], SAME).tolist() == rates(2, [dear], SAME).tolist()


def test_goods_come_and_go_and_are_crossed_by_hand() -> None:
    shop = Shop(1)
    assert all(23 < len(goods) < 31 for goods in shop.days)
    assert {one.name for one in shop.days[0]} != {one.name for one in shop.days[-1]}
    assert all(one.gone > day for day, goods in enumerate(shop.days) for one in goods)
    shown = crossed({"device": "phone"}, good("toys").features)
    assert shown["device x category"] == "phone/toys"


def test_no_run_is_better_than_the_best_goods() -> None:
    for additive in (False, True):
        (plain, even, best), (_, same, top) = (
            play(30, Case(3, by_hand, additive)) for by_hand in (False, True)
        )
        assert (even, best) == (same, top)
        assert max(plain, even) < best
