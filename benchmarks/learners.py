"""What `auto` costs: a step next to Vowpal Wabbit's, and growth of time and memory with
features and arms.

`python -m benchmarks.learners` prints the first table, `python -m benchmarks.run
learners` all of it.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import oddsmith as od
from benchmarks import offers
from benchmarks.contenders import Ours, OursOnOffers, Player, Vowpal
from benchmarks.games import Game, Round
from benchmarks.timing import Timing, interleaved, machine, table
from benchmarks.told import Compared, Told, release
from oddsmith.core import kernels
from oddsmith.experts.learners import Forest, Learner, LearningExperts
from oddsmith.files.reports.style import COLOURS, DASHES, MARKERS, legend, panels, save
from oddsmith.policies.auto import SIZES

ARMS, DIM, CHUNK, ROUNDS = 10, 20, 500, 9
FEATURES, MANY_ARMS = (5, 20, 80, 320), (2, 10, 50)
VOWPAL = "Vowpal Wabbit, squarecb"


def classes(n_arms: int, dim: int, steps: int) -> Game:
    """Rounds of a world of classes."""
    rng = np.random.default_rng(0)
    centres, answers, right = (
        rng.normal(size=(n_arms, dim)),
        rng.integers(0, n_arms, steps),
        np.eye(n_arms),
    )
    contexts = centres[answers] + rng.normal(size=(steps, dim))
    names, none = tuple(str(k) for k in range(n_arms)), np.zeros((n_arms, 0))
    return Game(
        [
            Round(x, none, names, right[y], right[y])
            for x, y in zip(contexts, answers, strict=True)
        ],
        True,
    )


def items(steps: int) -> Game:
    """Rounds of arms that come with the call."""
    rounds: list[Round] = []
    while len(rounds) < steps:
        rounds += offers.problem(offers.ARMS, seed=len(rounds)).rounds
    return Game(rounds[:steps], True)


def loop(
    player: Player, given: Game, chunk: int = CHUNK, choice: str = "auto"
) -> Callable[[], int | list[int]]:
    """Chunks of one long run, so that growth falls where it falls; the run begins anew
    when its rounds are used up."""
    place, uniforms = 0, np.random.default_rng(1).random(len(given.rounds)).tolist()

    def run() -> list[int]:
        nonlocal place
        kernels.use(choice)
        spent = []
        for _ in range(chunk):
            now, start = given.rounds[place], time.thread_time_ns()
            player.learn(float(now.rewards[player.act(now, uniforms[place])]))
            spent.append(time.thread_time_ns() - start)
            place = (place + 1) % len(uniforms)
        return spent

    return run


def auto(size: str, n_arms: int) -> Ours:
    return Ours(od.auto([str(k) for k in range(n_arms)], size=size))


def alone(learner: Learner, n_arms: int) -> Ours:
    bank = LearningExperts([str(k) for k in range(n_arms)], (learner,))
    return Ours(
        od.GeneralizedThompsonSampling(bank, od.square_loss, eta=2.0, gamma=0.005)
    )


def size(tree: Any) -> int:
    """Bytes of all arrays of a state."""
    return (
        sum(size(part) for part in tree)
        if isinstance(tree, tuple)
        else int(np.asarray(tree).nbytes)
    )


def cases() -> Iterator[tuple[str, Game, Callable[[str], Ours]]]:
    """What is timed next to Vowpal Wabbit: a name, rounds, and our policy of a size."""
    steps = CHUNK * (ROUNDS + 1)
    for n_arms, dim in ((ARMS, DIM), (27, 60)):
        yield (
            f"{n_arms} arms × {dim} numbers",
            classes(n_arms, dim, steps),
            partial(auto, n_arms=n_arms),
        )
    yield (
        "50 arms offered × 30 numbers",
        items(steps),
        lambda s: OursOnOffers(od.auto(size=s)),
    )


class Timed(NamedTuple):
    """A policy on one input: means of CPU, those of Vowpal Wabbit in the same rounds,
    and bytes of its state."""

    given: str
    label: str
    us: float
    theirs: float
    longest: float
    memory: int | None

    @property
    def cells(self) -> list[str]:
        memory = "" if self.memory is None else f"{self.memory / 1e6:,.1f}"
        times = [
            f"{self.us:,.0f}",
            f"{self.us / self.theirs:.2f}",
            f"{self.longest / 1e3:.1f}",
        ]
        return [self.given, self.label, *times, memory]


def against_vowpal() -> Iterator[Timed]:
    """Each case and size, compiled and not: µs of CPU a step, ratios within one run,
    the longest step, the state."""
    for name, given, make in cases():
        wanted = [
            (s, choice) for choice in ("numba", "numpy") for s in ("normal", "small")
        ]
        players = {f"auto, {s}, {choice}": make(s) for s, choice in wanted}
        loops = {
            label: loop(player, given, choice=label.rsplit(", ", 1)[1])
            for label, player in players.items()
        } | {VOWPAL: loop(Vowpal("--squarecb -l 2 -q sa --noconstant", given), given)}
        timings = interleaved(loops, ROUNDS)
        for label, timing in timings.items():
            memory = size(players[label].state) if label in players else None
            yield Timed(
                name, label, timing.mean, timings[VOWPAL].mean, timing.longest, memory
            )
    kernels.use("auto")


def growth() -> Iterator[tuple[str, int, int, Timing, int]]:
    """µs and bytes of the learners and of auto, over features at 10 arms and over arms
    at 20 features."""
    curved: Any = SIZES["normal"][0]
    makers: dict[str, Callable[[int], Ours]] = {
        "regression, 128 waves": lambda k: alone(curved, k),
        "forest of 16": lambda k: alone(Forest(16), k),
        "auto, small": lambda k: auto("small", k),
        "auto": lambda k: auto("normal", k),
    }
    for n_arms, dim in [(ARMS, d) for d in FEATURES] + [
        (k, DIM) for k in MANY_ARMS if k != ARMS
    ]:
        players = {name: make(n_arms) for name, make in makers.items()}
        given = classes(n_arms, dim, 900)
        timings = interleaved(
            {name: loop(p, given, 150) for name, p in players.items()}, 5
        )
        for name, timing in timings.items():
            yield name, n_arms, dim, timing, size(players[name].state)


def draw(measured: list[tuple[str, int, int, Timing, int]], path: Path) -> None:
    figure, axes = panels(3)
    for i, name in enumerate(dict.fromkeys(row[0] for row in measured)):
        mine = [row for row in measured if row[0] == name]
        features = sorted((d, t.cpu, b) for _, k, d, t, b in mine if k == ARMS)
        arms = sorted((k, t.cpu) for _, k, d, t, _ in mine if d == DIM)
        style: Any = {
            "color": COLOURS[i],
            "ls": DASHES[i],
            "marker": MARKERS[i],
            "label": name,
        }
        axes[0].plot(
            [d for d, _, _ in features], [us for _, us, _ in features], **style
        )
        axes[1].plot([k for k, _ in arms], [us for _, us in arms], **style)
        axes[2].plot(
            [d for d, _, _ in features], [b / 1e6 for _, _, b in features], **style
        )
    labels = (
        ("numbers in a context", "µs per step"),
        ("arms", "µs per step"),
        ("numbers in a context", "MB of state"),
    )
    for panel, (x, y) in zip(axes, labels, strict=True):
        panel.set(xscale="log", yscale="log", xlabel=x, ylabel=y)
        ticks = MANY_ARMS if x == "arms" else FEATURES
        panel.set_xticks(ticks, [str(tick) for tick in ticks])
        panel.xaxis.minorticks_off()
    axes[0].set_title(f"{ARMS} arms")
    axes[1].set_title(f"{DIM} numbers")
    axes[2].set_title(f"{ARMS} arms, after 900 rewards")
    legend(axes[0])
    save(figure, path)


HEADER = [
    "input",
    "policy",
    "µs per step",
    "÷ Vowpal Wabbit",
    "longest step, ms",
    "MB of state",
]


def compared(timed: list[Timed]) -> tuple[Compared, ...]:
    """Auto on every input with compiled code, and on the first one in its other forms,
    too."""
    peer = (
        f"{release('vowpalwabbit', 'Vowpal Wabbit')}, squarecb, text made in the loop"
    )
    first = {
        "auto, small, numba": "auto, small",
        "auto, normal, numpy": "auto, without numba",
    }
    shown = {"auto, normal, numba": "auto"}
    return tuple(
        Compared(
            f"decide and learn, {name}, {one.given}", peer, one.us, one.theirs, "µs"
        )
        for one in timed
        if (
            name := (shown | first if one.given == timed[0].given else shown).get(
                one.label
            )
        )
    )


def report(figures: Path) -> Told:
    timed, measured = list(against_vowpal()), list(growth())
    draw(measured, figures / "learners.svg")
    cells = [
        [name, str(k), str(d), f"{t.cpu:,.0f}", f"{b / 1e6:,.1f}"]
        for name, k, d, t, b in measured
    ]
    text = f"""## What auto costs

µs of CPU for a decision and its reward, compared with Vowpal Wabbit's Python loop on the same input, which makes its text:
means of {ROUNDS} interleaved rounds of {CHUNK} steps after one to warm up, all of one run, including growth of the
forest. *numba*: with compiled code; *numpy*: without.

{table(HEADER, [one.cells for one in timed])}

Time and memory by number of features and arms. The forest's state is bounded by its window.

{table(["policy", "arms", "numbers", "µs per step", "MB of state"], cells)}

![time and memory against features and arms](figures/learners.svg)
"""
    return Told(text, compared(timed))


if __name__ == "__main__":
    print(machine(("numpy", "numba", "vowpalwabbit")))
    print(table(HEADER, [one.cells for one in against_vowpal()]))
