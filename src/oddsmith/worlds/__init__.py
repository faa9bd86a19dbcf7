"""Worlds produce contexts and mean rewards, so that regret is exact."""

from oddsmith.worlds.adversarial import AdaptiveAdversary
from oddsmith.worlds.base import Bernoulli, Beta, History, Noise, World
from oddsmith.worlds.classification import ClassificationWorld
from oddsmith.worlds.datasets import dataset
from oddsmith.worlds.drifting import SwitchingWorld
from oddsmith.worlds.episodic import EpisodicWorld, chain, random_model, riverswim
from oddsmith.worlds.linear import LinearWorld, LogisticWorld
from oddsmith.worlds.news import NewsWorld
from oddsmith.worlds.pages import PageWorld
from oddsmith.worlds.tables import DrawnTruth, TableWorld

__all__ = [
    "AdaptiveAdversary",
    "Bernoulli",
    "Beta",
    "ClassificationWorld",
    "DrawnTruth",
    "EpisodicWorld",
    "History",
    "LinearWorld",
    "LogisticWorld",
    "NewsWorld",
    "Noise",
    "PageWorld",
    "SwitchingWorld",
    "TableWorld",
    "World",
    "chain",
    "dataset",
    "random_model",
    "riverswim",
]
