"""Values: what targets would have earned, by sums from which intervals for all times are made at once.

Targets are the logger itself (`served`), uniform odds over eligible arms, each named arm always, and in shadow mode the
policy's own odds. Of a decision that counts, with weight w = π(a)/p(a), a target has the bets on w r and on w (1 - r)
(`evaluation.running`) and those that the mean weight is above 1 (`evaluation.betting`): sums in any order, from which
a reward that turns into another is taken out. Where w is 0 all of them are known, so only the drawn arm is written.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import exp
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from oddsmith.arrays import Array
from oddsmith.evaluation.betting import FRACTIONS
from oddsmith.evaluation.diagnostics import Diagnostics, broken
from oddsmith.evaluation.running import Sums as RunningSums
from oddsmith.evaluation.running import bets_within, running_bound
from oddsmith.storage.accounts import Count
from oddsmith.storage.drawn import Drawn
from oddsmith.storage.sums.named import Named
from oddsmith.storage.sums.packing import pack_floats, unpack_floats

__all__ = ["POLICY", "SERVED", "Target", "UNIFORM", "Value", "Values"]

_BETS = bets_within()
_B = len(_BETS.rates)
_RATES = np.concatenate([_BETS.rates, _BETS.rates, FRACTIONS])
_CENTRES = np.concatenate([_BETS.centres, _BETS.centres, np.ones(len(FRACTIONS))])
_BELOW = _RATES * _CENTRES
_IF_ZERO: Array = np.log1p(-_BELOW)
_KNOWN = _BETS.rates * _BETS.centres  # what each row has, beside its logarithm
SERVED, UNIFORM, POLICY = "served", "uniform", "policy"


class Value(NamedTuple):
    """A target's value in [0, 1] with an interval, or a sentence on why there is none; `n` rows are worth `ess`."""

    name: str
    kind: str
    n: int
    ess: float
    value: float | None = None
    low: float | None = None
    high: float | None = None
    refused: str | None = None


