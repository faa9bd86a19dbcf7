"""oddsmith: contextual bandits with exact odds.

Experts predict. A Policy turns a state and a context into Odds. Drawing from odds makes a Decision. A Loss turns
prediction and reward into a penalty. The Log is a table of decisions and rewards; a state is a fold over it.
"""

from oddsmith import theory
from oddsmith.agent import Agent
from oddsmith.calibration import CalibrationMonitor, CalibrationReport, check_calibration
from oddsmith.decision import Decision, Odds, Policy, decide, draw, fold
from oddsmith.errors import (
    AllExpertsRefuted,
    BadFile,
    ExpertFailed,
    Infeasible,
    InvalidInput,
    MissingExtra,
    NoEligibleArm,
    NoExploration,
    NotPortable,
    NoVersion,
    OddsmithError,
    OddsmithWarning,
    OrderMatters,
    OutOfDomain,
    TooLarge,
)
from oddsmith.experts import (
    Clipped,
    Cover,
    Experts,
    FunctionExperts,
    GivenExperts,
    Guarded,
    LinearExperts,
    ModelExperts,
    OnnxExperts,
    TableExperts,
    ball_cover,
    grid_cover,
    stack,
)
from oddsmith.fingerprint import fingerprint
from oddsmith.logs import Log
from oddsmith.losses import log_loss, scaled, square_loss
from oddsmith.policies import (
    Bounded,
    Explanation,
    GeneralizedThompsonSampling,
    PowerSchedule,
    Windowed,
    epsilon_greedy,
    thompson_sampling,
    tuned,
    uniform,
)
from oddsmith.rewards import RewardScale, binarize
from oddsmith.uniforms import Uniforms

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AllExpertsRefuted",
    "BadFile",
    "Bounded",
    "CalibrationMonitor",
    "CalibrationReport",
    "Clipped",
    "Cover",
    "Decision",
    "ExpertFailed",
    "Experts",
    "Explanation",
    "FunctionExperts",
    "GeneralizedThompsonSampling",
    "GivenExperts",
    "Guarded",
    "Infeasible",
    "InvalidInput",
    "LinearExperts",
    "Log",
    "MissingExtra",
    "ModelExperts",
    "NoEligibleArm",
    "NoExploration",
    "NoVersion",
    "NotPortable",
    "Odds",
    "OddsmithError",
    "OddsmithWarning",
    "OnnxExperts",
    "OrderMatters",
    "OutOfDomain",
    "Policy",
    "PowerSchedule",
    "RewardScale",
    "TableExperts",
    "TooLarge",
    "Uniforms",
    "Windowed",
    "ball_cover",
    "binarize",
    "check_calibration",
    "decide",
    "draw",
    "epsilon_greedy",
    "fingerprint",
    "fold",
    "grid_cover",
    "log_loss",
    "scaled",
    "square_loss",
    "stack",
    "theory",
    "thompson_sampling",
    "tuned",
    "uniform",
]
