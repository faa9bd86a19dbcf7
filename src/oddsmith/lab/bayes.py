"""Bayes regret: the right expert is drawn from one prior, and the policy starts with
another."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from oddsmith.core.arrays import simplex
from oddsmith.core.errors import InvalidInput
from oddsmith.core.gts import GeneralizedThompsonSampling
from oddsmith.experts.tables import TableExperts
from oddsmith.lab.delays import Delay
from oddsmith.lab.run import Run
from oddsmith.lab.simulate import simulate
from oddsmith.lab.worlds.tables import DrawnTruth

__all__ = ["BayesRegret", "bayes_regret"]


class BayesRegret(NamedTuple):
    """Bayes regret: the mean regret over right experts drawn from p*, its standard
    error, the cross entropy H(p*) + KL(p*, p), and the number of runs."""

    mean: float
    error: float
    surprise: float
    run: Run


def bayes_regret(
    policy: GeneralizedThompsonSampling,
    true_prior: npt.ArrayLike,
    *,
    steps: int,
    runs: int = 100,
    seed: int = 0,
    delay: int | Delay = 0,
) -> BayesRegret:
    """Return the mean regret of a policy with prior p if each run's right expert is
    drawn from `true_prior` p* (Corollary 2).

    The policy's experts must be a table, because any expert of a table can be the right
    one. Contexts are uniform.

    >>> import oddsmith as od
    >>> table = od.TableExperts(np.array([[[0.2, 0.8], [0.6, 0.4]]]))
    >>> sure = bayes_regret(
    ...     od.GeneralizedThompsonSampling(table, prior=[0.9, 0.1]),
    ...     [0.9, 0.1],
    ...     steps=50,
    ... )
    >>> wrong = bayes_regret(
    ...     od.GeneralizedThompsonSampling(table, prior=[0.1, 0.9]),
    ...     [0.9, 0.1],
    ...     steps=50,
    ... )
    >>> sure.mean < wrong.mean, round(sure.surprise, 3), round(wrong.surprise, 3)
    (True, 0.325, 2.083)
    """
    is_gts = isinstance(policy, GeneralizedThompsonSampling)
    if not is_gts or not isinstance(policy.experts, TableExperts):
        raise InvalidInput(
            "policy must be GeneralizedThompsonSampling over TableExperts, whose "
            "experts can be right"
        )
    table = policy.experts.table
    n_experts = table.shape[1]
    truth = simplex("true_prior", true_prior, n=n_experts, over="experts")
    world = DrawnTruth(table, truth, seed)
    run = simulate(policy, world, steps=steps, runs=runs, seed=seed, delay=delay)
    is_possible = truth > 0
    with np.errstate(divide="ignore"):
        log_prior = np.log(policy.prior[is_possible])
    surprise = float(-(truth[is_possible] @ log_prior))
    mean, error = run.mean()
    return BayesRegret(mean, error, surprise, run)
