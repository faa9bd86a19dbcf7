"""Policies turn a state and a context into odds."""

from oddsmith.policies.base import ExpertState
from oddsmith.policies.bounded import Bounded
from oddsmith.policies.explanation import Explanation
from oddsmith.policies.gts import GeneralizedThompsonSampling
from oddsmith.policies.recipes import epsilon_greedy, thompson_sampling, tuned, uniform
from oddsmith.policies.schedules import PowerSchedule, Schedule
from oddsmith.policies.windowed import Windowed, WindowState

__all__ = [
    "Bounded",
    "ExpertState",
    "Explanation",
    "GeneralizedThompsonSampling",
    "PowerSchedule",
    "Schedule",
    "WindowState",
    "Windowed",
    "epsilon_greedy",
    "thompson_sampling",
    "tuned",
    "uniform",
]
