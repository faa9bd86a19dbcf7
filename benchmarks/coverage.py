"""Do intervals cover? Worlds with known values by family, 500 logs each; `python -m
benchmarks.coverage [--logs 500]`.

The logs of a world are answered together (`coverage_batch`), and some of them by
`estimate` itself, which must say the same. Refusals are counted, answers cover or not.
With a given threshold an interval is for the estimator's own mean, which is exact here;
with a chosen setting it is for the value, and its mean over all logs is looked at, too.
Anytime intervals are looked at after every row of every log: one miss at any row is a
miss.
"""

import argparse
from collections import defaultdict
from functools import partial
from math import log, nan, sqrt
from typing import Any, NamedTuple

import numpy as np

from benchmarks.coverage_batch import THRESHOLD, Column, Played, columns
from benchmarks.coverage_worlds import WORLDS, World
from benchmarks.timing import table
from benchmarks.told import Compared, Told
from oddsmith.evaluation import (
    Bets,
    Terms,
    clipped_ips,
    dr,
    estimate,
    ips,
    logged,
    shrunk_dr,
    snips,
    switch_dr,
)
from oddsmith.evaluation.bets import Limited, log_wealth
from oddsmith.evaluation.diagnostics import ASYMPTOTIC
from oddsmith.evaluation.intervals import sums_of_bets
from oddsmith.evaluation.mean_bounds import Sums, log_evidence
from oddsmith.logs import Log
from oddsmith.logs.engines import each

LEVEL = 0.95
NEEDED = -log((1 - LEVEL) / 2)  # evidence against a value on one side
# worlds of each family with bootstrap intervals, anytime ones of dr and chosen settings
SLOW = 2
CHECKED = 3  # logs of each world that `estimate` answers, too
NUMBERS = 200_000  # rows whose bets are held at once
BERNSTEIN = ("ips", "dr", "clipped_ips")
BETS = ("ips", "ips - logged")
BOOTSTRAP = ("ips", "snips")
CHOSEN: dict[str, Any] = {
    "clipped_ips*": clipped_ips,
    "switch_dr*": switch_dr,
    "shrunk_dr*": shrunk_dr,
}
INTERVALS = (
    "beta",
    "normal",
    "bootstrap",
    "bernstein",
    "anytime",
    "anytime_constant",
    "plain",
)


class Tally(NamedTuple):
    """Of `logs` questions, how many were answered, how many answers covered, and the
    sum of the answers' widths."""

    logs: int
    answered: int
    covered: int
    width: float

    @property
    def coverage(self) -> float:
        return self.covered / self.answered if self.answered else nan

    @property
    def holds(self) -> bool:
        """Coverage of at least 0.95, or within two standard errors of it."""
        return not self.answered or self.coverage >= LEVEL - 2 * sqrt(
            LEVEL * (1 - LEVEL) / self.answered
        )

    def __str__(self) -> str:
        if not self.answered:
            return "all refused"
        refused = (
            f" ({1 - self.answered / self.logs:.0%} refused)"
            if self.answered < 0.995 * self.logs
            else ""
        )
        return f"{self.coverage:.3f}{'' if self.holds else ' **below**'}{refused}"


Tallies = dict[tuple[str, str], Tally]
"""By estimator and interval."""


def tally(ends: Any, truth: float) -> Tally:
    """Of intervals (logs, 2), NaN where refused, and what they are to cover."""
    low, high = np.asarray(ends, float).T
    answered = ~np.isnan(low)
    covered = answered & (low <= truth + 1e-12) & (truth <= high + 1e-12)
    return Tally(
        len(low),
        int(answered.sum()),
        int(covered.sum()),
        float((high - low)[answered].sum()),
    )


def together(tallies: list[Tally]) -> Tally:
    return Tally(*(sum(column) for column in zip(*tallies, strict=True)))


