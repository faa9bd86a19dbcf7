"""Values: the estimated rewards of targets, with anytime-valid intervals (confidence
sequences).

Targets are the logging policy (`served`), uniform random over eligible arms, each named
arm, and in shadow mode the policy itself. A reward with weight w = π(a)/p(a) is added
to three families of bets: on w r and on w (1 - r) (`evaluation.mean_bounds`), and on a
mean weight above 1 (`evaluation.bets`). Sums do not depend on the order, so if a reward
changes, its terms can be subtracted. If w is 0 all terms are constants, so only the
target of the drawn arm is updated. Bets on a mean weight below 1 need only Σ w, because
w is never below 0 and the logged propensities determine its variance (`_deflation`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import exp, log
from typing import Any, NamedTuple

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
from oddsmith.server.statistics.arms import NamedArms
from oddsmith.server.statistics.snapshot import pack_units, unpack_units
from oddsmith.server.store.protocol import Draw

__all__ = ["POLICY", "SERVED", "Target", "UNIFORM", "Value", "Values"]

_BETS = bets_within()
_B = len(_BETS.rates)
# Rows are bets on w r, on w (1 - r), and on w.
_RATES = np.concatenate([_BETS.rates, _BETS.rates, FRACTIONS])
_CENTRES = np.concatenate([_BETS.centres, _BETS.centres, np.ones(len(FRACTIONS))])
_IF_ZERO: Array = np.log1p(-_RATES * _CENTRES)
_KNOWN = _BETS.rates * _BETS.centres  # part of each row's gain outside the logarithm
# the values λ of bets for small weights
_LIGHT: Array = np.exp2(np.arange(1.0, -12.0, -1.0))
_WAIT = 96  # maximum number of rows per batch
SERVED = "served"
UNIFORM = "uniform"
POLICY = "policy"


class _Row(NamedTuple):
    """A row that is added to a target: its weight and reward. `is_arm` is true if the
    target is an arm."""

    is_arm: bool
    name: str
    weight: float
    reward: float


class Value(NamedTuple):
    """A target's value in [0, 1] with an interval, or the reason for a refusal.

    `ess` is the effective size of the `n` rows. If the mean of weighted rewards is
    outside the interval, `is_cut` is true and `value` is the nearer end.
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
    """Sums of one target over `n` rewards of decisions made at position `since` or
    later.

    Over all of them, `squares` is Σ E[w² | x], and `missing` is the mass on arms that
    could not be drawn. Over the `rows` with weight w > 0, `total` is Σ w r, `weight` is
    Σ w, and `bets` are ln(1 + λ (x - c)) in units.
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
        if not isinstance(other, Target):
            return False
        has_same_numbers = self._numbers() == other._numbers()
        return has_same_numbers and np.array_equal(self.bets, other.bets)

    __hash__ = None  # type: ignore[assignment]

    def copy(self) -> "Target":
        """Return a copy; both share the array of bets, which never changes in place."""
        return replace(self)

    def value(self, name: str, kind: str, level: float) -> Value:
        """Return the value with its interval, by the rules of `oddsmith evaluate
        --interval anytime`."""
        n = self.n
        ess = 0.0
        if kind == SERVED:
            ess = float(n)
        elif self.squares > 0:
            ess = n**2 / self.squares
        if n < 2:
            few = f"an interval needs at least 2 rows with rewards; got {n}"
            return Value(name, kind, n, ess, refused=few)
        sums = of_units(self.bets) + (n - self.rows) * _IF_ZERO
        log_sum = float(logsumexp(sums[2 * _B :]))
        log_fractions = np.log(len(FRACTIONS))
        log_inflation = log_sum - log_fractions
        facts = Diagnostics(
            n=n,
            ess=ess,
            largest_share=1.0 / n,
            missing=self.missing / n,
            mean_weight=self.weight / n,
            weight_error=0.0,
            inflation=exp(min(700.0, log_inflation)),
            deflation=self._deflation(),
        )
        why = broken_rules(facts, "anytime")
        if why:
            return Value(name, kind, n, ess, refused="; ".join(why.values()))
        gains = sums[: 2 * _B].reshape(2, _B) + n * _KNOWN
        running = RunningSums(np.full(2, float(n)), gains, _BETS)
        low, loss = running_bound(running, (1 - level) / 2).tolist()
        low = min(low, 1.0)
        high = max(0.0, 1.0 - loss)
        mean = self.total / n
        value = min(max(mean, low), high)
        return Value(name, kind, n, ess, value, low, high, is_cut=value != mean)

    def _deflation(self) -> float:
        """Return an anytime-valid e-value against weights with mean 1 - missing.

        X = 1 - missing - w is at most 1, so that E exp(λ X) <= exp((e^λ - 1 - λ) Var w)
        (Bennett), and Σ Var w is at most Σ E[w² | x] - (Σ E w)² / n.
        """
        expected = self.n - self.missing
        short = expected - self.weight - self.n * ROUNDED
        variance = max(0.0, self.squares - expected**2 / self.n)
        gains = _LIGHT * short - (np.expm1(_LIGHT) - _LIGHT) * variance
        log_e_value = float(logsumexp(gains)) - log(len(_LIGHT))
        return exp(min(700.0, log_e_value))

    def _numbers(self) -> tuple[Any, ...]:
        """Return all fields except the bets, in order."""
        return (
            self.n,
            self.squares,
            self.missing,
            self.rows,
            self.total,
            self.weight,
            self.since,
        )


def _logarithms(weights: Array, rewards: Array) -> Ints:
    """Return ln(1 + λ (x - c)) of all bets (rows, bets), as integers.

    Weights and rewards have the shape (rows, 1).
    """
    x = np.empty((len(weights), len(_RATES)))
    x[:, :_B] = weights * rewards
    x[:, _B : 2 * _B] = weights * (1.0 - rewards)
    x[:, 2 * _B :] = weights
    x -= _CENTRES
    x *= _RATES
    return in_units(np.log1p(x, out=x))


@dataclass(slots=True)
class Values:
    """Sums of all targets.

    Rows are counted in `waiting` and added in batches; integer sums do not depend on
    the order.
    """

    plain: dict[str, Target] = field(
        default_factory=lambda: {SERVED: Target(), UNIFORM: Target()}
    )
    arms: dict[str, Target] = field(default_factory=dict)
    looks: int = -1
    waiting: dict[_Row, int] = field(default_factory=dict)
    _is_own: bool = True

    def copy(self) -> "Values":
        """Return a copy that can be changed without changing this one."""
        self._is_own = False
        return replace(self, waiting=self.waiting.copy())

    def _own(self) -> None:
        """Copy the targets if another copy of this object shares them."""
        self.plain = {name: target.copy() for name, target in self.plain.items()}
        self.arms = {name: target.copy() for name, target in self.arms.items()}
        self._is_own = True

    def count(
        self, count: Count, drawn: Draw, odds: Mapping[str, float], named: NamedArms
    ) -> None:
        """Add the reward of a decision, with the propensities of all arms by name."""
        if not self._is_own:
            self._own()
        if self.looks != named.looks:
            self._name(named)
        if drawn.odds_drawn <= 0:
            return
        # old stores may contain smaller values
        p = max(drawn.odds_drawn, LEAST_PROPENSITY)
        if drawn.shadow and POLICY not in self.plain:
            self._settle()
            self.plain[POLICY] = self._policy()
        share = 1.0 / drawn.n_eligible
        if count.before is None:
            self._support(count.made, drawn, odds, named)
        plain = self.plain
        self._add(plain[SERVED], count, _Row(False, SERVED, 1.0, count.value))
        self._add(plain[UNIFORM], count, _Row(False, UNIFORM, share / p, count.value))
        if POLICY in plain:
            weight = _policy_weight(drawn, p)
            self._add(plain[POLICY], count, _Row(False, POLICY, weight, count.value))
        arm = self.arms.get(drawn.arm)
        if arm is not None and count.made >= arm.since:
            self._add(arm, count, _Row(True, drawn.arm, 1.0 / p, count.value))
        if len(self.waiting) >= _WAIT:
            self._settle()

    def _add(self, target: Target, count: Count, row: _Row) -> None:
        """Add a row to a target, or replace the reward of a row."""
        weight = row.weight
        if weight <= 0:
            return
        waiting = self.waiting
        waiting[row] = waiting.get(row, 0) + 1
        if count.before is None:
            target.rows += 1
            target.weight += weight
            target.total += weight * count.value
        else:
            gone = row._replace(reward=count.before)
            waiting[gone] = waiting.get(gone, 0) - 1
            target.total += weight * (count.value - count.before)

    def _settle(self) -> None:
        """Add the waiting rows."""
        if not self.waiting:
            return
        if not self._is_own:
            self._own()
        weights = np.array([row.weight for row in self.waiting])[:, None]
        rewards = np.array([row.reward for row in self.waiting])[:, None]
        times = np.array(list(self.waiting.values()))[:, None]
        units = _logarithms(weights, rewards) * times
        places: dict[tuple[bool, str], list[int]] = {}
        for place, row in enumerate(self.waiting):
            places.setdefault((row.is_arm, row.name), []).append(place)
        for (is_arm, name), of_target in places.items():
            targets = self.arms if is_arm else self.plain
            target = targets[name]
            target.bets = target.bets + units[of_target].sum(axis=0)
        self.waiting = {}

    def _current(self) -> "Values":
        """Return a copy to which all waiting rows are added."""
        now = self.copy()
        now._settle()
        return now

    def estimates(
        self, named: NamedArms, level: float, *, shadow: bool
    ) -> Iterator[Value]:
        """Yield the value of each target. The policy itself is a target only in shadow
        mode. Arms are in their order."""
        now = self._current()
        yield now.plain[SERVED].value(SERVED, SERVED, level)
        if shadow:
            yield now._policy().value(POLICY, POLICY, level)
        yield now.plain[UNIFORM].value(UNIFORM, UNIFORM, level)
        for arm in named.since:
            yield now.arms.get(arm, Target()).value(arm, "arm", level)

    def policy(self) -> Target:
        """Return the sums of the policy's own propensities."""
        return self._current()._policy()

    def _policy(self) -> Target:
        """Return the sums of the policy, which are those of `served` until an incumbent
        acts."""
        served = self.plain[SERVED].copy()
        served.squares = float(served.n)
        return self.plain.get(POLICY, served)

    def _support(
        self, made: int, drawn: Draw, odds: Mapping[str, float], named: NamedArms
    ) -> None:
        """Add the terms that the logged propensities determine, whichever arm was
        drawn."""
        able = [True] * len(odds)
        if drawn.eligible is not None:
            able = drawn.eligible.tolist()
        share = 1.0 / drawn.n_eligible
        inverse = 0.0
        barred = 0
        for q, is_able in zip(odds.values(), able, strict=True):
            if is_able and q > 0:
                inverse += 1.0 / max(q, LEAST_PROPENSITY)
            barred += is_able and q <= 0
        uniform = self.plain[UNIFORM]
        uniform.squares += share * share * inverse
        uniform.missing += share * barred
        policy = self.plain.get(POLICY)
        if policy is not None:
            squares, missing = _policy_support(drawn)
            policy.squares += squares
            policy.missing += missing
        for target in self.plain.values():
            target.n += 1
        eligible = None
        if not named.are_fixed:
            eligible = dict(zip(odds, able, strict=True))
        for arm, target in self.arms.items():
            if eligible is None or (made >= target.since and eligible.get(arm, False)):
                q = odds.get(arm, 0.0)
                target.n += 1
                if q > 0:
                    target.squares += 1.0 / max(q, LEAST_PROPENSITY)
                else:
                    target.missing += 1

    def _name(self, named: NamedArms) -> None:
        """Create the targets of newly named arms.

        If the arms are fixed, a new arm could not be drawn in earlier rows.
        """
        self._settle()
        self.looks = named.looks
        rows = self.plain[SERVED].n
        before = self.arms
        self.arms = {}
        for arm, since in named.since.items():
            target = before.get(arm)
            if target is None or target.since != since:
                target = Target(since=since)
                if named.are_fixed:
                    target = Target(rows, missing=float(rows))
            self.arms[arm] = target

    def to_json(self) -> dict[str, Any]:
        """Return the sums as a snapshot contains them."""
        now = self._current()
        targets = [*now.plain.items(), *now.arms.items()]
        bets = np.array([target.bets for _, target in targets])
        return {
            "targets": [[name, *target._numbers()] for name, target in targets],
            "plain": len(now.plain),
            "bets": pack_units(bets),
            "looks": now.looks,
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "Values":
        """Return the sums that `to_json` wrote."""
        values = cls({}, looks=given["looks"])
        bets = unpack_units(given["bets"]).reshape(-1, len(_RATES))
        for place, (name, *numbers) in enumerate(given["targets"]):
            targets = values.plain if place < given["plain"] else values.arms
            targets[name] = Target(*numbers)
            targets[name].bets = bets[place]
        return values

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Values) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]


def _policy_weight(drawn: Draw, p: float) -> float:
    """Return the policy's own propensity of the drawn arm divided by `p`.

    The result is 1 if the policy drew the arm itself, and 0 if its propensities were
    not recorded.
    """
    if not drawn.shadow:
        return 1.0
    if drawn.own is None:
        return 0.0
    return float(drawn.own.odds[drawn.number]) / p


def _policy_support(drawn: Draw) -> tuple[float, float]:
    """Return E[w² | x] of the policy's own propensities, and their mass on arms that
    could not be drawn."""
    if not drawn.shadow:
        return 1.0, 0.0
    if drawn.own is None:
        return 0.0, 1.0
    own = drawn.own.odds
    can_be_drawn = drawn.odds > 0
    odds = np.maximum(drawn.odds[can_be_drawn], LEAST_PROPENSITY)
    squares = own[can_be_drawn] ** 2 / odds
    return float(squares.sum()), float(own[~can_be_drawn].sum())
