"""Experiments that test the paper's claims, by name. Experiments with claims come
first, then experiments that only draw figures."""

from oddsmith.claims.adversary import ADVERSARY
from oddsmith.claims.agnostic import HEDGE
from oddsmith.claims.circumstances import (
    LEARNING_RATE,
    MISSPECIFIED,
    ROUNDING,
    SWITCHING,
)
from oddsmith.claims.claim import Experiment
from oddsmith.claims.conditions import CONDITIONS
from oddsmith.claims.continuous import CONTINUOUS
from oddsmith.claims.covers import COVERS
from oddsmith.claims.delay import DELAY
from oddsmith.claims.elimination import ELIMINATION
from oddsmith.claims.exploration import EXPLORATION, PHASE
from oddsmith.claims.gallery_worlds import GALLERY
from oddsmith.claims.horizon import HORIZON
from oddsmith.claims.laws import ARMS, SQRT_PRIOR
from oddsmith.claims.lemma import LEMMA_1
from oddsmith.claims.news import LIVES, MEMORY
from oddsmith.claims.paper_constants import BETA, CONDITION_2, LEMMA_1_PAPER
from oddsmith.claims.priors import BAYES, PRIOR
from oddsmith.claims.separation import FLOOR, SEPARATION
from oddsmith.claims.special import SPECIAL_CASE
from oddsmith.claims.states import STATES
from oddsmith.claims.theorems import COROLLARY_2, THEOREM_1

__all__ = ["EXPERIMENTS"]

EXPERIMENTS: dict[str, Experiment] = {
    "thompson": SPECIAL_CASE,
    "conditions": CONDITIONS,
    "condition2": CONDITION_2,
    "lemma1": LEMMA_1,
    "lemma1-paper": LEMMA_1_PAPER,
    "beta": BETA,
    "theorem1": THEOREM_1,
    "corollary2": COROLLARY_2,
    "sqrt-prior": SQRT_PRIOR,
    "arms": ARMS,
    "exploration": EXPLORATION,
    "phase": PHASE,
    "separation": SEPARATION,
    "floor": FLOOR,
    "delay": DELAY,
    "elimination": ELIMINATION,
    "agnostic": HEDGE,
    "episodes": STATES,
    "continuous": CONTINUOUS,
    "news-memory": MEMORY,
    "news-lives": LIVES,
    "horizon": HORIZON,
    "prior": PRIOR,
    "bayes": BAYES,
    "adversary": ADVERSARY,
    "eta": LEARNING_RATE,
    "switching": SWITCHING,
    "misspecified": MISSPECIFIED,
    "rounding": ROUNDING,
    "covers": COVERS,
    **GALLERY,
}