def log_of(played: Played, i: int) -> Log:
    """One of the logs."""
    odds, arms = played.world.logger[played.contexts[i]], played.arms[i]
    offered = played.world.offers(played.contexts[i])
    if played.world.drawn:
        own = odds[np.arange(len(arms)), arms]
        return Log(arm=arms, reward=played.rewards[i], propensity=own, offered=offered)
    return Log(arm=arms, reward=played.rewards[i], propensities=odds, offered=offered)


def terms_of(world: World, one: Log, contexts: Any) -> dict[str, Terms]:
    """The terms of all estimators, and of two differences, by name."""
    target, other, model = (
        world.target[contexts],
        world.other[contexts],
        world.model[contexts],
    )
    made = {
        "ips": ips(one, target),
        "dr": dr(one, target, model, beforehand=True),
        "logged": logged(one),
    }
    made["clipped_ips"] = clipped_ips(one, target, THRESHOLD)
    if (weights := made["ips"].weights) is not None and weights.any():
        made["snips"] = snips(one, target)
    made["ips - logged"] = made["ips"].minus(made["logged"])
    made["dr - dr"] = made["dr"].minus(dr(one, other, model, beforehand=True))
    return made


def truths(world: World) -> dict[str, Any]:
    """What each estimator's interval is to cover, as the mean of each row (T,)."""
    value, own = world.values(world.target), world.values(world.logger)
    ratios = np.divide(
        world.target,
        world.logger,
        out=np.zeros_like(world.target),
        where=world.logger > 0,
    )
    clipped = world.values(world.logger, np.minimum(ratios, THRESHOLD))
    same = dict.fromkeys(("ips", "dr", "snips"), value)
    apart = {"ips - logged": value - own, "dr - dr": value - world.values(world.other)}
    return {**same, **apart, "logged": own, "clipped_ips": clipped}


def measure(world: World, logs: int, seed: int, slow: int = SLOW) -> Tallies:
    """The tallies of one world; with bootstrap intervals and chosen settings if its
    number is below `slow`."""
    played, exact = Played(world, *world.draw(logs, seed)), truths(world)
    found, answers = columns(played), {}
    for name, column in found.items():
        for kind in (
            ("beta", "normal", "bernstein") if name in BERNSTEIN else ("beta", "normal")
        ):
            ends = column.interval(
                kind, LEVEL, span(world, name), -1.0 if "-" in name else 0.0
            )
            answers[name, kind] = ends
    check(played, answers)
    answers["ips", "plain"] = found["ips"].interval("plain", LEVEL, (0.0, 1.0), 0.0)
    tallies = {
        (name, kind): tally(ends, float(exact[name].mean()))
        for (name, kind), ends in answers.items()
    }
    for name in (*BETS, "dr") if world.number < slow else BETS:
        for kind in (
            ("anytime",) if world.drift.any() else ("anytime", "anytime_constant")
        ):
            missed, answered = (
                misses(bets_of(played, found[name], name), exact[name], kind),
                ~found[name].any_tail,
            )
            tallies[name, kind] = Tally(
                logs, int(answered.sum()), int((answered & ~missed).sum()), 0.0
            )
    return tallies | (one_by_one(played) if world.number < slow else {})


def span(world: World, name: str) -> tuple[float, float]:
    """The range of terms that `floor` says."""
    most = 1 / world.floor
    return (
        (-most, 1 + most)
        if name == "dr"
        else (0.0, min(most, THRESHOLD) if name == "clipped_ips" else most)
    )


def bets_of(played: Played, column: Column, name: str) -> Bets:
    """What anytime intervals of ips, of its difference from the logger, and of dr bet
    on, (logs, T)."""
    low, high = span(played.world, name)
    if name == "dr":
        return Bets(column.values - low, high - column.values, -low, high)
    w, r = played.at(played.ratios(played.world.target)), played.rewards
    if name == "ips":
        return Bets(w * r, w - w * r, 0.0, 1.0, high)
    return Bets(w * r + 1 - r, w - w * r + r, 1.0, 1.0, high)


