"""Experts: a bank of N predictors of every arm's mean reward."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from oddsmith.core import kernels
from oddsmith.core.arrays import Array, Bools, Real
from oddsmith.core.decision import Context, Decision, State
from oddsmith.core.errors import ExpertFailed, InvalidInput
from oddsmith.core.offer import AnyOffer
from oddsmith.core.weights import greedy, vote

__all__ = [
    "AdviceAndOdds",
    "Experts",
    "arms_needed",
    "as_floats",
    "as_predictions",
    "check_bank",
    "checked_predictions",
    "failure_of",
    "no_infinity",
    "refuse_offer",
]

AdviceAndOdds: TypeAlias = tuple[Array, Array, bool]
"""Predictions (…, N, K), odds (…, K), and whether an expert lacks an opinion on an
eligible arm."""


class Experts:
    """N experts. The bodies here are those of fixed experts: name it as base, write
    `names` and `predict`.

    >>> class Coin(Experts):
    ...     names = ("fair", "loaded")
    ...     def predict(self, state, context):
    ...         return np.array([[0.5, 0.5], [0.2, 0.8]])
    >>> Coin().advise((), None)[1]
    array([[0.5, 0.5],
           [0. , 1. ]])
    """

    # declare properties for the type checker; at run time plain attributes, which
    # frozen dataclasses can override
    if TYPE_CHECKING:

        @property
        @abstractmethod
        def names(self) -> Sequence[str]:
            """One name for each of the N experts, all different."""

        @property
        def arms(self) -> Sequence[str] | None:
            """The names of the arms, where the bank knows them."""
            return None

        @property
        def learns(self) -> bool:
            """Whether `update` changes the state; it may then write into the state it
            is given."""
            return False

        @property
        def wraps(self) -> bool:
            """Whether it asks other banks, and learns what they learn."""
            return False

        @property
        def takes_offers(self) -> bool:
            """Whether it is asked with an `Offer` where arms come with the call;
            `predict` is then (…, N, K_t)."""
            return False

        @property
        def version(self) -> str | None:
            """The user's name for this training of the models, if there is one."""
            return None

        @property
        def unversioned(self) -> bool:
            """Whether some models inside are known by name and class only."""
            return False
    else:
        arms = version = None
        learns = wraps = unversioned = takes_offers = False

    def init(self, shape: tuple[int, ...] = ()) -> State:
        """The state before any reward; fixed experts have none."""
        return ()

    def predict(self, state: State, context: Context) -> Array:
        """f_i(x, a), mean rewards (…, N, K); NaN is "no opinion on this arm", a row of
        NaN an expert asleep."""
        raise InvalidInput(
            f"experts must have predict; {type(self).__name__} has none: write it"
        )

    def advise(
        self, state: State, context: Context, eligible: Bools | None = None
    ) -> tuple[Array, Array]:
        """Predictions and ballots, both (…, N, K): greedy on the predictions, ties
        share the vote."""
        predictions = self.predict(state, context)
        checked = _as_known_type(predictions, len(self.names), eligible)
        return checked, greedy(checked, eligible)

    def advise_and_mix(
        self,
        state: State,
        context: Context,
        log_weights: Array,
        gamma: Real,
        eligible: Bools | None = None,
    ) -> AdviceAndOdds | None:
        """The same as `advise` and `weights.mix` in one compiled call, where there is
        one; else None.

        Override it only to be faster.
        """
        if kernels.compiled() is None or type(self).advise is not Experts.advise:
            return None
        predictions = self.predict(state, context)
        checked = checked_predictions(predictions, log_weights, eligible)
        odds, is_asleep = vote(log_weights, checked, gamma, eligible)
        return checked, odds, is_asleep

    def update(self, state: State, decision: Decision, reward: Real) -> State:
        """The state after one reward; whatever can raise must come before the first
        write."""
        return state

    def revise(
        self, state: State, decision: Decision, before: float, reward: float
    ) -> State:
        """The state after a reward that it has learnt turned from `before` into
        `reward`: here it learns once more."""
        return self.update(state, decision, reward)

    def begin_log(self, state: State) -> State:
        """The state before it learns a log of another policy; most banks make no
        difference."""
        return state

    def end_log(self, state: State) -> State:
        """The state after the last row of the log, before live rewards."""
        return state

    def follows_log(self, state: State) -> Bools:
        """Which experts (N,) vote with the logging policy where a log says little."""
        return np.zeros(len(self.names), dtype=np.bool_)

    def prediction_bounds(self, state: State) -> Array | None:
        """The least and the largest prediction (N, 2) that the bank clips each expert
        to, ±inf where there is no clip; None if it clips none."""
        return None

    def with_arms(self, state: State, arms: Sequence[str]) -> "tuple[Experts, State]":
        """This bank and its state with further arms, without data, behind the old
        ones."""
        raise InvalidInput(
            f"experts must be able to gain arms; {type(self).__name__} are made for "
            "the arms they have"
        )