@dataclass(slots=True)
class Target:
    """The sums of one target over `rows` whose weight is not 0: ln(1 + λ (x - c)) of all its bets, and w r.

    `missing` is the mass on arms that could not be drawn, `squares` Σ E[w² | x]; both are over all `n` rows, which are
    those of decisions made at position `since` or later.
    """

    n: int = 0
    squares: float = 0.0
    missing: float = 0.0
    rows: int = 0
    total: float = 0.0
    since: int = 0
    bets: Array = field(default_factory=lambda: np.zeros(len(_RATES)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and (self.since, self.numbers()) == (other.since, other.numbers())

    __hash__ = None  # type: ignore[assignment]

    def copy(self) -> "Target":
        """The same, to go on from; the array of bets is never written into."""
        return Target(self.n, self.squares, self.missing, self.rows, self.total, self.since, self.bets)

    def add(self, earned: float, logarithms: Array, *, is_new: bool) -> None:
        """A row with a weight above 0 counts, or turns into another: w r and the logarithms, or how these change."""
        self.rows += is_new
        self.total += earned
        self.bets = self.bets + logarithms

    def value(self, name: str, kind: str, level: float) -> Value:
        """The value with its interval, by the rules of `oddsmith evaluate --interval anytime`."""
        ess = float(self.n) if kind == SERVED else self.n**2 / self.squares if self.squares > 0 else 0.0
        if self.n < 2:
            few = f"an interval needs at least 2 rows with rewards; got {self.n}"
            return Value(name, kind, self.n, ess, refused=few)
        sums = self.bets + (self.n - self.rows) * _IF_ZERO
        grown = float(logsumexp(sums[2 * _B :])) - np.log(len(FRACTIONS))
        missing = self.missing / self.n
        facts = Diagnostics(self.n, ess, 1.0 / self.n, missing, 1.0 - missing, 0.0, exp(min(700.0, grown)))
        why = broken(facts, "anytime")
        if why:
            return Value(name, kind, self.n, ess, refused="; ".join(why.values()))
        gains = sums[: 2 * _B].reshape(2, _B) + self.n * _KNOWN
        low, loss = running_bound(RunningSums(np.full(2, float(self.n)), gains, _BETS), (1 - level) / 2).tolist()
        return Value(name, kind, self.n, ess, self.total / self.n, min(low, 1.0), max(0.0, 1.0 - loss))

    def numbers(self) -> list[float]:
        """All of it, for snapshots."""
        return [self.n, self.squares, self.missing, self.rows, self.total, *self.bets.tolist()]  # `since` is no float

    @classmethod
    def of_numbers(cls, given: list[float]) -> "Target":
        """What `numbers` gave."""
        n, squares, missing, rows, total, *bets = given
        return cls(int(n), squares, missing, int(rows), total, 0, np.array(bets))


@lru_cache(maxsize=256)
def _rated(reward: float) -> Array:
    """λ x / w of all bets of a row with this reward."""
    rated: Array = _RATES * np.repeat((reward, 1.0 - reward, 1.0), (_B, _B, len(FRACTIONS)))
    return rated


def _logarithms(weights: Array, reward: float) -> Array:
    """ln(1 + λ (x - c)) of all bets of a row (targets, bets), by the weights of targets (targets, 1)."""
    logarithms: Array = np.log1p(weights * _rated(reward) - _BELOW)
    return logarithms


@dataclass(slots=True)
class Values:
    """The sums of all targets."""

    plain: dict[str, Target] = field(default_factory=lambda: {SERVED: Target(), UNIFORM: Target(), POLICY: Target()})
    arms: dict[str, Target] = field(default_factory=dict)
    looks: int = -1

    def copy(self) -> "Values":
        """The same, to go on from."""
        plain, arms = ({name: one.copy() for name, one in part.items()} for part in (self.plain, self.arms))
        return Values(plain, arms, self.looks)

    def count(self, count: Count, drawn: Drawn, odds: Mapping[str, float], named: Named) -> None:
        """A decision counts; `odds` are those of all its arms, by name."""
        if self.looks != named.looks:
            self._name(named)
        p = drawn.odds_drawn
        if p <= 0:
            return
        share = 1.0 / drawn.n_eligible
        if count.before is None:
            self._support(count.made, drawn, odds, named)
        arm = self.arms.get(drawn.arm)
        weights = [1.0, share / p, _own(drawn), 1.0 / p]
        targets = [*self.plain.values(), arm if arm is not None and count.made >= arm.since else None]
        table = np.array(weights)[:, None]
        rows = _logarithms(table, count.value)
        change = count.value
        if count.before is not None:
            rows, change = rows - _logarithms(table, count.before), change - count.before
        for weight, target, logarithms in zip(weights, targets, rows, strict=True):
            if target is not None and weight > 0:
                target.add(weight * change, logarithms, is_new=count.before is None)

    def told(self, named: Named, level: float, *, shadow: bool) -> Iterator[Value]:
        """The value of each target: the policy's only in shadow mode, arms in their order."""
        yield self.plain[SERVED].value(SERVED, SERVED, level)
        if shadow:
            yield self.plain[POLICY].value(POLICY, POLICY, level)
        yield self.plain[UNIFORM].value(UNIFORM, UNIFORM, level)
        for arm in named.since:
            yield self.arms.get(arm, Target()).value(arm, "arm", level)

    def _support(self, made: int, drawn: Drawn, odds: Mapping[str, float], named: Named) -> None:
        """What the logged odds say about each target, whatever was drawn."""
        able = [True] * len(odds) if drawn.eligible is None else drawn.eligible.tolist()
        share, inverse, barred = 1.0 / drawn.n_eligible, 0.0, 0
        for q, is_able in zip(odds.values(), able, strict=True):
            if is_able and q > 0:
                inverse += 1.0 / q
            barred += is_able and q <= 0
        uniform, policy = self.plain[UNIFORM], self.plain[POLICY]
        uniform.squares += share * share * inverse
        uniform.missing += share * barred
        squares, missing = _own_support(drawn)
        policy.squares += squares
        policy.missing += missing
        for target in self.plain.values():
            target.n += 1
        eligible = None if named.are_fixed else dict(zip(odds, able, strict=True))
        for arm, target in self.arms.items():
            if eligible is None or (made >= target.since and eligible.get(arm, False)):
                q = odds.get(arm, 0.0)
                target.n += 1
                target.squares += 1.0 / q if q > 0 else 0.0
                target.missing += q <= 0

    def _name(self, named: Named) -> None:
        """Arms that are named anew begin now; fixed ones had no odds before."""
        self.looks = named.looks
        rows, before = self.plain[SERVED].n, self.arms
        self.arms = {}
        for arm, since in named.since.items():
            known = before.get(arm)
            fresh = Target(rows, 0.0, float(rows)) if named.are_fixed else Target(since=since)
            self.arms[arm] = known if known is not None and known.since == since else fresh

    def to_json(self) -> dict[str, Any]:
        """What a snapshot holds of them."""
        numbers = (number for one in (*self.plain.values(), *self.arms.values()) for number in one.numbers())
        arms = [[arm, one.since] for arm, one in self.arms.items()]
        return {"arms": arms, "sums": pack_floats(numbers), "looks": self.looks}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "Values":
        """What `to_json` gave."""
        numbers, size = unpack_floats(given["sums"]), 5 + len(_RATES)
        targets = [Target.of_numbers(numbers[first : first + size]) for first in range(0, len(numbers), size)]
        plain = dict(zip((SERVED, UNIFORM, POLICY), targets, strict=False))
        arms = {}
        for (arm, since), target in zip(given["arms"], targets[3:], strict=True):
            target.since, arms[arm] = since, target
        return cls(plain, arms, given["looks"])


def _own(drawn: Drawn) -> float:
    """The weight of the policy's own odds: 1 where it drew itself, 0 where they were not kept."""
    if not drawn.shadow:
        return 1.0
    return 0.0 if drawn.own is None else float(drawn.own.odds[drawn.number]) / drawn.odds_drawn


def _own_support(drawn: Drawn) -> tuple[float, float]:
    """E[w² | x] of the policy's own odds, and their mass on arms that could not be drawn."""
    if not drawn.shadow:
        return 1.0, 0.0
    if drawn.own is None:
        return 0.0, 1.0
    own, met = drawn.own.odds, drawn.odds > 0
    return float((own[met] ** 2 / drawn.odds[met]).sum()), float(own[~met].sum())
