"""Slates in a simulation: an agent fills the slots of pages, with exact shares of what
there was to gain."""

from typing import NamedTuple

import numpy as np

from oddsmith.agent.agent import Agent
from oddsmith.core.arrays import Array, whole
from oddsmith.lab.worlds.pages import PageWorld
from oddsmith.logs.table import Log

__all__ = ["PageRun", "fill_pages"]


class PageRun(NamedTuple):
    """What pages (n,) earned on average, summed over their slots, beside the best and a
    random page; and the log."""

    earned: Array
    best: Array
    uniform: Array
    log: Log

    def captured(self, first: int = 0) -> float:
        """The share of what there was to gain above chance, from a page on: 1 is the
        best page every time."""
        gained, most = (
            one[first:].sum() - self.uniform[first:].sum()
            for one in (self.earned, self.best)
        )
        return float(gained / most)


def fill_pages(agent: Agent, world: PageWorld, pages: int, *, seed: int = 0) -> PageRun:
    """The run of an agent that decides so many pages one after the other, and learns
    all slots of each."""
    whole("pages", pages)
    visitors, clicks = (
        np.random.default_rng([seed, 1]),
        np.random.default_rng([seed, 2]),
    )
    decisions, rewards, sums = [], [], []
    for _ in range(pages):
        visitor = world.visitor(visitors)
        page = agent.decide_slate(visitor, arms=world.arms, slots=len(world.looks))
        means = world.earned(visitor, [decision.arm for decision in page])
        clicked = (clicks.random(len(means)) < means).astype(np.float64)
        agent.learn(page, clicked)
        decisions += page
        rewards += clicked.tolist()
        sums.append((means.sum(), world.best(visitor), world.uniform(visitor)))
    slots = len(world.looks)
    places = {"slate": [f"page-{page}" for page in range(pages) for _ in range(slots)]}
    log = Log.of(decisions, rewards, **places, slot=[*range(1, slots + 1)] * pages)
    earned, best, uniform = np.array(sums).T
    return PageRun(earned, best, uniform, log)
