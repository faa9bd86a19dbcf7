"""The paper's claims as experiments, by name."""

from collections.abc import Callable

from oddsmith.lab.claims import circumstances, conditions, exploration, gallery_worlds, lemma, news, priors, special
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
    "gallery-benign": gallery_worlds.benign,
    "gallery-pessimistic": gallery_worlds.pessimistic,
    "gallery-adversarial": gallery_worlds.adversarial,
    "gallery-linear": gallery_worlds.linear,
    "gallery-real": gallery_worlds.real,
    "gallery-cheap": gallery_worlds.cheap,
    "continuous": continuous,
    "news-memory": news.memory,
    "news-lives": news.lives,
}
