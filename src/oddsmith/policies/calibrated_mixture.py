"""CalibratedMixture: experts with online calibration, weighted by the loss of their
predictions and the reward of their choices."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from oddsmith.core import weights
from oddsmith.core.arrays import Array, Bools, Ints, Real, number
from oddsmith.core.decision import Context, Decision, Odds, State, Step
from oddsmith.core.expert_policy import (
    OverExperts,
    checked_prior,
    drawn_advice,
    shared_prior,
)
from oddsmith.core.experts import Experts
from oddsmith.core.explanation import Explanation
from oddsmith.core.names import numbered_arms
from oddsmith.core.offer import AnyOffer
from oddsmith.core.policy import ExpertShare
from oddsmith.experts.learners.unit import grown_unit, unit_or_one
from oddsmith.policies.parts.advice import ByAdvice
from oddsmith.policies.parts.calibration import (
    Calibration,
    calibrated,
    distances,
    first_calibration,
    logits,
)

__all__ = ["CalibratedMixture", "MixtureState"]

AVERAGE = "average"
"""Name of the member that chooses by the mean of the calibrated predictions."""
_AVERAGE_ETA = 0.25
_LARGEST_WEIGHT = 20.0  # maximum weight of a reward in the estimated values
_LARGEST_DEFICIT = 12.0  # maximum deficit in nats
# Total weight of experts that vote like the logging policy, after learning a log.
_SHARE_AFTER_LOG = 0.9
_LEAST = 1e-6  # the average's prediction is clipped to [_LEAST, 1 - _LEAST]


class MixtureState(NamedTuple):
    """Losses and values of each member relative to the best (…, N + 1), and the
    calibration of each expert.

    Members are the N experts and, last, the average. `losses` are sums of log losses,
    `values` sums of estimated rewards, `spread` (…) is 1 plus the sum of the values'
    weighted squares. Losses and values are bounded; `totals` are the values without
    bounds. `unit` (…) is the power of two that bounds the rewards so far, 0 while all
    of them were 0.
    """

    learnt: int
    unit: Array
    losses: Array
    values: Array
    totals: Array
    spread: Array
    calibration: Calibration
    experts: State


class _Record(NamedTuple):
    """The record of the drawn arm in a decision, with rewards in internal units.

    `predictions` and `votes` of the members (…, N + 1), `distances` of the experts'
    logits from their mean over the arms (…, N), and `expected` (…, N + 1), the reward
    of each member's choice according to the average, NaN for a member without a vote.
    """

    predictions: Array
    votes: Array
    distances: Array
    expected: Array

    @property
    def logits(self) -> Array:
        """Return the logits (…, N) of the experts' predictions."""
        return logits(self.predictions[..., :-1])

    @property
    def average(self) -> Array:
        """Return the average's prediction (…)."""
        prediction: Array = self.predictions[..., -1]
        return prediction


