"""Recipes: named algorithms as settings of a policy, mostly of Generalized Thompson
Sampling."""

from oddsmith.core.arrays import Array, number
from oddsmith.core.expert_policy import Prior, checked_prior
from oddsmith.core.experts import Experts
from oddsmith.core.gts import GeneralizedThompsonSampling, PowerSchedule
from oddsmith.core.losses import Loss, log_loss
from oddsmith.policies.exp4 import EXP4
from oddsmith.policies.fastcb import FastCB
from oddsmith.policies.hedge import Hedged
from oddsmith.policies.parts.oracles import OracleName
from oddsmith.policies.squarecb import SquareCB
from oddsmith.theory.coefficients import tight_coefficient
from oddsmith.theory.conditions import Certificate
from oddsmith.theory.rivals import exp4_bound, feelgood_bound, squarecb_bound
from oddsmith.theory.tuning import tune

__all__ = [
    "epsilon_greedy",
    "exp4",
    "fastcb",
    "feel_good",
    "follow_the_leader",
    "hedged",
    "squarecb",
    "thompson_sampling",
    "tuned",
    "uniform",
]

# With this learning rate, a difference of 1e-6 nats decides which expert leads.
_DECIDED = 1e6


def thompson_sampling(
    experts: Experts, prior: Prior = None
) -> GeneralizedThompsonSampling:
    """Return Thompson sampling: log loss, eta 1, gamma 0. Its posterior is exact Bayes
    (Li 2013, Section 3).

    >>> from oddsmith.experts.external import GivenExperts
    >>> thompson_sampling(GivenExperts(["a", "b"])).eta
    1.0
    """
    return GeneralizedThompsonSampling(
        experts, log_loss, eta=1.0, gamma=0.0, prior=prior
    )


def tuned(
    experts: Experts,
    loss: Loss | Certificate = log_loss,
    *,
    n_arms: int,
    steps: int | None = None,
    prior: Prior = None,
) -> GeneralizedThompsonSampling:
    """Return GTS with the eta and gamma that minimise the regret bound for `steps`
    decisions, or with a decreasing schedule if `steps` is None (docs/math 3.8).

    The bound is for the expert with the smallest positive prior, and applies if one
    expert is right. A user's own loss is certified for predictions in [0, 1]; pass a
    certificate for another range.

    >>> from oddsmith.experts.external import GivenExperts
    >>> tuned(GivenExperts(["a", "b"]), n_arms=3).gamma
    PowerSchedule(scale=0.920..., power=0.333..., cap=1.0)
    """
    function = loss.loss if isinstance(loss, Certificate) else loss
    checked = checked_prior(prior, experts.names)
    tuning = tune(loss, n_arms=n_arms, steps=steps, prior=_least(checked))
    gamma: float | PowerSchedule = tuning.gamma
    if tuning.power:
        gamma = PowerSchedule(tuning.gamma, tuning.power)
    return GeneralizedThompsonSampling(
        experts, function, eta=tuning.eta, gamma=gamma, prior=checked
    )


def epsilon_greedy(
    experts: Experts, loss: Loss = log_loss, *, epsilon: float = 0.05
) -> GeneralizedThompsonSampling:
    """Return epsilon-greedy: follow the expert with the smallest total loss, and draw a
    random arm with probability epsilon. Tied experts share.

    It is GTS with a learning rate so large that all weight is on the leader. Epsilon 0
    is follow-the-leader.

    >>> from oddsmith.experts.external import GivenExperts
    >>> policy = epsilon_greedy(GivenExperts(["a", "b"]), epsilon=0.1)
    >>> policy.gamma
    0.1
    """
    number("epsilon", epsilon, low=0, high=1)
    return GeneralizedThompsonSampling(experts, loss, eta=_DECIDED, gamma=epsilon)


def uniform(experts: Experts) -> GeneralizedThompsonSampling:
    """Return a policy that draws every eligible arm with the same probability. The
    weights are still updated."""
    return GeneralizedThompsonSampling(experts, gamma=1.0)


def follow_the_leader(
    experts: Experts, loss: Loss = log_loss
) -> GeneralizedThompsonSampling:
    """Return a policy that always follows the expert with the smallest total loss. Tied
    experts share."""
    return epsilon_greedy(experts, loss, epsilon=0.0)


def feel_good(
    experts: Experts,
    loss: Loss = log_loss,
    *,
    n_arms: int,
    steps: int,
    prior: Prior = None,
) -> GeneralizedThompsonSampling:
    """Return Feel-Good Thompson sampling (Zhang 2022) with the eta and optimism of its
    bound, gamma 0 (docs/math 5.1).

    >>> from oddsmith.experts.external import GivenExperts
    >>> policy = feel_good(GivenExperts(["a", "b"]), n_arms=2, steps=1000)
    >>> policy.eta, round(policy.optimism, 4)
    (0.25, 0.0176)
    """
    checked = checked_prior(prior, experts.names)
    bound = feelgood_bound(loss, n_arms=n_arms, steps=steps, prior=_least(checked))
    eta = float(bound.eta or 0.0)
    optimism = float(bound.gamma or 0.0)
    return GeneralizedThompsonSampling(
        experts, loss, eta=eta, gamma=0.0, prior=checked, optimism=optimism
    )


def exp4(experts: Experts, *, n_arms: int, steps: int, prior: Prior = None) -> EXP4:
    """Return EXP4 with the eta of its bound sqrt(2 K T ln N) (docs/math 5.4)."""
    checked = checked_prior(prior, experts.names)
    bound = exp4_bound(n_arms=n_arms, steps=steps, prior=_least(checked))
    eta = max(float(bound.eta or 0.0), 1e-12)
    return EXP4(experts, eta=eta, prior=checked)


def hedged(
    experts: Experts, loss: Loss = log_loss, *, prior: Prior = None, trust: float = 0.5
) -> Hedged:
    """Return a safe combination of GTS (with the eta of its bound and gamma 0) and
    every expert's own policy (docs/math 7.4).

    >>> from oddsmith.experts.external import GivenExperts
    >>> policy = hedged(GivenExperts(["a", "b"]))
    >>> policy.policy.eta, policy.policy.gamma, policy.trust
    (0.5, 0.0, 0.5)
    """
    eta = tight_coefficient(loss).eta
    policy = GeneralizedThompsonSampling(experts, loss, eta=eta, gamma=0.0, prior=prior)
    return Hedged(policy, trust=trust)


def squarecb(
    experts: Experts,
    *,
    n_arms: int,
    steps: int,
    prior: Prior = None,
    oracle: OracleName = "vovk",
) -> SquareCB:
    """Return SquareCB with the sharpness of its bound sqrt((K-1) T L) (docs/math
    5.2)."""
    checked = checked_prior(prior, experts.names)
    bound = squarecb_bound(n_arms=n_arms, steps=steps, prior=_least(checked))
    sharpness = float(bound.gamma or 0.0)
    return SquareCB(experts, sharpness=sharpness, oracle=oracle, prior=checked)


def fastcb(
    experts: Experts,
    *,
    n_arms: int,
    prior: Prior = None,
    oracle: OracleName = "mixture",
) -> FastCB:
    """Return FastCB with sharpness 10 K, which suits problems in which the best arm
    costs little (docs/math 5.3)."""
    return FastCB(experts, sharpness=10.0 * n_arms, oracle=oracle, prior=prior)


def _least(prior: Array) -> float:
    """Return the smallest positive prior probability, so that a bound with it holds for
    every expert."""
    return float(prior[prior > 0].min())
