"""Late rewards: how far learning lags behind the log where rewards come long after
their window, at real time.

    taskset -c 0 python -m benchmarks.late_rewards [--seconds 600] [--rate 200] [--rule
        arrives]

An experiment of `auto` in this process (no HTTP) on a store in a file: so many visits a
second, each with a reward, of which a part comes 1 to 10 minutes after the window of 60
seconds. Lag is the time from the commit of a reward until the state knows it; rewards
that it never came to know count with the time they had. All time is that of one
process.
"""

import argparse
import asyncio
import heapq
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from oddsmith.server.experiment import follower as following
from oddsmith.server.experiment.clock import Clock
from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.experiment.start import open_experiments
from oddsmith.server.http.routes.decide import decide
from oddsmith.server.messages.calls import DecideEntry
from oddsmith.server.store.events import Reward

ARMS, FEATURES = 4, 8


class Watch:
    """Seconds of CPU that a function of the follower took, by its name there."""

    def __init__(self, name: str) -> None:
        self.seconds, self.calls, self._inner = 0.0, 0, getattr(following, name)
        setattr(following, name, self)

    def __call__(self, *given: Any, **named: Any) -> Any:
        before = time.thread_time()
        try:
            return self._inner(*given, **named)
        finally:
            self.seconds += time.thread_time() - before
            self.calls += 1


class Lag:
    """The lag of every reward, noted whenever the state moves."""

    def __init__(self, experiment: Experiment) -> None:
        self.waiting: deque[tuple[int, float]] = deque()
        self.known: list[float] = []
        self._follower: Any = experiment.follower
        self._become: Callable[[Any], None] = self._follower._become
        vars(self._follower)["_become"] = self._moved

    def _moved(self, folded: Any) -> None:
        self._become(folded)
        now = time.monotonic()
        while self.waiting and self.waiting[0][0] <= folded.position:
            self.known.append(now - self.waiting.popleft()[1])

    def seconds(self) -> np.ndarray[Any, Any]:
        """All lags; of rewards that are not known yet, the time so far."""
        now = time.monotonic()
        return np.array([*self.known, *(now - since for _, since in self.waiting)])


def policy_file(folder: Path, window: float, rule: str) -> Path:
    """`auto` over a few arms."""
    arms = ", ".join(f'"arm {a}"' for a in range(ARMS))
    late = f'late_reward = "{rule}"\n' if rule else ""
    text = (
        f'arms = [{arms}]\nseed = 7\npolicy.kind = "auto"\n[service]\n'
        f"window_s = {window}\n{late}"
    )
    (folder / "late.toml").write_text(text)
    return folder / "late.toml"


class Visits:
    """Visits at a steady rate, and their rewards when they are due."""

    def __init__(self, experiment: Experiment, given: argparse.Namespace) -> None:
        self.experiment, self.given = experiment, given
        self.lag, self.late = Lag(experiment), 0
        self._rng = np.random.default_rng(1)
        self._due: list[tuple[float, str, float]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until the time is over."""
        start, sent = time.monotonic(), 0
        while (now := time.monotonic() - start) < self.given.seconds:
            while sent < now * self.given.rate:
                sent += 1
                self._begin(self._visit())
            while self._due and self._due[0][0] <= time.monotonic():
                _, id, value = heapq.heappop(self._due)
                self._begin(self._reward(id, value))
            await asyncio.sleep(0.005)

    def _begin(self, act: Any) -> None:
        task = asyncio.get_running_loop().create_task(act)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _visit(self) -> None:
        x = self._rng.normal(size=FEATURES).round(3)
        answer = await decide(self.experiment, DecideEntry(context=x.tolist()), "")
        mean = 0.5 + 0.3 * np.tanh(x[int(answer.arm[-1])])
        value = float(np.clip(mean + self._rng.uniform(-0.2, 0.2), 0.01, 1.0))
        window = self.given.window
        if self._rng.random() < self.given.late:
            self.late += 1
            wait = window * (1 + self._rng.uniform(1, 10))
        else:
            wait = window * self._rng.uniform(0, 0.9)
        heapq.heappush(self._due, (time.monotonic() + wait, answer.id, value))

    async def _reward(self, id: str, value: float) -> None:
        receipt = await self.experiment.append(
            Reward(id, value, time=self.experiment.clock())
        )
        self.lag.waiting.append((receipt.position, time.monotonic()))


async def measure(given: argparse.Namespace) -> None:
    """One run, and its figures every so often."""
    learning, refolds = Watch("settle"), Watch("recover")
    with tempfile.TemporaryDirectory() as place:
        (opened,) = open_experiments(
            [policy_file(Path(place), given.window, given.rule)]
        )
        experiment = Experiment(opened, Clock())
        await experiment.begin()
        visits = Visits(experiment, given)
        start, used = time.monotonic(), time.process_time()
        running = asyncio.create_task(visits.run())
        while not running.done():
            await asyncio.wait([running], timeout=given.every)
            took, cpu = time.monotonic() - start, time.process_time() - used
            lags = visits.lag.seconds()
            p50, p99 = np.percentile(lags, [50, 99]) if len(lags) else (0.0, 0.0)
            print(
                f"{took:5.0f} s: {experiment.steps} visits, {len(lags)} rewards, lag "
                f"p50 {p50:.3f} s p99 {p99:.3f} s, worst {lags.max(initial=0.0):.2f} "
                f"s, behind {len(visits.lag.waiting)}; CPU {cpu / took:.0%}, learning "
                f"{learning.seconds / took:.1%}, refolds {refolds.seconds / took:.1%} "
                f"({experiment.follower.refolds})",
                flush=True,
            )
        await running
        await experiment.end()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parser.add_argument("--seconds", type=float, default=600.0, help="how long")
    parser.add_argument("--rate", type=float, default=200.0, help="visits a second")
    parser.add_argument(
        "--window",
        type=float,
        default=60.0,
        help="seconds; late rewards come 1 to 10 of them after",
    )
    parser.add_argument(
        "--late", type=float, default=0.2, help="part of the rewards that come late"
    )
    parser.add_argument(
        "--rule", default="", help="late_reward of the store: rewrites or arrives"
    )
    parser.add_argument(
        "--every", type=float, default=15.0, help="seconds between two lines of figures"
    )
    asyncio.run(measure(parser.parse_args()))
