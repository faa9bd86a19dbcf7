"""Episodes: worlds of states and steps, and policies whose odds are exact given the episode so far."""

from oddsmith.episodes.agent import EpisodeAgent
from oddsmith.episodes.base import Behaviour, EpisodicPolicy, Members
from oddsmith.episodes.gps import EpisodeState, GeneralizedPosteriorSampling
from oddsmith.episodes.log import EpisodeLog, EpisodeStep
from oddsmith.episodes.model import EpisodicModel, Plan

__all__ = [
    "Behaviour",
    "EpisodeAgent",
    "EpisodeLog",
    "EpisodeState",
    "EpisodeStep",
    "EpisodicModel",
    "EpisodicPolicy",
    "GeneralizedPosteriorSampling",
    "Members",
    "Plan",
]