@dataclass(frozen=True, eq=False)
class CalibratedMixture(ByAdvice, OverExperts):
    """Experts with online calibration, weighted by their loss and by the reward of
    their choices.

        w_i ∝ π_i exp(-η L_i + β sqrt(ln(N + 1) / V) S_i)
        Pr(a) = (1 - γ) Σ_i w_i ballot_i(a) + γ / K

    L_i is the log loss of expert i's calibrated predictions (`parts.calibration`), as
    in Generalized Thompson Sampling. S_i is the doubly robust estimate of the reward
    that its choices add to the mixture's, and V the sum of the squares of its terms:

        v_i = Σ_a ballot_i(a) q(a) + ballot_i(a_t) min(1 / p, 20) (r - q(a_t))
        S_i += v_i - Σ_j w_j v_j,   V += Σ_i w_i (v_i - Σ_j w_j v_j)²

    So an expert that predicts badly but chooses well also gains weight. One more
    member, the average, votes for the arm with the largest mean q of the calibrated
    predictions, with weights ∝ π_i exp(-L_i / 4). Its prior is `average`; the experts
    share the rest by `prior`. An expert without a prediction gets the loss of the
    average. In the exponent, the term of either sum is never more than 12 below that of
    the best member, so that an expert can recover when models become outdated or the
    world changes.

    >>> from oddsmith.experts.external import GivenExperts
    >>> policy = CalibratedMixture(GivenExperts(["cold", "warm"]), gamma=0.0)
    >>> odds = policy.odds(policy.init(), np.array([[0.2, 0.1], [0.4, 0.8]]))
    >>> odds.propensities.round(6)
    array([0.1, 0.9])
    """

    experts: Experts
    _: KW_ONLY
    prior: Any = None
    average: float = 0.8
    eta: float = 0.5
    beta: float = 0.5
    gamma: float = 0.005

    weighs_ballots = True
    importance_weighted = True
    prediction_range = (-1e6, 1e6)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "prior", checked_prior(self.prior, self.experts.names))
        number("average", self.average, low=0, high=1, open_high=True)
        number("eta", self.eta, low=0, high=1e3)
        number("beta", self.beta, low=0, high=1e3)
        number("gamma", self.gamma, low=0, high=1)

    @cached_property
    def log_prior(self) -> Array:
        """Return the log prior ln π (N + 1,) of the members; -inf for a prior of 0."""
        shares = np.append(self.prior * (1 - self.average), self.average)
        with np.errstate(divide="ignore"):
            log_prior: Array = np.log(shares)
        return log_prior

    @cached_property
    def _log_prior_of_experts(self) -> Array:
        """Return the log of the experts' prior (N,); -inf for a prior of 0."""
        with np.errstate(divide="ignore"):
            log_prior: Array = np.log(self.prior)
        return log_prior

    @property
    def explores(self) -> bool:
        return self.gamma > 0

    def weights_of(self, state: MixtureState) -> Array:
        return state.losses[..., :-1]

    def init(self, shape: tuple[int, ...] = ()) -> MixtureState:
        """Return the prior as a state with batch axes `shape`."""
        n = len(self.prior)
        zeros = np.zeros((*shape, n + 1))
        calibration = first_calibration((*shape, n))
        return MixtureState(
            0,
            unit=np.zeros(shape),
            losses=zeros,
            values=zeros.copy(),
            totals=zeros.copy(),
            spread=np.ones(shape),
            calibration=calibration,
            experts=self.experts.init(shape),
        )

    def begin_log(self, state: MixtureState) -> MixtureState:
        """Give most of the weight to experts that vote like the logging policy, so that
        models must first prove better on the log."""
        state = super().begin_log(state)
        if not self.experts.learns:
            return state
        follows = self.experts.follows_log(state.experts)
        share = float(self.prior[follows].sum()) * (1 - self.average)
        if not 0 < share < _SHARE_AFTER_LOG or not self.eta:
            return state
        wanted = np.log(_SHARE_AFTER_LOG / (1 - _SHARE_AFTER_LOG))
        nats = wanted - np.log(share / (1 - share))
        losses = state.losses.copy()
        losses[..., :-1][..., follows] -= nats / self.eta
        return self._bounded(state._replace(losses=losses))

    def with_arms(
        self, state: MixtureState, arms: Sequence[str]
    ) -> tuple[Self, MixtureState]:
        experts, own = self.experts.with_arms(state.experts, arms)
        state = state._replace(experts=own)
        return self.with_bank(experts), state

    def with_expert_share(
        self, state: MixtureState, change: ExpertShare
    ) -> tuple[Self, MixtureState]:
        """Give a new expert this share of the experts' weight and of the average, and a
        fresh calibration."""
        policy: Any = self
        prior = shared_prior(self.prior, change)
        changed: Self = replace(policy, experts=change.bank, prior=prior)
        state = state._replace(experts=change.own)
        if change.share == 0:
            return changed, state
        if change.place == len(self.prior):
            # More members increase the learning rate, so rescale the values.
            ratio = self._rate(state) / np.maximum(changed._rate(state), 1e-300)
            state = state._replace(values=state.values * ratio[..., None])
            state = _with_place(state)
        # Distribute the prior of this expert over the others.
        others = np.delete(changed.prior, change.place)
        with np.errstate(divide="ignore"):
            log_others = np.log(others / others.sum())
        losses = np.delete(state.losses[..., :-1], change.place, axis=-1)
        values = np.delete(state.values[..., :-1], change.place, axis=-1)
        rate = changed._rate(state)
        loss = _log_sum(log_others - _AVERAGE_ETA * losses) / -_AVERAGE_ETA
        exponent = rate[..., None] * values - self.eta * losses
        value = _log_sum(log_others + exponent) + self.eta * loss
        all_losses = state.losses.copy()
        all_losses[..., change.place] = loss
        all_values = state.values.copy()
        all_values[..., change.place] = value / np.maximum(rate, 1e-300)
        return changed, state._replace(losses=all_losses, values=all_values)

    def adviser_count(self, decision: Decision) -> int:
        return max(super().adviser_count(decision) - 3, 0) // 4

    def with_advisers(
        self, state: MixtureState, decision: Decision, places: Ints
    ) -> Decision:
        """Return the decision with advice for the current experts; those without advice
        have no prediction and no vote."""
        advice = decision.advice
        if advice is None:
            return decision
        record = _split_record(advice, self.adviser_count(decision))
        # The average is the last member.
        members = np.append(places, record.distances.shape[-1])
        is_new = members < 0
        is_new_expert = places < 0
        predictions = np.where(is_new, np.nan, record.predictions[..., members])
        votes = np.where(is_new, 0.0, record.votes[..., members])
        apart = np.where(is_new_expert, np.nan, record.distances[..., places])
        expected = np.where(is_new, np.nan, record.expected[..., members])
        parts = [predictions, votes, apart, expected]
        return decision._replace(advice=np.concatenate(parts, axis=-1))

    def members(self, state: MixtureState) -> Array:
        """Return the normalised weight (…, N + 1) of each expert and of the average."""
        return weights.posterior(self._log_weights(state))

    def posterior(self, state: MixtureState) -> Array:
        """Return the total weight of each expert (…, N): its own, and its share of the
        average's."""
        members = self.members(state)
        parts = weights.posterior(self._log_parts(state))
        total: Array = members[..., :-1] + members[..., -1:] * parts
        return total

    def advice(
        self, state: MixtureState, context: Context, eligible: Bools | None = None
    ) -> tuple[Array, Array]:
        """Return predictions and ballots (…, N + 1, K) of the experts and, last, of the
        average."""
        advice = super().advice(state, context, eligible)
        return self._with_average(state, advice, eligible)

    def weigh(
        self,
        state: MixtureState,
        advice: tuple[Array, Array],
        *,
        eligible: Bools | None = None,
        step: Step = None,
        offer: AnyOffer | None = None,
        uniform: Array | None = None,
    ) -> Odds:
        """Return the members' votes by weight, mixed with gamma.

        The advice of the result is a record: the members' predictions (N + 1) and
        ballots (N + 1), the distances of the experts' logits from their mean (N), and
        the reward that the average expects for each member's choice (N + 1), NaN for a
        member without a vote."""
        predictions, ballots = self._with_average(state, advice, eligible)
        log_weights = self._log_weights(state)
        propensities = weights.mix(log_weights, ballots, self.gamma, eligible, uniform)
        unit = unit_or_one(state.unit)[..., None, None]
        apart = distances(logits(predictions[..., :-1, :] / unit), eligible)
        q = np.nan_to_num(predictions[..., -1:, :])
        expected = np.add.reduce(ballots * q, axis=-1)
        expected = np.where(ballots.any(axis=-1), expected, np.nan)
        record = [predictions, ballots, apart, expected[..., None]]
        return Odds(propensities, _join(propensities.shape[:-1], record))

    def update(
        self, state: MixtureState, decision: Decision, reward: Real
    ) -> MixtureState:
        """Update losses, estimated rewards and calibrations of all members; then the
        experts learn."""
        rewards = np.asarray(reward, dtype=np.float64)
        record = self._record(decision)
        own = self.update_experts(state.experts, self._of_experts(decision), reward)
        state = _with_unit(state, rewards)
        record, r = _in_units(record, rewards, state.unit)
        z = record.logits
        losses = _log_loss(self._predicted(state, record, z), r[..., None])
        share = self.members(state)
        advantage = _advantage(record, decision.propensity, r, share)
        spread = np.add.reduce(share * advantage**2, axis=-1)
        calibration = state.calibration.learn(z, record.distances, r)
        state = MixtureState(
            state.learnt + 1,
            state.unit,
            state.losses + losses,
            state.values + advantage,
            state.totals + advantage,
            state.spread + spread,
            calibration,
            own,
        )
        return self._bounded(state)

    def revise(
        self, state: MixtureState, decision: Decision, before: float, reward: float
    ) -> MixtureState:
        """Return the state with the corrected reward, using the current calibration."""
        record = self._record(decision)
        of_experts = self._of_experts(decision)
        own = self.revise_experts(state.experts, of_experts, before, reward)
        rewards = np.asarray(reward)
        state = _with_unit(state, rewards)._replace(experts=own)
        record, r = _in_units(record, rewards, state.unit)
        old = before / unit_or_one(state.unit)
        change = r - old
        z = record.logits
        predicted = self._predicted(state, record, z)
        gain = np.log(predicted) - np.log1p(-predicted)
        share = self.members(state)
        p = decision.propensity
        advantage = _advantage(record, p, r, share) - _advantage(record, p, old, share)
        calibration = state.calibration.shift(z, record.distances, change)
        state = state._replace(
            losses=state.losses - change[..., None] * gain,
            values=state.values + advantage,
            totals=state.totals + advantage,
            calibration=calibration,
        )
        return self._bounded(state)

    def explain_advice(
        self,
        state: MixtureState,
        advice: tuple[Array, Array],
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
        uniform: Array | None = None,
    ) -> Explanation:
        """Explain the propensities that `weigh` returns for this advice."""
        predictions, ballots = self._with_average(state, advice, eligible)
        n_arms = ballots.shape[-1]
        log_weights = self._log_weights(state)
        voting = weights.awake_weights(log_weights, ballots)
        exploration = self.gamma * weights.even(n_arms, eligible, uniform)
        odds = weights.mix(log_weights, ballots, self.gamma, eligible, uniform)
        notes = self.notes(state) if state.spread.ndim == 0 else ()
        return Explanation(
            (*self.experts.names, AVERAGE),
            numbered_arms(n_arms),
            self.members(state),
            voting,
            predictions,
            ballots,
            exploration,
            odds,
            notes,
        )

    def notes(self, state: MixtureState) -> tuple[str, ...]:
        """Return a sentence about the calibration and the cost of each expert, and the
        experts' own notes (for a state without batch axes)."""
        own = self.experts.notes(state.experts)
        if not state.learnt:
            return own
        calibration = state.calibration
        per_thousand = 1000 * float(state.unit) / state.learnt
        best = float(state.totals.max())
        lines = []
        for place, name in enumerate(self.experts.names):
            trust = float(calibration.trust[place])
            slope = float(calibration.slope[place])
            intercept = float(calibration.intercept[place])
            cost = per_thousand * (best - float(state.totals[place]))
            reading = f"calibrated with slope {slope:.2f} and intercept {intercept:.2f}"
            if trust > 0.5:
                reading = f"already calibrated (probability {trust:.2f})"
            lines.append(
                f"{name}: {reading}; its choices cost an estimated {cost:.3g} of "
                "reward per 1,000 decisions, compared with the best member"
            )
        return (*lines, *own)

    def _with_average(
        self,
        state: MixtureState,
        advice: tuple[Array, Array],
        eligible: Bools | None,
    ) -> tuple[Array, Array]:
        """Append the average to the experts' predictions and ballots (…, N, K), unless
        they already contain it."""
        predictions, ballots = advice
        if predictions.shape[-2] > len(self.prior):
            return advice
        unit = unit_or_one(state.unit)[..., None, None]
        z = logits(predictions / unit)
        c = calibrated(state.calibration, z, distances(z, eligible))
        parts = weights.posterior(self._log_parts(state))[..., None]
        mean = _weighted_mean(parts, c) * unit
        vote = weights.greedy(mean, eligible)
        lead = mean.shape[:-2]
        return _join(lead, [predictions, mean]), _join(lead, [ballots, vote])

    def _log_weights(self, state: MixtureState) -> Array:
        """Return the log weights ln w (…, N + 1) relative to the leader."""
        rate = self._rate(state)[..., None]
        exponent = rate * state.values - self.eta * state.losses
        return _relative(self.log_prior + exponent)

    def _log_parts(self, state: MixtureState) -> Array:
        """Return the log weights of the experts in the average (…, N), relative to the
        largest."""
        losses = state.losses[..., :-1]
        return _relative(self._log_prior_of_experts - _AVERAGE_ETA * losses)

    def _rate(self, state: MixtureState) -> Array:
        """Return the learning rate β sqrt(ln(N + 1) / V) (…)."""
        members = len(self.prior) + 1
        rate: Array = self.beta * np.sqrt(np.log(members) / state.spread)
        return rate

    def _bounded(self, state: MixtureState) -> MixtureState:
        """Limit how far each sum can fall behind the best one."""
        losses = state.losses - np.minimum.reduce(state.losses, axis=-1, keepdims=True)
        if self.eta:
            losses = np.minimum(losses, _LARGEST_DEFICIT / self.eta)
        values = state.values - np.maximum.reduce(state.values, axis=-1, keepdims=True)
        if self.beta:
            least = -_LARGEST_DEFICIT / self._rate(state)[..., None]
            values = np.maximum(values, least)
        return state._replace(losses=losses, values=values)

    def _predicted(self, state: MixtureState, record: _Record, z: Array) -> Array:
        """Return the members' calibrated predictions (…, N + 1) for the drawn arm.
        Experts without a prediction get the average's, or 1/2 if no expert has one."""
        average = np.where(np.isnan(record.average), 0.5, record.average)
        average = np.minimum(np.maximum(average, _LEAST), 1 - _LEAST)[..., None]
        apart = record.distances[..., None]
        own = calibrated(state.calibration, z[..., None], apart)[..., 0]
        experts = np.where(np.isnan(own), average, own)
        return np.concatenate([experts, average], axis=-1)

    def _record(self, decision: Decision) -> _Record:
        """Return the record that a decision's advice contains."""
        n = len(self.prior)
        return _split_record(drawn_advice(decision, 4 * n + 3), n)

    def _of_experts(self, decision: Decision) -> Decision:
        """Return the decision with the experts' predictions, from which the experts
        learn."""
        n = len(self.prior)
        advice = drawn_advice(decision, 4 * n + 3)
        return decision._replace(advice=advice[..., :n])


