"""Odds, Decision and `draw`: the only place where an arm is picked."""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from oddsmith.core import kernels
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
    "State",
    "Step",
    "aligned",
    "check_rewards",
    "draw",
    "pick",
]

Context: TypeAlias = Any
"""Whatever the experts accept: policies never look at it."""
State: TypeAlias = Any
"""A NamedTuple tree of arrays and ints, made by `init`; a policy's has a field
`learnt`, the number of rewards."""

LEAST_PROPENSITY = 1e-12
"""The least propensity of a drawn arm that any input may state.

Estimates divide by it and by its square: 1e12 and 1e24 are exact enough in float64,
where 1e-160 squared is 0. A generator with 53 bits draws such an arm once in 10^12
decisions, so a smaller number is a mistake of the sender.
"""

Step: TypeAlias = int | Ints | None
"""The number of a decision, from 1 on; one for each row of a batch; None where it is
not counted."""


class Odds(NamedTuple):
    """A policy's distribution over arms, and what it wants back with the reward.

    `propensities` (…, K) sum to 1; `advice` (…, N, K) is what each expert predicts of
    each arm; `bonus` (…, N) is one arm-free number per expert; `log_weights` (…, N) are
    those the odds were made with, present when an expert slept.
    """

    propensities: Array
    advice: Array | None = None
    bonus: Array | None = None
    log_weights: Array | None = None


