"""Calls of Personalizer's API and what they answer, as a table: one `Row` for each,
with examples of our own.

`path` stands behind `/personalizer`, in front of it the version; `None` as a version is
none. A row with a `code` is refused. Rows that need an event name `{event}`, a deferred
one, made before.
"""

from typing import Any, NamedTuple

from oddsmith.server.compat.personalizer.routes import VERSIONS

__all__ = ["ALL", "ROWS", "Row", "V22", "action", "rank"]

ALL = VERSIONS
V10, *PREVIEWS, V22 = VERSIONS
OLD = VERSIONS[:-1]


class Row(NamedTuple):
    """A call, in these versions, and its answer: the status, and the error's code or
    the keys of the body."""

    name: str
    method: str
    path: str
    status: int
    body: Any = None
    code: str | None = None
    keys: frozenset[str] | None = None
    versions: tuple[str, ...] = ALL
    headers: dict[str, str] = {}  # noqa: RUF012
    content: bytes | None = None


def action(id: Any, **features: Any) -> dict[str, Any]:
    return {"id": id, "features": [features or {"kind": "news", "length": 3.5}]}


def rank(*actions: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The body of a rank."""
    return {
        "contextFeatures": [{"hour": 9}],
        "actions": list(actions or (action("a"), action("b"))),
    } | more


def _deep(levels: int) -> dict[str, Any]:
    return {"x": _deep(levels - 1)} if levels else {"x": 1}


def _bad(name: str, body: Any) -> Row:
    return Row(f"rank: {name}", "POST", "/rank", 400, body, "InvalidRankRequest")


_RANKED = frozenset({"ranking", "eventId", "rewardActionId"})
_REWARD, _ACTIVATE = "/events/{event}/reward", "/events/{event}/activate"
RANKS = (
    Row("rank", "POST", "/rank", 201, rank(), keys=_RANKED),
    Row(
        "rank: no context",
        "POST",
        "/rank",
        201,
        {"actions": [action("a")]},
        keys=_RANKED,
    ),
    Row(
        "rank: nulls",
        "POST",
        "/rank",
        201,
        rank(eventId=None, deferActivation=None, excludedActions=None),
    ),
    Row(
        "rank: 50 actions", "POST", "/rank", 201, rank(*(action(n) for n in range(50)))
    ),
    Row("rank: unknown fields", "POST", "/rank", 201, rank(more={"a": 1})),
    Row(
        "rank: an unknown id is excluded",
        "POST",
        "/rank",
        201,
        rank(excludedActions=["z"]),
    ),
    Row(
        "rank: longest ids",
        "POST",
        "/rank",
        201,
        rank(action("é" * 256), eventId="x" * 256),
    ),
    Row(
        "rank: only features that are passed over",
        "POST",
        "/rank",
        201,
        rank(action("a", _tag="x")),
    ),
    _bad("no actions", rank() | {"actions": []}),
    _bad("actions are missing", {"contextFeatures": []}),
    _bad("51 actions", rank(*(action(n) for n in range(51)))),
    _bad("an empty id", rank(action(""))),
    _bad("an id of 257 characters", rank(action("x" * 257))),
    _bad("NUL in an id", rank(action("a\0b"))),
    _bad("an id that is no text", rank(action(True))),
    _bad("an id twice", rank(action("a"), action("a"))),
    _bad("a number and the same text", rank(action("7"), action(7))),
    _bad("an id is missing", rank({"features": [{"a": 1}]})),
    _bad("features are missing", rank({"id": "a"})),
    _bad("features are null", rank({"id": "a", "features": None})),
    _bad("no features", rank({"id": "a", "features": []})),
    _bad("an empty object of features", rank({"id": "a", "features": [{}]})),
    _bad("features that are all null", rank(action("a", x=None, y=None))),
    _bad("a null feature", rank({"id": "a", "features": [None]})),
    _bad("features that are no objects", rank({"id": "a", "features": ["x"]})),
    _bad("features that are one object", rank({"id": "a", "features": {"x": 1}})),
    _bad("a null action", rank() | {"actions": [None]}),
    _bad("a null in contextFeatures", rank(contextFeatures=[None])),
    _bad("contextFeatures is one object", rank(contextFeatures={"x": 1})),
    _bad("words in a list", rank(contextFeatures=[{"x": ["a", "b"]}])),
    _bad("words in a list of an action", rank(action("a", x=[1, "b"]))),
    _bad("objects in a list", rank(contextFeatures=[{"x": [{"y": 1}]}])),
    _bad("an empty name", rank(contextFeatures=[{"": 1}])),
    _bad("an empty name inside", rank(contextFeatures=[{"x": {"": 1}}])),
    _bad("features that are too deep", rank(contextFeatures=[_deep(40)])),
    _bad("features that are far too deep", rank(contextFeatures=[_deep(900)])),
    _bad("an empty eventId", rank(eventId="")),
    _bad("an eventId of 257 characters", rank(eventId="x" * 257)),
    _bad("NUL in an eventId", rank(eventId="a\0")),
    _bad("all are excluded", rank(excludedActions=["a", "b"])),
    _bad("excludedActions is text", rank(excludedActions="a")),
    _bad("deferActivation is a word", rank(deferActivation="yes")),
    _bad("a list for a body", [rank()]),
    Row("rank: no body", "POST", "/rank", 400, code="InvalidRankRequest"),
    Row(
        "rank: no JSON",
        "POST",
        "/rank",
        400,
        content=b'{"actions": [',
        code="InvalidRankRequest",
    ),
    Row(
        "rank: no UTF-8",
        "POST",
        "/rank",
        400,
        content=b'{"actions": "\xff"}',
        code="InvalidRankRequest",
    ),
    Row(
        "rank: too long",
        "POST",
        "/rank",
        400,
        content=b" " * (1 << 20) + b"{}",
        code="PayloadSizeExceeded",
    ),
    Row("rank: GET", "GET", "/rank", 405, code="MethodNotAllowed"),
    Row("rank: DELETE", "DELETE", "/rank", 405, code="MethodNotAllowed"),
)
EVENTS = (
    Row("reward", "POST", _REWARD, 204, {"value": 0.5}),
    Row("reward: a whole number", "POST", _REWARD, 204, {"value": 1}),
    Row("reward: below 0", "POST", _REWARD, 204, {"value": -1.0}),
    Row(
        "reward: of an unknown event",
        "POST",
        "/events/never-ranked/reward",
        204,
        {"value": 1},
    ),
    Row(
        "reward: above the scale",
        "POST",
        _REWARD,
        400,
        {"value": 1.5},
        "InvalidRewardRequest",
    ),
    Row(
        "reward: below the scale",
        "POST",
        _REWARD,
        400,
        {"value": -2},
        "InvalidRewardRequest",
    ),
    Row("reward: text", "POST", _REWARD, 400, {"value": "1"}, "InvalidRewardRequest"),
    Row("reward: null", "POST", _REWARD, 400, {"value": None}, "InvalidRewardRequest"),
    Row("reward: none", "POST", _REWARD, 400, {}, "InvalidRewardRequest"),
    Row("reward: no body", "POST", _REWARD, 400, code="InvalidRewardRequest"),
    Row("reward: PUT", "PUT", _REWARD, 405, {"value": 1}, "MethodNotAllowed"),
    Row(
        "reward: a long id",
        "POST",
        f"/events/{'x' * 257}/reward",
        400,
        {"value": 1},
        "InvalidRewardRequest",
    ),
    Row(
        "reward: NUL in an id",
        "POST",
        "/events/a%00/reward",
        400,
        {"value": 1},
        "InvalidRewardRequest",
    ),
    Row(
        "reward: an id that is no UTF-8",
        "POST",
        "/events/a%FF/reward",
        400,
        {"value": 1},
        "BadRequest",
    ),
    Row(
        "reward: no id",
        "POST",
        "/events//reward",
        404,
        {"value": 1},
        "ResourceNotFound",
    ),
    Row("activate", "POST", _ACTIVATE, 204),
    Row("activate: with a body that is none", "POST", _ACTIVATE, 204, content=b"{{{"),
    Row("activate: of an unknown event", "POST", "/events/never-ranked/activate", 204),
    Row(
        "activate: a long id",
        "POST",
        f"/events/{'x' * 257}/activate",
        400,
        code="InvalidEventIdToActivate",
    ),
    Row("activate: GET", "GET", _ACTIVATE, 405, code="MethodNotAllowed"),
)
PATHS = (
    Row("no path", "GET", "", 404, code="ResourceNotFound"),
    Row("an unknown path", "POST", "/ranks", 404, rank(), "ResourceNotFound"),
    Row(
        "logs of their library",
        "POST",
        "/logs/interactions",
        404,
        content=b"\1\2",
        code="ResourceNotFound",
    ),
    Row(
        "logs of their library too",
        "POST",
        "/logs/observations",
        404,
        content=b"\1",
        code="ResourceNotFound",
    ),
    Row(
        "feature importances",
        "GET",
        "/featureImportances",
        404,
        code="ResourceNotFound",
    ),
    Row("one of them", "PUT", "/featureImportances/7", 404, {}, "ResourceNotFound"),
    Row(
        "metrics of learning", "GET", "/metrics/learning", 404, code="ResourceNotFound"
    ),
)

_SERVICE = "/configurations/service"
CONFIGURATION = (
    Row("configuration", "GET", _SERVICE, 200),
    Row(
        "configuration: PUT without what is needed",
        "PUT",
        _SERVICE,
        400,
        {},
        "InvalidServiceConfiguration",
    ),
    Row(
        "configuration: PUT without a body",
        "PUT",
        _SERVICE,
        400,
        code="InvalidServiceConfiguration",
    ),
    Row("configuration: DELETE", "DELETE", _SERVICE, 405, code="MethodNotAllowed"),
)

ROWS: tuple[Row, ...] = (*RANKS, *EVENTS, *PATHS, *CONFIGURATION)
