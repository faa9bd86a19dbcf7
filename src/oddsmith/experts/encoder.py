"""Encoded: experts that read numbers, combined with a schema that encodes raw
contexts."""

from dataclasses import dataclass

from oddsmith.contexts.offers import encoded_offer
from oddsmith.contexts.schema import Schema
from oddsmith.core import kernels
from oddsmith.core.arrays import Array, Bools, Real
from oddsmith.core.decision import Context, Decision, State
from oddsmith.core.errors import InvalidInput
from oddsmith.core.experts import AdviceAndOdds, Experts, arms_needed, check_bank
from oddsmith.core.offer import AnyOffer, Offer
from oddsmith.experts.wrapper import Wrapper

__all__ = ["Encoded"]


@dataclass(frozen=True)
class Encoded(Wrapper):
    """Pass `schema.encode(context)` to `experts`, so that dicts and rows of data frames
    become numbers.

    If arms are passed in the call, each arm gets a row: the numbers of the context,
    followed by the numbers of the arm's features, encoded by `arm_schema`.

    >>> import numpy as np
    >>> from oddsmith.experts.linear import LinearExperts
    >>> bank = LinearExperts(np.array([[[0.1], [0.2]]]), link="identity")
    >>> Encoded(bank, Schema(numbers=("visits",))).predict(
    ...     (), {"visits": 3, "page": "home"}
    ... )
    array([[0.3, 0.6]])
    """

    experts: Experts
    schema: Schema | None
    arm_schema: Schema | None = None

    def __post_init__(self) -> None:
        check_bank("experts", self.experts)
        for schema in (self.schema, self.arm_schema):
            if not isinstance(schema, Schema | None):
                raise InvalidInput(
                    f"schema must be a Schema; got {type(schema).__name__}"
                )
        if self.schema is None and self.arm_schema is None:
            raise InvalidInput(
                "schema must be a Schema, of contexts or of arms; got none"
            )

    def predict(self, state: State, context: Context) -> Array:
        return self.experts.predict(state, self._encoded(context))

    def advise(
        self, state: State, context: Context, eligible: Bools | None = None
    ) -> tuple[Array, Array]:
        return self.experts.advise(state, self._encoded(context), eligible)

    def advise_and_mix(
        self,
        state: State,
        context: Context,
        log_weights: Array,
        gamma: Real,
        eligible: Bools | None = None,
    ) -> AdviceAndOdds | None:
        """Call the compiled function of the inner bank. If it has none, return None,
        because encoding the context a second time would cost more."""
        is_compiled = kernels.compiled() is not None
        if not is_compiled or type(self.experts).advise is not Experts.advise:
            return None
        encoded = self._encoded(context)
        return self.experts.advise_and_mix(state, encoded, log_weights, gamma, eligible)

    def update(self, state: State, decision: Decision, reward: Real) -> State:
        return self.experts.update(state, self._with_numbers(decision), reward)

    def revise(
        self, state: State, decision: Decision, before: float, reward: float
    ) -> State:
        encoded = self._with_numbers(decision)
        return self.experts.revise(state, encoded, before, reward)

    def _with_numbers(self, decision: Decision) -> Decision:
        """Return the decision with its encoded context."""
        encoded = self._encoded(decision.question)
        if isinstance(encoded, Offer):
            return decision._replace(context=None, features=encoded.features)
        return decision._replace(context=encoded)

    def _encoded(self, context: Context) -> Context:
        if isinstance(context, AnyOffer):
            return encoded_offer(context, self.schema, self.arm_schema)
        if self.schema is None:
            raise arms_needed(self)
        return self.schema.encode(context)
