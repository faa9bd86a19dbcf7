"""Vowpal Wabbit's dsjson: one decision a line, as Vowpal Wabbit and the services around
it write and train on.

    {"_label_cost": -1, "_label_probability": 0.8, "_label_Action": 2, "_labelIndex": 1, "a": [2, 1], "p": [0.8, 0.2],
     "EventId": "…", "Timestamp": "…", "c": {shared features, "_multi": [features of each arm]}}

Actions count from 1, `a` puts the drawn one first, `p` are the odds in the order of
`a`, and cost is minus reward. Where every action has a `_tag`, the tags are the names
of the arms that were offered, what else an action has are its features, and what else
`c` has is the context, as `flat` makes them of namespaces; else arms are known by their
places. Azure AI Personalizer wrote the context as the list `FromUrl`, an action's
features as the list `j`, and its name once more in `i`. An event about several slots is
a row for each (`slot_events`).
What dsjson has no word for (step, advice, bonus, log weights, arms that were not
eligible, context and features as they were) stands under the key "oddsmith", which
Vowpal Wabbit passes over.
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
from oddsmith.logs.jsonl import decoded, objects
from oddsmith.logs.offers import BY_ARM, Features
from oddsmith.logs.pieces import Layout, Piece
from oddsmith.logs.slot_events import are_slots, slot_rows
from oddsmith.logs.table import Log

__all__ = ["looks_like", "read", "rows_of_event", "write"]

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
_NAMES = ("experts", "metrics")
_ROUNDED = 1e-4  # Vowpal Wabbit's odds are float32: sums of many are that far from 1


def looks_like(event: Mapping[str, object]) -> bool:
    """Whether an object is an event of dsjson."""
    return "c" in event and (
        "a" in event or "_label_Action" in event or "_outcomes" in event
    )


def read(path: Path, layout: Layout) -> Iterator[Piece]:
    """Pieces of a dsjson file; the context is `c` as it is, or what stood in our own
    log."""
    experts, tagged, before = None, None, 0
    metrics = None
    for first, events in objects(path, layout.rows):
        try:
            rows = [
                row for i, event in enumerate(events) for row in rows_of_event(event, i)
            ]
            tagged = "offered" in rows[0] if tagged is None else tagged
            _check_alike(rows, tagged)
            columns = {
                name: [row.get(name) for row in rows]
                for name in dict.fromkeys(k for row in rows for k in row)
            }
            _pad(columns)
        except BrokenLog as error:
            raise error.shift(first, str(path)) from error
        kept = {
            name: values
            for name, values in columns.items()
            # rows without a slate have a slot, 0, all the same
            if name == "slate" or any(value is not None for value in values)
        }
        names = events[0].get("oddsmith", {})
        experts = names.get("experts", experts)
        metrics = names.get("metrics", metrics)
        columns = {"reward": [None] * len(rows), **kept}
        yield Piece(columns, before, None, experts, own=True, metrics=metrics)
        before += len(rows)


def write(logs: Iterable[Log], file: IO[bytes]) -> None:
    """Write logs that know the odds of all arms as dsjson."""
    first = 0
    for log in logs:
        if log.propensities is None:
            log.require("odds")
        for event in _events(log, first):
            file.write(json.dumps(event, allow_nan=False).encode() + b"\n")
        first += len(log)


def rows_of_event(event: Mapping[str, Any], i: int = 0) -> list[dict[str, Any]]:
    """One event as rows of our columns, of which slots have one each; a violation names
    row `i`."""
    if not looks_like(event) or not isinstance(event["c"], dict):
        raise BrokenLog(
            "c",
            i,
            "must be there, with a or _label_Action: a decision; got keys "
            f"{list(event)[:6]}",
        )
    if event.get("pdrop"):
        raise BrokenLog(
            "pdrop",
            i,
            "must be 0, or `oddsmith import personalizer` counts it; got "
            f"{event['pdrop']}",
        )
    return (
        slot_rows(event, i, _tags, _of_slot) if are_slots(event) else [_row(event, i)]
    )


def _of_slot(
    outcome: Mapping[str, Any], left: Sequence[int], i: int, arms: int
) -> dict[str, object]:
    """Reward and odds of a slot, whose actions count from 0."""
    order, cost = [action + 1 for action in left], outcome["_label_cost"]
    odds = _odds(outcome, order, order[0], i, np.arange(arms), arms)
    return {"reward": None if cost is None else _reward(cost, i), **odds}


def _row(event: Mapping[str, Any], i: int) -> dict[str, Any]:
    """A decision among arms as a row."""
    own = event.get("oddsmith", {})
    order, drawn = _order(event, i)
    open_to, arms = _open_to(event, own, order, i)
    cost = None if event.get("_skipLearn") else event.get("_label_cost")
    row: dict[str, object] = {
        "reward": None if cost is None else _reward(cost, i),
        "arm": int(open_to[drawn - 1]),
    }
    row["eligible"] = np.isin(np.arange(arms), open_to)
    row |= _odds(event, order, drawn, i, open_to, arms)
    row |= {"decision_id": event.get("EventId"), "time": event.get("Timestamp")}
    row |= {"context": event["c"]} | (
        _tags(event["c"], i) if "oddsmith" not in event else {}
    )
    if "offered" in own:
        row |= {"offered": own["offered"], "context": None}
    row |= {
        name: decoded(own[name], name, i)
        for name in ("context", "features")
        if name in own
    }
    return row | {name: own[name] for name in _OWN if name in own}


def _order(event: Mapping[str, Any], i: int) -> tuple[list[int], int]:
    """The actions' numbers as `a` has them, and that of the drawn one."""
    label = event.get("_label_Action")
    order = event.get("a", [label])
    actions = event["c"].get("_multi", order)
    if not isinstance(actions, list) or (
        "_multi" in event["c"] and not all(isinstance(one, dict) for one in actions)
    ):
        raise BrokenLog(
            "c", i, f"must have a list of actions in _multi; got {actions!r:.60}"
        )
    n = len(actions)
    if (
        not isinstance(order, list)
        or not order
        or not all(type(a) is int and 1 <= a <= n for a in order)
    ):
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


