"""Statistics for checks of the log: whether arms follow the logged propensities,
experts predict mean rewards and choose well, and rewards arrive.

Nothing here depends on the order of rewards: if a reward changes, its terms can be
subtracted and added again.

Calibration bets against the hypothesis that an expert's prediction for the drawn arm is
the mean reward. The bets are those of `CalibrationMonitor` with the directions 1 (bias)
and 2f - 1 (over- and under-confidence), which do not depend on other rewards.

Choices are estimates of what each expert's policy would gain and lose, from recorded
votes and propensities. The four sums of `policies.parts.choices` are stored as
integers. Gains and losses are rounded down and squares are rounded up, so that
intervals remain valid.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import exp, log
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from oddsmith.core.arrays import Array, Bools, Ints
from oddsmith.core.decision import Decision
from oddsmith.core.losses import Loss
from oddsmith.evaluation.calibration import STAKES
from oddsmith.evaluation.draws.order_free_bets import StandingBets
from oddsmith.evaluation.exact_sums import in_units, of_units
from oddsmith.policies.parts.choices import Choices, choices_of, sums_of
from oddsmith.server.fold.accounts import Count
from oddsmith.server.statistics.arms import NamedArms
from oddsmith.server.statistics.snapshot import pack_units, unpack_units
from oddsmith.server.store.protocol import Draw

__all__ = ["Calibration", "CalibrationResult", "Checks", "ChoiceSums", "MOST"]

MOST = 100
"""Maximum number of experts that are checked."""
_WAIT = 64  # number of rewards per batch
# units such that sums of 10^8 rewards with the largest weight do not overflow
_UNITS = np.array([2.0**20, 2.0**20, 2.0**10, 2.0**10])[:, None]


class _Vote(NamedTuple):
    """A reward, with the votes for the drawn arm and its propensity. `times` is 1 to
    add the row, and -1 to subtract it."""

    votes: Array
    odds: float
    reward: float
    times: int


@dataclass(slots=True)
class ChoiceSums:
    """Sums (4, 1 + N) over n rewards for the first 100 experts, as integers.

    Column 0 belongs to an expert that never predicts. Where an expert has no
    prediction, it counts as if it chose like the policy. So an expert that joins later
    starts with the sums of column 0. Rewards are added in batches; integer sums do not
    depend on the order. Arrays are never changed in place.
    """

    n: int = 0
    sums: Ints = field(default_factory=lambda: np.zeros((4, 1), np.int64))
    waiting: list[_Vote] = field(default_factory=list)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChoiceSums) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def copy(self) -> "ChoiceSums":
        """Return a copy that can be changed without changing this one."""
        return ChoiceSums(self.n, self.sums, self.waiting.copy())

    def count(self, count: Count, drawn: Draw) -> None:
        """Add the reward of a decision with recorded votes and propensities."""
        odds = drawn.odds_drawn
        if drawn.votes is None or not odds > 0:
            return
        votes = drawn.votes[:MOST]
        self.waiting.append(_Vote(votes, odds, count.value, 1))
        if count.before is None:
            self.n += 1
        else:
            self.waiting.append(_Vote(votes, odds, count.before, -1))
        if len(self.waiting) >= _WAIT:
            self._settle()

    def choices(self, names: Sequence[str], predictor: int, present: Bools) -> Choices:
        """Compare the first experts of a policy.

        Experts that are not `present` are never reported as the best.
        """
        now = self._current()
        sums = _widen(now.sums, len(names))[:, 1 : 1 + len(names)] / _UNITS
        return choices_of(
            sums, now.n, names=names, predictor=predictor, present=present
        )

    def to_json(self) -> dict[str, Any]:
        """Return the sums as a snapshot contains them."""
        now = self._current()
        return {"n": now.n, "sums": pack_units(now.sums)}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "ChoiceSums":
        """Return the sums that `to_json` wrote."""
        return cls(given["n"], unpack_units(given["sums"]).reshape(4, -1))

    def _current(self) -> "ChoiceSums":
        """Return a copy to which all waiting rewards are added."""
        now = self.copy()
        now._settle()
        return now

    def _settle(self) -> None:
        """Add the waiting rewards."""
        if not self.waiting:
            return
        n_experts = max(len(row.votes) for row in self.waiting)
        self.sums = _widen(self.sums, n_experts)
        votes = np.full((len(self.waiting), self.sums.shape[1]), np.nan)
        for i, row in enumerate(self.waiting):
            votes[i, 1 : 1 + len(row.votes)] = row.votes
        odds = np.array([row.odds for row in self.waiting])[:, None]
        rewards = np.array([row.reward for row in self.waiting])[:, None]
        times = np.array([row.times for row in self.waiting])[:, None]
        has_vote = (votes >= 0) & (votes <= 1)
        with np.errstate(over="ignore"):
            weights = np.where(has_vote, votes / odds, 1.0)
        units = sums_of(weights, rewards) * _UNITS
        units[:, :2] = np.floor(units[:, :2])
        units[:, 2:] = np.ceil(units[:, 2:])
        added = units.astype(np.int64) * times[:, :, None]
        self.sums = self.sums + added.sum(axis=0)
        self.waiting = []


def _widen(sums: Ints, n_experts: int) -> Ints:
    """Return the sums with at least this many experts; new ones start without
    predictions."""
    more = 1 + n_experts - sums.shape[1]
    if more <= 0:
        return sums
    new = np.repeat(sums[:, :1], more, axis=1)
    return np.hstack([sums, new])


_WORST = 700.0  # larger losses are clipped to this value
_BETS = 2 * len(STAKES)
_LARGEST = log(np.finfo(np.float64).max)


class CalibrationResult(NamedTuple):
    """The calibration of one expert: its mean loss over the n rewards that it
    predicted, and the e-value against its predictions."""

    expert: str
    loss: float
    n: int
    e_value: float


class _Prediction(NamedTuple):
    """A reward, with the experts' predictions for it. `times` is 1 to add the row, and
    -1 to subtract it."""

    advice: Array
    reward: float
    times: int


@dataclass(slots=True)
class Calibration:
    """Sums for the calibration of the first 100 experts.

    `bets` (bets, N) contains ln(1 + λ d (r - f)) of all bets, and `losses` (N,) the
    losses, both as integers (multiples of a small unit). `scored` (N,) is the number of
    rewards. Rewards are added in batches; integer sums do not depend on the order.
    Arrays are never changed in place.
    """

    names: tuple[str, ...] = ()
    bets: Ints = field(default_factory=lambda: np.zeros((_BETS, 0), np.int64))
    losses: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    scored: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    waiting: list[_Prediction] = field(default_factory=list)
    loss: Loss | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Calibration) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def copy(self) -> "Calibration":
        """Return a copy that can be changed without changing this one."""
        return replace(self, waiting=self.waiting.copy())

    def count(
        self, count: Count, decision: Decision, names: Sequence[str], loss: Loss
    ) -> None:
        """Add a reward. `names` are the names of the experts, which may include experts
        that joined after the decision."""
        if decision.advice is None:
            return
        if len(self.names) < min(len(names), MOST):
            self._settle()
            self.names = tuple(names[:MOST])
        self.loss = loss
        advice = decision.advice[: len(self.names)]
        self.waiting.append(_Prediction(advice, count.value, 1))
        if count.before is not None:
            self.waiting.append(_Prediction(advice, count.before, -1))
        if len(self.waiting) >= _WAIT:
            self._settle()

    def results(self) -> Iterator[CalibrationResult]:
        """Yield the result of each expert with a prediction."""
        now = self._current()
        if not now.names:
            return
        log_e_values = logsumexp(of_units(now.bets), axis=0) - log(_BETS)
        losses = of_units(now.losses)
        for i, name in enumerate(now.names):
            n = int(now.scored[i])
            if n > 0:
                e_value = exp(min(float(log_e_values[i]), _LARGEST))
                yield CalibrationResult(name, float(losses[i] / n), n, e_value)

    def to_json(self) -> dict[str, Any]:
        """Return the sums as a snapshot contains them."""
        now = self._current()
        table = np.vstack([now.bets, now.losses, now.scored])
        return {"names": list(now.names), "sums": pack_units(table)}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "Calibration":
        """Return the sums that `to_json` wrote."""
        names = tuple(given["names"])
        table = unpack_units(given["sums"]).reshape(_BETS + 2, -1)
        bets = table[:_BETS]
        return cls(names, bets, losses=table[_BETS], scored=table[_BETS + 1])

    def _current(self) -> "Calibration":
        """Return a copy to which all waiting rewards are added."""
        now = self.copy()
        now._settle()
        return now

    def _settle(self) -> None:
        """Add the waiting rewards."""
        if not self.waiting or self.loss is None:
            return
        joined = len(self.names) - len(self.losses)
        self.bets = np.pad(self.bets, ((0, 0), (0, joined)))
        self.losses = np.pad(self.losses, (0, joined))
        self.scored = np.pad(self.scored, (0, joined))

        mean = np.full((len(self.waiting), len(self.names)), np.nan)
        for i, row in enumerate(self.waiting):
            mean[i, : len(row.advice)] = row.advice
        rewards = np.array([row.reward for row in self.waiting])[:, None]
        times = np.array([row.times for row in self.waiting])[:, None]
        has_mean = (mean >= 0) & (mean <= 1)
        mean[~has_mean] = 0.5

        # Bets on λ d (r - f) with the directions d = 1 and d = 2f - 1.
        error = (rewards - mean) * has_mean
        gains = np.concatenate([error, (2 * mean - 1) * error], axis=1)
        bets = in_units(np.log1p(gains[:, None, :] * STAKES[:, None]))
        added = (bets * times[:, :, None]).sum(axis=0)
        self.bets = self.bets + added.reshape(_BETS, -1)

        outcomes = np.broadcast_to(rewards, mean.shape).copy()
        with np.errstate(all="ignore"):
            losses = np.minimum(self.loss(mean, outcomes), _WORST)
        units = in_units(np.where(has_mean, losses, 0.0))
        self.losses = self.losses + (units * times).sum(axis=0)
        self.scored = self.scored + (has_mean * times).sum(axis=0)
        self.waiting = []


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
    """All statistics for checks: bets against the logged propensities, the calibration
    of the experts, the value of their choices, and counts.

    `shown` is the number of decisions, `counted` the number of decisions with a reward,
    and `defaults` the number of rewards that are defaults. `last_reward` is the time of
    the last reward that is not a default, and `last_learnt` is the time of the last
    reward of any kind.
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
