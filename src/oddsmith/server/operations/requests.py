"""Requests of operators: create the event of a request, and read its outcome from the
store."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from oddsmith.core.errors import Conflict
from oddsmith.server.operations.checks import Scene, check_action, check_fields
from oddsmith.server.operations.controls import controls_at, fields_of
from oddsmith.server.store.events import Action, ActionName
from oddsmith.server.store.protocol import Line, Receipt

__all__ = ["Outcome", "Request", "was_first"]


class Outcome(NamedTuple):
    """The outcome of a request: the position of its action in the log. `new` is False
    if the request was a repeat."""

    position: int
    new: bool


class Request(NamedTuple):
    """A request for an action. All checks that do not need the log have passed."""

    action: ActionName
    value: dict[str, Any]
    reason: str
    id: str
    sender: str

    @classmethod
    def of(
        cls,
        action: ActionName,
        fields: Mapping[str, Any],
        *,
        reason: str,
        id: str | None = None,
        sender: str = "",
    ) -> "Request":
        """Return a request with its own id, unless one is given."""
        value = check_fields(action, fields)
        return cls(action, value, reason, id or secrets.token_hex(8), sender)

    def event_after(
        self, lines: Sequence[Line], scene: Scene, time: float
    ) -> Action | Outcome:
        """Return the event to write after the actions of a log, or the outcome if they
        contain this request; raise if it is impossible."""
        controls = controls_at(lines)
        event = Action(
            self.action,
            self.value,
            self.reason,
            self.id,
            controls.position,
            time,
            self.sender,
        )
        for line in lines:
            if fields_of(line)["request_id"] != self.id:
                continue
            if line.body != event.body():
                raise Conflict(
                    f"request_id {self.id!r:.60} was used for another action, at "
                    f"position {line.position}: send another one"
                )
            return Outcome(line.position, False)
        check_action(self.action, self.value, controls, scene)
        return event


def was_first(receipt: Receipt) -> bool:
    """Return whether an action was written. If False, another action came first, so the
    action must be checked again."""
    if receipt.new:
        return True
    if receipt.refused is not None and not isinstance(receipt.refused, Conflict):
        raise receipt.refused
    return False
