"""Calls about several slots, for the table of Personalizer's API."""

from typing import Any

from server.compat.personalizer_table import ALL, Row, action

__all__ = ["SLOTS", "page", "slot"]

_SINCE = ALL[1:]
_RANK, _EVENT = "/multislot/rank", "/multislot/events/{slots}"


def slot(id: Any, baseline: Any, **more: Any) -> dict[str, Any]:
    return {"id": id, "baselineAction": baseline} | more


def page(*slots: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The body of a multi-slot rank."""
    actions = [action(name, place=n) for n, name in enumerate("abc")]
    return {
        "contextFeatures": [{"hour": 9}],
        "actions": actions,
        "slots": list(slots or _PAIR),
    } | more


_PAIR = (
    slot("top", "a", features=[{"size": "large"}]),
    slot("side", "b", excludedActions=["c"]),
)


def _row(
    name: str,
    path: str,
    status: int,
    body: Any = None,
    code: str | None = None,
    **more: Any,
) -> Row:
    return Row(
        f"multislot {name}",
        more.pop("method", "POST"),
        path,
        status,
        body,
        code,
        versions=_SINCE,
        **more,
    )


def _bad(name: str, body: Any) -> Row:
    return _row(f"rank: {name}", _RANK, 400, body, "InvalidRankRequest")


def _rewards(*pairs: tuple[Any, Any]) -> dict[str, Any]:
    return {"reward": [{"slotId": id, "value": value} for id, value in pairs]}


SLOTS = (
    _row("rank", _RANK, 201, page(), keys=frozenset({"slots", "eventId"})),
    _row(
        "rank: as many slots as actions",
        _RANK,
        201,
        page(slot(1, "a"), slot(2, "b"), slot("é" * 256, "c")),
    ),
    _row(
        "rank: one slot",
        _RANK,
        201,
        page(slot("x", "c"), eventId=None, deferActivation=None),
    ),
    _row("rank: GET", _RANK, 405, code="MethodNotAllowed", method="GET"),
    _bad("no slots", page() | {"slots": []}),
    _bad(
        "slots are missing",
        {name: value for name, value in page().items() if name != "slots"},
    ),
    _bad(
        "more slots than actions",
        page(*(slot(n, name) for n, name in enumerate("abcd"))),
    ),
    _bad("an empty slot id", page(slot("", "a"))),
    _bad("a slot id of 257 characters", page(slot("x" * 257, "a"))),
    _bad("a slot id twice", page(slot("top", "a"), slot("top", "b"))),
    _bad("a null slot", page() | {"slots": [None]}),
    _bad("no baseline", page({"id": "top"})),
    _bad("a baseline twice", page(slot("top", "a"), slot("side", "a"))),
    _bad("an unknown baseline", page(slot("top", "z"))),
    _bad("an excluded baseline", page(slot("top", "a", excludedActions=["a"]))),
    _bad("an unknown excluded action", page(slot("top", "a", excludedActions=["z"]))),
    _bad("words in a list of a slot", page(slot("top", "a", features=[{"x": ["a"]}]))),
    _bad("no actions", page() | {"actions": []}),
    _bad("an empty eventId", page(eventId="")),
    _row("reward", f"{_EVENT}/reward", 204, _rewards(("top", 1))),
    _row(
        "reward: of all slots",
        f"{_EVENT}/reward",
        204,
        _rewards(("top", 1), ("side", -0.5)),
    ),
    _row(
        "reward: of an unknown event",
        "/multislot/events/never/reward",
        204,
        _rewards(("top", 1)),
    ),
    _row(
        "reward: outside of the scale",
        f"{_EVENT}/reward",
        400,
        _rewards(("top", 1), ("side", 2)),
        "InvalidRewardRequest",
    ),
    _row(
        "reward: none", f"{_EVENT}/reward", 400, {"reward": []}, "InvalidRewardRequest"
    ),
    _row(
        "reward: no slot",
        f"{_EVENT}/reward",
        400,
        {"reward": [{"value": 1}]},
        "InvalidRewardRequest",
    ),
    _row(
        "reward: an empty slot",
        f"{_EVENT}/reward",
        400,
        _rewards(("", 1)),
        "InvalidRewardRequest",
    ),
    _row(
        "reward: as for one slot",
        f"{_EVENT}/reward",
        400,
        {"value": 1},
        "InvalidRewardRequest",
    ),
    _row("activate", f"{_EVENT}/activate", 204),
    _row(
        "activate: of an unknown event",
        "/multislot/events/never/activate",
        404,
        code="ResourceNotFound",
    ),
)
"""Rows that name `{slots}` need a multi-slot event, a deferred one, made before."""