def _split_record(advice: Array, n_experts: int) -> _Record:
    """Split a record (…, 4 N + 3) into its parts."""
    n_members = n_experts + 1
    ends = (n_members, 2 * n_members, 2 * n_members + n_experts)
    parts = np.split(advice, ends, axis=-1)
    return _Record(*parts)


def _log_sum(exponents: Array) -> Array:
    """Return ln Σ_i exp(x_i) (…) for exponents (…, N)."""
    top = np.maximum.reduce(exponents, axis=-1)
    shares = np.exp(exponents - top[..., None])
    total: Array = top + np.log(np.add.reduce(shares, -1))
    return total


def _with_place(state: MixtureState) -> MixtureState:
    """Return the state with one more expert, inserted before the average."""
    place = state.losses.shape[-1] - 1
    shape = (*state.losses.shape[:-1], 1)
    axis = len(shape) - 1
    parts = list[Array]()
    for pair in zip(state.calibration, first_calibration(shape), strict=True):
        parts.append(np.concatenate(pair, axis=axis))
    losses = np.insert(state.losses, place, 0.0, axis=-1)
    values = np.insert(state.values, place, 0.0, axis=-1)
    totals = np.insert(state.totals, place, 0.0, axis=-1)
    return state._replace(
        losses=losses,
        values=values,
        totals=totals,
        calibration=Calibration(*parts),
    )


