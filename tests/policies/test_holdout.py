"""Holdouts: the odds of the mixture, groups of units, and what controls choose."""

from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.core.draw import Uniforms
from oddsmith.core.offer import Offer, OfferBatch
from oddsmith.policies.control import Control
from oddsmith.policies.holdout import Holdout, RampStep, WithHoldout, mix_control

TABLE = od.TableExperts(np.array([[[0.2, 0.8, 0.5]], [[0.9, 0.1, 0.3]]]))
POLICY = od.GeneralizedThompsonSampling(TABLE, gamma=0.1)


def test_the_odds_of_the_mixture_are_those_of_two_draws() -> None:
    """By enumeration: with probability h the control draws, else the policy."""
    h = 0.3
    held = WithHoldout(POLICY, Holdout(h, "uniform"))
    policy = POLICY.odds(POLICY.init(), 0).propensities
    odds = held.odds(held.init(), 0).propensities
    assert odds == pytest.approx((1 - h) * policy + h / 3, abs=1e-15)
    assert odds.sum() == pytest.approx(1, abs=1e-15)


def test_ips_of_both_sides_is_unbiased_by_enumeration() -> None:
    means = np.array([0.3, 0.7, 0.5])
    held = WithHoldout(POLICY, Holdout(0.2, "first"))
    logged = held.odds(held.init(), 0).propensities
    policy = POLICY.odds(POLICY.init(), 0).propensities
    control = np.array([1.0, 0.0, 0.0])
    for side in (policy, control):
        expected = sum(
            logged[arm] * side[arm] / logged[arm] * means[arm] for arm in range(3)
        )
        assert expected == pytest.approx(side @ means, abs=1e-15)


def test_the_policy_of_a_record_follows_from_its_mixture() -> None:
    """What a log needs: (p - h β) / (1 - h) is what the policy would have drawn from."""
    odds = POLICY.odds(POLICY.init(), 0)
    control = np.array([0.0, 0.0, 1.0])
    mixture = mix_control(POLICY, odds, control, 0.25).propensities
    again = (mixture - 0.25 * control) / 0.75
    assert again == pytest.approx(odds.propensities, abs=1e-15)


def test_a_unit_of_the_control_group_stays_in_it_when_the_share_grows() -> None:
    uniforms = Uniforms(7)
    units = [f"visitor-{i}" for i in range(4_000)]
    groups = {
        share: {
            unit
            for unit in units
            if Holdout(share, by="unit").group_of(uniforms, unit, share) == "control"
        }
        for share in (0.05, 0.1, 0.5)
    }
    assert groups[0.05] < groups[0.1] < groups[0.5]
    # binomial, four standard errors: once in 16,000 seeds, and the seed is fixed
    for share, members in groups.items():
        error = np.sqrt(share * (1 - share) / len(units))
        assert abs(len(members) / len(units) - share) < 4 * error


def test_groups_do_not_depend_on_the_draws() -> None:
    """A unit named like a decision has another uniform number."""
    uniforms = Uniforms(7)
    holdout = Holdout(0.5, by="unit")
    names = [f"visit-{i}" for i in range(2_000)]
    low = np.array([uniforms(name) < 0.5 for name in names])
    held = np.array([holdout.group_of(uniforms, n, 0.5) == "control" for n in names])
    assert abs(np.corrcoef(low, held)[0, 1]) < 0.1


@pytest.mark.parametrize(
    ("control", "expected"),
    [
        ("first", [0, 1, 0]),
        ("uniform", [0, 0.5, 0.5]),
        ("arm:c", [0, 0, 1]),
        ("arm:a", [0, 1, 0]),  # not eligible: the first that is
    ],
)
def test_controls_choose_among_eligible_arms(
    control: str, expected: list[float]
) -> None:
    mask = np.array([False, True, True])
    odds = Control.of(control).odds(None, ("a", "b", "c"), mask, 3)
    assert odds.tolist() == expected


def test_controls_over_offers_and_batches() -> None:
    offers = OfferBatch((Offer(None, ("a", "b")), Offer(None, ("b", "a"))))
    names = [offer.arms for offer in offers.offers]
    odds = Control.of("arm:b").odds(offers, names, None, 2, rows=2)
    assert odds.tolist() == [[0, 1], [1, 0]]
    mask = np.array([[True, True], [False, True]])
    assert Control.of("uniform").odds(None, None, mask, 2, rows=2).tolist() == [
        [0.5, 0.5],
        [0.0, 1.0],
    ]
    fixed = Control.of("arm:b").odds(None, ("a", "b"), None, 2, rows=3)
    assert fixed.tolist() == [[0, 1]] * 3


def test_a_policy_as_control_keeps_its_first_state() -> None:
    uniform = od.GeneralizedThompsonSampling(TABLE, gamma=1.0)
    odds = Control.of(uniform).odds(0, None, None, 3)
    assert odds == pytest.approx(np.full(3, 1 / 3), abs=1e-15)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"share": 1.0}, "share"),
        ({"share": -0.1}, "share"),
        ({"by": "day"}, "by must be"),
        ({"share": 0.0, "by": "unit"}, "above 0"),
        ({"share": 0.0, "is_aa": True}, "above 0"),
        ({"ramp": [RampStep(3, 0.5), RampStep(3, 0.2)]}, "days of ramp must increase"),
        ({"ramp": [RampStep(3, 1.0)]}, "ramp: share"),
        ({"end_day": 0}, "end_day"),
        ({"control": "arm:"}, "control must be"),
    ],
)
def test_settings_that_cannot_hold_are_refused(
    settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(od.InvalidInput, match=words):
        Holdout(**settings)


def test_units_need_somebody_who_knows_them() -> None:
    with pytest.raises(od.InvalidInput, match="by decision"):
        WithHoldout(POLICY, Holdout(0.1, by="unit"))
