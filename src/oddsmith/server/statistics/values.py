"""Values: what targets would have earned, by sums from which intervals for all times
are made at once.

Targets are the logger itself (`served`), uniform odds over eligible arms, each named
arm always, and in shadow mode the policy's own odds. Of a decision that counts, with
weight w = π(a)/p(a), a target has the bets on w r and on w (1 - r)
(`evaluation.running`) and those that the mean weight is above 1 (`evaluation.betting`):
sums in any order, from which a reward that turns into another is taken out. Where w is
0 all of them are known, so only the drawn arm is written. Bets that the mean weight is
below 1 need Σ w alone, because w is never below 0 and the logged odds say what its
variance is (`_deflation`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import exp, log
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.special import logsumexp

from oddsmith.core.arrays import Array, Ints
from oddsmith.core.decision import LEAST_PROPENSITY
from oddsmith.evaluation.bets import FRACTIONS
from oddsmith.evaluation.diagnostics import ROUNDED, Diagnostics, broken_rules
from oddsmith.evaluation.exact_sums import in_units, of_units
from oddsmith.evaluation.mean_bounds import Sums as RunningSums
from oddsmith.evaluation.mean_bounds import bets_within, running_bound
from oddsmith.server.fold.accounts import Count
from oddsmith.server.statistics.arm_names import NamedArms
from oddsmith.server.statistics.snapshot import pack_units, unpack_units
from oddsmith.server.store.protocol import Draw

__all__ = ["POLICY", "SERVED", "Target", "UNIFORM", "Value", "Values"]

_BETS = bets_within()
_B = len(_BETS.rates)
_RATES = np.concatenate([_BETS.rates, _BETS.rates, FRACTIONS])
_CENTRES = np.concatenate([_BETS.centres, _BETS.centres, np.ones(len(FRACTIONS))])
_IF_ZERO: Array = np.log1p(-_RATES * _CENTRES)
_KNOWN = _BETS.rates * _BETS.centres  # what each row has, beside its logarithm
_LIGHT: Array = np.exp2(
    np.arange(1.0, -12.0, -1.0)
)  # λ of bets on weights that are too light
_WAIT = 96  # rows that are added at once, at most
SERVED, UNIFORM, POLICY = "served", "uniform", "policy"
# of an arm, its name or the target's, weight and reward
_Row: TypeAlias = tuple[bool, str, float, float]


class Value(NamedTuple):
    """A target's value in [0, 1] with an interval, or a sentence on why there is none;
    `n` rows are worth `ess`.

    `is_cut` says that the mean of weighted rewards is outside the interval, so that
    `value` is the nearer end.
    """

    name: str
    kind: str
    n: int
    ess: float
    value: float | None = None
    low: float | None = None
    high: float | None = None
    refused: str | None = None
    is_cut: bool = False


@dataclass(slots=True)
class Target:
    """The sums of one target over `rows` whose weight is not 0: ln(1 + λ (x - c)) of
    all its bets, in units, w r and w (`weight`).

    `missing` is the mass on arms that could not be drawn, `squares` Σ E[w² | x]; both
    are over all `n` rows, which are those of decisions made at position `since` or
    later.
    """

    n: int = 0
    squares: float = 0.0
    missing: float = 0.0
    rows: int = 0
    total: float = 0.0
    weight: float = 0.0
    since: int = 0
    bets: Ints = field(default_factory=lambda: np.zeros(len(_RATES), np.int64))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and self._facts() == other._facts()

    __hash__ = None  # type: ignore[assignment]

    def copy(self) -> "Target":
        """The same, to go on from; the array of bets is never written into."""
        return Target(
            self.n,
            self.squares,
            self.missing,
            self.rows,
            self.total,
            self.weight,
            self.since,
            self.bets,
        )

    def value(self, name: str, kind: str, level: float) -> Value:
        """The value with its interval, by the rules of `oddsmith evaluate --interval
        anytime`."""
        ess = (
            float(self.n)
            if kind == SERVED
            else self.n**2 / self.squares
            if self.squares > 0
            else 0.0
        )
        if self.n < 2:
            few = f"an interval needs at least 2 rows with rewards; got {self.n}"
            return Value(name, kind, self.n, ess, refused=few)
        sums = of_units(self.bets) + (self.n - self.rows) * _IF_ZERO
        grown = float(logsumexp(sums[2 * _B :])) - np.log(len(FRACTIONS))
        missing = self.missing / self.n
        facts = Diagnostics(
            n=self.n,
            ess=ess,
            largest_share=1.0 / self.n,
            missing=missing,
            mean_weight=self.weight / self.n,
            weight_error=0.0,
            inflation=exp(min(700.0, grown)),
            deflation=self._deflation(),
        )
        why = broken_rules(facts, "anytime")
        if why:
            return Value(name, kind, self.n, ess, refused="; ".join(why.values()))
        gains = sums[: 2 * _B].reshape(2, _B) + self.n * _KNOWN
        low, loss = running_bound(
            RunningSums(np.full(2, float(self.n)), gains, _BETS), (1 - level) / 2
        ).tolist()
        low = min(low, 1.0)
        high = max(0.0, 1.0 - loss)
        mean = self.total / self.n
        value = min(max(mean, low), high)
        is_cut = value != mean
        return Value(name, kind, self.n, ess, value, low, high, is_cut=is_cut)

    def _deflation(self) -> float:
        """An e-value against weights whose mean is 1 - missing, at all times.

        X = 1 - missing - w is at most 1, so that E exp(λ X) <= exp((e^λ - 1 - λ) Var w)
        (Bennett), and Σ Var w is at most Σ E[w² | x] - (Σ E w)² / n.
        """
        expected = self.n - self.missing
        short = expected - self.weight - self.n * ROUNDED
        variance = max(0.0, self.squares - expected**2 / self.n)
        gains = _LIGHT * short - (np.expm1(_LIGHT) - _LIGHT) * variance
        return exp(min(700.0, float(logsumexp(gains)) - log(len(_LIGHT))))

    def _facts(self) -> tuple[Any, ...]:
        return (
            self.n,
            self.squares,
            self.missing,
            self.rows,
            self.total,
            self.weight,
            self.since,
            self.bets.tolist(),
        )


def _logarithms(weights: Array, rewards: Array) -> Ints:
    """ln(1 + λ (x - c)) of all bets, in units (rows, bets), of rows with these weights
    and rewards (rows, 1)."""
    x = np.empty((len(weights), len(_RATES)))
    x[:, :_B], x[:, _B : 2 * _B], x[:, 2 * _B :] = (
        weights * rewards,
        weights * (1.0 - rewards),
        weights,
    )
    x -= _CENTRES
    x *= _RATES
    return in_units(np.log1p(x, out=x))


@dataclass(slots=True)
class Values:
    """The sums of all targets.

    Rows wait, by target, weight and reward, until there are some to be added at once:
    units do not depend on when.
    """

    plain: dict[str, Target] = field(
        default_factory=lambda: {SERVED: Target(), UNIFORM: Target()}
    )
    arms: dict[str, Target] = field(default_factory=dict)
    looks: int = -1
    waiting: dict[_Row, int] = field(default_factory=dict)
    _is_own: bool = True

    def copy(self) -> "Values":
        """The same, to go on from."""
        self._is_own = False
        return Values(
            self.plain, self.arms, self.looks, self.waiting.copy(), _is_own=False
        )

    def _own(self) -> None:
        """Write into targets of one's own from now on."""
        if not self._is_own:
            self.plain, self.arms = (
                {name: one.copy() for name, one in part.items()}
                for part in (self.plain, self.arms)
            )
            self._is_own = True

    def count(
        self, count: Count, drawn: Draw, odds: Mapping[str, float], named: NamedArms
    ) -> None:
        """A decision counts; `odds` are those of all its arms, by name."""
        self._own()
        if self.looks != named.looks:
            self._name(named)
        if drawn.odds_drawn <= 0:
            return
        p = max(drawn.odds_drawn, LEAST_PROPENSITY)  # of old stores
        if drawn.shadow and POLICY not in self.plain:
            self._settle()
            self.plain[POLICY] = self._policy()
        share = 1.0 / drawn.n_eligible
        if count.before is None:
            self._support(count.made, drawn, odds, named)
        self._add(count, (False, SERVED), 1.0)
        self._add(count, (False, UNIFORM), share / p)
        if POLICY in self.plain:
            self._add(count, (False, POLICY), _own(drawn, p))
        arm = self.arms.get(drawn.arm)
        if arm is not None and count.made >= arm.since:
            self._add(count, (True, drawn.arm), 1.0 / p)
        if len(self.waiting) >= _WAIT:
            self._settle()

    def _add(self, count: Count, key: tuple[bool, str], weight: float) -> None:
        """A row of this weight counts, or turns into another."""
        if weight <= 0:
            return
        target, waiting = (self.arms if key[0] else self.plain)[key[1]], self.waiting
        row = (*key, weight, count.value)
        waiting[row] = waiting.get(row, 0) + 1
        if count.before is None:
            target.rows += 1
            target.weight += weight
            target.total += weight * count.value
        else:
            gone = (*key, weight, count.before)
            waiting[gone] = waiting.get(gone, 0) - 1
            target.total += weight * (count.value - count.before)

    def _settle(self) -> None:
        """Add the rows that wait."""
        if not self.waiting:
            return
        self._own()
        weights, rewards = (
            np.array([row[at] for row in self.waiting])[:, None] for at in (2, 3)
        )
        units = (
            _logarithms(weights, rewards)
            * np.array(list(self.waiting.values()))[:, None]
        )
        places: dict[tuple[bool, str], list[int]] = {}
        for place, row in enumerate(self.waiting):
            places.setdefault(row[:2], []).append(place)
        for (is_arm, name), mine in places.items():
            target = (self.arms if is_arm else self.plain)[name]
            target.bets = target.bets + units[mine].sum(axis=0)
        self.waiting = {}

    def estimates(
        self, named: NamedArms, level: float, *, shadow: bool
    ) -> Iterator[Value]:
        """The value of each target: the policy's only in shadow mode, arms in their
        order."""
        now = self.copy()
        now._settle()
        yield now.plain[SERVED].value(SERVED, SERVED, level)
        if shadow:
            yield now._policy().value(POLICY, POLICY, level)
        yield now.plain[UNIFORM].value(UNIFORM, UNIFORM, level)
        for arm in named.since:
            yield now.arms.get(arm, Target()).value(arm, "arm", level)

    def policy(self) -> Target:
        """The sums of the policy's own odds."""
        now = self.copy()
        now._settle()
        return now._policy()

    def _policy(self) -> Target:
        """The same as what was served, until an incumbent has acted."""
        served = self.plain[SERVED].copy()
        served.squares = float(served.n)
        return self.plain.get(POLICY, served)

    def _support(
        self, made: int, drawn: Draw, odds: Mapping[str, float], named: NamedArms
    ) -> None:
        """What the logged odds say about each target, whatever was drawn."""
        able = [True] * len(odds) if drawn.eligible is None else drawn.eligible.tolist()
        share, inverse, barred = 1.0 / drawn.n_eligible, 0.0, 0
        for q, is_able in zip(odds.values(), able, strict=True):
            if is_able and q > 0:
                inverse += 1.0 / max(q, LEAST_PROPENSITY)
            barred += is_able and q <= 0
        uniform, policy = self.plain[UNIFORM], self.plain.get(POLICY)
        uniform.squares += share * share * inverse
        uniform.missing += share * barred
        if policy is not None:
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
                target.squares += 1.0 / max(q, LEAST_PROPENSITY) if q > 0 else 0.0
                target.missing += q <= 0

    def _name(self, named: NamedArms) -> None:
        """Arms that are named anew begin now; fixed ones had no odds before."""
        self._settle()
        self.looks = named.looks
        rows, before = self.plain[SERVED].n, self.arms
        self.arms = {}
        for arm, since in named.since.items():
            known = before.get(arm)
            fresh = (
                Target(rows, missing=float(rows))
                if named.are_fixed
                else Target(since=since)
            )
            self.arms[arm] = (
                known if known is not None and known.since == since else fresh
            )

    def to_json(self) -> dict[str, Any]:
        """What a snapshot holds of them."""
        now = self.copy()
        now._settle()
        targets = [*now.plain.items(), *now.arms.items()]
        facts = [[name, *one._facts()[:-1]] for name, one in targets]
        bets = pack_units(np.array([one.bets for _, one in targets]))
        return {
            "targets": facts,
            "plain": len(now.plain),
            "bets": bets,
            "looks": now.looks,
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "Values":
        """What `to_json` gave."""
        rows = zip(
            given["targets"],
            unpack_units(given["bets"]).reshape(-1, len(_RATES)),
            strict=True,
        )
        targets: list[tuple[str, Target]] = []
        for (name, *facts), bets in rows:
            target = Target(*facts)
            target.bets = bets
            targets.append((name, target))
        return cls(
            dict(targets[: given["plain"]]),
            dict(targets[given["plain"] :]),
            given["looks"],
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Values) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]


def _own(drawn: Draw, p: float) -> float:
    """The weight of the policy's own odds over p: 1 where it drew itself, 0 where they
    were not kept."""
    if not drawn.shadow:
        return 1.0
    return 0.0 if drawn.own is None else float(drawn.own.odds[drawn.number]) / p


def _own_support(drawn: Draw) -> tuple[float, float]:
    """E[w² | x] of the policy's own odds, and their mass on arms that could not be
    drawn."""
    if not drawn.shadow:
        return 1.0, 0.0
    if drawn.own is None:
        return 0.0, 1.0
    own = drawn.own.odds
    met = drawn.odds > 0
    odds = np.maximum(drawn.odds[met], LEAST_PROPENSITY)
    return float((own[met] ** 2 / odds).sum()), float(own[~met].sum())
