"""Policies: functions from a state and a context to propensities."""

from oddsmith.core.expert_policy import ExpertState, OverExperts
from oddsmith.core.explanation import ArmExplanation, Explanation
from oddsmith.core.gts import GeneralizedThompsonSampling, PowerSchedule, Schedule
from oddsmith.policies.auto import auto
from oddsmith.policies.beta_thompson import BetaThompsonSampling
from oddsmith.policies.bounds import Bounded
from oddsmith.policies.calibrated_mixture import CalibratedMixture, MixtureState
from oddsmith.policies.cap_groups import CapGroup
from oddsmith.policies.control import Control
from oddsmith.policies.epoch_greedy import EpochGreedy
from oddsmith.policies.exp4 import EXP4
from oddsmith.policies.exp4p import EXP4P
from oddsmith.policies.fastcb import FastCB
from oddsmith.policies.glm_ucb import GLMUCB
from oddsmith.policies.hedge import Hedged, HedgedState
from oddsmith.policies.holdout import Holdout, RampStep, WithHoldout
from oddsmith.policies.kl_ucb import KLUCB
from oddsmith.policies.linear_thompson import LinearThompsonSampling, linear_class
from oddsmith.policies.linucb import LinUCB
from oddsmith.policies.logistic_thompson import LogisticThompsonSampling, logistic_class
from oddsmith.policies.particles import ParticleState, ParticleThompsonSampling
from oddsmith.policies.parts.families import Family, LinearFamily, LogisticFamily
from oddsmith.policies.probit import ProbitThompsonSampling
from oddsmith.policies.rate_mixture import RateMixture, RateState
from oddsmith.policies.recipes import (
    epsilon_greedy,
    exp4,
    feel_good,
    follow_the_leader,
    hedged,
    squarecb,
    thompson_sampling,
    tuned,
    uniform,
)
from oddsmith.policies.regressor_elimination import RegressorElimination
from oddsmith.policies.scale_free import ScaleFreeSampling, ScaleFreeState
from oddsmith.policies.squarecb import SquareCB
from oddsmith.policies.ucb1 import UCB1
from oddsmith.policies.window import Windowed, WindowState

__all__ = [
    "ArmExplanation",
    "BetaThompsonSampling",
    "Bounded",
    "CalibratedMixture",
    "CapGroup",
    "Control",
    "EXP4",
    "EXP4P",
    "EpochGreedy",
    "ExpertState",
    "Explanation",
    "Family",
    "FastCB",
    "GLMUCB",
    "GeneralizedThompsonSampling",
    "Hedged",
    "HedgedState",
    "Holdout",
    "KLUCB",
    "LinUCB",
    "LinearFamily",
    "LinearThompsonSampling",
    "LogisticFamily",
    "LogisticThompsonSampling",
    "MixtureState",
    "OverExperts",
    "ParticleState",
    "ParticleThompsonSampling",
    "PowerSchedule",
    "ProbitThompsonSampling",
    "RampStep",
    "RateMixture",
    "RateState",
    "RegressorElimination",
    "ScaleFreeSampling",
    "ScaleFreeState",
    "Schedule",
    "SquareCB",
    "UCB1",
    "WindowState",
    "Windowed",
    "WithHoldout",
    "auto",
    "epsilon_greedy",
    "exp4",
    "feel_good",
    "follow_the_leader",
    "hedged",
    "linear_class",
    "logistic_class",
    "squarecb",
    "thompson_sampling",
    "tuned",
    "uniform",
]