def check(played: Played, answers: dict[tuple[str, str], Any]) -> None:
    """Raise if `estimate` has other answers for some of the logs."""
    for i in range(min(CHECKED, len(played.arms))):
        made = terms_of(played.world, log_of(played, i), played.contexts[i])
        for (name, kind), ends in answers.items():
            if name in made:
                # beta and its kin are measured without a floor
                floor = None if kind in ASYMPTOTIC else played.world.floor
                one = estimate(made[name], level=LEVEL, interval=kind, floor=floor)
                np.testing.assert_allclose(
                    ends[i],
                    [one.low, one.high],
                    rtol=0,
                    atol=1e-8,
                    err_msg=f"{name} {kind}",
                )


def one_by_one(played: Played) -> Tallies:
    """The tallies of bootstrap intervals and of chosen settings, one log after the
    other."""
    ends, means = defaultdict(list), defaultdict(list)
    world = played.world
    for i, contexts in enumerate(played.contexts):
        one, target, model = (
            log_of(played, i),
            world.target[contexts],
            world.model[contexts],
        )
        made: dict[tuple[str, str], Terms] = {("ips", "bootstrap"): ips(one, target)}
        if (weights := made["ips", "bootstrap"].weights) is not None and weights.any():
            made["snips", "bootstrap"] = snips(one, target)
        for name, make in CHOSEN.items():
            made[name, "beta"] = make(
                one, target, *(() if make is clipped_ips else (model,))
            )
        for (name, kind), terms in made.items():
            answer = estimate(terms, level=LEVEL, interval=kind)
            ends[name, kind].append((answer.low, answer.high))
            means[name].append(float(terms.values.mean()))
    value = float(truths(world)["ips"].mean())
    found = {key: tally(both, value) for key, both in ends.items()}
    own = {
        (f"{name} mean", "beta"): tally(ends[name, "beta"], float(np.mean(means[name])))
        for name in CHOSEN
    }
    return found | own


