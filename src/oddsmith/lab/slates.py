"""Simulation of slates: an agent fills the slots of pages. The result includes how much
of the possible gain over random pages the agent achieved."""

from typing import NamedTuple

import numpy as np

from oddsmith.agent.agent import Agent
from oddsmith.core.arrays import Array, whole
from oddsmith.lab.worlds.pages import PageWorld
from oddsmith.logs.table import Log

__all__ = ["PageRun", "fill_pages"]


class PageRun(NamedTuple):
    """Sums of mean rewards over the slots of each page (n,), for the agent's pages, the
    best pages and random pages; and the log."""

    earned: Array
    best: Array
    uniform: Array
    log: Log

    def captured_share(self, first: int = 0) -> float:
        """Return the share of the possible gain over random pages, from page `first`
        on. 1 means the best page every time."""
        uniform = self.uniform[first:].sum()
        gain = self.earned[first:].sum() - uniform
        possible_gain = self.best[first:].sum() - uniform
        return float(gain / possible_gain)


def fill_pages(agent: Agent, world: PageWorld, pages: int, *, seed: int = 0) -> PageRun:
    """Simulate an agent that decides this number of pages one after the other and
    learns from all slots of each."""
    whole("pages", pages)
    visitors = np.random.default_rng([seed, 1])
    clicks = np.random.default_rng([seed, 2])
    n_slots = len(world.looks)
    decisions = []
    rewards = []
    earned = np.empty(pages)
    best = np.empty(pages)
    uniform = np.empty(pages)
    for i in range(pages):
        visitor = world.visitor(visitors)
        page = agent.decide_slate(visitor, arms=world.arms, slots=n_slots)
        means = world.means(visitor, [decision.arm for decision in page])
        page_rewards = (clicks.random(n_slots) < means).astype(np.float64)
        agent.learn(page, page_rewards)
        decisions += page
        rewards += page_rewards.tolist()
        earned[i] = means.sum()
        best[i] = world.best(visitor)
        uniform[i] = world.uniform(visitor)
    slates = []
    for i in range(pages):
        slates += [f"page-{i}"] * n_slots
    slots = [*range(1, n_slots + 1)] * pages
    log = Log.of(decisions, rewards, slate=slates, slot=slots)
    return PageRun(earned, best, uniform, log)
