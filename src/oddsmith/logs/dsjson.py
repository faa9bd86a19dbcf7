"""Vowpal Wabbit's dsjson format: one decision per line, for Vowpal Wabbit and
compatible services.

    {"_label_cost": -1, "_label_probability": 0.8, "_label_Action": 2, "_labelIndex": 1,
    "a": [2, 1], "p": [0.8, 0.2], "EventId": "…", "Timestamp": "…", "c": {shared
    features, "_multi": [features of each arm]}}

Actions count from 1; `a` lists them with the drawn one first, and `p` are the
propensities in the order of `a`. The cost is minus the reward. If every action has a
`_tag`, the tags are the names of the offered arms, the other keys of an action are its
features, and the other keys of `c` are the context, with namespaces flattened by
`flat`. Otherwise arms are identified by their positions. Azure AI Personalizer wrote
the context as the list `FromUrl`, an action's features as the list `j`, and its name
once more in `i`. An event with several slots gives one row per slot (`slot_events`).
The key "oddsmith", which Vowpal Wabbit ignores, contains the columns that dsjson lacks:
step, predictions, bonus, log weights, ineligible arms, and the original context and
features.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import IO, Any

import numpy as np

from oddsmith.contexts.flat import flat
from oddsmith.core.arrays import Array, Ints
from oddsmith.core.contexts import rows as rows_of
from oddsmith.core.decision import Context
from oddsmith.core.errors import BrokenLog, InvalidInput
from oddsmith.core.exact_json import encode, encode_floats
from oddsmith.logs.jsonl import decode_field, is_list_of, objects
from oddsmith.logs.offers import BY_ARM, Features
from oddsmith.logs.pieces import Layout, Piece
from oddsmith.logs.slot_events import are_slots, slot_rows
from oddsmith.logs.table import Log

__all__ = ["looks_like", "read_pieces", "rows_of_event", "write"]

_OWN = (
    "step",
    "advice",
    "bonus",
    "log_weights",
    "fingerprint",
    "slate",
    "slot",
    "control",
    "holdout",
    "group",
    "unit",
    "metric",
)
_ROUNDED = 1e-4  # tolerance for sums: propensities of Vowpal Wabbit are float32


def looks_like(event: Mapping[str, object]) -> bool:
    """Return whether an object is a dsjson event."""
    if "c" not in event:
        return False
    return "a" in event or "_label_Action" in event or "_outcomes" in event


def read_pieces(path: Path, layout: Layout) -> Iterator[Piece]:
    """Read a dsjson file in pieces. The context is `c`, or the one that `write` stored
    in addition."""
    experts: Sequence[str] | None = None
    metrics: Sequence[str] | None = None
    has_tags: bool | None = None
    before = 0
    for first, events in objects(path, layout.rows):
        rows: list[dict[str, Any]] = []
        try:
            for i, event in enumerate(events):
                rows.extend(rows_of_event(event, i))
            if has_tags is None:
                has_tags = "offered" in rows[0]
            _check_alike(rows, has_tags)
            names = dict.fromkeys(name for row in rows for name in row)
            columns = {name: [row.get(name) for row in rows] for name in names}
            _pad(columns)
        except BrokenLog as error:
            raise error.shift(first, str(path)) from error
        present: dict[str, Any] = {"reward": [None] * len(rows)}
        for name, values in columns.items():
            # Drop columns without values, except `slate`: rows without a slate have
            # slot 0.
            if name == "slate" or any(value is not None for value in values):
                present[name] = values
        own = events[0].get("oddsmith", {})
        experts = own.get("experts", experts)
        metrics = own.get("metrics", metrics)
        yield Piece(present, before, None, experts, own=True, metrics=metrics)
        before += len(rows)


def write(logs: Iterable[Log], file: IO[bytes]) -> None:
    """Write logs with the propensities of all arms as dsjson."""
    first = 0
    for log in logs:
        if log.propensities is None:
            log.require("odds")
        for event in _events(log, first):
            file.write(json.dumps(event, allow_nan=False).encode() + b"\n")
        first += len(log)


def rows_of_event(event: Mapping[str, Any], i: int = 0) -> list[dict[str, Any]]:
    """Return the rows of one event under our column names: one row, or one per slot. An
    error names row `i`."""
    if not looks_like(event) or not isinstance(event["c"], dict):
        raise BrokenLog(
            "c",
            i,
            "must be given, with a or _label_Action, in a decision; got keys "
            f"{list(event)[:6]}",
        )
    if event.get("pdrop"):
        raise BrokenLog(
            "pdrop",
            i,
            "must be 0; `oddsmith import personalizer` accounts for it; got "
            f"{event['pdrop']}",
        )
    if are_slots(event):
        return slot_rows(event, i, _tags, _slot_columns)
    return [_row(event, i)]


def _slot_columns(
    outcome: Mapping[str, Any], left: Sequence[int], i: int, arms: int
) -> dict[str, object]:
    """Return the reward and the propensities of a slot. The actions of slots are
    numbered from 0."""
    order = [action + 1 for action in left]
    odds = _odds(outcome, order, order[0], i, np.arange(arms), arms)
    return {"reward": _reward(outcome["_label_cost"], i), **odds}


def _row(event: Mapping[str, Any], i: int) -> dict[str, Any]:
    """Convert a decision among arms to a row."""
    own = event.get("oddsmith", {})
    order, drawn = _order(event, i)
    eligible_arms, n_arms = _eligible_arms(event, own, order, i)
    cost = None if event.get("_skipLearn") else event.get("_label_cost")
    row: dict[str, Any] = {
        "reward": _reward(cost, i),
        "arm": int(eligible_arms[drawn - 1]),
        "eligible": np.isin(np.arange(n_arms), eligible_arms),
    }
    row |= _odds(event, order, drawn, i, eligible_arms, n_arms)
    row["decision_id"] = event.get("EventId")
    row["time"] = event.get("Timestamp")
    row["context"] = event["c"]
    if "oddsmith" not in event:
        row |= _tags(event["c"], i)
    if "offered" in own:
        row["offered"] = own["offered"]
        row["context"] = None
    for name in ("context", "features"):
        if name in own:
            row[name] = decode_field(own[name], name, i)
    for name in _OWN:
        if name in own:
            row[name] = own[name]
    return row


def _order(event: Mapping[str, Any], i: int) -> tuple[list[int], int]:
    """Return the numbers of the actions in the order of `a`, and the number of the
    drawn one."""
    label = event.get("_label_Action")
    order = event.get("a", [label])
    actions = event["c"].get("_multi", order)
    is_objects = "_multi" not in event["c"] or is_list_of(actions, dict)
    if not isinstance(actions, list) or not is_objects:
        raise BrokenLog(
            "c", i, f"must have a list of actions in _multi; got {actions!r:.60}"
        )
    n = len(actions)
    if not order or not is_list_of(order, int) or not all(1 <= a <= n for a in order):
        raise BrokenLog(
            "a", i, f"must be numbers of actions from 1 to {n}; got {order!r:.60}"
        )
    if len(set(order)) < len(order):
        raise BrokenLog("a", i, f"must have each action once; got {order!r:.60}")
    drawn = order[0] if label is None else label
    if type(drawn) is not int or not 1 <= drawn <= n:
        raise BrokenLog(
            "_label_Action",
            i,
            f"must be the number of an action from 1 to {n}; got {label!r:.60}",
        )
    return order, drawn


def _eligible_arms(
    event: Mapping[str, Any], own: object, order: Sequence[int], i: int
) -> tuple[Ints, int]:
    """Return the numbers of the eligible arms, and the number of all arms."""
    n = len(event["c"].get("_multi", order))
    if not isinstance(own, dict):
        raise BrokenLog("oddsmith", i, f"must be an object; got {own!r:.60}")
    if "eligible" not in own:
        return np.arange(n), n
    mask = own["eligible"]
    if not is_list_of(mask, bool) or sum(mask) != n:
        raise BrokenLog(
            "eligible", i, f"must be true for the {n} actions; got {mask!r:.60}"
        )
    return np.flatnonzero(mask), len(mask)


def _tags(c: Mapping[str, Any], i: int) -> dict[str, object]:
    """Return names, features and the context, if the actions have tags."""
    actions = c.get("_multi", [])
    tags = [action.get("_tag") for action in actions]
    if all(tag is None for tag in tags):
        return {}
    if None in tags:
        raise BrokenLog(
            "c",
            i,
            "must have a _tag for each action, or for none; got none for action "
            f"{tags.index(None) + 1}",
        )
    namespaces = {key: value for key, value in c.items() if key != "_multi"}
    try:
        features = [_features(action) or None for action in actions]
        context = flat(_unwrap(namespaces, "FromUrl"))
    except InvalidInput as error:
        raise BrokenLog("c", i, str(error)) from error
    names = map(str, tags)
    return {
        "offered": tags,
        "features": dict(zip(names, features, strict=True)),
        "context": context or None,
    }


def _features(action: Mapping[str, Any]) -> dict[str, Any]:
    """Return an action's features, without the constant and the name that Personalizer
    added."""
    named = action.get("i")
    if isinstance(named, dict) and named.keys() == {"constant", "id"}:
        action = {key: value for key, value in action.items() if key != "i"}
    return flat(_unwrap(action, "j"))


def _unwrap(namespaces: Mapping[str, Any], key: str) -> list[Any]:
    """Return all namespaces except the one with this key, followed by the objects in
    the list that this key contains."""
    objects: Any = namespaces.get(key)
    if not is_list_of(objects, dict):
        return [dict(namespaces)]
    others = {name: value for name, value in namespaces.items() if name != key}
    return [others, *objects]


def _check_alike(rows: Sequence[Mapping[str, object]], has_tags: bool) -> None:
    """Raise if some rows name their arms and others do not."""
    rule = "must have no _tag in its actions"
    if has_tags:
        rule = "must have a _tag for each action"
    for i, row in enumerate(rows):
        if ("offered" in row) != has_tags:
            raise BrokenLog(
                "c",
                i,
                f"{rule}, like the first row: all rows must identify arms in the same "
                "way, by name or by position",
            )


def _reward(cost: Any, i: int) -> float | None:
    if cost is None:
        return None
    is_number = isinstance(cost, int | float) and not isinstance(cost, bool)
    if not is_number or not abs(cost) <= 1e300:
        raise BrokenLog("_label_cost", i, f"must be a number; got {cost!r:.60}")
    return 0.0 - float(cost)


def _odds(
    event: Mapping[str, Any],
    order: Sequence[int],
    drawn: int,
    i: int,
    eligible_arms: Ints,
    n_arms: int,
) -> dict[str, float | Array | None]:
    """Return the propensities in `p`, otherwise the drawn arm's from
    `_label_probability`."""
    own = event.get("_label_probability")
    p = event.get("p")
    if p is None:
        return {"propensity": own}
    if not isinstance(p, list) or len(p) != len(order):
        got = len(p) if isinstance(p, list) else f"{p!r:.60}"
        raise BrokenLog(
            "p", i, f"must have {len(order)} propensities like a; got {got}"
        )
    for value in p:
        _check_probability(value, "p", i)
    if own is not None:
        _check_probability(own, "_label_probability", i)
    odds = np.zeros(n_arms)
    odds[eligible_arms[np.array(order) - 1]] = p
    total = odds.sum()
    if not abs(total - 1) <= _ROUNDED:
        raise BrokenLog("p", i, f"must sum to 1; got {total:.6g}")
    if own is not None and not abs(odds[eligible_arms[drawn - 1]] - own) <= _ROUNDED:
        raise BrokenLog(
            "_label_probability", i, f"must be the drawn action's entry of p; got {own}"
        )
    is_exact = abs(total - 1) <= 1e-12
    return {"propensities": odds if is_exact else odds / total}


def _check_probability(value: object, key: str, i: int) -> None:
    if not isinstance(value, float | int) or not 0 <= value <= 1 + _ROUNDED:
        raise BrokenLog(key, i, f"must be numbers from 0 to 1; got {value!r:.60}")


def _pad(columns: dict[str, Any]) -> None:
    """Pad propensities and masks to the largest number of arms. Drop masks that allow
    all arms."""
    width = max(len(mask) for mask in columns["eligible"])
    for name in BY_ARM:
        rows = columns.get(name)
        if "offered" in columns or rows is None or any(row is None for row in rows):
            continue
        columns[name] = [np.pad(row, (0, width - len(row))) for row in rows]
    if all(np.all(mask) for mask in columns["eligible"]):
        del columns["eligible"]
    if "log_weights" in columns:
        weights = columns["log_weights"]
        n = next(len(row) for row in weights if row is not None)
        columns["log_weights"] = [[None] * n if row is None else row for row in weights]


def _events(log: Log, first: int) -> Iterator[dict[str, object]]:
    """Convert the rows of a log to events; `first` is the number of the first one."""
    arms = log.arms or [str(arm) for arm in range(log.n_arms)]
    contexts = [None] * len(log) if log.context is None else rows_of(log.context)
    rows = log.without("context")
    for i, (row, context) in enumerate(zip(rows, contexts, strict=True)):
        own = {name: _json_value(row[name]) for name in _OWN if name in row}
        if first + i == 0:
            if log.experts is not None:
                own["experts"] = list(log.experts)
            if log.metrics is not None:
                own["metrics"] = list(log.metrics)
        names = row.get("offered", arms)
        mask = row.get("eligible", np.ones(len(names), np.bool_))[: len(names)]
        if log.eligible is not None:
            own["eligible"] = mask.tolist()
        if log.offered is not None:
            own["offered"] = list(names)
        features = row.get("features")
        if features is not None:
            own["features"] = encode(dict(features))
        eligible_arms = np.flatnonzero(mask)
        c = _vw_context(context, eligible_arms, names, features)
        if context is not None and c is not context:
            own["context"] = encode(context)
        # Vowpal Wabbit expects the drawn arm first.
        order = np.argsort(eligible_arms != row["arm"], kind="stable")
        odds = row["propensities"][eligible_arms][order].tolist()
        event: dict[str, object] = {}
        if not np.isnan(row["reward"]):
            event["_label_cost"] = -row["reward"]
            event["_label_probability"] = odds[0]
        event["_label_Action"] = int(order[0]) + 1
        event["_labelIndex"] = int(order[0])
        event["EventId"] = row.get("decision_id", str(first + i))
        if log.time is not None:
            is_time = log.time.dtype.kind == "M"
            event["Timestamp"] = f"{log.time[i]}Z" if is_time else str(log.time[i])
        event["Version"] = "1"
        event["a"] = (order + 1).tolist()
        event["c"] = c
        event["p"] = odds
        event["oddsmith"] = own
        yield event


def _json_value(value: Any) -> object:
    if isinstance(value, np.ndarray):
        return encode_floats(value)
    is_missing = value != value
    return None if is_missing else value


def _vw_context(
    context: Context, arms: Ints, names: Sequence[str], features: Features
) -> Mapping[str, object]:
    """Return the context as Vowpal Wabbit's features: shared ones in the namespace `x`,
    and each arm's name and features."""
    if isinstance(context, dict) and len(context.get("_multi", ())) == len(arms):
        return context
    actions: list[dict[str, object]] = []
    for arm in arms:
        name = names[arm]
        action: dict[str, object] = {"_tag": name, "arm": {name: 1}}
        if features is not None and features.get(name) is not None:
            action["f"] = _words_and_numbers(features[name])
        actions.append(action)
    if context is None:
        return {"_multi": actions}
    shared: object = {"context": str(context)}
    if isinstance(context, dict):
        shared = _words_and_numbers(context)
    elif isinstance(context, np.ndarray):
        if context.ndim == 2 and len(names) in context.shape:
            by_arm = context if len(context) == len(names) else context.T
            for action, arm in zip(actions, arms, strict=True):
                action["x"] = by_arm[arm].tolist()
            return {"_multi": actions}
        if context.dtype.kind in "fiub":
            shared = context.ravel().tolist()
    return {"x": shared, "_multi": actions}


def _words_and_numbers(features: Any) -> dict[str, object]:
    """Return the words and finite numbers of features, in a form that Vowpal Wabbit
    reads."""
    if not isinstance(features, Mapping):
        features = dict(enumerate(np.ravel(features).tolist()))
    words = {}
    for key, value in features.items():
        is_finite = isinstance(value, float) and isfinite(value)
        if is_finite or isinstance(value, str | int):
            words[str(key)] = value
    return words
