"""Evaluation: from a log to a value with an interval that can be defended, or a refusal
that says why."""

from oddsmith.evaluation.assessment import Assessment, assess, whole_slates
from oddsmith.evaluation.calibration import (
    CalibrationMonitor,
    CalibrationReport,
    check_calibration,
)
from oddsmith.evaluation.diagnostics import RULES, Diagnostics, diagnose
from oddsmith.evaluation.draws import ServedReport, served_as_logged
from oddsmith.evaluation.estimators import (
    clipped_ips,
    dm,
    dr,
    ips,
    logged,
    shrunk_dr,
    snips,
    switch_dr,
)
from oddsmith.evaluation.intervals import (
    INTERVALS,
    Comparison,
    Estimate,
    compare,
    estimate,
)
from oddsmith.evaluation.planner import ExplorationPlan
from oddsmith.evaluation.replay import Hindsight, Replayed, hindsight
from oddsmith.evaluation.reward_models import cross_fit
from oddsmith.evaluation.targets import (
    arm_target,
    first_target,
    policy_target,
    uniform_target,
    where_drawn,
    where_offered,
)
from oddsmith.evaluation.terms import Bets, Terms

__all__ = [
    "Assessment",
    "Bets",
    "CalibrationMonitor",
    "CalibrationReport",
    "Comparison",
    "Diagnostics",
    "Estimate",
    "ExplorationPlan",
    "Hindsight",
    "INTERVALS",
    "RULES",
    "Replayed",
    "ServedReport",
    "Terms",
    "arm_target",
    "assess",
    "check_calibration",
    "clipped_ips",
    "compare",
    "cross_fit",
    "diagnose",
    "dm",
    "dr",
    "estimate",
    "first_target",
    "hindsight",
    "ips",
    "logged",
    "policy_target",
    "served_as_logged",
    "shrunk_dr",
    "snips",
    "switch_dr",
    "uniform_target",
    "where_drawn",
    "where_offered",
    "whole_slates",
]