def _in_units(record: _Record, reward: Array, unit: Array) -> tuple[_Record, Array]:
    """Return the record and the reward (…) in this unit (…).

    Before the first reward above 0, the unit was not known when decisions were made.
    Their expectations may be any number, and are clipped to [0, 1].
    """
    known = unit_or_one(unit)
    scale = known[..., None]
    expected = np.minimum(np.maximum(record.expected / scale, 0.0), 1.0)
    predictions = np.minimum(np.maximum(record.predictions / scale, 0.0), 1.0)
    record = record._replace(predictions=predictions, expected=expected)
    return record, reward / known


def _advantage(record: _Record, propensity: Real, reward: Array, share: Array) -> Array:
    """Return the estimated reward of each member's choice minus that of the mixture (…,
    N + 1), by the weights `share`; 0 for a member without a vote."""
    weight = np.minimum(1 / np.asarray(propensity), _LARGEST_WEIGHT)
    surprise = weight * (reward - np.nan_to_num(record.average))
    earned = record.expected + record.votes * surprise[..., None]
    mean = _weighted_mean(share[..., None], earned[..., None])[..., 0]
    advantage: Array = np.nan_to_num(earned - mean)
    return advantage


def _weighted_mean(shares: Array, values: Array) -> Array:
    """Return the mean (…, 1, K) of values (…, N, K) weighted by shares (…, N, 1),
    ignoring NaN; NaN if all are."""
    known = ~np.isnan(values)
    values = np.where(known, values, 0.0)
    weight = np.add.reduce(shares * known, axis=-2, keepdims=True)
    total = np.add.reduce(shares * values, axis=-2, keepdims=True)
    is_weighted = weight > 0
    mean = total / np.where(is_weighted, weight, 1)
    return np.where(is_weighted, mean, np.nan)


