"""Expert banks: N predictors of the mean reward of every arm."""

from oddsmith.contexts.schema import Schema
from oddsmith.core.experts import Experts
from oddsmith.experts.clip import Clipped
from oddsmith.experts.covers import Cover, ball_cover, grid_cover
from oddsmith.experts.encoder import Encoded
from oddsmith.experts.external import GivenExperts
from oddsmith.experts.functions import FunctionExperts
from oddsmith.experts.guard.guard import Guarded
from oddsmith.experts.guard.process import Isolated
from oddsmith.experts.learners import (
    Forest,
    LearningExperts,
    PooledForest,
    PooledRidge,
    Ridge,
    SharedExperts,
)
from oddsmith.experts.learners.features import Curves, FeatureMap, Plain
from oddsmith.experts.linear import LinearExperts
from oddsmith.experts.models import ModelExperts
from oddsmith.experts.onnx import OnnxExperts
from oddsmith.experts.refit import RefittedExperts
from oddsmith.experts.stack import StackedExperts, stack
from oddsmith.experts.tables import TableExperts

__all__ = [
    "Clipped",
    "Cover",
    "Curves",
    "Encoded",
    "Experts",
    "FeatureMap",
    "Forest",
    "FunctionExperts",
    "GivenExperts",
    "Guarded",
    "Isolated",
    "LearningExperts",
    "LinearExperts",
    "ModelExperts",
    "OnnxExperts",
    "Plain",
    "PooledForest",
    "PooledRidge",
    "RefittedExperts",
    "Ridge",
    "Schema",
    "SharedExperts",
    "StackedExperts",
    "TableExperts",
    "ball_cover",
    "grid_cover",
    "stack",
]