def _open_to(
    event: Mapping[str, Any], own: object, order: Sequence[int], i: int
) -> tuple[Ints, int]:
    """The places of the actions among all arms, and how many arms there are."""
    n = len(event["c"].get("_multi", order))
    if not isinstance(own, dict):
        raise BrokenLog("oddsmith", i, f"must be an object; got {own!r:.60}")
    if "eligible" not in own:
        return np.arange(n), n
    mask = own["eligible"]
    if (
        not isinstance(mask, list)
        or not all(type(one) is bool for one in mask)
        or sum(mask) != n
    ):
        raise BrokenLog(
            "eligible", i, f"must be true for the {n} actions; got {mask!r:.60}"
        )
    return np.flatnonzero(mask), len(mask)


def _tags(c: Mapping[str, Any], i: int) -> dict[str, object]:
    """Names, features and the context, where the actions have tags."""
    actions = c.get("_multi", [])
    tags = [action.get("_tag") for action in actions]
    if all(tag is None for tag in tags):
        return {}
    if None in tags:
        lacking = tags.index(None) + 1
        raise BrokenLog(
            "c",
            i,
            "must have a _tag for each action, or for none; got none for action "
            f"{lacking}",
        )
    try:
        rest = [_features(action) or None for action in actions]
        shared = flat(
            _unwrapped(
                {key: value for key, value in c.items() if key != "_multi"}, "FromUrl"
            )
        )
    except InvalidInput as error:
        raise BrokenLog("c", i, str(error)) from error
    return {
        "offered": tags,
        "features": dict(zip(map(str, tags), rest, strict=True)),
        "context": shared or None,
    }