def _log_loss(predictions: Array, reward: Array) -> Array:
    hit = -reward * np.log(predictions)
    losses: Array = hit - (1 - reward) * np.log1p(-predictions)
    return losses


def _with_unit(state: MixtureState, rewards: Array) -> MixtureState:
    """Return the state in a unit that is at least as large as these rewards."""
    unit, factor = grown_unit(state.unit, rewards)
    if np.all(unit == state.unit):
        return state
    by_member = factor[..., None]
    spread = 1 + (state.spread - 1) * factor**2
    return state._replace(
        unit=unit,
        values=state.values * by_member,
        totals=state.totals * by_member,
        spread=spread,
        calibration=state.calibration.rescale(factor),
    )


def _relative(log_weights: Array) -> Array:
    top = np.maximum.reduce(log_weights, axis=-1, keepdims=True)
    relative: Array = log_weights - top
    return relative


def _join(lead: tuple[int, ...], parts: Sequence[Array]) -> Array:
    """Join the rows (…, M, K) of several arrays, broadcast to the batch axes `lead`.
    One number per row is repeated for every arm."""
    rows = list[Array]()
    n_arms = parts[0].shape[-1]
    for part in parts:
        shape = (*lead, part.shape[-2], n_arms)
        rows.append(np.broadcast_to(part, shape))
    return np.concatenate(rows, axis=-2)
