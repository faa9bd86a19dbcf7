"""Anytime bounds of a paired difference under adaptive propensities: false decisions,
coverage, width and time; `python -m benchmarks.paired [--runs 200]`.

A bandit with a floor of gamma is compared with a control at every hundredth of 12,000
decisions. Beside the paired bets are the rules that people use instead: a z test at
every look, an asymptotic confidence sequence (that of gbstats), the one-look interval,
and the anytime difference that oddsmith had before.
"""

import argparse
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.timing import table
from benchmarks.told import Told
from oddsmith.core.arrays import Array, Ints
from oddsmith.evaluation.duration import smallest_detectable_effect
from oddsmith.evaluation.mean_bounds import bets_within, running_bound, running_sums
from oddsmith.evaluation.paired_bets import (
    PairedRows,
    PairedSums,
    pair_odds,
    paired_bounds,
    row_units,
)

ROWS = 12_000
EVERY = 100
FIRST_LOOK = 200
LEVEL = 0.95
Z = 1.959964
# rows after which the tuning of gbstats' sequence is best
TUNING = 5000
MEASURED = 2_000
PREDICTED_AT = 4_000
KINDS = ("paired", "z test at every look", "asymptotic sequence")


class World(NamedTuple):
    """Clicks of K arms in contexts; a call offers some arms, and the first is the
    control.

    `rate` is the mean reward, `effect` the relative spread of arms; `drift` moves the
    arms' rates up and down by this share. With `is_control_lowest` all runs have the
    same means, in growing order.
    """

    name: str
    rate: float = 0.05
    effect: float = 0.0
    drift: float = 0.0
    contexts: int = 2
    arms: int = 3
    offered: int | None = None
    gamma: float = 0.1
    holdout: float = 0.0
    is_control_lowest: bool = False


FAMILIES = (
    World("clicks 5 %"),
    World("rewards of 1 %", rate=0.01),
    World("drifting", drift=0.6),
    World("arms of the call", arms=12, offered=4),
)


class Played(NamedTuple):
    """Runs of a world: the rows (runs, T) of the bets, the effect of each row, and the
    weights of target and control."""

    rows: PairedRows
    effect: Array
    target: Array
    control: Array


def play(world: World, runs: int, rows: int = ROWS, seed: int = 0) -> Played:
    """Decisions of a bandit that follows the mean rewards of arms, softly, in each
    context; the target is the bandit, the control the first arm offered."""
    rng = np.random.default_rng(seed)
    arms = world.arms
    n_offered = world.offered or arms
    spread = np.linspace(-1, 1, arms * world.contexts)
    spread = np.tile(spread, (runs, 1))
    if not world.is_control_lowest:
        spread = rng.permuted(spread, axis=1)
    means = world.rate * (1 + world.effect * spread)
    means = means.reshape(runs, world.contexts, arms)
    phases = rng.random((runs, arms))
    sums = np.zeros_like(means)
    counts = np.zeros_like(means)
    every = np.arange(runs)
    columns: dict[str, list[Array]] = {
        name: [] for name in (*PairedRows._fields, "effect", "target", "control_weight")
    }
    for row in range(rows):
        context = rng.integers(world.contexts, size=runs)
        order = rng.random((runs, arms)).argsort(axis=1)
        if world.offered is None:
            order = np.broadcast_to(np.arange(arms), (runs, arms))
        offer = order[:, :n_offered]
        wave = np.sin(2 * np.pi * (row / rows * 2 + phases))
        rates = means[every, context] * (1 + world.drift * wave)
        own_sums = sums[every, context]
        own_counts = counts[every, context]
        scale = np.sqrt((own_counts.sum(axis=1, keepdims=True) + 1) / world.rate)
        scores = 3 * scale * (own_sums + world.rate) / (own_counts + 1)
        scores = np.take_along_axis(scores, offer, axis=1)
        greedy = np.exp(scores - scores.max(axis=1, keepdims=True))
        greedy /= greedy.sum(axis=1, keepdims=True)
        bandit = (1 - world.gamma) * greedy + world.gamma / n_offered
        control = np.zeros_like(bandit)
        control[:, 0] = 1.0
        odds = (1 - world.holdout) * bandit + world.holdout * control
        uniform = rng.random((runs, 1))
        drawn = (uniform > odds.cumsum(axis=1)[:, :-1]).sum(axis=1)
        arm = offer[every, drawn]
        reward = (rng.random(runs) < rates[every, arm]).astype(np.float64)
        sums[every, context, arm] += reward
        counts[every, context, arm] += 1
        paired = pair_odds(drawn, odds, bandit, control, reward)
        for name, column in paired._asdict().items():
            columns[name].append(column)
        offered_rates = np.take_along_axis(rates, offer, axis=1)
        columns["effect"].append(((bandit - control) * offered_rates).sum(axis=1))
        columns["target"].append((bandit / odds)[every, drawn])
        columns["control_weight"].append((control / odds)[every, drawn])
    stacked = {name: np.stack(values, axis=1) for name, values in columns.items()}
    of_rows = PairedRows(*(stacked[name] for name in PairedRows._fields))
    return Played(
        of_rows, stacked["effect"], stacked["target"], stacked["control_weight"]
    )