def misses(bets: Bets, truth: Any, kind: str) -> Any:
    """For each log (logs,), whether its anytime interval misses the mean of the truth
    (T,) so far after any row."""
    running = np.cumsum(truth) / np.arange(1, len(truth) + 1)
    means = running + bets.gain_shift, bets.loss_shift - running
    wrong = np.zeros(len(bets.gain), bool)
    for part in np.array_split(
        np.arange(len(wrong)), max(1, 8 * bets.gain.size // NUMBERS)
    ):
        own = bets._replace(gain=bets.gain[part], loss=bets.loss[part])
        if kind == "anytime":
            both = sums_of_bets(own, 0.0, every=True)
            peaks = [
                running_peak(sums, np.broadcast_to(mean, own.gain.shape))
                for sums, mean in zip(both, means, strict=True)
            ]
        else:
            peaks = [
                constant_peak(x, y, own, mean[-1])
                for x, y, mean in zip(
                    (own.gain, own.loss), (own.loss, own.gain), means, strict=True
                )
            ]
        for peak in peaks:
            wrong[part] |= peak >= NEEDED
    return wrong


def constant_peak(x: Any, y: Any, bets: Bets, mean: float) -> Any:
    """The largest wealth (logs,) of bets against a constant mean."""
    limited = None
    if bets.limit != np.inf:
        limited = Limited(y, bets.limit, bets.total)
    wealth = log_wealth(x, np.full(len(x), mean), looks=x.shape[1], limited=limited)
    return wealth.max(axis=-1)


def running_peak(sums: Sums, mean: Any) -> Any:
    """The largest evidence (logs,) against the running means (logs, T); a bound on it
    where that is not enough."""
    peak = (sums.gains - sums.bets.rates * (sums.rows * mean)[..., None]).max(
        axis=(1, 2)
    )
    close = peak >= NEEDED
    if close.any():
        peak[close] = log_evidence(
            Sums(sums.rows[close], sums.gains[close], sums.bets), mean[close]
        ).max(axis=-1)
    return peak


def by_family(results: list[Tallies]) -> dict[str, Tallies]:
    """The tallies of all worlds of a family together."""
    parts: dict[str, dict[tuple[str, str], list[Tally]]] = {}
    for world, result in zip(WORLDS, results, strict=True):
        for key, one in result.items():
            parts.setdefault(world.family, {}).setdefault(key, []).append(one)
    return {
        family: {key: together(ones) for key, ones in found.items()}
        for family, found in parts.items()
    }


def worst(results: list[Tallies], kind: str) -> str:
    """The world with the least coverage of an interval, of those with at least 100
    answers."""
    ones = [
        (one.coverage, f"{one} of {name} in {world.family} {world.number}")
        for world, result in zip(WORLDS, results, strict=True)
        for (name, own), one in result.items()
        if own == kind and one.answered >= 100
    ]
    return min(ones)[1] if ones else "none"


def compared(families: dict[str, Tallies]) -> tuple[Compared, ...]:
    """Our intervals of ips beside the plain ones: where they fail, and what that costs
    in width."""
    ours, plain = (
        [found["ips", kind] for found in families.values()]
        for kind in ("beta", "plain")
    )
    failing = [float(sum(not one.holds for one in ones)) for ones in (ours, plain)]
    answered = [found for found in families.values() if found["ips", "plain"].answered]
    wider = float(np.mean([_wider(found) for found in answered]))
    below, peer = (
        f"families of worlds, of {len(answered)}, where intervals cover less than 0.95",
        "mean ± z sd/√T",
    )
    return (
        Compared(below, peer, failing[0], failing[1], "families"),
        Compared("width of these intervals", peer, wider, 1.0, "× theirs"),
    )


def report(logs: int = 500, engine: str = "local") -> Told:
    """The tables as Markdown."""
    results = [
        one
        for _, one in sorted(
            each(partial(measure, logs=logs, seed=11), WORLDS, engine=engine)
        )
    ]
    families = by_family(results)
    counts = {
        family: sum(world.family == family for world in WORLDS) for family in families
    }
    parts = []
    for kind in INTERVALS:
        names = list(
            dict.fromkeys(
                name
                for found in families.values()
                for name, own in found
                if own == kind
            )
        )
        rows = [
            [
                family,
                str(counts[family]),
                *(str(found.get((name, kind), "")) for name in names),
            ]
            for family, found in families.items()
        ]
        shown = table(["family", "worlds", *names], rows)
        parts.append(
            f"**{kind}**; the least of a world with 100 answers is "
            f"{worst(results, kind)}.\n\n{shown}\n"
        )
    wide = [
        f"{family} {_wider(found):.2f}"
        for family, found in families.items()
        if found["ips", "plain"].answered
    ]
    text = f"""## Intervals, if the value is known

{len(WORLDS)} worlds, {logs:,} logs each, nominal coverage {LEVEL:g}. An entry is the share of intervals that cover the value,
and the share of refusals. **below** marks less than {LEVEL:g} by more than two standard errors. Anytime intervals must cover
after every row (for a drifting value: its mean so far). Bootstrap, anytime dr, chosen settings (*): {SLOW} of each family;
of these, *mean* is the estimator's own mean over all logs, the rest is the value. *Plain* is mean ± z sd/√T.

{chr(10).join(parts)}
Mean width of the beta intervals of ips over that of plain ones: {", ".join(wide)}.
"""
    return Told(text, compared(families))


def _wider(found: Tallies) -> float:
    wide, plain = found["ips", "beta"], found["ips", "plain"]
    return (wide.width / wide.answered) / (plain.width / plain.answered)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=500)
    parser.add_argument("--engine", default="local")
    arguments = parser.parse_args()
    print(report(arguments.logs, arguments.engine).text)


if __name__ == "__main__":
    main()
