"""Warm starts: how learners vote after they were trained on a log.

A log contains little about the arms that its logging policy avoided. Optimistic votes
would choose exactly these arms, because their estimates are the most uncertain. So
after a log, each learner's vote is a mixture of three votes:

    optimistic   the usual vote
    cautious     the arm with the largest mean - sd
    logging      the arm that the logging policy is most likely to choose

The logging policy is estimated by a ridge regression of its propensities (or of the
drawn arm, if the log has none) on random Fourier features of the context. The shares of
the votes follow from doubly robust estimates, computed for each row before it is
learnt:

    Δ_v = vote v - logging vote
    d_v = Σ_a Δ_v(a) q(a) + Δ_v(a_t) (r - q(a_t)) / p(a_t)
    share_v ∝ exp(1.7 z_v - prior_v),   z_v = Σ d_v / sqrt(Σ Σ_a Δ_v(a)² σ² / p(a))

q is the learners' mean, p the propensities, and σ² the mean squared residual of q. 1 /
(1 + exp(-1.7 z)) is approximately the probability that a normal number with mean z is
above 0. Later rows count more, because learners improve: row t has weight t,
approximately. Live rewards are scored in the same way and reduce the prior, so that the
caution ends.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from oddsmith.core.arrays import Array, Bools
from oddsmith.core.decision import Decision
from oddsmith.core.weights import greedy
from oddsmith.experts.learners.features import Curves

if TYPE_CHECKING:
    from oddsmith.experts.learners.protocol import Belief, LearnerInput

__all__ = ["LoggingPolicy", "WarmStart", "ballot_of", "first_warm_start"]

_FEATURES = Curves(64)
_RIDGE = 1.0
_SD = 1.0  # cautious votes subtract this many standard deviations
# Log prior weights of the votes, in nats below that of the logging policy.
_PRIOR = np.array([2.0, 2.0, 0.0])
_PER_Z = 1.7
_LARGEST_Z = 20.0
_LARGEST_STEP = 2.0
_LARGEST_WEIGHT = 20.0  # maximum weight of a live reward
_LEAST_PROPENSITY = 1e-4
_LEAST_GUESS = 1e-3  # smallest estimate for a propensity that the log lacks
_HORIZON = 3_000.0  # number of live rewards, at most the rows of the log
_END = 10.0  # after this many horizons, the expert votes as without a log


class LoggingPolicy(NamedTuple):
    """A ridge regression of the logging policy's propensities on features of the
    context: weights (D, K), their covariance (D, D), and the initial number of columns.
    All fields are () before the first row.
    """

    weights: Any = ()
    covariance: Any = ()
    first: Any = ()

    def features(self, seen: "LearnerInput") -> Array:
        """Return the features (…, D) of rows; D grows with the columns."""
        return _FEATURES(seen.z, int(self.first), seen.linear)

    def scores(self, seen: "LearnerInput", n_arms: int) -> Array:
        """Return approximately how likely the policy chooses each of n arms (…, n); 0
        for arms that were added since."""
        phi = self.features(seen)
        weights = self.weights
        scores: Array = phi[..., : len(weights)] @ weights
        return _pad(scores, n_arms)

    def learn(self, seen: "LearnerInput", propensities: Array) -> "LoggingPolicy":
        """Return the regression with one more row (d), in place."""
        known = self
        if isinstance(known.first, tuple):
            nothing = np.zeros((0, propensities.shape[-1]))
            first = np.asarray(seen.z.shape[-1])
            known = LoggingPolicy(nothing, np.zeros((0, 0)), first)
        phi = known.features(seen)
        known = known._wider(len(phi), propensities.shape[-1])
        direction = known.covariance @ phi
        gain = direction / (1 + phi @ direction)
        error = propensities - phi @ known.weights
        known.covariance[...] -= np.outer(gain, direction)
        known.weights[...] += np.outer(gain, error)
        return known

    def _wider(self, n_features: int, n_arms: int) -> "LoggingPolicy":
        """Return the regression with further features and arms, which were 0 so far."""
        old_features, old_arms = self.weights.shape
        if (old_features, old_arms) == (n_features, n_arms):
            return self
        weights = np.zeros((n_features, n_arms))
        weights[:old_features, :old_arms] = self.weights
        covariance = np.eye(n_features) / _RIDGE
        covariance[:old_features, :old_features] = self.covariance
        return self._replace(weights=weights, covariance=covariance)


class WarmStart(NamedTuple):
    """The estimated logging policy, and the comparison of the votes with it.

    `rows` and `live` are the numbers of rows of the log and of live rewards that were
    scored. `gains` and `variances` (2,) compare the optimistic and the cautious votes
    with those of the logging policy; `residual` is the mean squared residual of the
    learners. All fields are () if the state was not fitted from a log.
    """

    rows: Any = ()
    live: Any = ()
    gains: Any = ()
    variances: Any = ()
    residual: Any = ()
    is_live: Any = ()
    policy: LoggingPolicy = LoggingPolicy()

    @property
    def is_active(self) -> bool:
        """Return whether votes are cautious."""
        return not isinstance(self.rows, tuple)

    @property
    def learns_policy(self) -> bool:
        """Return whether rows of the log are being learnt."""
        return self.is_active and not self.is_live

    @property
    def has_policy(self) -> bool:
        """Return whether the logging policy was learnt from rows of the log."""
        return not isinstance(self.policy.first, tuple)

    def shares(self) -> Array:
        """Return the shares (3,) of the optimistic, the cautious and the logging
        vote."""
        z = self.gains / np.sqrt(np.maximum(self.variances, 1e-300))
        z = np.clip(z, -_LARGEST_Z, _LARGEST_Z)
        horizon = max(min(float(self.rows), _HORIZON), 1.0)
        ease = 2.0 * float(self.live) / horizon
        logits = np.append(_PER_Z * z, 0.0) - _PRIOR
        logits[:2] += ease
        weights = np.exp(logits - logits.max())
        shares: Array = weights / weights.sum()
        return shares

    def mix(self, belief: "Belief", scores: Array, eligible: Bools | None) -> Array:
        """Return ballots (…, N, K): the three votes, mixed by their shares."""
        return np.tensordot(self.shares(), votes_of(belief, scores, eligible), 1)

    def score(self, ballot: "Ballot", drawn: int, reward: float) -> "WarmStart":
        """Return the comparison with one more reward of the arm `drawn`."""
        difference = ballot.votes[:2] - ballot.votes[2]
        means = ballot.means
        inside = ballot.propensities
        surprise = reward - means[drawn]
        live = int(bool(self.is_live))
        weight = 1 / inside[drawn]
        if live:
            weight = min(weight, _LARGEST_WEIGHT)
        gain = difference @ means + difference[:, drawn] * (surprise * weight)
        count = float(self.rows + self.live) + 1
        residual = self.residual + (surprise**2 - self.residual) / count
        kept = 1 - 1 / count
        variances = kept**2 * self.variances
        variances += (difference**2 / inside).sum(axis=-1) * residual
        # Limit how far one reward can change z, even if the reward is large.
        limit = _LARGEST_STEP * np.sqrt(variances)
        gain = np.minimum(np.maximum(gain, -limit), limit)
        return self._replace(
            rows=self.rows + (1 - live),
            live=self.live + live,
            gains=kept * self.gains + gain,
            variances=variances,
            residual=residual,
        )

    def learn(self, seen: "LearnerInput", decision: Decision) -> "WarmStart":
        """Return the warm start with one more row of the log, or unchanged in live
        use."""
        if not self.learns_policy:
            return self
        return self._replace(policy=self.policy.learn(seen, _targets(decision)))

    def learn_rows(self, seen: "LearnerInput", decision: Decision) -> "WarmStart":
        """Return the warm start with one more row of the log, in which each arm has a
        row (K, d) of numbers."""
        if not self.learns_policy:
            return self
        policy = self.policy
        targets = _targets(decision)
        for place in range(len(seen.z)):
            policy = policy.learn(seen.at(place), targets[place : place + 1])
        return self._replace(policy=policy)

    def revise(self, ballot: "Ballot", drawn: int, change: float) -> "WarmStart":
        """Return the comparison as if a reward had been larger by `change`."""
        difference = ballot.votes[:2, drawn] - ballot.votes[2, drawn]
        gain = difference * (change / ballot.propensities[drawn])
        return self._replace(gains=self.gains + gain)

    @property
    def is_over(self) -> bool:
        """Return whether there were enough live rewards to return to the usual
        votes."""
        horizon = max(min(float(self.rows), _HORIZON), 1.0)
        return bool(self.live > _END * horizon)


def _targets(decision: Decision) -> Array:
    """Return the propensities (K,), or 1 for the drawn arm if they are not all
    known."""
    propensities = np.asarray(decision.propensities)
    if not np.isnan(propensities).any():
        return propensities
    targets = np.zeros(propensities.shape)
    targets[int(decision.number)] = 1.0
    return targets


class Ballot(NamedTuple):
    """The optimistic, the cautious and the logging vote (3, K) in one context, the
    learners' means (K,), and the propensities (K,) with which the arm was drawn."""

    votes: Array
    means: Array
    propensities: Array


