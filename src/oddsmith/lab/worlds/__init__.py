"""Simulated worlds, which produce contexts and mean rewards, so that regret is
exact."""

from oddsmith.lab.worlds.adversary import AdaptiveAdversary
from oddsmith.lab.worlds.classification import ClassificationWorld
from oddsmith.lab.worlds.datasets import dataset
from oddsmith.lab.worlds.drift import SwitchingWorld
from oddsmith.lab.worlds.linear import LinearWorld, LogisticWorld
from oddsmith.lab.worlds.news import NewsWorld
from oddsmith.lab.worlds.pages import PageWorld
from oddsmith.lab.worlds.tables import DrawnTruth, TableWorld
from oddsmith.lab.worlds.world import Bernoulli, Beta, History, Noise, World

__all__ = [
    "AdaptiveAdversary",
    "Bernoulli",
    "Beta",
    "ClassificationWorld",
    "DrawnTruth",
    "History",
    "LinearWorld",
    "LogisticWorld",
    "NewsWorld",
    "Noise",
    "PageWorld",
    "SwitchingWorld",
    "TableWorld",
    "World",
    "dataset",
]