class Looks(NamedTuple):
    """Bounds (runs, looks) of each kind, the running effect, and widths."""

    bounds: dict[str, tuple[Array, Array]]
    effect: Array
    old_width: Array


def bounds_over_time(rows: PairedRows, looks: Ints) -> tuple[Array, Array]:
    """The paired bounds of one run at each look."""
    units = PairedSums().units
    sums = []
    before = 0
    for look in looks.tolist():
        units = units + row_units(rows.at(slice(before, look)))
        sums.append(units)
        before = look
    return paired_bounds(np.stack(sums), looks, LEVEL)


def old_width(played: Played, run: int, rows: int) -> float:
    """The width of the anytime difference that oddsmith had: bets on w r + u (1 - r)
    and u r + w (1 - r)."""
    reward = played.rows.reward[run, :rows]
    target = played.target[run, :rows]
    control = played.control[run, :rows]
    bets = bets_within(0.0, 2.0)
    gain = running_sums(target * reward + control * (1 - reward), bets)
    loss = running_sums(control * reward + target * (1 - reward), bets)
    alpha = (1 - LEVEL) / 2
    low = float(running_bound(gain, alpha)) - 1
    high = 1 - float(running_bound(loss, alpha))
    return min(high, 1.0) - max(low, -1.0)


def look_at(played: Played) -> Looks:
    """The bounds of all kinds at all looks."""
    runs, rows = played.effect.shape
    looks = np.arange(FIRST_LOOK, rows + 1, EVERY)
    lows = []
    highs = []
    for run in range(runs):
        own = PairedRows(*(column[run] for column in played.rows))
        low, high = bounds_over_time(own, looks)
        lows.append(low)
        highs.append(high)
    differences = played.rows.apart * played.rows.reward
    counts = np.arange(1, rows + 1)
    mean = (differences.cumsum(axis=1) / counts)[:, looks - 1]
    squares = (differences**2).cumsum(axis=1)[:, looks - 1] / looks
    error = np.sqrt(np.maximum(squares - mean**2, 1e-300) / looks)
    alpha = 1 - LEVEL
    tail = -2 * np.log(alpha)
    rho = (tail + np.log(tail + 1)) / TUNING
    inner = looks * rho + 1
    factor = np.sqrt(2 * inner * np.log(np.sqrt(inner) / alpha) / (looks * rho))
    old = [[old_width(played, run, n) for n in (MEASURED, rows)] for run in range(runs)]
    effect = (played.effect.cumsum(axis=1) / counts)[:, looks - 1]
    paired = (np.stack(lows), np.stack(highs))
    return Looks(
        bounds={
            "paired": paired,
            "z test at every look": (mean - Z * error, mean + Z * error),
            "asymptotic sequence": (mean - factor * error, mean + factor * error),
        },
        effect=effect,
        old_width=np.array(old),
    )


class Rates(NamedTuple):
    """Of a world: per kind the share of runs with a false ship and of runs that are
    covered at all looks, and the widths of the paired bounds over those of one look
    and of the old difference at 2,000 rows and at the end."""

    false_ships: dict[str, float]
    coverage: dict[str, float]
    over_one_look: float
    over_old: tuple[float, float]
    runs: int


def rates(world: World, runs: int, rows: int = ROWS, seed: int = 0) -> Rates:
    """The error rates of a world."""
    looks = look_at(play(world, runs, rows, seed))
    false_ships = {}
    coverage = {}
    for kind, (low, high) in looks.bounds.items():
        is_false = (low > 0) & (looks.effect <= 1e-12)
        is_covered = (low <= looks.effect) & (looks.effect <= high)
        false_ships[kind] = float(is_false.any(axis=1).mean())
        coverage[kind] = float(is_covered.all(axis=1).mean())
    low, high = looks.bounds["paired"]
    plain_low, plain_high = looks.bounds["z test at every look"]
    width = high - low
    ratio = width[:, -1].mean() / (plain_high - plain_low)[:, -1].mean()
    at_measured = (MEASURED - FIRST_LOOK) // EVERY
    early, late = looks.old_width.mean(axis=0)
    over_old = (width[:, at_measured].mean() / early, width[:, -1].mean() / late)
    return Rates(false_ships, coverage, float(ratio), over_old, runs)


