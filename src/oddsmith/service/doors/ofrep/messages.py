"""The messages of OFREP as types; fields that it does not know are passed over."""

from typing import Any, Literal

import msgspec

from oddsmith.service.doors.door import Told

__all__ = ["Evaluation", "EvaluationRequest", "Failure", "Flags"]


class EvaluationRequest(msgspec.Struct):
    """Whose flag it is, and what is known of them: `targetingKey` is the unit, all else the context of a decision."""

    context: dict[str, Any] | None = None


class Evaluation(Told):
    """A flag's value: that of the arm, which is its variant; `metadata` has the decision's id and its odds."""

    key: str
    value: Any
    variant: str
    metadata: dict[str, str | float]
    reason: Literal["SPLIT"] = "SPLIT"

    @property
    def id(self) -> str:
        """That of the decision."""
        return str(self.metadata["decision_id"])


class Failure(msgspec.Struct, rename="camel"):
    """A flag that could not be evaluated."""

    key: str
    error_code: str
    error_details: str


class Flags(msgspec.Struct):
    """All flags of a unit."""

    flags: list[Evaluation | Failure]
