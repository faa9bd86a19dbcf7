"""Episodes: worlds of states and steps, and policies whose odds are exact given the episode so far."""

from oddsmith.episodes.agent import EpisodeAgent
from oddsmith.episodes.base import Behaviour, EpisodicPolicy, Members
from oddsmith.episodes.conjugate import CountState, TabularPosteriorSampling
from oddsmith.episodes.gps import EpisodeState, GeneralizedPosteriorSampling
from oddsmith.episodes.log import EpisodeLog, EpisodeStep
from oddsmith.episodes.model import EpisodicModel, Plan
from oddsmith.episodes.q_learning import QLearning, QState

__all__ = [
    "Behaviour",
    "CountState",
    "EpisodeAgent",
    "EpisodeLog",
    "EpisodeState",
    "EpisodeStep",
    "EpisodicModel",
    "EpisodicPolicy",
    "GeneralizedPosteriorSampling",
    "Members",
    "Plan",
    "QLearning",
    "QState",
    "TabularPosteriorSampling",
]
