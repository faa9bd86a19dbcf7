"""What the theory promises about a policy: the bound on its regret at this step, as far as it is covered."""

from collections.abc import Sequence
from math import log

import numpy as np

from oddsmith.errors import OddsmithError
from oddsmith.experts.answered import Answered
from oddsmith.policies.base import Policy
from oddsmith.policies.gts import GeneralizedThompsonSampling
from oddsmith.policies.parts.schedules import PowerSchedule
from oddsmith.service.figure_messages import GuaranteeCheck
from oddsmith.theory import Bound, anytime_bound, gamma_zero_bound
from oddsmith.theory.bounds import refined_bound
from oddsmith.theory.coefficients import coefficient_at

__all__ = ["promise"]


def promise(policy: Policy, arms: Sequence[str] | None, steps: int) -> GuaranteeCheck:
    """The bound after so many decisions, in regret on the scale of rewards from 0 to 1; or why there is none."""
    if type(policy) is not GeneralizedThompsonSampling:
        return _none(
            "The theory covers Generalized Thompson Sampling without bounds on its odds; this is another policy."
        )
    if isinstance(policy.experts, Answered):  # a store that is looked at without its policy file
        unknown = "a store does not tell whether its experts learn: open it by its policy file"
        return _none(f"The theory covers fixed experts, and {unknown}.")
    if policy.experts.learns:
        return _none("The theory covers fixed experts; these learn.")
    if arms is None:
        return _none("The theory at this place covers fixed arms; these come with calls.")
    if policy.optimism or policy.share or policy.discount != 1:
        return _none("The theory at this place covers optimism 0, share 0 and discount 1; these are others.")
    paid = float(np.sum(policy.gamma_at(np.arange(1, steps + 1)))) if callable(policy.gamma) else policy.gamma * steps
    prior = float(policy.prior[policy.prior > 0].min())
    about = policy.eta, policy.gamma if isinstance(policy.gamma, float) else None, prior, paid
    if not steps:
        return GuaranteeCheck(False, "There is a bound from the first decision on.", None, 0, *about)
    try:
        bound = _bound(policy, len(arms), steps, prior)
    except OddsmithError as error:
        return GuaranteeCheck(False, f"The theory has no bound for these settings: {error}.", None, steps, *about)
    if bound is None:
        return GuaranteeCheck(False, "The theory has no bound for this schedule of gamma.", None, steps, *about)
    sentence = (
        f"The best expert would have earned at most {bound.bound:,.4g} more than this over {steps:,} decisions, on the "
        f"scale of rewards from 0 to 1 and in expectation; that {bound.applies}, and rewards come at once."
    )
    if bound.bound >= steps:
        sentence = f"After {steps:,} decisions the bound still says nothing: it is not below one a decision."
    return GuaranteeCheck(True, sentence, bound.bound, steps, *about)


def _bound(policy: GeneralizedThompsonSampling, n_arms: int, steps: int, prior: float) -> Bound | None:
    coefficient = coefficient_at(policy.loss, policy.eta)
    if coefficient.c <= 0:
        return None
    if isinstance(policy.gamma, float):
        if policy.gamma == 0:
            return gamma_zero_bound(coefficient, n_arms=n_arms, steps=steps, prior=prior)
        log_prior = log(1 / prior)
        return refined_bound(coefficient, n_arms=n_arms, steps=steps, log_prior=log_prior, gamma=policy.gamma)
    found, mine = anytime_bound(policy.loss, n_arms=n_arms, steps=steps, prior=prior), policy.gamma
    if not isinstance(mine, PowerSchedule) or mine.cap != 1 or abs(mine.power - 1 / 3) > 1e-9:
        return None
    wanted = found.gamma or 0.0, found.eta or 0.0
    return found if np.isclose((mine.scale, policy.eta), wanted).all() else None


def _none(sentence: str) -> GuaranteeCheck:
    return GuaranteeCheck(False, sentence, None, 0, None, None, None, None)
