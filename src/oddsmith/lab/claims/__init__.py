"""The paper's claims as experiments, by name: first those that claim something, then figures."""

from oddsmith.lab.claims.adversary import ADVERSARY
from oddsmith.lab.claims.agnostic import HEDGE
from oddsmith.lab.claims.base import Experiment
from oddsmith.lab.claims.circumstances import LEARNING_RATE, MISSPECIFIED, ROUNDING, SWITCHING
from oddsmith.lab.claims.conditions import CONDITIONS
from oddsmith.lab.claims.continuous import CONTINUOUS
from oddsmith.lab.claims.covers import COVERS
from oddsmith.lab.claims.delay import DELAY
from oddsmith.lab.claims.elimination import ELIMINATION
from oddsmith.lab.claims.exploration import EXPLORATION, PHASE
from oddsmith.lab.claims.gallery_worlds import GALLERY
from oddsmith.lab.claims.horizon import HORIZON
from oddsmith.lab.claims.laws import ARMS, SQRT_PRIOR
from oddsmith.lab.claims.lemma import LEMMA_1
from oddsmith.lab.claims.news import LIVES, MEMORY
from oddsmith.lab.claims.paper_constants import BETA, CONDITION_2, LEMMA_1_PAPER
from oddsmith.lab.claims.priors import BAYES, PRIOR
from oddsmith.lab.claims.separation import FLOOR, SEPARATION
from oddsmith.lab.claims.special import SPECIAL_CASE
from oddsmith.lab.claims.states import STATES
from oddsmith.lab.claims.theorems import COROLLARY_2, THEOREM_1

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
