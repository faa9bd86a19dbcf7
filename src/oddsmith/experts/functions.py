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

_TAKES = {
    2: "(context) or (context, arm)",
    3: "(context), (context, arm) or (context, arm, features)",
}


@dataclass(frozen=True)
class FunctionExperts(Experts):
    """Experts from functions: `f(context, arm)` gives one number, `f(context)` gives
    all K of them.

    `arm` is the arm's name. Without `arms`, they come with the call, and `f(context,
    arm, features)` may read what is known of each (None if nothing is). One context is
    a number, a string, a dict, a 1-D array or a row of a data frame; a list, a 2-D
    array or a data frame is a batch, and each function is called once per row. Rows of
    data frames are dicts, with None where a value is missing. What a function raises is
    ExpertFailed, with its name and the first line.

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
        object.__setattr__(
            self, "arms", None if self.arms is None else check_names("arms", self.arms)
        )
        object.__setattr__(self, "functions", dict(self.functions))
        object.__setattr__(
            self,
            "_arities",
            {name: _arity(function) for name, function in self.functions.items()},
        )
        allowed = (1, 2) if self.arms is not None else (1, 2, 3)
        if wrong := [
            name for name, arity in self._arities.items() if arity not in allowed
        ]:
            raise InvalidInput(
                f"functions must take {_TAKES[len(allowed)]}; got {wrong[0]!r} which "
                "takes neither"
            )

    @property
    def names(self) -> Sequence[str]:
        return tuple(self.functions)

    def split(self) -> tuple["FunctionExperts", ...]:
        """One bank for each function, so that a guard can tell them apart."""
        return tuple(
            FunctionExperts({name: function}, self.arms)
            for name, function in self.functions.items()
        )

    def with_arms(self, state: State, arms: Sequence[str]) -> tuple[Experts, State]:
        """The same functions, asked about further arms too; one that gives all K
        numbers knows the old arms only."""
        if self.arms is None or 1 in self._arities.values():
            return super().with_arms(state, arms)
        return FunctionExperts(self.functions, wider_names(self.arms, arms)), state

    @property
    def takes_offers(self) -> bool:
        return self.arms is None

    def predict(self, state: State, context: Context) -> Array:
        if isinstance(context, AnyOffer):
            if self.arms is not None:
                refuse_offer(self, context)
            predictions = [self._row(offer) for offer in context.offers]
            return np.stack(predictions) if context.lead else predictions[0]
        if self.arms is None:
            raise arms_needed(self)
        if type(context) is dict or not is_batch(context):
            return self._row(Offer(one(context), tuple(self.arms)))
        arms = tuple(self.arms)
        return np.stack(
            [self._row(Offer(row, arms)) for row in rows(context)[: length(context)]]
        )

    def _row(self, offer: Offer) -> Array:
        answer = [
            self._predictions(name, function, offer)
            for name, function in self.functions.items()
        ]
        return as_predictions(answer, n_experts=len(answer), source="FunctionExperts")

    def _called(
        self, name: str, function: Callable[..., object], offer: Offer
    ) -> object:
        context, features = one(offer.context), offer.features or {}
        if self._arities[name] == 3:
            return [function(context, arm, features.get(arm)) for arm in offer.arms]
        return (
            [function(context, arm) for arm in offer.arms]
            if self._arities[name] == 2
            else function(context)
        )

    def _predictions(
        self, name: str, function: Callable[..., object], offer: Offer
    ) -> Array:
        try:
            answer = self._called(name, function, offer)
        except OddsmithError:
            raise
        except Exception as error:
            raise failure_of(f"expert {name!r}", error) from error
        values = as_floats(answer, source=f"expert {name!r}")
        if values.shape != (len(offer.arms),):
            wanted = f"{len(offer.arms)} numbers, one per arm"
            raise ExpertFailed(
                f"expert {name!r} must give {wanted}; got shape {values.shape}",
                kind="shape",
            )
        return values


def _arity(function: object) -> int:
    """How many positional arguments a function requires, or -1 for what is no
    function."""
    if not callable(function):
        return -1
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # built-in functions may have no signature
        return -1
    places = [
        p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    return len([p for p in places if p.default is p.empty])
