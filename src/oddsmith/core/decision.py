"""Odds and Decision: a policy's propensities, and the record that learning needs for a
drawn arm."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from oddsmith.core.arrays import Array, Bools, Ints, Real
from oddsmith.core.contexts import rows
from oddsmith.core.errors import InvalidInput
from oddsmith.core.exact_json import decode, decode_floats, encode, encode_floats
from oddsmith.core.offer import Offer, OfferBatch

__all__ = [
    "Context",
    "Decision",
    "LEAST_PROPENSITY",
    "Odds",
    "PAUSED",
    "State",
    "Step",
    "align_columns",
    "check_rewards",
]

Context: TypeAlias = Any
"""A context is any type that the experts accept. Policies pass it through unchanged."""
State: TypeAlias = Any
"""The state of a policy or bank, made by `init`: a tree of NamedTuples with arrays and
ints. That of a policy has a field `learnt`, the number of rewards."""

LEAST_PROPENSITY = 1e-12
"""The smallest propensity of a drawn arm that inputs may contain.

Estimates divide by it and by its square. float64 represents 1e12 and 1e24 well, but the
square of 1e-160 is 0. A generator with 53 bits draws such an arm once in 10^12
decisions, so a smaller number is a mistake in the input.
"""

PAUSED = "paused"
"""The group of decisions that the control made because the experiment was paused: they
are no part of its results, and nothing is learnt from them."""

Step: TypeAlias = int | Ints | None
"""The number of a decision, from 1 on (one per row of a batch), or None if decisions
are not counted."""


class Odds(NamedTuple):
    """A policy's distribution over arms, and the values that its update needs later.

    `propensities` (…, K) sum to 1. `advice` (…, N, K) contains each expert's prediction
    for each arm, `bonus` (…, N) one number per expert that does not depend on the arm,
    and `log_weights` (…, N) the weights behind the propensities, present only if an
    expert made no prediction.
    """

    propensities: Array
    advice: Array | None = None
    bonus: Array | None = None
    log_weights: Array | None = None


class Decision(NamedTuple):
    """Record of a decision for learning: the arm, the propensities and the experts'
    predictions for the drawn arm.

    `advice` (…, N) is the column of the drawn arm; NaN marks an expert without a
    prediction. `index` is the arm's number if `arm` is a name. If arms were passed in
    the call, `arms` are the offered names, and `features` the known features by name,
    of all arms or of the drawn one. `advisers` are the experts, with versions, that
    made the predictions, if an agent recorded the decision.

    An experiment with a control adds the `control`'s propensities (…, K), the share of
    the `holdout`, and, if assigned by unit, the `unit` and its `group` ("policy" or
    "control").

    Leading axes are batch axes. A decision can be converted to JSON and back without
    changing a bit. Two decisions are equal if their JSON is equal.

    >>> from oddsmith.core.draw import draw
    >>> odds = Odds(np.array([0.25, 0.75]), advice=np.array([[0.1, 0.9], [0.4, 0.2]]))
    >>> draw(odds, "home page", 0.5, step=7)
    Decision(arm=1, propensity=0.75, step=7)
    """

    step: Any
    context: Context
    eligible: Bools | None
    arm: Any
    propensities: Array
    advice: Array | None = None
    bonus: Array | None = None
    log_weights: Array | None = None
    index: Any = None
    arms: Any = None
    features: Any = None
    advisers: tuple[str, ...] | None = None
    control: Array | None = None
    holdout: Any = None
    group: Any = None
    unit: Any = None

    @property
    def question(self) -> Any:
        """Return the input of the policy: the offer if the call had arms, else the
        context."""
        if self.arms is None:
            return self.context
        if self.propensities.ndim == 1:
            return Offer(self.context, self.arms, self.features)
        none = [None] * len(self.arms)
        contexts: Sequence[Any] = none
        if self.context is not None:
            contexts = rows(self.context)
        features = self.features or none
        return OfferBatch(tuple(map(Offer, contexts, self.arms, features)))

    @property
    def number(self) -> Any:
        """Return the number of the drawn arm (…), also if arms have names."""
        if self.index is None:
            return self.arm
        return self.index

    @property
    def propensity(self) -> Any:
        """Return the propensity of the drawn arm (…)."""
        if self.propensities.ndim == 1:
            return float(self.propensities[self.number])
        arm = np.asarray(self.number)[..., None]
        drawn = np.take_along_axis(self.propensities, arm, axis=-1)
        return drawn[..., 0]

    def by_number(self) -> "Decision":
        """Return the decision with the arm as a number, as policies expect."""
        if self.index is None:
            return self
        return self._replace(arm=self.index, index=None)

    def to_json(self) -> str:
        """Return strict JSON from which `from_json` restores the decision to the last
        bit."""
        try:
            fields = {
                name: _WRITE.get(name, _to_list)(value)
                for name, value in self._asdict().items()
                if value is not None
            }
        except RecursionError as error:
            raise InvalidInput(
                "context must not be nested too deeply for JSON"
            ) from error
        return json.dumps(fields, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> "Decision":
        """Read the decision that `to_json` wrote."""
        try:
            fields = json.loads(text)
            if not isinstance(fields, dict) or not _REQUIRED.issubset(fields):
                raise ValueError("it has no arm or no propensities")
            values: Any = dict.fromkeys(_FIRST_FIELDS)
            for name, value in fields.items():
                values[name] = _READ.get(name, _to_array)(value)
            decision = cls(**values)
            arms = np.asarray(decision.number)
            n_arms = decision.propensities.shape[-1]
            is_number = arms.dtype.kind in "iu"
            if not is_number or (arms < 0).any() or (arms >= n_arms).any():
                raise ValueError(f"its arm is {decision.number!r} of {n_arms}")
            return decision
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise InvalidInput(
                f"decision must be the JSON of a Decision; {error}"
            ) from error

    @classmethod
    def stack(cls, decisions: Iterable["Decision"]) -> "Decision":
        """Stack decisions of equal shapes along a new leading axis. Shorter arm sets
        are padded."""
        rows = list(decisions)
        if not rows:
            raise InvalidInput("decisions must not be empty; got 0 of them")
        for row in rows:
            if not isinstance(row, Decision):
                raise InvalidInput(
                    f"decisions must be results of decide; got {type(row).__name__}"
                )
        values: Any = dict.fromkeys(_FIRST_FIELDS)
        columns = align_columns([row._asdict() for row in rows])
        for name, column in columns.items():
            values[name] = _stack_column(name, column)
        return cls(**values)

    def rows(self) -> "list[Decision]":
        """Split the decision along the first axis, the inverse of `stack`."""
        n = len(self.propensities)
        advisers: Any = None
        if self.advisers is not None:
            advisers = [self.advisers] * n
        context = None
        if self.context is not None:
            context = rows(self.context)
        columns = self._replace(
            step=_to_list(self.step),
            context=context,
            arm=_to_list(self.arm),
            index=_to_list(self.index),
            advisers=advisers,
            holdout=_to_list(self.holdout),
            group=_to_list(self.group),
            unit=_to_list(self.unit),
        )
        decisions = []
        for row in range(n):
            values = [None if column is None else column[row] for column in columns]
            decisions.append(Decision._make(values))
        return decisions

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Decision) and self.to_json() == other.to_json()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __repr__(self) -> str:
        shape = self.propensities.shape
        if len(shape) > 1:
            return f"Decision(of shape {shape[:-1]} over {shape[-1]} arms)"
        return (
            f"Decision(arm={self.arm!r}, propensity={self.propensity:.4g}, "
            f"step={self.step})"
        )


def check_rewards(decision: Decision, reward: object) -> Real:
    """Return rewards in [0, 1] as a float for one decision, or an array for a batch."""
    shape = decision.propensities.shape[:-1]
    if isinstance(reward, float | int) and not shape and 0 <= reward <= 1:
        return float(reward)
    try:
        if isinstance(reward, str | bytes):
            raise TypeError("it is text")
        rewards = np.asarray(reward, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"reward must be a number in [0, 1]; got {reward!r:.60}"
        ) from error
    if rewards.shape != shape:
        raise InvalidInput(
            f"rewards must match the decisions one to one, shape {shape}; got "
            f"{rewards.shape}"
        )
    is_inside = (rewards >= 0) & (rewards <= 1)
    if not is_inside.all():
        first = rewards[~is_inside].flat[0]
        raise InvalidInput(
            f"reward must be in [0, 1] (RewardScale maps other units); got {first}"
        )
    if rewards.ndim:
        return rewards
    return float(rewards)


def align_columns(parts: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Collect the columns of the parts by name, one list entry per part. Omit columns
    that no part has.

    Different numbers of arms are padded: propensities with 0, eligible arms with False.
    If some parts have masks, all get one. `log_weights` are missing in parts in which
    every expert made a prediction; NaN takes their place and is never read. Fields of
    an experiment are omitted if some parts lack them. Any other column must be in all
    parts or in none.

    >>> parts = [
    ...     {"propensities": np.array([1.0])},
    ...     {"propensities": np.array([0.5, 0.5])},
    ... ]
    >>> align_columns(parts)["eligible"]
    [array([ True, False]), array([ True,  True])]
    """
    columns: dict[str, list[Any]] = {}
    for part in parts:
        for name in part:
            columns[name] = []
    for name in columns:
        columns[name] = [part.get(name) for part in parts]
    _align_arms(columns, len(parts))
    _fill_log_weights(columns)
    aligned = {}
    for name, values in columns.items():
        n_missing = sum(value is None for value in values)
        is_mixed = 0 < n_missing < len(values)
        if is_mixed and name in _OF_THE_EXPERIMENT:
            continue  # skip fields that learning does not need
        if is_mixed and name not in _OF_THE_CALLER:
            raise InvalidInput(
                f"decisions must all have {name}, or none of them; got a mixture"
            )
        if n_missing < len(values) or name == "context":
            aligned[name] = values
    return aligned


