"""Request bodies as JSON: contexts, arms and entries of batches."""

import json
from collections.abc import Mapping
from datetime import date, time, timedelta

import numpy as np

from oddsmith.agent.slate import Slot
from oddsmith.contexts.offers import make_offer
from oddsmith.core.contexts import is_table, one, plain, short_repr, simple
from oddsmith.core.errors import InvalidInput

__all__ = [
    "context_json",
    "encode_body",
    "entry_of",
    "offered_json",
    "reward_entry",
    "slots_json",
    "without_none",
]

_USUAL = frozenset((str, int, bool, type(None)))


def without_none(fields: Mapping[str, object]) -> dict[str, object]:
    """Return the fields that are not None; only a context may be null."""
    return {
        name: value
        for name, value in fields.items()
        if value is not None or name == "context"
    }


def offered_json(arms: object) -> object:
    """Convert the arms of a call to JSON: names with their features, or only names."""
    if arms is None:
        return None
    offer = make_offer(None, arms)
    features = offer.features
    if features is None:
        return list(offer.arms)
    return {arm: _features_json(arm, features[arm]) for arm in offer.arms}


def _features_json(arm: str, features: object) -> object:
    try:
        return context_json(features)
    except InvalidInput as error:
        raise InvalidInput(f"features of arm {arm!r:.60}: {error}") from error


def slots_json(slots: object) -> object:
    """Convert slots to JSON: their number, or a dict for each."""
    if isinstance(slots, list | tuple):
        return [_slot(slot) for slot in slots]
    return slots


def context_json(context: object) -> object:
    """Convert a context or an arm's features to JSON; missing values become None.

    >>> context_json({"age": float("nan"), "sizes": np.array([1.5, np.nan])})
    {'age': None, 'sizes': [1.5, None]}
    """
    if is_table(context):
        raise InvalidInput(
            f"context must be one dict, row or array; got {short_repr(context)}: give "
            "one of its rows"
        )
    try:
        return _values_json(one(context))
    except RecursionError as error:
        raise InvalidInput(
            "context must not contain itself, or endlessly nested dicts and lists"
        ) from error


def _values_json(value: object, name: str = "") -> object:
    """Convert a nested value; missing values become None. `name` is the innermost
    key."""
    if type(value) in _USUAL:
        return value
    if isinstance(value, Mapping):
        return {key: _values_json(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_values_json(inner, name) for inner in value]
    if isinstance(value, np.ndarray):
        return _values_json(value.tolist(), name)
    plain_value = simple(plain(value))
    if isinstance(plain_value, date | time | timedelta):
        what = f"{name!r:.60}" if name else "values"
        raise InvalidInput(
            f"{what} must be text, a number, True, False or None; got a "
            f"{type(value).__name__}: convert it to a number or a word, such as its "
            "hour or its age in days"
        )
    return plain_value


def _slot(slot: object) -> dict[str, object]:
    """Convert a `Slot`, or a dict with a slot's name and other fields such as its
    incumbent."""
    if isinstance(slot, Slot):
        slot = {"name": slot.name, "features": slot.features, "eligible": slot.eligible}
    if not isinstance(slot, Mapping):
        raise InvalidInput(
            "slots must be a whole number, or a list of Slot(name) or dicts; got "
            f"{short_repr(slot)} in it"
        )
    fields = {str(name): _values_json(one(value)) for name, value in slot.items()}
    return {name: value for name, value in fields.items() if value is not None}


def entry_of(what: str, entry: object, *needed: str) -> dict[str, object]:
    """Return an entry of a batch without fields that are None."""
    if not isinstance(entry, Mapping) or not set(needed) <= set(entry):
        names = " and ".join(needed)
        raise InvalidInput(f"{what} must be dicts with {names}; got {entry!r:.60}")
    return without_none(entry)


def reward_entry(entry: object) -> dict[str, object]:
    """Return an entry of a batch of rewards, with the id of a decision, or with slate
    and slot."""
    outcome = "reward"
    if isinstance(entry, Mapping) and "reward" not in entry and "metrics" in entry:
        outcome = "metrics"
    if isinstance(entry, Mapping) and "slate" in entry:
        return entry_of("rewards", entry, "slate", "slot", outcome)
    return entry_of("rewards", entry, "id", outcome)


def encode_body(fields: Mapping[str, object]) -> bytes:
    """Encode the body as JSON; raise for numbers that are not finite."""
    try:
        text = json.dumps(
            fields, default=_plain, allow_nan=False, separators=(",", ":")
        )
        return text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"the request must be JSON with finite numbers; {error}"
        ) from error


def _plain(value: object) -> object:
    """Convert arrays to lists and numpy numbers to Python numbers."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"got {type(value).__name__}")