class Decision(NamedTuple):
    """All that learning needs: what was decided, with which odds, and what the experts
    predicted of the drawn arm.

    `advice` (…, N) is the drawn column; NaN in it marks a sleeper. `index` is the arm's
    number where `arm` is a name. Where arms came with the call, `arms` are the names
    offered, and `features` what was known of all of them, or of the drawn one, by name.
    `advisers` are the experts and versions whose advice it is, where an agent made it.
    Leading axes are batch axes. A decision goes through JSON and comes back equal, to
    the last bit; two decisions are equal when their JSON is.

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

    @property
    def question(self) -> Any:
        """What the policy was asked: the offer, or the context where arms did not come
        with the call."""
        if self.arms is None:
            return self.context
        if self.propensities.ndim == 1:
            return Offer(self.context, self.arms, self.features)
        none = [None] * len(self.arms)
        contexts, features = (
            none if self.context is None else rows(self.context),
            self.features or none,
        )
        return OfferBatch(tuple(map(Offer, contexts, self.arms, features)))

    @property
    def number(self) -> Any:
        """The drawn arm as a number (…), whether or not arms have names."""
        return self.arm if self.index is None else self.index

    @property
    def propensity(self) -> Any:
        """The probability with which the drawn arm was drawn (…)."""
        if self.propensities.ndim == 1:
            return float(self.propensities[self.number])
        return np.take_along_axis(
            self.propensities, np.asarray(self.number)[..., None], axis=-1
        )[..., 0]

    def numbered(self) -> "Decision":
        """The same decision with the arm as a number, as policies know it."""
        return self if self.index is None else self._replace(arm=self.index, index=None)

    def to_json(self) -> str:
        """Strict JSON, exact: `from_json` gives the same decision to the last bit."""
        fields = {
            name: value
            for name, value in zip(self._fields, self, strict=True)
            if value is not None
        }
        try:
            written = {
                name: _WRITE.get(name, _listed)(value) for name, value in fields.items()
            }
        except RecursionError as error:
            raise InvalidInput(
                "context must not be nested so deep that JSON cannot hold it"
            ) from error
        return json.dumps(written, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> "Decision":
        """The decision that `to_json` wrote."""
        try:
            fields = json.loads(text)
            if not isinstance(fields, dict) or not {"arm", "propensities"} <= set(
                fields
            ):
                raise ValueError("it has no arm or no propensities")
            read: Any = {
                name: _READ.get(name, _unlisted)(value)
                for name, value in fields.items()
            }
            decision = cls(**dict.fromkeys(("step", "context", "eligible")) | read)
            arms = np.asarray(decision.number)
            if (
                arms.dtype.kind not in "iu"
                or (arms < 0).any()
                or (arms >= decision.propensities.shape[-1]).any()
            ):
                raise ValueError(
                    f"its arm is {decision.number!r} of "
                    f"{decision.propensities.shape[-1]}"
                )
            return decision
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise InvalidInput(
                f"decision must be the JSON of a Decision; {error}"
            ) from error

    @classmethod
    def stacked(cls, decisions: Iterable["Decision"]) -> "Decision":
        """One decision with a new leading axis from decisions of equal shapes; arm sets
        may differ, they are padded."""
        rows = list(decisions)
        if not rows:
            raise InvalidInput("decisions must not be empty; got 0 of them")
        if wrong := [row for row in rows if not isinstance(row, Decision)]:
            raise InvalidInput(
                "decisions must be what decide gave back; got "
                f"{type(wrong[0]).__name__}"
            )
        columns: Any = aligned(
            [dict(zip(cls._fields, row, strict=True)) for row in rows]
        )
        blank = {
            "step": None,
            "context": None,
            "eligible": None,
            "arm": None,
            "propensities": None,
        }
        return cls(
            **blank | {name: _stacked(name, values) for name, values in columns.items()}
        )

    def rows(self) -> "list[Decision]":
        """The decisions along the first axis, one by one (the way back from
        `stacked`)."""
        context = None if self.context is None else rows(self.context)
        columns: Any = (
            _listed(self.step),
            context,
            self.eligible,
            _listed(self.arm),
            *self[4:8],
            _listed(self.index),
        )
        columns += self[9:11]
        each = (
            [None if c is None else c[t] for c in columns]
            for t in range(len(self.propensities))
        )
        return [Decision._make([*row, self.advisers]) for row in each]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Decision) and self.to_json() == other.to_json()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __repr__(self) -> str:
        if self.propensities.ndim == 1:
            return (
                f"Decision(arm={self.arm!r}, propensity={self.propensity:.4g}, "
                f"step={self.step})"
            )
        return (
            f"Decision(of shape {self.propensities.shape[:-1]} over "
            f"{self.propensities.shape[-1]} arms)"
        )


def pick(propensities: Array, uniform: Real) -> Any:
    """The arm (…) drawn by a uniform number in [0, 1): the first whose cumulative odds
    exceed uniform · total.

    An arm with odds 0 is never picked.

    >>> pick(np.array([0.2, 0.0, 0.8]), 0.2)
    2
    """
    if propensities.ndim == 1 and isinstance(uniform, float):
        compiled = kernels.compiled()
        if compiled is not None:
            return compiled.pick(propensities, uniform)
        sums = list(accumulate(propensities.tolist()))
        return min(bisect_right(sums, uniform * sums[-1]), bisect_left(sums, sums[-1]))
    cumulative = np.add.accumulate(propensities, axis=-1)
    total = cumulative[..., -1:]
    beyond = cumulative > np.asarray(uniform)[..., None] * total
    beyond |= cumulative == total  # a uniform of exactly 1 means the last arm with odds
    arms = beyond.argmax(axis=-1)
    return int(arms) if arms.ndim == 0 else arms


def draw(
    odds: Odds,
    context: Context,
    uniform: Real,
    *,
    eligible: Bools | None = None,
    step: Step = None,
) -> Decision:
    """The decision that `uniform` draws from `odds`: pure, and the only function that
    picks an arm."""
    arm = pick(odds.propensities, uniform)
    if isinstance(arm, int):
        # the column is copied: a view would keep all arms alive
        advice = None if odds.advice is None else odds.advice[:, arm].astype(np.float64)
        return Decision(
            step,
            context,
            eligible,
            arm,
            odds.propensities,
            advice,
            odds.bonus,
            odds.log_weights,
        )
    shape = arm.shape
    eligible = (
        None
        if eligible is None
        else np.broadcast_to(eligible, shape + eligible.shape[-1:])
    )
    step = None if step is None else np.broadcast_to(step, shape)
    propensities, bonus, log_weights = (
        _spread(value, shape) for value in (odds.propensities, *odds[2:])
    )
    advice = _drawn_column(odds.advice, arm)
    return Decision(
        step, context, eligible, arm, propensities, advice, bonus, log_weights
    )


def check_rewards(decision: Decision, reward: object) -> Real:
    """A float for one decision, an array for decisions with batch axes; all in [0,
    1]."""
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
    inside = (rewards >= 0) & (rewards <= 1)
    if not inside.all():
        worst = np.atleast_1d(rewards)[~np.atleast_1d(inside)][0]
        raise InvalidInput(
            f"reward must be in [0, 1] (RewardScale maps other units); got {worst}"
        )
    return rewards if rewards.ndim else float(rewards)


def aligned(parts: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The parts' columns by name, each a list with one entry per part, or absent where
    no part has it.

    Different numbers of arms are padded: odds with 0, eligible arms with False. Where
    some parts have masks, all get one. `log_weights` are absent where no expert slept,
    and then never read: NaN stands for them. Any other column must be in all parts or
    in none.

    >>> parts = [
    ...     {"propensities": np.array([1.0])},
    ...     {"propensities": np.array([0.5, 0.5])},
    ... ]
    >>> aligned(parts)["eligible"]
    [array([ True, False]), array([ True,  True])]
    """
    columns = {
        name: [part.get(name) for part in parts]
        for name in dict.fromkeys(name for part in parts for name in part)
    }
    odds = columns.get("propensities", [None])
    widths = {value.shape[-1] for value in odds if value is not None}
    masks = columns.setdefault("eligible", [None] * len(parts))
    if len(widths) > 1 or (
        any(m is None for m in masks) and any(m is not None for m in masks)
    ):
        columns["eligible"] = [
            _mask(mask, value) for mask, value in zip(masks, odds, strict=True)
        ]
    if len(widths) > 1:
        for name in ("eligible", "propensities"):
            columns[name] = [_padded(value, max(widths)) for value in columns[name]]
    weights, advice = columns.get("log_weights", []), columns.get("advice", [None])
    if any(one is not None for one in weights) and all(
        one is not None for one in advice
    ):
        pairs = zip(weights, advice, strict=True)
        columns["log_weights"] = [
            np.full_like(a, np.nan) if w is None else w for w, a in pairs
        ]
    for name, values in columns.items():
        if name not in _BROUGHT and len({value is None for value in values}) > 1:
            raise InvalidInput(
                f"decisions must all have {name}, or none of them; got a mixture"
            )
    kept = {
        name
        for name, values in columns.items()
        if any(value is not None for value in values)
    }
    return {
        name: values
        for name, values in columns.items()
        if name in kept or name == "context"
    }