def _align_arms(columns: dict[str, list[Any]], n_parts: int) -> None:
    """Pad propensities to the same number of arms, and add masks for the padding."""
    missing = [None] * n_parts
    odds = columns.get("propensities", missing)
    masks = columns.setdefault("eligible", missing)
    widths = {value.shape[-1] for value in odds if value is not None}
    has_mask = {mask is not None for mask in masks}
    if len(widths) <= 1 and len(has_mask) <= 1:
        return
    pairs = zip(masks, odds, strict=True)
    columns["eligible"] = [_mask(mask, value) for mask, value in pairs]
    if len(widths) > 1:
        for name in ("eligible", "propensities", "control"):
            values = columns.get(name, missing)
            columns[name] = [
                None if value is None else _pad_arms(value, max(widths))
                for value in values
            ]


def _fill_log_weights(columns: dict[str, list[Any]]) -> None:
    """Fill missing log weights with NaN if all parts have advice."""
    log_weights = columns.get("log_weights", [])
    advice = columns.get("advice", [None])
    if all(values is None for values in log_weights):
        return
    if any(values is None for values in advice):
        return
    for place, values in enumerate(log_weights):
        if values is None:
            log_weights[place] = np.full_like(advice[place], np.nan)


def _mask(mask: Bools | None, propensities: Array | None) -> Bools:
    if propensities is None:
        raise InvalidInput(
            "decisions must have propensities if only some have eligible arms; got none"
        )
    if mask is None:
        return np.ones(propensities.shape, dtype=np.bool_)
    return np.broadcast_to(mask, propensities.shape).copy()


