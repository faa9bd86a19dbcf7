"""Decisions per second that are verified and exported: 64 experts, 8 arms, states that
follow after every 20 decisions.

python -m benchmarks.proofs [--decisions 50000] [--late 0.01]
"""

import argparse
import resource
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import oddsmith as od
from oddsmith.core.weights import greedy
from oddsmith.experts.answers import RecordedAdvice
from oddsmith.server.audit import export, verify
from oddsmith.server.fold.fold import advance, restore
from oddsmith.server.fold.judge import judge, judge_to_json
from oddsmith.server.store import (
    DecisionMade,
    DefaultReward,
    Event,
    Reward,
    SQLiteStore,
    open_reader,
)

__all__ = ["main"]

EXPERTS, ARMS, CONTEXTS, GROUP, SEED = 64, 8, 200, 20, 3


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=50_000)
    parser.add_argument(
        "--late",
        type=float,
        default=0.0,
        help="share of rewards that come after their default",
    )
    asked = parser.parse_args()
    with TemporaryDirectory(dir=".") as folder:
        place = Path(folder) / "events.sqlite"
        _serve(place, asked.decisions, asked.late)
        reading = open_reader(str(place))
        _measured("verified", asked.decisions, lambda: verify(reading).holds)
        _measured(
            "verified with experts",
            asked.decisions,
            lambda: verify(reading, policy=_policy()).holds,
        )
        _measured(
            "exported",
            asked.decisions,
            lambda: export(reading, place.with_suffix(".parquet")).rows,
        )
        reading.close()


def _table() -> Any:
    return np.random.default_rng(0).uniform(0.05, 0.95, (CONTEXTS, EXPERTS, ARMS))


def _policy() -> od.GeneralizedThompsonSampling:
    return od.GeneralizedThompsonSampling(od.TableExperts(_table()), gamma=0.05)


def _serve(place: Path, decisions: int, late: float) -> None:
    """Decisions and rewards as a service would write them: votes, positions, and states
    that follow."""
    policy = _policy()
    arms, weigher, uniforms = (
        [f"arm {i}" for i in range(ARMS)],
        judge(policy),
        od.Uniforms(SEED),
    )
    rng = np.random.default_rng(1)
    answers = [RecordedAdvice(said, greedy(said)) for said in _table()]
    about: dict[str, Any] = {
        "experiment": "proofs",
        "seed": SEED,
        "arms": arms,
        "judge": judge_to_json(policy),
    }
    with SQLiteStore(place, policy, about=about) as store:
        folded = restore(store, policy)
        for first in range(0, decisions, GROUP):
            events: list[Event] = []
            for i in range(first, first + GROUP):
                context = int(rng.integers(CONTEXTS))
                answer = answers[context]
                odds = weigher.odds(folded.state, answer, step=i + 1)  # type: ignore[union-attr]
                decision = od.draw(odds, context, uniforms(f"d{i}"), step=i + 1)
                decision = decision._replace(arm=arms[decision.arm], index=decision.arm)
                events.append(
                    DecisionMade(
                        f"d{i}",
                        decision,
                        folded.position,
                        float(first),
                        votes=answer.ballots,
                    )
                )
            for i in range(max(0, first - GROUP), first):
                events.append(
                    DefaultReward(f"d{i}", 0.0, float(first))
                    if _is_late(i, late)
                    else _reward(i, rng, first)
                )
            events += [
                _reward(i, rng, first)
                for i in range(first - 50 * GROUP, first - 49 * GROUP)
                if _is_late(i, late)
            ]
            store.append(events).result()
            folded = advance(store, policy, folded)
        print(f"{decisions:,} decisions, {store.head():,} events")


def _is_late(i: int, late: float) -> bool:
    return i >= 0 and od.Uniforms(0)(i) < late


def _reward(i: int, rng: np.random.Generator, time: int) -> Reward:
    return Reward(f"d{i}", float(rng.integers(2)), float(time))


def _measured(what: str, decisions: int, work: Callable[[], object]) -> None:
    start, busy = time.monotonic(), time.process_time()
    answer = work()
    taken, used = time.monotonic() - start, time.process_time() - busy
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{what} ({answer}): {taken:.1f} s, {decisions / used:,.0f} decisions per "
        f"second of CPU, {memory:.0f} MiB"
    )


if __name__ == "__main__":
    main()
