"""Read and write the design of an experiment in its log: control, holdout and rules of
the policy file."""

import json
from typing import Any

from oddsmith.files.experiment import ExperimentDesign
from oddsmith.files.policy import PolicyFile
from oddsmith.policies.control import Control
from oddsmith.policies.holdout import Holdout
from oddsmith.server.fold.fold import policy_at, roster_change
from oddsmith.server.fold.judge import judge_from_json
from oddsmith.server.operations.checks import Scene
from oddsmith.server.store.changes import arms_at, setting_of
from oddsmith.server.store.events import DESIGN, SETTINGS
from oddsmith.server.store.protocol import Reading

__all__ = ["design_facts", "design_of", "designs_of", "stored_scene"]


def design_facts(file: PolicyFile) -> dict[str, Any]:
    """Return control, holdout and rules of a policy file as JSON; empty without
    them."""
    facts: dict[str, Any] = {}
    control = file.design.control
    holdout = file.design.holdout
    if control is not None:
        facts["control"] = control.name
    if holdout is not None:
        facts["holdout"] = {"share": holdout.share, "by": holdout.by}
    if file.rules:
        facts["rules"] = [
            {"never": list(rule.never), "when": rule.when} for rule in file.rules
        ]
    return facts


def stored_scene(reading: Reading) -> Scene:
    """Return the experiment for checks of actions, as far as the log describes it."""
    head = reading.head()
    judge = reading.about.get("judge")
    policy = None
    if judge is not None:
        policy = policy_at(reading, judge_from_json(judge), head, roster_change())
    is_shadow = bool(reading.about.get("shadow"))
    changes = reading.of_setting(SETTINGS)
    if changes:
        is_shadow = bool(setting_of(changes[-1])["shadow"])
    return Scene(policy, arms_at(reading, head), _design(reading), is_shadow)


def design_of(reading: Reading) -> dict[str, Any]:
    """Return the design as it was last set in the log, else as it was when the log was
    created."""
    return designs_of(reading)[-1]


def designs_of(reading: Reading) -> list[dict[str, Any]]:
    """Return the design when the log was created, and after each change."""
    designs: list[dict[str, Any]] = [reading.about.get("design", {})]
    for line in reading.of_setting(DESIGN):
        designs.append(json.loads(line.body or "")["value"])
    return designs


def _design(reading: Reading) -> ExperimentDesign:
    """Return the design that a log describes. A control that is a policy is replaced by
    the first arm, because the log does not contain it."""
    facts = design_of(reading)
    name = facts.get("control")
    if name is None:
        return ExperimentDesign()
    is_policy = name.endswith(".toml")
    control = Control.of("first" if is_policy else name)
    if "holdout" not in facts:
        return ExperimentDesign(control)
    share = facts["holdout"]["share"]
    by = facts["holdout"]["by"]
    return ExperimentDesign(control, Holdout(share, control, by))