def _pad_arms(values: Array, n_arms: int) -> Array:
    """Pad values (…, K) with 0 for further arms."""
    more = n_arms - values.shape[-1]
    no_padding = [(0, 0)] * (values.ndim - 1)
    return np.pad(values, [*no_padding, (0, more)])


def _to_list(value: Any) -> Any:
    """Convert a number, a name or an array of them to a list."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return value


def _to_array(value: Any) -> Any:
    if isinstance(value, list):
        return np.array(value)
    return value


def _to_names(value: Any) -> Any:
    """Return the names of arms as a tuple, or one tuple per row of a batch."""
    if isinstance(value[0], str):
        return tuple(value)
    return [tuple(row) for row in value]


_FIRST_FIELDS = ("step", "context", "eligible", "arm", "propensities")
_REQUIRED = {"arm", "propensities"}
_OF_THE_CALLER = ("context", "features")
_OF_THE_EXPERIMENT = ("control", "holdout", "group", "unit")
_WRITE: dict[str, Callable[[Any], Any]] = {
    "context": encode,
    "features": encode,
    "propensities": encode_floats,
    "advice": encode_floats,
    "bonus": encode_floats,
    "log_weights": encode_floats,
    "control": encode_floats,
}
_READ: dict[str, Callable[[Any], Any]] = {
    "context": decode,
    "features": decode,
    "propensities": decode_floats,
    "advice": decode_floats,
    "bonus": decode_floats,
    "log_weights": decode_floats,
    "control": decode_floats,
    "arms": _to_names,
    "advisers": tuple,
}


def _stack_column(name: str, values: list[Any]) -> Any:
    """Stack a field of several decisions into one value for the batch."""
    if name in ("context", "arms", "features"):
        return values
    if name == "advisers":
        if len(set(values)) > 1:
            raise InvalidInput(
                "decisions must have the same experts, in the same versions; got "
                "several: call learn with a list of them"
            )
        return values[0]
    try:
        return np.stack([np.asarray(value) for value in values])
    except ValueError as error:
        raise InvalidInput(
            f"decisions must have the same shape of {name}; {error}"
        ) from error
