"""The messages of the routes for actions of operators."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from oddsmith.server.store.events import LONGEST_ID, ActionName

__all__ = ["ActionAnswer", "ActionGiven", "Actions", "InForce", "RecordedAction"]

_TEXT = r"^[^\x00]*$"
_Name = Annotated[str, Meta(pattern=r"^[a-z0-9_-]{1,64}$")]
_Arm = Annotated[str, Meta(min_length=1, max_length=LONGEST_ID, pattern=_TEXT)]
_Share = Annotated[float, Meta(ge=0, le=1)]
_Bounds = Annotated[
    _Share | dict[_Arm, _Share] | None,
    Meta(
        description=(
            "A bound for all arms, or bounds by arm, as in the policy file; null for "
            "those of the policy file."
        )
    ),
]


class ActionGiven(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Change an experiment while it runs: pause an arm or the experiment, stop all
    calls of experts, freeze learning, change the holdout, bounds or exploration, or
    record a verdict.

    `request_id` identifies the call, so that repeating it has no effect.
    """

    action: ActionName
    reason: Annotated[str, Meta(min_length=1, max_length=500, pattern=_TEXT)]
    experiment: _Name | None = None
    request_id: (
        Annotated[str, Meta(min_length=1, max_length=LONGEST_ID, pattern=_TEXT)] | None
    ) = None
    arm: _Arm | UnsetType = UNSET
    share: _Share | UnsetType = UNSET
    floors: _Bounds | UnsetType = UNSET
    caps: _Bounds | UnsetType = UNSET
    gamma: _Share | UnsetType | None = UNSET
    verdict: Literal["ship", "keep"] | UnsetType = UNSET

    def fields(self) -> dict[str, Any]:
        """Return the fields of the action that are given."""
        names = ("arm", "share", "floors", "caps", "gamma", "verdict")
        given = {name: getattr(self, name) for name in names}
        return {name: value for name, value in given.items() if value is not UNSET}


class InForce(msgspec.Struct):
    """The current restrictions on decisions: the state ("running", "paused" or
    "killed"), the arm or policy that all callers get while it is not running, paused
    arms, and the values that actions have changed.

    `holdout` is the current share; null without a holdout. `environment` is whether the
    environment of this process has stopped the experiment.
    """

    state: str
    control: str
    learns: bool
    paused_arms: tuple[str, ...]
    holdout: float | None
    floors: Any
    caps: Any
    gamma: float | None
    verdict: str | None
    environment: bool


class ActionAnswer(msgspec.Struct):
    """An action that is on disk, and the restrictions that now apply; `new` is false
    for a repeated call."""

    experiment: str
    position: int
    new: bool
    in_force: InForce


class RecordedAction(msgspec.Struct):
    """An action in the log: its time, its fields, and the key that sent it (null for
    the service itself)."""

    position: int
    t: float
    action: str
    value: dict[str, Any]
    reason: str
    request_id: str
    sender: str | None


class Actions(msgspec.Struct):
    """The current restrictions on decisions, and the actions of the log, newest
    first."""

    experiment: str
    in_force: InForce
    actions: list[RecordedAction]
