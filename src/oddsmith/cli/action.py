"""`oddsmith action`: pause arms or experiments and change settings of decisions while
an experiment is served."""

import argparse
import time
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

from oddsmith.cli.parser import Commands, add_command, add_json
from oddsmith.cli.words import as_json
from oddsmith.core.errors import InvalidInput, StoreFailed

__all__ = ["add_commands"]

if TYPE_CHECKING:
    from oddsmith.server.operations.requests import Outcome, Request
    from oddsmith.server.store.protocol import Store

_ACTIONS = (
    "pause_arm",
    "resume_arm",
    "pause",
    "resume",
    "kill",
    "restore",
    "freeze",
    "learn",
    "holdout",
    "set",
    "finish",
)
_TRIES = 20
# longer than for other calls: the first change of bounds may compile them
_TIMEOUT_S = 60.0


def add_commands(commands: Commands) -> None:
    """Add the command to a parser."""
    parser = add_command(
        commands,
        "action",
        "pause an arm or an experiment, or change settings while it runs",
        "oddsmith action http://127.0.0.1:8000 pause_arm --arm tech --reason broken",
    )
    parser.add_argument(
        "place",
        metavar="STORE|URL",
        help="address of a service, postgresql://…, or the file of a store that no "
        "service is using",
    )
    parser.add_argument(
        "action",
        choices=_ACTIONS,
        metavar="ACTION",
        help=f"one of {', '.join(_ACTIONS)}",
    )
    parser.add_argument("--reason", required=True, help="recorded in the log")
    parser.add_argument("--experiment", metavar="NAME", help="name of the experiment")
    parser.add_argument("--arm", help="for pause_arm and resume_arm: name of the arm")
    parser.add_argument("--share", type=float, help="of holdout: 0 to 1")
    for name in ("floors", "caps"):
        parser.add_argument(
            f"--{name}",
            nargs="+",
            metavar="BOUND",
            help='for set: a number, ARM=NUMBER for some arms, or "file" for the '
            "values of the policy file",
        )
    parser.add_argument(
        "--gamma",
        help='for set: exploration from 0 to 1, or "file" for the value '
        "of the policy file",
    )
    parser.add_argument(
        "--verdict",
        choices=("ship", "keep"),
        help="for finish: the result of the experiment",
    )
    parser.add_argument(
        "--request-id",
        metavar="ID",
        help="id of the request; repeating a request with the same id has no effect",
    )
    parser.add_argument("--key", help="API key of a service, with the scope operate")
    add_json(parser)
    parser.set_defaults(run=_act)


def _act(asked: argparse.Namespace) -> str:
    fields = _fields(asked)
    if asked.place.startswith(("http://", "https://")):
        record = _ask_service(asked, fields)
    else:
        record = _write_to_store(asked, fields)
    if asked.json:
        return as_json(record)
    if not record["new"]:
        return f"This request was written before, at position {record['position']:,}."
    return f"{asked.action} applies from position {record['position']:,} on."


def _fields(asked: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of the action."""
    fields: dict[str, Any] = {}
    for name in ("arm", "share", "verdict"):
        if getattr(asked, name) is not None:
            fields[name] = getattr(asked, name)
    for name in ("floors", "caps"):
        if getattr(asked, name) is not None:
            fields[name] = _bounds(name, getattr(asked, name))
    if asked.gamma is not None:
        fields["gamma"] = _bounds("gamma", [asked.gamma])
    return fields


def _bounds(name: str, words: list[str]) -> float | dict[str, float] | None:
    """Return a number, numbers by arm, or None for the values of the policy file.

    >>> _bounds("caps", ["tech=0.2", "a=b=1"])
    {'tech': 0.2, 'a=b': 1.0}
    """
    if words == ["file"]:
        return None
    by_arm: dict[str, float] = {}
    try:
        if len(words) == 1 and "=" not in words[0]:
            return float(words[0])
        for word in words:
            arm, sign, number = word.rpartition("=")
            if not sign or not arm:
                raise ValueError(word)
            by_arm[arm] = float(number)
    except ValueError as error:
        raise InvalidInput(
            f'{name} must be a number, ARM=NUMBER, or "file"; got {" ".join(words)!r}'
        ) from error
    return by_arm


def _ask_service(asked: argparse.Namespace, fields: Mapping[str, Any]) -> Any:
    from oddsmith.client.clients import Client

    client = Client(
        asked.place, key=asked.key, experiment=asked.experiment, timeout=_TIMEOUT_S
    )
    with client:
        done = client.act(
            asked.action, fields, reason=asked.reason, request_id=asked.request_id
        )
    return done._asdict()


def _write_to_store(asked: argparse.Namespace, fields: Mapping[str, Any]) -> Any:
    from oddsmith.server.operations.requests import Request
    from oddsmith.server.store.place import open_writer

    request = Request.of(
        asked.action, fields, reason=asked.reason, id=asked.request_id, sender="shell"
    )
    try:
        store = open_writer(asked.place, asked.experiment)
    except StoreFailed as error:
        raise StoreFailed(
            f"{error}; send the action to the address of its service"
        ) from error
    with closing(store):
        outcome = _write(store, request)
    return outcome._asdict()


def _write(store: "Store", request: "Request") -> "Outcome":
    """Write an action into a store."""
    from oddsmith.server.operations.design import stored_scene
    from oddsmith.server.operations.requests import Outcome, was_first

    scene = stored_scene(store)
    for _ in range(_TRIES):
        event = request.event_after(store.actions(), scene, time.time())
        if isinstance(event, Outcome):
            return event
        (receipt,) = store.append([event]).result()
        if was_first(receipt):
            return Outcome(receipt.position, True)
    raise StoreFailed("other actions were written first; try again")
