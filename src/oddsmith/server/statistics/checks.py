"""Checks of the log: arms follow the logged propensities, experts predict mean rewards
and choose well, and rewards arrive."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from oddsmith.evaluation.draws.order_free_bets import StandingBets
from oddsmith.server.fold.accounts import Count
from oddsmith.server.statistics.arm_names import NamedArms
from oddsmith.server.statistics.calibration import Calibration
from oddsmith.server.statistics.choices import ChoiceSums
from oddsmith.server.statistics.snapshot import pack_units, unpack_units
from oddsmith.server.store.protocol import Draw

__all__ = ["Checks"]

_NUMBERS = (
    "looks",
    "shown",
    "counted",
    "defaults",
    "last_decision",
    "last_reward",
    "last_learnt",
)


@dataclass(slots=True)
class Checks:
    """Bets against the logged propensities and the experts, estimated choices of
    experts, and counts.

    `shown` counts decisions, `counted` those with a reward, and `defaults` those whose
    reward is a default. `last_reward` is the time of the last reward that is not a
    default, `last_learnt` that of the last reward of any kind.
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
        """Return a copy that can be changed without changing this one."""
        calibration = self.calibration.copy()
        choices = self.choices.copy()
        bets = self.bets.copy()
        return replace(self, bets=bets, calibration=calibration, choices=choices)

    def show(
        self, time: float, arm: str, odds: Mapping[str, float], named: NamedArms
    ) -> None:
        """Add a decision that was shown, with the propensities of all arms."""
        if self.looks != named.looks:
            self.looks = named.looks
            self.bets.name(list(named.since), few=named.are_fixed)
        self.shown += 1
        self.last_decision = _later(self.last_decision, time)
        if arm in odds:
            self.bets.take(odds, arm)

    def count(self, count: Count, drawn: Draw) -> None:
        """Add the reward of a decision."""
        self.choices.count(count, drawn)
        self.counted += count.before is None
        self.defaults += count.is_default - count.was_default
        self.last_learnt = _later(self.last_learnt, count.time)
        if not count.is_default:
            self.last_reward = _later(self.last_reward, count.time)

    def to_json(self) -> dict[str, Any]:
        """Return the checks as a snapshot contains them."""
        fields = {name: getattr(self, name) for name in _NUMBERS}
        bets = asdict(self.bets.current())
        del bets["waiting"]
        bets["growth"] = pack_units(bets["growth"])
        fields["bets"] = bets
        fields["calibration"] = self.calibration.to_json()
        fields["choices"] = self.choices.to_json()
        return fields

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "Checks":
        """Return the checks that `to_json` wrote."""
        bets = dict(given["bets"])
        n_strengths = StandingBets().growth.shape[1]
        bets["growth"] = unpack_units(bets["growth"]).reshape(-1, n_strengths)
        return cls(
            StandingBets(**bets),
            Calibration.from_json(given["calibration"]),
            ChoiceSums.from_json(given["choices"]),
            **{name: given[name] for name in _NUMBERS},
        )


def _later(one: float | None, other: float) -> float:
    return other if one is None else max(one, other)
