"""Episodic problems: worlds with states and several steps per episode, and policies
whose propensities are exact given the episode so far."""

from oddsmith.lab.episodes.agent import EpisodeAgent
from oddsmith.lab.episodes.conjugate import CountState, TabularPosteriorSampling
from oddsmith.lab.episodes.gps import EpisodeState, GeneralizedPosteriorSampling
from oddsmith.lab.episodes.log import EpisodeLog, EpisodeStep
from oddsmith.lab.episodes.model import EpisodicModel, Plan
from oddsmith.lab.episodes.policy import Behaviour, EpisodicPolicy, Members
from oddsmith.lab.episodes.q_learning import QLearning, QState

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
