"""All logs of a world at once: terms (logs, T), their ranges and the rules, as
`estimate` has them for one log.

`benchmarks.coverage` asks `estimate` itself for some logs of every world and compares:
the two must not differ.
"""

from math import log
from typing import Any, NamedTuple

import numpy as np

from benchmarks.coverage_worlds import World
from oddsmith.evaluation.bets import log_shortfall, log_wealth
from oddsmith.evaluation.diagnostics import (
    ERRORS,
    ESS,
    EVIDENCE,
    MISSING,
    OFF,
    ROUNDED,
    SHARE,
)
from oddsmith.evaluation.ends import beta_interval, normal_interval

THRESHOLD = 5.0  # of clipped_ips


class Column(NamedTuple):
    """An estimator in all logs: terms (logs, T), the ends of their range (logs,), and
    what two rules refuse (logs,).

    `many` are the rules of beta, normal and bootstrap intervals, `any_tail` those of
    Bernstein and anytime ones. `outer` are columns whose means are at most and at least
    the value, whatever was not drawn, for drawn odds alone.
    """

    values: Any
    low: Any
    high: Any
    many: Any
    any_tail: Any
    outer: "tuple[Column, ...]" = ()

    def interval(
        self, kind: str, level: float, span: tuple[float, float], bottom: float
    ) -> Any:
        """The intervals (logs, 2), NaN where refused; `plain` is mean ± z sd/√T, which
        is not offered."""
        if kind == "bernstein":
            n, chance = self.values.shape[1], log(4 / (1 - level))
            reach = np.sqrt(2 * self.values.var(axis=1, ddof=1) * chance / n)
            reach += 7 * (span[1] - span[0]) * chance / (3 * (n - 1))
            ends = np.stack(
                [self.values.mean(axis=1) - reach, self.values.mean(axis=1) + reach],
                axis=1,
            )
            refused = self.any_tail
        elif kind == "plain":
            mean, reach = (
                self.values.mean(axis=1),
                1.96 * self.values.std(axis=1, ddof=1) / self.values.shape[1] ** 0.5,
            )
            ends, refused = np.stack([mean - reach, mean + reach], axis=1), self.many
        else:
            make = beta_interval if kind == "beta" else normal_interval
            parts = [
                make(one.values, (one.low, one.high), level)
                for one in (self, *self.outer)
            ]
            low, high = parts[0]
            if self.outer:
                low, high = np.minimum(low, parts[1][0]), np.maximum(high, parts[2][1])
            ends, refused = np.stack([low, high], axis=1), self.many
        return np.where(refused[:, None], np.nan, np.clip(ends, bottom, 1.0))


class Played(NamedTuple):
    """The logs of a world: contexts, arms, rewards (logs, T)."""

    world: World
    contexts: Any
    arms: Any
    rewards: Any

    def at(self, table: Any) -> Any:
        """A table (C, K) at each row's context and arm (logs, T)."""
        return table[self.contexts, self.arms]

    def by_context(self, table: Any) -> Any:
        """The mean over the rows of each log (logs,) of a table (C,)."""
        return table[self.contexts].mean(axis=1)

    def heaviest(self, table: Any) -> Any:
        """For each log (logs,), the mean of the highest entries of a table (C, K) that
        one row in T has."""
        if self.world.drawn:
            return self.at(table).max(axis=1)
        order = np.argsort(-table, axis=None)
        context = order // table.shape[1]
        rows = (self.contexts[..., None] == np.arange(len(table))).sum(axis=1)
        mass = rows[:, context] * self.world.logger.ravel()[order]
        taken = np.diff(np.minimum(np.cumsum(mass, axis=1), 1.0), axis=1, prepend=0.0)
        return (taken * table.ravel()[order]).sum(axis=1) / taken.sum(axis=1)

    def ratios(self, target: Any) -> Any:
        logger = self.world.logger
        return np.divide(target, logger, out=np.zeros_like(target), where=logger > 0)

    def refused(self, target: Any) -> tuple[Any, Any]:
        """The rules of `diagnostics` for a target: of beta, normal and bootstrap
        intervals, and of the others."""
        ratios, n = self.ratios(target), self.world.rows
        w = self.at(ratios)
        sure = (
            self.world.logger >= 1 - 1e-12
            if self.world.drawn
            else self.world.logger == 0
        )
        lost = (
            np.where(sure, 0.0, target)
            if self.world.drawn
            else np.where(sure, target, 0.0)
        )
        missing = self.by_context(
            (lost * (sure.any(axis=1, keepdims=True) if self.world.drawn else 1)).sum(
                axis=1
            )
        )
        mean = w.mean(axis=1)
        if self.world.drawn:
            ess, share, spread = (
                w.sum(axis=1) ** 2 / (w**2).sum(axis=1),
                w.max(axis=1) / w.sum(axis=1),
                w.std(axis=1),
            )
        else:
            squares = np.maximum(self.by_context((target * ratios).sum(axis=1)), 1e-300)
            ess, share = n / squares, self.heaviest(ratios) / n
            spread = np.sqrt(np.maximum(0.0, squares - (1 - missing) ** 2))
        off = np.abs(mean - (1 - missing))
        overlap = missing > MISSING
        weight = (off > OFF) | (off > np.maximum(ERRORS * spread / np.sqrt(n), 1e-6))
        high = log_wealth(w, np.full(len(w), 1 + ROUNDED), looks=1)[:, -1]
        most = ratios.max(axis=1)[self.contexts]
        if self.world.drawn:
            most = np.full(w.shape, 1 / self.world.floor)
        low = log_shortfall(w, np.full(w.shape, 1 - ROUNDED), most)
        proven = np.maximum(high, low) >= log(EVIDENCE)
        return overlap | (ess < ESS) | (share > SHARE) | weight, overlap | proven


