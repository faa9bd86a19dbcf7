"""The paper's claims as experiments, by name."""

from collections.abc import Callable

from oddsmith.lab.claims import circumstances, conditions, exploration, lemma, priors, special
from oddsmith.lab.claims.adversary import adversary
from oddsmith.lab.claims.base import Outcome, Sizes
from oddsmith.lab.claims.covers import covers
from oddsmith.lab.claims.horizon import horizon

__all__ = ["EXPERIMENTS"]

EXPERIMENTS: dict[str, Callable[[Sizes], Outcome]] = {
    "horizon": horizon,
    "prior": priors.prior,
    "bayes": priors.bayes,
    "lemma1": lemma.lemma_1,
    "conditions": conditions.conditions,
    "thompson": special.special_case,
    "exploration": exploration.exploration,
    "phase": exploration.phase,
    "delay": circumstances.delay,
    "eta": circumstances.learning_rate,
    "switching": circumstances.switching,
    "misspecified": circumstances.misspecified,
    "rounding": circumstances.rounding,
    "adversary": adversary,
    "covers": covers,
}
