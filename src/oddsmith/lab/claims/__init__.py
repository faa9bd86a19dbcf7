"""The paper's claims as experiments, by name."""

from collections.abc import Callable

from oddsmith.lab.claims import circumstances, conditions, exploration, halls, lemma, priors, special
from oddsmith.lab.claims.adversary import adversary
from oddsmith.lab.claims.base import Outcome, Sizes
from oddsmith.lab.claims.continuous import continuous
from oddsmith.lab.claims.covers import covers
from oddsmith.lab.claims.horizon import horizon
from oddsmith.lab.claims.slopes import slopes

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
    "rates": slopes,
    "gallery-benign": halls.benign,
    "gallery-pessimistic": halls.pessimistic,
    "gallery-adversarial": halls.adversarial,
    "gallery-linear": halls.linear,
    "gallery-real": halls.real,
    "gallery-cheap": halls.cheap,
    "continuous": continuous,
}