def _features(action: Mapping[str, Any]) -> dict[str, Any]:
    """An action's features, without the constant and the name that Personalizer put
    beside them."""
    named = action.get("i")
    if isinstance(named, dict) and named.keys() == {"constant", "id"}:
        action = {key: value for key, value in action.items() if key != "i"}
    return flat(_unwrapped(action, "j"))


def _unwrapped(namespaces: Mapping[str, Any], key: str) -> list[Any]:
    """The objects in the list under a key, which is no name of theirs, beside the other
    namespaces."""
    listed = namespaces.get(key)
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        return [dict(namespaces)]
    return [{name: value for name, value in namespaces.items() if name != key}, *listed]


def _check_alike(rows: Sequence[Mapping[str, object]], tagged: bool) -> None:
    """Refuses a row that names its arms where the first one does not, or the other way
    round."""
    for i, row in enumerate(rows):
        if ("offered" in row) != tagged:
            rule = (
                "must have a _tag for each action"
                if tagged
                else "must have no _tag in its actions"
            )
            raise BrokenLog(
                "c",
                i,
                f"{rule}, like the first row: arms are known by name or by place, not "
                "by both",
            )


def _reward(cost: object, i: int) -> float:
    if (
        isinstance(cost, bool)
        or not isinstance(cost, int | float)
        or not abs(cost) <= 1e300
    ):
        raise BrokenLog("_label_cost", i, f"must be a number; got {cost!r:.60}")
    return 0.0 - cost


def _odds(
    event: Mapping[str, Any],
    order: Sequence[int],
    drawn: int,
    i: int,
    open_to: Ints,
    arms: int,
) -> dict[str, float | Array | None]:
    """Propensities from `p`, else the drawn arm's from `_label_probability`."""
    own, p = event.get("_label_probability"), event.get("p")
    if p is None:
        return {"propensity": own}
    if not isinstance(p, list) or len(p) != len(order):
        raise BrokenLog(
            "p",
            i,
            f"must have {len(order)} odds like a; got "
            f"{len(p) if isinstance(p, list) else p!r:.60}",
        )
    for one, key in [
        *((one, "p") for one in p),
        *([] if own is None else [(own, "_label_probability")]),
    ]:
        if not isinstance(one, float | int) or not 0 <= one <= 1 + _ROUNDED:
            raise BrokenLog(key, i, f"must be numbers from 0 to 1; got {one!r:.60}")
    odds = np.zeros(arms)
    odds[open_to[np.array(order) - 1]] = p
    if not abs(odds.sum() - 1) <= _ROUNDED:
        raise BrokenLog("p", i, f"must sum to 1; got {odds.sum():.6g}")
    if own is not None and not abs(odds[open_to[drawn - 1]] - own) <= _ROUNDED:
        raise BrokenLog(
            "_label_probability", i, f"must be the drawn action's entry of p; got {own}"
        )
    exact = abs(odds.sum() - 1) <= 1e-12
    return {"propensities": odds if exact else odds / odds.sum()}


def _pad(columns: dict[str, Any]) -> None:
    """Odds and masks of different numbers of arms to the largest; a mask that allows
    all arms is none."""
    width = max(len(mask) for mask in columns["eligible"])
    for name in () if "offered" in columns else BY_ARM:
        if name in columns and all(value is not None for value in columns[name]):
            columns[name] = [
                np.pad(value, (0, width - len(value))) for value in columns[name]
            ]
    if all(np.all(mask) for mask in columns["eligible"]):
        del columns["eligible"]
    if "log_weights" in columns:
        n = next(len(one) for one in columns["log_weights"] if one is not None)
        columns["log_weights"] = [
            [None] * n if one is None else one for one in columns["log_weights"]
        ]


