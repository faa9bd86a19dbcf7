"""Do intervals cover? Worlds with known values by family, 500 logs each; `python -m benchmarks.coverage [--logs 500]`.

Every log is a `Log`, every answer one of `estimate`: refusals are counted, answers cover or not. A biased estimator's
interval is for its own mean: exact for a given threshold, the mean over all logs for a chosen one. Anytime intervals
are looked at after every row of every log: one miss at any row is a miss.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from math import log, nan, sqrt
from typing import Any, NamedTuple

import numpy as np

from benchmarks.coverage_worlds import WORLDS, World
from benchmarks.timing import table
from oddsmith.engines import each
from oddsmith.evaluation import Terms, clipped_ips, dr, estimate, ips, logged, shrunk_dr, snips, switch_dr
from oddsmith.evaluation.betting import log_wealth
from oddsmith.evaluation.diagnostics import broken, diagnose
from oddsmith.evaluation.running import log_evidence, running_sums
from oddsmith.logs import Log

LEVEL = 0.95
THRESHOLD = 5.0  # of clipped_ips
SLOW = 2  # worlds of each family with bootstrap intervals, anytime ones of dr and chosen settings
NUMBERS = 200_000  # rows whose bets are held at once
BERNSTEIN = ("ips", "dr", "clipped_ips")
BETS = ("ips", "ips - logged")
BOOTSTRAP = ("ips", "snips")
CHOSEN: dict[str, Any] = {"clipped_ips*": clipped_ips, "switch_dr*": switch_dr, "shrunk_dr*": shrunk_dr}
INTERVALS = ("beta", "normal", "bootstrap", "bernstein", "anytime", "anytime_constant")


class Tally(NamedTuple):
    """Of `logs` questions, how many were answered, how many answers covered, and the sum of the answers' widths."""

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
        return not self.answered or self.coverage >= LEVEL - 2 * sqrt(LEVEL * (1 - LEVEL) / self.answered)

    def __str__(self) -> str:
        if not self.answered:
            return "all refused"
        refused = f" ({1 - self.answered / self.logs:.0%} refused)" if self.answered < 0.995 * self.logs else ""
        return f"{self.coverage:.3f}{'' if self.holds else ' **below**'}{refused}"


Tallies = dict[tuple[str, str], Tally]
"""By estimator and interval."""


def tally(ends: Any, truth: float) -> Tally:
    """Of intervals (logs, 2), NaN where refused, and what they are to cover."""
    low, high = np.asarray(ends, float).T
    answered = ~np.isnan(low)
    covered = answered & (low <= truth + 1e-12) & (truth <= high + 1e-12)
    return Tally(len(low), int(answered.sum()), int(covered.sum()), float((high - low)[answered].sum()))


def together(tallies: list[Tally]) -> Tally:
    return Tally(*(sum(column) for column in zip(*tallies, strict=True)))


def played(world: World, logs: int, seed: int) -> Iterator[tuple[Log, Any]]:
    """So many logs of a world, each with the contexts of its rows."""
    for contexts, arms, rewards in zip(*world.draw(logs, seed), strict=True):
        odds = world.logger[contexts]
        if world.drawn:
            yield Log(arm=arms, reward=rewards, propensity=odds[np.arange(len(arms)), arms]), contexts
        else:
            yield Log(arm=arms, reward=rewards, propensities=odds), contexts


def terms_of(world: World, one: Log, contexts: Any) -> dict[str, Terms]:
    """The terms of all estimators, and of two differences, by name."""
    target, other, model = world.target[contexts], world.other[contexts], world.model[contexts]
    made = {"ips": ips(one, target), "dr": dr(one, target, model), "logged": logged(one)}
    made["clipped_ips"] = clipped_ips(one, target, THRESHOLD)
    if (weights := made["ips"].weights) is not None and weights.any():
        made["snips"] = snips(one, target)
    made["ips - logged"] = made["ips"].minus(made["logged"])
    made["dr - dr"] = made["dr"].minus(dr(one, other, model))
    return made


def truths(world: World) -> dict[str, Any]:
    """What each estimator's interval is to cover, as the mean of each row (T,)."""
    value, own = world.values(world.target), world.values(world.logger)
    ratios = np.divide(world.target, world.logger, out=np.zeros_like(world.target), where=world.logger > 0)
    clipped = world.values(world.logger, np.minimum(ratios, THRESHOLD))
    same = dict.fromkeys(("ips", "dr", "snips"), value)
    apart = {"ips - logged": value - own, "dr - dr": value - world.values(world.other)}
    return {**same, **apart, "logged": own, "clipped_ips": clipped}


