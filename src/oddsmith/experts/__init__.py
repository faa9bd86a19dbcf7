"""Experts predict: banks of N predictors of every arm's mean reward."""

from oddsmith.experts.base import Experts
from oddsmith.experts.clipped import Clipped
from oddsmith.experts.covers import Cover, ball_cover, grid_cover
from oddsmith.experts.encoded import Encoded
from oddsmith.experts.features import Curves, FeatureMap, Plain
from oddsmith.experts.functions import FunctionExperts
from oddsmith.experts.given import GivenExperts
from oddsmith.experts.guarded import Guarded
from oddsmith.experts.isolated import Isolated
from oddsmith.experts.learners import (
    Forest,
    LearningExperts,
    PooledForest,
    PooledRidge,
    Ridge,
    SharedExperts,
)
from oddsmith.experts.linear import LinearExperts
from oddsmith.experts.models import ModelExperts
from oddsmith.experts.onnx import OnnxExperts
from oddsmith.experts.refitted import RefittedExperts
from oddsmith.experts.schema import Schema
from oddsmith.experts.stack import Stacked, stack
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
    "Stacked",
    "TableExperts",
    "ball_cover",
    "grid_cover",
    "stack",
]