def _events(log: Log, first: int) -> Iterator[dict[str, object]]:
    everywhere = log.arms or [str(arm) for arm in range(log.n_arms)]
    propensities = np.asarray(log.propensities)
    contexts = None if log.context is None else rows_of(log.context)
    for i, (arm, reward) in enumerate(
        zip(log.arm.tolist(), log.reward.tolist(), strict=True)
    ):
        names = everywhere if log.offered is None else log.offered[i]
        mask = (
            np.ones(len(names), np.bool_)
            if log.eligible is None
            else log.eligible[i][: len(names)]
        )
        open_to = np.flatnonzero(mask)
        order = np.argsort(open_to != arm, kind="stable")  # the drawn arm first
        odds = propensities[i][open_to][order].tolist()
        context, features = (
            None if contexts is None else contexts[i],
            None if log.features is None else log.features[i],
        )
        shown = _shown(context, open_to, names, features)
        drawn = int(order[0]) + 1
        event: dict[str, object] = (
            {}
            if np.isnan(reward)
            else {"_label_cost": -reward, "_label_probability": odds[0]}
        )
        event |= {"_label_Action": drawn, "_labelIndex": drawn - 1}
        event |= {
            "EventId": str(first + i) if log.decision_id is None else log.decision_id[i]
        }
        if log.time is not None:
            event["Timestamp"] = (
                f"{log.time[i]}Z" if log.time.dtype.kind == "M" else str(log.time[i])
            )
        own = {
            name: _listed(column[i])
            for name in _OWN
            if (column := getattr(log, name)) is not None
        }
        for name in _NAMES:
            names_of_columns = getattr(log, name)
            if names_of_columns is not None and first + i == 0:
                own[name] = list(names_of_columns)
        own |= {} if log.eligible is None else {"eligible": mask.tolist()}
        own |= {} if log.offered is None else {"offered": list(names)}
        own |= {} if features is None else {"features": encode(dict(features))}
        own |= (
            {} if context is None or shown is context else {"context": encode(context)}
        )
        yield event | {
            "Version": "1",
            "a": (order + 1).tolist(),
            "c": shown,
            "p": odds,
            "oddsmith": own,
        }


def _listed(value: Any) -> object:
    return (
        encode_floats(value)
        if isinstance(value, np.ndarray)
        else value.item()
        if hasattr(value, "item")
        else value
    )


def _shown(
    context: Context, open_to: Ints, names: Sequence[str], features: Features
) -> Mapping[str, object]:
    """The context as Vowpal Wabbit's features: shared ones in the namespace `x`, and
    each arm's name and features."""
    if isinstance(context, dict) and len(context.get("_multi", ())) == len(open_to):
        return context
    actions: list[dict[str, object]] = [
        {"_tag": names[arm], "arm": {names[arm]: 1}} for arm in open_to
    ]
    for action, arm in zip(actions, open_to, strict=True):
        if features is not None and features.get(names[arm]) is not None:
            action["f"] = _plain(features[names[arm]])
    if (
        isinstance(context, np.ndarray)
        and context.ndim == 2
        and len(names) in context.shape
    ):
        of_arms = context if len(context) == len(names) else context.T
        for action, arm in zip(actions, open_to, strict=True):
            action["x"] = of_arms[arm].tolist()
        return {"_multi": actions}
    if isinstance(context, np.ndarray) and context.dtype.kind in "fiub":
        return {"x": context.ravel().tolist(), "_multi": actions}
    if isinstance(context, dict):
        return {"x": _plain(context), "_multi": actions}
    return (
        {"_multi": actions}
        if context is None
        else {"x": {"context": str(context)}, "_multi": actions}
    )


def _plain(features: Any) -> object:
    """The words and numbers of features, as Vowpal Wabbit reads them: what is missing
    or infinite is left out."""
    named = (
        features
        if isinstance(features, Mapping)
        else dict(enumerate(np.ravel(features).tolist()))
    )
    return {
        str(k): v
        for k, v in named.items()
        if isinstance(v, str | int) or (isinstance(v, float) and isfinite(v))
    }
