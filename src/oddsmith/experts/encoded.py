"""Encoded: experts that read numbers, asked with raw contexts through a schema."""

from dataclasses import dataclass

from oddsmith import kernels
from oddsmith.arrays import Array, Bools, Real
from oddsmith.decision import Context, Decision, State
from oddsmith.errors import InvalidInput
from oddsmith.experts.base import Experts, Fused, Wrapper, check_bank
from oddsmith.experts.schema import Schema

__all__ = ["Encoded"]


@dataclass(frozen=True)
class Encoded(Wrapper):
    """`experts` that are asked about `schema.encode(context)`: dicts and rows of data frames become their numbers.

    >>> import numpy as np
    >>> from oddsmith.experts.linear import LinearExperts
    >>> bank = LinearExperts(np.array([[[0.1], [0.2]]]), link="identity")
    >>> Encoded(bank, Schema(numbers=("visits",))).predict((), {"visits": 3, "page": "home"})
    array([[0.3, 0.6]])
    """

    experts: Experts
    schema: Schema

    def __post_init__(self) -> None:
        check_bank("experts", self.experts)
        if not isinstance(self.schema, Schema):
            raise InvalidInput(f"schema must be a Schema; got {type(self.schema).__name__}")

    def predict(self, state: State, context: Context) -> Array:
        return self.experts.predict(state, self.schema.encode(context))

    def advise(self, state: State, context: Context, eligible: Bools | None = None) -> tuple[Array, Array]:
        return self.experts.advise(state, self.schema.encode(context), eligible)

    def fused(
        self, state: State, context: Context, log_weights: Array, gamma: Real, eligible: Bools | None = None
    ) -> Fused | None:
        """The compiled call of the bank inside; a bank that has none is not worth encoding the context twice."""
        if kernels.compiled() is None or type(self.experts).advise is not Experts.advise:
            return None
        return self.experts.fused(state, self.schema.encode(context), log_weights, gamma, eligible)

    def update(self, state: State, decision: Decision, reward: Real) -> State:
        return self.experts.update(state, decision._replace(context=self.schema.encode(decision.context)), reward)
