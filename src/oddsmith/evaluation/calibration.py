"""Calibration of experts: an anytime-valid test by betting of the hypothesis that
predictions equal the mean rewards."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from typing import NamedTuple

import numpy as np

from oddsmith.core.arrays import Array, Bools, Real, number
from oddsmith.core.decision import Decision, check_rewards
from oddsmith.core.errors import InvalidInput, OutOfDomain
from oddsmith.core.losses import Loss, log_loss
from oddsmith.core.names import check_names, numbered_experts
from oddsmith.logs.table import Log

__all__ = [
    "CalibrationMonitor",
    "CalibrationReport",
    "CalibrationState",
    "STAKES",
    "check_calibration",
]

STAKES: Array = np.array([-0.9, -0.3, -0.1, -0.03, 0.03, 0.1, 0.3, 0.9])
"""The stakes λ of the bets."""
_DIRECTIONS = 3  # bias, slope and the direction of the loss
_BLOCK = 2**20  # maximum numbers in memory while learning from many rewards at once
_LARGEST = log(np.finfo(np.float64).max)


class CalibrationState(NamedTuple):
    """State of the bets; leading axes are batch axes.

    `log_wealth` (…, N, 3, 8) contains the logarithm of the wealth of each bet, and
    `log_peak` (…, N) that of the largest e-value so far. `scale` (…, N) is the largest
    difference of losses so far, which scales the third direction. `losses` (…, N) are
    sums over the `scored` (…, N) rewards.
    """

    log_wealth: Array
    log_peak: Array
    scale: Array
    losses: Array
    scored: Array
    learnt: int


class CalibrationReport(NamedTuple):
    """Result of the test for each of the N experts.

    `e_values` are the current wealth of the bets against each expert (at most 1.8e308),
    and `refuted` marks experts whose wealth has ever reached 1/alpha. `losses` are mean
    losses over the rewards for which an expert made a prediction (NaN: none). `best` is
    the expert with the smallest mean loss (None before any reward). `consistent` is
    true if the best expert is not refuted, and `number` is its p-value, min(1, 1 /
    largest e-value so far), which is valid at any time. `sentence` is a summary in
    English.

    >>> report = check_calibration(
    ...     Log(arm=[0, 0], reward=[1, 1], advice=[[0.9], [0.8]]), ["only"]
    ... )
    >>> report.best, report.consistent, report.refuted
    ('only', True, array([False]))
    """

    names: tuple[str, ...]
    e_values: Array
    refuted: Bools
    losses: Array
    best: str | None
    consistent: bool
    number: float
    sentence: str


@dataclass(frozen=True, eq=False)
class CalibrationMonitor:
    """Betting test, for each expert, of the hypothesis that its prediction f for the
    drawn arm is the mean reward. H0: E[r | past, f] = f.

        e_t = mean over λ and d of Π_{s ≤ t} (1 + λ d_s (r_s - f_s)),
        λ = ±0.03, ±0.1, ±0.3, ±0.9

    The directions d in [-1, 1] are 1 (bias), 2f - 1 (over- and under-confidence), and
    ℓ(f, 1) - ℓ(f, 0) divided by its largest size so far, which tests whether the expert
    has the losses that it expects itself. Under H0 e_t is a nonnegative martingale with
    mean 1, so by Ville's inequality max_t e_t ≥ 1/alpha has probability at most alpha.
    So you may look at the test and stop it at any time (Waudby-Smith and Ramdas 2024).
    The test applies if rewards are in [0, 1], and if the order in which they are learnt
    does not depend on their values. If clicks arrive before non-clicks, calibrated
    experts look biased.

    The level applies to each expert separately: at alpha 0.05, the test may refute 5 of
    100 calibrated experts. NaN advice (no prediction) leaves an expert's wealth
    unchanged.

    >>> monitor = CalibrationMonitor(["fair", "rosy"])
    >>> state = monitor.init()
    >>> for t in range(200):
    ...     decision = Decision(
    ...         t, None, None, 0, np.array([1.0]), advice=np.array([0.5, 0.7])
    ...     )
    ...     state = monitor.update(state, decision, t % 2)
    >>> print(monitor.report(state).sentence)
    1 of 2 experts withstands the test at level 0.05 after 200 rewards; the best, 'fair'
    with mean loss 0.6931, is
    consistent with the rewards (p = 1).
    """

    names: Sequence[str]
    loss: Loss = log_loss
    alpha: float = 0.05

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", check_names("names", self.names))
        if not callable(self.loss):
            raise InvalidInput(
                f"loss must be a function of prediction and reward; got {self.loss!r}"
            )
        number("alpha", self.alpha, low=0, high=1, open_low=True, open_high=True)

    def init(self, shape: tuple[int, ...] = ()) -> CalibrationState:
        """Return the state before any bet, with wealth 1 and batch axes `shape`."""
        each = (*shape, len(self.names))
        log_wealth = np.zeros((*each, _DIRECTIONS, len(STAKES)))
        return CalibrationState(
            log_wealth=log_wealth,
            log_peak=np.zeros(each),
            scale=np.zeros(each),
            losses=np.zeros(each),
            scored=np.zeros(each),
            learnt=0,
        )

    def update(
        self, state: CalibrationState, decision: Decision, reward: Real
    ) -> CalibrationState:
        """Return the state after one reward in [0, 1] (per batch row), using the
        predictions at decision time."""
        if not isinstance(decision, Decision):
            raise InvalidInput(
                f"decision must be the result of decide; got {type(decision).__name__}"
            )
        rewards = np.asarray(check_rewards(decision, reward))
        advice = self._advice(decision.advice, state.log_peak.shape)
        return self._learn(state, advice[None], rewards[None])

    def fold(
        self, state: CalibrationState, decisions: Decision, rewards: object
    ) -> CalibrationState:
        """Return the state after many rewards along a leading axis. The result is the
        same as after repeated calls of `update`, which are much slower."""
        checked = np.asarray(check_rewards(decisions, rewards))
        shape = (len(checked), *state.log_peak.shape)
        advice = self._advice(decisions.advice, shape)
        return self._fold(state, advice, checked)

    def report(self, state: CalibrationState) -> CalibrationReport:
        """Return the report for a state without batch axes."""
        if state.log_peak.ndim != 1:
            raise InvalidInput(
                "state must have no batch axes to be reported; got "
                f"{state.log_peak.shape[:-1]}"
            )
        names = tuple(self.names)
        n = len(names)
        log_e_values = _log_e_values(state.log_wealth)
        refuted = state.log_peak >= -log(self.alpha)
        scored = state.scored > 0
        unknown = np.full(n, np.nan)
        losses = np.divide(state.losses, state.scored, where=scored, out=unknown)
        e_values = np.exp(np.minimum(log_e_values, _LARGEST))
        report = CalibrationReport(
            names=names,
            e_values=e_values,
            refuted=refuted,
            losses=losses,
            best=None,
            consistent=True,
            number=1.0,
            sentence=f"No expert has been scored yet, so none of {n} is refuted.",
        )
        if not scored.any():
            return report
        known = np.flatnonzero(scored)
        best = int(known[losses[known].argmin()])
        p_value = exp(-state.log_peak[best])
        p_text = "p < 0.000001"
        if p_value >= 1e-6:
            p_text = f"p = {p_value:.2g}"
        consistent = not refuted[best]
        standing = "refuted"
        if consistent:
            standing = "consistent with the rewards"
        count = int((~refuted).sum())
        verb = "withstand"
        if count == 1:
            verb = "withstands"
        name = names[best]
        loss = losses[best]
        sentence = (
            f"{count} of {n} experts {verb} the test at level {self.alpha:g} after "
            f"{state.learnt} rewards; the best, {name!r} with mean loss {loss:.4g}, is "
            f"{standing} ({p_text})."
        )
        return report._replace(
            best=name, consistent=consistent, number=p_value, sentence=sentence
        )

    def _advice(self, advice: Array | None, shape: tuple[int, ...]) -> Array:
        """Return the experts' advice in the shape of the state, and raise unless
        predictions are possible mean rewards."""
        if advice is None or advice.shape != shape:
            got = None if advice is None else advice.shape
            n = len(self.names)
            raise InvalidInput(
                f"decision must carry advice of the {n} experts, shape {shape}; got "
                f"{got}"
            )
        outside = (advice < 0) | (advice > 1)
        if outside.any():
            place = tuple(np.argwhere(outside)[0])
            name = self.names[int(place[-1])]
            raise InvalidInput(
                f"advice must be in [0, 1] (see Clipped); got {advice[place]:g} of "
                f"expert {name!r}"
            )
        return advice

    def _fold(
        self, state: CalibrationState, advice: Array, rewards: Array
    ) -> CalibrationState:
        size = max(1, state.log_wealth.size)
        rows = max(1, _BLOCK // size)
        for start in range(0, len(rewards), rows):
            block = slice(start, start + rows)
            state = self._learn(state, advice[block], rewards[block])
        return state

    def _learn(
        self, state: CalibrationState, advice: Array, rewards: Array
    ) -> CalibrationState:
        """Return the state after advice (T, …, N) and rewards (T, …): all bets, step by
        step."""
        awake = ~np.isnan(advice)
        mean = np.where(awake, advice, 0.5)
        reward = np.broadcast_to(rewards[..., None], advice.shape)
        losses = self._losses(mean, reward, awake)
        ones = np.ones_like(mean)
        loss_of_one = self._losses(mean, ones, awake)
        loss_of_zero = self._losses(mean, np.zeros_like(mean), awake)
        own, scale = _scaled_own(loss_of_one, loss_of_zero, state.scale)
        directions = np.stack([ones, 2 * mean - 1, own], axis=-1)
        surprise = np.where(awake, reward - mean, 0.0)
        moves = directions * surprise[..., None]
        growth = np.log1p(moves[..., None] * STAKES)
        growth[0] += state.log_wealth
        log_wealth = np.cumsum(growth, axis=0, out=growth)
        peak = _log_e_values(log_wealth).max(axis=0)
        scored = state.scored + awake.sum(axis=0)
        log_peak = np.maximum(state.log_peak, peak)
        learnt = state.learnt + len(rewards)
        return CalibrationState(
            log_wealth=log_wealth[-1].copy(),
            log_peak=log_peak,
            scale=scale,
            losses=state.losses + losses.sum(axis=0),
            scored=scored,
            learnt=learnt,
        )

    def _losses(self, mean: Array, rewards: Array, awake: Bools) -> Array:
        """Return the loss of each prediction, or 0 for experts without a prediction.
        Raise if a loss is NaN or -inf."""
        losses = self.loss(mean, rewards)
        if not isinstance(losses, np.ndarray) or losses.shape != mean.shape:
            got = getattr(losses, "shape", type(losses).__name__)
            raise InvalidInput(
                f"loss must be elementwise, an array of shape {mean.shape}; got {got}"
            )
        losses = np.where(awake, losses, 0.0)
        wrong = ~(losses > -np.inf)
        if wrong.any():
            place = tuple(np.argwhere(wrong)[0])
            name = self.names[int(place[-1])]
            raise OutOfDomain(
                f"loss must be above -inf; got {losses[place]} for {mean[place]:g} of "
                f"expert {name!r}"
            )
        return losses


def check_calibration(
    log: Log,
    names: Sequence[str] | None = None,
    *,
    loss: Loss = log_loss,
    alpha: float = 0.05,
) -> CalibrationReport:
    """Return the report of a `CalibrationMonitor` after all rewards of a log in row
    order.

    Rows without a reward are left out. Whether a reward is missing must not depend on
    its value.

    >>> log = Log(arm=[0] * 100, reward=[0, 1] * 50, advice=[[0.5, 0.9]] * 100)
    >>> report = check_calibration(log, ["fair", "rosy"])
    >>> report.best, report.refuted
    ('fair', array([False,  True]))
    """
    if not isinstance(log, Log):
        raise InvalidInput(f"log must be a Log; got {type(log).__name__}")
    rows = log.rewarded()
    if rows.advice is None:
        raise InvalidInput(
            "column advice: must be given to check the experts' predictions; got none"
        )
    n = rows.advice.shape[1]
    if names is None:
        own_names = numbered_experts(n)
    else:
        own_names = check_names("names", names, n=n)
    monitor = CalibrationMonitor(own_names, loss, alpha)
    advice = monitor._advice(rows.advice, (len(rows), n))
    return monitor.report(monitor._fold(monitor.init(), advice, rows.reward))


def _scaled_own(if_one: Array, if_zero: Array, scale: Array) -> tuple[Array, Array]:
    """Return the differences ℓ(f, 1) - ℓ(f, 0) of T steps, scaled to [-1, 1], and the
    final scale. Each difference is divided by the largest finite absolute difference up
    to its step.

    The scale of a step includes the step's own prediction, which is known before the
    reward. An infinite difference becomes ±1.
    """
    sure = np.isinf(if_one) | np.isinf(if_zero)
    upper = np.isinf(if_one)
    lower = np.isinf(if_zero)
    sign = upper.astype(np.float64) - lower
    own_one = np.where(sure, 0.0, if_one)
    own_zero = np.where(sure, 0.0, if_zero)
    own = own_one - own_zero
    largest_so_far = np.maximum.accumulate(np.abs(own), axis=0)
    largest = np.maximum(largest_so_far, scale)
    scaled = own / np.where(largest > 0, largest, 1.0)
    return np.where(sure, sign, scaled), largest[-1]


def _log_e_values(log_wealth: Array) -> Array:
    """Return the log of the mean wealth over all bets (…, N)."""
    top = log_wealth.max(axis=(-2, -1), keepdims=True)
    wealth = np.exp(log_wealth - top)
    mean = wealth.mean(axis=(-2, -1))
    log_e_values: Array = np.log(mean) + top[..., 0, 0]
    return log_e_values
