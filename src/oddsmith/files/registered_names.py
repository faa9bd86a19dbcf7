"""Registered names of the library's policies, banks, losses and their parts, for files
and stores.

A description of a policy (see `fingerprint`) is part of saved agents and stores. It
contains the registered name of a class or function and never its module, so that
modules can be renamed. A registration also lists the fields that the class had when its
name was first written. A field added later is described only if it differs from its
default, so that earlier saved states still load; the default of such a field must never
change. Registrations are added and never changed: a renamed class keeps its registered
name.
"""

from typing import NamedTuple

__all__ = ["REGISTERED", "Registration"]


class Registration(NamedTuple):
    """The name of a class or function on disk, and the fields that the class had when
    this name was first written."""

    name: str
    fields: str = ""


REGISTERED: dict[str, Registration] = {
    "BetaThompsonSampling": Registration(
        "BetaThompsonSampling", "n_arms wins losses gamma"
    ),
    "Bounded": Registration("Bounded", "policy floors caps"),
    "CalibratedMixture": Registration(
        "CalibratedMixture", "experts prior average eta beta gamma"
    ),
    "CapGroup": Registration("CapGroup", "at_most arms feature value"),
    "Clipped": Registration("Clipped", "experts low high"),
    "Control": Registration("Control", "kind arm policy name"),
    "Curves": Registration("Curves", "n scale seed most"),
    "EXP4": Registration("EXP4", "experts prior eta gamma"),
    "EXP4P": Registration("EXP4P", "experts prior steps delta"),
    "Encoded": Registration("Encoded", "experts schema arm_schema"),
    "EpisodicModel": Registration("EpisodicModel", "rewards transitions"),
    "EpochGreedy": Registration("EpochGreedy", "experts scale"),
    "FastCB": Registration("FastCB", "experts prior sharpness oracle"),
    "Forest": Registration("Forest", "trees window seed"),
    "FunctionExperts": Registration("FunctionExperts", "functions arms"),
    "GLMUCB": Registration("GLMUCB", "dim n_arms ridge schema arm_schema alpha eta"),
    "GeneralizedPosteriorSampling": Registration(
        "GeneralizedPosteriorSampling", "models loss eta gamma prior optimism explore"
    ),
    "GeneralizedThompsonSampling": Registration(
        "GeneralizedThompsonSampling",
        "experts prior loss eta gamma optimism share discount",
    ),
    "GivenExperts": Registration("GivenExperts", "names"),
    "Hedged": Registration("Hedged", "policy trust"),
    "Holdout": Registration("Holdout", "share control by ramp end_day is_aa"),
    "KLUCB": Registration("KLUCB", "n_arms c"),
    "LearningExperts": Registration(
        "LearningExperts", "arms learners blend ballots schema rows_per_arm clip recipe"
    ),
    "LinUCB": Registration("LinUCB", "dim n_arms ridge schema arm_schema alpha"),
    "LinearExperts": Registration("LinearExperts", "weights link names arms"),
    "LinearFamily": Registration("LinearFamily"),
    "LinearThompsonSampling": Registration(
        "LinearThompsonSampling",
        "dim n_arms ridge schema arm_schema width gamma optimist directions seed "
        "weight",
    ),
    "LogisticFamily": Registration("LogisticFamily"),
    "LogisticThompsonSampling": Registration(
        "LogisticThompsonSampling",
        "dim n_arms ridge schema arm_schema eta width gamma optimist directions seed",
    ),
    "ModelExperts": Registration(
        "ModelExperts", "models arms arm_features clip version"
    ),
    "OnnxExperts": Registration("OnnxExperts", "files arms arm_features clip version"),
    "Optimistic": Registration("Optimistic", "scale"),
    "ParticleThompsonSampling": Registration(
        "ParticleThompsonSampling",
        "family dim n_particles eta gamma ridge memory moves_per_resampling seed "
        "schema arm_schema",
    ),
    "Plain": Registration("Plain", "most"),
    "PooledForest": Registration("PooledForest", "forest pull"),
    "PooledRidge": Registration("PooledRidge", "features ridges pull products"),
    "PowerSchedule": Registration("PowerSchedule", "scale power cap"),
    "ProbitThompsonSampling": Registration(
        "ProbitThompsonSampling",
        "dim n_arms ridge schema arm_schema width gamma optimist directions seed noise",
    ),
    "QLearning": Registration(
        "QLearning", "n_states n_actions horizon epsilon initial"
    ),
    "RateMixture": Registration("RateMixture", "experts prior loss rates gamma"),
    "RecordedExperts": Registration("Answered", "names arms"),
    "RefittedExperts": Registration(
        "RefittedExperts",
        "arms models window first pace seed schema arm_schema clip version",
    ),
    "RegressorElimination": Registration(
        "RegressorElimination", "experts contexts loss delta threshold context_odds"
    ),
    "Ridge": Registration("Ridge", "features ridges"),
    "Scaled": Registration("Scaled", "loss beta"),
    "ScaleFreeSampling": Registration(
        "ScaleFreeSampling",
        "experts prior loss eta gamma optimism share discount",
    ),
    "Schema": Registration("Schema", "numbers categories buckets slots values"),
    "SharedExperts": Registration(
        "SharedExperts",
        "learners blend ballots schema arm_schema most_arms clip recipe",
    ),
    "SquareCB": Registration("SquareCB", "experts prior sharpness oracle"),
    "StackedExperts": Registration("Stacked", "banks"),
    "TableExperts": Registration("TableExperts", "table names"),
    "TabularPosteriorSampling": Registration(
        "TabularPosteriorSampling",
        "n_states n_actions horizon draws seed eta gamma alpha wins losses",
    ),
    "UCB1": Registration("UCB1", "n_arms"),
    "WithHoldout": Registration("WithHoldout", "policy holdout"),
    "Windowed": Registration("Windowed", "policy window"),
    "domain": Registration("domain"),
    "log_loss": Registration("log_loss"),
    "scaled": Registration("scaled"),
    "square_loss": Registration("square_loss"),
    "total_log_loss": Registration("total_log_loss"),
}
"""Registrations by the name of the class or function in the code."""
