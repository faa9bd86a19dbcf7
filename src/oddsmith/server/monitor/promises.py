"""Compute the bound on the regret of a policy after a number of steps, if the theory
covers the policy."""

from collections.abc import Sequence
from math import log

import numpy as np

from oddsmith.core.errors import OddsmithError
from oddsmith.core.gts import GeneralizedThompsonSampling, PowerSchedule
from oddsmith.core.policy import Policy
from oddsmith.experts.answers import RecordedExperts
from oddsmith.policies.hedge import Hedged
from oddsmith.policies.rate_mixture import RateMixture
from oddsmith.server.messages.figures import GuaranteeCheck
from oddsmith.theory import Bound, anytime_bound, gamma_zero_bound, hedged_bound
from oddsmith.theory.bounds import refined_bound
from oddsmith.theory.coefficients import coefficient_at

__all__ = ["promise"]

_FIRST = "There is a bound from the first decision on."
_OTHER = (
    "The theory covers Generalized Thompson Sampling and Hedged, without bounds on "
    "propensities; this is another policy."
)
_RATES = (
    "A mixture of learning rates predicts about as well as the best rate. But no "
    "bound covers its regret to the best expert, because no rate has such a bound if "
    'no expert is right. kind = "hedged" has one.'
)
_UNITS = (
    "The theory covers losses in a fixed unit; those of this policy are in units of "
    "the rewards so far."
)
_NOTHING = (
    "After {steps:,} decisions the bound is of no use yet: it is not below 1 per "
    "decision."
)


def promise(
    policy: Policy,
    arms: Sequence[str] | None,
    steps: int,
    *,
    shadow: bool = False,
    actions: bool = False,
) -> GuaranteeCheck:
    """Return the bound on the regret after this number of decisions, or the reason why
    there is none.

    Rewards are on the scale from 0 to 1. If `shadow`, an incumbent has acted; if
    `actions`, operators have changed what is in force.
    """
    if actions:
        return _none(
            "The theory covers one policy throughout; operators have changed what is "
            "in force."
        )
    if shadow:
        return _none(
            "The theory covers decisions that the policy draws; in this log an "
            "incumbent has acted."
        )
    if type(policy) is Hedged:
        return _of_hedged(policy, arms, steps)
    if not isinstance(policy, GeneralizedThompsonSampling):
        return _none(_RATES if type(policy) is RateMixture else _OTHER)
    # the store was opened without its policy file
    if isinstance(policy.experts, RecordedExperts):
        return _none(
            "The theory covers fixed experts, and a store does not show whether its "
            "experts learn: open it with its policy file."
        )
    if policy.experts.learns:
        return _none("The theory covers fixed experts; these learn.")
    if type(policy) is not GeneralizedThompsonSampling:
        return _none(_UNITS)
    if arms is None:
        return _none("This theorem covers fixed arms; here calls pass their arms.")
    if policy.optimism or policy.share or policy.discount != 1:
        return _none(
            "This theorem covers optimism 0, share 0 and discount 1; this policy has "
            "other values."
        )
    prior = float(policy.prior[policy.prior > 0].min())
    if callable(policy.gamma):
        gamma = None
        paid = float(np.sum(policy.gamma_at(np.arange(1, steps + 1))))
    else:
        gamma = policy.gamma
        paid = policy.gamma * steps
    about = (policy.eta, gamma, prior, paid)
    if not steps:
        return GuaranteeCheck(False, _FIRST, None, 0, *about)
    why = "The theory has no bound for this schedule of gamma."
    try:
        bound = _bound(policy, len(arms), steps, prior)
    except OddsmithError as error:
        why = f"The theory has no bound for these settings: {error}."
        bound = None
    if bound is None:
        return GuaranteeCheck(False, why, None, steps, *about)
    sentence = (
        f"The best expert would have earned at most {bound.bound:,.4g} more than this "
        f"over {steps:,} decisions, on the scale of rewards from 0 to 1 and in "
        f"expectation; that {bound.applies}, and rewards come at once."
    )
    if bound.bound >= steps:
        sentence = _NOTHING.format(steps=steps)
    return GuaranteeCheck(True, sentence, bound.bound, steps, *about)


def _of_hedged(
    policy: Hedged, arms: Sequence[str] | None, steps: int
) -> GuaranteeCheck:
    """Return the bound on the regret of `Hedged`, which also holds for experts that
    learn.

    If calls pass their arms, the bound uses the number of experts in place of the
    number of arms.
    """
    shares = policy.policy.prior[policy.policy.prior > 0]
    prior = float(shares.min())
    if not steps:
        return GuaranteeCheck(False, _FIRST, None, 0, None, None, prior, None)
    choices = len(shares) + 1
    if arms is not None:
        choices = min(choices, len(arms))
    bound = hedged_bound(n_arms=choices, steps=steps, prior=prior, trust=policy.trust)
    sentence = (
        f"The advice of any one expert, followed in the same {steps:,} decisions, "
        f"would have earned at most {bound.bound:,.4g} more than this, on the scale of "
        "rewards from 0 to 1 and in expectation: no expert need be right, the rewards "
        "of arms are fixed before the draw, and rewards come at once."
    )
    if bound.bound >= steps:
        sentence = _NOTHING.format(steps=steps)
    return GuaranteeCheck(True, sentence, bound.bound, steps, None, None, prior, None)


def _bound(
    policy: GeneralizedThompsonSampling, n_arms: int, steps: int, prior: float
) -> Bound | None:
    coefficient = coefficient_at(policy.loss, policy.eta)
    if coefficient.c <= 0:
        return None
    if isinstance(policy.gamma, float):
        if policy.gamma == 0:
            return gamma_zero_bound(
                coefficient, n_arms=n_arms, steps=steps, prior=prior
            )
        return refined_bound(
            coefficient,
            n_arms=n_arms,
            steps=steps,
            log_prior=log(1 / prior),
            gamma=policy.gamma,
        )
    bound = anytime_bound(policy.loss, n_arms=n_arms, steps=steps, prior=prior)
    # the theorem assumes the schedule scale / step^(1/3)
    gamma = policy.gamma
    if not isinstance(gamma, PowerSchedule) or gamma.cap != 1:
        return None
    if abs(gamma.power - 1 / 3) > 1e-9:
        return None
    covered = bound.gamma or 0.0, bound.eta or 0.0
    if not np.isclose((gamma.scale, policy.eta), covered).all():
        return None
    return bound


def _none(sentence: str) -> GuaranteeCheck:
    return GuaranteeCheck(False, sentence, None, 0, None, None, None, None)
