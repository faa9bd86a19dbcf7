"""Controls: the restrictions on decisions that result from all actions of a log.

A decision records the position of the last action that it has read. The controls at
this position are therefore the same live, on replicas, and when the log is verified.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from oddsmith.core.arrays import Array, Bools
from oddsmith.core.errors import InvalidInput
from oddsmith.core.policy import Policy
from oddsmith.policies.bounds import Bounded
from oddsmith.server.fold.judge import gts_inside
from oddsmith.server.store.protocol import Line

__all__ = ["Controls", "PAUSED_ARM", "controls_at", "fields_of"]

PAUSED_ARM = "paused"
"""The reason that is recorded if an arm was not eligible because it was paused."""
_FREE = {"floors": 0.0, "caps": 1.0}


@dataclass(frozen=True)
class Controls:
    """The restrictions after the action at `position`, which is 0 before the first
    action.

    `paused_arms` are not eligible. While `is_paused` or `is_killed`, all callers get
    the control. `holdout` replaces the share of the policy file, and `floors`, `caps`
    and `gamma` replace those of the policy; None leaves them as they are. `verdict` is
    the result of the experiment, as an operator has written it.

    >>> running = Controls()
    >>> paused = running.after_fields(7, "pause_arm", {"arm": "bundle"})
    >>> paused.state, paused.paused_arms, paused.position
    ('running', ('bundle',), 7)
    """

    position: int = 0
    is_paused: bool = False
    is_killed: bool = False
    is_frozen: bool = False
    paused_arms: tuple[str, ...] = ()
    holdout: float | None = None
    floors: Any = None
    caps: Any = None
    gamma: float | None = None
    verdict: str | None = None

    @property
    def state(self) -> str:
        """Return "running", "paused" or "killed"."""
        if self.is_killed:
            return "killed"
        return "paused" if self.is_paused else "running"

    @property
    def serves_control(self) -> bool:
        """Whether all callers get the control."""
        return self.is_paused or self.is_killed

    @property
    def changes_policy(self) -> bool:
        """Whether bounds or exploration differ from those of the policy."""
        settings = (self.floors, self.caps, self.gamma)
        return any(setting is not None for setting in settings)

    def after(self, line: Line) -> "Controls":
        """Return the controls after the next action of a log."""
        fields = fields_of(line)
        return self.after_fields(line.position, fields["action"], fields["value"])

    def after_fields(
        self, position: int, action: str, value: Mapping[str, Any]
    ) -> "Controls":
        """Return the controls after an action with these fields."""
        arms = self.paused_arms
        changes: dict[str, Any] = {}
        if action == "pause_arm":
            changes["paused_arms"] = (*arms, value["arm"])
        elif action == "resume_arm":
            changes["paused_arms"] = tuple(arm for arm in arms if arm != value["arm"])
        elif action in _FLAGS:
            name, is_set = _FLAGS[action]
            changes[name] = is_set
        elif action == "holdout":
            changes["holdout"] = value["share"]
        elif action == "finish":
            changes["verdict"] = value["verdict"]
        else:
            changes |= value
        return replace(self, position=position, **changes)

    def policy(self, policy: Policy, arms: Sequence[str] | None) -> Policy:
        """Return the policy with the bounds and the exploration that apply.

        `arms` are its arms; None if calls pass them.
        """
        if not self.changes_policy:
            return policy
        inner = policy
        bounds: dict[str, Any] = dict(_FREE)
        groups: Any = ()
        if isinstance(policy, Bounded):
            inner = policy.policy
            bounds = {"floors": policy.floors, "caps": policy.caps}
            groups = policy.cap_groups
        if self.gamma is not None:
            if gts_inside(policy) is None:
                raise InvalidInput(
                    "gamma must be left out: the policy has no exploration gamma"
                )
            inner = replace(inner, gamma=self.gamma)  # type: ignore[type-var]
        for name in bounds:
            given = getattr(self, name)
            if given is not None:
                bounds[name] = _by_arm(given, arms, _FREE[name])
        has_bounds = self.floors is not None or self.caps is not None
        if not has_bounds and not isinstance(policy, Bounded):
            return inner
        return Bounded(inner, bounds["floors"], bounds["caps"], groups)

    def eligible(self, arms: Sequence[str], eligible: Bools | None) -> Bools | None:
        """Return the mask of eligible arms (K,), without paused arms."""
        if not self.paused_arms:
            return eligible
        free = np.array([arm not in self.paused_arms for arm in arms], dtype=np.bool_)
        return free if eligible is None else free & eligible


_FLAGS = {
    "pause": ("is_paused", True),
    "resume": ("is_paused", False),
    "kill": ("is_killed", True),
    "restore": ("is_killed", False),
    "freeze": ("is_frozen", True),
    "learn": ("is_frozen", False),
}


def fields_of(line: Line) -> dict[str, Any]:
    """Return the fields of an action: `action`, `value`, `reason`, `request_id`."""
    fields: dict[str, Any] = json.loads(line.body or "")
    return fields


def controls_at(lines: Iterable[Line], position: int | None = None) -> Controls:
    """Return the controls after the actions of a log, up to a position."""
    controls = Controls()
    for line in lines:
        if position is None or line.position <= position:
            controls = controls.after(line)
    return controls


def _by_arm(given: Any, arms: Sequence[str] | None, default: float) -> float | Array:
    """Return a bound in the form that policies use: a number, or one number per arm; by
    name if calls pass their arms."""
    if not isinstance(given, Mapping) or arms is None:
        return given  # type: ignore[no-any-return]
    return np.array([given.get(arm, default) for arm in arms], dtype=np.float64)
