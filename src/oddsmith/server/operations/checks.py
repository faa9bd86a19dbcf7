"""Check an action before it is written: whether it is allowed, and whether at least one
arm can still be served."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from oddsmith.core.arrays import number
from oddsmith.core.errors import Conflict, InvalidInput
from oddsmith.core.names import hint
from oddsmith.core.policy import Policy
from oddsmith.files.experiment import ExperimentDesign
from oddsmith.policies.bounds import Bounded
from oddsmith.policies.holdout import Holdout
from oddsmith.server.operations.controls import Controls

__all__ = ["Scene", "check_action", "check_fields", "holdout_with"]

_FIELDS: Mapping[str, tuple[str, ...]] = {
    "pause_arm": ("arm",),
    "resume_arm": ("arm",),
    "holdout": ("share",),
    "set": ("floors", "caps", "gamma"),
    "finish": ("verdict",),
}
"""The names of the fields of each action that has fields."""
_EFFECTS = {
    "pause": ("is_paused", False, "is paused already"),
    "resume": ("is_paused", True, "is not paused"),
    "kill": ("is_killed", False, "is stopped by `kill` already"),
    "restore": ("is_killed", True, "is not stopped by `kill`"),
    "freeze": ("is_frozen", False, "does not learn already"),
    "learn": ("is_frozen", True, "learns already"),
}
"""For each action, the property of `Controls` that it changes, the value that the
property must have before, and the reason for the refusal otherwise."""


class Scene(NamedTuple):
    """The experiment that an action is about: its policy (None if only the policy file
    has it), its arms (None if calls pass them), its design, and whether an incumbent
    acts."""

    policy: Policy | None
    arms: Sequence[str] | None
    design: ExperimentDesign
    is_shadow: bool


def check_fields(action: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an action. Raise an error if one is missing or belongs to
    another action."""
    allowed = _FIELDS.get(action, ())
    for name in given:
        if name not in allowed:
            belongs = ", ".join(allowed) or "none"
            raise InvalidInput(
                f"{name} must be left out; {action} has the fields: {belongs}"
            )
    if allowed and not given:
        raise InvalidInput(f"{' or '.join(allowed)} must be given with {action}")
    return dict(given)


def check_action(
    action: str, value: Mapping[str, Any], controls: Controls, scene: Scene
) -> None:
    """Raise an error if an action is impossible or has no effect.

    The error is a `Conflict` if the state of the experiment does not allow the action;
    other errors mean that the fields are wrong.
    """
    if action in _EFFECTS:
        name, before, why = _EFFECTS[action]
        if getattr(controls, name) != before:
            raise Conflict(f"{action} has no effect: the experiment {why}")
    check = _CHECKS.get(action)
    if check is not None:
        check(value, controls, scene)


def _check_control(_: Mapping[str, Any], __: Controls, scene: Scene) -> None:
    """Raise if no control can be served while the experiment is paused."""
    control = scene.design.control
    if scene.is_shadow or (control is not None and control.kind == "incumbent"):
        raise InvalidInput(
            "the experiment must have a control that the service can serve; here the "
            "incumbent acts, which only the caller knows. Let the caller stop asking, "
            'or give the policy file another control, such as "arm:NAME"'
        )


def _check_pause_arm(
    value: Mapping[str, Any], controls: Controls, scene: Scene
) -> None:
    arm = value["arm"]
    arms = scene.arms
    if arm in controls.paused_arms:
        raise Conflict(f"pause_arm has no effect: {arm!r:.60} is paused already")
    if arms is None:
        return
    if arm not in arms:
        raise InvalidInput(
            f"arm must be one of {list(arms)[:8]}; got {arm!r:.60}{hint(arm, arms)}"
        )
    free = [one for one in arms if one not in (*controls.paused_arms, arm)]
    if not free:
        raise Conflict(
            f"arm must not be the last one; got {arm!r:.60}, and all others are "
            "paused: pause the experiment to serve the control"
        )
    _check_bounds(controls.after_fields(0, "pause_arm", value), scene)


def _check_resume_arm(
    value: Mapping[str, Any], controls: Controls, scene: Scene
) -> None:
    arm = value["arm"]
    if arm not in controls.paused_arms:
        names = ", ".join(controls.paused_arms) or "none"
        raise Conflict(
            f"resume_arm has no effect: {arm!r:.60} is not paused; paused arms: {names}"
        )
    _check_bounds(controls.after_fields(0, "resume_arm", value), scene)


def _check_holdout(value: Mapping[str, Any], _: Controls, scene: Scene) -> None:
    if scene.design.control is None:
        raise InvalidInput(
            "holdout must be left out: the policy file names no control and no holdout"
        )
    holdout_with(scene.design, value["share"])


def _check_set(value: Mapping[str, Any], controls: Controls, scene: Scene) -> None:
    gamma = value.get("gamma")
    if gamma is not None:
        number("gamma", gamma, low=0, high=1)
    for name in ("floors", "caps"):
        given = value.get(name)
        bounds = given if isinstance(given, Mapping) else {"": given}
        for arm, bound in bounds.items():
            if arm and scene.arms is not None and arm not in scene.arms:
                raise InvalidInput(
                    f"{name} must name arms of {list(scene.arms)[:8]}; got "
                    f"{arm!r:.60}{hint(arm, scene.arms)}"
                )
            if bound is not None:
                number(f"{name} {arm}".strip(), bound, low=0, high=1)
    _check_bounds(controls.after_fields(0, "set", value), scene)


def _check_bounds(controls: Controls, scene: Scene) -> None:
    """Raise if no propensities over the arms that are not paused satisfy the bounds."""
    if scene.policy is None:
        return
    policy = controls.policy(scene.policy, scene.arms)
    if not isinstance(policy, Bounded) or scene.arms is None:
        return
    everyone = np.ones(len(scene.arms), dtype=np.bool_)
    policy.check_feasible(len(scene.arms), controls.eligible(scene.arms, everyone))


_CHECKS: Mapping[str, Callable[[Mapping[str, Any], Controls, Scene], None]] = {
    "pause": _check_control,
    "kill": _check_control,
    "pause_arm": _check_pause_arm,
    "resume_arm": _check_resume_arm,
    "holdout": _check_holdout,
    "set": _check_set,
}


def holdout_with(design: ExperimentDesign, share: float) -> Holdout:
    """Return the holdout of a design with another share, which replaces its ramp.

    Units of the control group stay in it when the share grows.
    """
    holdout = design.holdout
    if holdout is None:
        return Holdout(share, design.control)
    return replace(holdout, share=share, ramp=())
