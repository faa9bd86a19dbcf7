"""Learners: experts that need no training in advance and learn from every reward."""

from oddsmith.experts.learners.bank import LearnerState, LearningExperts
from oddsmith.experts.learners.forest import Forest
from oddsmith.experts.learners.pool import PooledForest, PooledLearner, PooledRidge
from oddsmith.experts.learners.protocol import Belief, Learner, LearnerInput
from oddsmith.experts.learners.ridge import Ridge
from oddsmith.experts.learners.shared_bank import SharedExperts, SharedState

__all__ = [
    "Belief",
    "Forest",
    "Learner",
    "LearnerInput",
    "LearnerState",
    "LearningExperts",
    "PooledForest",
    "PooledLearner",
    "PooledRidge",
    "Ridge",
    "SharedExperts",
    "SharedState",
]
