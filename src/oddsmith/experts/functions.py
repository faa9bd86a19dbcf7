"""FunctionExperts: any Python function of a context, or of a context and an arm."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from oddsmith.core.arrays import Array
from oddsmith.core.contexts import is_batch, length, one, rows
from oddsmith.core.decision import Context, State
from oddsmith.core.errors import ExpertFailed, InvalidInput, OddsmithError
from oddsmith.core.experts import (
    Experts,
    arms_needed,
    as_floats,
    as_predictions,
    failure_of,
    refuse_offer,
)
from oddsmith.core.names import check_names, wider_names
from oddsmith.core.offer import AnyOffer, Offer

__all__ = ["FunctionExperts"]

_POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)
_TAKES = {
    2: "(context) or (context, arm)",
    3: "(context), (context, arm) or (context, arm, features)",
}


@dataclass(frozen=True)
class FunctionExperts(Experts):
    """Experts from functions: `f(context, arm)` returns one number, `f(context)`
    returns all K numbers.

    `arm` is the arm's name. Without `arms`, the arms are passed in each call, and
    `f(context, arm, features)` receives the features of each (None if there are none).
    A single context is a number, a string, a dict, a 1-D array or a row of a data
    frame; a list, a 2-D array or a data frame is a batch, and each function is called
    once per row. Rows of data frames become dicts, with None for missing values. An
    exception becomes ExpertFailed, with the function's name and the first line.

    >>> def night_owl(context, arm):
    ...     return context["hour"] / 24 if arm == "late" else 0.4
    >>> FunctionExperts({"night owl": night_owl}, arms=["early", "late"]).predict(
    ...     (), {"hour": 18}
    ... )
    array([[0.4 , 0.75]])
    """

    functions: Mapping[str, Callable[..., object]]
    arms: Sequence[str] | None = None
    _arities: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.functions, Mapping):
            raise InvalidInput(
                "functions must be a dict of name: function; got "
                f"{type(self.functions).__name__}"
            )
        check_names("names", self.functions)
        allowed: Sequence[int] = (1, 2, 3)
        if self.arms is not None:
            allowed = (1, 2)
            object.__setattr__(self, "arms", check_names("arms", self.arms))
        arities = {name: _arity(function) for name, function in self.functions.items()}
        for name, arity in arities.items():
            if arity not in allowed:
                raise InvalidInput(
                    f"functions must take {_TAKES[len(allowed)]}; got {name!r}, which "
                    "takes neither"
                )
        object.__setattr__(self, "functions", dict(self.functions))
        object.__setattr__(self, "_arities", arities)

    @property
    def names(self) -> Sequence[str]:
        return tuple(self.functions)

    def split(self) -> tuple["FunctionExperts", ...]:
        """Return one bank per function, so that a guard can handle their failures
        separately."""
        return tuple(
            FunctionExperts({name: function}, self.arms)
            for name, function in self.functions.items()
        )

    def with_arms(self, state: State, arms: Sequence[str]) -> tuple[Experts, State]:
        """Return the same functions for further arms. A function that returns all K
        numbers makes no predictions for the new ones."""
        if self.arms is None or 1 in self._arities.values():
            return super().with_arms(state, arms)
        names = wider_names(self.arms, arms)
        return FunctionExperts(self.functions, names), state

    @property
    def takes_offers(self) -> bool:
        return self.arms is None

    def predict(self, state: State, context: Context) -> Array:
        if isinstance(context, AnyOffer):
            if self.arms is not None:
                refuse_offer(self, context)
            predictions = [self._row(offer) for offer in context.offers]
            if context.lead:
                return np.stack(predictions)
            return predictions[0]
        if self.arms is None:
            raise arms_needed(self)
        arms = tuple(self.arms)
        if type(context) is dict or not is_batch(context):
            return self._row(Offer(one(context), arms))
        contexts = rows(context)[: length(context)]
        return np.stack([self._row(Offer(row, arms)) for row in contexts])

    def _row(self, offer: Offer) -> Array:
        functions = self.functions.items()
        answer = [
            self._predictions(name, function, offer) for name, function in functions
        ]
        return as_predictions(answer, n_experts=len(answer), source="FunctionExperts")

    def _call(self, name: str, function: Callable[..., object], offer: Offer) -> object:
        """Return the answer of a function for all arms."""
        context = one(offer.context)
        arity = self._arities[name]
        if arity == 1:
            return function(context)
        if arity == 2:
            return [function(context, arm) for arm in offer.arms]
        features = offer.features or {}
        return [function(context, arm, features.get(arm)) for arm in offer.arms]

    def _predictions(
        self, name: str, function: Callable[..., object], offer: Offer
    ) -> Array:
        try:
            answer = self._call(name, function, offer)
        except OddsmithError:
            raise
        except Exception as error:
            raise failure_of(f"expert {name!r}", error) from error
        values = as_floats(answer, source=f"expert {name!r}")
        if values.shape != (len(offer.arms),):
            wanted = f"{len(offer.arms)} numbers, one per arm"
            raise ExpertFailed(
                f"expert {name!r} must return {wanted}; got shape {values.shape}",
                kind="shape",
            )
        return values


def _arity(function: object) -> int:
    """Return the number of required positional arguments, or -1 if it is not a function
    or has no signature."""
    if not callable(function):
        return -1
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # some built-in functions have no signature
        return -1
    arity = 0
    for parameter in parameters:
        is_positional = parameter.kind in _POSITIONAL
        arity += is_positional and parameter.default is parameter.empty
    return arity