class Stops(NamedTuple):
    """Runs of a holdout: the share that showed the effect, the median row and the 80 %
    quantile of these rows, the quantile as predicted after `PREDICTED_AT` rows, and the
    mean effect."""

    share: float
    median: float
    quantile: float
    predicted: float
    effect: float


def stops(world: World, runs: int, rows: int, seed: int = 0) -> Stops:
    """When the lower bound of a holdout passes 0."""
    played = play(world, runs, rows, seed)
    looks = np.arange(FIRST_LOOK, rows + 1, EVERY)
    effect = float(played.effect.mean())
    found = []
    predictions = []
    at_prediction = (PREDICTED_AT - FIRST_LOOK) // EVERY
    for run in range(runs):
        own = PairedRows(*(column[run] for column in played.rows))
        low, high = bounds_over_time(own, looks)
        first = np.argmax(low > 0)
        found.append(looks[first] if low[first] > 0 else np.inf)
        early = own.at(slice(PREDICTED_AT))
        terms = early.differences(float(early.reward.mean()))
        error = float(terms.std()) / np.sqrt(PREDICTED_AT)
        half_width = float(high[at_prediction] - low[at_prediction]) / 2
        detectable = smallest_detectable_effect(half_width, error)
        predictions.append(PREDICTED_AT * (detectable / effect) ** 2)
    return Stops(
        share=float(np.isfinite(found).mean()),
        median=float(np.median(found)),
        quantile=float(np.quantile(found, 0.8)),
        predicted=float(np.median(predictions)),
        effect=effect,
    )


def microseconds_per_row() -> float:
    """The least processor time to add a row, a hundred at once."""
    played = play(FAMILIES[0], 1, 100)
    rows = PairedRows(*(column[0] for column in played.rows))
    times = []
    for _ in range(200):
        start = time.process_time_ns()
        row_units(rows)
        times.append(time.process_time_ns() - start)
    return min(times) / 1e3 / 100


HOLDOUT = World(
    "holdout",
    contexts=1,
    effect=0.4,
    gamma=0.02,
    holdout=0.1,
    is_control_lowest=True,
)
"""A tenth of the traffic gets the control."""
MOST_STOPS = 100


def measure(number: int, runs: int) -> tuple[Rates, Rates]:
    """The error rates of a family: where arms are equal, and where they differ."""
    family = FAMILIES[number]
    equal = rates(family, runs, seed=2 * number)
    return equal, rates(family._replace(effect=0.5), runs, seed=2 * number + 1)


def section(measures: Sequence[tuple[Rates, Rates]], stopped: Stops) -> str:
    """The section of RESULTS.md from what was measured."""
    lines = []
    for family, (equal, moving) in zip(FAMILIES, measures, strict=True):
        ships = [f"{100 * equal.false_ships[kind]:.1f} %" for kind in KINDS]
        covers = [f"{100 * moving.coverage[kind]:.1f} %" for kind in KINDS[:2]]
        early, late = moving.over_old
        widths = [f"{moving.over_one_look:.2f}", f"{early:.2f}", f"{late:.2f}"]
        lines.append([family.name, *ships, *covers, *widths])
    header = ["world", *(f"false ships, {kind}" for kind in KINDS)]
    header += ["covered at all looks, paired", "z test"]
    header += ["width over one look", f"over the old, {MEASURED:,} rows"]
    size = PairedSums().units
    runs = measures[0][0].runs
    return f"""## Differences under adaptive propensities

{runs:,} runs of {ROWS:,} decisions, a look at every {EVERY}th from {FIRST_LOOK} on, nominal 2.5 % a side. A *false ship*
is a lower bound above 0 at any look at which the mean effect so far is at most 0, in worlds with equal arms
(drifting: their rates move by 60 %). Coverage and widths are for worlds whose arms differ by up to half
of their rate. The *old* difference bets on w r + u (1 - r).

{table([*header, f"{ROWS:,} rows"], lines)}

A holdout of 10 % by decision, mean effect {stopped.effect:.3f}: shown in {100 * stopped.share:.0f} % of
{MOST_STOPS:,} runs of 20,000 decisions; median {stopped.median:,.0f}, 80 % quantile {stopped.quantile:,.0f}
({stopped.predicted:,.0f} predicted after {PREDICTED_AT:,}). A row takes {microseconds_per_row():.1f} µs of processor
time, added with 99 others; the state is {size.size:,} sums, {size.nbytes / 1000:.1f} KB.
"""


def report(runs: int) -> Told:
    """The section of RESULTS.md."""
    measures = [measure(number, runs) for number in range(len(FAMILIES))]
    stopped = stops(HOLDOUT, MOST_STOPS, 20_000, seed=99)
    return Told(section(measures, stopped), ())


def main() -> None:
    parser: Any = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    arguments = parser.parse_args()
    print(report(arguments.runs).text)


if __name__ == "__main__":
    main()