def columns(played: Played) -> dict[str, Column]:
    """All estimators of a world, and two differences, by name; snips is NaN in logs
    without any weight."""
    world, r = played.world, played.rewards
    ratios, others, q = (
        played.ratios(world.target),
        played.ratios(world.other),
        world.model,
    )
    base, beside = (
        (odds * q).sum(axis=1, keepdims=True) for odds in (world.target, world.other)
    )
    rules, rest = played.refused(world.target), played.refused(world.other)
    w, none = played.at(ratios), np.zeros_like(ratios)
    tables = {
        "ips": (none, ratios),
        "dr": (base - ratios * q, base + ratios * (1 - q)),
        "clipped_ips": (none, np.minimum(ratios, THRESHOLD)),
        "logged": (none, none + 1.0),
        "ips - logged": (none, ratios - 1.0),
    }
    lines = {name: (*pair, rules) for name, pair in tables.items() if name != "logged"}
    few = np.full(len(r), world.rows < ESS), np.zeros(len(r), bool)
    lines["logged"] = (*tables["logged"], few)
    apart = base - beside - (ratios - others) * q
    both = rules[0] | rest[0], rules[1] | rest[1]
    lines["dr - dr"] = (apart, apart + ratios - others, both)
    found = {name: _column(played, *line) for name, line in lines.items()}
    outer: dict[str, tuple[Column, ...]] = {}
    if world.drawn:
        own, apart = (
            _outer(played, ratios, world.target),
            _outer(played, ratios - others, world.target - world.other),
        )
        outer = {"ips": own, "dr": own, "snips": own, "dr - dr": apart}
        outer["ips - logged"] = _beside_logger(played, ratios)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean, value = w.mean(axis=1), (w * r).sum(axis=1) / w.sum(axis=1)
        most = played.heaviest(ratios)
        values = value[:, None] + w * (r - value[:, None]) / mean[:, None]
        ends = value - most * value / mean, value + most * (1 - value) / mean
    found["snips"] = Column(values, *_reached(values, *ends), *rules)
    return {
        name: column._replace(outer=outer.get(name, ()))
        for name, column in found.items()
    }


def _outer(played: Played, apart: Any, mass: Any) -> tuple[Column, ...]:
    """The columns of D⁺ r + D⁻ (1 - r) - N and P - D⁺ (1 - r) - D⁻ r, by tables (C, K)
    of weights and of odds."""
    up, down = np.maximum(apart, 0.0), np.maximum(-apart, 0.0)
    more, less = (
        np.maximum(side, 0.0).sum(axis=1, keepdims=True) for side in (mass, -mass)
    )
    none = np.zeros(len(played.arms), bool), np.zeros(len(played.arms), bool)
    return _column(played, down - less, up - less, none), _column(
        played, more - up, more - down, none
    )


def _beside_logger(played: Played, ratios: Any) -> tuple[Column, ...]:
    """The same of a target less the logger, whose odds of other arms are not known:
    (w - 1) r and (1 - w) (1 - r)."""
    none = np.zeros(len(played.arms), bool), np.zeros(len(played.arms), bool)
    zero = np.zeros_like(ratios)
    return _column(played, zero, ratios - 1.0, none), _column(
        played, 1.0 - ratios, zero, none
    )


def _column(played: Played, zero: Any, one: Any, rules: tuple[Any, Any]) -> Column:
    """The column of terms that are a table's entries with reward 0 and with reward 1,
    and between for other rewards."""
    values = played.at(zero) + played.at(one - zero) * played.rewards
    ends = (
        -played.heaviest(-np.minimum(zero, one)),
        played.heaviest(np.maximum(zero, one)),
    )
    return Column(values, *_reached(values, *ends), *rules)


def _reached(values: Any, low: Any, high: Any) -> tuple[Any, Any]:
    return np.minimum(low, values.min(axis=1)), np.maximum(high, values.max(axis=1))
