"""Experts: a bank of N predictors of the mean reward of every arm."""

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
"""Predictions (…, N, K), propensities (…, K), and whether some expert made no
prediction for an eligible arm."""


class Experts:
    """Base class for N experts. A subclass defines `names` and `predict`; the other
    methods are defaults for fixed experts.

    >>> class Coin(Experts):
    ...     names = ("fair", "loaded")
    ...     def predict(self, state, context):
    ...         return np.array([[0.5, 0.5], [0.2, 0.8]])
    >>> Coin().advise((), None)[1]
    array([[0.5, 0.5],
           [0. , 1. ]])
    """

    # Declare properties for the type checker. At run time these are plain attributes,
    # which frozen dataclasses can override.
    if TYPE_CHECKING:

        @property
        @abstractmethod
        def names(self) -> Sequence[str]:
            """One name for each of the N experts, all different."""

        @property
        def arms(self) -> Sequence[str] | None:
            """The names of the arms, if the bank knows them."""
            return None

        @property
        def learns(self) -> bool:
            """Whether `update` changes the state. It may then modify the given state in
            place."""
            return False

        @property
        def wraps(self) -> bool:
            """Whether it calls other banks and learns what they learn."""
            return False

        @property
        def takes_offers(self) -> bool:
            """Whether it accepts an `Offer` in place of a context, if arms are passed
            in the call; `predict` then returns (…, N, K_t)."""
            return False

        @property
        def version(self) -> str | None:
            """The user's version of the trained models, if given."""
            return None

        @property
        def unversioned(self) -> bool:
            """Whether some models inside are identified only by name and class."""
            return False
    else:
        arms = version = None
        learns = wraps = unversioned = takes_offers = False

    def init(self, shape: tuple[int, ...] = ()) -> State:
        """Return the state before any reward; fixed experts have none."""
        return ()

    def predict(self, state: State, context: Context) -> Array:
        """Predict mean rewards f_i(x, a) with shape (…, N, K). NaN means no prediction
        for this arm; a row of NaN means no prediction for any arm."""
        raise InvalidInput(
            f"experts must have the method predict; {type(self).__name__} has none: "
            "add it"
        )

    def advise(
        self, state: State, context: Context, eligible: Bools | None = None
    ) -> tuple[Array, Array]:
        """Return predictions and ballots, both (…, N, K). In a ballot, the arms with
        the largest prediction share the expert's vote."""
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
        """Do `advise` and `weights.mix` in one compiled call, or return None if there
        is no compiled code.

        Override this method only to make it faster.
        """
        if type(self).advise is not Experts.advise or kernels.compiled() is None:
            return None
        predictions = self.predict(state, context)
        checked = checked_predictions(predictions, log_weights, eligible)
        odds, is_asleep = vote(log_weights, checked, gamma, eligible)
        return checked, odds, is_asleep

    def update(self, state: State, decision: Decision, reward: Real) -> State:
        """Return the state after one reward. Raise before the first write, so that a
        failed update changes nothing."""
        return state

    def revise(
        self, state: State, decision: Decision, before: float, reward: float
    ) -> State:
        """Return the state after the reward of a decision was corrected from `before`
        to `reward`. By default, the experts learn the corrected reward in addition."""
        return self.update(state, decision, reward)

    def begin_log(self, state: State) -> State:
        """Return the state before learning a log of another policy; by default the same
        state."""
        return state

    def end_log(self, state: State) -> State:
        """Return the state after the last row of the log, before live rewards."""
        return state

    def follows_log(self, state: State) -> Bools:
        """Return which experts (N,) vote like the logging policy if a log has little
        data."""
        return np.zeros(len(self.names), dtype=np.bool_)

    def online(self) -> Bools:
        """Return which experts (N,) learn online: they predict each row of a log before
        they learn it."""
        return np.full(len(self.names), self.learns)

    def notes(self, state: State) -> tuple[str, ...]:
        """Return sentences about the experts' votes, for explanations (of a state
        without batch axes)."""
        return ()

    def prediction_bounds(self, state: State) -> Array | None:
        """Return the lower and upper limit (N, 2) to which predictions are clipped,
        ±inf for unclipped experts; None if none is clipped."""
        return None

    def with_arms(self, state: State, arms: Sequence[str]) -> "tuple[Experts, State]":
        """Return this bank and its state with further arms, which have no data yet,
        appended."""
        raise InvalidInput(
            f"experts must support additional arms; {type(self).__name__} have a "
            "fixed set of arms"
        )


