"""Problem: a world, its experts, and the features that policies receive."""

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
    """A world and its experts. `truth` is the number of the right expert, or None if no
    expert is always right.

    Policies over features receive `features[context]`, or the context itself if
    `features` is None. `columns` are the names of the features, empty if there are
    none. `contexts` is a sample of contexts (None if they are not independent draws),
    and `prior` contains N probabilities of the experts (None: uniform). If arms are
    passed in each call, `arm_columns` are the names of their features.
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
        """The prior probability of the right expert. It is 1/N if the prior is uniform,
        or if no expert is right."""
        if self.prior is None or self.truth is None:
            return 1 / len(self.experts.names)
        return float(self.prior[self.truth])

    @property
    def table(self) -> Array:
        """The predictions (X, N, K), if the experts are a table."""
        if not isinstance(self.experts, TableExperts):
            raise InvalidInput(
                f"experts must be a table; got {type(self.experts).__name__}"
            )
        return self.experts.table

    def build(self, folder: Path, steps: int) -> BuildContext:
        """Return the context in which a policy for this problem is built: the world's
        experts, features and horizon."""
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
        """Return the policy with this problem's features as its context. The features
        get names if the policy reads features by name."""
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
    """Return a problem with predictions (X, N, K) whose first expert is right. The
    features are a one-hot code of the X contexts."""
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
    """Return names for columns without names.

    >>> column_names(2)
    ('x0', 'x1')
    """
    return tuple(f"{word}{i}" for i in range(n))


@dataclass(frozen=True, eq=False)
class OnFeatures(PolicyWrapper):
    """A policy that receives features[context], or the context's own numbers if
    `features` is None. If `columns` has names, it receives them by name."""

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
