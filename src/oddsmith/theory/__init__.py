"""Theory: conditions for losses, regret bounds with all constants, and tuning."""

from oddsmith.theory.agnostic import Departure, critical_rate, departure, hedged_bound
from oddsmith.theory.bounds import (
    Bound,
    anytime_bound,
    bayes_regret_bound,
    corollary1,
    gamma_zero_bound,
    refined_bound,
    regret_bound,
    theorem1,
    total_loss_bound,
)
from oddsmith.theory.classes import (
    approximated_class_bound,
    ball_log_cover,
    class_bound,
    class_complexity,
    cover_bound,
    cover_complexity,
    cover_radius,
    covered_class_bound,
    lipschitz_log_cover,
)
from oddsmith.theory.coefficients import tight_coefficient
from oddsmith.theory.comparison import Promise, compare
from oddsmith.theory.conditions import Certificate, Counterexample, certify
from oddsmith.theory.constants import Coefficient, beta, kappa2
from oddsmith.theory.episodes import (
    episode_bayes_bound,
    episode_bound,
    episode_feelgood_bound,
    episode_policies,
    posterior_sampling_bound,
)
from oddsmith.theory.rivals import (
    exp4_bound,
    feelgood_bound,
    regressor_elimination_bound,
    squarecb_bound,
)
from oddsmith.theory.sampling import better_bound, sampling_floor, thompson_bound
from oddsmith.theory.tuning import Tuning, horizon_for, prior_value, tune
from oddsmith.theory.variants import (
    changing_arms_bound,
    delay_bound,
    high_probability_bound,
    misspecified_bound,
    switching_bound,
)

__all__ = [
    "Bound",
    "Certificate",
    "Coefficient",
    "Counterexample",
    "Departure",
    "Promise",
    "Tuning",
    "anytime_bound",
    "approximated_class_bound",
    "ball_log_cover",
    "bayes_regret_bound",
    "beta",
    "better_bound",
    "certify",
    "changing_arms_bound",
    "class_bound",
    "class_complexity",
    "compare",
    "corollary1",
    "cover_bound",
    "cover_complexity",
    "cover_radius",
    "covered_class_bound",
    "critical_rate",
    "delay_bound",
    "departure",
    "episode_bayes_bound",
    "episode_bound",
    "episode_feelgood_bound",
    "episode_policies",
    "exp4_bound",
    "feelgood_bound",
    "gamma_zero_bound",
    "hedged_bound",
    "high_probability_bound",
    "horizon_for",
    "kappa2",
    "lipschitz_log_cover",
    "misspecified_bound",
    "posterior_sampling_bound",
    "prior_value",
    "refined_bound",
    "regressor_elimination_bound",
    "regret_bound",
    "sampling_floor",
    "squarecb_bound",
    "switching_bound",
    "theorem1",
    "thompson_bound",
    "tight_coefficient",
    "total_loss_bound",
    "tune",
]
