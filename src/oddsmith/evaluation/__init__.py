"""Off-policy evaluation: estimate the value of a policy from a log, with an interval,
or report why the log cannot answer."""

from oddsmith.evaluation.assessment import Assessment, assess, whole_slates
from oddsmith.evaluation.calibration import (
    CalibrationMonitor,
    CalibrationReport,
    check_calibration,
)
from oddsmith.evaluation.diagnostics import RULES, Diagnostics, diagnose
from oddsmith.evaluation.draws import ServedReport, served_as_logged
from oddsmith.evaluation.duration import days_needed, smallest_detectable_effect
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
from oddsmith.evaluation.holdouts import policy_odds, unit_log
from oddsmith.evaluation.intervals import (
    INTERVALS,
    Comparison,
    Estimate,
    compare,
    estimate,
)
from oddsmith.evaluation.lift import monthly_sum
from oddsmith.evaluation.one_look import Effect
from oddsmith.evaluation.paired_bets import PairedRows, PairedSums, pair_odds
from oddsmith.evaluation.planner import ExplorationPlan
from oddsmith.evaluation.replay import Hindsight, Replayed, hindsight
from oddsmith.evaluation.reward_models import cross_fit
from oddsmith.evaluation.sample_ratio import SampleRatio, check_sample_ratio
from oddsmith.evaluation.scorecard import MetricResult, score_metrics
from oddsmith.evaluation.segments import (
    Heterogeneity,
    SegmentScores,
    check_heterogeneity,
    score_segments,
    segment_masks,
)
from oddsmith.evaluation.targets import (
    arm_target,
    control_target,
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
    "Effect",
    "Estimate",
    "ExplorationPlan",
    "Heterogeneity",
    "Hindsight",
    "INTERVALS",
    "MetricResult",
    "PairedRows",
    "PairedSums",
    "RULES",
    "Replayed",
    "SampleRatio",
    "SegmentScores",
    "ServedReport",
    "Terms",
    "arm_target",
    "assess",
    "check_calibration",
    "check_heterogeneity",
    "check_sample_ratio",
    "clipped_ips",
    "compare",
    "control_target",
    "cross_fit",
    "days_needed",
    "diagnose",
    "dm",
    "dr",
    "estimate",
    "first_target",
    "hindsight",
    "ips",
    "logged",
    "monthly_sum",
    "pair_odds",
    "policy_odds",
    "policy_target",
    "score_metrics",
    "score_segments",
    "segment_masks",
    "served_as_logged",
    "shrunk_dr",
    "smallest_detectable_effect",
    "snips",
    "switch_dr",
    "uniform_target",
    "unit_log",
    "where_drawn",
    "where_offered",
    "whole_slates",
]
