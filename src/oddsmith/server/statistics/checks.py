"""Checks: whether arms follow the logged odds, experts predict mean rewards and choose
well, and rewards come."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from oddsmith.evaluation.draws.order_free_bets import StandingBets
from oddsmith.server.fold.accounts import Count
from oddsmith.server.statistics.arm_names import NamedArms
from oddsmith.server.statistics.calibration import Calibration
from oddsmith.server.statistics.choices import ChoiceSums
from oddsmith.server.statistics.snapshot import pack_units, unpack_units
from oddsmith.server.store.protocol import Draw

__all__ = ["Checks"]


@dataclass(slots=True)
class Checks:
    """Bets against the logged odds and experts, what experts' policies earn; decisions
    shown, that count, by default.

    The times are those of the last decision, the last reward that is no default, and
    the last count.
    """

    bets: StandingBets = field(default_factory=StandingBets)
    calibration: Calibration = field(default_factory=Calibration)
    choices: ChoiceSums = field(default_factory=ChoiceSums)
    looks: int = -1
    shown: int = 0
    counted: int = 0
    defaults: int = 0
    last_decision: float | None = None
    last_reward: float | None = None
    last_learnt: float | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Checks) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def copy(self) -> "Checks":
        """The same, to go on from."""
        counts = self.looks, self.shown, self.counted, self.defaults
        times = self.last_decision, self.last_reward, self.last_learnt
        return Checks(
            self.bets.copy(),
            self.calibration.copy(),
            self.choices.copy(),
            *counts,
            *times,
        )

    def show(
        self, time: float, arm: str, odds: Mapping[str, float], named: NamedArms
    ) -> None:
        """A decision of this time was shown; `odds` are those of all its arms."""
        if self.looks != named.looks:
            self.looks = named.looks
            self.bets.name(list(named.since), few=named.are_fixed)
        self.shown += 1
        self.last_decision = _later(self.last_decision, time)
        if arm in odds:
            self.bets.take(odds, arm)

    def count(self, count: Count, drawn: Draw) -> None:
        """A decision counts, whose arm was drawn from this."""
        self.choices.count(count, drawn)
        self.counted += count.before is None
        self.defaults += count.is_default - count.was_default
        self.last_learnt = _later(self.last_learnt, count.time)
        if not count.is_default:
            self.last_reward = _later(self.last_reward, count.time)

    def to_json(self) -> dict[str, Any]:
        """What a snapshot holds of them."""
        bets = self.bets.current()
        rest = {name: getattr(self, name) for name in self.__slots__[3:]}
        known = {
            "n": bets.n,
            "shares": bets.shares,
            "begun": bets.begun,
            "cash": bets.cash,
            "peak": bets.peak,
            "window": bets.window,
            "rows": bets.rows,
            "length": bets.length,
            "alarm": bets.alarm,
            "suspect": bets.suspect,
            "strength": bets.strength,
        }
        known["growth"] = pack_units(bets.growth)
        experts = {
            "calibration": self.calibration.to_json(),
            "choices": self.choices.to_json(),
        }
        return rest | {"bets": known} | experts

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "Checks":
        """What `to_json` gave."""
        known = dict(given["bets"])
        growth = unpack_units(known.pop("growth")).reshape(
            -1, StandingBets().growth.shape[1]
        )
        bets = StandingBets(growth=growth, **known)
        rest = {name: given[name] for name in cls.__slots__[3:]}
        choices = ChoiceSums.from_json(given["choices"])
        return cls(bets, Calibration.from_json(given["calibration"]), choices, **rest)


def _later(one: float | None, other: float) -> float:
    return other if one is None else max(one, other)
