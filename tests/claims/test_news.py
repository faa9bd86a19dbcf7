"""What the experiment on articles measures: the captured share, a policy without
memory, and claims that can fail."""

from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.claims import news
from oddsmith.claims.claim import Setup
from oddsmith.lab import simulate
from oddsmith.lab.worlds import NewsWorld
from oddsmith.lab.worlds.news import ARTICLE_COLUMNS

WORLD = NewsWorld(life=20, low=2, high=6)


class Oracle(od.Policy):
    """Knows the means of its world."""

    takes_offers = True

    def __init__(self, world: NewsWorld) -> None:
        self.world = world

    def init(self, shape: tuple[int, ...] = ()) -> Any:
        return ()

    def odds(
        self, state: Any, context: Any, *, eligible: Any = None, step: Any = None
    ) -> od.Odds:
        means = self.world.means(step, [context])[0, : len(context.arms)]
        return od.Odds((np.arange(len(means)) == means.argmax()).astype(float))

    def update(self, state: Any, decision: od.Decision, reward: Any) -> Any:
        return state


def test_an_oracle_captures_all_and_chance_nothing() -> None:
    best = simulate(Oracle(WORLD.for_seed(4)), WORLD, steps=50, seed=4)
    np.testing.assert_allclose(news.captured_share(best), 1.0, atol=1e-12)
    even = simulate(
        od.uniform(od.LinearExperts(np.ones((1, 7)))), WORLD, steps=50, runs=3
    )
    np.testing.assert_allclose(news.captured_share(even), 0.0, atol=1e-12)


@pytest.mark.parametrize("size", ["small", "normal"])
def test_without_memory_names_alone_are_all_alike(size: str) -> None:
    """Not almost: a memory drawn to nearly 0 would still say which arm did better."""
    world = NewsWorld(life=20, low=2, high=6, hide=ARTICLE_COLUMNS)
    run = simulate(news._forgetful(od.auto(size=size)), world, steps=60)
    np.testing.assert_allclose(news.captured_share(run), 0.0, atol=1e-12)


@pytest.mark.soak
@pytest.mark.parametrize("experiment", [news.MEMORY, news.LIVES])
def test_every_claim_holds_in_full(experiment: Any) -> None:
    assert [
        f"{c.case}; {c.measured}"
        for c in experiment(Setup(quick=False)).claims
        if not c.holds
    ] == []
