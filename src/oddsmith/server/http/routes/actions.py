"""Routes for operators: pause a running experiment, change its limits, and list such
actions."""

import asyncio

from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.http.routes.route import CHANGES, OPERATE, READ, Route
from oddsmith.server.messages import actions as am
from oddsmith.server.messages import calls as m
from oddsmith.server.operations.controls import fields_of
from oddsmith.server.operations.requests import Request
from oddsmith.server.store.protocol import Line

__all__ = ["ROUTES", "act", "actions"]

_MOST = 500  # maximum number of actions in one answer


async def act(
    experiment: Experiment, message: am.ActionGiven, sender: str
) -> am.ActionAnswer:
    """Write an operator's action to the log. When the call is answered, the action
    already applies in this process."""
    request = Request.of(
        message.action,
        message.fields(),
        reason=message.reason,
        id=message.request_id,
        sender=sender,
    )
    outcome = await experiment.operator.act(request)
    return am.ActionAnswer(
        experiment.name, outcome.position, outcome.new, _in_force(experiment)
    )


async def actions(experiment: Experiment, _: m.Query) -> am.Actions:
    """Return the current restrictions, and a list of the actions, newest first."""
    lines = await asyncio.to_thread(experiment.store.actions)
    newest = [_record(line) for line in lines[: -_MOST - 1 : -1]]
    return am.Actions(experiment.name, _in_force(experiment), newest)


def _in_force(experiment: Experiment) -> am.InForce:
    operator = experiment.operator
    controls = operator.controls
    share = None
    assigner = experiment.assigner
    if assigner is not None and assigner.run is not None:
        share = assigner.share()
    return am.InForce(
        "killed" if operator.is_killed_here else controls.state,
        operator.control.name,
        not controls.is_frozen,
        controls.paused_arms,
        share,
        controls.floors,
        controls.caps,
        controls.gamma,
        controls.verdict,
        operator.is_killed_here,
    )


def _record(line: Line) -> am.RecordedAction:
    fields = fields_of(line)
    return am.RecordedAction(
        line.position,
        line.time,
        fields["action"],
        fields["value"],
        fields["reason"],
        fields["request_id"],
        line.sender,
    )


ROUTES = (
    Route(
        "POST",
        "/v1/actions",
        act,
        "Pause an arm or the experiment, or change what is in force.",
        OPERATE,
        am.ActionGiven,
        am.ActionAnswer,
        CHANGES,
        examples={
            "An arm is paused": {
                "action": "pause_arm",
                "arm": "tech",
                "reason": "out of stock",
                "request_id": "7f3a",
            },
            "Everybody gets the control": {
                "action": "pause",
                "reason": "complaints",
            },
            "Exploration and caps": {
                "action": "set",
                "gamma": 0.05,
                "caps": {"tech": 0.2},
                "reason": "slow start",
            },
        },
    ),
    Route(
        "GET",
        "/v1/actions",
        actions,
        "What is in force, and the actions.",
        READ,
        m.Query,
        am.Actions,
    ),
)