def ballot_of(belief: "Belief", scores: Array, decision: Decision) -> Ballot:
    """Return the votes of the last learner, and the propensities of the decision, or
    estimates of the logging policy's if the decision has none."""
    votes = votes_of(belief, scores, decision.eligible)[:, -1]
    propensities = _pad(np.asarray(decision.propensities), len(scores))
    guess = np.minimum(np.maximum(scores, _LEAST_GUESS), 1.0)
    propensities = np.where(np.isnan(propensities), guess, propensities)
    inside = np.maximum(propensities, _LEAST_PROPENSITY)
    return Ballot(votes, belief.mean[-1], inside)


def _pad(values: Array, n_arms: int) -> Array:
    """Return values (…, K) extended with 0 for further arms."""
    n_more = n_arms - values.shape[-1]
    if not n_more:
        return values
    more = np.zeros((*values.shape[:-1], n_more))
    return np.concatenate([values, more], axis=-1)


def first_warm_start() -> WarmStart:
    """Return a warm start before the first row of the log."""
    zero = np.zeros(())
    two = np.zeros(2)
    return WarmStart(zero, zero, two, two, zero, np.zeros((), np.int64))


def votes_of(belief: "Belief", scores: Array, eligible: Bools | None) -> Array:
    """Return the votes (3, …, N, K): optimistic, cautious, and the logging policy's."""
    optimistic = greedy(belief.mean + 0.3 * belief.sd, eligible)
    cautious = greedy(belief.mean - _SD * belief.sd, eligible)
    logging = greedy(np.broadcast_to(scores[..., None, :], belief.mean.shape), eligible)
    return np.stack([optimistic, cautious, logging])
