"""Odds, Decision, the Policy protocol, and `draw`: the only place where an arm is picked."""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from itertools import accumulate
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from oddsmith import kernels
from oddsmith.arrays import Array, Bools, Ints, Real
from oddsmith.encoding import decode, decode_floats, encode, encode_floats
from oddsmith.errors import InvalidInput

__all__ = ["Context", "Decision", "Odds", "Policy", "State", "Uniforms", "decide", "draw", "fold", "pick"]

Context: TypeAlias = Any
"""Whatever the experts accept: policies never look at it."""
State: TypeAlias = Any
"""A NamedTuple tree of arrays and ints, made by `init`."""


class Odds(NamedTuple):
    """A policy's distribution over arms, and what it wants back with the reward.

    `propensities` (…, K) sum to 1; `advice` (…, N, K) is what each expert said of each arm; `bonus` (…, N) is one
    arm-free number per expert; `weights` (…, N) are those the odds were made with, present when somebody slept.
    """

    propensities: Array
    advice: Array | None = None
    bonus: Array | None = None
    weights: Array | None = None


class Decision(NamedTuple):
    """All that learning needs: what was decided, with which odds, and what the experts had said of the drawn arm.

    `advice` (…, N) is the drawn column; NaN in it marks a sleeper. `index` is the arm's number where `arm` is a name.
    Leading axes are batch axes. A decision goes through JSON and comes back equal, to the last bit.

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
    weights: Array | None = None
    index: Any = None

    @property
    def number(self) -> Any:
        """The drawn arm as a number (…), whether or not arms have names."""
        return self.arm if self.index is None else self.index

    @property
    def propensity(self) -> Any:
        """The probability with which the drawn arm was drawn (…)."""
        if self.propensities.ndim == 1:
            return float(self.propensities[self.number])
        return np.take_along_axis(self.propensities, np.asarray(self.number)[..., None], axis=-1)[..., 0]

    def numbered(self) -> "Decision":
        """The same decision with the arm as a number, as policies know it."""
        return self if self.index is None else self._replace(arm=self.index, index=None)

    def to_json(self) -> str:
        """Strict JSON, exact: `from_json` gives the same decision to the last bit."""
        fields = {name: value for name, value in zip(self._fields, self, strict=True) if value is not None}
        return json.dumps({name: _WRITE.get(name, _listed)(value) for name, value in fields.items()}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> "Decision":
        """The decision that `to_json` wrote."""
        try:
            fields = json.loads(text)
            blank = {"step": None, "context": None, "eligible": None}
            read: Any = blank | {name: _READ.get(name, _unlisted)(value) for name, value in fields.items()}
            return cls(**read)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidInput(f"decision must be the JSON of a Decision; {error}") from error

    @classmethod
    def stacked(cls, decisions: Iterable["Decision"]) -> "Decision":
        """One decision with a new leading axis from decisions of equal shapes; arm sets may differ, they are padded."""
        rows = list(decisions)
        if not rows:
            raise InvalidInput("decisions must not be empty; got 0 of them")
        columns = dict(zip(cls._fields, zip(*rows, strict=True), strict=True))
        widths = {row.propensities.shape[-1] for row in rows}
        if len(widths) > 1 or (any(e is not None for e in columns["eligible"]) and None in columns["eligible"]):
            columns["eligible"] = tuple(_full_mask(row) for row in rows)
        if len(widths) > 1:
            for name in ("eligible", "propensities"):
                columns[name] = tuple(_padded(value, max(widths)) for value in columns[name])
        fields: Any = {name: _stack(name, values) for name, values in columns.items() if name != "context"}
        return cls(context=list(columns["context"]), **fields)

    def rows(self) -> "list[Decision]":
        """The decisions along the first axis, one by one (the way back from `stacked`)."""
        context = self.context.iloc if hasattr(self.context, "iloc") else self.context
        columns = (_listed(self.step), context, self.eligible, _listed(self.arm), *self[4:8], _listed(self.index))
        return [Decision._make(None if c is None else c[t] for c in columns) for t in range(len(self.propensities))]

    def __repr__(self) -> str:
        if self.propensities.ndim == 1:
            return f"Decision(arm={self.arm!r}, propensity={self.propensity:.4g}, step={self.step})"
        return f"Decision(of shape {self.propensities.shape[:-1]} over {self.propensities.shape[-1]} arms)"


class Policy(Protocol):
    """Three verbs, all without side effects except that `update` may write into a state that `moves`."""

    @property
    def moves(self) -> bool:
        """Whether `update` writes into the state it is given."""
        ...

    def init(self, shape: tuple[int, ...] = ()) -> State:
        """The state before any reward, with batch axes `shape`."""
        ...

    def odds(self, state: State, context: Context, *, eligible: Bools | None = None, step: Any = None) -> Odds:
        """The distribution over arms: deterministic."""
        ...

    def update(self, state: State, decision: Decision, reward: Real) -> State:
        """The state after one reward (per batch row)."""
        ...


def pick(propensities: Array, uniform: Real) -> Any:
    """The arm (…) drawn by a uniform number in [0, 1): the first whose cumulative odds exceed uniform · total.

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
    beyond |= cumulative == total  # uniform · total may round up to the total: the last arm with odds is meant
    arms = beyond.argmax(axis=-1)
    return int(arms) if arms.ndim == 0 else arms


