"""Input for building the policies and experts of a policy file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from oddsmith.contexts.schema import Schema
from oddsmith.core.arrays import Array
from oddsmith.core.errors import InvalidInput
from oddsmith.core.experts import Experts
from oddsmith.experts.guard.pace import LONGEST_MS
from oddsmith.experts.stack import stack

__all__ = ["Bank", "BuildContext", "bank_of"]


class Bank(NamedTuple):
    """The experts of one table, and their shares of the table's prior (N,)."""

    experts: Experts
    shares: Array


def bank_of(experts: Experts) -> Bank:
    """Return a bank whose experts have equal shares of the table's prior."""
    n = len(experts.names)
    return Bank(experts, np.full(n, 1 / n))


@dataclass(frozen=True, eq=False)
class BuildContext:
    """The input for building a policy: the file's folder, the arms, the schema of
    contexts, and the experts by table.

    `arms` are None if they are passed in each call; `arm_schema` is then the schema of
    their features. Four fields are known only in a simulated world: `steps`, `dim` (the
    number of values in a context), `rows_per_arm`, and `contexts` (a sample). If
    `drifts` is true, policies include learners with a short memory. `timeout_ms` is the
    time limit of isolated experts.
    """

    folder: Path
    arms: tuple[str, ...] | None
    schema: Schema | None = None
    banks: Mapping[str, Bank] = field(default_factory=dict)
    steps: int | None = None
    dim: int = 0
    rows_per_arm: bool = False
    contexts: Any = None
    arm_schema: Schema | None = None
    drifts: bool = False
    timeout_ms: float = LONGEST_MS

    @property
    def in_world(self) -> bool:
        """Return whether the policy is built for a simulated world."""
        return self.steps is not None

    @property
    def experts(self) -> Experts:
        """Return all banks combined into one."""
        parts = [bank.experts for bank in self.banks.values()]
        if not parts:
            raise InvalidInput(
                "experts must be given, in tables [experts.NAME]; got none"
            )
        try:
            return parts[0] if len(parts) == 1 else stack(*parts)
        except InvalidInput as error:
            raise InvalidInput(f"experts: {error}") from error
