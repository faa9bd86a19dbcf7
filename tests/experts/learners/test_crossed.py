"""Tastes that depend on context and arm at once: what a crossed feature gives to
learners that all arms share."""

from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.contexts.offers import offered
from oddsmith.core.decision import Decision

DEVICES, GROUPS = ("phone", "laptop", "tablet"), ("shoes", "toys", "garden")


def offer_of(device: int, *, crossed: bool, first: int = 0) -> Any:
    """A good of each group, under names that nobody has seen before: what is learnt of
    it is in its features."""
    goods = {f"{first + i}": {"group": group} for i, group in enumerate(GROUPS)}
    if crossed:
        goods = {
            name: good | {"device x group": f"{DEVICES[device]}/{good['group']}"}
            for name, good in goods.items()
        }
    return offered({"device": DEVICES[device]}, goods)


def means(n: int, seed: int, *, crossed: bool) -> Any:
    """What a regression without curves believes (device, group) after n rewards: 0.7
    where both are alike, else 0.3."""
    bank, rng = od.experts.SharedExperts(), np.random.default_rng(seed)
    state = bank.init()
    for step in range(n):
        device, drawn = (int(i) for i in rng.integers(3, size=2))
        offer = offer_of(device, crossed=crossed, first=3 * step)
        decision = Decision(step, offer.context, None, drawn, np.full(3, 1 / 3))
        decision = decision._replace(arms=offer.arms, features=offer.features)
        state = bank.update(
            state, decision, float(rng.random() < (0.7 if device == drawn else 0.3))
        )
    asked = (offer_of(device, crossed=crossed, first=3 * n) for device in range(3))
    return np.stack([bank.beliefs(state, offer).mean[0] for offer in asked])


def test_a_linear_part_prefers_the_same_arms_in_every_context() -> None:
    """A sum of what the context adds and what the arm adds: differences between arms
    are those of every device."""
    plain = means(150, 0, crossed=False)
    np.testing.assert_allclose(
        plain - plain[:, :1],
        np.tile(plain[:1] - plain[0, 0], (3, 1)),
        rtol=0,
        atol=1e-9,
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_crossed_feature_gives_it_tastes_that_depend_on_both(seed: int) -> None:
    """The mean of a cell of 67 rewards has a standard deviation of 0.056, and the truth
    is 0.4 apart.

    Five deviations of a difference of two cells, 3e-7 each; six differences in each of
    three runs: 5e-6.
    """
    assert means(600, seed, crossed=True).argmax(axis=1).tolist() == [0, 1, 2]