def measure(world: World, logs: int, seed: int, slow: int = SLOW) -> Tallies:
    """The tallies of one world; with bootstrap intervals and chosen settings if its number is below `slow`."""
    ends: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    bets, refused, means = defaultdict(list), defaultdict(list), defaultdict(list)
    for one, contexts in played(world, logs, seed):
        made = terms_of(world, one, contexts)
        chosen = _chosen(world, one, contexts) if world.number < slow else {}
        for name, terms in {**made, **chosen}.items():
            for kind in _kinds(name, chosen=name in chosen, slow=world.number < slow):
                answer = estimate(terms, level=LEVEL, interval=kind, floor=world.floor)
                ends[name, kind].append((answer.low, answer.high))
            means[name].append(float(terms.values.mean()))
        for name in (*BETS, "dr") if world.number < slow else BETS:
            bets[name].append(made[name].betting(world.floor))
            refused[name].append(bool(broken(diagnose(made[name]), "anytime")))
    exact = truths(world)
    wanted = {name: float(exact[name].mean()) if name in exact else float(np.mean(means[name])) for name in means}
    found = {(name, kind): tally(both, wanted[name]) for (name, kind), both in ends.items()}
    for name, columns in bets.items():
        for kind in ("anytime",) if world.drift.any() else ("anytime", "anytime_constant"):
            missed = misses(columns, exact[name], kind)
            answered = ~np.array(refused[name])
            found[name, kind] = Tally(logs, int(answered.sum()), int((answered & ~missed).sum()), 0.0)
    return found


def misses(bets: Any, truth: Any, kind: str) -> Any:
    """For each log's bets, whether its anytime interval misses the mean of the truth (T,) so far after any row."""
    running, wrong = np.cumsum(truth) / np.arange(1, len(truth) + 1), []
    for part in np.array_split(np.arange(len(bets)), max(1, len(bets) * len(truth) // NUMBERS)):
        peaks = []
        for column, mean in (("gain", running + bets[0].gain_shift), ("loss", bets[0].loss_shift - running)):
            x = np.stack([getattr(bets[i], column) for i in part])
            if kind == "anytime":
                evidence = log_evidence(running_sums(x, every=True), np.broadcast_to(mean, x.shape))
            else:
                evidence = log_wealth(x, np.full(len(x), mean[-1]), looks=x.shape[1])
            peaks.append(evidence.max(axis=-1))
        wrong.append(np.max(peaks, axis=0) >= -log((1 - LEVEL) / 2))
    return np.concatenate(wrong)


def _chosen(world: World, one: Log, contexts: Any) -> dict[str, Terms]:
    target, model = world.target[contexts], world.model[contexts]
    return {name: make(one, target, *(() if make is clipped_ips else (model,))) for name, make in CHOSEN.items()}


def _kinds(name: str, *, chosen: bool, slow: bool) -> list[str]:
    """The intervals of one look that an estimator is asked for."""
    if chosen:
        return ["beta"]
    more = ["bernstein"] if name in BERNSTEIN else []
    return ["beta", "normal", *more, *(["bootstrap"] if slow and name in BOOTSTRAP else [])]


def by_family(results: list[Tallies]) -> dict[str, Tallies]:
    """The tallies of all worlds of a family together."""
    parts: dict[str, dict[tuple[str, str], list[Tally]]] = {}
    for world, result in zip(WORLDS, results, strict=True):
        for key, one in result.items():
            parts.setdefault(world.family, {}).setdefault(key, []).append(one)
    return {family: {key: together(ones) for key, ones in found.items()} for family, found in parts.items()}


def worst(results: list[Tallies], kind: str) -> str:
    """The world with the least coverage of an interval, of those with at least 100 answers."""
    ones = [
        (one.coverage, f"{one} of {name} in {world.family} {world.number}")
        for world, result in zip(WORLDS, results, strict=True)
        for (name, own), one in result.items()
        if own == kind and one.answered >= 100
    ]
    return min(ones)[1] if ones else "none"


def report(logs: int = 500, engine: str = "local") -> str:
    """The tables as Markdown."""
    results = [one for _, one in sorted(each(partial(measure, logs=logs, seed=11), WORLDS, engine=engine))]
    families = by_family(results)
    counts = {family: sum(world.family == family for world in WORLDS) for family in families}
    parts = []
    for kind in INTERVALS:
        names = list(dict.fromkeys(name for found in families.values() for name, own in found if own == kind))
        rows = [
            [family, str(counts[family]), *(str(found.get((name, kind), "")) for name in names)]
            for family, found in families.items()
        ]
        shown = table(["family", "worlds", *names], rows)
        parts.append(f"**{kind}**; the least of a world with 100 answers is {worst(results, kind)}.\n\n{shown}\n")
    wide = [f"{family} {_wider(found):.2f}" for family, found in families.items() if found["ips", "normal"].answered]
    return f"""## Intervals, where the value is known

{len(WORLDS)} worlds, {logs:,} logs each, nominal coverage {LEVEL:g}. An entry is the share of answers that cover, and
the share refused. **below** marks less than {LEVEL:g} by more than two standard errors. Anytime: covered after every
row at once (of a drifting value: its mean so far). Bootstrap, anytime dr and chosen settings (*): {SLOW} worlds of each
family.

{chr(10).join(parts)}
Mean width of the beta intervals of ips over that of the normal ones that are answered: {", ".join(wide)}.
"""


def _wider(found: Tallies) -> float:
    wide, plain = found["ips", "beta"], found["ips", "normal"]
    return (wide.width / wide.answered) / (plain.width / plain.answered)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=500)
    parser.add_argument("--engine", default="local")
    arguments = parser.parse_args()
    print(report(arguments.logs, arguments.engine))


if __name__ == "__main__":
    main()