def check_bank(what: str, experts: object) -> None:
    """Raise unless the object is an expert bank."""
    if not isinstance(experts, Experts):
        raise InvalidInput(
            f"{what} must be a bank of experts (use od.Experts as base class); got "
            f"{type(experts).__name__}"
        )


def refuse_offer(
    experts: Experts, context: object, instead: str = "make them without arms"
) -> None:
    """Raise if the call has its own arms although the experts were made for fixed
    arms."""
    if isinstance(context, AnyOffer):
        kind = type(experts).__name__
        raise InvalidInput(
            f"{kind} of fixed arms cannot choose among arms that are passed in the "
            f"call: {instead}"
        )


def arms_needed(experts: Experts) -> InvalidInput:
    """Return the error for a context without arms if experts were made without arms."""
    kind = type(experts).__name__
    also = "in a stack, give either all or none of the experts fixed arms"
    return InvalidInput(
        f"{kind} created without arms need them in the call: decide(context, arms=…); "
        f"{also}"
    )


def failure_of(source: str, error: Exception) -> ExpertFailed:
    """Return an ExpertFailed that describes an exception of the user's code in one
    sentence.

    >>> print(failure_of("expert 'net'", KeyError("hour")))
    expert 'net' raised KeyError: 'hour'
    """
    lines = str(error).splitlines()
    first = ""
    if lines:
        first = lines[0]
    return ExpertFailed(f"{source} raised {type(error).__name__}: {first:.200}")


def as_floats(values: object, *, source: str) -> Array:
    """Convert `values` of user code to floats, None to NaN. Raise ExpertFailed for
    values that are not real numbers."""
    try:
        floats = np.asarray(values)
        # numpy would silently drop the imaginary part, and convert dates to numbers of
        # days.
        if floats.dtype.kind in "cmM":
            raise TypeError(f"{floats.dtype} is not a real number")
        if floats.dtype in _FLOATS:
            return floats
        return floats.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        got = f"{type(values).__name__}: {error}"
        raise ExpertFailed(
            f"{source} must return numbers; got {got:.200}", kind="values"
        ) from error


def as_predictions(values: object, *, n_experts: int, source: str) -> Array:
    """Convert `values` of user code to predictions (…, N, K), or raise ExpertFailed."""
    predictions = as_floats(values, source=source)
    _check_shape(predictions, n_experts, source)
    return predictions


def _check_shape(predictions: Array, n_experts: int, source: str) -> None:
    """Raise unless predictions have shape (…, n_experts, K) with at least one arm."""
    shape = predictions.shape
    if shape[-2:-1] != (n_experts,) or shape[-1] == 0:
        wanted = f"predictions of shape (…, {n_experts}, K)"
        raise ExpertFailed(f"{source} must return {wanted}; got {shape}", kind="shape")


def no_infinity(predictions: Array, *, source: str) -> Array:
    """Return the predictions, or raise if one is infinite, because clipping would hide
    the error."""
    if np.isinf(predictions).any():
        raise ExpertFailed(
            f"{source} must return finite numbers; got an infinite one", kind="values"
        )
    return predictions


def checked_predictions(
    predictions: object, log_weights: Array, eligible: Bools | None
) -> Array:
    """Return predictions (…, N, K) as float32 or float64, after checking their batch
    axes and the mask."""
    checked = _as_known_type(predictions, log_weights.shape[-1], eligible)
    # Quick test: the sum of squares is infinite or NaN if any prediction is.
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
    """Return predictions (…, N, K) as float32 or float64, after checking the mask."""
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
