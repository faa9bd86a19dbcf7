"""What a late reward is worth: regret of `auto` where rewards come after their default,
by what is made of them.

    python -m benchmarks.late_rules [--seeds 4] [--visits 5000]

Time is counted in visits: a window of 60, after which a visit without a reward is
learnt with 0. A part of the rewards comes 1 to 10 windows later. `rewrites` is the fold
with final values, caught up every 500 visits; `ignored` learns no late reward; `again`
learns it once more, weights and learners; `weights` changes the weights by the
difference, and learners learn once more; `arrives` changes both by the difference, as a
store does.
"""

import argparse
import heapq
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import oddsmith as od
from oddsmith.core.experts import Experts
from oddsmith.core.gts import GeneralizedThompsonSampling

ARMS, FEATURES, WINDOW, EVERY = 4, 4, 60, 500
RULES = ("rewrites", "ignored", "again", "weights", "arrives")


class World(NamedTuple):
    """How likely each arm's reward is in a context, and how likely it comes late."""

    bias: tuple[float, ...]
    late: tuple[float, ...]

    def means(self, x: Any) -> Any:
        return np.clip(np.array(self.bias) + 0.25 * np.tanh(1.5 * x), 0.01, 0.99)


WORLDS = {
    "rare rewards, all arms late alike (20 %)": World(
        (0.05, 0.06, 0.07, 0.08), (0.2, 0.2, 0.2, 0.2)
    ),
    "frequent rewards, all arms late alike (20 %)": World(
        (0.5, 0.5, 0.5, 0.5), (0.2, 0.2, 0.2, 0.2)
    ),
    "frequent rewards, half of the arms late (80 %)": World(
        (0.5, 0.5, 0.5, 0.5), (0.8, 0.0, 0.8, 0.0)
    ),
}


class Learning:
    """A policy that learns by one rule; `learn` is given what a store would give it."""

    def __init__(self, rule: str) -> None:
        self.rule, self.policy = (
            rule,
            od.auto([f"arm {a}" for a in range(ARMS)], size="normal"),
        )
        self.state = self.policy.init()
        self.log: list[tuple[Any, float]] = []
        self.place: dict[int, int] = {}
        self.stale = False

    def settled(self, visit: int, decision: Any, value: float) -> None:
        """A reward in time, or the default."""
        self.place[visit] = len(self.log)
        self.log.append((decision, value))
        self.state = self.policy.update(self.state, decision, value)

    def late(self, visit: int, decision: Any, value: float) -> None:
        """A reward after its default, which was 0."""
        if self.rule == "rewrites":
            self.log[self.place[visit]], self.stale = (decision, value), True
        elif self.rule == "again":
            self.state = self.policy.update(self.state, decision, value)
        elif self.rule == "weights":
            once: Any = _Once(self.policy)
            self.state = GeneralizedThompsonSampling.revise(
                once, self.state, decision, 0.0, value
            )
        elif self.rule == "arrives":
            self.state = self.policy.revise(self.state, decision, 0.0, value)

    def caught_up(self) -> None:
        """The fold anew, where something was rewritten."""
        if self.stale:
            self.state, self.stale = self.policy.init(), False
            for decision, value in self.log:
                self.state = self.policy.update(self.state, decision, value)


class _Once:
    """A policy whose learners learn once more."""

    def __init__(self, policy: Any) -> None:
        self._policy = policy

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def revise_experts(
        self, state: Any, decision: Any, before: float, reward: float
    ) -> Any:
        return Experts.revise(self._policy.experts, state, decision, before, reward)


def regret(rule: str, world: World, seed: int, visits: int) -> float:
    """The mean regret of a visit."""
    rng, learning = np.random.default_rng(seed), Learning(rule)
    due: list[tuple[float, int, Callable[..., None], Any, float]] = []
    lost = 0.0
    for visit in range(visits):
        while due and due[0][0] <= visit:
            _, which, act, decision, value = heapq.heappop(due)
            act(which, decision, value)
        if visit % EVERY == 0:
            learning.caught_up()
        x, u, clicks, wait, late = rng.normal(size=FEATURES), *rng.random(4)
        decision = od.decide(
            learning.policy, learning.state, x, float(u), step=visit + 1
        )
        means = world.means(x)
        lost += float(means.max() - means[decision.arm])
        if clicks >= means[decision.arm]:
            heapq.heappush(
                due, (visit + WINDOW, visit, learning.settled, decision, 0.0)
            )
        elif late < world.late[decision.arm]:
            heapq.heappush(
                due, (visit + WINDOW, visit, learning.settled, decision, 0.0)
            )
            heapq.heappush(
                due,
                (visit + WINDOW * (2 + 9 * wait), visit, learning.late, decision, 1.0),
            )
        else:
            heapq.heappush(
                due, (visit + WINDOW * wait, visit, learning.settled, decision, 1.0)
            )
    return lost / visits


def main() -> None:
    """The table: mean regret of a visit by world and rule, with its standard error over
    seeds."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--visits", type=int, default=5000)
    given = parser.parse_args()
    print(f"| world | {' | '.join(RULES)} |\n|---|{'---:|' * len(RULES)}")
    for name, world in WORLDS.items():
        cells = []
        for rule in RULES:
            found = np.array(
                [regret(rule, world, seed, given.visits) for seed in range(given.seeds)]
            )
            cells.append(
                f"{found.mean():.4f} ± {found.std(ddof=1) / np.sqrt(len(found)):.4f}"
            )
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
