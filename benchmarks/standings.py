"""What a family's results come to: auto against single peers, the best of each set in
hindsight, and its own experts.

What is compared is the regret a round (on labels the share of wrong answers), in worlds
the regret over that of uniform play. Two configurations are compared on the shuffles
that both played. Labels, clicks and worlds are averaged over sets; choices, whose
rewards have units of their own, by geometric means.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm

from benchmarks.games import CHOICES
from oddsmith.core.arrays import Array, Ints

AUTO = "oddsmith: auto"
LEAST = 1e-3
"""A regret of less counts as so much in ratios: a thousandth of a reward each round."""
MUCH_WORSE, MANY_ROUNDS = 1.10, 1000

Record = dict[str, Any]


class Pair(NamedTuple):
    """Two configurations, set by set, on the shuffles both played: values, squared
    standard errors, and rounds."""

    mine: Array
    theirs: Array
    spread: Array
    other_spread: Array
    rounds: Ints

    def wins(self, factor: float = 1.0) -> Array:
        """1 where mine is significantly below `factor` times theirs, -1 where it is
        above, else 0 (one-sided, 0.05).

        As in the study of Bietti, Agarwal and Langford: a z-test with the variances of
        both, those of a single shuffle.
        """
        scale = np.sqrt(np.maximum(self.spread + factor**2 * self.other_spread, 1e-300))
        z = (factor * self.theirs - self.mine) / scale
        signs: Array = np.sign(z) * (norm.sf(np.abs(z)) < 0.05)
        return signs


class Field(NamedTuple):
    """The runs of a family (of clicks: at one noise): by configuration, then by set and
    shuffle."""

    family: str
    noise: str
    runs: dict[str, dict[tuple[str, int], Record]]

    @property
    def title(self) -> str:
        return f"{self.family} {self.noise}".strip()

    @property
    def sets(self) -> list[str]:
        return sorted({name for found in self.runs.values() for name, _ in found})

    @property
    def complete(self) -> list[str]:
        """Configurations that have played every set, the best first."""
        found = [
            name
            for name, runs in self.runs.items()
            if len({s for s, _ in runs}) == len(self.sets)
        ]
        return sorted(found, key=self.score)

    @property
    def peers(self) -> list[str]:
        """Complete configurations of others, the best single one first."""
        return [name for name in self.complete if not name.startswith("oddsmith")]

    @property
    def own(self) -> list[str]:
        """Complete configurations of ours but auto, the best first."""
        return [
            name
            for name in self.complete
            if name.startswith("oddsmith") and name != AUTO
        ]

    def value(self, record: Record) -> float:
        """What is compared of a run."""
        by = record["uniform"] if self.family == "worlds" else record["steps"]
        return float(record["regret"] / by)

    def spread(self, record: Record) -> float:
        """The squared standard error of that value, from the squares of each round's
        regret."""
        n, mean = record["steps"], record["regret"] / record["steps"]
        variance = max(record["squares"] / n - mean**2, 0.0) / max(n - 1, 1)
        return float(variance * (self.value(record) / mean) ** 2) if mean else 0.0

    def values(self, name: str) -> Array:
        """Means over the shuffles a configuration played, set by set."""
        runs = self.runs[name]
        return np.array(
            [
                np.mean([self.value(r) for (s, _), r in runs.items() if s == one])
                for one in self.sets
            ]
        )

    def score(self, name: str) -> float:
        """What a configuration is ranked by: the mean over sets."""
        return self.mean(self.values(name))

    def mean(self, values: Array) -> float:
        """The mean over sets; for choices the geometric one."""
        if self.family in CHOICES:
            return float(np.exp(np.log(np.maximum(values, LEAST)).mean()))
        return float(values.mean())

    def pair(self, mine: str, theirs: str) -> Pair:
        """Both on the shuffles they share; on all of theirs where they share none."""
        rows, shared = [], set(self.runs[mine]) & set(self.runs[theirs])
        for one in self.sets:
            places = [place for place in shared if place[0] == one]
            both = [
                [runs[place] for place in (places or runs) if place[0] == one]
                for runs in (self.runs[mine], self.runs[theirs])
            ]
            values = [np.mean([self.value(r) for r in found]) for found in both]
            spreads = [np.mean([self.spread(r) for r in found]) for found in both]
            rows.append([*values, *spreads, both[0][0]["steps"]])
        means, others, spread, other_spread, rounds = (
            np.array(rows, dtype=np.float64).reshape(-1, 5).T
        )
        return Pair(means, others, spread, other_spread, rounds.astype(np.int64))

    def ratio(self, mine: str, theirs: str) -> float:
        """What one is ranked by over what the other is, on shared shuffles."""
        pair = self.pair(mine, theirs)
        return self.mean(pair.mine) / max(self.mean(pair.theirs), 1e-12)


def named(record: Record) -> str:
    return f"{record['library']}: {record['name']}"


def fields(records: Iterable[Record]) -> list[Field]:
    """The records by family and noise."""
    found: dict[tuple[str, str], Field] = {}
    for r in records:
        place = r["family"], r["noise"]
        field = found.setdefault(place, Field(*place, {}))
        field.runs.setdefault(named(r), {})[r["set"], r["shuffle"]] = r
    return list(found.values())


def hindsight(field: Field) -> tuple[Array, list[str]]:
    """Set by set: auto's ratio to the peer that is the best one there, and that
    peer."""
    values = np.stack([field.values(name) for name in field.peers], axis=1)
    which = [field.peers[k] for k in values.argmin(axis=1)]
    ratios = []
    for place, name in enumerate(which):
        pair = field.pair(AUTO, name)
        ratios.append(pair.mine[place] / max(pair.theirs[place], LEAST))
    return np.array(ratios), which


def much_worse(field: Field, peer: str) -> tuple[list[str], int]:
    """Sets of many rounds where auto is significantly worse than 1.10 times a peer, and
    how many sets have so many."""
    pair = field.pair(AUTO, peer)
    many = pair.rounds >= MANY_ROUNDS
    worse = many & (pair.wins(MUCH_WORSE) < 0)
    return [name for name, bad in zip(field.sets, worse, strict=True) if bad], int(
        many.sum()
    )


def against_own(field: Field) -> dict[str, float]:
    """By set, auto's regret over that of its best expert alone, on the shuffles that
    all of them played."""
    alone = [runs for name, runs in field.runs.items() if "alone: " in name]
    if AUTO not in field.runs or not alone:
        return {}
    shared: dict[str, list[tuple[str, int]]] = {}
    for place in sorted(set(field.runs[AUTO]).intersection(*alone)):
        shared.setdefault(place[0], []).append(place)
    found = {}
    for name, places in shared.items():
        means = [
            float(np.mean([field.value(runs[p]) for p in places]))
            for runs in (field.runs[AUTO], *alone)
        ]
        found[name] = means[0] / max(min(means[1:]), 1e-9)
    return found


class Answers(NamedTuple):
    """How auto does in a field: ratios to single peers and to the best of each set in
    hindsight, wins, own experts."""

    peer: str
    ratio: float
    vowpal: str
    vowpal_ratio: float
    in_hindsight: float
    net: int
    least_net: int
    worse: list[str]
    many: int
    own: dict[str, float]

    @property
    def own_worst(self) -> str:
        """The set where auto is the farthest behind its own best expert."""
        return max(self.own, key=lambda name: self.own[name])


def answers(field: Field) -> Answers | None:
    """All of that, or None where auto or all peers have not played every set."""
    if AUTO not in field.complete or not field.peers:
        return None
    best, vowpal = (
        field.peers[0],
        next((p for p in field.peers if p.startswith("vowpal")), ""),
    )
    worse, many = much_worse(field, best)
    return Answers(
        best,
        field.ratio(AUTO, best),
        vowpal,
        field.ratio(AUTO, vowpal) if vowpal else np.nan,
        float(np.exp(np.log(np.maximum(hindsight(field)[0], 1e-6)).mean())),
        net(field, best),
        min(net(field, peer) for peer in field.peers),
        worse,
        many,
        against_own(field),
    )


def net(field: Field, peer: str) -> int:
    """Sets that auto wins significantly, minus those it loses."""
    return int(field.pair(AUTO, peer).wins().sum())


def median_us(field: Field, name: str) -> float:
    """The median over runs of CPU time for a round, in µs."""
    return float(np.median([r["us"] for r in field.runs[name].values()]))
