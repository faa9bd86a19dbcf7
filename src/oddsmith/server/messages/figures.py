"""The messages of the dashboard's charts and checks, as types."""

import msgspec

from oddsmith.server.messages.calls import Query
from oddsmith.server.statistics.series import Range

__all__ = [
    "ArmColumns",
    "ChecksAnswer",
    "ClipCheck",
    "EffectFigures",
    "ExpertCheck",
    "GuaranteeCheck",
    "HistoryMark",
    "MetricResult",
    "OpenWindowsCheck",
    "PosteriorHistory",
    "ResultsAnswer",
    "RewardedCheck",
    "SeriesAnswer",
    "SeriesQuery",
    "ServedCheck",
    "SwitchCheck",
    "TargetValue",
    "ValuesAnswer",
]


class SeriesQuery(Query):
    """A query for counts and rewards by time. Buckets have 10 seconds for an hour, 5
    minutes for a day, and an hour for a week; there are at most 200 for all time."""

    range: Range = "day"


class ArmColumns(msgspec.Struct):
    """Sums of one arm, or of all other arms together, by bucket; rewards in the
    caller's units.

    `odds_sum` is the sum of propensities over all decisions of the bucket.
    `weighted_sum` (of reward / propensity) and `weighted_squares` (of its square) are
    over decisions that drew the arm and count.
    """

    drawn: list[int]
    odds_sum: list[float]
    rewarded: list[int]
    reward_sum: list[float]
    weighted_sum: list[float]
    weighted_squares: list[float]


class SeriesAnswer(msgspec.Struct):
    """Sums by time, oldest first, up to the bucket of the newest decision; `t` is the
    start of each bucket.

    A decision and its reward are in the bucket of the decision. `rewards` is the number
    of decisions that count, `defaults` the number of those that count with the default.
    `arms` contains the twenty arms that were drawn most often, and `others` all other
    arms together, if there are any.
    """

    experiment: str
    position: int
    range: Range
    width_s: float
    t: list[float]
    decisions: list[int]
    rewards: list[int]
    defaults: list[int]
    reward_sum: list[float]
    arms: dict[str, ArmColumns]
    others: ArmColumns | None


class EffectFigures(msgspec.Struct):
    """An estimate and the ends of its interval; null if there is none."""

    value: float | None
    low: float | None
    high: float | None


class MetricResult(msgspec.Struct):
    """A candidate compared with the control in one metric, in the metric's unit.

    `rows` is the number of decisions with an amount, or of units if units are assigned.
    `lift` is relative to the control. `outcome` is "better", "worse", "inconclusive" or
    "refused", by the metric's direction.
    """

    metric: str
    role: str
    better: str
    display_unit: str
    candidate: str
    rows: int
    value: float | None
    control_value: float | None
    difference: EffectFigures
    lift: EffectFigures
    outcome: str
    refused: str | None


class ResultsAnswer(msgspec.Struct):
    """The policy compared with the control in each metric (`metrics`), and each arm
    with the control (`arms`).

    Intervals are anytime-valid. All intervals in `metrics` hold simultaneously at
    `level`, and all intervals in `arms` hold simultaneously at `level`. Without a
    control both lists are empty.
    """

    experiment: str
    position: int
    control: str | None
    holdout: float | None
    by: str | None
    level: float
    metrics: list[MetricResult]
    arms: list[MetricResult]


class TargetValue(msgspec.Struct):
    """The value of a target: its mean reward per decision in the caller's units, over
    `n` decisions that count.

    `kind` is "served" (the decisions as they were), "uniform" (uniform random over
    eligible arms), "arm" (always this arm; if calls pass their arms, whenever it was
    offered) or, in shadow mode, "policy". `ess` is the effective sample size. If an
    interval cannot be computed, `refused` is the reason and there are no numbers. With
    `is_cut`, the mean of weighted rewards is outside the interval, and `value` is the
    nearer end.
    """

    name: str
    kind: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    ess: float
    refused: str | None
    is_cut: bool = False


class ValuesAnswer(msgspec.Struct):
    """Values of targets, with anytime-valid intervals (confidence sequences)."""

    experiment: str
    position: int
    level: float
    interval: str
    values: list[TargetValue]
    sentence: str


class ServedCheck(msgspec.Struct):
    """Whether the drawn arms follow the logged propensities, by a test of bets against
    them (an e-process).

    `word` is "well", "look" (p ≤ 0.001, which one healthy experiment in 1,000 ever has)
    or "broken" (p ≤ 0.0001).
    """

    n: int
    e_value: float
    p_value: float
    word: str
    sentence: str


class ExpertCheck(msgspec.Struct):
    """Whether an expert's predictions are consistent with the mean rewards, by a test
    of bets against them; they are refuted if the e-value reaches 20.

    `loss` is the mean over the `n` rewards of decisions with a prediction of this
    expert; other experts may have made none there.
    """

    expert: str
    loss: float
    n: int
    e_value: float
    refuted: bool


class RewardedCheck(msgspec.Struct):
    """The number of decisions that are due (their window has closed; all, if there is
    no window), and the number of those with a reward of their own."""

    due: int
    rewarded: int
    share: float | None


class OpenWindowsCheck(msgspec.Struct):
    """Decisions whose reward window is open (to the precision of one time bucket), and
    how many of them count already; `word` is "well" or "look"."""

    open: int
    counted: int
    word: str
    sentence: str


class GuaranteeCheck(msgspec.Struct):
    """The regret bound after this number of steps; none if the theory does not cover
    the policy."""

    covered: bool
    sentence: str
    bound: float | None
    steps: int
    eta: float | None
    gamma: float | None
    prior: float | None
    exploration_paid: float | None


class SwitchCheck(msgspec.Struct):
    """Whether it is safe to switch from the incumbent to the policy."""

    sentence: str
    ready: bool


class ClipCheck(msgspec.Struct):
    """How many of an expert's last predictions for drawn arms were at an end of its
    clip, from `low` to `high`."""

    clipped: int
    n: int
    low: float
    high: float


class ChecksAnswer(msgspec.Struct):
    """Health of an experiment: propensities, experts, rewards, times, faults, and the
    regret bound."""

    experiment: str
    position: int
    served_as_logged: ServedCheck
    calibration: list[ExpertCheck]
    calibration_sentence: str
    choices_sentence: str
    rewarded: RewardedCheck
    open_windows: OpenWindowsCheck
    last_decision_t: float | None
    last_reward_t: float | None
    last_learnt_t: float | None
    trouble: str
    store_trouble: str
    warning: str
    asleep: dict[str, int]
    guarantee: GuaranteeCheck
    switch: SwitchCheck | None
    clipped: dict[str, ClipCheck]
    clipped_sentence: str


class HistoryMark(msgspec.Struct):
    """An event at a position: "expert added" with a share, "expert retired", "arms
    added", or a "correction"."""

    position: int
    t: float
    kind: str
    name: str
    share: float | None


class PosteriorHistory(msgspec.Struct):
    """The weight of each expert over time, at most 200 points; null if it had not
    joined, or is among `others`.

    The 50 heaviest experts are named. The last point is the current state.
    """

    experiment: str
    position: int
    positions: list[int]
    t: list[float]
    experts: dict[str, list[float | None]]
    others: list[float | None] | None
    marks: list[HistoryMark]