def check_bank(what: str, experts: object) -> None:
    """Refuse what is not a bank of experts."""
    if not isinstance(experts, Experts):
        raise InvalidInput(
            f"{what} must be a bank of experts (name od.Experts as base); got "
            f"{type(experts).__name__}"
        )


def refuse_offer(
    experts: Experts, context: object, instead: str = "make them without arms"
) -> None:
    """Refuses arms that come with the call, where these experts have their own."""
    if isinstance(context, AnyOffer):
        kind = type(experts).__name__
        raise InvalidInput(
            f"{kind} of fixed arms cannot choose among arms that come with the call: "
            f"{instead}"
        )


def arms_needed(experts: Experts) -> InvalidInput:
    """The refusal of a context without arms, where experts were made without arms."""
    kind = type(experts).__name__
    also = "in a stack give these the fixed arms of the others, or none to all"
    return InvalidInput(
        f"{kind} made without arms need them with the call: decide(context, arms=…); "
        f"{also}"
    )


def failure_of(source: str, error: Exception) -> ExpertFailed:
    """ExpertFailed for an exception that the user's code raised, in one sentence.

    >>> print(failure_of("expert 'net'", KeyError("hour")))
    expert 'net' raised KeyError: 'hour'
    """
    lines = str(error).splitlines()
    first = ""
    if lines:
        first = lines[0]
    return ExpertFailed(f"{source} raised {type(error).__name__}: {first:.200}")


def as_floats(values: object, *, source: str) -> Array:
    """`values` from outside code as floats, None as NaN; what is no real number is
    ExpertFailed, in one sentence."""
    try:
        floats = np.asarray(values)
        # numpy would silently drop the imaginary part, and convert dates to numbers of
        # days
        if floats.dtype.kind in "cmM":
            raise TypeError(f"{floats.dtype} is no real number")
        if floats.dtype in _FLOATS:
            return floats
        return floats.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        got = f"{type(values).__name__}: {error}"
        raise ExpertFailed(
            f"{source} must give numbers; got {got:.200}", kind="values"
        ) from error


def as_predictions(values: object, *, n_experts: int, source: str) -> Array:
    """`values` as floats (…, N, K) from outside code, or ExpertFailed in one
    sentence."""
    predictions = as_floats(values, source=source)
    _check_shape(predictions, n_experts, source)
    return predictions


def _check_shape(predictions: Array, n_experts: int, source: str) -> None:
    """Refuse predictions that are not (…, n_experts, K) with at least one arm."""
    shape = predictions.shape
    if shape[-2:-1] != (n_experts,) or shape[-1] == 0:
        wanted = f"predictions of shape (…, {n_experts}, K)"
        raise ExpertFailed(f"{source} must give {wanted}; got {shape}", kind="shape")


def no_infinity(predictions: Array, *, source: str) -> Array:
    """The predictions before they are clipped, which would hide an infinite one: it is
    no mean reward."""
    if np.isinf(predictions).any():
        raise ExpertFailed(
            f"{source} must give finite numbers; got an infinite one", kind="values"
        )
    return predictions


def checked_predictions(
    predictions: object, log_weights: Array, eligible: Bools | None
) -> Array:
    """Predictions (…, N, K) in a type that the arithmetic knows, with batch axes and a
    mask that fit."""
    checked = _as_known_type(predictions, log_weights.shape[-1], eligible)
    # quick test: the sum of squares is infinite or NaN if any prediction is
    if not np.vdot(checked, checked) < np.inf:
        no_infinity(checked, source="experts")
    if checked.ndim > 2 or log_weights.ndim > 1:
        mask_axes = ()
        if eligible is not None:
            mask_axes = eligible.shape[:-1]
        _check_axes(log_weights.shape[:-1], checked.shape[:-2], mask_axes)
    return checked


def _check_axes(*axes: tuple[int, ...]) -> None:
    try:
        np.broadcast_shapes(*axes)
    except ValueError as error:
        raise InvalidInput(
            f"batch axes of state, predictions and eligible must fit; {error}"
        ) from error


def _as_known_type(
    predictions: object, n_experts: int, eligible: Bools | None
) -> Array:
    """Predictions (…, N, K) in a type that the arithmetic knows, with a mask that
    fits."""
    if isinstance(predictions, np.ndarray) and predictions.dtype in _FLOATS:
        checked = predictions
    else:
        checked = as_floats(predictions, source="experts")
    shape = checked.shape
    if shape[-2:-1] != (n_experts,) or shape[-1] == 0:
        _check_shape(checked, n_experts, "experts")
    if eligible is None:
        return checked
    if eligible.shape[-1:] != shape[-1:]:
        raise InvalidInput(
            f"eligible must be a mask of the {shape[-1]} arms; got shape "
            f"{eligible.shape}"
        )
    if eligible.ndim > 1 and checked.ndim > 2:
        _check_axes(shape[:-2], eligible.shape[:-1])
    return checked


_FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
