"""What `auto` costs: a step next to Vowpal Wabbit's, and growth of time and memory with features and arms."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import oddsmith as od
from benchmarks.contenders import Ours, Vowpal
from benchmarks.timing import Timing, interleaved, table
from oddsmith.experts.learners import Forest, Learner, LearningExperts
from oddsmith.policies.auto import SIZES
from oddsmith.reports.style import COLOURS, DASHES, MARKERS, panels, pyplot

ARMS, DIM, CHUNK, ROUNDS = 10, 20, 500, 9
FEATURES, MANY_ARMS = (5, 20, 80, 320), (2, 10, 50)


def loop(player: Any, n_arms: int, dim: int, chunk: int = CHUNK) -> Callable[[], int]:
    """Rounds of one long run on a world of classes, so that refits fall where they fall."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(n_arms, dim))

    def run() -> int:
        answers = rng.integers(0, n_arms, chunk)
        contexts = centres[answers] + rng.normal(size=(chunk, dim))
        for answer, context, uniform in zip(answers, contexts, rng.random(chunk).tolist(), strict=True):
            player.learn(float(player.act(context, uniform) == answer))
        return chunk

    return run


def auto(size: str, n_arms: int) -> Ours:
    return Ours(od.auto([str(k) for k in range(n_arms)], size=size))


def alone(learner: Learner, n_arms: int) -> Ours:
    bank = LearningExperts([str(k) for k in range(n_arms)], (learner,))
    return Ours(od.GeneralizedThompsonSampling(bank, od.square_loss, eta=2.0, gamma=0.005))


def size(tree: Any) -> int:
    """Bytes of all arrays of a state."""
    return sum(size(part) for part in tree) if isinstance(tree, tuple) else int(np.asarray(tree).nbytes)


def against_vowpal() -> list[list[str]]:
    players: dict[str, Any] = {"Vowpal Wabbit, squarecb": Vowpal(ARMS, "--squarecb -l 2", 0)}
    players |= {f"auto, {size}": auto(size, ARMS) for size in SIZES}
    timings = interleaved({name: loop(player, ARMS, DIM) for name, player in players.items()}, ROUNDS)
    base = timings["Vowpal Wabbit, squarecb"].cpu
    return [
        [
            name,
            f"{timing.cpu:,.0f}",
            f"{timing.cpu / base:.1f}×",
            f"{size(players[name].state) / 1e6:,.1f}" if isinstance(players[name], Ours) else "",
        ]
        for name, timing in timings.items()
    ]


def growth() -> Iterator[tuple[str, int, int, Timing, int]]:
    """µs and bytes of the learners and of auto, over features at 10 arms and over arms at 20 features."""
    curved: Any = SIZES["normal"][0]
    makers: dict[str, Callable[[int], Ours]] = {
        "regression, 128 waves": lambda k: alone(curved, k),
        "forest of 16": lambda k: alone(Forest(16), k),
        "auto, small": lambda k: auto("small", k),
        "auto": lambda k: auto("normal", k),
    }
    for n_arms, dim in [(ARMS, d) for d in FEATURES] + [(k, DIM) for k in MANY_ARMS if k != ARMS]:
        players = {name: make(n_arms) for name, make in makers.items()}
        timings = interleaved({name: loop(p, n_arms, dim, 150) for name, p in players.items()}, 5)
        for name, timing in timings.items():
            yield name, n_arms, dim, timing, size(players[name].state)


def draw(measured: list[tuple[str, int, int, Timing, int]], path: Path) -> None:
    figure, axes = panels(3)
    for i, name in enumerate(dict.fromkeys(row[0] for row in measured)):
        mine = [row for row in measured if row[0] == name]
        features = sorted((d, t.cpu, b) for _, k, d, t, b in mine if k == ARMS)
        arms = sorted((k, t.cpu) for _, k, d, t, _ in mine if d == DIM)
        style: Any = {"color": COLOURS[i], "ls": DASHES[i], "marker": MARKERS[i], "label": name}
        axes[0].plot([d for d, _, _ in features], [us for _, us, _ in features], **style)
        axes[1].plot([k for k, _ in arms], [us for _, us in arms], **style)
        axes[2].plot([d for d, _, _ in features], [b / 1e6 for _, _, b in features], **style)
    labels = ("numbers in a context", "µs per step"), ("arms", "µs per step"), ("numbers in a context", "MB of state")
    for panel, (x, y) in zip(axes, labels, strict=True):
        panel.set(xscale="log", yscale="log", xlabel=x, ylabel=y)
        ticks = MANY_ARMS if x == "arms" else FEATURES
        panel.set_xticks(ticks, [str(tick) for tick in ticks])
        panel.xaxis.minorticks_off()
    axes[0].set_title(f"{ARMS} arms")
    axes[1].set_title(f"{DIM} numbers")
    axes[2].set_title(f"{ARMS} arms, after 900 rewards")
    axes[0].legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=130)
    pyplot().close(figure)


def report(figures: Path) -> str:
    rows, measured = against_vowpal(), list(growth())
    draw(measured, figures / "learners.png")
    cells = [[name, str(k), str(d), f"{t.cpu:,.0f}", f"{b / 1e6:,.1f}"] for name, k, d, t, b in measured]
    return f"""## What auto costs

µs of CPU per decision and reward at {ARMS} arms and {DIM} features, {CHUNK * (ROUNDS + 1):,} steps of one run, the
forest's refits within; Vowpal Wabbit through its Python loop on text.

{table(["policy", "µs per step", "÷ Vowpal Wabbit", "MB of state"], rows)}

Growth; the state of a regression is K (d + n + 1)² numbers, the forest's is bounded by its window.

{table(["policy", "arms", "numbers", "µs per step", "MB of state"], cells)}

![time and memory against features and arms](figures/learners.png)
"""