def draw(odds: Odds, context: Context, uniform: Real, *, eligible: Bools | None = None, step: Any = None) -> Decision:
    """The decision that `uniform` draws from `odds`: pure, and the only function that picks an arm."""
    arm = pick(odds.propensities, uniform)
    if isinstance(arm, int):
        # the column is copied: a view would keep all arms alive
        advice = None if odds.advice is None else odds.advice[:, arm].astype(np.float64)
        return Decision(step, context, eligible, arm, odds.propensities, advice, odds.bonus, odds.weights)
    propensities = np.broadcast_to(odds.propensities, (*arm.shape, odds.propensities.shape[-1]))
    return Decision(
        step, context, eligible, arm, propensities, _drawn_column(odds.advice, arm), *map(_spread(arm), odds[2:])
    )


def decide(
    policy: Policy, state: State, context: Context, uniform: Real, *, eligible: Bools | None = None, step: Any = None
) -> Decision:
    """`odds`, then `draw`."""
    odds = policy.odds(state, context, eligible=eligible, step=step)
    return draw(odds, context, uniform, eligible=eligible, step=step)


def fold(policy: Policy, state: State, decisions: Decision | Sequence[Decision], rewards: Any) -> State:
    """The state after all these decisions and rewards, in order.

    `decisions` is a sequence, or one decision with a leading axis (`Decision.stacked`). A policy whose posterior does
    not depend on order may have a `fold` of its own that adds up first; else this is `update`, one event at a time.
    """
    n = len(decisions.propensities) if isinstance(decisions, Decision) else len(decisions)
    if n != len(rewards):
        raise InvalidInput(f"rewards must match the decisions one to one; got {len(rewards)} for {n} decisions")
    if n == 0:
        return state
    own = getattr(policy, "fold", None)
    if own is not None:
        return own(state, decisions if isinstance(decisions, Decision) else Decision.stacked(decisions), rewards)
    rows = decisions.rows() if isinstance(decisions, Decision) else decisions
    for decision, reward in zip(rows, rewards, strict=True):
        state = policy.update(state, decision, reward)
    return state


class Uniforms:
    """Uniform numbers in [0, 1) from (seed, decision id) by one keyed hash, so that any draw can be re-derived.

    >>> Uniforms(7)(1) == Uniforms(7)(1) != Uniforms(8)(1)
    True
    """

    def __init__(self, seed: int) -> None:
        key = str(seed).encode()
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or len(key) > 64:
            raise InvalidInput(f"seed must be an integer of at most 64 digits; got {seed!r}")
        self._keyed = blake2b(digest_size=8, key=key).copy

    def __call__(self, decision_id: int | str) -> float:
        """53 random bits as a number in [0, 1)."""
        hashed = self._keyed()
        hashed.update(b"%d" % decision_id if isinstance(decision_id, int) else decision_id.encode())
        return (int.from_bytes(hashed.digest(), "little") >> 11) * 2.0**-53


def _listed(value: Any) -> Any:
    """A number or name, or an array of them as a list."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _unlisted(value: Any) -> Any:
    return np.array(value) if isinstance(value, list) else value


_FLOATS = ("propensities", "advice", "bonus", "weights")
_WRITE: dict[str, Callable[[Any], Any]] = {"context": encode, **dict.fromkeys(_FLOATS, encode_floats)}
_READ: dict[str, Callable[[Any], Any]] = {"context": decode, **dict.fromkeys(_FLOATS, decode_floats)}


def _drawn_column(advice: Array | None, arm: Ints) -> Array | None:
    """advice[…, :, arm[…]] as (…, N)."""
    if advice is None:
        return None
    advice = np.broadcast_to(advice, arm.shape + advice.shape[-2:])
    return np.take_along_axis(advice, arm[..., None, None], axis=-1)[..., 0].astype(np.float64)


def _spread(arm: Ints) -> Any:
    """A function that gives (…, N) arrays the batch axes of `arm`."""
    return lambda value: None if value is None else np.broadcast_to(value, arm.shape + value.shape[-1:])


def _full_mask(decision: Decision) -> Bools:
    n_arms = decision.propensities.shape[-1]
    return np.ones(n_arms, dtype=np.bool_) if decision.eligible is None else np.asarray(decision.eligible)


def _padded(value: Any, width: int) -> Any:
    return np.pad(value, [(0, 0)] * (value.ndim - 1) + [(0, width - value.shape[-1])])


def _stack(name: str, values: tuple[Any, ...]) -> Any:
    if all(value is None for value in values):
        return None
    if any(value is None for value in values):
        values = _filled(name, values)
    try:
        return np.stack([np.asarray(value) for value in values])
    except ValueError as error:
        raise InvalidInput(f"decisions must agree in the shape of {name}; {error}") from error


def _filled(name: str, values: tuple[Any, ...]) -> tuple[Any, ...]:
    """`weights` are absent where nobody slept, and then never read: NaN stands for them."""
    if name != "weights":
        raise InvalidInput(f"decisions must all have {name}, or none of them; got a mixture")
    shape = next(value.shape for value in values if value is not None)
    return tuple(np.full(shape, np.nan) if value is None else value for value in values)
