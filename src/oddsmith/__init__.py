"""oddsmith: contextual bandits with logged propensities (called odds here).

Experts predict rewards. A Policy turns its state and a context into Odds, a
distribution over arms. Drawing an arm from the Odds makes a Decision. A Loss measures
the error of a prediction once the reward is known. A Log is a table of decisions and
rewards, and the state is computed from it by a fold.

Names are loaded when they are first used, so that `import oddsmith` takes no time.
Further names are in the modules: `od.policies`, `od.experts`, `od.losses`, `od.logs`,
`od.evaluation`, `od.theory`, `od.lab`, `od.claims`, `od.client`, `od.errors`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oddsmith import (
        claims as claims,
    )
    from oddsmith import (
        client as client,
    )
    from oddsmith import (
        evaluation as evaluation,
    )
    from oddsmith import (
        experts as experts,
    )
    from oddsmith import (
        lab as lab,
    )
    from oddsmith import (
        logs as logs,
    )
    from oddsmith import (
        policies as policies,
    )
    from oddsmith import (
        theory as theory,
    )
    from oddsmith.agent.agent import Agent
    from oddsmith.agent.slate import Slot
    from oddsmith.client import AsyncClient, Client
    from oddsmith.contexts.metrics import Metric
    from oddsmith.contexts.offers import make_offer
    from oddsmith.contexts.rewards import RewardScale, binarize
    from oddsmith.contexts.schema import Schema
    from oddsmith.core import errors as errors
    from oddsmith.core import losses as losses
    from oddsmith.core.decision import Decision, Odds
    from oddsmith.core.draw import Uniforms, draw
    from oddsmith.core.errors import (
        BadFile,
        Conflict,
        InvalidInput,
        OddsmithError,
        ServiceError,
    )
    from oddsmith.core.experts import Experts
    from oddsmith.core.gts import GeneralizedThompsonSampling
    from oddsmith.core.losses import log_loss, square_loss
    from oddsmith.core.offer import Offer
    from oddsmith.core.policy import Policy, decide, fold
    from oddsmith.evaluation.replay import replay
    from oddsmith.experts import (
        FunctionExperts,
        GivenExperts,
        Guarded,
        LearningExperts,
        LinearExperts,
        ModelExperts,
        OnnxExperts,
        RefittedExperts,
        TableExperts,
        stack,
    )
    from oddsmith.files.fingerprint import fingerprint
    from oddsmith.files.policy import PolicyFile, read_policy
    from oddsmith.logs import Log, fit_log, read_log, write_log
    from oddsmith.policies import (
        BetaThompsonSampling,
        Bounded,
        Hedged,
        Holdout,
        LinearThompsonSampling,
        LinUCB,
        Windowed,
        auto,
        epsilon_greedy,
        hedged,
        thompson_sampling,
        tuned,
        uniform,
    )

__all__ = [
    "Agent",
    "AsyncClient",
    "BadFile",
    "BetaThompsonSampling",
    "Bounded",
    "Client",
    "Conflict",
    "Decision",
    "Experts",
    "FunctionExperts",
    "GeneralizedThompsonSampling",
    "GivenExperts",
    "Guarded",
    "Hedged",
    "Holdout",
    "InvalidInput",
    "LearningExperts",
    "LinUCB",
    "LinearExperts",
    "LinearThompsonSampling",
    "Log",
    "Metric",
    "ModelExperts",
    "Odds",
    "OddsmithError",
    "Offer",
    "OnnxExperts",
    "Policy",
    "PolicyFile",
    "RefittedExperts",
    "RewardScale",
    "Schema",
    "ServiceError",
    "Slot",
    "TableExperts",
    "Uniforms",
    "Windowed",
    "auto",
    "binarize",
    "decide",
    "draw",
    "epsilon_greedy",
    "fingerprint",
    "fit_log",
    "fold",
    "hedged",
    "log_loss",
    "make_offer",
    "read_log",
    "read_policy",
    "replay",
    "square_loss",
    "stack",
    "thompson_sampling",
    "tuned",
    "uniform",
    "write_log",
]

__version__ = "0.2.0"

_MODULES = {
    "claims": "oddsmith.claims",
    "client": "oddsmith.client",
    "errors": "oddsmith.core.errors",
    "evaluation": "oddsmith.evaluation",
    "experts": "oddsmith.experts",
    "lab": "oddsmith.lab",
    "logs": "oddsmith.logs",
    "losses": "oddsmith.core.losses",
    "policies": "oddsmith.policies",
    "theory": "oddsmith.theory",
}
_NAMES = {
    "oddsmith.agent.agent": "Agent",
    "oddsmith.agent.slate": "Slot",
    "oddsmith.client": "AsyncClient Client",
    "oddsmith.contexts.offers": "make_offer",
    "oddsmith.contexts.metrics": "Metric",
    "oddsmith.contexts.rewards": "RewardScale binarize",
    "oddsmith.core.decision": "Decision Odds",
    "oddsmith.core.errors": "BadFile Conflict InvalidInput OddsmithError ServiceError",
    "oddsmith.core.gts": "GeneralizedThompsonSampling",
    "oddsmith.core.experts": "Experts",
    "oddsmith.contexts.schema": "Schema",
    "oddsmith.core.losses": "log_loss square_loss",
    "oddsmith.core.offer": "Offer",
    "oddsmith.core.policy": "Policy decide fold",
    "oddsmith.core.draw": "Uniforms draw",
    "oddsmith.evaluation.replay": "replay",
    "oddsmith.experts": (
        "FunctionExperts GivenExperts Guarded LearningExperts LinearExperts "
        "ModelExperts OnnxExperts RefittedExperts TableExperts stack"
    ),
    "oddsmith.files.fingerprint": "fingerprint",
    "oddsmith.files.policy": "PolicyFile read_policy",
    "oddsmith.logs": "Log fit_log read_log write_log",
    "oddsmith.policies": (
        "BetaThompsonSampling Bounded Hedged Holdout LinUCB LinearThompsonSampling "
        "Windowed auto epsilon_greedy hedged thompson_sampling tuned uniform"
    ),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = import_module(_MODULES[name])
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'oddsmith' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
