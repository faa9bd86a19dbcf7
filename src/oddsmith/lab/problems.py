"""Problem: a world, experts for it, and the features that policies receive."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.recfunctions import unstructured_to_structured

from oddsmith.contexts.schema import Schema
from oddsmith.core.arrays import Array, Bools, Real
from oddsmith.core.decision import Context, Decision, Odds, State, Step
from oddsmith.core.errors import InvalidInput
from oddsmith.core.experts import Experts
from oddsmith.core.policy import Policy
from oddsmith.experts.tables import TableExperts
from oddsmith.files.build import BuildContext, bank_of
from oddsmith.lab.offers import OnNames
from oddsmith.lab.worlds.tables import TableWorld
from oddsmith.lab.worlds.world import World
from oddsmith.policies.wrapper import PolicyWrapper

__all__ = ["OnFeatures", "Problem", "column_names", "table_problem"]

_MOST = 1000  # maximum number of contexts of a table with one indicator column each


@dataclass(frozen=True, eq=False)
class Problem:
    """A world and experts for it; `truth` is the number of the expert that is right
    (None: none, or not always).

    Policies over features receive `features[context]`, or the context itself where
    `features` is None; `columns` are their names, none where there are no features.
    `contexts` is a sample of them (None: they are not independent draws), and `prior` N
    probabilities of the experts (None: uniform). Where arms come with the call,
    `arm_columns` are the names of their features.
    """

    world: World
    experts: Experts
    truth: int | None = None
    features: Array | None = None
    columns: tuple[str, ...] = ()
    contexts: Any = None
    prior: Any = None
    arm_columns: tuple[str, ...] = ()

    @property
    def n_arms(self) -> int:
        return self.world.n_arms

    @property
    def rows_per_arm(self) -> bool:
        """Whether a context has a row of features for each arm."""
        is_own_features = self.features is None and bool(self.columns)
        return is_own_features and not self.world.makes_offers

    @property
    def true_prior(self) -> float:
        """The prior's probability of the truth; 1/N where it is uniform, or no expert
        is right."""
        if self.prior is None or self.truth is None:
            return 1 / len(self.experts.names)
        return float(self.prior[self.truth])

    @property
    def table(self) -> Array:
        """The predictions (X, N, K) of experts that are a table."""
        if not isinstance(self.experts, TableExperts):
            raise InvalidInput(
                f"experts must be a table; got {type(self.experts).__name__}"
            )
        return self.experts.table

    def build(self, folder: Path, steps: int) -> BuildContext:
        """The context in which a policy is built for this problem: the world's experts,
        features and horizon."""
        arms = None
        if not self.world.makes_offers:
            arms = column_names(self.n_arms, "")
        schema = None
        if self.columns:
            schema = Schema(self.columns)
        arm_schema = None
        if self.arm_columns:
            arm_schema = Schema(self.arm_columns)
        banks = {"world": bank_of(self.experts)}
        return BuildContext(
            folder,
            arms,
            schema,
            banks,
            steps,
            rows_per_arm=self.rows_per_arm,
            contexts=self.contexts,
            arm_schema=arm_schema,
        )

    def adapt(
        self,
        policy: Policy,
        *,
        with_names: bool = False,
        with_arm_names: bool = False,
    ) -> Policy:
        """The policy on this problem's features: contexts become features, and they and
        those of arms get names where the policy reads them by name."""
        columns = self.columns if with_names else ()
        if self.world.makes_offers:
            arm_columns = self.arm_columns if with_arm_names else ()
            if columns or arm_columns:
                return OnNames(policy, columns, arm_columns)
            return policy
        has_plain = self.features is None and not with_names
        if not self.columns or has_plain:
            return policy
        return OnFeatures(policy, self.features, columns)


def table_problem(
    table: Array,
    world: World | None = None,
    *,
    truth: int | None = 0,
    contexts: Any = None,
    prior: Any = None,
) -> Problem:
    """Experts' predictions (X, N, K), the first of them true; the features are a
    one-hot code of the X contexts."""
    n = len(table)
    features = None
    columns: tuple[str, ...] = ()
    if n <= _MOST:
        features = np.eye(n)
        columns = column_names(n, "context")
    if world is None:
        world = TableWorld(table[:, 0])
    bank = TableExperts(table)
    return Problem(world, bank, truth, features, columns, contexts, prior)


def column_names(n: int, word: str = "x") -> tuple[str, ...]:
    """Names for columns that have none.

    >>> column_names(2)
    ('x0', 'x1')
    """
    return tuple(f"{word}{i}" for i in range(n))


@dataclass(frozen=True, eq=False)
class OnFeatures(PolicyWrapper):
    """A policy that receives features[context] (None: the context's own numbers), by
    name if `columns` has names."""

    policy: Policy
    features: Array | None
    columns: tuple[str, ...] = ()

    def odds(
        self,
        state: State,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Odds:
        features = self._features_of(context)
        return self.policy.odds(state, features, eligible=eligible, step=step)

    def update(self, state: State, decision: Decision, reward: Real) -> State:
        features = self._features_of(decision.context)
        return self.policy.update(state, decision._replace(context=features), reward)

    def _features_of(self, context: Context) -> Any:
        numbers = context
        if self.features is not None:
            numbers = self.features[context]
        if not self.columns:
            return numbers
        fields = [(name, np.float64) for name in self.columns]
        dtype = np.dtype(fields)
        return unstructured_to_structured(numbers, dtype)
