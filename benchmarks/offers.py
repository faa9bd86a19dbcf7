"""A decision among arms that come with the call, and its reward: 50 arms of 20 numbers,
10 numbers of context.

`auto()` next to Vowpal Wabbit (`--cb_explore_adf --squarecb -q sa`) on the same input,
interleaved in one run; then both with 10 to 1,000 arms: `python -m benchmarks.offers`,
with `--profile` where our time goes.
"""

import argparse
import cProfile
import pstats
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import oddsmith as od
from benchmarks.contenders import OursOnOffers, lines_of
from benchmarks.games import Round
from benchmarks.peers import pick
from benchmarks.timing import Timing, interleaved, machine, table
from benchmarks.told import Compared, Told, release

ARMS, FEATURES, CONTEXT, ROUNDS = 50, 20, 10, 5
SIZES = (10, 50, 200, 1000)
OURS, TEXT, FORMATTED = (
    "oddsmith, auto()",
    "VW, text made beforehand",
    "VW, text made in the loop",
)


def steps(n_arms: int) -> int:
    """Steps of one round of timing: with few arms so many that each round holds a
    growth of the forest."""
    return 400 if n_arms <= ARMS else 100


class Problem(NamedTuple):
    """Rounds with rewards of every arm, and uniforms; every arm is one of ten times as
    many, known by name."""

    rounds: list[Round]
    uniforms: list[float]


def problem(n_arms: int, seed: int = 0) -> Problem:
    rng = np.random.default_rng(seed)
    known, weights = (
        rng.normal(size=(10 * n_arms, FEATURES)),
        rng.normal(size=(CONTEXT, FEATURES)) / 5,
    )
    rounds = []
    for _ in range(steps(n_arms)):
        drawn, shared = (
            rng.choice(len(known), n_arms, replace=False),
            rng.normal(size=CONTEXT),
        )
        means = 1 / (1 + np.exp(-(known[drawn] @ (shared @ weights))))
        rewards = (rng.random(n_arms) < means).astype(float)
        rounds.append(
            Round(
                shared, known[drawn], tuple(f"item-{k}" for k in drawn), rewards, means
            )
        )
    return Problem(rounds, rng.random(len(rounds)).tolist())


def through_policy(
    given: Problem, size: str = "normal"
) -> Callable[[], int | list[int]]:
    """Offer, odds, draw and update; what was learnt in a round of timing stays for the
    next."""
    chooser = OursOnOffers(od.auto(size=size))

    def run() -> int:
        for now, uniform in zip(given.rounds, given.uniforms, strict=True):
            chooser.learn(float(now.rewards[chooser.act(now, uniform)]))
        return len(given.rounds)

    return run


def through_vowpal(
    given: Problem, texts: list[list[str]] | None
) -> Callable[[], int | list[int]]:
    """`predict` on text, `learn` on the same text with a label."""
    from vowpalwabbit import Workspace

    space = Workspace(
        "--cb_explore_adf --squarecb -q sa --quiet --cb_min_cost 0 --cb_max_cost 1"
    )

    def run() -> int:
        for t, now in enumerate(given.rounds):
            lines = lines_of(now, lasting=True) if texts is None else list(texts[t])
            odds = space.predict(lines)
            arm = pick(odds, given.uniforms[t])
            lines[arm + 1] = f"0:{1 - now.rewards[arm]}:{odds[arm]} {lines[arm + 1]}"
            space.learn(lines)
        return len(given.rounds)

    return run


def measure(n_arms: int) -> dict[str, Timing]:
    given = problem(n_arms)
    loops = {
        OURS: through_policy(given),
        "oddsmith, auto(size='small')": through_policy(given, "small"),
        TEXT: through_vowpal(
            given, [lines_of(now, lasting=True) for now in given.rounds]
        ),
        FORMATTED: through_vowpal(given, None),
    }
    return interleaved(loops, ROUNDS)


def report(sizes: tuple[int, ...] = SIZES) -> Told:
    found = {n: measure(n) for n in sizes}
    rows = [
        [
            f"{n:,}",
            name,
            f"{t.cpu:,.0f}",
            f"{t.wall:,.0f}",
            *(f"{t.cpu / times[peer].cpu:.2f}" for peer in (TEXT, FORMATTED)),
        ]
        for n, times in found.items()
        for name, t in times.items()
    ]
    header = [
        "arms",
        "loop",
        "CPU µs a round",
        "wall µs a round",
        f"÷ {TEXT}",
        f"÷ {FORMATTED}",
    ]
    peer = (
        f"{release('vowpalwabbit', 'Vowpal Wabbit')}, squarecb, text made in the loop"
    )
    compared = tuple(
        Compared(
            f"decide and learn, auto, {n:,} arms of the call",
            peer,
            times[OURS].cpu,
            times[FORMATTED].cpu,
            "µs",
        )
        for n, times in found.items()
    )
    text = f"""## A decision among arms of the call, and its reward

{FEATURES} numbers for each arm, {CONTEXT} of context; every arm is one of ten times as many names. Median of
{ROUNDS} interleaved rounds of {steps(ARMS)} steps ({steps(1000)} above {ARMS} arms) after one to warm up, one thread.

{table(header, rows)}
"""
    return Told(text, compared)


def profile(n_arms: int = ARMS) -> Any:
    """The functions where our time goes, after a warm start."""
    run = through_policy(problem(n_arms))
    run()
    profiler = cProfile.Profile()
    for _ in range(ROUNDS):
        profiler.runcall(run)
    return pstats.Stats(profiler).sort_stats("tottime").print_stats(12)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--arms", type=int, nargs="*", default=SIZES)
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    if arguments.profile:
        for n_arms in arguments.arms:
            profile(n_arms)
        return
    print(machine(("numpy", "vowpalwabbit")))
    print(report(tuple(arguments.arms)).text)


if __name__ == "__main__":
    main()