def _mask(mask: Bools | None, propensities: Array | None) -> Bools:
    if propensities is None:
        raise InvalidInput(
            "decisions must have propensities where only some have eligible arms; got "
            "none"
        )
    return np.broadcast_to(True if mask is None else mask, propensities.shape).copy()


def _padded(value: Array | None, width: int) -> Array | None:
    return (
        None
        if value is None
        else np.pad(value, [(0, 0)] * (value.ndim - 1) + [(0, width - value.shape[-1])])
    )


def _listed(value: Any) -> Any:
    """A number or name, or an array of them as a list."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _unlisted(value: Any) -> Any:
    return np.array(value) if isinstance(value, list) else value


_FLOATS = ("propensities", "advice", "bonus", "log_weights")
_BROUGHT = ("context", "features")
_WRITE: dict[str, Callable[[Any], Any]] = {
    **(dict.fromkeys(_BROUGHT, encode) | dict.fromkeys(_FLOATS, encode_floats))
}
_READ: dict[str, Callable[[Any], Any]] = {
    **(dict.fromkeys(_BROUGHT, decode) | dict.fromkeys(_FLOATS, decode_floats)),
    "arms": lambda names: (
        tuple(names) if isinstance(names[0], str) else [tuple(row) for row in names]
    ),
    "advisers": tuple,
}


def _drawn_column(advice: Array | None, arm: Ints) -> Array | None:
    """advice[…, :, arm[…]] as (…, N)."""
    if advice is None:
        return None
    advice = np.broadcast_to(advice, arm.shape + advice.shape[-2:])
    return np.take_along_axis(advice, arm[..., None, None], axis=-1)[..., 0].astype(
        np.float64
    )


def _spread(value: Any, shape: tuple[int, ...]) -> Any:
    """An array (…, n) with the batch axes `shape`."""
    return None if value is None else np.broadcast_to(value, shape + value.shape[-1:])


def _stacked(name: str, values: list[Any]) -> Any:
    if name in ("context", "arms", "features"):
        return values
    if name == "advisers":
        if len(set(values)) > 1:
            raise InvalidInput(
                "decisions must have the same experts, in the same versions; got "
                "several: learn a list"
            )
        return values[0]
    try:
        return np.stack([np.asarray(value) for value in values])
    except ValueError as error:
        raise InvalidInput(
            f"decisions must agree in the shape of {name}; {error}"
        ) from error
